"""``rankine report``: write an HTML page about a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, command_line
from rankine.cli._options import ModelFile, Seed, Topic
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.model import LinearModel

_EPILOG = """
[bold]Examples[/bold]

  rankine report model.rankine test.txt -o report.html

  rankine report new.rankine test.txt --against old.rankine --metric ndcg@10 \\
      --metric map

  rankine report topics.rankine test.txt --topic earn --json | jq .headline
"""


@app.command(epilog=_EPILOG)
def report(
    model: ModelFile,
    data: Annotated[
        list[str], typer.Argument(help="Labelled data that the model was not trained on.")
    ],
    against: Annotated[
        str | None, typer.Option(help="Compare with this model, such as the one in production.")
    ] = None,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Write the HTML page to this file.")
    ] = "report.html",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="Show this metric first (default: the model's), repeatable: {metrics}.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    topic: Topic = None,
    n_queries: Annotated[
        int, typer.Option(help="Show the lists of the N worst and the N best queries.", metavar="N")
    ] = 3,
    seed: Seed = 0,
    *,
    reading: ModelReadingOptions,
    json: Annotated[
        bool, typer.Option("--json", help="Also print the figures as one JSON object on one line.")
    ] = False,
) -> None:
    """Write an HTML page about a model: quality, queries, weights, training and data."""
    from rankine.core.errors import SchemaError
    from rankine.metrics import metric_columns
    from rankine.reporting.reliability import calibration_columns
    from rankine.reporting.run import report as make_report

    check_output_paths(out=out)

    def read(models: Sequence[LinearModel]) -> Any:
        columns = metric_columns(metric or [each.metric for each in models])
        outcomes = [name for each in models for name in calibration_columns(each)]
        try:
            return reading.open_for(data, models, (*columns, *outcomes))
        except SchemaError:
            if not outcomes:
                raise
        # Judged data without outcomes: the report has no figure of probabilities.
        return reading.open_for(data, models, columns)

    page = make_report(
        model,
        read,
        against=against,
        metric=metric,
        title=title,
        topic=topic,
        n_queries=n_queries,
        random_state=seed,
        command=command_line(),
    )
    page.save(out)
    if json:
        _console.print_json({"report": out, **page.to_dict()})
    else:
        _console.print_result(f"wrote {out} ({len(page.html) / 1000:,.0f} kB)")
