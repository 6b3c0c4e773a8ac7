"""``rankine evaluate``: metrics of a model on data, or of a run against judgements."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, ModelReadingOptions, option_names, reject_options
from rankine.cli.clicks import CounterfactualOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError
from rankine.core.safe_text import printable

_EPILOG = """
[bold]Examples[/bold]

  rankine evaluate model.rankine test.txt --metric ndcg@10 --metric map

  rankine evaluate model.rankine test.txt --metric letor4:map --per-query --json

  rankine evaluate --run run.txt --qrels qrels.txt --metric map

  rankine evaluate new.rankine log.parquet --counterfactual --query session_id --label clicked
      --propensity looks.json --item item --search search
"""


@app.command(epilog=_EPILOG)
def evaluate(
    model: Annotated[str | None, typer.Argument(help="Model file.")] = None,
    data: Annotated[list[str] | None, typer.Argument(help="Files or patterns.")] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Metric, repeatable.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="TREC run instead of a model.")] = None,
    qrels: Annotated[str | None, typer.Option(help="TREC judgements.")] = None,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="One value per query too.")
    ] = False,
    relative_to: Annotated[
        str | None, typer.Option(help="random: gain over a random order.")
    ] = None,
    *,
    reading: ModelReadingOptions,
    clicks: CounterfactualOptions,
    json: AsJson = False,
) -> None:
    """Evaluate a model on labelled data, or a run against judgements."""
    if (run is None) != (qrels is None):
        raise ParameterError("--run and --qrels belong together", fix="Give both")
    if run is None and (model is None or not data):
        raise ParameterError(
            "nothing to evaluate", fix="Give MODEL DATA, or --run RUN --qrels QRELS; see --help"
        )
    if run is not None and model is not None:
        raise ParameterError("both a model and a run were given", fix="Give one of them")
    if relative_to not in (None, "random"):
        raise ParameterError(f"--relative-to {relative_to!r} is unknown", fix="Use random")
    if run is not None:
        reading_too = ("relative_to", *option_names(ModelReadingOptions))
        reject_options(reading_too, "belongs to a model and its data, not to --run")
    if not clicks.counterfactual:
        reject_options(option_names(CounterfactualOptions), "belongs to --counterfactual")
    if clicks.counterfactual:
        if run is not None or metric or per_query or relative_to is not None:
            raise ParameterError(
                "--counterfactual estimates clicks per list, not a metric of judgements",
                fix="Leave --metric, --per-query, --relative-to and --run out",
            )
        clicks.judge(str(model), data or [], reading, json=json)
        return
    if run is not None and qrels is not None:
        results = evaluate_trec(run, qrels, metric or ["ndcg@10", "map"], per_query=per_query)
    else:
        random_too = relative_to == "random"
        results = evaluate_model(
            str(model), data or [], metric, reading, per_query=per_query, random_too=random_too
        )
    if json:
        _console.print_json(results)
    else:
        show_results(results)


def evaluate_model(
    path: str,
    files: list[str],
    metrics: list[str] | None,
    reading: ModelReadingOptions,
    *,
    per_query: bool,
    random_too: bool,
) -> dict[str, Any]:
    """Metrics of a saved model; the model's own metric when none is named."""
    import rankine
    from rankine.metrics import (
        count_without_value,
        data_columns,
        evaluate_on,
        parse_metric,
        random_expectation,
    )
    from rankine.transforms.apply import score_dataset

    model = rankine.LinearModel.load(path)
    data = reading.open(files, model=model)
    scores = score_dataset(model, data)
    columns = data_columns(data)
    results: dict[str, Any] = {
        "model": path,
        "digest": model.digest,
        "rows": data.n_rows,
        "queries": data.n_queries,
        "metrics": {},
    }
    for name in metrics or [model.metric or "ndcg@10"]:
        metric = parse_metric(name)
        entry: dict[str, Any] = {
            "value": evaluate_on(data, scores=scores, metric=metric),
            "no_relevant": metric.no_relevant,
            "queries_without_value": count_without_value(
                metric, data.y, data.queries, columns=columns
            ),
        }
        if random_too:
            chance = random_expectation(metric, data.y, data.queries, columns=columns)
            entry["random"] = chance
            entry["gain_percent"] = 100 * (entry["value"] / chance - 1) if chance else None
        if per_query:
            values = evaluate_on(data, scores=scores, metric=metric, per_query=True)
            entry["per_query"] = _by_query(data.queries.ids.tolist(), values.tolist())
        results["metrics"][str(metric)] = entry
    return results


def evaluate_trec(run: str, qrels: str, metrics: list[str], *, per_query: bool) -> dict[str, Any]:
    """Metrics of a TREC run."""
    from rankine.evaluation.trec import evaluate_run

    found = evaluate_run(run, qrels, metrics, per_query=per_query)
    entries: dict[str, Any] = {name: {"value": value} for name, value in found.means.items()}
    for name, values in (found.per_query or {}).items():
        entries[name]["per_query"] = _by_query(found.ids.tolist(), values.tolist())
    return {
        "run": run,
        "qrels": qrels,
        "queries": len(found.ids),
        "notes": dict(found.counts),
        "metrics": entries,
    }


def _by_query(ids: list[Any], values: list[float]) -> dict[str, float | None]:
    """Values by query id; a query that the metric skips has none."""
    pairs = zip(ids, values, strict=True)
    return {str(query): None if value != value else value for query, value in pairs}  # noqa: PLR0124


def show_results(results: dict[str, Any]) -> None:
    """Tables for people."""
    from rich.table import Table

    entries = results["metrics"]
    extra = any("random" in entry for entry in entries.values())
    table = Table(
        "metric", "value", *(("random", "gain") if extra else ()), box=None, pad_edge=False
    )
    for name, entry in entries.items():
        cells = [name, f"{entry['value']:.4f}"]
        if extra:
            gain = entry["gain_percent"]
            cells += [f"{entry['random']:.4f}", "n/a" if gain is None else f"{gain:+.1f} %"]
        table.add_row(*cells)
    _console.print_result(table)
    for name, entry in entries.items():
        if entry.get("queries_without_value"):
            counted = "are skipped" if entry["no_relevant"] == "skip" else "count"
            rule = "" if entry["no_relevant"] == "skip" else f" {entry['no_relevant']}"
            _console.print_status(
                f"{name}: {entry['queries_without_value']} of {results['queries']} queries have "
                f"no relevant document and {counted}{rule}"
            )
        if "per_query" in entry:
            detail = Table("query", name, box=None, pad_edge=False)
            for query, value in entry["per_query"].items():
                detail.add_row(printable(query), "-" if value is None else f"{value:.4f}")
            _console.print_result(detail)
