"""A ranker in a notebook: scikit-learn's diagram, and under it what was learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import estimator_html_repr

from rankine.core.safe_text import Html, facts_table, name_of

__all__ = ["ShownAsHtml"]


class ShownAsHtml:
    """Gives estimators their HTML form."""

    def _html_repr(self) -> str:
        """Parameters always; the training and the heaviest weights once there are some."""
        diagram: str = estimator_html_repr(self)
        return diagram + _fitted(self) if hasattr(self, "coef_") else diagram


def _fitted(ranker: Any) -> Html:
    from rankine.model.show import weights_html

    training, solution, coef = ranker.training_, ranker.solution_, ranker.coef_
    names = getattr(ranker, "feature_names_in_", None)
    used = np.flatnonzero(coef)
    shown = [str(j) if names is None else str(names[j]) for j in used.tolist()]
    rows: list[tuple[Any, Any]] = [
        ("trained on", f"{training['rows']:,} rows of {training['queries']:,} queries"),
        ("took", f"{ranker.n_iter_:,} steps, {training['seconds']:,} s, {solution.stop_reason}"),
        ("weights", f"{len(used):,} of {len(coef):,} features"),
    ]
    certificate = ", ".join(f"{key} {value:.4g}" for key, value in solution.certificate.items())
    if certificate:
        rows.append(("certificate", name_of(certificate, 200)))
    rows.append(("heaviest weights", weights_html(shown, coef[used])))
    return facts_table(f"fitted {type(ranker).__name__}", rows)
