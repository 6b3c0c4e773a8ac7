"""``rankine compare``: test whether one model or run is better than another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables, save_report
from rankine.cli._groups import option_names, reject_options, require_one_format
from rankine.cli._options import AsJson, AsLatex, AsMarkdown, ReportFile, Seed
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.evaluation.compare import Comparison

#: Exit code of ``--fail-if-worse``.
WORSE = 3
_EPILOG = """
[bold]Examples[/bold]

  rankine compare old.rankine new.rankine test.txt --metric ndcg@10

  rankine compare bm25.run model.rankine test.txt --metric map \\
      --metric ndcg@10 --report page.html

  rankine compare live.rankine new.rankine today.parquet \\
      --split time:0.8,0.2 --fail-if-worse && mv new.rankine live.rankine

  rankine compare yesterday.rankine today.rankine --weights

  rankine compare a.run b.run c.run qrels.txt --metric ndcg@10:gain=linear \\
      --json
"""


@app.command(epilog=_EPILOG)
def compare(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL_OR_RUN... DATA",
            help="Two or more models or TREC runs, then labelled data (or qrels, for runs).",
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="Compare by this metric (default: ndcg@10); repeatable."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    margin: Annotated[
        float, typer.Option(help="Treat differences up to this size as equivalent.")
    ] = 0.01,
    n_resamples: Annotated[
        int,
        typer.Option(
            help="Number of bootstrap samples, and of sign flips of the randomisation test."
        ),
    ] = 10_000,
    seed: Seed = 0,
    n_changed: Annotated[
        int,
        typer.Option(help="Show the N most changed queries of each pair of systems.", metavar="N"),
    ] = 3,
    depth: Annotated[
        int, typer.Option(help="Show the first N ranks of a changed query.", metavar="N")
    ] = 10,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Add the values of every query to --json.")
    ] = False,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            help="Exit with code 3 if the last system is proven worse than the first.",
        ),
    ] = False,
    weights: Annotated[
        bool,
        typer.Option(
            "--weights",
            help="Compare the weights of two models that were trained with --intervals, without "
            "data: which effects changed beyond noise.",
        ),
    ] = False,
    report: ReportFile = None,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
) -> None:
    """Compare models and runs query by query: means, intervals, tests and changed queries."""
    if weights:
        require_one_format(json=json, latex=latex, markdown=markdown)
        others = ["metric", "margin", "n_resamples", "seed", "n_changed", "depth", "per_query"]
        others += ["fail_if_worse", "report", *option_names(ModelReadingOptions)]
        reject_options(tuple(others), "cannot be combined with --weights")
        _compare_weights(inputs, confidence, json=json, latex=latex, markdown=markdown)
        return
    from rankine.evaluation.compare import compare_systems
    from rankine.metrics import metric_columns, parse_metric

    check_output_paths(report=report)
    require_one_format(json=json, latex=latex, markdown=markdown)
    if not json:
        reject_options(("per_query",), "needs --json", fix="Leave it out, or add --json")
    if len(inputs) < 3:
        raise ParameterError(
            "two models or runs and a data file are needed",
            fix="Write: rankine compare A.rankine B.rankine DATA",
        )
    metrics = [parse_metric(name) for name in metric or ["ndcg@10"]]
    systems = _score_systems(inputs[:-1], inputs[-1], reading, metric_columns(metrics))
    comparisons = [
        compare_systems(
            systems,
            each,
            confidence=confidence,
            margin=margin,
            n_resamples=n_resamples,
            random_state=seed,
            n_changed=n_changed,
            depth=depth,
        )
        for each in metrics
    ]
    save_report(report, comparisons)
    if json:
        dicts = [comparison.to_dict(per_query=per_query) for comparison in comparisons]
        _console.print_json({"data": inputs[-1], "comparisons": dicts})
    else:
        tables = [table for comparison in comparisons for table in comparison.tables()]
        print_tables(tables, latex=latex, markdown=markdown)
    # The result is printed first, so that a failing job shows why.
    if fail_if_worse and any(_last_is_worse(comparison) for comparison in comparisons):
        raise typer.Exit(WORSE)


def _compare_weights(
    paths: list[str], confidence: float, *, json: bool, latex: bool, markdown: bool
) -> None:
    """Print the changes of the weights from the first model to the second, largest first."""
    from rankine.core.safe_text import printable
    from rankine.evaluation.significance import check_confidence
    from rankine.evaluation.tables import Table
    from rankine.evaluation.weight_changes import compare_weights
    from rankine.model import LinearModel

    check_confidence(confidence)
    if len(paths) != 2:
        raise ParameterError(
            f"compares two models, and {len(paths)} files are given",
            parameter="weights",
            fix="Write: rankine compare OLD.rankine NEW.rankine --weights",
        )
    old, new = (LinearModel.load(path) for path in paths)
    rows = compare_weights(old, new, confidence).to_pylist()
    rows.sort(key=lambda row: row["p"])
    if json:
        _console.print_json(rows)
        return
    numbers = ("old", "new", "change", "low", "high")
    cells = [
        (
            printable(row.get("cell") or row["name"], 60),
            *(f"{row[name]:+.4g}" for name in numbers),
            f"{row['p']:.3g}",
            "yes" if row["changed"] else "no",
        )
        for row in rows
    ]
    header = ("weight", *numbers, "p (Holm)", "changed")
    print_tables([Table("", header, cells)], latex=latex, markdown=markdown)


def _score_systems(
    paths: list[str], data_path: str, reading: ModelReadingOptions, columns: Sequence[str]
) -> Any:
    """Load models and runs, and return their scores on labelled data or judgements."""
    from rankine.evaluation.systems import is_qrels, is_run, load_systems, name_systems
    from rankine.evaluation.trec import read_qrels, read_run
    from rankine.model import LinearModel

    systems: dict[str, Any] = {}
    models = []
    for name, path in name_systems(paths).items():
        if is_run(path):
            systems[name] = read_run(path)
        else:
            systems[name] = LinearModel.load(path)
            models.append(systems[name])
    # Judgements have no rows to read: options of reading would be ignored.
    if is_qrels(data_path):
        reject_options(option_names(ModelReadingOptions), "has no effect on judgements (qrels)")
        return load_systems(systems, read_qrels(data_path))
    if models:
        data = reading.open_for(data_path, models, columns)
    else:
        data = reading.newest(reading.open(data_path, columns=columns))
    return load_systems(systems, data)


def _last_is_worse(comparison: Comparison) -> bool:
    """Return whether the last system is proven worse than the first."""
    first = comparison.systems[0].name
    last = comparison.systems[-1].name
    pair = next(pair for pair in comparison.pairs if (pair.a, pair.b) == (first, last))
    return pair.verdict == "worse"
