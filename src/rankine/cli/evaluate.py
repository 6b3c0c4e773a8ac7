"""``rankine evaluate``: evaluate a model on labelled data, or a run against judgements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import print_tables
from rankine.cli._groups import option_names, reject_options
from rankine.cli._options import AsJson
from rankine.cli._reading import ModelReadingOptions, RuleOptions
from rankine.cli.clicks import CounterfactualOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError
from rankine.core.safe_text import printable

if TYPE_CHECKING:
    from rankine.data import Dataset
    from rankine.reranking import Rules

_EPILOG = """
[bold]Examples[/bold]

  rankine evaluate model.rankine test.txt --metric ndcg@10 --metric map

  rankine evaluate model.rankine test.txt --metric letor4:map --per-query \\
      --json

  rankine evaluate --run run.txt --qrels qrels.txt --metric map

  rankine evaluate model.rankine log.parquet --rules rules.toml \\
      --metric ndcg@10 --metric coverage@10:by=brand

  rankine evaluate new.rankine log.parquet --counterfactual \\
      --query session_id --label clicked --propensity propensity.json \\
      --item item --search search
"""

#: A smaller expectation is 0 up to rounding, and the gain over it undefined.
_SMALLEST_EXPECTATION = 1e-9
#: What is printed for metrics whose ties do not count by the mean over all their orders.
_TIES = {
    "file": "equal scores keep the order of the file, as in the LETOR scripts",
    "docid": "equal scores are in descending order of document ids, as in trec_eval",
    "worst": "equal scores count in their worst order",
}


@app.command(epilog=_EPILOG)
def evaluate(
    model: Annotated[str | None, typer.Argument(help="Model file.")] = None,
    data: Annotated[list[str] | None, typer.Argument(help="Files or patterns.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="Compute this metric (default: the model's), repeatable: {metrics}.",
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Evaluate this TREC run instead of a model.")
    ] = None,
    qrels: Annotated[str | None, typer.Option(help="TREC judgements for --run.")] = None,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Also print the value of each query.")
    ] = False,
    relative_to: Annotated[
        str | None,
        typer.Option(help="Also print the gain over a random order.", metavar="random"),
    ] = None,
    *,
    reading: ModelReadingOptions,
    following: RuleOptions,
    clicks: CounterfactualOptions,
    json: AsJson = False,
) -> None:
    """Evaluate a model on labelled data, or a run against judgements."""
    _check_inputs(model, data, run, qrels)
    if relative_to not in (None, "random"):
        raise ParameterError(
            f"{relative_to!r} is unknown", parameter="relative_to", fix="Use random"
        )
    if clicks.counterfactual:
        reject_options(
            ("metric", "per_query", "relative_to", "run", "rules"),
            "cannot be combined with --counterfactual, which estimates clicks per list",
        )
        # An estimate of clicks is per list, and no metric of labels is computed with it.
        clicks.evaluate(str(model), data or [], reading, json=json)
        return
    # An option without effect is an error: the user expects that it changes something.
    reject_options(option_names(CounterfactualOptions), "needs --counterfactual")
    if run is not None and qrels is not None:
        results = evaluate_trec(run, qrels, metric or ["ndcg@10", "map"], per_query=per_query)
    else:
        results = evaluate_model(
            str(model),
            data or [],
            metric,
            reading,
            following,
            per_query=per_query,
            relative_to_random=relative_to == "random",
        )
    if json:
        _console.print_json(results)
    else:
        print_results(results)


def _check_inputs(
    model: str | None, data: list[str] | None, run: str | None, qrels: str | None
) -> None:
    """Raise an error unless either a model and data, or a run and judgements are given."""
    if (run is None) != (qrels is None):
        missing = "run" if run is None else "qrels"
        raise ParameterError(
            "is missing: a run is evaluated against judgements",
            parameter=missing,
            fix="Pass both --run and --qrels",
        )
    if run is None:
        if model is None or not data:
            raise ParameterError(
                "a model and data, or a run and judgements, are needed",
                fix="Write: rankine evaluate MODEL DATA, or: --run RUN --qrels QRELS",
            )
        return
    if model is not None:
        raise ParameterError(
            "cannot be combined with a model", parameter="run", fix="Pass one of them"
        )
    reject_options(
        ("relative_to", *option_names(ModelReadingOptions, RuleOptions)),
        "cannot be combined with --run",
    )


def evaluate_model(
    path: str,
    files: list[str],
    metrics: list[str] | None,
    reading: ModelReadingOptions,
    following: RuleOptions,
    *,
    per_query: bool,
    relative_to_random: bool,
) -> dict[str, Any]:
    """Compute metrics of a saved model; by default its training metric.

    With rules, the value without them is added.
    """
    import rankine
    from rankine.metrics import (
        count_without_value,
        data_columns,
        evaluate_on,
        metric_columns,
        needs_probabilities,
        parse_metric,
        random_expectation,
    )
    from rankine.scoring.datasets import check_position_column, dataset_probabilities
    from rankine.scoring.probability import outcome_probabilities
    from rankine.transforms.apply import score_dataset

    model = rankine.LinearModel.load(path)
    names = metrics or [model.metric or "ndcg@10"]
    rules = following.load()
    rule_columns = following.columns(rules, model)
    columns_read = (*metric_columns(names), *rule_columns)
    position = None
    if any(map(needs_probabilities, names)):
        compute = outcome_probabilities(model)
        position = compute.calibration.position
        columns_read = (*columns_read, *check_position_column(model, position))
    data = reading.open(files, model=model, columns=columns_read)
    # Scored once for all metrics.
    scores = score_dataset(model, data)
    if any(map(needs_probabilities, names)):
        probabilities = dataset_probabilities(compute, data, scores, position)
    # Rules remove rows, so the value without them is computed from the data as they were.
    without_rules = data, scores
    effects: list[dict[str, Any]] = []
    if rules is not None:
        data, scores, effects = _apply_rules(rules, data, scores, names, following.time)
    columns = data_columns(data)
    results: dict[str, Any] = {
        "model": path,
        "digest": model.digest,
        "rows": data.n_rows,
        "queries": data.n_queries,
        "metrics": {},
    }
    for name in names:
        metric = parse_metric(name)
        values = scores
        if needs_probabilities(metric):
            values = probabilities
        entry: dict[str, Any] = {
            "value": evaluate_on(data, scores=values, metric=metric),
            "ties": metric.ties,
            "no_relevant": metric.no_relevant,
            "queries_without_value": count_without_value(
                metric, data.y, data.queries, columns=columns
            ),
        }
        # Rules move items but change no probability, so these metrics have one value.
        if rules is not None and not needs_probabilities(metric):
            plain_data, plain_scores = without_rules
            value = evaluate_on(plain_data, scores=plain_scores, metric=metric)
            entry["without_rules"] = value
        if relative_to_random:
            random_value = random_expectation(metric, data.y, data.queries, columns=columns)
            entry["random"] = random_value
            # Without a relevant document the expectation is 0 and the gain is undefined.
            gain = None
            if abs(random_value) > _SMALLEST_EXPECTATION:
                gain = 100 * (entry["value"] / random_value - 1)
            entry["gain_percent"] = gain
        if per_query:
            by_query = evaluate_on(data, scores=values, metric=metric, per_query=True)
            entry["per_query"] = _values_by_query(data.queries.ids.tolist(), by_query.tolist())
        results["metrics"][str(metric)] = entry
    if rules is not None:
        results["rules"] = effects
    return results


def _apply_rules(
    rules: Rules, data: Dataset, scores: Any, metrics: list[str], time: float | None
) -> tuple[Dataset, Any, list[dict[str, Any]]]:
    """Return data and scores in which lists follow the rules, and what each rule did."""
    from rankine.metrics import parse_metric
    from rankine.reranking.datasets import apply_rules, mark_removed

    scores, stays, effects = apply_rules(rules, data, scores, time=time)
    # A removed item counts as not retrieved, for every name that a metric gives to this column.
    flags = ["retrieved", *(parse_metric(name).retrieved for name in metrics)]
    entries = [
        {
            "rule": name,
            "lists": effects.lists[name],
            "items": effects.items[name],
            "conflicts": effects.conflicts[name],
        }
        for name in rules.names
    ]
    return mark_removed(data, stays, flags), scores, entries


def evaluate_trec(run: str, qrels: str, metrics: list[str], *, per_query: bool) -> dict[str, Any]:
    """Compute metrics of a TREC run."""
    from rankine.evaluation.trec import evaluate_run, run_metric
    from rankine.metrics import parse_metric

    evaluation = evaluate_run(run, qrels, metrics, per_query=per_query)
    entries: dict[str, Any] = {
        name: {"value": value, "ties": run_metric(parse_metric(name)).ties}
        for name, value in evaluation.means.items()
    }
    for name, values in (evaluation.per_query or {}).items():
        entries[name]["per_query"] = _values_by_query(evaluation.ids.tolist(), values.tolist())
    return {
        "run": run,
        "qrels": qrels,
        "queries": len(evaluation.ids),
        "notes": dict(evaluation.counts),
        "metrics": entries,
    }


def _values_by_query(ids: list[Any], values: list[float]) -> dict[str, float | None]:
    """Return values by query id; None for a query that the metric skips (NaN)."""
    pairs = zip(ids, values, strict=True)
    return {str(query): None if math.isnan(value) else value for query, value in pairs}


def print_results(results: dict[str, Any]) -> None:
    """Print results as tables."""
    from rankine.evaluation.tables import Table

    entries = results["metrics"]
    header = ["metric", "value"]
    if "rules" in results:
        header += ["without rules", "change"]
    if any("random" in entry for entry in entries.values()):
        header += ["random", "gain"]
    rows = []
    for name, entry in entries.items():
        cells = [name, f"{entry['value']:.4f}"]
        if "rules" in results:
            without = entry.get("without_rules", entry["value"])
            cells += [f"{without:.4f}", f"{entry['value'] - without:+.4f}"]
        if "random" in entry:
            gain = entry["gain_percent"]
            cells += [f"{entry['random']:.4f}", "n/a" if gain is None else f"{gain:+.1f} %"]
        rows.append(cells)
    print_tables([Table("", header, rows, optional=("random",))])
    if "rules" in results:
        _print_rules(results["rules"], results["queries"])
    for rule, text in _TIES.items():
        names = [name for name, entry in entries.items() if entry["ties"] == rule]
        # Most metrics take the mean over orders, which is the default and needs no remark.
        if names:
            _console.print_status(f"{', '.join(names)}: {text}")
    for name, entry in entries.items():
        if entry.get("queries_without_value"):
            _print_skipped(name, entry, results["queries"])
        if "per_query" in entry:
            _print_query_values(name, entry["per_query"])


def _print_rules(entries: list[dict[str, Any]], n_queries: int) -> None:
    """Print what each rule did."""
    from rankine.evaluation.tables import Table

    header = ("rule", "lists", "items moved", "conflicts")
    rows = [
        (printable(entry["rule"]), *(f"{entry[key]:,}" for key in ("lists", "items", "conflicts")))
        for entry in entries
    ]
    print_tables([Table("", header, rows)])
    idle = [entry["rule"] for entry in entries if not entry["items"]]
    if idle:
        names = ", ".join(map(printable, idle))
        _console.print_status(f"rules that moved nothing in {n_queries:,} lists: {names}")


def _print_skipped(name: str, entry: dict[str, Any], n_queries: int) -> None:
    """Print for how many queries a metric has no value, and how they are treated."""
    from rankine.metrics.metric import find_definition, parse_metric

    rule = entry["no_relevant"]
    treatment = "are skipped" if rule == "skip" else f"count {rule}"
    # The number is printed because a mean over skipped queries is easily misread.
    lack = "no relevant document"
    if find_definition(parse_metric(name).name).items == "group":
        lack = "too few values to compare"
    _console.print_status(
        f"{name}: {entry['queries_without_value']} of {n_queries} queries have {lack} and "
        f"{treatment}"
    )


def _print_query_values(name: str, values: dict[str, float | None]) -> None:
    from rankine.evaluation.tables import Table

    rows = [
        (printable(query), "-" if value is None else f"{value:.4f}")
        for query, value in values.items()
    ]
    print_tables([Table("", ("query", name), rows)])
