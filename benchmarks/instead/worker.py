"""Train one learner in a separate process: ``worker.py FOLDER JOB``.

FOLDER holds train, vali and test rows (see ``data_files.py``); JOB is a JSON object with the
learner's name, its settings, the ids of the runs and the CPU seconds that each may take. The
process imports (and for rankine trains) once and forks for every setting, so that each starts from
the same memory. Prints a JSON list of figures or reasons; scores of vali and test stay in FOLDER.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

CANDIDATES, CALLS = 100, 200


def read(folder, part):
    """Read X (dense or CSR), y and qid of a part."""
    with np.load(folder / f"{part}.npz") as file:
        y, qid = file["y"], file["qid"]
        if "X" in file:
            return file["X"], y, qid
        shape = tuple(file["shape"])
        X = sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=shape)
        return X, y, qid


def memory(key):
    """Return a memory figure of the kernel in megabytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(key + ":")[1].split()[0]) / 1024


def cpu():
    """Return the CPU seconds of this process and of its finished children."""
    this_process = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return this_process.ru_utime + this_process.ru_stime + children.ru_utime + children.ru_stime


def train(learn, data, setting):
    """Train; return the model, CPU seconds, and peak memory above the data in megabytes."""
    cpu_before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    begun = cpu()
    result = learn(*data, setting)
    if hasattr(result, "train"):  # the rows had to be written for it first
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        begun = cpu()
        result.train()
        return result.result(), cpu() - begun, memory("VmHWM") - cpu_before
    return result, cpu() - begun, memory("VmHWM") - cpu_before


def latency(score, X, in_calls):
    """Measure CPU microseconds per candidate: the median over requests of 100, or one long call."""
    if not in_calls:
        begun = cpu()
        score(X)
        return 1e6 * (cpu() - begun) / X.shape[0]
    rows = [X[k : k + CANDIDATES] for k in range(0, min(X.shape[0], 2000), CANDIDATES)]
    rows = [part for part in rows if part.shape[0] == CANDIDATES] or [X[:CANDIDATES]]
    for part in rows:
        score(part)
    times = []
    for k in range(CALLS):
        part = rows[k % len(rows)]
        begun = time.perf_counter()
        score(part)
        times.append((time.perf_counter() - begun) / part.shape[0])
    return 1e6 * float(np.median(times))


def one_run(learn, data, folder, identity, job, setting):
    """Train, score both other parts, and leave the figures in a file."""
    (score, size), seconds, peak = train(learn, data, setting)
    tests = {part: read(folder, part)[0] for part in ("vali", "test")}
    for part, X in tests.items():
        np.save(folder / f"{identity}.{part}.npy", np.asarray(score(X), dtype=float).ravel())
    figures = {
        "id": identity,
        "cpu_seconds": seconds,
        "peak_mb": peak,
        "model_bytes": size,
        "us_per_candidate": latency(score, tests["test"], job["name"] != "Vowpal Wabbit"),
    }
    (folder / f"{identity}.json").write_text(json.dumps(figures), encoding="ascii")


def forked(work, limit):
    """Run work in a child with a limit of CPU seconds; return what failed, or None.

    Sleeping counts too, but ten times less.
    """
    child = os.fork()
    if child == 0:
        try:
            seconds = max(int(limit), 1)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            work()
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"REASON {reason[:160]}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    until = time.monotonic() + 10 * limit
    while time.monotonic() < until:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return None if status == 0 else ended(status, limit)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"stopped after {10 * limit:g} s"


def ended(status, limit):
    """Describe how a child ended."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return f"stopped after {limit:g} CPU s"
    if os.WIFSIGNALED(status):
        return f"ended by signal {os.WTERMSIG(status)}"
    return "failed"


def main():
    import learners
    import rankine_rankers

    folder, job = Path(sys.argv[1]), json.loads(sys.argv[2])
    name = job["name"]
    data = read(folder, "train")
    if name in rankine_rankers.NAMES:
        rankine_rankers.warm(name, *data, job["settings"][0])
        learn = rankine_rankers.learner(name)
    else:
        learn, package = learners.LEARNERS[name]
        importlib.import_module(package)  # neither time nor memory of imports counts
    results = []
    for identity, setting in zip(job["ids"], job["settings"], strict=True):
        work = partial(one_run, learn, data, folder, identity, job, setting)
        reason = forked(work, job["limit"])
        path = folder / f"{identity}.json"
        results.append({"reason": reason} if reason else json.loads(path.read_text("ascii")))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
