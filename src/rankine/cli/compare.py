"""``rankine compare``: whether one model or run is really better than another."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import require_folders, save_report, show_tables
from rankine.cli._options import AsJson, AsLatex, AsMarkdown, Reading, ReportFile, Seed, spread
from rankine.cli.main import app
from rankine.core.errors import ParameterError

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
    reading: Reading,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
) -> None:
    """Compare models and runs query by query: intervals, tests, wins, what changed."""
    from rankine.evaluation.compare import compare_contestants
    from rankine.evaluation.contestants import gather_contestants, is_run, read_judged
    from rankine.metrics import parse_metric

    require_folders(report=report)
    options = reading.options()
    if len(inputs) < 3:
        raise ParameterError(
            "two models or runs and a data file are needed",
            fix="Write: rankine compare A.rankine B.rankine DATA",
        )
    *systems, data = inputs
    chosen = [parse_metric(name) for name in metric or ["ndcg@10"]]
    if "n_features" not in options:
        options |= _model_width([s for s in systems if not is_run(s)])
    contestants = gather_contestants(systems, read_judged(data, **options))
    found = [
        compare_contestants(
            contestants,
            one,
            confidence=confidence,
            margin=margin,
            n_resamples=n_resamples,
            random_state=seed,
            n_changed=n_changed,
            depth=depth,
        )
        for one in chosen
    ]
    save_report(report, found)
    if json:
        plain = [comparison.to_dict(per_query=per_query) for comparison in found]
        _console.print_json({"data": data, "comparisons": plain})
    else:
        tables = [table for comparison in found for table in comparison.tables()]
        show_tables(tables, latex=latex, markdown=markdown)


def _model_width(paths: list[str]) -> dict[str, int]:
    """Text files may lack the last features of the model: read as many as it has."""
    from rankine.model import LinearModel

    for path in paths:
        model = LinearModel.load(path)
        if model.column_names is None:
            return {"n_features": model.n_columns}
    return {}
