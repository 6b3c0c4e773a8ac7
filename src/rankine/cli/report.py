"""``rankine report``: one page that shows what a model does."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, command_line
from rankine.cli._options import ModelFile, ModelReadingOptions, Seed
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine report model.rankine test.txt -o report.html

  rankine report new.rankine test.txt --against old.rankine --metric ndcg@10 --metric map

  rankine report topics.rankine test.txt --topic earn --json | jq .headline
"""


@app.command(epilog=_EPILOG)
def report(
    model: ModelFile,
    data: Annotated[list[str], typer.Argument(help="Labelled data it has not seen.")],
    against: Annotated[
        str | None, typer.Option(help="Another model file to stand beside it.")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="The HTML page.")] = "report.html",
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="Headline metric, repeatable; default: the model's."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    topic: Annotated[str | None, typer.Option(help="One model of a bundle.")] = None,
    n_queries: Annotated[
        int, typer.Option(help="Worst queries shown with their lists, and as many best ones.")
    ] = 3,
    seed: Seed = 0,
    *,
    reading: ModelReadingOptions,
    json: Annotated[
        bool, typer.Option("--json", help="Print the figures as one JSON object on one line too.")
    ] = False,
) -> None:
    """Write one HTML page about a model: quality, queries, weights, training, data."""
    from rankine.reporting.run import report as make_report

    check_output_paths(out=out)
    made = make_report(
        model,
        lambda models: reading.open_for(data, models),
        against=against,
        metric=metric,
        title=title,
        topic=topic,
        n_queries=n_queries,
        random_state=seed,
        command=command_line(),
    )
    made.save(out)
    if json:
        _console.print_json({"report": out, **made.to_dict()})
    else:
        _console.print_result(f"wrote {out} ({len(made.html) / 1000:,.0f} kB)")
