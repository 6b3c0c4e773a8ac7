"""``rankine warmup``: compile everything now, so that nothing compiles later."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli.app import app

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
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Compile the kernels of reading, training, evaluation and scoring, and keep them on disk."""
    import time

    from rankine.cli._warmup import warm_parts
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
