"""``rankine compare``: whether one model or run is really better than another."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._data_options import Reading
from rankine.cli._groups import spread
from rankine.cli._output import require_folder
from rankine.cli._report import ReportFile, save_report
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine compare old.rankine new.rankine test.txt --metric ndcg@10

  rankine compare bm25.run model.rankine test.txt --metric map --metric ndcg@10 --report page.html

  rankine compare a.run b.run c.run qrels.txt --metric ndcg@10:gain=linear --json
"""


@app.command(epilog=_EPILOG)
@spread
def compare(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL_OR_RUN... DATA",
            help="Two or more model or TREC run files, then labelled data (or qrels for runs).",
        ),
    ],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Metric, repeatable.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    margin: Annotated[
        float, typer.Option(help="Differences this small do not matter (equivalence).")
    ] = 0.01,
    resamples: Annotated[int, typer.Option(help="Bootstrap samples and sign flips.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
    changed: Annotated[
        int, typer.Option(help="Queries that changed most, shown per pair of systems.")
    ] = 3,
    depth: Annotated[int, typer.Option(help="Ranks shown of a changed query.")] = 10,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Per-query values in the JSON output.")
    ] = False,
    report: ReportFile = None,
    *,
    reading: Reading,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="LaTeX tables.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown tables.")] = False,
) -> None:
    """Compare models and runs query by query: intervals, tests, wins, what changed."""
    from rankine.cli._comparison import compare_files, show

    require_folder("--report", report)
    options = reading.options()
    found = compare_files(
        inputs,
        metric or ["ndcg@10"],
        options,
        confidence=confidence,
        margin=margin,
        n_resamples=resamples,
        random_state=seed,
        n_changed=changed,
        depth=depth,
    )
    save_report(report, found)
    if json:
        plain = [comparison.to_dict(per_query=per_query) for comparison in found]
        _console.print_json({"data": inputs[-1], "comparisons": plain})
    else:
        show(found, latex=latex, markdown=markdown)
