"""Paths of models of falling regularisation: how quality depends on size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import ParameterError
from rankine.rankers.provenance import json_parameters

if TYPE_CHECKING:
    import msgspec

    from rankine.model import LinearModel
    from rankine.rankers.base import BaseRanker
    from rankine.rankers.fitting import FitTask


class Step(NamedTuple):
    """One model of a path, in scaled units; NaN where a ranker has no such value.

    ``largest_gain`` is the upper end of the interval of the metric's gain over no weights.
    """

    l1: float
    loss: float
    coef: NDArray[np.float64]
    seconds: float
    value: float = math.nan
    largest_gain: float = math.inf
    objective: float = math.nan
    relative_gap: float = math.nan


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
    largest_gains
        Upper end of the 95 % interval of the metric's gain over a model without weights.
    seconds
        Time of each step.
    metric, larger_is_better
        What ``values`` measures.
    feature_names, transforms, parameters, finish
        Other parts of a model; ``finish`` adds the metadata of a raw log, or is None.
    """

    l1: NDArray[np.float64]
    weights: sparse.csr_array
    loss: NDArray[np.float64]
    objective: NDArray[np.float64]
    relative_gap: NDArray[np.float64]
    values: NDArray[np.float64]
    largest_gains: NDArray[np.float64]
    seconds: NDArray[np.float64]
    metric: str
    larger_is_better: bool = True
    feature_names: tuple[str, ...] | None = None
    transforms: Sequence[msgspec.Struct] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    finish: Callable[[LinearModel], LinearModel] | None = None

    @classmethod
    def from_steps(
        cls,
        ranker: BaseRanker,
        task: FitTask,
        steps: Sequence[Step],
        feature_names: Sequence[str] | None,
        **fields: Any,
    ) -> Self:
        """Create the path of a task from its steps in scaled units."""
        from rankine.metrics import parse_metric

        weights = sparse.csr_array((0, task.source.n_features))
        if steps:
            # Users see weights of the features as given, not of the scaled ones.
            rows = [sparse.csr_array(task.scaling.fold(step.coef)[None, :]) for step in steps]
            weights = sparse.csr_array(sparse.vstack(rows))
        log_record = task.source.log_record

        def column(name: str) -> NDArray[np.float64]:
            return np.array([getattr(step, name) for step in steps], dtype=np.float64)

        return cls(
            l1=column("l1"),
            weights=weights,
            loss=column("loss"),
            objective=column("objective"),
            relative_gap=column("relative_gap"),
            values=column("value"),
            largest_gains=column("largest_gain"),
            seconds=column("seconds"),
            metric=ranker.metric,
            larger_is_better=parse_metric(ranker.metric).larger_is_better,
            feature_names=None if feature_names is None else tuple(feature_names),
            transforms=task.scaling.transforms,
            parameters={"ranker": ranker.system, **json_parameters(ranker)},
            finish=None if log_record is None else log_record.finish,
            **fields,
        )

    #: What a strength is called in records and parameters.
    strength: ClassVar[str] = "l1"

    def step_transforms(self, step: int) -> tuple[msgspec.Struct, ...]:  # noqa: ARG002
        """Return what serving must do before it applies the weights of a step."""
        return tuple(self.transforms)

    @property
    def x_axis(self) -> tuple[NDArray[Any], str]:
        """What steps are drawn against, and its name."""
        return self.nonzeros, "non-zero weights"

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
        """Return the dense weights of a step."""
        return np.asarray(self.weights[[step]].toarray(), dtype=np.float64).ravel()

    def best(self, max_nonzero: int | None = None) -> int:
        """Return the step with the best metric (the smallest loss without evaluation data).

        Among equals the smaller model wins. A model without weights wins only if the interval of
        every other model is below it. ``max_nonzero`` bounds the size of the model.
        """
        quality = -self.loss
        if self.measured:
            quality = self.values if self.larger_is_better else -self.values
        # ``argmax`` takes the first of equals, which is the one with the largest penalty.
        allowed = np.ones(len(self), dtype=bool)
        if max_nonzero is not None:
            allowed = self.nonzeros <= max_nonzero
        if not allowed.any():
            raise ParameterError(
                f"no step has at most {max_nonzero} non-zero weights",
                fix=f"The smallest model has {int(self.nonzeros.min())}",
            )
        best = int(np.argmax(np.where(allowed, quality, -np.inf)))
        as_good = allowed & (self.nonzeros > 0) & (self.largest_gains >= 0)
        if self.nonzeros[best] == 0 and as_good.any():
            best = int(np.argmax(np.where(as_good, quality, -np.inf)))
        return best

    def take_steps(self, steps: NDArray[np.int64], **changes: Any) -> Self:
        """Return the path of some of the steps; ``changes`` are other fields of it."""
        arrays = ("l1", "weights", "loss", "objective", "relative_gap", "values", "largest_gains",
                  "seconds")  # fmt: skip
        return replace(self, **{name: getattr(self, name)[steps] for name in arrays}, **changes)

    def records(self) -> list[dict[str, Any]]:
        """Return one mapping per step, for tables and JSON."""
        return [
            {
                self.strength: float(self.l1[k]),
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
        """Return a step, by default the best one, as a savable model."""
        from rankine._version import __version__
        from rankine.model import LinearModel

        if step is None:
            step = self.best()
        record = self.records()[step]
        model = LinearModel.from_weights(
            self.coef(step),
            feature_names=self.feature_names,
            transforms=self.step_transforms(step),
            metric=self.metric,
            parameters={**self.parameters, self.strength: record[self.strength]},
            provenance={"rankine": __version__, "path_step": step, "path": record},
        )
        return model if self.finish is None else self.finish(model)


@dataclass(frozen=True, eq=False)
class ElasticPath(RegularizationPath):
    """One-pass models of several solvers and strengths.

    ``l1`` holds the threshold ``theta`` where the solver is PSGD.

    Attributes
    ----------
    solvers
        Solver of each model.
    latency
        Measured time to score one item, in milliseconds.
    max_latency
        Bound on it that ``best`` obeys, or None.
    """

    solvers: tuple[str, ...] = ()
    latency: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    max_latency: float | None = None

    def best(self, max_nonzero: int | None = None) -> int:
        """Return the model with the best metric among the small and fast enough ones."""
        if self.max_latency is None:
            return super().best(max_nonzero)
        # The bound comes before the quality: a slower model is not a candidate.
        fast = np.flatnonzero(self.latency <= self.max_latency)
        if len(fast) == 0:
            raise ParameterError(
                f"no model scores an item within {self.max_latency:g} ms",
                fix=f"The fastest takes {self.latency.min():.3g} ms",
            )
        return int(fast[self.take_steps(fast).best(max_nonzero)])

    def take_steps(self, steps: NDArray[np.int64], **changes: Any) -> Self:
        """Return some of the models; the bound on latency does not apply to them again."""
        solvers = tuple(self.solvers[k] for k in steps)
        return super().take_steps(
            steps, solvers=solvers, latency=self.latency[steps], max_latency=None, **changes
        )

    def curves(self) -> dict[str, RegularizationPath]:
        """Return the models of each solver."""
        solvers = np.array(self.solvers)
        return {
            name: self.take_steps(np.flatnonzero(solvers == name))
            for name in dict.fromkeys(self.solvers)
        }

    def records(self) -> list[dict[str, Any]]:
        """Return one mapping per model, for tables and JSON."""
        records = []
        for solver, record, latency in zip(
            self.solvers, super().records(), self.latency, strict=True
        ):
            # One pass over a stream does not compute the objective.
            del record["objective"]
            if solver == "psgd":
                record["theta"] = record["l1"]
            records.append({"solver": solver, **record, "latency_ms": float(latency)})
        return records


@dataclass(frozen=True, eq=False)
class TablePath(RegularizationPath):
    """Tables of falling strengths and growing numbers of pairs; ``l1`` holds ``smooth``.

    Rows of ``weights`` are as long as the weights of the largest model.

    Attributes
    ----------
    tables
        What the weights of each step are entries of: bins, and grids where there are pairs.
    """

    tables: tuple[tuple[Any, ...], ...] = ()
    strength: ClassVar[str] = "smooth"

    @property
    def n_pairs(self) -> NDArray[np.int64]:
        """Grids of each step."""
        return np.array([len(specs[1].pairs) if specs[1:] else 0 for specs in self.tables])

    @property
    def x_axis(self) -> tuple[NDArray[Any], str]:
        """Strengths: tables of one shape have equally many weights."""
        return self.l1, "smooth"

    def coef(self, step: int) -> NDArray[np.float64]:
        """Weights of a step."""
        # The stored row is as long as the largest model; the rest of it is zero.
        size = sum(sum(spec.n_cells) for spec in self.tables[step])
        return super().coef(step)[: size + len(self.tables[step][0].linear)]

    def step_transforms(self, step: int) -> tuple[msgspec.Struct, ...]:
        """Bins and grids of a step."""
        return self.tables[step]

    def curves(self) -> dict[str, RegularizationPath]:
        """Return the steps of each number of pairs."""
        curves: dict[str, RegularizationPath] = {}
        for n_pairs in dict.fromkeys(self.n_pairs.tolist()):
            steps = np.flatnonzero(self.n_pairs == n_pairs)
            tables = tuple(self.tables[k] for k in steps)
            curves[f"{n_pairs} pairs"] = self.take_steps(steps, tables=tables)
        return curves

    def records(self) -> list[dict[str, Any]]:
        """Return one mapping per step, for tables and JSON."""
        steps = zip(self.n_pairs.tolist(), super().records(), strict=True)
        return [{"pairs": n_pairs, **record} for n_pairs, record in steps]


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
