"""``rankine evaluate``: metrics of a model on data, or of a run against judgements."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._data_options import ModelReading
from rankine.cli._groups import spread
from rankine.cli.app import app
from rankine.cli.clicks import CounterfactualOptions

_EPILOG = """
[bold]Examples[/bold]

  rankine evaluate model.rankine test.txt --metric ndcg@10 --metric map

  rankine evaluate model.rankine test.txt --metric letor4:map --per-query --json

  rankine evaluate --run run.txt --qrels qrels.txt --metric map

  rankine evaluate new.rankine log.parquet --counterfactual --query session_id --label clicked
      --propensity looks.json --item item --search search
"""


@app.command(epilog=_EPILOG)
@spread
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
    *,
    reading: ModelReading,
    clicks: CounterfactualOptions,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Evaluate a model on labelled data, or a run against judgements."""
    from rankine.cli._evaluation import check_inputs, evaluate_model, evaluate_trec, show_results
    from rankine.core.errors import ParameterError

    check_inputs(model, data, run, qrels, relative_to)
    if clicks.counterfactual:
        if run is not None or metric or per_query or relative_to is not None:
            raise ParameterError(
                "--counterfactual estimates clicks per list, not a metric of judgements",
                fix="Leave --metric, --per-query, --relative-to and --run out",
            )
        clicks.judge(str(model), data or [], reading.options(), json=json)
        return
    if run is not None and qrels is not None:
        results = evaluate_trec(run, qrels, metric or ["ndcg@10", "map"], per_query=per_query)
    else:
        options: dict[str, Any] = reading.options()
        random_too = relative_to == "random"
        results = evaluate_model(
            str(model), data or [], metric, options, per_query=per_query, random_too=random_too
        )
    if json:
        _console.print_json(results)
    else:
        show_results(results)
