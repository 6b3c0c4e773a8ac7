"""Define what workers compute on partitions, and the problems and solvers that use the results.

* ``RawRowsTask`` keeps the rows as they are, to count and measure them (the first pass);
* ``ProblemTask`` builds a risk with the methods of ``solvers.problem``, so that batch solvers run
  unchanged on sums over partitions;
* ``PairPassTask`` and ``ListPassTask`` run passes of the stochastic solvers, whose weights are then
  averaged.

Averaged passes are not the same algorithm as passes over all the data. In each pass every partition
i starts from the same weights w, learns from its rows alone, and

    w  <-  sum_i (examples of i / all examples)  w_i

The result depends only on the partitions, the number of passes and the seed.
(McDonald, Hall and Mann 2010, iterative parameter mixing; Zinkevich et al. 2010.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from rankine.core.errors import NoPairsError, ParameterError, QueryOrderError
from rankine.core.specs import MissingValues
from rankine.core.user_warnings import warn_user
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
from rankine.solvers.one_pass_run import OnePassRun, ProgressiveMetric, compare_to_zero_weights
from rankine.solvers.pair_sgd import PairPlan, require_weights, run_phase
from rankine.solvers.pair_steps import average_iterate, last_iterate, new_vector
from rankine.solvers.problem import Problem, RowsProblem
from rankine.transforms.clicks import ContextWeights, apply_position_weights
from rankine.transforms.scaling import ColumnSizes, ColumnStatistics, Scaling
from rankine.updates import make_update

#: Default number of passes. Each partition's weights have learned from a part of the data only, so
#: their average needs several passes to get close to one pass over all the data.
PASSES = 10


# ------------------------------------------------------------------------------ the first pass
class PartitionCounts(NamedTuple):
    """Counts of one partition."""

    rows: int
    queries: int
    queries_used: int
    pairs: int
    missing: int
    first_id: Any
    last_id: Any


@dataclass(frozen=True)
class TotalCounts:
    """Counts of all partitions."""

    rows: int
    queries: int
    queries_used: int
    pairs: int
    #: Missing values in the files.
    missing: int
    #: Number of lists of each partition among the first ``SAMPLE_LISTS``.
    sample: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RawRows:
    """The unchanged rows of a partition."""

    data: Dataset
    number: int

    def counts(self) -> PartitionCounts:
        """Count the rows, and find the smallest and largest query id."""
        data = self.data
        ids = data.queries.ids
        if ids.dtype.kind in "iu":
            first_id, last_id = ids.min(), ids.max()
        else:  # NumPy has no minimum of strings
            first_id, last_id = min(ids.tolist()), max(ids.tolist())
        return PartitionCounts(
            data.n_rows,
            data.n_queries,
            len(data.labels.queries_with_pairs),
            data.labels.n_pairs,
            data.read_counts.get("missing_values", 0),
            first_id,
            last_id,
        )

    def query_ids(self) -> NDArray[Any]:
        """Return all query ids, each once."""
        return np.unique(self.data.queries.ids)

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the rows."""
        return function(self.data, *arguments)

    def label_range(self) -> tuple[float, float, bool]:
        """Return the smallest and largest label, and whether all are integers."""
        y = self.data.y
        return float(y.min()), float(y.max()), bool((y == np.floor(y)).all())

    def columns(
        self,
        n_features: int,
        n_lists: Sequence[int] | None,
        spec: MissingValues | None,
        method: str,
        *arguments: Any,
    ) -> Any:
        """Call a method of the ``ColumnStatistics`` of the rows.

        They cover the first ``n_features`` columns of the first ``n_lists[number]`` lists (None:
        all), with missing values filled by ``spec``.
        """
        data = self.data
        if n_lists is not None:
            data = data.take_queries(np.arange(n_lists[self.number]))
        columns = ColumnStatistics(lambda: [data], n_features)
        if spec is not None:
            columns = columns.without_missing(spec)
        return getattr(columns, method)(*arguments)


class RawRowsTask(NamedTuple):
    """Keep the rows as they were read."""

    token: str = RAW

    def build(self, data: Dataset, threads: int | None, number: int) -> RawRows:  # noqa: ARG002
        """Return the rows."""
        return RawRows(data, number)


class WeightedRowsTask(NamedTuple):
    """Run another task on rows that are weighted by the positions they were shown at."""

    task: Any
    inverse: tuple[float, ...] | ContextWeights

    @property
    def token(self) -> str:
        """Digest of the fields."""
        return token_of("weighed", self.inverse, self.task.token)

    def build(self, data: Dataset, threads: int | None, number: int) -> Any:
        """Build what the other task builds, for the weighted rows."""
        return self.task.build(apply_position_weights(data, self.inverse), threads, number)


def measure(pool: WorkerPool, partitions: Sequence[Partition]) -> TotalCounts:
    """Count everything, and raise if a query is in two partitions."""
    counts: list[PartitionCounts] = pool.each("counts")
    check_queries(pool, partitions, counts)
    totals = np.array([part[:5] for part in counts], dtype=np.int64).sum(axis=0)
    ends = np.minimum(np.cumsum([part.queries for part in counts]), SAMPLE_LISTS)
    rows, queries, queries_used, pairs, missing = totals.tolist()
    sample = tuple(np.diff(ends, prepend=0).tolist())
    return TotalCounts(rows, queries, queries_used, pairs, missing, sample)


def check_queries(
    pool: WorkerPool, partitions: Sequence[Partition], counts: Sequence[PartitionCounts]
) -> None:
    """Raise if the rows of a query are in two partitions, naming the query and its files.

    Only where the ranges of ids overlap all ids are compared.
    """
    by_first_id = sorted(counts, key=lambda part: part.first_id)
    largest = by_first_id[0].last_id
    overlap = False
    for part in by_first_id[1:]:
        overlap |= part.first_id <= largest
        largest = max(largest, part.last_id)
    if not overlap:
        return
    ids = pool.each("query_ids")
    all_ids = np.concatenate(ids)
    owners = np.repeat(np.arange(len(ids)), list(map(len, ids)))
    order = np.argsort(all_ids, kind="stable")
    repeated = np.flatnonzero(all_ids[order[1:]] == all_ids[order[:-1]])
    if len(repeated) == 0:
        return
    k = repeated[0]
    first, second = partitions[owners[order[k]]], partitions[owners[order[k + 1]]]
    location = f"{first.file} and in {second.file}"
    if first.file == second.file:
        location = f"{first.name} and in {second.name}"
    count = ""
    if len(repeated) > 1:
        count = f" ({len(repeated) - 1} more are split like it)"
    query = all_ids[order[k : k + 1]].tolist()[0]
    raise QueryOrderError(
        f"query {query!r} has rows in {location}{count}",
        fix="Group the rows by query first, with rankine.distributed.repartition or --repartition",
    )


class PartitionColumnStatistics:
    """Statistics of the columns of partitions, with the interface of ``ColumnStatistics``.

    Parameters
    ----------
    pool
        Partitions of raw rows.
    n_features
        Number of the first columns to cover.
    n_lists
        Number of the first lists of each partition to cover; None for all.
    spec
        Values that replace missing ones; None before they are measured.
    """

    def __init__(
        self,
        pool: WorkerPool,
        n_features: int,
        n_lists: Sequence[int] | None,
        spec: MissingValues | None = None,
    ) -> None:
        self.pool = pool
        self.selection = (n_features, n_lists, spec)

    def without_missing(self, spec: MissingValues) -> PartitionColumnStatistics:
        """Return the statistics of the columns with missing values filled."""
        return PartitionColumnStatistics(self.pool, *self.selection[:2], spec)

    def missing_weights(self) -> NDArray[np.float64]:
        """Sum the weights of the missing values of every column."""
        return np.asarray(self.pool.total("columns", *self.selection, "missing_weights")[0])

    def known_weights(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum the weights of the values of some columns that are not missing."""
        return np.asarray(self.pool.total("columns", *self.selection, "known_weights", columns)[0])

    def sizes(self) -> ColumnSizes:
        """Measure the magnitudes of all columns."""
        return ColumnSizes(*self.pool.total("columns", *self.selection, "sizes"))

    def moments(self, *arguments: Any) -> tuple[Any, Any]:
        """Sum x f and (x f - mean)^2 over the non-zero values of some columns."""
        sums, squares = self.pool.total("columns", *self.selection, "moments", *arguments)
        return sums, squares


def scaling_token(scaling: Scaling) -> str:
    """Return a digest of a scaling."""
    return token_of(
        scaling.kind,
        scaling.factors,
        scaling.positions,
        repr(scaling.missing),
        scaling.keeps_missing,
    )


# ------------------------------------------------------------------------------ batch problems
# A ``source`` has ``n_features``, the ``scaling`` that was measured on all partitions, and
# ``worker_pool(task)``, which runs a task on all of them.


class ProblemTask(NamedTuple):
    """Build the risk of the rows of a partition."""

    #: ``risk(data, *arguments, threads=...)``, a function that every worker can import, and plain
    #: values, among them sums over all the data.
    risk: Callable[..., Any]
    arguments: tuple[Any, ...]
    #: TotalCounts on all the data.
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of the fields."""
        return token_of("problem", self.risk, repr(self.arguments), scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> RowsProblem:  # noqa: ARG002
        """Build the problem of the partition."""
        scaled = self.scaling.prepare(data)
        return RowsProblem.from_dataset(
            scaled, self.risk(scaled, *self.arguments, threads=threads), threads
        )


def _pair_totals(source: Any, count: Callable[..., PairTotals], *arguments: Any) -> PairTotals:
    totals = source.worker_pool(RawRowsTask()).total("apply", count, *arguments)
    weight, pair_weight, queries = totals
    return PairTotals(float(weight), float(pair_weight), int(queries))


def pair_problem(source: Any, loss: str, normalization: str, counting: str) -> Problem:
    """Build the pairwise risk of all partitions."""
    totals = _pair_totals(source, pair_totals)
    arguments = (None, loss, normalization, counting, totals)
    pool = source.worker_pool(ProblemTask(pair_risk, arguments, source.scaling))
    at_zero = risk_at_zero(pair_loss_spec(loss), normalization, totals)
    return Problem(pool.total, source.n_features, at_zero, pool.resume_point)


def square_problem(source: Any, normalization: str, pairs: str) -> Problem:
    """Build pairwise least squares over all partitions."""
    totals = _pair_totals(source, least_squares_totals, pairs)
    arguments = (None, normalization, pairs, totals)
    pool = source.worker_pool(ProblemTask(least_squares_risk, arguments, source.scaling))
    return Problem(pool.total, source.n_features, resume_point=pool.resume_point)


def domination_problem(source: Any, options: DominationOptions) -> Problem:
    """Build the domination loss of all partitions."""
    _check_margins(source, options)
    pool = source.worker_pool(ProblemTask(domination_risk, (options,), source.scaling))
    return Problem(pool.total, source.n_features, resume_point=pool.resume_point)


def _check_margins(source: Any, options: DominationOptions) -> None:
    """Raise if a margin cannot be evaluated on partitions."""
    margin: Any = options.margin
    if not (margin is None or isinstance(margin, str) or np.isscalar(margin)):
        raise ParameterError(
            "a function or an array can only be used with rows in memory",
            parameter="margin",
            fix="Pass a number, or the name of a column of the files",
        )
    if options.margin_table is None:
        return
    size = len(np.asarray(options.margin_table))
    ranges = source.worker_pool(RawRowsTask()).each("label_range")
    if any(low < 0 or high >= size or not whole for low, high, whole in ranges):
        raise ParameterError(
            f"on partitions the labels must be the integers 0 to {size - 1}",
            parameter="margin_table",
            fix="Store labels that number the rows of the table",
        )


# -------------------------------------------------------------------------- averaged passes
class PairPassTask(NamedTuple):
    """Run stochastic pairwise descent on the pairs of a partition."""

    plan: PairPlan
    #: Steps and passes of all partitions together.
    n_steps: int
    n_passes: int
    #: How pairs are drawn, see ``pair_sampler``.
    sampling: str
    ties: bool
    max_trials: int
    #: Root of the random streams of all partitions.
    seed: int
    #: TotalCounts on all partitions.
    scaling: Scaling
    #: Number of examples in all partitions; ``average_pairs`` counts them.
    total: float = 0.0

    @property
    def token(self) -> str:
        """Digest of the fields."""
        fields = repr((*self[:7], self.total))
        return token_of("pair pass", fields, scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> _PairPasses:  # noqa: ARG002
        """Prepare the partition; its random stream depends on its number."""
        seed = int(stream_seed(self.seed, PARTITION + number))
        return _PairPasses(self.scaling.prepare(data), self, seed)


class _PairPasses:
    """Runs a partition's share of the steps."""

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
        """Run one pass; return the last and the average iterate, times the partition's share."""
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
    """Count the examples of a partition: queries or pairs, depending on ``sampling``."""
    shares = query_shares(data, np.ones(data.n_queries), sampling=sampling, ties=ties)
    return float(shares.sum())


def averaged_fraction(number: int, n_passes: int) -> float:
    """Return the fraction of a pass in the second half of all passes, which is averaged."""
    return min(1.0, max(0.0, number + 1 - n_passes / 2))


def average_pairs(
    source: Any,
    task: PairPassTask,
    start: NDArray[np.float64] | None,
    callbacks: Sequence[Callback],
) -> Solution:
    """Run ``n_steps`` pair steps, each partition's share of them by its number of examples."""
    n_steps, n_passes, n_features = task.n_steps, task.n_passes, source.n_features
    examples = source.worker_pool(RawRowsTask()).each(
        "apply", pair_examples, task.sampling, task.ties
    )
    task = task._replace(total=float(sum(examples)))
    if task.total <= 0:
        raise NoPairsError("no query holds two different labels", fix="Check the labels")
    pool = source.worker_pool(task)
    w = np.zeros(n_features) if start is None else start
    mean, averaged, stop_reason, first_pass = np.zeros(n_features), 0.0, "passes", 0
    point = pool.resume_point("pair passes", start)
    if point.state is not None:
        w, mean, averaged, first_pass = point.state

    def state() -> Sequence[Any]:
        return w, mean, averaged, number

    for number in range(first_pass, n_passes):
        point.save(state)
        w, pass_mean = pool.total("learn", w, number, start is not None)
        # The iterates of the second half of the run are averaged; a pass may be in both halves.
        fraction = 0.0
        if task.plan.average:
            fraction = averaged_fraction(number, n_passes)
        mean, averaged = mean + fraction * pass_mean, averaged + fraction
        coef = w
        if averaged:
            coef = mean / averaged
        require_weights(coef, number)
        stop = report_progress(callbacks, "passes", number + 1, n_passes, {}, coef)
        if stop and number + 1 < n_passes:
            stop_reason = "callback"
            break
    n_done = n_steps * (number + 1) // n_passes
    return Solution(coef, float("nan"), {"passes": number + 1.0}, n_done, (), stop_reason)


class ListPassTask(NamedTuple):
    """Run one-pass list learning on the lists of a partition."""

    #: Name of an update, and its options for ``make_update``.
    update: str
    options: Mapping[str, Any]
    #: Loss of a list.
    objective: Any
    #: Lists per step, and the metric that lists are evaluated with before they are learned from.
    batch_lists: int
    metric: str
    #: As in ``PairPassTask``; examples are lists.
    seed: int
    total: int
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of the fields."""
        return token_of("list pass", repr(self[:7]), scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> _ListPasses:  # noqa: ARG002
        """Prepare the partition; its random stream depends on its number."""
        seed = int(stream_seed(self.seed, PARTITION + number))
        return _ListPasses(self.scaling.prepare(data), self, seed)

    def learner(
        self, n_features: int, seed: int, start: NDArray[np.float64] | None, steps: int = 0
    ) -> OnePassLearner:
        """Build a learner that starts from given weights after some steps; checks the options."""
        spec = make_update(self.update, **self.options, started=start is not None)
        return OnePassLearner(
            spec, self.objective, n_features, self.batch_lists, seed, start, steps
        )


class _ListPasses:
    """Runs passes over the lists of a partition."""

    def __init__(self, data: Dataset, task: ListPassTask, seed: int) -> None:
        self.data, self.task, self.seed = data, task, seed
        self.share = data.n_queries / task.total

    def learn(self, w: NDArray[np.float64], number: int, warm: bool) -> tuple[Any, ...]:
        """Run one pass over the lists in a new order.

        Returns the weights times the partition's share, the sums of the progressive metric, the
        learner's tally, and 1 if the labels do not fit the metric.
        """
        data, task = self.data, self.task
        steps = number * -(-data.n_queries // task.batch_lists)
        # A learner without a start may use its update's own initial state, in the first pass only.
        start = None
        if warm or number:
            start = w
        learner = task.learner(data.n_features, self.seed, start, steps)
        learner.lists_seen = number * data.n_queries
        run = OnePassRun(learner, ProgressiveMetric(task.metric))
        order = permutation(stream_seed(self.seed, LIST_ORDER, number), data.n_queries)
        run.learn_block(data, order)
        n_unfit = float(run.progressive.label_error is not None)
        return self.share * learner.coef(), run.progressive.sums, learner.tally, n_unfit


def average_lists(
    source: Any,
    task: ListPassTask,
    n_passes: int,
    start: NDArray[np.float64] | None,
    max_nonzero: int | None,
    callbacks: Sequence[Callback],
) -> Solution:
    """Pass over every partition, with the lists in a new seeded order each time.

    ``extra["progressive"]`` is the mean of the metric over lists before they were learned from.
    Each pass is compared with zero weights, as in a run over one stream.
    """
    n_features = source.n_features
    # Check the options here rather than on the workers.
    task.learner(n_features, task.seed, start)
    pool = source.worker_pool(task)
    w = np.zeros(n_features) if start is None else start
    progressive, tally, n_unfit = ProgressiveMetric(task.metric), np.zeros(4), 0.0
    trace: list[dict[str, float]] = []
    stop_reason, first_pass = "passes", 0
    point = pool.resume_point("list passes", start)
    if point.state is not None:
        w, progressive.sums, tally, n_unfit, trace, first_pass = point.state
    steps_a_pass = -(-task.total // task.batch_lists)

    def state() -> Sequence[Any]:
        return w, progressive.sums, tally, n_unfit, trace, number

    for number in range(first_pass, n_passes):
        point.save(state)
        w, sums, losses, unfit = pool.total("learn", w, number, start is not None)
        require_finite(w, number, "one-pass learning")
        message = compare_to_zero_weights(losses, (number + 1) * steps_a_pass)
        progressive.sums += sums
        tally, n_unfit = tally + losses, n_unfit + unfit
        loss = float("nan")
        if tally[1]:
            loss = float(tally[0] / tally[1])
        values = {"progressive_loss": loss}
        if not n_unfit:
            values[progressive.name] = progressive.value
        trace.append({"pass": number + 1, **values})
        coef = w
        if max_nonzero is not None:
            coef = _keep_largest(w, max_nonzero)
        stop = report_progress(callbacks, "passes", number + 1, n_passes, values, coef)
        if stop and number + 1 < n_passes:
            stop_reason = "callback"
            break
    if tally[1] == 0 and stop_reason == "passes":
        raise no_learnable_lists(task.objective.name)
    # Early stopping keeps weights from before the last pass.
    if message is not None and stop_reason == "passes":
        warn_user(message, ConvergenceWarning)
    extra = {"progressive": progressive.value}
    if n_unfit:
        extra["progressive"] = float("nan")
    steps = (number + 1) * steps_a_pass
    certificate = {**values, "passes": number + 1.0}
    return Solution(coef, float("nan"), certificate, steps, trace, stop_reason, extra)


def _keep_largest(w: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Set all but the ``count`` largest weights to 0."""
    sparse = np.zeros_like(w)
    largest = np.argsort(-np.abs(w), kind="stable")[:count]
    sparse[largest] = w[largest]
    return sparse
