"""``rankine train``: from files to a model."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import require_folders, training_progress
from rankine.cli._options import Cluster, Reading, make_ranker, parse_settings, spread
from rankine.cli._train_options import Checkpoints, ClickOptions, LogOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.model import LinearModel

_EPILOG = """
[bold]Examples[/bold]

  rankine train train.txt --ranker spd --valid vali.txt --metric ndcg@10 --out model.rankine

  rankine train 'logs/*.txt.gz' --stream --set solver=hybrid --set n_steps=1000000 --out m.rankine

  rankine train - --ranker ranksvm --set l2=1e-4 --out m.rankine < train.txt

  rankine train log.parquet --ranker elastic --query session_id --label 'clicked + 4*purchased' \\
      --categorical brand,category --numeric price --out m.rankine

  rankine train log.parquet --ranker ranksvm --query session_id --label clicked --numeric price \\
      --position position --propensity looks.json --out m.rankine

  rankine train 'logs/*.parquet' --ranker ranksvm --dask tcp://host:8786 --checkpoint kept \
      --out m.rankine
"""


@app.command(epilog=_EPILOG)
@spread
def train(
    data: Annotated[list[str], typer.Argument(help="Files, patterns, or - for stdin.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write the model.")],
    ranker: Annotated[
        str, typer.Option(help="spd, ranksvm, least-squares, domination, elastic, additive.")
    ] = "spd",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter name=value, repeatable.")
    ] = None,
    valid: Annotated[str | None, typer.Option(help="Evaluation data.")] = None,
    metric: Annotated[
        str, typer.Option(help="Metric, such as ndcg@10, map, recall@4.")
    ] = "ndcg@10",
    scale: Annotated[
        str | None,
        typer.Option(help="none, standard, maxabs or query; default: none, raw logs query."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    early_stopping: Annotated[
        int | None, typer.Option(help="Stop after so many reports without a better --valid metric.")
    ] = None,
    warm_start: Annotated[str | None, typer.Option(help="Model to start from.")] = None,
    stream: Annotated[bool, typer.Option(help="Train without holding the data in memory.")] = False,
    n_passes: Annotated[
        int | None,
        typer.Option(help="Passes over a stream, over partitions or (elastic) the lists."),
    ] = None,
    *,
    kept: Checkpoints,
    cluster: Cluster,
    clicks: ClickOptions,
    log: LogOptions,
    reading: Reading,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Train a ranker on labelled lists and save the model."""
    settings = {
        "metric": metric,
        "scale": scale or ("query" if log.named else "none"),
        "random_state": seed,
        **({"early_stopping": early_stopping} if early_stopping is not None else {}),
        **({"n_passes": n_passes} if n_passes is not None else {}),
        **parse_settings(set_ or []),
    }
    counted = clicks.check(reading.label, settings)
    looks = clicks.looks(data, reading.query, counted or reading.label)
    if looks is not None and counted is None:
        settings["propensity"] = looks
    for name in ("max_weight", "position_offset"):
        if getattr(clicks, name) is not None:
            settings[name] = getattr(clicks, name)
    estimator = make_ranker(ranker, settings)
    cluster.check(raw_log=log.named, stream=stream)
    if estimator.early_stopping is not None and valid is None and log.split is None:
        raise ParameterError(
            "--early-stopping watches held-out data, and there is none", fix="Add --valid FILE"
        )
    require_folders(out=out)
    options = reading.options(position=clicks.position)
    run = _Run(estimator, data, options, out, valid, _start(warm_start), kept.options())
    if counted is not None:
        run = replace(run, counting={"item": clicks.item, "search": clicks.search, "looks": looks})
    if log.named:
        result = run.on_log(log)
    else:
        log.refuse_split()
        result = run.on_files(cluster, stream=stream or kept.asked)
    if json:
        _console.print_json(result)
    else:
        _console.show(_summary_table(result))


def _start(path: str | None) -> LinearModel | None:
    """The model to start from."""
    from rankine.model import LinearModel

    return None if path is None else LinearModel.load(path)


@dataclass(frozen=True)
class _Run:
    """A training: fit, save, measure; what happened is plain data."""

    estimator: Any
    paths: list[str]
    options: dict[str, Any]
    out: str
    valid: str | None
    start: LinearModel | None
    checkpoints: dict[str, Any]
    #: Item, search and propensities of ``--label coec``.
    counting: dict[str, Any] | None = None

    def on_files(self, cluster: Cluster, *, stream: bool) -> dict[str, Any]:
        """Fit on files of features."""
        import rankine

        estimator, options = self.estimator, self.options
        if self.counting is not None:
            raise ParameterError(
                "--label coec is counted in raw logs",
                fix="Name the log's columns (--numeric, --categorical), or label the rows with "
                "rankine.logs.coec",
            )
        if self.start is not None:
            options = {"n_features": self.start.n_features, **options}
        data = held = None
        with _opened(self.paths, options, cluster, self.checkpoints, stream=stream) as source:
            if self.valid is not None:
                held = rankine.load(self.valid, **{**options, "n_features": source.n_features})
            self._fit(source, eval_set=held)
            if isinstance(source, rankine.Dataset):
                data = source
                estimator.training_ |= {"fingerprint": data.fingerprint}
        model = replace(estimator.to_model(), base=options.get("base", 1))
        model.save(self.out)
        result = _result(estimator, model, self.out)
        return {**result, **_measured(estimator.metric, model, data, held)}

    def on_log(self, log: LogOptions) -> dict[str, Any]:
        """Fit on a raw log; the model scores raw rows of the same columns."""
        from rankine.logs.training import train_from_log

        known = ("query", "label", "position", "columns", "format", "on_bad_row", "progress")
        reading = {name: self.options[name] for name in known if name in self.options}
        with self._progress() as callbacks:
            trained = train_from_log(
                self.estimator,
                self.paths,
                **log.options(),
                valid=self.valid,
                warm_start=self.start,
                callbacks=callbacks,
                **self.checkpoints,
                **(self.counting or {}),
                **reading,
            )
        trained.model.save(self.out)
        result = _result(self.estimator, trained.model, self.out)
        return {**result, "nulls": trained.nulls, **trained.measured}

    def _fit(self, source: Any, *, eval_set: Any) -> None:
        with self._progress() as callbacks:
            self.estimator.fit(
                source,
                eval_set=eval_set,
                coef_init=self.start,
                callbacks=callbacks,
                **self.checkpoints,
            )

    def _progress(self) -> Any:
        return training_progress(f"training {type(self.estimator).__name__}")


@contextmanager
def _opened(
    paths: list[str],
    options: dict[str, Any],
    cluster: Cluster,
    checkpoints: dict[str, Any],
    *,
    stream: bool,
) -> Iterator[Any]:
    """What ``fit`` takes: rows in memory, a stream or partitions."""
    import rankine

    if cluster.dask is None:
        yield rankine.scan(paths, **options) if stream else rankine.load(paths, **options)
        return
    from rankine.distributed import scan

    options = {name: value for name, value in options.items() if name != "progress"}
    if cluster.repartition or cluster.repartition_to is not None:
        paths = [_grouped(paths, options, cluster, resume=bool(checkpoints.get("resume")))]
    with _client(cluster.dask) as client:
        parts = scan(
            paths,
            client=client,
            partition_bytes=cluster.partition_mb * 2**20,
            timeout=cluster.timeout,
            **options,
        )
        _console.say(f"{parts.n_partitions} partitions of {len(parts.sources)} files")
        yield parts


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client, or None for this process."""
    if address == "here":
        yield None
        return
    from rankine.distributed.connect import connect

    with connect(address) as client:
        yield client


def _grouped(paths: list[str], options: dict[str, Any], cluster: Cluster, *, resume: bool) -> str:
    """Path of the rows grouped by query; a resumed run takes the file of the first one."""
    from rankine.data.sources import find_sources
    from rankine.distributed import repartition

    first = find_sources(paths)[0].path
    folder = cluster.repartition_to
    if folder is None:
        folder = str((first or Path()).absolute().parent / "rankine-partitions")
    target = Path(folder) / "rows.parquet"
    if not (resume and target.exists()):
        report = repartition(paths, target, **options)
        _console.say(f"{report.rows:,} rows of {report.queries:,} queries grouped in {target}")
    return str(target)


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


def _measured(metric: str, model: LinearModel, data: Any, held: Any) -> dict[str, float]:
    """The metric on rows in memory that were trained on, and on held-out ones."""
    from rankine.core.errors import LabelError
    from rankine.metrics import evaluate_on

    found = {}
    if data is not None:
        try:
            found["train"] = float(evaluate_on(data, metric=metric, model=model))
        except LabelError as error:
            # The model is good; only this figure has no meaning for such labels.
            _console.say(f"{metric} on the training data: {error}")
    if held is not None:
        found["valid"] = float(evaluate_on(held, metric=metric, model=model))
    return found


def _summary_table(result: dict[str, Any]) -> Any:
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
        *((("missing", f"{got['nulls']:,} values"),) if got.get("nulls") else ()),
        ("training", f"{got['ranker']}: {run}"),
        *((name, f"{value:.6g}") for name, value in got["certificate"].items()),
        ("weights", f"{got['nnz']:,} of {got['n_features']:,} are not zero"),
        *((f"{got['metric']} ({part})", f"{got[part]:.4f}") for part in measured),
        ("model", f"{got['model']}  ({got['digest'][:12]})"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    return table
