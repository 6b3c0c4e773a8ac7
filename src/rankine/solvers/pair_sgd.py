"""Stochastic pairwise descent: draw a pair, take a step (Sculley 2009, algorithm 1).

Draw ``i`` of a run is a pure function of the seed and i, so a run cut into pieces, resumed or
recorded along the way ends with the same bits.
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

#: Rounding that a mean of many iterates may have gathered.
BALL_SLACK = 1e-6
#: What a checkpoint holds of a ``ScaledVector``.
KEPT = ("v", "u", "c", "folds", "history")
_BATCH = 64
_AHEAD = 4  # pairs fetched ahead of use; more gains nothing


@dataclass(frozen=True)
class Phase:
    """Steps ``start`` to ``stop`` of a run with one learner.

    ``shift`` is added to the step number that the learner sees; ``average_from`` is the first
    step whose iterate is counted in the average.
    """

    learner: Any
    start: int
    stop: int
    shift: int
    average_from: int


class PairPlan(NamedTuple):
    """What a run of any length consists of."""

    #: The step that is taken, or taken first; then one that takes over after ``switch`` steps
    #: (None: a tenth of the run), if there is one.
    first: Any
    second: Any = None
    switch: int | None = None
    #: Steps after which eta = 1 / (l2 i) has fallen to the size that the first step may have.
    #: Weights that come from elsewhere would be erased by larger ones: their counter starts here.
    matched: int = 0
    #: Count the iterates of the second half in the mean.
    average: bool = True

    def phases(self, n_steps: int, taken: int = 0, *, warm: bool = False) -> list[Phase]:
        """The ``n_steps`` after the ``taken`` ones."""
        stop = taken + n_steps
        average_from = taken + n_steps // 2 if self.average else stop
        if self.second is None:
            shift = self.matched if warm and taken == 0 else 0
            return [Phase(self.first, taken, stop, shift, average_from)]
        switch = n_steps // 10 if self.switch is None else self.switch
        switch = min(max(int(switch), 0), stop)
        late = Phase(self.second, max(switch, taken), stop, self.matched - switch, average_from)
        early = Phase(self.first, taken, switch, 0, average_from)
        return [phase for phase in (early, late) if phase.start < phase.stop]


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
    """Take the steps of ``span``; returns the step to go on with, or ~step where it found no pair.

    The span is left before its end when folds of ``w`` are put off from then on.
    """
    start, stop = span
    lazy = w.c[LAZY]
    first = np.empty(_BATCH, dtype=np.int64)
    second = np.empty(_BATCH, dtype=np.int64)
    kind = np.empty(_BATCH)
    for base in range(start, stop, _BATCH):
        size = min(_BATCH, stop - base)
        for k in range(size):
            step_seed = random_bits(seed, base + k)
            first[k], second[k], kind[k] = draw_pair(sampler, step_seed, base + k)
            if kind[k] < 0.0:
                return ~(base + k)
        for k in range(min(_AHEAD, size)):
            row_prefetch(rows, first[k])
            row_prefetch(rows, second[k])
        for k in range(size):
            if k + _AHEAD < size:
                row_prefetch(rows, first[k + _AHEAD])
                row_prefetch(rows, second[k + _AHEAD])
            pair_step(learner, w, rows, first[k], second[k], kind[k], base + k + 1 + shift)
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
    at, stop = span
    while 0 <= at < stop:
        held = w.for_kernel(rows)
        at = _run(
            rows, sampler, phase.learner, held, key, (at, stop), phase.shift, phase.average_from
        )
    if at < 0:
        raise NoPairsError(
            f"step {~at} found no pair in the allowed number of trials",
            fix="Use sampling='query' or 'uniform', which index the pairs, or raise max_trials",
        )
    if stop == phase.stop:
        _require_in_ball(w, phase)


def require_weights(coef: NDArray[np.float64], step: int) -> None:
    """Refuse weights that are not finite or too long for l2/2 |w|^2 and for the scores of rows."""
    length = norm(coef)
    require_finite(np.array(length * length), step, "stochastic pairwise descent")


def _require_in_ball(w: ScaledVector, phase: Phase) -> None:
    """Every projected iterate lies in a ball, so their mean does; else rounding has taken over."""
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
    """Where pairs are drawn from, up to step ``stop``."""

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

    There is one span for rows in memory, one a block for a stream. After the steps ``report_at``
    callbacks are called and ``record`` measures the weights; its numbers go to the trace and to
    the callbacks.
    """
    run = _PairRun(new_vector(coef), phases, seed, report_at, record, callbacks, checkpointer)
    run.resume()
    stopped = any(run.through(span) for span in spans)
    reason = "callback" if stopped else "steps"
    return Solution(average_iterate(run.w), float("nan"), {}, run.done, tuple(run.trace), reason)


@dataclass(eq=False)
class _PairRun:
    """The state of a run, at some step."""

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
        asked = {step for step in self.report_at if self.done < step <= self.total}
        self.reports = sorted(asked | {self.total})

    def through(self, span: Span) -> bool:
        """Take the steps up to the end of a span; True when a callback asks to stop."""
        while self.done < span.stop:
            report = self.reports[bisect_right(self.reports, self.done)]
            due = self.total if self.checkpointer is None else self.checkpointer.next_due(self.done)
            stop = min(span.stop, report, due)
            for phase in self.phases:
                begin, end = max(self.done, phase.start), min(stop, phase.stop)
                if begin < end:
                    run_phase(span.rows, span.sampler, phase, self.w, self.seed, (begin, end))
            self.done = stop
            if stop == report and self._report() and stop < self.total:
                return True
            if stop == due and self.checkpointer is not None:
                self._save(self.checkpointer)
        return False

    def _report(self) -> bool:
        values = {}
        if self.record is not None or self.done == self.total:
            current = average_iterate(self.w)
            require_weights(current, self.done)
            values = {} if self.record is None else self.record(self.done, current)
        else:  # the mean of wide weights takes as long as thousands of steps
            for part in (self.w.v, self.w.u):
                require_finite(part, self.done, "stochastic pairwise descent")
        if values:
            self.trace.append({"step": self.done, **values})
        told = Progress("steps", self.done, self.total, values, lambda: average_iterate(self.w))
        return notify(self.callbacks, told)

    def resume(self) -> None:
        """Go on from a checkpoint, if there is one to go on from."""
        saved = None if self.checkpointer is None else self.checkpointer.restore("pairs")
        if saved is None:
            return
        for name in KEPT:
            getattr(self.w, name)[...] = saved.arrays[name]
        self.done = saved.step
        self.trace = [dict(row) for row in saved.metadata["trace"]]

    def _save(self, checkpointer: Checkpointer) -> None:
        require_weights(average_iterate(self.w), self.done)
        arrays = {name: getattr(self.w, name) for name in KEPT}
        checkpointer.save("pairs", self.done, arrays, {"trace": self.trace})
