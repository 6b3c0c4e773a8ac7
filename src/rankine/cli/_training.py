"""Training for the command line: load, fit, evaluate, save, report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.cli._progress import training_progress
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__ = ["fit_and_save", "summary_table"]


def fit_and_save(
    estimator: Any,
    paths: list[str],
    options: dict[str, Any],
    *,
    valid: str | None,
    out: str,
    warm_start: str | None,
    stream: bool,
) -> dict[str, Any]:
    """Fit an estimator on files and save its model; returns what happened as plain data."""
    import rankine
    from rankine.rankers.apply import score_dataset

    start = None if warm_start is None else rankine.LinearModel.load(warm_start)
    if start is not None:
        options = {"n_features": start.n_features, **options}
    held = None
    with training_progress(f"training {type(estimator).__name__}") as callbacks:
        if stream:
            _check_stream(estimator, start)
            estimator.fit_stream(rankine.scan(paths, **options), callbacks=callbacks)
            width = estimator.n_features_in_
        else:
            data = rankine.load(paths, **options)
            width = data.n_features
            if valid is not None:
                held = rankine.load(valid, **{**options, "n_features": width})
            extra = {} if start is None else {"coef_init": start.to_dense()}
            estimator.fit(data, eval_set=held, callbacks=callbacks, **extra)
    model: LinearModel = estimator.to_model()
    model.save(out)
    result: dict[str, Any] = {
        "model": out,
        "digest": model.digest,
        "ranker": model.parameters.get("ranker"),
        "n_features": model.n_features,
        "nnz": model.nnz,
        **{
            name: estimator.training_[name]
            for name in ("rows", "queries", "queries_used", "pairs", "seconds")
        },
        "n_iter": int(estimator.n_iter_),
        "stop_reason": estimator.solution_.stop_reason,
        "certificate": dict(estimator.solution_.certificate),
        "metric": estimator.metric,
    }
    if not stream:
        result["train"] = _measure(estimator.metric, data, score_dataset(model, data))
    if valid is not None:
        kept = held or rankine.load(valid, **{**options, "n_features": width})
        result["valid"] = _measure(estimator.metric, kept, score_dataset(model, kept))
    return result


def _check_stream(estimator: Any, start: Any) -> None:
    if not hasattr(estimator, "fit_stream"):
        raise ParameterError(
            f"{type(estimator).__name__} needs all rows in memory", fix="Leave out --stream"
        )
    if start is not None:
        raise ParameterError("--warm-start and --stream cannot be combined", fix="Leave one out")


def _measure(metric: str, data: Any, scores: Any) -> float:
    from rankine.metrics import evaluate

    return float(evaluate(metric, data.y, scores, data.qid, columns=data.columns))


def summary_table(result: dict[str, Any]) -> Any:
    """What happened, for people."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    got = result
    skipped = got["queries"] - got["queries_used"]
    used = f"{got['queries']:,} queries ({skipped:,} without pairs), {got['pairs']:,} pairs"
    run = f"{got['n_iter']:,} iterations in {got['seconds']:.2f} s ({got['stop_reason']})"
    measured = [part for part in ("train", "valid") if part in got]
    rows = [
        ("data", f"{got['rows']:,} rows, {used}"),
        ("training", f"{got['ranker']}: {run}"),
        *((name, f"{value:.6g}") for name, value in got["certificate"].items()),
        ("weights", f"{got['nnz']:,} of {got['n_features']:,} are not zero"),
        *((f"{got['metric']} ({part})", f"{got[part]:.4f}") for part in measured),
        ("model", f"{got['model']}  ({got['digest'][:12]})"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    return table
