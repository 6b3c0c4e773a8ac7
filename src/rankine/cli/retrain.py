"""``rankine retrain``: train a model on from a new log and publish it if it is not worse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_values, training_progress
from rankine.cli._continue import open_like_training, ranker_of_model
from rankine.cli._options import AsJson, Files, ModelFile
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app
from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError
from rankine.core.stores import is_url

if TYPE_CHECKING:
    from rankine.metrics import Metric
    from rankine.model import LinearModel

#: Exit code if the old model is kept.
KEPT = 3
#: Share of the lists that is trained on, and of the newest ones, on which models are compared.
DEFAULT_SPLIT = "time:0.8,0.2"
_EPILOG = """
[bold]Examples[/bold]

  rankine retrain models/shop.rankine today.parquet \\
      --out models/shop.rankine --keep 7

  rankine retrain models/shop.rankine today.parquet \\
      --out models/shop.rankine --max-drift 0.5 --dry-run --json
"""


@app.command(epilog=_EPILOG)
def retrain(
    model: ModelFile,
    log: Files,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Publish the model as this file, often MODEL.")
    ],
    metric: Annotated[
        str | None, typer.Option(help="Compare by this metric (default: the model's).")
    ] = None,
    max_drift: Annotated[
        float,
        typer.Option(
            help="Keep the old model if the population stability index (PSI) of a column or of the "
            "scores is larger."
        ),
    ] = 0.25,
    max_unseen: Annotated[
        float,
        typer.Option(help="Keep it if a larger share of the values of a column is new."),
    ] = 0.2,
    max_missing: Annotated[
        float,
        typer.Option(help="Keep it if the share of missing values of a column rises by more."),
    ] = 0.1,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse/--publish-if-worse",
            help="Keep the old model, or publish, if the new one is proven worse.",
        ),
    ] = True,
    keep: Annotated[
        int,
        typer.Option(
            help="Keep the last N published files in OUT's folder, in previous/.", metavar="N"
        ),
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do everything but publish the model.")
    ] = False,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
) -> None:
    """Train a model on from a new log, and publish it unless the log or the model is worse.

    Checks the log for drift, trains on from the model with its ranker and settings on the older
    lists, compares both models on the newest lists, and replaces OUT in one step. Exits with code 0
    if the model was published and with 3 if the old one was kept.
    """
    from rankine.core.checks import check_count, check_not_negative
    from rankine.history.folder import check_not_live
    from rankine.history.state import save_state
    from rankine.metrics import parse_metric
    from rankine.model import LinearModel

    if keep:
        check_count("keep", keep)
        if is_url(out):
            raise ParameterError(
                "earlier models are kept in the folder of the file, and this is a URL",
                parameter="keep",
                fix="Leave it out, and switch on versions of the bucket",
            )
    for name, limit in (("max_unseen", max_unseen), ("max_missing", max_missing)):
        check_not_negative(name, limit)
    check_not_negative("max_drift", max_drift)
    check_output_paths(out=out)
    if reading.state is not None:
        check_not_live(reading.state)
    # Read before anything is written: OUT is often the file of MODEL.
    live = LinearModel.load(model)
    target = parse_metric(metric or live.metric or "ndcg@10")
    if reading.split is None:
        reading = replace(reading, split=DEFAULT_SPLIT)
    data = open_like_training(log, live, reading, target.columns)
    drift = _measure_drift(live, data, max_drift, max_unseen, max_missing)
    result: dict[str, Any] = {"model": model, "out": out, "live": live.digest, "drift": drift}
    reasons = list(drift["alarms"]) if drift else []
    # A log that has drifted is not trained on, because the result would not be published.
    candidate = None
    if not reasons:
        # Older lists to train on, and the newest ones, which neither model has seen.
        train, *_, newest = reading.parts(data).values()
        candidate, result["training"] = _train_on(live, train)
        result["candidate"] = candidate.digest
        result["comparison"] = comparison = _compare(live, candidate, newest, target)
        if fail_if_worse and comparison["verdict"] == "worse":
            reasons.append(f"the new model is proven worse in {target} on the newest lists")
    if candidate is not None and not reasons and not dry_run:
        publish(candidate, out, keep)
        # Last, and not for a log that was refused: a log is applied once.
        if reading.state is not None:
            save_state(data.history_state(), reading.state)
    result |= {"published": not reasons and not dry_run, "reasons": reasons}
    if json:
        _console.print_json(result)
    else:
        print_values(_summary_rows(result, dry_run=dry_run))
    if reasons:
        raise typer.Exit(KEPT)


def _measure_drift(
    live: LinearModel, data: Any, max_drift: float, max_unseen: float, max_missing: float
) -> dict[str, Any] | None:
    """Compare the log with the model's training data; None for a model without a summary."""
    from rankine.logs.encoding import monitor_log
    from rankine.transforms.drift import Drift, summary_of

    if summary_of(live) is None:
        return None
    monitor = monitor_log(live, data)
    return Drift.from_monitor(monitor, max_drift, max_unseen, max_missing).to_dict()


def _train_on(live: LinearModel, train: Any) -> tuple[LinearModel, dict[str, Any]]:
    """Train on from a model with its ranker and settings; return the new model and its counts."""
    estimator = ranker_of_model(live)
    with training_progress(f"training {type(estimator).__name__}") as callbacks:
        estimator.fit(train, coef_init=live, callbacks=callbacks)
    model: LinearModel = replace(estimator.to_model(), base=live.base)
    counts = {key: estimator.training_[key] for key in ("rows", "queries", "queries_used")}
    return model, {"ranker": estimator.system, **counts, "n_iter": int(estimator.n_iter_)}


def _compare(live: LinearModel, candidate: LinearModel, newest: Any, metric: Metric) -> Any:
    """Compare the models on the newest lists; return means, difference, interval and verdict."""
    from rankine.data.dataset import Dataset
    from rankine.evaluation.compare import compare

    if not isinstance(newest, Dataset):
        newest = newest.load()
    comparison = compare({"live": live, "candidate": candidate}, newest, metric, n_changed=0)
    (pair,) = comparison.pairs
    means = {system.name: system.mean for system in comparison.systems}
    return {
        "metric": str(metric), "queries": len(comparison.ids), **means,
        "difference": pair.difference, "low": pair.low, "high": pair.high,
        "verdict": pair.verdict,
    }  # fmt: skip


def publish(model: LinearModel, out: str, keep: int) -> None:
    """Replace a model file in one step, and keep the last ``keep`` files of this name.

    They are ``previous/NAME.1.rankine``, ``NAME.2.rankine`` ... in its folder, the newest first: a
    server reads every file of a folder, but no folder in it.
    """
    path = Path(out)
    if keep and path.exists():
        folder = path.parent / "previous"
        folder.mkdir(exist_ok=True)
        # From the oldest to the newest, so that no file is overwritten before it was moved.
        files = [folder / f"{path.stem}.{k}{path.suffix}" for k in range(1, keep + 1)]
        for older, newer in zip(files[:0:-1], files[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
        with atomic_file(files[0]) as file:
            file.write(path.read_bytes())
    model.save(out)


def _summary_rows(result: dict[str, Any], *, dry_run: bool) -> list[tuple[str, str]]:
    """Return the result as names and values."""
    drift_text = "not measured: the model has no summary of a raw log"
    if result["drift"] is not None:
        changes = result["drift"]["columns"]
        column = max(changes, key=lambda name: changes[name]["psi"])
        drift_text = f"PSI at most {changes[column]['psi']:.3f} (column {column!r})"
    rows = [("drift", drift_text)]
    if "training" in result:
        training, comparison = result["training"], result["comparison"]
        interval = f"[{comparison['low']:+.4f}, {comparison['high']:+.4f}]"
        rows += [
            ("training", f"{training['ranker']} on {training['queries']:,} lists"),
            ("compared on", f"the newest {comparison['queries']:,} lists"),
            (comparison["metric"], f"{comparison['live']:.4f}, now {comparison['candidate']:.4f}"),
            ("difference", f"{comparison['difference']:+.4f} {interval}: {comparison['verdict']}"),
        ]
    rows += [("reason", reason) for reason in result["reasons"]]
    decision = f"{result['out']}  ({result.get('candidate', '')[:12]})"
    if result["reasons"]:
        rows.append(("kept", f"{result['model']}  ({result['live'][:12]})"))
    elif dry_run:
        rows.append(("not published", f"--dry-run; it would be {decision}"))
    else:
        rows.append(("published", decision))
    return rows
