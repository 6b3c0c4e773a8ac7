"""Make every operation of every save fail, die, or be lost in a power cut.

``failing``: the N-th open, write, flush, fsync, rename or close raises, for N = 1, 2, 3 ... until
the save succeeds. ``dying``: the process is killed there instead. ``power``: the operations are
recorded, and the states of the disk that a power cut after each of them may leave are rebuilt:
writes without a later fsync are gone, and a rename may be lost until its folder is flushed.
``full``: a limit on the file size at every kilobyte, and a device that is always full. In all of
them the file must be the old version or the new one, and an error must leave no temporary file.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
from pathlib import Path

from reliability.harness.outcome import Job, Outcome
from reliability.trials.savers import FileChecker, savers

PATCHED = ("open", "fsync", "replace", "rename", "close", "fdopen")


class WatchedFile:
    """A file whose writes and flushes may fail as planned."""

    def __init__(self, file, plan):
        self._file, self._plan = file, plan

    def write(self, data):
        if self._plan.advance("write", self._file.fileno(), bytes(data), self._file.tell()):
            self._file.write(bytes(data)[: len(data) // 2])
            self._plan.fail()
        return self._file.write(data)

    def flush(self):
        if self._plan.advance("flush", self._file.fileno()):
            self._plan.fail()
        self._file.flush()

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self._file.close()


class Plan:
    """Counts operations; the N-th fails or kills the process. N = 0 only records them."""

    def __init__(self, n: int = 0, *, kill: bool = False) -> None:
        self.n, self.kill, self.count, self.reached = n, kill, 0, False
        self.log: list[tuple] = []

    def advance(self, *operation) -> bool:
        self.log.append(operation)
        self.count += 1
        return self.count == self.n

    def fail(self) -> None:
        self.reached = True
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, "No space left on device")


def save_watched(save, path: Path, plan: Plan) -> None:
    """Save while the plan observes every system call of the saver."""
    originals = {name: getattr(os, name) for name in PATCHED}
    inside = str(path.parent)

    def concerns(name, args):
        """Return whether an operation is on the folder or its files."""
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
                return originals[name](*args, **kwargs)
            if plan.advance(name, *args[:2]):
                if name == "close":
                    originals["close"](*args)
                plan.fail()
            result = originals[name](*args, **kwargs)
            if name == "open":
                plan.log[-1] = (*plan.log[-1], result)
            return WatchedFile(result, plan) if name == "fdopen" else result

        return call

    for name in PATCHED:
        setattr(os, name, wrap(name))
    try:
        save(path)
    finally:
        for name, function in originals.items():
            setattr(os, name, function)


def trial(job: Job) -> Outcome:
    """Try all savers; the number of cases is the number of operations that can fail."""
    outcome = Outcome()
    for number, saver in enumerate(savers()):
        job.report_case(number)
        folder = job.folder / str(number)
        folder.mkdir()
        checker = FileChecker(saver, folder)
        for part in (failing, dying, power, full):
            points = part(outcome, checker)
            outcome.cases += points
            outcome.counts[part.__name__] += points
    return outcome


def failing(outcome: Outcome, checker: FileChecker) -> int:
    """Let the N-th operation raise, and count the operations."""
    for n in range(1, 1000):
        checker.reset()
        plan, raised = Plan(n), False
        try:
            save_watched(checker.saver.save_new, checker.path, plan)
        except OSError:
            raised = True
        state = checker.state()
        message = f"{checker.saver.name}: operation {n} {plan.log[-1][0]} fails, found {state}"
        if not plan.reached:
            outcome.require(state == "new", "torn", message)
            return n - 1
        outcome.require(state != "torn", "torn", message)
        outcome.require(raised, "accepted", message)
        outcome.require(checker.count_other_files() == 0, "litter", message)
    raise AssertionError("a save of a thousand operations")


def dying(outcome: Outcome, checker: FileChecker) -> int:
    """Kill the process at the N-th operation, and count the operations."""
    for n in range(1, 1000):
        checker.reset()
        child = os.fork()
        if child == 0:
            try:
                save_watched(checker.saver.save_new, checker.path, Plan(n, kill=True))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        state = checker.state()
        message = f"{checker.saver.name}: killed at operation {n}, found {state}"
        if not os.WIFSIGNALED(status):
            outcome.require(state == "new", "torn", message)
            return n - 1
        outcome.require(state != "torn", "torn", message)
    raise AssertionError("a save of a thousand operations")


def power(outcome: Outcome, checker: FileChecker) -> int:
    """Simulate a power cut after every operation; the disk keeps only what was flushed."""
    checker.reset()
    plan = Plan()
    save_watched(checker.saver.save_new, checker.path, plan)
    states = 0
    for stop in range(len(plan.log) + 1):
        for content in disks(plan.log[:stop], checker):
            checker.path.write_bytes(content)
            state = checker.state()
            message = f"{checker.saver.name}: power lost after operation {stop}, found {state}"
            outcome.require(state != "torn", "torn", message)
            if stop == len(plan.log):
                outcome.require(state == "new", "lost", message)
            states += 1
    return states


def disks(log, checker: FileChecker) -> list[bytes]:
    """Return the contents that the target may have if the power fails after these operations."""
    names: dict[int, str] = {}
    contents: dict[str, tuple[bytes, bytes]] = {}  # name -> (written, flushed to disk)
    certain, possible = checker.old_bytes, None
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
            elif where == str(checker.path.parent) and possible is not None:
                certain, possible = possible, None
        elif name in {"replace", "rename"}:
            possible = contents[str(args[0])][1]
    return [certain] if possible is None else [certain, possible]


def full(outcome: Outcome, checker: FileChecker) -> int:
    """Save to a disk that is full after every kilobyte, and to a device that is always full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limits = range(0, max(len(checker.new_bytes) - 1, 1), 1024)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit in limits:
        checker.reset()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        raised = False
        try:
            checker.saver.save_new(checker.path)
        except OSError:
            raised = True
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        state = checker.state()
        message = f"{checker.saver.name}: disk full at {limit}, found {state}"
        outcome.require(state == "old", "torn", message)
        outcome.require(raised, "accepted", message)
        outcome.require(checker.count_other_files() == 0, "litter", message)
    signal.signal(signal.SIGXFSZ, before)
    return len(limits) + _device(outcome, checker)


def _device(outcome: Outcome, checker: FileChecker) -> int:
    device = Path("/dev/full")
    if not device.exists():
        return 0
    link = checker.path.with_name(checker.path.name.replace("file", "device"))
    link.symlink_to(device)
    try:
        checker.saver.save_new(link)
        outcome.fail("accepted", f"{checker.saver.name}: a full device took the file")
    except OSError:
        pass
    outcome.require(device.is_char_device(), "lost", "the device was replaced by a file")
    link.unlink()
    return 1
