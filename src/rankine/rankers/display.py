"""Notebook display of a ranker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import estimator_html_repr

from rankine.transforms.scaling import describe_scaling

if TYPE_CHECKING:
    from rankine.solvers.base import Solution


class DisplayMixin:
    """Parameters always; the training and the heaviest weights once the ranker is fitted."""

    coef_: NDArray[np.float64]
    n_iter_: int
    solution_: Solution
    training_: dict[str, Any]

    def _html_repr(self) -> str:
        """Return the HTML that scikit-learn shows in notebooks."""
        from rankine.core.safe_text import html_table, name_of
        from rankine.model.show import weights_html

        diagram: str = estimator_html_repr(self)
        if not hasattr(self, "coef_"):
            return diagram
        names, sizes = self._displayed_weights()
        training, solution = self.training_, self.solution_
        rows: list[tuple[Any, Any]] = [
            ("trained on", f"{training['rows']:,} rows of {training['queries']:,} queries"),
            ("took", f"{self.n_iter_:,} steps, {training['seconds']:,} s, {solution.stop_reason}"),
            ("scaling", describe_scaling(training["scaling"])),
            ("weights", f"{np.count_nonzero(self.coef_):,} of {len(self.coef_):,}"),
        ]
        # One-pass and stochastic learning have no certificate.
        certificate = ", ".join(f"{key} {value:.4g}" for key, value in solution.certificate.items())
        if certificate:
            rows.append(("certificate", name_of(certificate, 200)))
        rows.append(("heaviest weights", weights_html(names, sizes)))
        return diagram + html_table(f"fitted {type(self).__name__}", rows)

    def _displayed_weights(self) -> tuple[list[str], NDArray[np.float64]]:
        """Return names and values of the non-zero weights."""
        names = getattr(self, "feature_names_in_", None)
        nonzero = np.flatnonzero(self.coef_)
        if names is None:
            names = np.arange(len(self.coef_))
        return [str(name) for name in names[nonzero]], self.coef_[nonzero]
