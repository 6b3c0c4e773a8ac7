"""Stochastic pairwise descent: draw a pair, take a step (Sculley 2009, algorithm 1).

Draw ``i`` of a run is a function of the seed and i alone, so a run has the same bits however it is
split, resumed or recorded along the way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DivergenceError, NoPairsError
from rankine.kernels.compile import jit
from rankine.kernels.random import random_bits
from rankine.kernels.rows import Rows, row_prefetch
from rankine.kernels.shards import norm
from rankine.samplers.draw import draw_pair
from rankine.solvers.base import Callback, Progress, Solution, notify, require_finite
from rankine.solvers.checkpoint import Checkpointer
from rankine.solvers.pair_steps import (
    AL,
    COUNT,
    LAZY,
    S,
    ScaledVector,
    average_iterate,
    new_vector,
    pair_step,
)

#: Relative rounding error allowed in the length of a mean of many iterates.
BALL_SLACK = 1e-6
#: Arrays of a ``ScaledVector`` that a checkpoint holds.
SAVED_ARRAYS = ("v", "u", "c", "folds", "history")
_BATCH = 64
_AHEAD = 4  # pairs whose rows are prefetched; more is not faster


@dataclass(frozen=True)
class Phase:
    """Steps ``start`` to ``stop`` of a run, taken by one learner.

    ``shift`` is added to the step number passed to the learner; ``average_from`` is the first step
    whose iterate is part of the average.
    """

    learner: Any
    start: int
    stop: int
    shift: int
    average_from: int


class PairPlan(NamedTuple):
    """The learners of a run of any length.

    ``first`` takes all steps, or those before ``switch`` (None: a tenth of the run) if there is a
    ``second`` learner.
    """

    first: Any
    second: Any = None
    switch: int | None = None
    #: Step number at which eta = 1 / (l2 i) has a suitable size for a warm start: larger steps
    #: would erase the initial weights.
    warm_step: int = 0
    #: Whether the result is the mean of the iterates of the second half.
    average: bool = True

    def phases(self, n_steps: int, taken: int = 0, *, warm: bool = False) -> list[Phase]:
        """Return the phases of ``n_steps`` steps after the first ``taken``.

        ``warm``: the initial weights come from an earlier model.
        """
        stop = taken + n_steps
        average_from = taken + n_steps // 2 if self.average else stop
        if self.second is None:
            shift = self.warm_step if warm and taken == 0 else 0
            return [Phase(self.first, taken, stop, shift, average_from)]
        switch = n_steps // 10 if self.switch is None else self.switch
        switch = min(max(int(switch), 0), stop)
        second_phase = Phase(
            self.second, max(switch, taken), stop, self.warm_step - switch, average_from
        )
        first_phase = Phase(self.first, taken, switch, 0, average_from)
        return [phase for phase in (first_phase, second_phase) if phase.start < phase.stop]


@jit
def _run(
    rows: Rows,
    sampler: Any,
    learner: Any,
    w: Any,
    seed: Any,
    span: Any,
    shift: int,
    average_from: int,
) -> int:
    """Take the steps of ``span``; return the next step, or ~step if no pair was found at ``step``.

    Returns before the end of the span when the folds of ``w`` become lazy, as compiled code for
    lazy folds has to continue (see ``pair_steps``).
    """
    start, stop = span
    lazy = w.c[LAZY]
    first = np.empty(_BATCH, dtype=np.int64)
    second = np.empty(_BATCH, dtype=np.int64)
    target = np.empty(_BATCH)
    for base in range(start, stop, _BATCH):
        size = min(_BATCH, stop - base)
        for k in range(size):
            step_seed = random_bits(seed, base + k)
            first[k], second[k], target[k] = draw_pair(sampler, step_seed, base + k)
            if target[k] < 0.0:
                return ~(base + k)
        for k in range(min(_AHEAD, size)):
            row_prefetch(rows, first[k])
            row_prefetch(rows, second[k])
        for k in range(size):
            if k + _AHEAD < size:
                row_prefetch(rows, first[k + _AHEAD])
                row_prefetch(rows, second[k + _AHEAD])
            pair_step(learner, w, rows, first[k], second[k], target[k], base + k + 1 + shift)
            if base + k >= average_from:
                w.c[AL] += w.c[S]
                w.c[COUNT] += 1.0
            if w.c[LAZY] != lazy:
                return base + k + 1
    return stop


def run_phase(
    rows: Rows, sampler: Any, phase: Phase, w: ScaledVector, seed: int, span: tuple[int, int]
) -> None:
    """Take the steps of ``span``, a part of a phase."""
    key = np.uint64(seed)
    step, stop = span
    while 0 <= step < stop:
        kernel_vector = w.for_kernel(rows)
        step = _run(
            rows,
            sampler,
            phase.learner,
            kernel_vector,
            key,
            (step, stop),
            phase.shift,
            phase.average_from,
        )
    if step < 0:
        raise NoPairsError(
            f"no pair was found in the allowed number of trials at step {~step}",
            fix="Use sampling='query' or 'uniform', which index the pairs, or raise max_trials",
        )
    if stop == phase.stop:
        _require_in_ball(w, phase)


def require_weights(coef: NDArray[np.float64], step: int) -> None:
    """Raise DivergenceError for weights whose squared length is not finite."""
    length = norm(coef)
    require_finite(np.array(length * length), step, "stochastic pairwise descent")


def _require_in_ball(w: ScaledVector, phase: Phase) -> None:
    """Raise DivergenceError if the mean of the projected iterates is outside the ball.

    All projected iterates are in the ball, so their mean is, unless rounding errors dominate.
    """
    largest = float(getattr(phase.learner, "max_norm2", np.inf))
    if not np.isfinite(largest) or (w.c[COUNT] > 0 and phase.average_from < phase.start):
        return
    length = norm(average_iterate(w))
    if not length <= (1.0 + BALL_SLACK) * np.sqrt(largest):
        raise DivergenceError(
            f"after {phase.stop} steps the weights have length {length:.3g}, where the projection "
            f"allows {np.sqrt(largest):.3g}: the features are too large for the step size",
            fix="Scale the features (scale='standard')",
        )


class Span(NamedTuple):
    """Consecutive steps, up to ``stop``, with the rows and the sampler that they use."""

    rows: Rows
    sampler: Any
    stop: int


def solve_pairs(
    spans: Iterable[Span],
    phases: Sequence[Phase],
    coef: NDArray[np.float64],
    seed: int,
    *,
    report_at: Sequence[int] = (),
    record: Callable[[int, NDArray[np.float64]], dict[str, float]] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpointer: Checkpointer | None = None,
) -> Solution:
    """Run the phases one after another, from the weights ``coef``.

    Rows in memory are one span; a stream has one span per block. After the steps ``report_at``,
    ``record`` evaluates the weights, and callbacks are called; its values go to the trace and to
    the callbacks.
    """
    run = _PairRun(new_vector(coef), phases, seed, report_at, record, callbacks, checkpointer)
    run.resume()
    reason = "steps"
    for span in spans:
        if run.take_steps(span):
            reason = "callback"
            break
    return Solution(average_iterate(run.w), float("nan"), {}, run.done, tuple(run.trace), reason)


@dataclass(eq=False)
class _PairRun:
    """State of a run after ``done`` steps."""

    w: ScaledVector
    phases: Sequence[Phase]
    seed: int
    report_at: Sequence[int]
    record: Callable[[int, NDArray[np.float64]], dict[str, float]] | None
    callbacks: Sequence[Callback]
    checkpointer: Checkpointer | None
    trace: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.done, self.total = self.phases[0].start, self.phases[-1].stop
        report_steps = {step for step in self.report_at if self.done < step <= self.total}
        self.reports = sorted(report_steps | {self.total})

    def take_steps(self, span: Span) -> bool:
        """Take the steps up to the end of a span; return whether a callback requested a stop."""
        while self.done < span.stop:
            next_report = self.reports[bisect_right(self.reports, self.done)]
            next_checkpoint = self.total
            if self.checkpointer is not None:
                next_checkpoint = self.checkpointer.next_due(self.done)
            stop = min(span.stop, next_report, next_checkpoint)
            for phase in self.phases:
                begin, end = max(self.done, phase.start), min(stop, phase.stop)
                if begin < end:
                    run_phase(span.rows, span.sampler, phase, self.w, self.seed, (begin, end))
            self.done = stop
            if stop == next_report and self._report() and stop < self.total:
                return True
            if stop == next_checkpoint and self.checkpointer is not None:
                self._save(self.checkpointer)
        return False

    def _report(self) -> bool:
        values = {}
        if self.record is not None or self.done == self.total:
            current = average_iterate(self.w)
            require_weights(current, self.done)
            if self.record is not None:
                values = self.record(self.done, current)
        else:  # computing the mean of many weights would take as long as thousands of steps
            for part in (self.w.v, self.w.u):
                require_finite(part, self.done, "stochastic pairwise descent")
        if values:
            self.trace.append({"step": self.done, **values})
        progress = Progress("steps", self.done, self.total, values, lambda: average_iterate(self.w))
        return notify(self.callbacks, progress)

    def resume(self) -> None:
        """Restore weights, step and trace from the checkpoint of an interrupted run, if any."""
        saved = None if self.checkpointer is None else self.checkpointer.restore("pairs")
        if saved is None:
            return
        for name in SAVED_ARRAYS:
            getattr(self.w, name)[...] = saved.arrays[name]
        self.done = saved.step
        self.trace = [dict(row) for row in saved.metadata["trace"]]

    def _save(self, checkpointer: Checkpointer) -> None:
        require_weights(average_iterate(self.w), self.done)
        arrays = {name: getattr(self.w, name) for name in SAVED_ARRAYS}
        checkpointer.save("pairs", self.done, arrays, {"trace": self.trace})
