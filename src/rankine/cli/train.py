"""``rankine train``: from files to a model."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, training_progress
from rankine.cli._options import (
    AsJson,
    ClusterOptions,
    Files,
    Missing,
    ReadingOptions,
    Seed,
    Settings,
    make_ranker,
    parse_settings,
    reject_options,
)
from rankine.cli._train_options import CheckpointOptions, ClickCorrectionOptions
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
def train(
    data: Files,
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write the model.")],
    ranker: Annotated[
        str, typer.Option(help="spd, ranksvm, least-squares, domination, elastic, additive.")
    ] = "spd",
    set_: Settings = None,
    valid: Annotated[str | None, typer.Option(help="Evaluation data.")] = None,
    metric: Annotated[
        str, typer.Option(help="Metric, such as ndcg@10, map, recall@4.")
    ] = "ndcg@10",
    scale: Annotated[str, typer.Option(help="auto, none, standard, maxabs or query.")] = "auto",
    missing: Missing = "auto",
    seed: Seed = 0,
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
    kept: CheckpointOptions,
    cluster: ClusterOptions,
    clicks: ClickCorrectionOptions,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Train a ranker on labelled lists and save the model."""
    start = _start(warm_start)
    schema = reading.log_schema(start)
    raw = schema is not None
    chosen = parse_settings(set_ or [])
    for name in chosen:
        option = "seed" if name == "random_state" else name
        reject_options((option,), f"and --set {name} are one thing", fix="Leave out one of them")
    settings = {
        "metric": metric,
        "scale": scale,
        "missing": missing,
        "random_state": seed,
        **({"early_stopping": early_stopping} if early_stopping is not None else {}),
        **({"n_passes": n_passes} if n_passes is not None else {}),
        **chosen,
    }
    label = (reading.label if schema is None else schema.label) or "label"
    counted = clicks.check(label, settings, schema)
    looks = clicks.given()
    if looks is not None and counted is None:
        settings["propensity"] = looks
    for name in ("max_weight", "position_offset"):
        if getattr(clicks, name) is not None:
            settings[name] = getattr(clicks, name)
    estimator = make_ranker(ranker, settings)
    cluster.check(stream=stream)
    if estimator.early_stopping is not None and valid is None and reading.split is None:
        raise ParameterError(
            "--early-stopping watches held-out data, and there is none", fix="Add --valid FILE"
        )
    check_output_paths(out=out)
    more: dict[str, Any] = {"position": clicks.position}
    if raw:
        more |= {"item": clicks.item, "search": clicks.search}
    if counted is not None:
        reading = replace(reading, label=counted)
    correction = _Correction(clicks, counted, looks)
    run = _Run(estimator, data, reading, more, out, valid, start, kept.options(), correction)
    result = run.run(cluster, stream=stream or kept.asked, raw=raw)
    if json:
        _console.print_json(result)
    else:
        _console.print_result(_summary_table(result))
        for line in _next_commands(result["model"], valid or data[-1]).splitlines():
            _console.print_status(line)


def _start(path: str | None) -> LinearModel | None:
    """The model to start from."""
    from rankine.model import LinearModel

    return None if path is None else LinearModel.load(path)


def _is_raw(model: LinearModel) -> bool:
    from rankine.logs import schema_of

    return schema_of(model) is not None


@dataclass(frozen=True)
class _Correction:
    """What is estimated from the clicks of the training part, and from no others."""

    clicks: ClickCorrectionOptions
    #: The formula of ``--label coec``.
    counted: str | None
    looks: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read for it."""
        clicks = self.clicks
        context = clicks.context or getattr(self.looks, "context", None)
        names = (clicks.item, clicks.search, context)
        return tuple(name for name in names if name and name != "docid")

    def apply(self, train: Any, source: Any, reading: ReadingOptions, estimator: Any) -> Any:
        """A part of a source with its labels; the estimator learns the propensities."""
        from rankine.logs.clicks import CoecLabel, relabelled
        from rankine.logs.propensity import estimate_propensity

        clicks, looks = self.clicks, self.looks
        schema = getattr(source, "schema", None)
        names: dict[str, Any] = {
            "query": getattr(schema, "query", None) or reading.query or "qid",
            "position": clicks.position or getattr(schema, "position", None) or "position",
            "item": clicks.item or getattr(schema, "item", None),
            "search": clicks.search or getattr(schema, "search", None),
        }
        label = self.counted or getattr(schema, "label", None) or reading.label or "label"
        if clicks.propensity == "auto":
            looks = estimate_propensity(
                train, label=label, context=clicks.context, n_resamples=0, **names
            )
            if self.counted is None:
                estimator.set_params(propensity=looks)
        if self.counted is None:
            return train
        return relabelled(train, CoecLabel(train, label, () if looks is None else looks, **names))


@dataclass(frozen=True)
class _Run:
    """A training: fit, save, measure; what happened is plain data."""

    estimator: Any
    paths: list[str]
    reading: ReadingOptions
    more: dict[str, Any]
    out: str
    valid: str | None
    start: LinearModel | None
    checkpoints: dict[str, Any]
    correction: _Correction

    def run(
        self,
        cluster: ClusterOptions,
        *,
        stream: bool,
        raw: bool,
    ) -> dict[str, Any]:
        """Open the data, fit, save the model, measure it."""
        import rankine
        from rankine.kernels.compile import CLOCK

        mark, estimator = CLOCK.mark(), self.estimator
        resume = bool(self.checkpoints.get("resume"))

        def correct(train: Any, source: Any) -> Any:
            return self.correction.apply(train, source, self.reading, estimator)

        with _opened(
            self._source, correct, self.paths, cluster, stream=stream, resume=resume
        ) as source:
            parts = self._parts(source)
            train = parts.pop("train")
            if cluster.dask is None:
                train = correct(train, source)
            with training_progress(f"training {type(estimator).__name__}") as callbacks:
                estimator.fit(
                    train,
                    eval_set=parts.get("valid"),
                    coef_init=self.start,
                    callbacks=callbacks,
                    **self.checkpoints,
                )
            if isinstance(train, rankine.Dataset):
                estimator.training_ |= {"fingerprint": train.fingerprint}
                parts = {"train": train, **parts}
            model = estimator.to_model()
            if not raw:
                model = replace(model, base=self.reading.base)
            model.save(self.out)
            measured = _measured(estimator.metric, model, parts)
        if self.reading.split is not None:
            model = replace(model, provenance={**model.provenance, "measured": measured})
            model.save(self.out)
        result = _result(estimator, model, self.out)
        result["compile_seconds"] = CLOCK.since(mark)["compile_seconds"]
        counted = estimator.training_.get("missing_values", getattr(source, "nulls", None))
        nulls = {} if counted is None else {"nulls": counted}
        return {**result, **nulls, **measured}

    def _source(self, paths: list[str], *, stream: bool) -> Any:
        """The data: a raw log is a stream, which rankers that need all of it load."""
        more = self.more
        if self.start is not None and not _is_raw(self.start):
            more = {"n_features": self.start.n_columns, **more}
        like = self.start if self.start is not None and _is_raw(self.start) else None
        stream = stream or self.reading.raw or like is not None
        columns = self.correction.columns
        return self.reading.open(paths, stream=stream, like=like, columns=columns, **more)

    def _parts(self, source: Any) -> dict[str, Any]:
        """What is trained on, and what is held out (in memory)."""
        if self.reading.split is not None and hasattr(source, "partitions"):
            raise ParameterError(
                "--split cuts the files of one machine",
                fix="Hold out other files with --valid, or leave --dask out",
            )
        parts = self.reading.parts(source)
        if self.valid is None:
            return parts
        if "valid" in parts:
            raise ParameterError(
                "both --valid and a split with held-out lists", fix="Leave out one of them"
            )
        return {**parts, "valid": self.reading.open_like(self.valid, source, **self.more)}


@contextmanager
def _opened(
    open_: Any,
    correct: Any,
    paths: list[str],
    cluster: ClusterOptions,
    *,
    stream: bool,
    resume: bool,
) -> Iterator[Any]:
    """What ``fit`` takes: rows in memory, a stream or partitions, these with their clicks right."""
    if cluster.dask is None:
        yield open_(paths, stream=stream)
        return
    from rankine.distributed import scan

    if cluster.repartition or cluster.repartition_to is not None:
        paths = [_grouped(paths, open_(paths, stream=True), cluster, resume=resume)]
    log = open_(paths, stream=True)
    log = correct(log, log)
    with _client(cluster.dask) as client:
        parts = scan(
            log,
            client=client,
            partition_bytes=(cluster.partition_mb or 64) * 2**20,
            timeout=600.0 if cluster.timeout is None else cluster.timeout,
        )
        _console.print_status(f"{parts.n_partitions} partitions of {len(parts.sources)} files")
        yield parts


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client, or None for this process."""
    if address == "here":
        yield None
        return
    from rankine.distributed.runners import connect

    with connect(address) as client:
        yield client


def _grouped(paths: list[str], stream: Any, cluster: ClusterOptions, *, resume: bool) -> str:
    """Path of the rows grouped by query; a resumed run takes the file of the first one."""
    from rankine.data.sources import find_sources
    from rankine.distributed import repartition

    first = find_sources(paths)[0].path
    folder = cluster.repartition_to
    if folder is None:
        folder = str((first or Path()).absolute().parent / "rankine-partitions")
    target = Path(folder) / "rows.parquet"
    if not (resume and target.exists()):
        options = stream.options
        report = repartition(
            paths, target, query=options.query, format=options.format, label=options.label
        )
        _console.print_status(
            f"{report.rows:,} rows of {report.queries:,} queries grouped in {target}"
        )
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
        "scaling": estimator.training_["scaling"],
        "n_iter": int(estimator.n_iter_),
        "stop_reason": estimator.solution_.stop_reason,
        "certificate": dict(estimator.solution_.certificate),
        "metric": estimator.metric,
    }


def _measured(metric: str, model: LinearModel, parts: dict[str, Any]) -> dict[str, float]:
    """The metric on rows in memory that were trained on, and on held-out ones."""
    import numpy as np

    from rankine.core.errors import LabelError
    from rankine.data.dataset import Dataset
    from rankine.metrics import evaluate_on

    found = {}
    for name, part in parts.items():
        try:
            blocks = [part] if isinstance(part, Dataset) else part
            values = [
                np.asarray(evaluate_on(block, metric=metric, model=model, per_query=True))
                for block in blocks
            ]
        except LabelError as error:
            if name != "train":
                raise
            # The model is good; only this figure has no meaning for such labels.
            _console.print_status(f"{metric} on the training data: {error}")
            continue
        every = np.concatenate([np.zeros(0), *values])
        judged = every[~np.isnan(every)]
        found[name] = float(judged.mean()) if len(judged) else float("nan")
    return found


def _next_commands(model: str, data: str) -> str:
    """What one would type after a training."""
    held = "DATA" if data == "-" else data
    commands = [["rankine", "report", model, held], ["rankine", "serve", model]]
    return "\nNext:\n" + "\n".join(f"  {shlex.join(words)}" for words in commands)


def _summary_table(result: dict[str, Any]) -> Any:
    """What happened, for people."""
    from rich.table import Table

    from rankine.transforms.scaling import describe_scaling

    table = Table(show_header=False, box=None, pad_edge=False)
    got = result
    skipped = got["queries"] - got["queries_used"]
    pairs = f", {got['pairs']:,} pairs" if "pairs" in got else ""
    used = f"{got['queries']:,} queries ({skipped:,} without pairs){pairs}"
    run = f"{got['n_iter']:,} iterations in {got['seconds']:.2f} s ({got['stop_reason']})"
    compiled = got["compile_seconds"]
    measured = [part for part in ("train", "valid", "test") if part in got]
    rows = [
        ("data", f"{got['rows']:,} rows, {used}"),
        *((("partitions", f"{got['partitions']:,}"),) if "partitions" in got else ()),
        *((("missing", f"{got['nulls']:,} values"),) if got.get("nulls") else ()),
        ("scaling", describe_scaling(got["scaling"])),
        ("training", f"{got['ranker']}: {run}"),
        *((("compiling", f"{compiled:.2f} s, once"),) if compiled else ()),
        *((name, f"{value:.6g}") for name, value in got["certificate"].items()),
        ("weights", f"{got['nnz']:,} of {got['n_features']:,} are not zero"),
        *((f"{got['metric']} ({part})", f"{got[part]:.4f}") for part in measured),
        ("model", f"{got['model']}  ({got['digest'][:12]})"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    return table
