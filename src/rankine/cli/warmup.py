"""``rankine warmup``: compile everything now, so that nothing compiles later."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson
from rankine.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EPILOG = """
[bold]In a container image[/bold]

  RUN rankine warmup --into /opt/rankine-cache

  ENV RANKINE_CACHE_DIR=/opt/rankine-cache

The folder may be read-only afterwards, and serves every machine of the same kind.
"""


@app.command(epilog=_EPILOG)
def warmup(
    ranker: Annotated[
        list[str] | None, typer.Option(help="Only these rankers, repeatable.")
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(help="Folder to share between machines: compiled for a baseline of CPUs."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes that compile; default: one a core, at most 4.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Compile the kernels of reading, training, evaluation and scoring, and keep them on disk."""
    from rankine.core.errors import ParameterError
    from rankine.kernels.compile import user_cache, write_baseline
    from rankine.rankers.registry import RANKERS, ranker_class

    rankers = ranker or list(RANKERS)
    for name in rankers:
        ranker_class(name)  # or an error that lists those that exist
    if jobs is not None and jobs < 1:
        raise ParameterError(f"--jobs {jobs} is no number of processes", fix="Use 1 or more")
    folder = user_cache() if into is None else Path(into).absolute()
    if into is not None:
        write_baseline(folder)
    started = time.perf_counter()
    seconds = _compile(rankers, folder, min(4, os.cpu_count() or 1) if jobs is None else jobs)
    result = {
        "cache": str(folder),
        "parts": seconds,
        "seconds": round(time.perf_counter() - started, 2),
    }
    if json:
        _console.print_json(result)
    else:
        _console.print_result(f"compiled in {result['seconds']} s into {result['cache']}")


def _compile(rankers: list[str], folder: Path, jobs: int) -> dict[str, float]:
    """Seconds of each part, compiled by fresh processes that keep what they make in ``folder``."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    before = os.environ.get("RANKINE_CACHE_DIR")
    os.environ["RANKINE_CACHE_DIR"] = str(folder)
    seconds: dict[str, float] = {}
    try:
        # A fresh interpreter each: which CPU is compiled for is decided when Numba is imported.
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            names = part_names(rankers)
            for name, taken in zip(names, pool.map(warm_part, names), strict=True):
                seconds[name] = taken
                _console.print_status(f"{name}: {taken:.2f} s")
    finally:
        if before is None:
            del os.environ["RANKINE_CACHE_DIR"]
        else:
            os.environ["RANKINE_CACHE_DIR"] = before
    return seconds


#: Seconds that a training waits for what another process compiles for it.
_PATIENCE = 60.0


@contextmanager
def compiling_beside(ranker: str, *, usual: bool) -> Iterator[Callable[[Any], None]]:
    """The very first command of a machine compiles on two cores: two processes train on a toy.

    The function that is given is called with the data, between reading and training. Where these
    are what the toy is (dense rows, ``usual`` settings) it trains on the toy beside the process
    that was begun before reading; each compiles what the other has not begun. What is missing then
    is compiled as ever. The other process ends with the command.
    """
    import numpy as np

    from rankine.kernels import compile as kernels

    if kernels.keeps_kernels() or (os.cpu_count() or 1) < 2:
        yield lambda _: None
        return
    with tempfile.TemporaryDirectory() as claims:
        words = f"from rankine.cli import warmup as w; w.toy({ranker!r}, {claims!r})"
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and words
            [sys.executable, "-c", words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def before_training(data: Any) -> None:
            X = getattr(data, "X", None)
            if not (usual and isinstance(X, np.ndarray) and X.dtype == np.float64):
                return
            if len(data) > kernels.LIGHT_ROWS:
                kernels.LIGHT_ROWS = 0
            with kernels.CLOCK.compiling():
                toy(ranker, claims)
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_PATIENCE)

        try:
            yield before_training
        finally:
            child.kill()
            child.wait()


#: A training that runs in plain Python.
_FEW = {"n_steps": 2, "max_iter": 2, "bins": 4}


def toy(ranker: str, claims: str) -> None:
    """A training of a few steps and its metric, for what has to be compiled for them."""
    from rankine.kernels.compile import sharing
    from rankine.logs.simulation import shop_log
    from rankine.metrics import evaluate_on
    from rankine.rankers.registry import ranker_class

    system = ranker_class(ranker)(random_state=0)
    system.set_params(**{k: v for k, v in _FEW.items() if k in system.get_params()})
    with sharing(Path(claims)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few steps
        data = shop_log(10, random_state=1, list_length=4)
        evaluate_on(data, model=system.fit(data).to_model(), metric=system.metric)


def part_names(rankers: list[str]) -> list[str]:
    """Pieces of work, the longest first."""
    kinds = [f"{name} {storage}" for name in rankers for storage in ("dense", "sparse")]
    return [*kinds, "serving", "reader", "report", "metrics"]


def warm_part(name: str) -> float:
    """Do one piece of work in this process; returns the seconds it took."""
    begun = time.perf_counter()
    from rankine.kernels import compile as kernels

    kernels.LIGHT_ROWS = 0
    work = dict(_work())
    work.get(name, work["ranker"])(name)
    return round(time.perf_counter() - begun, 2)


def _work() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Names of parts and what compiles (or loads) them."""
    import numpy as np
    from scipy import sparse

    import rankine
    from rankine.logs.simulation import shop_log
    from rankine.metrics import evaluate_on
    from rankine.rankers.registry import ranker_class
    from rankine.scoring.scorer import compile_kernels

    data = shop_log(12, random_state=1, list_length=8)

    def fit(name: str) -> None:
        system, storage = name.rsplit(" ", 1)
        X: Any = data.X if storage == "dense" else sparse.csr_array(data.X)
        for dtype in (np.float64, np.float32):
            ranker_class(system)(random_state=0).fit(X.astype(dtype), data.y, qid=data.qid)

    def measure(_: str) -> None:
        for metric in ("ndcg@10", "map", "recall@5", "mrr", "pairwise_error"):
            evaluate_on(data, scores=data.X[:, 0], metric=metric)

    text = b"1 qid:1 1:0.5 2:1 # a\n0 qid:1 2:0.25 # b\n"
    yield "ranker", fit
    yield "reader", lambda _: rankine.load(io.BytesIO(text))
    yield "serving", lambda _: compile_kernels()
    flat = rankine.LinearModel.from_weights(np.ones(data.n_features))
    yield "report", lambda _: rankine.report(flat, data)
    yield "metrics", measure
