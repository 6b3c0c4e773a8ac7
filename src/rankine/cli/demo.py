"""``rankine demo``: the main job end to end on a shop's search log that is made on the spot."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine demo

  rankine demo --out shop --queries 5000 --seed 1
"""


@app.command(epilog=_EPILOG)
def demo(
    out: Annotated[
        str, typer.Option("--out", "-o", help="Folder for the files it makes.")
    ] = "demo-output",
    queries: Annotated[int, typer.Option(help="Number of search queries.")] = 1500,
    seed: Annotated[int, typer.Option(help="Seed of the log and the training.")] = 7,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Make a shop-search log, train, evaluate, explain one ranking, save model and report."""
    from rankine.cli._demo import run_demo, show_demo

    result = run_demo(out, queries, seed)
    if json:
        _console.print_json(result.plain())
    else:
        show_demo(result)
