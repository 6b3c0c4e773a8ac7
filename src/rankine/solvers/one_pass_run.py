"""One-pass learning over a dataset or stream: reading ahead, shuffling, reports, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError, LabelError
from rankine.data.dataset import take_columns
from rankine.data.progress import read_ahead
from rankine.data.query_index import QueryIndex
from rankine.data.scan import regroup
from rankine.kernels.random import LIST_ORDER, STREAMED_ORDER, permutation, stream_seed
from rankine.solvers.base import Callback, Progress, notify

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.solvers.checkpoint import Checkpointer
    from rankine.solvers.one_pass import ListBlock, OnePassLearner


#: Approximate number of lists per block if blocks must hold whole batches.
BATCHED_LISTS = 4096
#: Number of reports per pass over lists in memory. A stream, whose length is unknown, makes as many
#: reports for every factor of ten.
REPORTS = 20

#: Fewest lists on which a run is judged before its end.
FEWEST_COMPARED = 64
#: A run whose loss is this many times the loss of zero weights has diverged.
DIVERGED = 10.0

#: Returns the blocks of a pass.
ReadBlocks = Callable[[], "Iterable[Dataset]"]
#: Returns the query weights of a block, given the number of queries before it.
WeightsOf = Callable[["Dataset", int], "NDArray[np.float64] | None"]


@dataclass
class OnePassRun:
    """One or more passes of a learner over lists.

    Steps, reports and checkpoints happen at fixed numbers of lists, so the result does not depend
    on how a stream is cut into blocks.
    """

    learner: OnePassLearner
    #: Metric of each list, computed before it is learned from.
    progressive: ProgressiveMetric
    #: Number of lists of a stream that are shuffled together; 0 keeps their order.
    shuffle_buffer: int = 0
    #: Largest number of non-zero weights in the models that callbacks get.
    max_nonzero: int | None = None
    callbacks: Sequence[Callback] = ()
    checkpointer: Checkpointer | None = None
    trace: list[dict[str, float]] = field(default_factory=list)
    rows_seen: int = 0
    #: The learner's tally at the last check of convergence, and at the check before it.
    checked: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, 4)))
    #: Number of lists between reports; None: ``REPORTS`` per factor of ten.
    report_every: int | None = field(default=None, init=False)

    def copy(self) -> OnePassRun:
        """Return a run that continues from here and leaves this one as it is."""
        run = copy(self)
        run.learner, run.progressive = deepcopy(self.learner), deepcopy(self.progressive)
        run.trace = self.trace.copy()  # records are never changed
        run.checked = self.checked.copy()
        return run

    def coef(self) -> NDArray[np.float64]:
        """Return the current weights."""
        if self.max_nonzero is None:
            return self.learner.coef()
        return self.learner.largest_weights(self.max_nonzero)

    def learn_dataset(self, data: Dataset, weight: NDArray[np.float64], n_passes: int) -> str:
        """Learn from a dataset, each pass in another random order; return the stop reason."""
        batch = self.learner.batch_lists
        self.report_every = -(-max(data.n_queries // REPORTS, 1) // batch) * batch

        def order(pass_number: int, block: Dataset, _position: int) -> NDArray[np.int64]:
            stream = (LIST_ORDER, pass_number) if pass_number else (LIST_ORDER,)
            return permutation(stream_seed(self.learner.seed, *stream), block.n_queries)

        return self._run(lambda: [data], order, lambda _block, _first: weight, n_passes)

    def learn_stream(self, read_blocks: ReadBlocks, weights_of: WeightsOf, n_passes: int) -> str:
        """Learn from the blocks of ``read_blocks()``, in order; return the stop reason."""

        def order(_pass_number: int, block: Dataset, position: int) -> NDArray[np.int64]:
            if self.shuffle_buffer > 0:
                seed = stream_seed(self.learner.seed, STREAMED_ORDER, position)
                return permutation(seed, block.n_queries)
            return np.arange(block.n_queries, dtype=np.int64)

        return self._run(
            lambda: read_ahead(self._regrouped(read_blocks())), order, weights_of, n_passes
        )

    def _run(
        self,
        read_blocks: ReadBlocks,
        order: Callable[[int, Dataset, int], NDArray[np.int64]],
        weights_of: WeightsOf,
        n_passes: int,
    ) -> str:
        """Make ``n_passes`` passes; return the stop reason.

        ``order(pass_number, block, position)`` returns the order of a block's lists.
        """
        position = self.learner.lists_seen  # lists before the current block, over all passes
        self._resume()
        for pass_number in range(n_passes):
            stage = "learning" if n_passes == 1 else f"pass {pass_number + 1} of {n_passes}"
            first = position
            for block in read_blocks():
                # After a resume, skip the lists that were learned from before the interruption.
                n_done = self.learner.lists_seen - position
                if n_done < block.n_queries:
                    remaining = order(pass_number, block, position)[n_done:]
                    weights = weights_of(block, position - first)
                    if self.learn_block(block, remaining, weights, stage):
                        self._save()
                        return "callback"
                position += block.n_queries
            at_end = self.learner.lists_seen == position
            if at_end and position > self._last_reported() and self._report(stage):
                self._save()
                return "callback"
        self._save()
        return "passes"

    def learn_block(
        self,
        block: Dataset,
        order: NDArray[np.int64],
        list_weight: NDArray[np.float64] | None = None,
        stage: str = "learning",
    ) -> bool:
        """Learn from the lists ``order``; return whether a callback requested a stop."""
        start = self.learner.lists_seen
        end = start + len(order)
        lists = self.learner.lists(block, list_weight)
        while self.learner.lists_seen < end:
            n_seen = self.learner.lists_seen
            next_report, next_checkpoint = self._next_report(n_seen), end + 1
            if self.checkpointer is not None:
                next_checkpoint = self.checkpointer.next_due(n_seen)
            stop = self._next_stop(start, end, min(next_report, next_checkpoint))
            self._learn(block, lists, order[n_seen - start : stop - start])
            if stop >= next_report and self._report(stage):
                return True
            if stop >= next_checkpoint:
                self._save()
        return False

    def _regrouped(self, blocks: Iterable[Dataset]) -> Iterator[Dataset]:
        batch = self.learner.batch_lists
        if self.shuffle_buffer > 0:
            return regroup(blocks, -(-self.shuffle_buffer // batch) * batch)
        if batch > 1:
            return regroup(blocks, max(BATCHED_LISTS // batch, 1) * batch)
        return iter(blocks)

    def _next_report(self, n_lists: int) -> int:
        every = self.report_every
        if every is None:
            # A twentieth of the largest power of ten up to ``n_lists``.
            every = max(10 ** (len(str(n_lists)) - 1) // 2, 1)
        return (n_lists // every + 1) * every

    def _next_stop(self, start: int, end: int, due: int) -> int:
        """Return the first number of lists from ``due`` on that does not split a batch.

        A batch begins at ``start``: blocks hold whole batches, except the last of a pass.
        """
        batch = self.learner.batch_lists
        return min(end, start + -(-(due - start) // batch) * batch)

    def _learn(self, block: Dataset, lists: ListBlock, part: NDArray[np.int64]) -> None:
        try:
            scores = self.learner.learn(block, part, lists)
        except DivergenceError as error:
            raise self._with_checkpoint(error) from None
        in_order = len(part) == block.n_queries and (np.diff(part) == 1).all()
        self.progressive.add(block, scores, None if in_order else part)
        self.rows_seen += int(block.queries.sizes[part].sum())

    def require_convergence(self, *, at_end: bool = False) -> str | None:
        """Raise if the loss of the last lists is far above the loss of zero weights.

        At the end of a run, return a warning if it is above it at all.
        """
        with np.errstate(invalid="ignore"):  # the difference of infinite sums is noticed below
            since_check = self.learner.tally - self.checked[1 if at_end else 0]
        if not at_end and since_check[1] < FEWEST_COMPARED:
            return None
        try:
            message = compare_to_zero_weights(since_check, self.learner.steps)
        except DivergenceError as error:
            raise self._with_checkpoint(error) from None
        self.checked[1] = self.checked[0]
        self.checked[0] = self.learner.tally
        return message if at_end else None

    def _last_reported(self) -> float:
        return self.trace[-1]["lists"] if self.trace else -1

    def _report(self, stage: str) -> bool:
        self.require_convergence()
        values = {
            self.progressive.name: self.progressive.value,
            "progressive_loss": self.learner.mean_loss,
        }
        step = self.learner.lists_seen
        self.trace.append({"lists": step, "rows": self.rows_seen, **values})
        return notify(self.callbacks, Progress(stage, step, None, values, self.coef))

    # ------------------------------------------------------------------ checkpoints
    def _resume(self) -> None:
        """Restore learner, metric and trace from the checkpoint of an interrupted run."""
        saved = None if self.checkpointer is None else self.checkpointer.restore("one_pass")
        if saved is None:
            return
        self.learner.state[...] = saved.arrays["state"]
        self.learner.clock[...] = saved.arrays["clock"]
        self.learner.tally[...] = saved.arrays["tally"]
        self.progressive.sums[...] = saved.arrays["progressive"]
        self.checked[...] = saved.arrays["checked"].reshape(2, 4)
        milestones = saved.metadata.get("milestones", [])
        self.progressive.milestones = [(int(lists), float(mean)) for lists, mean in milestones]
        self.learner.lists_seen = saved.step
        self.rows_seen = int(saved.metadata["rows_seen"])
        self.trace = [dict(entry) for entry in saved.metadata["trace"]]

    def _save(self) -> None:
        if self.checkpointer is None:
            return
        if not np.isfinite(self.learner.state).all():
            raise self._with_checkpoint(
                DivergenceError(
                    f"weights are no longer finite after {self.learner.steps} steps",
                    fix="Lower eta0, or scale the features (scale='query')",
                )
            )
        arrays = {
            "state": self.learner.state,
            "clock": self.learner.clock,
            "tally": self.learner.tally,
            "progressive": self.progressive.sums,
            "checked": self.checked.ravel(),
        }
        metadata = {
            "rows_seen": self.rows_seen,
            "trace": self.trace,
            "milestones": [list(milestone) for milestone in self.progressive.milestones],
        }
        self.checkpointer.save("one_pass", self.learner.lists_seen, arrays, metadata)

    def _with_checkpoint(self, error: DivergenceError) -> DivergenceError:
        """Add the path of the last checkpoint to the error's remedy."""
        path = None if self.checkpointer is None else self.checkpointer.folder.latest_path()
        if path is None:
            return error
        return DivergenceError(error.reason, fix=f"{error.fix}. The last good checkpoint is {path}")


def compare_to_zero_weights(tally: NDArray[np.float64], steps: int) -> str | None:
    """Raise if the loss of some lists is far above the loss of zero weights.

    Returns a warning if it is above it at all. ``tally`` is that of ``OnePassLearner``.
    """
    loss, n_lists, zero_loss, squares = tally.tolist()
    times = loss / zero_loss if zero_loss > 0 else 1.0
    if not np.isfinite(loss) or times > DIVERGED:
        raise DivergenceError(
            f"training diverged: after {steps} steps the loss is {times:.3g} "
            "times that of zero weights",
            fix="Lower eta0, or scale the features (scale='query')",
        )
    # A difference above two standard errors, so that chance does not warn.
    if n_lists >= FEWEST_COMPARED and loss - zero_loss > 2 * squares**0.5:
        return (
            f"the loss of the last lists is {times:.3g} times that of zero weights: steps may "
            "be too large. Lower eta0, or scale the features (scale='query')"
        )
    return None


class ProgressiveMetric:
    """Running mean of a metric over lists, each evaluated before it is learned from.

    Before the first step all scores are 0, and the order of a file often reveals the labels: ties
    therefore count by the mean over all orders, even in the modes that use file order. The sum is
    computed list by list in stream order, so it does not depend on how the stream is cut into
    blocks.
    """

    def __init__(self, metric: Any) -> None:
        from rankine.metrics import parse_metric

        named = parse_metric(metric)
        self.name = f"progressive_{named}"
        by_file = named.ties == "file"
        self.metric = named.with_options(ties="expected") if by_file else named
        self.sums = np.zeros(2)  # sum of values, number of lists
        #: (number of lists, mean so far) at 10, 15, 20, 30, 50, 70, 100, 150 ... lists.
        self.milestones: list[tuple[int, float]] = []
        #: Message of the error if the labels are outside the metric's domain, else None.
        self.label_error: str | None = None

    @property
    def value(self) -> float:
        """Mean so far; NaN before the first list."""
        evaluated = self.label_error is None and self.sums[1] > 0
        return float(self.sums[0] / self.sums[1]) if evaluated else float("nan")

    def add(
        self, data: Dataset, scores: NDArray[np.float64], order: NDArray[np.int64] | None
    ) -> None:
        """Evaluate the lists ``order`` of a block (None: all, in order)."""
        from rankine.metrics import evaluate

        index, rows = _select_lists(data, order)
        columns: Mapping[str, Any] = {
            name: data.columns[name] for name in self.metric.columns if name in data.columns
        }
        labels = data.y
        if rows is not None:
            labels, scores = labels[rows], scores[rows]
            columns = take_columns(columns, rows)
        try:
            values = np.asarray(
                evaluate(self.metric, labels, scores, index, per_query=True, columns=columns)
            )
        except LabelError as error:  # such labels may still be valid for the training objective
            self.label_error = str(error)
            return
        values = values[~np.isnan(values)]
        # cumsum adds one by one; sum() adds in a tree whose shape depends on the block.
        running = np.cumsum(np.concatenate([self.sums[:1], values]))
        previous_count = int(self.sums[1])
        for lists in _milestones(previous_count, previous_count + len(values)):
            self.milestones.append((lists, float(running[lists - previous_count] / lists)))
        self.sums[0] = running[-1]
        self.sums[1] += len(values)

    def to_records(self) -> list[dict[str, float]]:
        """Return the mean at the milestones and at the end; nothing after a label error."""
        if self.label_error is not None or self.sums[1] == 0:
            return []
        means = dict([*self.milestones, (int(self.sums[1]), self.value)])
        return [{"lists": lists, self.name: mean} for lists, mean in means.items()]


def _milestones(previous: int, current: int) -> list[int]:
    """Return the milestones above ``previous`` and up to ``current``."""
    milestones = []
    unit = 10
    while unit <= current:
        milestones += [unit * k // 10 for k in (10, 15, 20, 30, 50, 70)]
        unit *= 10
    return [lists for lists in milestones if previous < lists <= current]


def _select_lists(
    data: Dataset, order: NDArray[np.int64] | None
) -> tuple[QueryIndex, NDArray[np.int64] | None]:
    """Return an index of the lists in ``order``, and their rows (None: all rows in order)."""
    index = data.queries
    if order is None:
        return index, None
    ends = np.concatenate([[0], np.cumsum(index.sizes[order])])
    return QueryIndex(order, ends), index.rows_of_queries(order)
