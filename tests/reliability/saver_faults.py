"""Saving under fire, in a process of its own: ``python saver_faults.py MODE FOLDER COUNT``.

Prints one JSON object. A torn file is one that loads as neither the old nor the new model; litter
is any other file left behind by an error that the process survived.
"""

import errno
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np

from rankine.model import LinearModel, ModelBundle

PATCHED = ("open", "fsync", "replace", "close", "fdopen")


class FailingFile:
    """A file whose writes and flushes count, and fail half-way when their turn comes."""

    def __init__(self, file, turn):
        self._file, self._turn = file, turn

    def write(self, data):
        if self._turn():
            self._file.write(bytes(data)[: len(data) // 2])
            self._turn.fail()
        return self._file.write(data)

    def flush(self):
        if self._turn():
            self._turn.fail()
        self._file.flush()

    def fileno(self):
        return self._file.fileno()

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self._file.close()


class Turn:
    """Counts operations; the N-th fails or crashes."""

    def __init__(self, n, crash):
        self.n, self.crash, self.count, self.reached = n, crash, 0, False

    def __call__(self):
        self.count += 1
        return self.count == self.n

    def fail(self):
        self.reached = True
        if self.crash:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, "No space left on device")


def save_failing(model, path, turn):
    """Save with every system call of the saver going through ``turn``."""
    kept = {name: getattr(os, name) for name in PATCHED}

    def wrap(name):
        def call(*args, **kwargs):
            if turn():
                if name == "close":
                    kept["close"](*args)
                turn.fail()
            found = kept[name](*args, **kwargs)
            return FailingFile(found, turn) if name == "fdopen" else found

        return call

    for name in PATCHED:
        setattr(os, name, wrap(name))
    try:
        model.save(path)
    finally:
        for name, function in kept.items():
            setattr(os, name, function)


def models():
    """Old and new, of both kinds."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4000))
    return [
        (LinearModel.from_weights(a), LinearModel.from_weights(b), LinearModel.load),
        (
            ModelBundle.from_weights({"x": a}),
            ModelBundle.from_weights({"x": b, "y": a}),
            ModelBundle.load,
        ),
    ]


def verdict(path, old, new, load):
    try:
        digest = load(path).digest
    except Exception:
        return "torn"
    return "old" if digest == old.digest else "new" if digest == new.digest else "torn"


def nth_failure(folder, crash):
    """Fail (or die at) operation 1, 2, 3 ... until the save passes."""
    outcome = {"points": 0, "torn": 0, "litter": 0, "silent": 0}
    for kind, (old, new, load) in enumerate(models()):
        path = folder / f"m{kind}"
        for n in range(1, 1000):
            old.save(path)
            turn = Turn(n, crash)
            if crash:
                child = os.fork()
                if child == 0:
                    save_failing(new, path, turn)
                    os._exit(0)
                _, status = os.waitpid(child, 0)
                reached = os.WIFSIGNALED(status)
            else:
                raised = False
                try:
                    save_failing(new, path, turn)
                except OSError:
                    raised = True
                reached = turn.reached
                outcome["silent"] += int(reached and not raised)
                outcome["litter"] += sum(1 for found in folder.iterdir() if found.name[0] == ".")
            found = verdict(path, old, new, load)
            if not reached:
                outcome["torn"] += int(found != "new")
                break
            outcome["points"] += 1
            outcome["torn"] += int(found == "torn")
    return outcome


def disk_full(folder):
    """A limit on file sizes at every kilobyte below the new model's size."""
    outcome = {"points": 0, "torn": 0, "litter": 0, "silent": 0}
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for kind, (old, new, load) in enumerate(models()):
        path = folder / f"m{kind}"
        for limit in range(0, len(new.to_bytes()), 1024):
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            old.save(path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                new.save(path)
                outcome["silent"] += 1
            except OSError:
                pass
            outcome["points"] += 1
            outcome["torn"] += int(verdict(path, old, new, load) != "old")
            outcome["litter"] += sum(1 for found in folder.iterdir() if found.name[0] == ".")
    return outcome


def kill(folder, count):
    """kill -9 at random moments while a child saves in a loop."""
    rng = random.Random(int(os.environ.get("RANKINE_FUZZ_SEED", "20261115")))
    outcome = {"points": 0, "torn": 0, "old": 0, "new": 0}
    old, new, load = models()[0]
    path = folder / "m"
    old.save(path)
    for _ in range(count):
        child = os.fork()
        if child == 0:
            while True:
                new.save(path)
                old.save(path)
        time.sleep(rng.uniform(0.001, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        outcome["points"] += 1
        outcome[verdict(path, old, new, load)] += 1
    return outcome


if __name__ == "__main__":
    mode, where, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    run = {
        "fail": lambda: nth_failure(where, crash=False),
        "crash": lambda: nth_failure(where, crash=True),
        "full": lambda: disk_full(where),
        "kill": lambda: kill(where, number),
    }[mode]
    print(json.dumps(run()))
