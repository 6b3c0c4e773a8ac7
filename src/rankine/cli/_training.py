"""Training for the command line: load, fit, evaluate, save, report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rankine.cli import _console
from rankine.cli._console import require_folder, training_progress
from rankine.core.errors import LabelError, ParameterError

if TYPE_CHECKING:
    from rankine.cli._options import Cluster
    from rankine.cli._train_options import LogColumns
    from rankine.model import LinearModel

__all__ = ["Run", "summary_table", "train_files", "train_log"]


@dataclass(frozen=True)
class Run:
    """How a training runs, besides its data and its ranker."""

    out: str
    valid: str | None
    warm_start: str | None
    stream: bool
    checkpoints: dict[str, Any] = field(default_factory=dict)

    def start(self) -> LinearModel | None:
        """The model to start from."""
        from rankine.model import LinearModel

        return None if self.warm_start is None else LinearModel.load(self.warm_start)


def train_files(
    estimator: Any, paths: list[str], options: dict[str, Any], run: Run, cluster: Cluster
) -> dict[str, Any]:
    """Fit on files of features and save the model; returns what happened as plain data."""
    import rankine
    from rankine.cli._dask_training import fit_parts

    require_folder("--out", run.out)
    start = run.start()
    if start is not None:
        options = {"n_features": start.n_features, **options}
    data = held = None
    if cluster.dask is not None:
        fit_parts(estimator, paths, options, run, cluster)
    else:
        with training_progress(f"training {type(estimator).__name__}") as callbacks:
            if run.stream:
                _fit_stream(estimator, rankine.scan(paths, **options), run, start, callbacks)
            else:
                data = rankine.load(paths, **options)
                if run.valid is not None:
                    held = rankine.load(run.valid, **{**options, "n_features": data.n_features})
                extra = {} if start is None else {"coef_init": start.to_dense()}
                estimator.fit(data, eval_set=held, callbacks=callbacks, **extra)
                estimator.training_ |= {"fingerprint": data.fingerprint}
    model: LinearModel = replace(estimator.to_model(), base=options.get("base", 1))
    model.save(run.out)
    result = _result(estimator, model, run.out)
    if data is not None:
        try:
            result["train"] = _measure(estimator.metric, model, data)
        except LabelError as error:
            # The model is good; only this figure has no meaning for such labels.
            _console.say(f"{estimator.metric} on the training data: {error}")
    if run.valid is not None:
        width = {"n_features": estimator.n_features_in_}
        held = held or rankine.load(run.valid, **{**options, **width})
        result["valid"] = _measure(estimator.metric, model, held)
    return result


def train_log(
    estimator: Any,
    paths: list[str],
    options: dict[str, Any],
    run: Run,
    log: LogColumns,
) -> dict[str, Any]:
    """Fit on a raw log and save a model that scores raw rows of the same columns."""
    from rankine.rankers.apply import read_for
    from rankine.rankers.log_training import train_from_log

    require_folder("--out", run.out)
    reading = {
        name: value
        for name, value in options.items()
        if name in ("query", "label", "columns", "format", "on_bad_row", "progress")
    }
    with training_progress(f"training {type(estimator).__name__}") as callbacks:
        trained = train_from_log(
            estimator,
            paths,
            **log.options(),
            warm_start=run.start(),
            callbacks=callbacks,
            **run.checkpoints,
            **reading,
        )
    trained.model.save(run.out)
    result = {**_result(estimator, trained.model, run.out), **trained.measured}
    if run.valid is not None:
        held = read_for(trained.model, run.valid)
        result["valid"] = _measure(estimator.metric, trained.model, held)
    return result


def _fit_stream(
    estimator: Any, scan: Any, run: Run, start: LinearModel | None, callbacks: list[Any]
) -> None:
    """Stream, with what this ranker can do on a stream."""
    import inspect

    if not hasattr(estimator, "fit_stream"):
        raise ParameterError(
            f"{type(estimator).__name__} needs all rows in memory", fix="Leave out --stream"
        )
    asked: dict[str, Any] = dict(run.checkpoints)
    if start is not None:
        asked["coef_init"] = start
    known = inspect.signature(estimator.fit_stream).parameters
    for name, option in (("coef_init", "--warm-start"), ("checkpoint", "--checkpoint")):
        if name in asked and name not in known:
            raise ParameterError(
                f"{type(estimator).__name__} has no {option} on streams",
                fix=f"Leave out {option}, or use the elastic ranker",
            )
    estimator.fit_stream(scan, callbacks=callbacks, **asked)


def _result(estimator: Any, model: LinearModel, out: str) -> dict[str, Any]:
    counts = ("rows", "queries", "queries_used", "pairs", "partitions", "seconds")
    return {
        "model": out,
        "digest": model.digest,
        "ranker": model.parameters.get("ranker"),
        "n_features": model.n_features,
        "nnz": model.nnz,
        **{name: estimator.training_[name] for name in counts if name in estimator.training_},
        "n_iter": int(estimator.n_iter_),
        "stop_reason": estimator.solution_.stop_reason,
        "certificate": dict(estimator.solution_.certificate),
        "metric": estimator.metric,
    }


def _measure(metric: str, model: LinearModel, data: Any) -> float:
    from rankine.metrics import evaluate_on

    return evaluate_on(data, model=model, metric=metric)


def summary_table(result: dict[str, Any]) -> Any:
    """What happened, for people."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    got = result
    skipped = got["queries"] - got["queries_used"]
    pairs = f", {got['pairs']:,} pairs" if "pairs" in got else ""
    used = f"{got['queries']:,} queries ({skipped:,} without pairs){pairs}"
    run = f"{got['n_iter']:,} iterations in {got['seconds']:.2f} s ({got['stop_reason']})"
    measured = [part for part in ("train", "valid", "test") if part in got]
    rows = [
        ("data", f"{got['rows']:,} rows, {used}"),
        *((("partitions", f"{got['partitions']:,}"),) if "partitions" in got else ()),
        ("training", f"{got['ranker']}: {run}"),
        *((name, f"{value:.6g}") for name, value in got["certificate"].items()),
        ("weights", f"{got['nnz']:,} of {got['n_features']:,} are not zero"),
        *((f"{got['metric']} ({part})", f"{got[part]:.4f}") for part in measured),
        ("model", f"{got['model']}  ({got['digest'][:12]})"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    return table
