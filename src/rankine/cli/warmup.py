"""``rankine warmup``: compile all kernels now, so that later commands start at once."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson
from rankine.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPILOG = """
[bold]In a container image[/bold]

  RUN rankine warmup --into /opt/rankine-cache

  ENV RANKINE_CACHE_DIR=/opt/rankine-cache

Afterwards the folder may be read-only. Every machine of the same architecture can use it.
"""


@app.command(epilog=_EPILOG)
def warmup(
    ranker: Annotated[
        list[str] | None, typer.Option(help="Compile only for this ranker; repeatable.")
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            help="Write to this folder, which machines with different CPUs can share: compile for "
            "the oldest supported CPU instead of this one."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of processes (default: one per core, at most 4)."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Compile the numeric loops ahead of time, so that later commands start at once."""
    from rankine.core.checks import check_count
    from rankine.core.errors import ParameterError
    from rankine.kernels.cache import user_cache, write_baseline
    from rankine.rankers.registry import RANKERS, ranker_class

    rankers = ranker or list(RANKERS)
    for name in rankers:
        ranker_class(name)  # raises an error that lists the rankers
    if jobs is None:
        jobs = min(4, os.cpu_count() or 1)
    check_count("jobs", jobs)
    folder = user_cache()
    if into is not None:
        folder = Path(into).absolute()
        write_baseline(folder)
    if folder is None:
        raise ParameterError(
            "this user has no home folder to write to", fix="Name one: --into FOLDER"
        )
    started_at = time.perf_counter()
    seconds_by_part = _compile(rankers, folder, jobs)
    result = {
        "cache": str(folder),
        "parts": seconds_by_part,
        "seconds": round(time.perf_counter() - started_at, 2),
    }
    if json:
        _console.print_json(result)
    else:
        _console.print_result(f"compiled in {result['seconds']} s into {result['cache']}")


def _compile(rankers: list[str], folder: Path, jobs: int) -> dict[str, float]:
    """Compile all parts in ``jobs`` processes that write to ``folder``; return seconds by part."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    names = part_names(rankers)
    seconds_by_part: dict[str, float] = {}
    # The target CPU is set when the kernels are imported, so each process has to be new.
    with (
        _cache_dir(folder),
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
    ):
        for name, seconds in zip(names, pool.map(compile_part, names), strict=True):
            seconds_by_part[name] = seconds
            _console.print_status(f"{name}: {seconds:.2f} s")
    return seconds_by_part


@contextmanager
def _cache_dir(folder: Path) -> Iterator[None]:
    """Set ``RANKINE_CACHE_DIR`` for processes that are started inside the block."""
    previous = os.environ.get("RANKINE_CACHE_DIR")
    os.environ["RANKINE_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        if previous is None:
            del os.environ["RANKINE_CACHE_DIR"]
        else:
            os.environ["RANKINE_CACHE_DIR"] = previous


def part_names(rankers: list[str]) -> list[str]:
    """Return the names of the parts to compile, the slowest first."""
    fits = [f"{name} {storage}" for name in rankers for storage in ("dense", "sparse")]
    return [*fits, "serving", "reader", "report", "metrics"]


def compile_part(name: str) -> float:
    """Run code that compiles the kernels of a part in this process; return the seconds."""
    started_at = time.perf_counter()
    other_parts: dict[str, Callable[[], None]] = {
        "serving": _compile_serving,
        "reader": _compile_reader,
        "report": _compile_report,
        "metrics": _compile_metrics,
    }
    if name in other_parts:
        other_parts[name]()
    else:
        _compile_fit(*name.rsplit(" ", 1))
    return round(time.perf_counter() - started_at, 2)


def _small_log() -> Any:
    from rankine.logs.simulation import shop_log

    return shop_log(12, random_state=1, list_length=8)


def _compile_fit(ranker: str, storage: str) -> None:
    import numpy as np
    from scipy import sparse

    from rankine.rankers.registry import ranker_class

    data = _small_log()
    X: Any = data.X if storage == "dense" else sparse.csr_array(data.X)
    # Kernels are compiled separately for each type of the features.
    for dtype in (np.float64, np.float32):
        ranker_class(ranker)(random_state=0).fit(X.astype(dtype), data.y, qid=data.qid)


def _compile_serving() -> None:
    from rankine.history.live import compile_kernels as compile_history
    from rankine.reranking.rules import compile_kernels as compile_rules
    from rankine.scoring.scorer import compile_kernels

    compile_kernels()
    compile_history()
    compile_rules()


def _compile_reader() -> None:
    import rankine

    rankine.load(io.BytesIO(b"1 qid:1 1:0.5 2:1 # a\n0 qid:1 2:0.25 # b\n"))


def _compile_report() -> None:
    import numpy as np

    import rankine

    data = _small_log()
    rankine.report(rankine.LinearModel.from_weights(np.ones(data.n_features)), data)


def _compile_metrics() -> None:
    from rankine.metrics import evaluate_on

    data = _small_log()
    for metric in ("ndcg@10", "map", "recall@5", "mrr", "pairwise_error"):
        evaluate_on(data, scores=data.X[:, 0], metric=metric)
