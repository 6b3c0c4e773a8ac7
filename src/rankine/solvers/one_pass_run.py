"""A run of one-pass learning: read ahead, shuffle, learn, report, checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


#: Lists of a block when batches must not be cut.
BATCHED_LISTS = 4096
#: Reports a pass over lists in memory; a stream, whose length is not known, reports as often for
#: every factor of ten.
REPORTS = 20

#: Blocks of a pass, and the query weights of one whose first query has the given number.
Read = Callable[[], "Iterable[Dataset]"]
Weigh = Callable[["Dataset", int], "NDArray[np.float64] | None"]


@dataclass
class OnePassRun:
    """One or more passes over lists.

    Everything happens at fixed numbers of lists: how a stream is cut into blocks changes nothing.
    """

    learner: OnePassLearner
    #: Judges lists before they are learned from.
    progressive: ProgressiveMetric
    #: Lists of a stream shuffled together; 0 keeps its order.
    shuffle_buffer: int = 0
    #: Reports show the weights of a model that keeps so many.
    max_nonzero: int | None = None
    callbacks: Sequence[Callback] = ()
    checkpointer: Checkpointer | None = None
    trace: list[dict[str, float]] = field(default_factory=list)
    rows_seen: int = 0
    #: Reports come after every so many lists; None: by tens, as a stream grows.
    report_every: int | None = field(default=None, init=False)

    def coef(self) -> NDArray[np.float64]:
        """The weights of the model so far."""
        if self.max_nonzero is None:
            return self.learner.coef()
        return self.learner.largest_weights(self.max_nonzero)

    def learn_dataset(self, data: Dataset, weight: NDArray[np.float64], n_passes: int) -> str:
        """Learn from the lists of a dataset, each pass in an order of its own; why it ended."""
        batch = self.learner.batch_lists
        self.report_every = -(-max(data.n_queries // REPORTS, 1) // batch) * batch

        def order(number: int, block: Dataset, _position: int) -> NDArray[np.int64]:
            stream = (LIST_ORDER, number) if number else (LIST_ORDER,)
            return permutation(stream_seed(self.learner.seed, *stream), block.n_queries)

        return self._run(lambda: [data], order, lambda _block, _first: weight, n_passes)

    def learn_stream(self, read: Read, weigh: Weigh, n_passes: int) -> str:
        """Learn from the blocks that ``read()`` gives, in their order; why it ended."""

        def order(_number: int, block: Dataset, position: int) -> NDArray[np.int64]:
            if self.shuffle_buffer > 0:
                seed = stream_seed(self.learner.seed, STREAMED_ORDER, position)
                return permutation(seed, block.n_queries)
            return np.arange(block.n_queries, dtype=np.int64)

        return self._run(lambda: read_ahead(self._arranged(read())), order, weigh, n_passes)

    def _run(
        self,
        read: Read,
        order: Callable[[int, Dataset, int], NDArray[np.int64]],
        weigh: Weigh,
        n_passes: int,
    ) -> str:
        position = self.learner.lists_seen  # lists before the current block, over all passes
        self._resume()
        for number in range(n_passes):
            stage = "learning" if n_passes == 1 else f"pass {number + 1} of {n_passes}"
            first = position
            for block in read():
                done = self.learner.lists_seen - position
                if done < block.n_queries:
                    rest = order(number, block, position)[done:]
                    if self.learn_block(block, rest, weigh(block, position - first), stage):
                        self._save()
                        return "callback"
                position += block.n_queries
            at_end = self.learner.lists_seen == position
            if at_end and position > self._reported() and self._report(stage):
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
        """Learn from the lists ``order``; True when a callback asks to stop."""
        start = self.learner.lists_seen
        end = start + len(order)
        lists = self.learner.lists(block, list_weight)
        while self.learner.lists_seen < end:
            here = self.learner.lists_seen
            report, due = self._next_report(here), self._next_due(here)
            stop = self._next_stop(start, end, min(report, due))
            self._learn(block, lists, order[here - start : stop - start])
            if stop >= report and self._report(stage):
                return True
            if stop >= due:
                self._save()
        return False

    def _arranged(self, blocks: Iterable[Dataset]) -> Iterator[Dataset]:
        batch = self.learner.batch_lists
        if self.shuffle_buffer > 0:
            return regroup(blocks, -(-self.shuffle_buffer // batch) * batch)
        if batch > 1:
            return regroup(blocks, max(BATCHED_LISTS // batch, 1) * batch)
        return iter(blocks)

    def _next_report(self, here: int) -> int:
        every = self.report_every
        if every is None:
            # The largest power of ten up to the lists seen, twenty times finer.
            every = max(10 ** (len(str(here)) - 1) // 2, 1)
        return (here // every + 1) * every

    def _next_due(self, here: int) -> int:
        return (
            np.iinfo(np.int64).max
            if self.checkpointer is None
            else self.checkpointer.next_due(here)
        )

    def _next_stop(self, start: int, end: int, wanted: int) -> int:
        """The first list count from ``wanted`` on that does not cut a batch.

        ``start`` is where a batch begins: blocks hold whole batches, except the last of a pass.
        """
        batch = self.learner.batch_lists
        return min(end, start + -(-(wanted - start) // batch) * batch)

    def _learn(self, block: Dataset, lists: ListBlock, part: NDArray[np.int64]) -> None:
        try:
            scores = self.learner.learn(block, part, lists)
        except DivergenceError as error:
            raise self._with_checkpoint(error) from None
        in_order = len(part) == block.n_queries and (np.diff(part) == 1).all()
        self.progressive.add(block, scores, None if in_order else part)
        self.rows_seen += int(block.queries.sizes[part].sum())

    def _reported(self) -> float:
        return self.trace[-1]["lists"] if self.trace else -1

    def _report(self, stage: str) -> bool:
        values = {
            self.progressive.name: self.progressive.value,
            "progressive_loss": self.learner.mean_loss,
        }
        step = self.learner.lists_seen
        self.trace.append({"lists": step, "rows": self.rows_seen, **values})
        return notify(self.callbacks, Progress(stage, step, None, values, self.coef))

    # ------------------------------------------------------------------ checkpoints
    def _resume(self) -> None:
        saved = None if self.checkpointer is None else self.checkpointer.restore("one_pass")
        if saved is None:
            return
        self.learner.state[...] = saved.arrays["state"]
        self.learner.clock[...] = saved.arrays["clock"]
        self.learner.tally[...] = saved.arrays["tally"]
        self.progressive.sums[...] = saved.arrays["progressive"]
        told = saved.metadata.get("milestones", [])
        self.progressive.milestones = [(int(lists), float(mean)) for lists, mean in told]
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
        }
        metadata = {
            "rows_seen": self.rows_seen,
            "trace": self.trace,
            "milestones": [list(told) for told in self.progressive.milestones],
        }
        self.checkpointer.save("one_pass", self.learner.lists_seen, arrays, metadata)

    def _with_checkpoint(self, error: DivergenceError) -> DivergenceError:
        path = None if self.checkpointer is None else self.checkpointer.folder.latest_path()
        if path is None:
            return error
        return DivergenceError(error.reason, fix=f"{error.fix}. The last good checkpoint is {path}")


class ProgressiveMetric:
    """Running mean of a metric over lists, each judged by a model that has not yet learned from it.

    Before anything was learned all scores are 0, and the order of the file often gives the labels
    away: items with equal scores count by the mean over their orders. The sum is taken list by list
    in stream order, so it does not depend on how the stream was cut.
    """

    def __init__(self, metric: Any) -> None:
        from rankine.metrics import parse_metric

        named = parse_metric(metric)
        self.name = f"progressive_{named}"
        by_file = named.ties == "file"
        self.metric = named.with_options(ties="expected") if by_file else named
        self.sums = np.zeros(2)  # of values, of lists
        #: (lists, mean so far) at 10, 15, 20, 30, 50, 70, 100, 150 ... lists, however cut.
        self.milestones: list[tuple[int, float]] = []
        #: Why the metric cannot judge these labels; None while it can.
        self.label_error: str | None = None

    @property
    def value(self) -> float:
        """Mean so far; NaN before the first list."""
        judged = self.label_error is None and self.sums[1] > 0
        return float(self.sums[0] / self.sums[1]) if judged else float("nan")

    def add(
        self, data: Dataset, scores: NDArray[np.float64], order: NDArray[np.int64] | None
    ) -> None:
        """Judge the lists ``order`` of a block (None: all, in order)."""
        from rankine.metrics import evaluate

        index, rows = _chosen(data, order)
        columns = data.columns
        labels = data.y
        if rows is not None:
            labels, scores = labels[rows], scores[rows]
            columns = take_columns(columns, rows)
        try:
            values = np.asarray(
                evaluate(self.metric, labels, scores, index, per_query=True, columns=columns)
            )
        except LabelError as error:  # training may know what to do with such labels all the same
            self.label_error = str(error)
            return
        values = values[~np.isnan(values)]
        # cumsum adds one by one; sum would add in a tree whose shape depends on the block.
        running = np.cumsum(np.concatenate([self.sums[:1], values]))
        before = int(self.sums[1])
        for lists in _milestones(before, before + len(values)):
            self.milestones.append((lists, float(running[lists - before] / lists)))
        self.sums[0] = running[-1]
        self.sums[1] += len(values)

    def to_records(self) -> list[dict[str, float]]:
        """The mean along the stream and at its end; nothing where labels do not suit the metric."""
        if self.label_error is not None or self.sums[1] == 0:
            return []
        told = dict([*self.milestones, (int(self.sums[1]), self.value)])
        return [{"lists": lists, self.name: mean} for lists, mean in told.items()]


def _milestones(before: int, now: int) -> list[int]:
    """Round numbers of lists above ``before`` and up to ``now``."""
    found = []
    unit = 10
    while unit <= now:
        found += [unit * k // 10 for k in (10, 15, 20, 30, 50, 70)]
        unit *= 10
    return [lists for lists in found if before < lists <= now]


def _chosen(
    data: Dataset, order: NDArray[np.int64] | None
) -> tuple[QueryIndex, NDArray[np.int64] | None]:
    """The lists in the given order, and their row numbers (None: all rows as they stand)."""
    index = data.queries
    if order is None:
        return index, None
    starts = index.starts[order]
    sizes = index.starts[order + 1] - starts
    ends = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)
    rows = places if index.rows is None else index.rows[places]
    return QueryIndex(order, ends), rows
