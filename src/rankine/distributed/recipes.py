"""The first pass: what every partition holds, and whether each query lies in one of them.

Partitions of the pairwise risks and of pairwise least squares, as functions of the weights.

The local solvers hand scores and curvatures back to the partition they came from. A task has no
memory, so here every question carries the weights, and the scores are computed again.

The oracles of the batch solvers, answered by partitions elsewhere.

Scores never leave their rows: what a solver holds as the scores of a point is the point itself,
and as slopes the gradient. Everything a solver does with scores is linear, so it can be done with
weights: a(Xv) + b(Xw) = X(av + bw), and <u, Xd> = <X^T u, d>.

Stochastic rankers on partitions: a pass over each, then the mean of their weights.

This is another algorithm than a pass over all the data. In round r every partition i starts from
the same weights w, learns from its own rows alone, and

    w  <-  sum_i (examples of i / all examples)  w_i

The result depends on the partitions, on the number of rounds and on the seed, and on nothing else.
(McDonald, Hall and Mann 2010, iterative parameter mixing; Zinkevich et al. 2010.)

``SPDRanker`` and ``ElasticRanker`` on partitions: rounds of passes and means.

Domination rank on partitions: the same objective, by a batch method instead of coordinates.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError, ParameterError, QueryOrderError
from rankine.distributed.team import RAW, Answer, token_of
from rankine.kernels.linalg import dot
from rankine.kernels.products import Products
from rankine.kernels.random import permutation, stream_seed
from rankine.losses.active_pairs import LOSSES
from rankine.losses.domination import dual_value, loss_value, new_state, row_slopes, set_scores
from rankine.losses.domination.task import TaskOptions, task_levels
from rankine.losses.pair_queries import PairQueries, PairTotals, pair_scale
from rankine.losses.squared import LaplacianTotals, PairLaplacian
from rankine.rankers.registry import ranker_class
from rankine.rankers.spd_parts import check_spd, make_phases, make_sampler
from rankine.rankers.spd_stream import query_shares
from rankine.solvers.base import Solution, report, require_finite
from rankine.solvers.coordinate_descent import Penalty
from rankine.solvers.domination import best_bound
from rankine.solvers.one_pass_run import OnePassRun
from rankine.solvers.pair_sgd import run_phase
from rankine.solvers.pair_steps import S, average_of, new_vector
from rankine.solvers.problem import NormalEquations, Partition, QuadraticPartition, SummedOracle
from rankine.solvers.progressive import Progressive
from rankine.solvers.quasi_newton import solve_prox_quasi_newton
from rankine.transforms.scaling import (
    Scaling,
    check_scale,
    column_max_abs,
    column_moments,
    divisors,
    scaling_from,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankine.data.dataset import Dataset
    from rankine.distributed.partitions import Piece
    from rankine.distributed.team import Team
    from rankine.rankers.domination import DominationRanker
    from rankine.rankers.elastic import ElasticRanker
    from rankine.rankers.parts_job import PartsJob
    from rankine.rankers.spd import SPDRanker
    from rankine.solvers.problem import Parts

__all__ = [
    "Contents",
    "DominationRecipe",
    "Measured",
    "PassRecipe",
    "RawRecipe",
    "RiskRecipe",
    "SquaresRecipe",
    "TeamEquations",
    "TeamOracle",
    "list_shares",
    "measure",
    "measure_scaling",
    "pair_shares",
    "scaling_token",
    "solve_elastic_parts",
    "solve_parts",
    "solve_spd_parts",
]


class Contents(NamedTuple):
    """What one partition holds."""

    rows: int
    queries: int
    queries_used: int
    pairs: int
    first_id: Any
    last_id: Any


@dataclass(frozen=True)
class Measured:
    """What all partitions hold."""

    rows: int
    queries: int
    queries_used: int
    pairs: int


class RawPart:
    """The rows as they are."""

    def __init__(self, data: Dataset, threads: int | None) -> None:
        self.data = data
        self.threads = threads

    def contents(self) -> Contents:
        """Counts, and the smallest and largest query id."""
        data = self.data
        ids = data.queries.ids
        return Contents(
            data.n_rows,
            data.n_queries,
            len(data.labels.usable),
            data.labels.n_pairs,
            ids.min() if ids.dtype.kind in "iu" else min(ids.tolist()),
            ids.max() if ids.dtype.kind in "iu" else max(ids.tolist()),
        )

    def query_ids(self) -> NDArray[Any]:
        """All query ids, each once."""
        return np.unique(self.data.queries.ids)

    def pair_totals(self) -> Answer:
        """What the normalisation of pairwise risks needs to know."""
        return Answer(tuple(PairQueries.build(self.data).totals))

    def laplacian_totals(self, pairs: str) -> Answer:
        """What the normalisation of pairwise least squares needs to know."""
        return Answer(
            tuple(PairLaplacian(PairQueries.build(self.data), pairs, self.threads).totals)
        )

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of the rows gives."""
        return function(self.data, *arguments)

    def label_range(self) -> tuple[float, float, bool]:
        """Smallest and largest label, and whether all are whole numbers."""
        y = self.data.y
        return float(y.min()), float(y.max()), bool((y == np.floor(y)).all())

    def max_abs(self) -> NDArray[np.float64]:
        """Largest magnitude of every column."""
        return column_max_abs(self.data.rows, self.data.n_features)

    def moments(self, factors: NDArray[np.float64], means: NDArray[np.float64]) -> Answer:
        """Sums of x f and of (x f - mean)^2, implicit zeros included."""
        return Answer(column_moments(self.data.rows, self.data.n_rows, factors, means))


class RawRecipe(NamedTuple):
    """Keep the rows as they were read."""

    token: str = RAW

    def build(self, data: Dataset, threads: int | None, number: int) -> RawPart:  # noqa: ARG002
        """The rows."""
        return RawPart(data, threads)


def measure(team: Team, pieces: Sequence[Piece]) -> Measured:
    """Count everything; a query that lies in two partitions is an error."""
    found: list[Contents] = team.each("contents")
    check_queries(team, pieces, found)
    totals = np.array([one[:4] for one in found], dtype=np.int64).sum(axis=0)
    if totals[3] == 0:
        raise NoPairsError(
            "no query of any partition holds two different labels",
            fix="Check labels and query ids; a query needs a better and a worse row",
        )
    return Measured(*(int(total) for total in totals))


def check_queries(team: Team, pieces: Sequence[Piece], found: Sequence[Contents]) -> None:
    """Refuse a query whose rows lie in two partitions, naming it and its files.

    Partitions whose ids do not overlap need no look; of the others all ids are compared.
    """
    order = sorted(range(len(found)), key=lambda k: found[k].first_id)
    reach, overlap = None, False
    for k in order:
        overlap |= reach is not None and found[k].first_id <= reach
        reach = found[k].last_id if reach is None else max(reach, found[k].last_id)
    if not overlap:
        return
    ids = team.each("query_ids")
    everything = np.concatenate(ids)
    owner = np.repeat(np.arange(len(ids)), [len(one) for one in ids])
    ranks = np.argsort(everything, kind="stable")
    twice = np.flatnonzero(everything[ranks[1:]] == everything[ranks[:-1]])
    if len(twice) == 0:
        return
    first, second = ranks[twice[0]], ranks[twice[0] + 1]
    a, b = pieces[owner[first]], pieces[owner[second]]
    where = (a.name, b.name) if a.file == b.file else (a.file, b.file)
    others = f" ({len(twice) - 1} more are split like it)" if len(twice) > 1 else ""
    raise QueryOrderError(
        f"query {everything[first : first + 1].tolist()[0]!r} has rows in {where[0]} and in "
        f"{where[1]}{others}",
        fix="Group the rows by query: rankine.distributed.partitions, or --repartition",
    )


def measure_scaling(kind: str, team: Team, n_features: int, n_rows: int) -> Scaling:
    """The scaling that ``fit_scaling`` would find on all rows, from the sums of partitions."""
    if check_scale(kind) in ("none", "query"):
        return Scaling(kind)
    largest = np.maximum.reduce(team.each("max_abs"))
    if kind == "maxabs":
        return scaling_from(largest)
    factors, means = 1.0 / divisors(largest), np.zeros(n_features)
    for _ in range(2):
        sums, squares = team.total("moments", factors, means)
        means = sums / n_rows
    return scaling_from(largest, np.sqrt(squares / n_rows))


def scaling_token(scaling: Scaling) -> str:
    """Digest of a scaling."""
    return token_of(scaling.kind, scaling.factors)


class RiskRecipe(NamedTuple):
    """Pairs of the queries of a partition, weighted as in the whole of ``totals``."""

    loss: str
    normalization: str
    oracle: str
    totals: PairTotals
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("risk", *self[:4], scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> RiskPart:  # noqa: ARG002
        """The partition."""
        return RiskPart(self.scaling.apply(data), self, threads)


class RiskPart:
    """Risk, gradient and curvature of the queries of a partition, at given weights."""

    def __init__(self, data: Dataset, recipe: RiskRecipe, threads: int | None) -> None:
        queries = PairQueries.build(data)
        omega = pair_scale(recipe.normalization, recipe.totals, queries)
        risk = LOSSES[recipe.loss](queries, omega, recipe.oracle, threads)
        self.partition = Partition(data.rows, data.n_features, risk, threads)
        self._last: tuple[NDArray[np.float64], Any] | None = None

    def risk(self, w: NDArray[np.float64]) -> Answer:
        """R and its gradient."""
        value, slope = self.partition.evaluate(self.partition.scores(w))
        return Answer((value, self.partition.transpose_times(slope)))

    def curved_risk(self, w: NDArray[np.float64]) -> Answer:
        """R and its gradient; the active pairs are kept for the products that usually follow."""
        value, slope, curvature = self.partition.evaluate_curved(self.partition.scores(w))
        self._last = w, curvature
        return Answer((value, self.partition.transpose_times(slope)))

    def curvature_times(self, w: NDArray[np.float64], v: NDArray[np.float64]) -> Answer:
        """X^T d2R/dp2 X v at the weights w."""
        scores = self.partition.scores(v)
        return Answer((self.partition.curvature_times(self._curvature(w), scores),))

    def curvature_scale(self, w: NDArray[np.float64]) -> Answer:
        """About the diagonal of X^T d2R/dp2 X at the weights w."""
        return Answer((self.partition.curvature_scale(self._curvature(w)),))

    def _curvature(self, w: NDArray[np.float64]) -> Any:
        last = self._last
        if last is not None and np.array_equal(last[0], w):
            return last[1]
        curvature = self.partition.evaluate_curved(self.partition.scores(w))[2]
        self._last = w, curvature
        return curvature


class SquaresRecipe(NamedTuple):
    """Pairwise least squares over the queries of a partition, weighted as in ``totals``."""

    normalization: str
    pairs: str
    totals: LaplacianTotals
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("squares", *self[:3], scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> SquaresPart:  # noqa: ARG002
        """The partition."""
        return SquaresPart(self.scaling.apply(data), self, threads)


class SquaresPart:
    """Products with X^T L X of a partition."""

    def __init__(self, data: Dataset, recipe: SquaresRecipe, threads: int | None) -> None:
        laplacian = PairLaplacian(PairQueries.build(data), recipe.pairs, threads)
        laplacian.normalise(recipe.normalization, recipe.totals)
        self.partition = QuadraticPartition(data.rows, data.n_features, data.y, laplacian, threads)

    def target(self) -> Answer:
        """X^T L y."""
        return Answer((self.partition.target(),))

    def normal_times(self, v: NDArray[np.float64]) -> Answer:
        """X^T L X v."""
        return Answer((self.partition.normal_times(v),))

    def spread(self, w: NDArray[np.float64]) -> Answer:
        """(Xw - y)^T L (Xw - y)."""
        return Answer((self.partition.spread(self.partition.scores(w)),))


class TeamOracle(SummedOracle):
    """A pairwise risk summed over partitions; one round of tasks a question.

    Lists of parts have one entry: weights for scores and curvatures, a gradient for slopes.
    """

    def __init__(self, team: Team, n_features: int) -> None:
        self.team = team
        self.partitions = []
        self.n_features = n_features

    def scores(self, w: NDArray[np.float64]) -> Parts:
        """The weights themselves."""
        return [w]

    def blend(self, a: float, p: Parts, b: float, q: Parts) -> Parts:
        """a v + b w."""
        return [a * p[0] + b * q[0]]

    def dot(self, p: Parts, q: Parts) -> float:
        """<X^T u, d> for slopes u and the scores of d."""
        return float(dot(p[0], q[0]))

    def evaluate(self, scores: Parts) -> tuple[float, Parts]:
        """R and its gradient."""
        value, gradient = self.team.total("risk", scores[0])
        return float(value), [gradient]

    def evaluate_curved(self, scores: Parts) -> tuple[float, Parts, Parts]:
        """R, its gradient and where to ask for the curvature."""
        value, gradient = self.team.total("curved_risk", scores[0])
        return float(value), [gradient], [scores[0]]

    def gradient(self, slopes: Parts) -> NDArray[np.float64]:
        """The gradient that came with the value."""
        found: NDArray[np.float64] = slopes[0]
        return found

    def curvature_times(self, curvatures: Parts, scores: Parts) -> NDArray[np.float64]:
        """X^T d2R/dp2 X v."""
        (total,) = self.team.total("curvature_times", curvatures[0], scores[0])
        found: NDArray[np.float64] = total
        return found

    def curvature_scale(self, curvatures: Parts) -> NDArray[np.float64]:
        """About the diagonal of X^T d2R/dp2 X."""
        (total,) = self.team.total("curvature_scale", curvatures[0])
        found: NDArray[np.float64] = total
        return found


class TeamEquations(NormalEquations):
    """(X^T L X + gamma I) w = X^T L y over partitions."""

    def __init__(self, team: Team, n_features: int) -> None:
        self.team = team
        self.partitions = []
        self.n_features = n_features
        self.products = 0
        (self.b,) = team.total("target")

    def times(self, v: NDArray[np.float64], gamma: float = 0.0) -> NDArray[np.float64]:
        """(A + gamma I) v."""
        self.products += 1
        total: NDArray[np.float64]
        (total,) = self.team.total("normal_times", v)
        return total + gamma * v if gamma else total

    def objective(self, w: NDArray[np.float64], gamma: float) -> float:
        """(Xw - y)^T L (Xw - y) + gamma |w|^2."""
        (spread,) = self.team.total("spread", w)
        return float(spread + gamma * dot(w, w))


#: Streams of draws of the partitions lie beyond those of a single run.
_STREAM = 1000


def pair_shares(data: Dataset, sampling: str, ties: str) -> float:
    """Examples of a partition for SPD: queries or pairs, as ``sampling`` counts."""
    return float(query_shares(data, sampling, ties=ties == "zero").sum())


def list_shares(data: Dataset) -> float:
    """Examples of a partition for ElasticRank: lists."""
    return float(data.n_queries)


class PassRecipe(NamedTuple):
    """Passes of one ranker over partitions.

    Attributes
    ----------
    system
        Name of the ranker.
    parameters
        Its parameters.
    rounds
        Rounds in all.
    seed
        Root of the streams of all partitions.
    total
        Examples of all partitions.
    scaling
        Measured on all of them.
    """

    system: str
    parameters: dict[str, Any]
    rounds: int
    seed: int
    total: float
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("pass", *self[:5], scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> _SPDPart | _ElasticPart:  # noqa: ARG002
        """The partition; its stream of draws is that of its number."""
        scaled = self.scaling.apply(data)
        seed = int(stream_seed(self.seed, _STREAM + number))
        kind = _SPDPart if self.system == "spd" else _ElasticPart
        return kind(scaled, self, seed)


class _SPDPart:
    """A partition's share of the steps of ``SPDRanker``."""

    def __init__(self, data: Dataset, recipe: PassRecipe, seed: int) -> None:
        ranker: Any = ranker_class("spd")(**recipe.parameters)
        self.rows, self.n_features, self.seed = data.rows, data.n_features, seed
        self.share = pair_shares(data, ranker.sampling, ranker.ties) / recipe.total
        self.steps = int(ranker.n_iter * self.share)
        self.rounds = recipe.rounds
        if self.steps:
            ranker.n_iter = self.steps
            self.ranker = ranker
            self.sampler = make_sampler(ranker, data, np.ones(data.n_queries))

    def learn(self, w: NDArray[np.float64], number: int, warm: bool) -> Answer:
        """Shares of the last iterate and of the mean of the counted ones."""
        first = self.steps * number // self.rounds
        last = self.steps * (number + 1) // self.rounds
        if first == last:
            return Answer((self.share * w, self.share * w))
        vector = new_vector(w)
        for phase in make_phases(self.ranker, 0, warm=warm):
            begin, end = max(first, phase.start), min(last, phase.stop)
            if begin < end:
                run_phase(self.rows, self.sampler, phase, vector, self.seed, (begin, end))
        return Answer((self.share * (vector.c[S] * vector.v), self.share * average_of(vector)))


class _ElasticPart:
    """Passes of ``ElasticRanker`` over the lists of a partition."""

    def __init__(self, data: Dataset, recipe: PassRecipe, seed: int) -> None:
        self.ranker: Any = ranker_class("elastic")(**recipe.parameters)
        self.data, self.seed = data, seed
        self.share = list_shares(data) / recipe.total

    def learn(self, w: NDArray[np.float64], number: int, warm: bool) -> Answer:
        """Share of the weights; sums of the progressive metric and loss; lists it cannot judge."""
        data = self.data
        steps = number * -(-data.n_queries // int(self.ranker.batch_lists))
        start = w if warm or number else None
        learner = self.ranker._new_learner(data.n_features, self.seed, start, steps)
        learner.lists_seen = number * data.n_queries
        run = OnePassRun(learner, Progressive(self.ranker.metric))
        run.learn_block(data, permutation(stream_seed(self.seed, 1, number), data.n_queries))
        unfit = float(run.progressive.unfit is not None)
        return Answer((self.share * learner.coef(), run.progressive.sums, learner.tally, unfit))


def solve_spd_parts(ranker: SPDRanker, job: PartsJob) -> Solution:
    """``n_iter`` steps in all, a partition's share of them by its examples."""
    check_spd(ranker)
    if ranker.record_at:
        raise ParameterError("record_at needs the rows in memory", fix="Leave it out")
    found = job.team(RawRecipe()).each("apply", pair_shares, ranker.sampling, ranker.ties)
    total = float(sum(found))
    if total <= 0:
        raise NoPairsError("no query holds two different labels", fix="Check the labels")
    team = _team(ranker, job, total)
    warm = job.coef_init is not None
    w = np.zeros(job.n_features) if job.coef_init is None else job.coef_init
    rounds = job.data.rounds
    mean, counted, reason = np.zeros(job.n_features), 0.0, "max_iter"
    done = 0
    for number in range(rounds):
        w, averaged = team.total("learn", w, number, warm)
        # The part of this round that lies in the second half of the run.
        part = min(1.0, max(0.0, number + 1 - rounds / 2)) if ranker.average else 0.0
        mean, counted = mean + part * averaged, counted + part
        current = mean / counted if counted else w
        require_finite(current, number, "stochastic pairwise descent")
        done = int(ranker.n_iter) * (number + 1) // rounds
        if report(job.callbacks, "rounds", number + 1, rounds, {}, current) and number + 1 < rounds:
            reason = "callback"
            break
    ranker.record_ = []
    return Solution(current, float("nan"), {"rounds": float(number + 1)}, done, (), reason)


def solve_elastic_parts(ranker: ElasticRanker, job: PartsJob) -> Solution:
    """A pass over every partition a round, lists in a new seeded order each time."""
    team = _team(ranker, job, float(job.measured.queries))
    warm = job.coef_init is not None
    w = np.zeros(job.n_features) if job.coef_init is None else job.coef_init
    ranker._new_learner(job.n_features, job.seed, job.coef_init)  # refuses bad parameters here
    progressive, tally, unfit = Progressive(ranker.metric), np.zeros(2), 0.0
    trace: list[dict[str, float]] = []
    rounds, reason = job.data.rounds, "passes"
    for number in range(rounds):
        w, sums, losses, strange = team.total("learn", w, number, warm)
        require_finite(w, number, "one-pass learning")
        progressive.sums += sums
        tally, unfit = tally + losses, unfit + strange
        values = {"progressive_loss": float(tally[0] / tally[1]) if tally[1] else float("nan")}
        if not unfit:
            values[progressive.name] = progressive.value
        trace.append({"round": number + 1, **values})
        if report(job.callbacks, "rounds", number + 1, rounds, values, w) and number + 1 < rounds:
            reason = "callback"
            break
    ranker.progressive_ = float("nan") if unfit else progressive.value
    steps = (number + 1) * -(-job.measured.queries // int(ranker.batch_lists))
    kept = w if ranker.n_nonzero is None else _largest(w, int(ranker.n_nonzero))
    return Solution(kept, float("nan"), {**values, "rounds": number + 1.0}, steps, trace, reason)


def _team(ranker: Any, job: PartsJob, total: float) -> Team:
    parameters = {**ranker.get_params(deep=False), "random_state": None, "warm_start": False}
    recipe = PassRecipe(ranker._system, parameters, job.data.rounds, job.seed, total, job.scaling)
    return job.team(recipe)


def _largest(w: Any, count: int) -> Any:
    """At most ``count`` weights, the largest."""
    out = np.zeros_like(w)
    kept = np.argsort(-np.abs(w), kind="stable")[:count]
    out[kept] = w[kept]
    return out


class DominationRecipe(NamedTuple):
    """The domination loss of the queries of a partition."""

    options: TaskOptions
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        chosen = self.options
        return token_of(
            "domination",
            [chosen.normalization, chosen.margin, chosen.margin_scale],
            None if chosen.margin_table is None else np.asarray(chosen.margin_table, dtype=float),
            scaling_token(self.scaling),
        )

    def build(
        self,
        data: Dataset,
        threads: int | None,
        number: int,  # noqa: ARG002
    ) -> DominationPart:
        """The partition."""
        return DominationPart(self.scaling.apply(data), self.options, threads)


class DominationPart:
    """Loss, gradient and dual of a partition, at given weights."""

    def __init__(self, data: Dataset, options: TaskOptions, threads: int | None) -> None:
        self.products = Products(data.rows, data.n_features, threads)
        self._lock = threading.Lock()
        try:
            levels = task_levels(
                data.y,
                data.queries,
                np.ones(data.n_queries),
                options,
                weight=data.weight,
                columns=data.columns,
                labels=data.labels,
            )
        except NoPairsError:
            self.state = None
        else:
            self.state = new_state(levels)

    def loss(self, w: NDArray[np.float64]) -> Answer:
        """L and its gradient."""
        if self.state is None:
            return Answer((0.0, np.zeros(self.products.n_features)))
        slopes = np.empty(self.products.n_rows)
        with self._lock:
            set_scores(self.state, self.products.scores(w))
            value = float(loss_value(self.state))
            row_slopes(self.state, slopes)
        return Answer((value, self.products.transpose_times(slopes)))

    def dual(self, w: NDArray[np.float64], kappa: float) -> Answer:
        """The dual at the weights w, without the term of l2."""
        if self.state is None:
            return Answer((0.0,))
        with self._lock:
            set_scores(self.state, self.products.scores(w))
            return Answer((float(dual_value(self.state, kappa)),))


class _TeamLoss:
    """The loss of all partitions."""

    def __init__(self, team: Team) -> None:
        self.team = team

    def value_and_gradient(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = self.team.total("loss", w)
        return float(value), gradient

    def lower_bound(
        self, w: NDArray[np.float64], gradient: NDArray[np.float64], penalty: Penalty
    ) -> float:
        return best_bound(
            lambda kappa: float(self.team.total("dual", w, kappa)[0]), gradient, penalty
        )


def solve_parts(ranker: DominationRanker, job: PartsJob) -> Solution:
    """Minimise the objective of ``DominationRanker`` over partitions."""
    from rankine.rankers.domination import warn_unless_done

    settings = ranker.solver_settings(job.seed)
    _check(ranker, job)
    loss = _TeamLoss(job.team(DominationRecipe(ranker.task_options(), job.scaling)))
    zero = np.zeros(job.n_features)
    value, slopes = loss.value_and_gradient(zero)
    ranker.l1_max_ = float(np.abs(slopes).max(initial=0.0))
    ranker.l1_ = ranker.resolve_l1(ranker.l1_max_, ranker.l1)
    solution = solve_prox_quasi_newton(
        loss,
        Penalty(ranker.l1_, float(ranker.l2)),
        zero if job.coef_init is None else job.coef_init,
        at_zero=value,
        first=(value, slopes) if job.coef_init is None else None,
        tol=settings.tol,
        max_iter=settings.max_iter,
        callbacks=job.callbacks,
    )
    warn_unless_done(solution)
    return solution


def _check(ranker: DominationRanker, job: PartsJob) -> None:
    """Refuse what belongs to rows in memory."""
    if ranker.n_nonzero is not None:
        raise ParameterError(
            "n_nonzero walks down a path of models and needs the rows in memory",
            fix="Choose l1, or train on a sample that fits",
        )
    margin: Any = ranker.margin
    if not (margin is None or isinstance(margin, str) or np.isscalar(margin)):
        raise ParameterError(
            "margin as a function or an array belongs to rows in memory",
            fix="Pass a number, or the name of a column of the files (columns=[...])",
        )
    if ranker.margin_table is None:
        return
    size = len(np.asarray(ranker.margin_table))
    ranges = job.team(RawRecipe()).each("label_range")
    if any(low < 0 or high >= size or not whole for low, high, whole in ranges):
        raise ParameterError(
            f"margin_table on partitions needs the labels 0 to {size - 1}",
            fix="Store labels that number the rows of the table",
        )
