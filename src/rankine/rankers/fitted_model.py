"""The model of a fitted ranker and its metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from rankine.core.specs import MissingValues
from rankine.model import LinearModel
from rankine.rankers.provenance import TIMES, pack_trace, plain

if TYPE_CHECKING:
    from rankine.model.explain import Explanation
    from rankine.model.training_state import TrainingState
    from rankine.solvers.base import Solution
    from rankine.transforms.scaling import Scaling


class ModelMixin:
    """``to_model``, ``explain`` and ``explain_pair``."""

    system: ClassVar[str]
    coef_: NDArray[np.float64]
    n_iter_: int
    solution_: Solution
    scaling_: Scaling
    evals_: list[dict[str, float]]
    training_: dict[str, Any]
    log_record_: Any
    _fitted_parameters: dict[str, Any]

    def to_model(self) -> LinearModel:
        """Return the fitted weights as a savable model; equal trainings give equal files."""
        check_is_fitted(self, "coef_")
        names = getattr(self, "feature_names_in_", None)
        model = LinearModel.from_weights(
            self.coef_,
            feature_names=self._model_feature_names(names),
            transforms=self._transforms(),
            metric=self._fitted_parameters["metric"],
            parameters={"ranker": self.system, **self._fitted_parameters},
            provenance=self._provenance(),
        )
        covariance = getattr(self, "covariance_", None)
        model = replace(model, state=self._training_state(), covariance=covariance)
        if self.log_record_ is None:
            return model
        return self.log_record_.finish(model)

    def explain(self, x: Any) -> Explanation:
        """Explain the score of one row exactly, by the contributions of its columns."""
        from rankine.rankers.loaded import LoadedModel

        return LoadedModel(self.to_model()).explain(x)

    def explain_pair(self, a: Any, b: Any) -> Explanation:
        """Explain exactly why row ``a`` scores higher or lower than row ``b``."""
        from rankine.rankers.loaded import LoadedModel

        return LoadedModel(self.to_model()).explain_pair(a, b)

    def intervals(self, level: float = 0.95) -> Any:
        """Return the interval of every weight as a table, see ``LinearModel.intervals``.

        The ranker must have been fitted with ``intervals=True``.
        """
        return self.to_model().intervals(level)

    def _training_state(self) -> TrainingState | None:
        """Return the state, apart from weights, that a warm start continues from; usually None."""
        return None

    def _model_feature_names(self, names: Any) -> list[str] | None:
        """Return the names that the model stores for its weights."""
        return None if names is None else [str(name) for name in names]

    def _transforms(self) -> tuple[Any, ...]:
        """Return what serving must do before it applies the weights."""
        scaling, missing = self.scaling_, self.scaling_.missing
        if missing is not None and missing.rule == "mean":
            # Only the means of features with a weight are needed.
            means = zip(missing.columns, missing.values, strict=True)
            needed = {column: mean for column, mean in means if self.coef_[column] != 0}
            missing = MissingValues("mean", tuple(needed), tuple(needed.values()))
            scaling = replace(scaling, missing=missing)
        return scaling.transforms

    def _provenance(self) -> dict[str, Any]:
        """Return where the model comes from: data, run, certificate, traces.

        A model must not depend on how a stream is cut into blocks, but the steps at which a run
        reports do. One-pass learning therefore has a trace at fixed numbers of lists.
        """
        from rankine._version import __version__

        solution = self.solution_
        if "progressive_trace" in solution.extra:
            traces = {"trace": solution.extra["progressive_trace"]}
        else:
            validation = [{key: row[key] for key in ("step", "value")} for row in self.evals_]
            traces = {"trace": solution.trace, "validation": validation}
        # Times differ between equal trainings, whose files must be equal.
        training = {name: value for name, value in self.training_.items() if name not in TIMES}
        lists = training.pop("lists", None)
        return {
            "rankine": __version__,
            "training": plain(training),
            **({} if lists is None else {"lists": lists}),
            "n_iter": int(self.n_iter_),
            "stop_reason": solution.stop_reason,
            "certificate": plain(dict(solution.certificate)),
            **{name: pack_trace(rows) for name, rows in traces.items() if rows},
        }
