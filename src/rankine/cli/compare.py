"""``rankine compare``: whether one model or run is really better than another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import require_folder, save_report, show_tables
from rankine.cli._options import AsJson, AsLatex, AsMarkdown, ModelReading, ReportFile, Seed
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.evaluation.compare import Comparison

_EPILOG = """
[bold]Examples[/bold]

  rankine compare old.rankine new.rankine test.txt --metric ndcg@10

  rankine compare bm25.run model.rankine test.txt --metric map --metric ndcg@10 --report page.html

  rankine compare a.run b.run c.run qrels.txt --metric ndcg@10:gain=linear --json
"""


@app.command(epilog=_EPILOG)
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
    n_resamples: Annotated[int, typer.Option(help="Bootstrap samples and sign flips.")] = 10_000,
    seed: Seed = 0,
    n_changed: Annotated[
        int, typer.Option(help="Queries that changed most, shown per pair of systems.")
    ] = 3,
    depth: Annotated[int, typer.Option(help="Ranks shown of a changed query.")] = 10,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Per-query values in the JSON output.")
    ] = False,
    report: ReportFile = None,
    *,
    reading: ModelReading,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
) -> None:
    """Compare models and runs query by query: intervals, tests, wins, what changed."""
    require_folder("--report", report)
    found = compare_files(
        inputs,
        metric or ["ndcg@10"],
        reading,
        confidence=confidence,
        margin=margin,
        n_resamples=n_resamples,
        random_state=seed,
        n_changed=n_changed,
        depth=depth,
    )
    save_report(report, found)
    if json:
        plain = [comparison.to_dict(per_query=per_query) for comparison in found]
        _console.print_json({"data": inputs[-1], "comparisons": plain})
    else:
        show(found, latex=latex, markdown=markdown)


def compare_files(
    inputs: list[str], metrics: list[str], reading: ModelReading, **settings: Any
) -> list[Comparison]:
    """Compare all inputs but the last on the last, once per metric."""
    from rankine.evaluation.compare import compare_contestants
    from rankine.evaluation.contestants import gather_contestants, is_qrels, is_run, named
    from rankine.evaluation.trec import read_qrels, read_run
    from rankine.metrics import parse_metric
    from rankine.model import LinearModel

    if len(inputs) < 3:
        raise ParameterError(
            "two models or runs and a data file are needed",
            fix="Write: rankine compare A.rankine B.rankine DATA",
        )
    *paths, data = inputs
    chosen = [parse_metric(metric) for metric in metrics]
    systems = {
        name: read_run(path) if is_run(path) else LinearModel.load(path)
        for name, path in named(paths).items()
    }
    models = [one for one in systems.values() if isinstance(one, LinearModel)]
    judged: Any
    if is_qrels(data):
        judged = read_qrels(data)
    else:
        judged = reading.open_for(data, models) if models else reading.open(data)
    contestants = gather_contestants(systems, judged)
    return [compare_contestants(contestants, metric, **settings) for metric in chosen]


def show(found: list[Comparison], *, latex: bool, markdown: bool) -> None:
    """Tables in the chosen form."""
    tables = [table for comparison in found for table in comparison.tables()]
    show_tables(tables, latex=latex, markdown=markdown)
