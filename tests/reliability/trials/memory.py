"""Do the same work with a limit on the address space that rises step by step.

Each case is a forked process with a given number of free megabytes. It may finish with the right
result, or raise a MemoryError or an error of rankine; it may not die or leave a damaged file.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import resource
import signal
import sys
import traceback

import numpy as np

import rankine
from rankine import Dataset
from rankine.core.errors import RankineError
from rankine.model import LinearModel
from reliability.harness.outcome import Job, Outcome

#: Megabytes above the address space that the process has already.
LIMITS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96)
ROWS = 20_000
#: Blocks from this size are mapped separately and returned when freed. Otherwise the memory that
#: earlier work freed would be free memory for the next.
_MMAP_THRESHOLD = (-3, 2**16)
_SAME, _REFUSED, _OTHER, _TORN = 0, 10, 11, 12
#: The C library's loader ends a process with this code ("cannot allocate memory for thread-local
#: data") if a thread of Arrow cannot start; no code of rankine runs after that. It is counted
#: separately, and accepted only with very little free memory.
_LOADER, _LOADER_MEGABYTES = 127, 4


def make_data() -> Dataset:
    """Make a few megabytes of data."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(ROWS, 16)), 2)
    y = (X[:, 0] + rng.normal(size=ROWS) > 1).astype(float)
    return Dataset.from_arrays(X, y, np.arange(ROWS) // 10)


def load_text(folder):
    return rankine.load(folder / "data.txt").fingerprint


def load_parquet(folder):
    return rankine.load(folder / "data.parquet").fingerprint


def scan_text(folder):
    return rankine.scan(folder / "data.txt", n_features=16).compute_fingerprint()


def load_model(folder):
    return LinearModel.load(folder / "model").digest


def save_model(folder):
    """Save a model over another one; the file must be complete in the end."""
    LinearModel.from_weights(np.full(1_000_000, 2.0)).save(folder / "saved")
    return "saved"


def fit_least_squares(folder):
    data = Dataset.from_arrays(*arrays(folder))
    ranker = rankine.LeastSquaresRanker(max_iter=5, tol=1e-2, n_threads=1).fit(data)
    return hashlib.sha256(ranker.coef_.tobytes()).hexdigest()


def fit_elastic(folder):
    data = Dataset.from_arrays(*arrays(folder))
    ranker = rankine.ElasticRanker(random_state=0).fit(data)
    return hashlib.sha256(ranker.coef_.tobytes()).hexdigest()


WORKS = (load_text, load_parquet, scan_text, load_model, save_model, fit_least_squares, fit_elastic)


def arrays(folder):
    found = np.load(folder / "data.npz")
    return found["X"], found["y"], found["qid"]


def trial(job: Job) -> Outcome:
    """Try every kind of work with every limit; the number of the case chooses both."""
    outcome = Outcome()
    ctypes.CDLL(None).mallopt(*_MMAP_THRESHOLD)
    prepare(job.folder)
    wanted = {}
    for case, _ in job.cases(outcome):
        work, step = WORKS[case % len(WORKS)], LIMITS[case // len(WORKS) % len(LIMITS)]
        if work not in wanted:
            wanted[work] = work(job.folder)
        status = run_limited(work, step, job.folder, wanted[work])
        message = f"{work.__name__} with {step} MB free"
        outcome.require(not os.WIFSIGNALED(status), "crashes", f"{message}: signal {status}")
        if os.WIFSIGNALED(status):
            continue
        code = os.WEXITSTATUS(status)
        if code == _LOADER and step <= _LOADER_MEGABYTES:
            outcome.counts["ended by the loader"] += 1
            continue
        known = code in {_SAME, _REFUSED, _OTHER, _TORN}
        outcome.require(known, "crashes", f"{message}: exit {code}")
        outcome.require(code != _OTHER, "misread", f"{message}: another result")
        torn = work is save_model and LinearModel.load(job.folder / "saved").nnz != 1_000_000
        outcome.require(code != _TORN and not torn, "torn", message)
        outcome.counts["finished" if code == _SAME else "refused"] += known
    return outcome


def run_limited(work, step, folder, wanted) -> int:
    """Run the work in a child with ``step`` free megabytes; return its wait status."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 99
    try:
        signal.alarm(60)
        spare = address_space() + step * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (spare, spare))
        code = _SAME if work(folder) == wanted else _OTHER
    except (MemoryError, RankineError):
        code = _REFUSED
    except OSError as error:
        code = _REFUSED if error.errno == 12 else 98
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def address_space() -> int:
    """Return the bytes of address space in use."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def prepare(folder) -> None:
    """Write the files that are read."""
    data = make_data()
    data.save(folder / "data.txt")
    data.save(folder / "data.parquet")
    np.savez(folder / "data.npz", X=data.X, y=data.y, qid=data.qid)
    LinearModel.from_weights(np.ones(1_000_000)).save(folder / "model")
    LinearModel.from_weights(np.ones(1_000_000)).save(folder / "saved")


def warm() -> None:
    """Compile everything first, since the work is tested and not the compiler."""
    import tempfile
    from pathlib import Path

    ctypes.CDLL(None).mallopt(*_MMAP_THRESHOLD)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for work in WORKS:
            if work is not load_parquet:  # Arrow's threads would not survive the fork
                work(Path(folder))
