"""``rankine strengths``: strengths of items from comparisons, with intervals."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import print_tables
from rankine.cli._groups import require_one_format
from rankine.cli._options import AsJson, AsLatex, AsMarkdown, Files, Seed, split_list
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine strengths votes.csv

  rankine strengths votes.parquet --pairs better,worse --confidence 0.9 --json
"""


@app.command(epilog=_EPILOG)
def strengths(
    data: Files,
    pairs: Annotated[
        str,
        typer.Option(
            help="Columns of the ids of winner and loser; features of both sides are winner_x, "
            "loser_x."
        ),
    ] = "winner,loser",
    l2: Annotated[
        float | None,
        typer.Option(
            help="Strength of the L2 penalty (default: a normal prior with a standard deviation "
            "of 3)."
        ),
    ] = None,
    n_resamples: Annotated[
        int, typer.Option(help="Number of bootstrap samples; 0 computes no intervals.")
    ] = 100,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    seed: Seed = 0,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
) -> None:
    """Estimate strengths of items from comparisons (Bradley and Terry's model), with intervals.

    An item that is stronger by d wins with probability 1 / (1 + exp(-d)); the mean is 0.
    """
    import rankine
    from rankine.evaluation.preferences import item_strengths

    require_one_format(json=json, latex=latex, markdown=markdown)
    comparisons = rankine.load(data, pairs=split_list(pairs))
    result = item_strengths(
        comparisons,
        l2=l2,
        n_resamples=n_resamples,
        confidence=confidence,
        random_state=seed,
    )
    if json:
        _console.print_json(result.to_dict())
    else:
        print_tables([result.table()], latex=latex, markdown=markdown)
