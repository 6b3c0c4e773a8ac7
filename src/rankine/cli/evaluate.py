"""``rankine evaluate``: metrics of a model on data, or of a run against judgements."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console, _data_options
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine evaluate model.rankine test.txt --metric ndcg@10 --metric map

  rankine evaluate model.rankine test.txt --metric letor4:map --per-query --json

  rankine evaluate --run run.txt --qrels qrels.txt --metric map
"""


@app.command(epilog=_EPILOG)
def evaluate(
    model: Annotated[str | None, typer.Argument(help="Model file.")] = None,
    data: Annotated[list[str] | None, typer.Argument(help="Files or patterns.")] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Metric, repeatable.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="TREC run instead of a model.")] = None,
    qrels: Annotated[str | None, typer.Option("--qrels", help="TREC judgements.")] = None,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="One value per query too.")
    ] = False,
    relative_to: Annotated[
        str | None, typer.Option("--relative-to", help="random: gain over a random order.")
    ] = None,
    format: _data_options.Format = None,  # noqa: A002 - the option's name
    base: _data_options.ModelBase = None,
    qid_type: _data_options.QidType = "int",
    missing: _data_options.Missing = "error",
    feature_names: _data_options.FeatureNames = None,
    label: _data_options.Label = "label",
    query: _data_options.Query = "qid",
    columns: _data_options.Columns = None,
    group: _data_options.Group = None,
    single_query: _data_options.SingleQuery = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Evaluate a model on labelled data, or a run against judgements."""
    from rankine.cli._evaluation import check_inputs, evaluate_model, evaluate_trec, show_results

    check_inputs(model, data, run, qrels, relative_to)
    if run is not None and qrels is not None:
        results = evaluate_trec(run, qrels, metric or ["ndcg@10", "map"], per_query=per_query)
    else:
        options: dict[str, Any] = _data_options.read_options(
            format=format,
            base=base,
            qid_type=qid_type,
            missing=missing,
            feature_names=feature_names,
            label=label,
            query=query,
            columns=columns,
            group=group,
            single_query=single_query,
            progress=_console.verbosity() >= 0,
        )
        random_too = relative_to == "random"
        results = evaluate_model(
            str(model), data or [], metric, options, per_query=per_query, random_too=random_too
        )
    if json:
        _console.print_json(results)
    else:
        show_results(results)
