"""Models of falling regularisation: how quality follows size.

A ranker takes part in ``rankine path`` by having ``path(X, y, qid=..., eval_set=..., n_steps=...,
min_ratio=..., max_nonzero=..., callbacks=...) -> RegularizationPath``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    import msgspec

    from rankine.model import LinearModel

__all__ = ["RegularizationPath"]


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Solutions for a falling l1, largest first.

    Attributes
    ----------
    l1
        Strength of the l1 penalty of each step.
    weights
        CSR array, one row of weights per step.
    loss, objective, relative_gap
        Loss without penalties, objective, and duality gap / J(0) of each step (NaN where a ranker
        has none).
    values
        The metric on the evaluation data, or NaN without any.
    seconds
        Time of each step.
    metric, larger_is_better
        What ``values`` measures.
    feature_names, transforms, parameters
        What a model needs besides its weights.
    """

    l1: NDArray[np.float64]
    weights: sparse.csr_array
    loss: NDArray[np.float64]
    objective: NDArray[np.float64]
    relative_gap: NDArray[np.float64]
    values: NDArray[np.float64]
    seconds: NDArray[np.float64]
    metric: str
    larger_is_better: bool = True
    feature_names: tuple[str, ...] | None = None
    transforms: Sequence[msgspec.Struct] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nonzeros(self) -> NDArray[np.int64]:
        """Non-zero weights of each step."""
        return np.diff(self.weights.indptr).astype(np.int64)

    @property
    def measured(self) -> bool:
        """Whether there was evaluation data."""
        return bool(np.isfinite(self.values).any())

    def __len__(self) -> int:
        return len(self.l1)

    def coef(self, step: int) -> NDArray[np.float64]:
        """Dense weights of a step."""
        return np.asarray(self.weights[[step]].toarray(), dtype=np.float64).ravel()

    def best(self, max_nonzero: int | None = None) -> int:
        """Step with the best metric (the smallest loss without evaluation data).

        Among equals the smaller model wins. ``max_nonzero`` bounds the size of the model.
        """
        quality = -self.loss
        if self.measured:
            quality = self.values if self.larger_is_better else -self.values
        allowed = np.ones(len(self), dtype=bool)
        if max_nonzero is not None:
            allowed = self.nonzeros <= max_nonzero
        if not allowed.any():
            raise ParameterError(
                f"no step has at most {max_nonzero} non-zero weights",
                fix=f"The smallest model has {int(self.nonzeros.min())}",
            )
        return int(np.argmax(np.where(allowed, quality, -np.inf)))

    def records(self) -> list[dict[str, Any]]:
        """One plain mapping per step, for tables and JSON."""
        return [
            {
                "l1": float(self.l1[k]),
                "nonzeros": int(self.nonzeros[k]),
                "loss": float(self.loss[k]),
                "objective": float(self.objective[k]),
                "relative_gap": _number(self.relative_gap[k]),
                self.metric: _number(self.values[k]),
                "seconds": round(float(self.seconds[k]), 4),
            }
            for k in range(len(self))
        ]

    def to_model(self, step: int | None = None) -> LinearModel:
        """A step as a savable model; the best one when none is named."""
        from rankine._version import __version__
        from rankine.model import LinearModel

        chosen = self.best() if step is None else step
        record = self.records()[chosen]
        return LinearModel.from_weights(
            self.coef(chosen),
            feature_names=self.feature_names,
            transforms=tuple(self.transforms),
            metric=self.metric,
            parameters={**self.parameters, "l1": record["l1"]},
            provenance={"rankine": __version__, "path_step": chosen, "path": record},
        )


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
