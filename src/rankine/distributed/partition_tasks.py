"""How the rows of a partition become something that answers: every task, and who asks them.

* ``RawRowsTask``: the rows as they are, to be counted and measured (the first pass);
* ``ProblemTask``: a risk, asked as ``solvers.problem`` asks; the batch solvers run unchanged;
* ``PairPassTask`` and ``ListPassTask``: passes of the stochastic solvers, then the mean.

The last two are another algorithm than a pass over all the data. In pass r every partition i starts
from the same weights w, learns from its own rows alone, and

    w  <-  sum_i (examples of i / all examples)  w_i

The result depends on the partitions, on the number of passes and on the seed, and on nothing else.
(McDonald, Hall and Mann 2010, iterative parameter mixing; Zinkevich et al. 2010.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError, ParameterError, QueryOrderError
from rankine.core.specs import MissingValues
from rankine.data.dataset import SAMPLE_LISTS, Dataset
from rankine.distributed.file_partitions import Partition
from rankine.distributed.worker_pool import RAW, WorkerPool, token_of
from rankine.kernels.random import LIST_ORDER, PARTITION, permutation, stream_seed
from rankine.losses.base import pair_loss_spec
from rankine.losses.domination import DominationOptions, domination_risk
from rankine.losses.least_squares import least_squares_risk, least_squares_totals
from rankine.losses.pair_queries import PairTotals, pair_risk, pair_totals, risk_at_zero
from rankine.samplers.draw import pair_sampler, query_shares
from rankine.solvers.base import Callback, Solution, report_progress, require_finite
from rankine.solvers.one_pass import OnePassLearner, no_learnable_lists
from rankine.solvers.one_pass_run import OnePassRun, ProgressiveMetric
from rankine.solvers.pair_sgd import PairPlan, require_weights, run_phase
from rankine.solvers.pair_steps import average_iterate, last_iterate, new_vector
from rankine.solvers.problem import Problem, RowsProblem
from rankine.transforms.clicks import ContextWeights, apply_position_weights
from rankine.transforms.scaling import ColumnSizes, ColumnStatistics, Scaling
from rankine.updates import make_update

#: Passes where none are asked for: the mean of weights that saw a part of the data each needs more
#: than one to come near a pass over all of it.
PASSES = 10


# ------------------------------------------------------------------------------ the first pass
class Contents(NamedTuple):
    """What one partition holds."""

    rows: int
    queries: int
    queries_used: int
    pairs: int
    missing: int
    first_id: Any
    last_id: Any


@dataclass(frozen=True)
class Measured:
    """What all partitions hold."""

    rows: int
    queries: int
    queries_used: int
    pairs: int
    #: Values that the files lack.
    missing: int
    #: Lists of each partition among the first ``SAMPLE_LISTS``.
    sample: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RawPart:
    """The rows as they are."""

    data: Dataset
    number: int

    def contents(self) -> Contents:
        """Counts, and the smallest and largest query id."""
        data = self.data
        ids = data.queries.ids
        return Contents(
            data.n_rows,
            data.n_queries,
            len(data.labels.queries_with_pairs),
            data.labels.n_pairs,
            data.read_counts.get("missing_values", 0),
            ids.min() if ids.dtype.kind in "iu" else min(ids.tolist()),
            ids.max() if ids.dtype.kind in "iu" else max(ids.tolist()),
        )

    def query_ids(self) -> NDArray[Any]:
        """All query ids, each once."""
        return np.unique(self.data.queries.ids)

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of the rows gives."""
        return function(self.data, *arguments)

    def label_range(self) -> tuple[float, float, bool]:
        """Smallest and largest label, and whether all are whole numbers."""
        y = self.data.y
        return float(y.min()), float(y.max()), bool((y == np.floor(y)).all())

    def columns(
        self, lists: Sequence[int] | None, spec: MissingValues | None, question: str, *asked: Any
    ) -> Any:
        """What ``ColumnStatistics`` answers of the partition's first lists (None: all), filled."""
        data = self.data
        if lists is not None:
            data = data.take_queries(np.arange(lists[self.number]))
        columns = ColumnStatistics(lambda: [data], data.n_features)
        if spec is not None:
            columns = columns.without_missing(spec)
        return getattr(columns, question)(*asked)


class RawRowsTask(NamedTuple):
    """Keep the rows as they were read."""

    token: str = RAW

    def build(self, data: Dataset, threads: int | None, number: int) -> RawPart:  # noqa: ARG002
        """The rows."""
        return RawPart(data, number)


class WeightedRowsTask(NamedTuple):
    """Another task, with the rows weighed by the positions they were shown at."""

    task: Any
    inverse: tuple[float, ...] | ContextWeights

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("weighed", self.inverse, self.task.token)

    def build(self, data: Dataset, threads: int | None, number: int) -> Any:
        """What the other task makes of the weighed rows."""
        return self.task.build(apply_position_weights(data, self.inverse), threads, number)


def measure(pool: WorkerPool, partitions: Sequence[Partition]) -> Measured:
    """Count everything; a query that lies in two partitions is an error."""
    found: list[Contents] = pool.each("contents")
    check_queries(pool, partitions, found)
    totals = np.array([one[:5] for one in found], dtype=np.int64).sum(axis=0)
    ends = np.minimum(np.cumsum([one.queries for one in found]), SAMPLE_LISTS)
    sample = tuple(np.diff(ends, prepend=0).tolist())
    rows, queries, used, pairs, missing = (int(total) for total in totals)
    return Measured(rows, queries, used, pairs, missing, sample)


def check_queries(pool: WorkerPool, partitions: Sequence[Partition], found: Sequence[Contents]) -> None:
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
    ids = pool.each("query_ids")
    everything = np.concatenate(ids)
    owner = np.repeat(np.arange(len(ids)), [len(one) for one in ids])
    ranks = np.argsort(everything, kind="stable")
    twice = np.flatnonzero(everything[ranks[1:]] == everything[ranks[:-1]])
    if len(twice) == 0:
        return
    first, second = ranks[twice[0]], ranks[twice[0] + 1]
    a, b = partitions[owner[first]], partitions[owner[second]]
    where = (a.name, b.name) if a.file == b.file else (a.file, b.file)
    others = f" ({len(twice) - 1} more are split like it)" if len(twice) > 1 else ""
    raise QueryOrderError(
        f"query {everything[first : first + 1].tolist()[0]!r} has rows in {where[0]} and in "
        f"{where[1]}{others}",
        fix="Group the rows by query: rankine.distributed.partitions, or --repartition",
    )


class PartitionColumnStatistics:
    """Columns of partitions, asked as ``ColumnStatistics`` is.

    Attributes
    ----------
    team
        Partitions of raw rows.
    lists
        How many of the first lists of each to look at; None for all.
    spec
        What stands for missing values, once that is known.
    """

    def __init__(
        self, pool: WorkerPool, lists: Sequence[int] | None, spec: MissingValues | None = None
    ) -> None:
        self.pool, self.asked = pool, (lists, spec)

    def without_missing(self, spec: MissingValues) -> PartitionColumnStatistics:
        """The columns without missing values."""
        return PartitionColumnStatistics(self.pool, self.asked[0], spec)

    def absent(self) -> NDArray[np.float64]:
        """What the missing values of every column weigh."""
        (absent,) = self.pool.total("columns", *self.asked, "absent")
        return np.asarray(absent)

    def known(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the known values of some columns weigh."""
        (known,) = self.pool.total("columns", *self.asked, "known", columns)
        return np.asarray(known)

    def sizes(self) -> ColumnSizes:
        """Sizes of the values of all columns."""
        return ColumnSizes(*self.pool.total("columns", *self.asked, "sizes"))

    def moments(self, *asked: Any) -> tuple[Any, Any]:
        """Sums of x f and of (x f - mean)^2 over the non-zero values of some columns."""
        sums, squares = self.pool.total("columns", *self.asked, "moments", *asked)
        return sums, squares


def scaling_token(scaling: Scaling) -> str:
    """Digest of a scaling."""
    return token_of(
        scaling.kind,
        scaling.factors,
        scaling.positions,
        repr(scaling.missing),
        scaling.keeps_missing,
    )


# ------------------------------------------------------------------------------ batch problems
# A ``source`` gives all partitions, prepared by a task, as ``worker_pool(task)``; it has ``scaling``,
# measured on all of them, and ``n_features``.


class ProblemTask(NamedTuple):
    """A risk of the rows of a partition."""

    #: ``risk(data, *arguments, threads=...)``, a function that every worker can import, and plain
    #: values; sums over all the data among them.
    risk: Callable[..., Any]
    arguments: tuple[Any, ...]
    #: Measured on all the data.
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("problem", self.risk, repr(self.arguments), scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> RowsProblem:  # noqa: ARG002
        """The problem of the partition."""
        scaled = self.scaling.prepare(data)
        return RowsProblem.from_dataset(
            scaled, self.risk(scaled, *self.arguments, threads=threads), threads
        )


def _totals(source: Any, count: Callable[..., PairTotals], *arguments: Any) -> PairTotals:
    weight, pair_weight, queries = source.worker_pool(RawRowsTask()).total("apply", count, *arguments)
    return PairTotals(float(weight), float(pair_weight), int(queries))


def pair_problem(source: Any, loss: str, normalization: str, counting: str) -> Problem:
    """The pairwise risk of all partitions."""
    totals = _totals(source, pair_totals)
    arguments = (None, loss, normalization, counting, totals)
    pool = source.worker_pool(ProblemTask(pair_risk, arguments, source.scaling))
    at_zero = risk_at_zero(pair_loss_spec(loss), normalization, totals)
    return Problem(pool.total, source.n_features, at_zero, pool.resume_point)


def square_problem(source: Any, normalization: str, pairs: str) -> Problem:
    """Pairwise least squares over all partitions."""
    arguments = (None, normalization, pairs, _totals(source, least_squares_totals, pairs))
    pool = source.worker_pool(ProblemTask(least_squares_risk, arguments, source.scaling))
    return Problem(pool.total, source.n_features, resume_point=pool.resume_point)


def domination_problem(source: Any, options: DominationOptions) -> Problem:
    """The domination loss of all partitions."""
    _check_margins(source, options)
    pool = source.worker_pool(ProblemTask(domination_risk, (options,), source.scaling))
    return Problem(pool.total, source.n_features, resume_point=pool.resume_point)


def _check_margins(source: Any, options: DominationOptions) -> None:
    """Refuse what belongs to rows in memory."""
    margin: Any = options.margin
    if not (margin is None or isinstance(margin, str) or np.isscalar(margin)):
        raise ParameterError(
            "margin as a function or an array belongs to rows in memory",
            fix="Pass a number, or the name of a column of the files (columns=[...])",
        )
    if options.margin_table is None:
        return
    size = len(np.asarray(options.margin_table))
    ranges = source.worker_pool(RawRowsTask()).each("label_range")
    if any(low < 0 or high >= size or not whole for low, high, whole in ranges):
        raise ParameterError(
            f"margin_table on partitions needs the labels 0 to {size - 1}",
            fix="Store labels that number the rows of the table",
        )


# -------------------------------------------------------------------------- passes and means
class PairPassTask(NamedTuple):
    """Stochastic pairwise descent on the pairs of a partition."""

    plan: PairPlan
    #: Steps and passes of all partitions together.
    n_steps: int
    n_passes: int
    #: How pairs are drawn, see ``pair_sampler``.
    sampling: str
    ties: bool
    max_trials: int
    #: Root of the streams of all partitions.
    seed: int
    #: Measured on all of them.
    scaling: Scaling
    #: Examples of all of them; ``average_pairs`` counts.
    total: float = 0.0

    @property
    def token(self) -> str:
        """Digest of everything above."""
        own = repr((*self[:7], self.total))
        return token_of("pair pass", own, scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> _PairPasses:  # noqa: ARG002
        """The partition; its stream of draws is that of its number."""
        return _PairPasses(
            self.scaling.prepare(data), self, int(stream_seed(self.seed, PARTITION + number))
        )


class _PairPasses:
    """A partition's share of the steps."""

    def __init__(self, data: Dataset, task: PairPassTask, seed: int) -> None:
        self.rows, self.task, self.seed = data.rows, task, seed
        self.share = pair_examples(data, task.sampling, task.ties) / task.total
        self.steps = int(task.n_steps * self.share)
        if self.steps:
            self.sampler = pair_sampler(
                data,
                np.ones(data.n_queries),
                sampling=task.sampling,
                ties=task.ties,
                max_trials=task.max_trials,
            )

    def learn(
        self, w: NDArray[np.float64], number: int, warm: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shares of the last iterate and of the mean of the counted ones."""
        n_passes = self.task.n_passes
        first, last = self.steps * number // n_passes, self.steps * (number + 1) // n_passes
        if first == last:
            return self.share * w, self.share * w
        vector = new_vector(w)
        for phase in self.task.plan.phases(self.steps, warm=warm):
            begin, end = max(first, phase.start), min(last, phase.stop)
            if begin < end:
                run_phase(self.rows, self.sampler, phase, vector, self.seed, (begin, end))
        return self.share * last_iterate(vector), self.share * average_iterate(vector)


def pair_examples(data: Dataset, sampling: str, ties: bool) -> float:
    """Examples of a partition: queries or pairs, as ``sampling`` counts."""
    shares = query_shares(data, np.ones(data.n_queries), sampling=sampling, ties=ties)
    return float(shares.sum())


def counted_part(number: int, n_passes: int) -> float:
    """How much of a pass belongs to the second half of all, which is what is averaged."""
    return min(1.0, max(0.0, number + 1 - n_passes / 2))


def average_pairs(
    source: Any,
    task: PairPassTask,
    start: NDArray[np.float64] | None,
    callbacks: Sequence[Callback],
) -> Solution:
    """``n_steps`` pair steps in all, a partition's share of them by its examples."""
    n_steps, n_passes, n_features = task.n_steps, task.n_passes, source.n_features
    found = source.worker_pool(RawRowsTask()).each("apply", pair_examples, task.sampling, task.ties)
    task = task._replace(total=float(sum(found)))
    if task.total <= 0:
        raise NoPairsError("no query holds two different labels", fix="Check the labels")
    pool = source.worker_pool(task)
    w = np.zeros(n_features) if start is None else start
    mean, counted, reason, begun = np.zeros(n_features), 0.0, "passes", 0
    point = pool.resume_point("pair passes", start)
    if point.state is not None:
        w, mean, counted, begun = point.state

    def stands() -> Sequence[Any]:
        return w, mean, counted, number

    for number in range(begun, n_passes):
        point.save(stands)
        w, averaged = pool.total("learn", w, number, start is not None)
        # Averaged are the iterates of the second half of the run; a pass may lie in both.
        part = counted_part(number, n_passes) if task.plan.average else 0.0
        mean, counted = mean + part * averaged, counted + part
        current = mean / counted if counted else w
        require_weights(current, number)
        stop = report_progress(callbacks, "passes", number + 1, n_passes, {}, current)
        if stop and number + 1 < n_passes:
            reason = "callback"
            break
    done = n_steps * (number + 1) // n_passes
    return Solution(current, float("nan"), {"passes": number + 1.0}, done, (), reason)


class ListPassTask(NamedTuple):
    """One-pass list learning on the lists of a partition."""

    #: Name of an update, and what ``make_update`` makes it from.
    update: str
    options: Mapping[str, Any]
    #: What a list's loss is.
    objective: Any
    #: Lists a step; what lists are judged by before they are learned from.
    batch_lists: int
    metric: str
    #: As in ``PairPassTask``; examples are lists.
    seed: int
    total: int
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("list pass", repr(self[:7]), scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> _ListPasses:  # noqa: ARG002
        """The partition; its stream of draws is that of its number."""
        return _ListPasses(
            self.scaling.prepare(data), self, int(stream_seed(self.seed, PARTITION + number))
        )

    def learner(
        self, n_features: int, seed: int, start: NDArray[np.float64] | None, steps: int = 0
    ) -> OnePassLearner:
        """A learner that starts from given weights after some steps; refuses bad options."""
        spec = make_update(self.update, **self.options, started=start is not None)
        return OnePassLearner(
            spec, self.objective, n_features, self.batch_lists, seed, start, steps
        )


class _ListPasses:
    """Passes over the lists of a partition."""

    def __init__(self, data: Dataset, task: ListPassTask, seed: int) -> None:
        self.data, self.task, self.seed = data, task, seed
        self.share = data.n_queries / task.total

    def learn(self, w: NDArray[np.float64], number: int, warm: bool) -> tuple[Any, ...]:
        """Share of the weights; sums of the progressive metric and loss; lists it cannot judge."""
        data, task = self.data, self.task
        steps = number * -(-data.n_queries // task.batch_lists)
        start = w if warm or number else None
        learner = task.learner(data.n_features, self.seed, start, steps)
        learner.lists_seen = number * data.n_queries
        run = OnePassRun(learner, ProgressiveMetric(task.metric))
        run.learn_block(
            data, permutation(stream_seed(self.seed, LIST_ORDER, number), data.n_queries)
        )
        unfit = float(run.progressive.label_error is not None)
        return self.share * learner.coef(), run.progressive.sums, learner.tally, unfit


def average_lists(
    source: Any,
    task: ListPassTask,
    n_passes: int,
    start: NDArray[np.float64] | None,
    max_nonzero: int | None,
    callbacks: Sequence[Callback],
) -> Solution:
    """Passes over every partition, lists in a new seeded order each time.

    ``extra["progressive"]`` is the mean of the metric over lists before they were learned from.
    """
    n_features = source.n_features
    task.learner(n_features, task.seed, start)
    pool = source.worker_pool(task)
    w = np.zeros(n_features) if start is None else start
    progressive, tally, unfit = ProgressiveMetric(task.metric), np.zeros(2), 0.0
    trace: list[dict[str, float]] = []
    reason, begun = "passes", 0
    point = pool.resume_point("list passes", start)
    if point.state is not None:
        w, progressive.sums, tally, unfit, trace, begun = point.state

    def stands() -> Sequence[Any]:
        return w, progressive.sums, tally, unfit, trace, number

    for number in range(begun, n_passes):
        point.save(stands)
        w, sums, losses, strange = pool.total("learn", w, number, start is not None)
        require_finite(w, number, "one-pass learning")
        progressive.sums += sums
        tally, unfit = tally + losses, unfit + strange
        values = {"progressive_loss": float(tally[0] / tally[1]) if tally[1] else float("nan")}
        if not unfit:
            values[progressive.name] = progressive.value
        trace.append({"pass": number + 1, **values})
        kept = w if max_nonzero is None else _largest(w, max_nonzero)
        stop = report_progress(callbacks, "passes", number + 1, n_passes, values, kept)
        if stop and number + 1 < n_passes:
            reason = "callback"
            break
    if tally[1] == 0 and reason == "passes":
        raise no_learnable_lists(task.objective.name)
    judged = float("nan") if unfit else progressive.value
    steps = (number + 1) * -(-task.total // task.batch_lists)
    certificate = {**values, "passes": number + 1.0}
    return Solution(kept, float("nan"), certificate, steps, trace, reason, {"progressive": judged})


def _largest(w: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """At most ``count`` weights, the largest."""
    out = np.zeros_like(w)
    kept = np.argsort(-np.abs(w), kind="stable")[:count]
    out[kept] = w[kept]
    return out
