"""Solving the topics of a collection: one at a time per thread, counted and watched."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import NoPairsError
from rankine.data.dataset import row_scores
from rankine.data.progress import live_console
from rankine.rankers.domination_task import task_levels
from rankine.rankers.topic_data import Collection, HeldOut
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.coordinate_descent import CoordinateDescent, Penalty, Settings
from rankine.solvers.domination import domination_descent, restart
from rankine.solvers.l1_path import PathPoint, l1_grid, points_within, walk

if TYPE_CHECKING:
    from rankine.rankers.domination import DominationRanker

__all__ = ["Found", "TopicTask", "Watcher", "progress_bar", "solve_topics"]


@dataclass(frozen=True)
class Found:
    """A topic's weights (one sparse row) and how they came about (None: skipped)."""

    weights: sparse.csr_array
    record: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class TopicTask:
    """Everything that solving one topic needs, besides its number."""

    ranker: DominationRanker
    shared: Collection
    strengths: NDArray[np.float64]
    held: HeldOut | None
    n_steps: int
    min_ratio: float
    skip_empty: bool
    names: Sequence[str]
    seed: int

    def solve(self, topic: int) -> Found:
        """Solve one topic on one thread."""
        ranker, shared = self.ranker, self.shared
        y, candidates = shared.labels.column(topic)
        try:
            levels = task_levels(
                y,
                shared.queries,
                np.ones(shared.queries.n_queries),
                ranker.task_options(),
                weight=shared.weight,
                candidates=candidates,
                columns=shared.extra,
            )
        except NoPairsError as error:
            if self.skip_empty:
                return Found(sparse.csr_array((1, shared.n_features)), None)
            raise NoPairsError(
                f"topic {self.names[topic]}: {error.reason}",
                fix="Pass skip_empty=True to leave such topics out",
            ) from error
        solution, l1 = self._chosen(domination_descent(shared.columns, levels), topic)
        weights = shared.scaling.fold(solution.coef)
        return Found(sparse.csr_array(weights[None, :]), _record(solution, l1))

    def _chosen(self, descent: CoordinateDescent, topic: int) -> tuple[Solution, float]:
        """The solution to keep, and its l1."""
        settings = self.ranker.solver_settings(self.seed, threads=1)
        slopes = descent.gradient(1)
        largest = float(np.abs(slopes).max(initial=0.0))
        points = self._path(descent, settings, largest, topic) if largest > 0 else []
        if points:
            best = points[self._best(points, topic)]
            return best.solution, best.l1
        if self.ranker.max_nonzero is None:
            l1 = self.ranker.resolve_l1(largest, self.strengths[topic])
        else:
            # No model is small enough but the empty one.
            l1 = largest
            restart(descent, np.zeros(len(descent.w)))
        return descent.solve(Penalty(l1, float(self.ranker.l2)), settings, (), slopes), l1

    def _path(
        self, descent: CoordinateDescent, settings: Settings, largest: float, topic: int
    ) -> list[PathPoint]:
        """Models to choose from; none when l1 is known."""
        l2, limit = float(self.ranker.l2), self.ranker.max_nonzero
        if limit is not None:
            return list(points_within(descent, largest, l2, settings, int(limit)))
        if self.held is None or not np.isnan(self.strengths[topic]):
            return []
        grid = l1_grid(largest, self.n_steps, self.min_ratio)
        return list(walk(descent, grid.tolist(), l2, settings))

    def _best(self, points: list[PathPoint], topic: int) -> int:
        """Position of the model with the best metric on held-out rows (else the smallest loss).

        The sparsest of equals, since the path starts with the empty model.
        """
        from rankine.metrics import evaluate, parse_metric

        if self.held is None:
            return int(np.argmin([point.loss for point in points]))
        data = self.held.data
        y, candidates = self.held.labels.column(topic)
        rows = slice(None) if candidates is None else np.flatnonzero(candidates)
        metric = parse_metric(self.ranker.metric)
        values = np.array(
            [
                evaluate(
                    metric, y[rows], row_scores(data.X, point.solution.coef)[rows], data.qid[rows]
                )
                for point in points
            ]
        )
        return int(np.argmax(values if metric.larger_is_better else -values))


def _record(solution: Solution, l1: float) -> dict[str, Any]:
    return {
        "l1": l1,
        "objective": solution.objective,
        "relative_gap": solution.certificate["relative_gap"],
        "n_iter": solution.n_iter,
        "stop_reason": solution.stop_reason,
    }


class Watcher:
    """Counts topics that are done, tells the callbacks, and stops when one asks for it."""

    def __init__(self, total: int, callbacks: Sequence[Callback]) -> None:
        self.total = total
        self.callbacks = callbacks
        self.done = 0
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, task: TopicTask, topic: int) -> Found | None:
        """Solve one topic; None once a callback has asked to stop."""
        if self.stopped:
            return None
        found = task.solve(topic)
        with self.lock:
            self.done += 1
            weights = found.weights
            values = {"topic": float(topic), "nonzeros": float(weights.nnz)}
            told = Progress(
                "topics", self.done, self.total, values, lambda: weights.toarray().ravel()
            )
            self.stopped = notify(self.callbacks, told) or self.stopped
        return found


def solve_topics(watcher: Watcher, task: TopicTask, threads: int) -> list[Found | None]:
    """Results in order of topics.

    A pool of its own: solving a topic scores held-out rows, which uses the shared pool, and a pool
    whose workers wait for each other would never end.
    """
    topics = range(len(task.names))
    if min(threads, len(topics)) <= 1:
        return [watcher.run(task, t) for t in topics]
    with ThreadPoolExecutor(min(threads, len(topics)), thread_name_prefix="topic") as pool:
        futures = [pool.submit(watcher.run, task, t) for t in topics]
        try:
            return [future.result() for future in futures]
        except BaseException:
            watcher.stopped = True
            raise


class progress_bar:  # noqa: N801 - used as a with-statement
    """Callbacks that draw a bar on stderr, when wanted."""

    def __init__(self, total: int, *, wanted: bool) -> None:
        self.total = total
        self.wanted = wanted
        self.bar: Any = None

    def __enter__(self) -> list[Callback]:
        console = live_console() if self.wanted else None
        if console is None:
            return []
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(console=console, transient=True)
        self.bar.start()
        task = self.bar.add_task("topics", total=self.total)

        def update(progress: Progress) -> None:
            self.bar.update(task, completed=progress.step)

        return [update]

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
