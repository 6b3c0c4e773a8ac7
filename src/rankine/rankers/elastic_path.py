"""Quality against number of weights for several solvers, in one reading of the data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset, row_scores
from rankine.data.progress import read_ahead
from rankine.rankers.latency import scoring_latency
from rankine.rankers.plain import plain_parameters
from rankine.rankers.regularization_path import RegularizationPath
from rankine.solvers.base import Callback, Progress, notify

if TYPE_CHECKING:
    from rankine.rankers.elastic import ElasticRanker
    from rankine.solvers.one_pass import OnePassLearner
    from rankine.transforms.scaling import Scaling

__all__ = ["ElasticPath", "PathMember", "elastic_path"]

#: FOBOS and TGD compare l1 with a step and not with the mean gradient: more of it is needed.
STRONGER = {"rda": 1.0, "fobos": 10.0, "tgd": 10.0}
#: Lists of the first block that set the top of the grid.
LOOK_AHEAD = 1000


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
        """Model with the best metric among those that are small and fast enough."""
        if self.max_latency is None:
            return super().best(max_nonzero)
        fast = self.latency <= self.max_latency
        if not fast.any():
            raise ParameterError(
                f"no model scores an item within {self.max_latency:g} ms",
                fix=f"The fastest takes {self.latency.min():.3g} ms",
            )
        return int(np.flatnonzero(fast)[self._only(fast).best(max_nonzero)])

    def _only(self, chosen: NDArray[np.bool_]) -> RegularizationPath:
        return RegularizationPath(
            self.l1[chosen],
            self.weights[np.flatnonzero(chosen)],
            self.loss[chosen],
            self.objective[chosen],
            self.relative_gap[chosen],
            self.values[chosen],
            self.seconds[chosen],
            self.metric,
            self.larger_is_better,
        )

    def curves(self) -> dict[str, RegularizationPath]:
        """The models of each solver."""
        kinds = np.array(self.solvers)
        return {str(kind): self._only(kinds == kind) for kind in dict.fromkeys(self.solvers)}

    def records(self) -> list[dict[str, Any]]:
        """One plain mapping per model, for tables and JSON."""
        found = []
        for k, (kind, record) in enumerate(zip(self.solvers, super().records(), strict=True)):
            del record["objective"]
            own = {"theta": record["l1"]} if kind == "psgd" else {}
            found.append({"solver": kind, **record, **own, "latency_ms": float(self.latency[k])})
        return found


@dataclass
class PathMember:
    """One learner of a path."""

    solver: str
    strength: float
    learner: OnePassLearner
    seconds: float = 0.0


def elastic_path(
    ranker: ElasticRanker,
    blocks: Iterable[Dataset],
    n_features: int,
    seed: int,
    scaling: Scaling,
    valid: Dataset | None,
    *,
    solvers: Sequence[str],
    n_steps: int,
    min_ratio: float,
    max_nonzero: int | None,
    max_latency: float | None,
    feature_names: Any,
    callbacks: Sequence[Callback],
) -> ElasticPath:
    """Feed every block to all learners of the grid, then measure them."""
    if n_steps < 1 or not 0 < min_ratio <= 1:
        raise ParameterError(
            f"n_steps={n_steps!r}, min_ratio={min_ratio!r}", fix="Use 10 and 0.01, for example"
        )
    members: list[PathMember] = []
    sample: Dataset | None = None
    for block in read_ahead(scaling.apply(block) for block in blocks):
        if sample is None:
            sample = block.take_queries(np.arange(min(block.n_queries, LOOK_AHEAD)))
            members = _members(ranker, sample, n_features, seed, solvers, n_steps, min_ratio)
        for member in members:
            started = time.perf_counter()
            member.learner.learn(block)
            member.seconds += time.perf_counter() - started
        step = members[0].learner.lists_seen
        progress = Progress("path", step, None, {}, members[0].learner.coef)
        if notify(callbacks, progress):
            break
    if sample is None:
        raise ParameterError("the data holds no lists", fix="Check the path")
    judged = sample if valid is None else valid
    return _collect(
        ranker, members, judged, valid, scaling, max_nonzero, max_latency, feature_names
    )


def _members(
    ranker: ElasticRanker,
    sample: Dataset,
    n_features: int,
    seed: int,
    solvers: Sequence[str],
    n_steps: int,
    min_ratio: float,
) -> list[PathMember]:
    """A learner for each solver and strength; the first lists tell where the grids begin."""
    members = []
    for kind in solvers:
        top = _largest(ranker, sample, n_features, seed, kind)
        for strength in np.geomspace(top, top * min_ratio, n_steps):
            options = {"theta": strength} if kind == "psgd" else {"l1": strength}
            learner = ranker._variant(kind, **options)._new_learner(n_features, seed, None)
            members.append(PathMember(kind, float(strength), learner))
    return members


def _largest(
    ranker: ElasticRanker, sample: Dataset, n_features: int, seed: int, kind: str
) -> float:
    """Strength that leaves about no weight: the largest mean gradient, or weight for PSGD."""
    if kind == "psgd":
        probe = ranker._variant("psgd", theta=0.0)._new_learner(n_features, seed, None)
        probe.learn(sample)
        return max(float(np.abs(probe.coef()).max(initial=0.0)), 1e-12)
    # With steps of almost nothing the weights stay 0, and RDA's state is the sum of gradients.
    still = ranker._variant("rda", l1=0.0, eta0=1e-12)._new_learner(n_features, seed, None)
    still.learn(sample)
    mean = float(np.abs(still.state[:-1, 0]).max(initial=0.0)) / max(still.steps, 1)
    return max(mean * STRONGER[kind], 1e-12)


def _collect(
    ranker: ElasticRanker,
    members: list[PathMember],
    judged: Dataset,
    valid: Dataset | None,
    scaling: Scaling,
    max_nonzero: int | None,
    max_latency: float | None,
    feature_names: Any,
) -> ElasticPath:
    from rankine.metrics import data_columns, evaluate, parse_metric

    coefs = [member.learner.coef() for member in members]
    kept = [
        k for k, w in enumerate(coefs) if max_nonzero is None or np.count_nonzero(w) <= max_nonzero
    ]
    values = np.full(len(kept), np.nan)
    if valid is not None:
        for place, k in enumerate(kept):
            scores = row_scores(valid.X, coefs[k])
            columns = data_columns(valid)
            values[place] = evaluate(ranker.metric, valid.y, scores, valid.queries, columns=columns)
    nothing = np.full(len(kept), np.nan)
    rows = [sparse.csr_array(coefs[k][None, :]) for k in kept]
    width = judged.n_features
    weights = sparse.vstack(rows, format="csr") if rows else sparse.csr_array((0, width))
    return ElasticPath(
        np.array([members[k].strength for k in kept]),
        weights,
        np.array([members[k].learner.mean_loss for k in kept]),
        nothing,
        nothing,
        values,
        np.array([members[k].seconds for k in kept]),
        ranker.metric,
        parse_metric(ranker.metric).larger_is_better,
        feature_names,
        scaling.transforms,
        {"ranker": ranker._system, **plain_parameters(ranker)},
        tuple(members[k].solver for k in kept),
        np.array([scoring_latency(coefs[k], judged) for k in kept]),
        max_latency,
    )
