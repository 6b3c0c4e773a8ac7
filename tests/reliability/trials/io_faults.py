"""Every operation of every save made to fail, to be the last, or to be lost with the power.

``failing``: the N-th open, write, flush, fsync, rename or close raises, for N = 1, 2, 3 ... until
the save passes. ``dying``: the process is killed there instead. ``power``: the operations are
recorded and replayed to the disk that a power cut after each of them may leave: writes that no
fsync followed are gone, a rename is there or not until its folder is flushed. ``full``: a limit on
the size of files at every kilobyte, and a device that is always full. In all of them the file is
the old one or the new one, whole, and an error that the process survives leaves no litter.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
from pathlib import Path

from reliability.harness.outcome import Job, Outcome
from reliability.trials.savers import Judge, savers

PATCHED = ("open", "fsync", "replace", "rename", "close", "fdopen")


class WatchedFile:
    """A file whose writes and flushes go by the plan."""

    def __init__(self, file, plan):
        self._file, self._plan = file, plan

    def write(self, data):
        if self._plan.turn("write", self._file.fileno(), bytes(data), self._file.tell()):
            self._file.write(bytes(data)[: len(data) // 2])
            self._plan.strike()
        return self._file.write(data)

    def flush(self):
        if self._plan.turn("flush", self._file.fileno()):
            self._plan.strike()
        self._file.flush()

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self._file.close()


class Plan:
    """Counts operations; the N-th fails or kills. N = 0 only records."""

    def __init__(self, n: int = 0, *, kill: bool = False) -> None:
        self.n, self.kill, self.count, self.reached = n, kill, 0, False
        self.log: list[tuple] = []

    def turn(self, *operation) -> bool:
        self.log.append(operation)
        self.count += 1
        return self.count == self.n

    def strike(self) -> None:
        self.reached = True
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, "No space left on device")


def save_watched(save, path: Path, plan: Plan) -> None:
    """Save with every system call of the saver going through the plan."""
    kept = {name: getattr(os, name) for name in PATCHED}
    inside = str(path.parent)

    def concerns(name, args):
        """Operations on the folder and its files."""
        where = str(args[0])
        if name in {"fsync", "close", "fdopen"}:
            try:
                where = str(Path(f"/proc/self/fd/{args[0]}").readlink())
            except OSError:
                return True
        return where.startswith(inside)

    def wrap(name):
        def call(*args, **kwargs):
            if not concerns(name, args):
                return kept[name](*args, **kwargs)
            if plan.turn(name, *args[:2]):
                if name == "close":
                    kept["close"](*args)
                plan.strike()
            found = kept[name](*args, **kwargs)
            if name == "open":
                plan.log[-1] = (*plan.log[-1], found)
            return WatchedFile(found, plan) if name == "fdopen" else found

        return call

    for name in PATCHED:
        setattr(os, name, wrap(name))
    try:
        save(path)
    finally:
        for name, function in kept.items():
            setattr(os, name, function)


def trial(job: Job) -> Outcome:
    """All savers; the number of cases is the number of places where something can fail."""
    outcome = Outcome()
    for number, saver in enumerate(savers()):
        job.report_case(number)
        folder = job.folder / str(number)
        folder.mkdir()
        judge = Judge(saver, folder)
        for part in (failing, dying, power, full):
            points = part(outcome, judge)
            outcome.cases += points
            outcome.counts[part.__name__] += points
    return outcome


def failing(outcome: Outcome, judge: Judge) -> int:
    """The N-th operation raises."""
    for n in range(1, 1000):
        judge.reset()
        plan, raised = Plan(n), False
        try:
            save_watched(judge.saver.save_new, judge.path, plan)
        except OSError:
            raised = True
        found = judge.verdict()
        story = f"{judge.saver.name}: operation {n} {plan.log[-1][0]} fails, found {found}"
        if not plan.reached:
            outcome.require(found == "new", "torn", story)
            return n - 1
        outcome.require(found != "torn", "torn", story)
        outcome.require(raised, "accepted", story)
        outcome.require(judge.litter() == 0, "litter", story)
    raise AssertionError("a save of a thousand operations")


def dying(outcome: Outcome, judge: Judge) -> int:
    """The process is killed at the N-th operation."""
    for n in range(1, 1000):
        judge.reset()
        child = os.fork()
        if child == 0:
            try:
                save_watched(judge.saver.save_new, judge.path, Plan(n, kill=True))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        found = judge.verdict()
        story = f"{judge.saver.name}: killed at operation {n}, found {found}"
        if not os.WIFSIGNALED(status):
            outcome.require(found == "new", "torn", story)
            return n - 1
        outcome.require(found != "torn", "torn", story)
    raise AssertionError("a save of a thousand operations")


def power(outcome: Outcome, judge: Judge) -> int:
    """The power goes after every operation; the disk keeps only what was flushed to it."""
    judge.reset()
    plan = Plan()
    save_watched(judge.saver.save_new, judge.path, plan)
    states = 0
    for stop in range(len(plan.log) + 1):
        for content in disks(plan.log[:stop], judge):
            judge.path.write_bytes(content)
            found = judge.verdict()
            story = f"{judge.saver.name}: power lost after operation {stop}, found {found}"
            outcome.require(found != "torn", "torn", story)
            if stop == len(plan.log):
                outcome.require(found == "new", "lost", story)
            states += 1
    return states


def disks(log, judge: Judge) -> list[bytes]:
    """What the target may hold after a power cut behind these operations."""
    names: dict[int, str] = {}
    contents: dict[str, tuple[bytes, bytes]] = {}  # name -> (written, flushed to disk)
    certain, possible = judge.old_bytes, None
    for name, *args in log:
        if name == "open" and len(args) == 3 and args[1] & os.O_CREAT:
            names[args[2]] = str(args[0])
            contents[str(args[0])] = (b"", b"")
        elif name == "open" and len(args) == 3:
            names[args[2]] = str(args[0])
        elif name == "write":
            descriptor, data, at = args
            written, flushed = contents[names[descriptor]]
            contents[names[descriptor]] = (written[:at] + data + written[at + len(data) :], flushed)
        elif name == "fsync":
            where = names.get(args[0], "")
            if where in contents:
                contents[where] = (contents[where][0], contents[where][0])
            elif where == str(judge.path.parent) and possible is not None:
                certain, possible = possible, None
        elif name in {"replace", "rename"}:
            possible = contents[str(args[0])][1]
    return [certain] if possible is None else [certain, possible]


def full(outcome: Outcome, judge: Judge) -> int:
    """The disk is full after every kilobyte; and a device that takes nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limits = range(0, max(len(judge.new_bytes) - 1, 1), 1024)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit in limits:
        judge.reset()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        raised = False
        try:
            judge.saver.save_new(judge.path)
        except OSError:
            raised = True
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        found = judge.verdict()
        story = f"{judge.saver.name}: disk full at {limit}, found {found}"
        outcome.require(found == "old", "torn", story)
        outcome.require(raised, "accepted", story)
        outcome.require(judge.litter() == 0, "litter", story)
    signal.signal(signal.SIGXFSZ, before)
    return len(limits) + _device(outcome, judge)


def _device(outcome: Outcome, judge: Judge) -> int:
    device = Path("/dev/full")
    if not device.exists():
        return 0
    link = judge.path.with_name(judge.path.name.replace("file", "device"))
    link.symlink_to(device)
    try:
        judge.saver.save_new(link)
        outcome.fail("accepted", f"{judge.saver.name}: a full device took the file")
    except OSError:
        pass
    outcome.require(device.is_char_device(), "lost", "the device was replaced by a file")
    link.unlink()
    return 1
