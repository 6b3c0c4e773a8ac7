"""Batches in forked children, a few at a time, under the eyes of a parent that outlives them.

A child writes the number of the case it is about to try into shared memory. When it dies, the
parent knows which case killed it, counts a crash and goes on behind it; when the number stands
still too long, it counts a hang.
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
#: Deaths after which the rest of a kind's cases are left alone.
GIVE_UP = 20


@dataclass
class Task:
    """A batch to run."""

    kind: str
    trial: Trial
    seed: int
    first: int
    count: int
    patience: float
    #: Tasks that mostly wait run in a lane of their own.
    waits: bool = False


@dataclass
class Child:
    """A batch that runs."""

    task: Task
    pid: int
    folder: Path
    pulse: mmap.mmap
    seen: int = -1
    since: float = field(default_factory=time.monotonic)

    def case(self) -> int:
        """Number of the case at hand."""
        return int.from_bytes(self.pulse[:8], "little")


@dataclass
class Result:
    """What a batch gave, and what it cost."""

    task: Task
    outcome: Outcome
    cpu_seconds: float


def run_tasks(tasks: list[Task], workers: int, told: Callable[[Result, int], None]) -> None:
    """Run all tasks; ``told`` hears of every result and how many tasks are left."""
    queues = {
        False: deque(t for t in tasks if not t.waits),
        True: deque(t for t in tasks if t.waits),
    }
    room = {False: workers, True: 1}
    running: list[Child] = []
    broken: Counter[str] = Counter()
    try:
        while running or any(queues.values()):
            for waits, queue in queues.items():
                while queue and sum(c.task.waits == waits for c in running) < room[waits]:
                    running.append(_start(queue.popleft()))
            for child in list(running):
                found = _look(child)
                if found is None:
                    continue
                running.remove(child)
                result, rest = found
                if rest is not None and broken[rest.kind] < GIVE_UP:
                    broken[rest.kind] += 1
                    queues[rest.waits].appendleft(rest)
                told(result, len(running) + sum(map(len, queues.values())))
            time.sleep(0.01)
    finally:
        for child in running:
            _kill(child)


def _start(task: Task) -> Child:
    folder = Path(tempfile.mkdtemp(prefix=f"reliability-{task.kind}-"))
    pulse = mmap.mmap(-1, 8)
    pulse[:8] = task.first.to_bytes(8, "little")

    def live() -> None:
        os.setsid()  # what the child starts can be ended with it
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.enable()

        def beat(case: int) -> None:
            pulse[:8] = case.to_bytes(8, "little")

        where = folder / "work"
        where.mkdir()
        outcome = task.trial(Job(task.kind, task.seed, task.first, task.count, where, beat))
        (folder / "result.json").write_text(json.dumps(outcome.plain()))

    return Child(task, fork(live), folder, pulse)


def _look(child: Child) -> tuple[Result, Task | None] | None:
    """The result of a child that has ended, and what it left undone; None while it runs."""
    pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    fault = "crashes"
    if pid == 0:
        case, now = child.case(), time.monotonic()
        if case != child.seen:
            child.seen, child.since = case, now
        if now - child.since < child.task.patience:
            return None
        os.killpg(child.pid, signal.SIGKILL)
        pid, status, usage = os.wait4(child.pid, 0)
        fault = "hangs"
    else:
        _end_group(child.pid)
    task, case = child.task, child.case()
    rest = None
    if status == 0 and (child.folder / "result.json").exists():
        outcome = Outcome.from_plain(json.loads((child.folder / "result.json").read_text()))
    else:
        log = (child.folder / "log").read_text(errors="replace")[-1500:]
        outcome = Outcome(cases=case - task.first + 1)
        end = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}"
        outcome.fail(fault, f"{task.kind} seed {task.seed} case {case}: {end}\n{log}")
        left = task.first + task.count - case - 1
        if left > 0:
            rest = Task(task.kind, task.trial, task.seed, case + 1, left, task.patience, task.waits)
    shutil.rmtree(child.folder, ignore_errors=True)
    child.pulse.close()
    return Result(task, outcome, usage.ru_utime + usage.ru_stime), rest


def _end_group(pid: int) -> None:
    """End whatever a child left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill(child: Child) -> None:
    _end_group(child.pid)
    os.waitpid(child.pid, 0)
    shutil.rmtree(child.folder, ignore_errors=True)
