"""A run of one-pass learning over a stream: read ahead, shuffle, learn, report, checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError
from rankine.data.progress import read_ahead
from rankine.data.scan import regroup
from rankine.kernels.random import permutation, stream_seed
from rankine.solvers.base import Callback, Progress, notify
from rankine.solvers.checkpoint import Checkpoint, CheckpointFolder

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.solvers.one_pass import OnePassLearner
    from rankine.solvers.progressive import Progressive

__all__ = ["OnePassRun"]

#: Lists of a block when batches must not be cut.
BATCHED_LISTS = 4096


@dataclass
class OnePassRun:
    """One or more passes over a stream of blocks.

    Parameters
    ----------
    learner
        What learns.
    progressive
        Judges lists before they are learned from.
    shuffle_buffer
        Lists shuffled together; 0 keeps the order of the stream.
    callbacks
        Called at the end of every block, and every ``report_every`` lists.
    checkpoints
        Where to keep the state; None keeps none.
    facts
        What a resumed run must agree with.
    """

    learner: OnePassLearner
    progressive: Progressive
    shuffle_buffer: int = 0
    callbacks: Sequence[Callback] = ()
    checkpoints: CheckpointFolder | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    report_every: int | None = None
    trace: list[dict[str, float]] = field(default_factory=list)
    rows_seen: int = 0
    origin: int = field(init=False)

    def __post_init__(self) -> None:
        self.origin = self.learner.lists_seen

    def resume(self) -> None:
        """Continue from the newest checkpoint of the folder."""
        assert self.checkpoints is not None  # noqa: S101 - narrows the type
        path = self.checkpoints.latest_path()
        saved = self.checkpoints.latest()
        saved.require("one_pass", self.facts, path)
        self.learner.state[...] = saved.arrays["state"]
        self.learner.clock[...] = saved.arrays["clock"]
        self.learner.tally[...] = saved.arrays["tally"]
        self.progressive.sums[...] = saved.arrays["progressive"]
        told = saved.facts.get("milestones", [])
        self.progressive.milestones = [(int(lists), float(mean)) for lists, mean in told]
        self.learner.lists_seen = saved.step
        self.rows_seen = int(saved.facts["rows_seen"])
        self.trace = [dict(entry) for entry in saved.facts["trace"]]

    def run(self, read: Callable[[], Iterable[Dataset]], passes: int = 1) -> str:
        """Learn from the blocks that ``read()`` gives; the reason why it ended."""
        position = self.origin  # lists before the current block, over all passes
        for number in range(passes):
            stage = "learning" if passes == 1 else f"pass {number + 1} of {passes}"
            for block in read_ahead(self._arranged(read())):
                done = self.learner.lists_seen - position
                if done < block.n_queries and self.learn_block(
                    block, self._order(block, position)[done:], stage=stage
                ):
                    self._save()
                    return "callback"
                position += block.n_queries
        self._save()
        return "passes"

    def _arranged(self, blocks: Iterable[Dataset]) -> Iterator[Dataset]:
        batch = self.learner.batch_lists
        if self.shuffle_buffer > 0:
            return regroup(blocks, -(-self.shuffle_buffer // batch) * batch)
        if batch > 1:
            return regroup(blocks, max(BATCHED_LISTS // batch, 1) * batch)
        return iter(blocks)

    def _order(self, block: Dataset, position: int) -> NDArray[np.int64]:
        if self.shuffle_buffer > 0:
            return permutation(stream_seed(self.learner.seed, 3, position), block.n_queries)
        return np.arange(block.n_queries, dtype=np.int64)

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
        while self.learner.lists_seen < end:
            here = self.learner.lists_seen
            stop = self._next_stop(here, start, end)
            self._learn(block, order[here - start : stop - start], list_weight)
            if self.checkpoints is not None and stop >= self.checkpoints.next_due(here):
                self._save()
            reporting = stop == end or (self.report_every and stop % self.report_every == 0)
            if reporting and self._report(stage):
                return True
        return False

    def _next_stop(self, here: int, start: int, end: int) -> int:
        """The next list count at which to save or report, never inside a batch.

        ``start`` is where a batch begins: blocks hold whole batches, except the last of a pass.
        """
        stops = []
        if self.checkpoints is not None:
            stops.append(self.checkpoints.next_due(here))
        if self.report_every:
            stops.append((here // self.report_every + 1) * self.report_every)
        batch = self.learner.batch_lists
        return min([end, *(start + -(-(stop - start) // batch) * batch for stop in stops)])

    def _learn(
        self, block: Dataset, part: NDArray[np.int64], weight: NDArray[np.float64] | None
    ) -> None:
        try:
            scores = self.learner.learn(block, part, weight)
        except DivergenceError as error:
            raise self._with_checkpoint(error) from None
        in_order = len(part) == block.n_queries and (np.diff(part) == 1).all()
        self.progressive.add(block, scores, None if in_order else part)
        self.rows_seen += int(block.queries.sizes[part].sum())

    def _with_checkpoint(self, error: DivergenceError) -> DivergenceError:
        path = None if self.checkpoints is None else self.checkpoints.latest_path()
        if path is None:
            return error
        return DivergenceError(error.reason, fix=f"{error.fix}. The last good checkpoint is {path}")

    def _report(self, stage: str) -> bool:
        values = {
            self.progressive.name: self.progressive.value,
            "progressive_loss": self.learner.mean_loss,
        }
        step = self.learner.lists_seen
        self.trace.append({"lists": step, "rows": self.rows_seen, **values})
        return notify(self.callbacks, Progress(stage, step, None, values, self.learner.coef))

    def _save(self) -> None:
        if self.checkpoints is None:
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
        facts = {
            **self.facts,
            "rows_seen": self.rows_seen,
            "trace": self.trace,
            "milestones": [list(told) for told in self.progressive.milestones],
        }
        self.checkpoints.save(Checkpoint("one_pass", self.learner.lists_seen, arrays, facts))
