"""Run batches of trials in forked processes and survive their deaths.

A child writes the number of the case that it is about to try into shared memory. When the child
dies, the parent knows which case killed it, counts a crash and continues with the next case. When
the number does not change for too long, the parent kills the child and counts a hang.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import shutil
import signal
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from reliability.harness.forked import fork
from reliability.harness.outcome import Job, Outcome

Trial = Callable[[Job], Outcome]
#: After this number of deaths, the other cases of a kind are skipped.
MAX_DEATHS = 20
_POLL_SECONDS = 0.01


@dataclass
class Batch:
    """Cases to run in one child process."""

    kind: str
    trial: Trial
    seed: int
    first: int
    count: int
    #: Time limit of one case.
    timeout: float
    #: Whether the batch mostly waits; such batches run one at a time beside the others.
    waits: bool = False

    def after(self, case: int) -> Batch | None:
        """Return the batch of the cases after ``case``; None if there are none."""
        n_left = self.first + self.count - case - 1
        if n_left <= 0:
            return None
        return Batch(
            self.kind, self.trial, self.seed, case + 1, n_left, self.timeout, self.waits
        )  # fmt: skip


@dataclass
class Child:
    """A forked process that runs a batch."""

    batch: Batch
    pid: int
    folder: Path
    #: Number of the current case, in memory shared with the child.
    shared_case: mmap.mmap
    last_case: int = -1
    last_change: float = field(default_factory=time.monotonic)

    def case(self) -> int:
        """Return the number of the current case."""
        return int.from_bytes(self.shared_case[:8], "little")

    def timed_out(self) -> bool:
        """Return whether the current case exceeds its time limit."""
        case, now = self.case(), time.monotonic()
        if case != self.last_case:
            self.last_case, self.last_change = case, now
        return now - self.last_change >= self.batch.timeout


@dataclass
class Result:
    """The outcome of a batch and its CPU time."""

    batch: Batch
    outcome: Outcome
    cpu_seconds: float


def run_batches(
    batches: list[Batch], workers: int, on_result: Callable[[Result, int], None]
) -> None:
    """Run all batches; ``on_result`` gets each result and the number of batches left."""
    queues = {
        False: deque(batch for batch in batches if not batch.waits),
        True: deque(batch for batch in batches if batch.waits),
    }
    limits = {False: workers, True: 1}
    running: list[Child] = []
    n_deaths: Counter[str] = Counter()
    try:
        while running or any(queues.values()):
            for waits, queue in queues.items():
                n_running = sum(child.batch.waits == waits for child in running)
                while queue and n_running < limits[waits]:
                    running.append(_start(queue.popleft()))
                    n_running += 1
            for child in list(running):
                ended = _poll(child)
                if ended is None:
                    continue
                running.remove(child)
                result, remaining = ended
                if remaining is not None and n_deaths[remaining.kind] < MAX_DEATHS:
                    n_deaths[remaining.kind] += 1
                    queues[remaining.waits].appendleft(remaining)
                on_result(result, len(running) + sum(map(len, queues.values())))
            time.sleep(_POLL_SECONDS)
    finally:
        for child in running:
            _kill(child)


def _start(batch: Batch) -> Child:
    folder = Path(tempfile.mkdtemp(prefix=f"reliability-{batch.kind}-"))
    shared_case = mmap.mmap(-1, 8)
    shared_case[:8] = batch.first.to_bytes(8, "little")

    def run() -> None:
        os.setsid()  # so that the processes that the child starts can be killed with it
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.enable()

        def report_case(case: int) -> None:
            shared_case[:8] = case.to_bytes(8, "little")

        work_folder = folder / "work"
        work_folder.mkdir()
        job = Job(batch.kind, batch.seed, batch.first, batch.count, work_folder, report_case)
        outcome = batch.trial(job)
        (folder / "result.json").write_text(json.dumps(outcome.to_json()))

    return Child(batch, fork(run), folder, shared_case)


def _poll(child: Child) -> tuple[Result, Batch | None] | None:
    """Return the result of a child that has ended and its untried cases; None while it runs."""
    pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    fault = "crashes"
    if pid == 0:
        if not child.timed_out():
            return None
        os.killpg(child.pid, signal.SIGKILL)
        _, status, usage = os.wait4(child.pid, 0)
        fault = "hangs"
    else:
        _kill_group(child.pid)
    batch, case = child.batch, child.case()
    result_file = child.folder / "result.json"
    remaining = None
    if status == 0 and result_file.exists():
        outcome = Outcome.from_json(json.loads(result_file.read_text()))
    else:
        log = (child.folder / "log").read_text(errors="replace")[-1500:]
        outcome = Outcome(cases=case - batch.first + 1)
        end = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}"
        outcome.fail(fault, f"{batch.kind} seed {batch.seed} case {case}: {end}\n{log}")
        remaining = batch.after(case)
    shutil.rmtree(child.folder, ignore_errors=True)
    child.shared_case.close()
    return Result(batch, outcome, usage.ru_utime + usage.ru_stime), remaining


def _kill_group(pid: int) -> None:
    """Kill the processes that a child left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill(child: Child) -> None:
    _kill_group(child.pid)
    os.waitpid(child.pid, 0)
    shutil.rmtree(child.folder, ignore_errors=True)
