"""``rankine warmup``: compile everything now, so that nothing compiles later."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson
from rankine.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EPILOG = """
[bold]In a container image[/bold]

  ENV RANKINE_CACHE_DIR=/opt/rankine-cache

  RUN rankine warmup

The folder may be read-only afterwards.
"""


@app.command(epilog=_EPILOG)
def warmup(
    ranker: Annotated[
        list[str] | None, typer.Option("--ranker", help="Only these rankers, repeatable.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Compile the kernels of reading, training, evaluation and scoring, and keep them on disk."""
    import time

    from rankine.kernels.compile import user_cache
    from rankine.rankers.registry import RANKERS

    started = time.perf_counter()
    seconds: dict[str, float] = {}
    for name, work in warm_parts(ranker or list(RANKERS)):
        begun = time.perf_counter()
        work()
        seconds[name] = round(time.perf_counter() - begun, 2)
        _console.say(f"{name}: {seconds[name]:.2f} s")
    result: dict[str, Any] = {
        "cache": str(user_cache()),
        "parts": seconds,
        "seconds": round(time.perf_counter() - started, 2),
    }
    if json:
        _console.print_json(result)
    else:
        _console.show(f"compiled in {result['seconds']} s into {result['cache']}")


def warm_parts(rankers: list[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Names and small pieces of work; each compiles (or loads) the kernels its name says."""
    import numpy as np
    from scipy import sparse

    import rankine
    from rankine.data.shop import shop_log
    from rankine.metrics import evaluate
    from rankine.rankers.registry import ranker_class
    from rankine.serve.warm import compile_kernels

    data = shop_log(12, random_state=1, list_length=8)
    text = b"1 qid:1 1:0.5 2:1 # a\n0 qid:1 2:0.25 # b\n"
    yield "reader", lambda: rankine.load(io.BytesIO(text))

    def fit(kind: Any, X: Any) -> Callable[[], object]:
        return lambda: kind(random_state=0).fit(X, data.y, qid=data.qid)

    def measure(metric: str) -> Callable[[], object]:
        return lambda: evaluate(metric, data.y, data.X[:, 0], data.qid)

    for name in rankers:
        kind = ranker_class(name)
        for storage, matrix in (("dense", data.X), ("sparse", sparse.csr_array(data.X))):
            for dtype in (np.float64, np.float32):
                yield f"{name} {storage} {np.dtype(dtype).name}", fit(kind, matrix.astype(dtype))
    yield "serving", compile_kernels
    flat = rankine.LinearModel.from_weights(np.ones(data.n_features))
    yield "report", lambda: rankine.report(flat, data)
    for metric in ("ndcg@10", "map", "recall@5", "mrr", "pairwise_error"):
        yield f"metric {metric}", measure(metric)
