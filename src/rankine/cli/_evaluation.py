"""What ``rankine evaluate`` computes and shows."""

from __future__ import annotations

from typing import Any

from rankine.cli import _console
from rankine.core.errors import ParameterError

__all__ = ["check_inputs", "evaluate_model", "evaluate_trec", "show_results"]


def check_inputs(
    model: str | None,
    data: list[str] | None,
    run: str | None,
    qrels: str | None,
    relative_to: str | None,
) -> None:
    """Refuse combinations that mean nothing."""
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


def evaluate_model(
    path: str,
    files: list[str],
    metrics: list[str] | None,
    options: dict[str, Any],
    *,
    per_query: bool,
    random_too: bool,
) -> dict[str, Any]:
    """Metrics of a saved model; the model's own metric when none is named."""
    import numpy as np

    import rankine
    from rankine.metrics import evaluate, parse_metric, random_expectation
    from rankine.rankers.apply import score_dataset

    model = rankine.LinearModel.load(path)
    if model.feature_names is None:
        options = {"n_features": model.n_features, **options}
    data = rankine.load(files, **options)
    scores = score_dataset(model, data)
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
            "value": float(evaluate(metric, data.y, scores, data.qid, columns=data.columns))
        }
        if random_too:
            chance = float(random_expectation(metric, data.y, data.qid, columns=data.columns))
            entry["random"] = chance
            entry["gain_percent"] = 100 * (entry["value"] / chance - 1) if chance else None
        if per_query:
            values = np.asarray(
                evaluate(metric, data.y, scores, data.qid, per_query=True, columns=data.columns)
            )
            ids = data.queries.ids.tolist()
            entry["per_query"] = {
                str(query): None if np.isnan(value) else float(value)
                for query, value in zip(ids, values.tolist(), strict=True)
            }
        results["metrics"][str(metric)] = entry
    return results


def evaluate_trec(run: str, qrels: str, metrics: list[str], *, per_query: bool) -> dict[str, Any]:
    """Metrics of a TREC run."""
    from rankine.evaluation.trec import evaluate_run

    found = evaluate_run(run, qrels, metrics, per_query=per_query)
    return {"run": run, "qrels": qrels, "metrics": found}


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
    _console.show(table)
    for name, entry in entries.items():
        if "per_query" in entry:
            detail = Table("query", name, box=None, pad_edge=False)
            for query, value in entry["per_query"].items():
                detail.add_row(_console.printable(query), "-" if value is None else f"{value:.4f}")
            _console.show(detail)
