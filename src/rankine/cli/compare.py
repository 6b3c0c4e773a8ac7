"""``rankine compare``: whether one model or run is really better than another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables, save_report
from rankine.cli._options import (
    AsJson,
    AsLatex,
    AsMarkdown,
    ModelReadingOptions,
    ReportFile,
    Seed,
    option_names,
    reject_options,
    require_one_format,
)
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.evaluation.compare import Comparison

_EPILOG = """
[bold]Examples[/bold]

  rankine compare old.rankine new.rankine test.txt --metric ndcg@10

  rankine compare bm25.run model.rankine test.txt --metric map --metric ndcg@10 --report page.html

  rankine compare live.rankine new.rankine today.parquet --split time:0.8,0.2 --fail-if-worse \\
    && mv new.rankine live.rankine

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
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse", help="Exit code 3 if the last is proven worse than the first."
        ),
    ] = False,
    report: ReportFile = None,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
) -> None:
    """Compare models and runs query by query: intervals, tests, wins, what changed."""
    from rankine.evaluation.compare import compare_systems
    from rankine.evaluation.systems import is_qrels, is_run, load_systems, name_systems
    from rankine.evaluation.trec import read_qrels, read_run
    from rankine.metrics import parse_metric
    from rankine.model import LinearModel

    check_output_paths(report=report)
    require_one_format(json=json, latex=latex, markdown=markdown)
    if not json:
        reject_options(("per_query",), "belongs to --json", fix="Leave it out, or add --json")
    if len(inputs) < 3:
        raise ParameterError(
            "two models or runs and a data file are needed",
            fix="Write: rankine compare A.rankine B.rankine DATA",
        )
    *paths, data = inputs
    chosen = [parse_metric(name) for name in metric or ["ndcg@10"]]
    systems = {
        name: read_run(path) if is_run(path) else LinearModel.load(path)
        for name, path in name_systems(paths).items()
    }
    models = [one for one in systems.values() if isinstance(one, LinearModel)]
    judged: Any
    if is_qrels(data):
        reject_options(
            option_names(ModelReadingOptions), "says how data are read, and these are judgements"
        )
        judged = read_qrels(data)
    else:
        judged = reading.open_for(data, models) if models else reading.newest(reading.open(data))
    contestants = load_systems(systems, judged)
    found = [
        compare_systems(
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
        print_tables(tables, latex=latex, markdown=markdown)
    if fail_if_worse and any(_last_is_worse(comparison) for comparison in found):
        raise typer.Exit(WORSE)


#: Exit code of ``--fail-if-worse``.
WORSE = 3


def _last_is_worse(found: Comparison) -> bool:
    first, last = found.systems[0].name, found.systems[-1].name
    pair = next(pair for pair in found.pairs if (pair.a, pair.b) == (first, last))
    return pair.verdict == "worse"
