"""``rankine train``: train a ranker on files and save the model."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_values, training_progress
from rankine.cli._groups import is_written, reject_options
from rankine.cli._options import (
    AsJson,
    Files,
    Missing,
    Seed,
    Settings,
    ValidFile,
    make_ranker,
    parse_settings,
)
from rankine.cli._reading import ReadingOptions, log_schema_of, report_excluded
from rankine.cli._train_options import CheckpointOptions, ClickCorrectionOptions, ClusterOptions
from rankine.cli.main import app
from rankine.core.errors import OverlapError, ParameterError
from rankine.core.stores import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.logs.schema import LogSchema
    from rankine.model import LinearModel

_EPILOG = """
[bold]Examples[/bold]

  rankine train train.txt --ranker spd --valid vali.txt --metric ndcg@10 \\
      --out model.rankine

  rankine train 'logs/*.txt.gz' --stream --set solver=hybrid \\
      --set n_steps=1000000 --out m.rankine

  rankine train - --ranker ranksvm --set l2=1e-4 --out m.rankine < train.txt

  rankine train log.parquet --ranker elastic --query session_id \\
      --label 'clicked + 4*purchased' --categorical brand,category \\
      --numeric price --out m.rankine

  rankine train log.parquet --ranker ranksvm --query session_id \\
      --label clicked --numeric price --position position \\
      --propensity propensity.json --out m.rankine

  rankine train 'logs/*.parquet' --ranker ranksvm --dask tcp://host:8786 \\
      --checkpoint state --out m.rankine
"""


@app.command(epilog=_EPILOG)
def train(
    data: Files,
    out: Annotated[str, typer.Option("--out", "-o", help="Write the model to this file.")],
    ranker: Annotated[
        str, typer.Option(help="Train this ranker: {rankers}; with --warm-start, the model's.")
    ] = "spd",
    set_: Settings = None,
    valid: ValidFile = None,
    metric: Annotated[str, typer.Option(help="Evaluate with this metric: {metrics}.")] = "ndcg@10",
    scale: Annotated[
        str,
        typer.Option(
            help="Scale features by this rule: auto, none, standard, maxabs, query, or choose "
            "(auto or query, by held-out lists)."
        ),
    ] = "auto",
    missing: Missing = "auto",
    seed: Seed = 0,
    early_stopping: Annotated[
        int | None,
        typer.Option(help="Stop after this many evaluations on --valid without improvement."),
    ] = None,
    warm_start: Annotated[
        str | None,
        typer.Option(
            help="Start from this model file, with its ranker and settings unless they are given."
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Train without loading all of the data into memory."),
    ] = False,
    n_passes: Annotated[
        int | None,
        typer.Option(
            help="Number of passes over the data, for streams, partitions and the elastic ranker."
        ),
    ] = None,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Also store the covariance of the weights: rankine inspect MODEL --intervals.",
        ),
    ] = False,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            help="Estimate intervals from this many trainings on resampled queries, for rankers "
            "without a formula.",
        ),
    ] = None,
    *,
    checkpoints: CheckpointOptions,
    cluster: ClusterOptions,
    clicks: ClickCorrectionOptions,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Train a ranker on labelled lists and save the model."""
    from rankine.history.folder import check_not_live
    from rankine.history.state import has_state
    from rankine.model import LinearModel

    start = None if warm_start is None else LinearModel.load(warm_start)
    schema = reading.log_schema(
        start, position=clicks.position, item=clicks.item, search=clicks.search
    )
    options: dict[str, Any] = {
        "metric": metric, "scale": scale, "missing": missing, "random_state": seed,
    }  # fmt: skip
    if reading.pairs is not None and not is_written("metric"):
        # A comparison is a list of two, whose NDCG says little.
        options["metric"] = "pairwise_error"
    if start is not None:
        if not is_written("ranker"):
            ranker = str(start.parameters.get("ranker", ranker))
        options |= _settings_of_start(start, ranker, options)
    if valid is None and reading.split is None:
        options.pop("early_stopping", None)
    written = {"early_stopping": early_stopping, "n_passes": n_passes}
    options |= {name: value for name, value in written.items() if value is not None}
    # Settings of a model to start from have the lowest precedence, then options, then --set.
    settings = _ranker_settings(set_, options)
    correction = _prepare_correction(clicks, reading, schema, settings)
    reading, schema = _correct_clicks(correction, reading, schema, start, data)
    state_folder = reading.state
    if state_folder is not None:
        _check_has_history(schema)
        check_not_live(state_folder)
        # A new folder is the start of a history.
        reading = replace(reading, state=state_folder if has_state(state_folder) else None)
    # Errors of parameters come before the data are read, which may take long.
    estimator = make_ranker(ranker, settings)
    cluster.check(stream=stream)
    if estimator.early_stopping is not None and valid is None and reading.split is None:
        raise ParameterError(
            "needs held-out data", parameter="early_stopping", fix="Add --valid FILE or --split"
        )
    check_output_paths(out=out)
    if schema is not None and schema.history and state_folder is None:
        _console.print_status(
            "The history after this log is not saved. For rankine retrain, predict and serve on "
            "later logs, add --state DIR."
        )
    job = TrainingJob(
        estimator=estimator,
        paths=data,
        out=out,
        valid=valid,
        start=start,
        reading=reading,
        schema=schema,
        correction=correction,
        cluster=cluster,
        checkpoints=checkpoints.options(),
        stream=stream or checkpoints.checkpoint is not None,
        state_folder=state_folder,
        intervals=intervals,
        bootstrap=bootstrap,
    )
    result = job.run()
    if json:
        _console.print_json(result)
        return
    print_values(_summary_rows(result))
    _console.print_next_commands(_next_commands(job))


def _correct_clicks(
    correction: ClickCorrection,
    reading: ReadingOptions,
    schema: LogSchema | None,
    start: LinearModel | None,
    data: list[str],
) -> tuple[ReadingOptions, LogSchema | None]:
    """Return how the rows are read for a correction, and the schema with its propensities."""
    if correction.click_formula is not None:
        # The rows are read with the clicks as labels; the correction replaces these later.
        reading = replace(reading, label=correction.click_formula)
        if schema is not None:
            schema = msgspec.structs.replace(schema, label=correction.click_formula)
    start_schema = log_schema_of(start)
    if schema is not None and start_schema is not None:
        schema = schema.with_propensity(start_schema)
    return reading, correction.complete_schema(schema, data, reading)


def _check_has_history(schema: LogSchema | None) -> None:
    if schema is None or not schema.history:
        raise ParameterError(
            "applies to history features, and the schema declares none",
            parameter="state",
            fix="Leave it out, or declare a feature in [history.NAME] of --schema",
        )


def _ranker_settings(set_: list[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the ranker, from options and from ``--set``.

    A parameter that is set by both is an error.
    """
    explicit = parse_settings(set_ or [])
    for name in explicit:
        option = "seed" if name == "random_state" else name
        reject_options(
            (option,), f"sets the same parameter as --set {name}", fix="Leave out one of them"
        )
    return {**options, **explicit}


def _settings_of_start(start: LinearModel, ranker: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a model to start from that no option gives.

    For another ranker these are the settings that all rankers share.
    """
    from rankine.rankers.base import BaseRanker
    from rankine.rankers.registry import ranker_class
    from rankine.rankers.warm_start import settings_of

    names = set(ranker_class(ranker)().get_params(deep=False))
    if ranker != start.parameters.get("ranker"):
        # Parameters of one ranker, such as a solver, mean nothing to another.
        names &= BaseRanker.__dataclass_fields__.keys()
    option_of = {"random_state": "seed"}
    written = {name for name in options if is_written(option_of.get(name, name))}
    if is_written("propensity"):
        written.add("propensity")
    return settings_of(start, names - written - {"warm_start"})


# -- clicks -------------------------------------------------------------------------------------


def _prepare_correction(
    clicks: ClickCorrectionOptions,
    reading: ReadingOptions,
    schema: LogSchema | None,
    settings: dict[str, Any],
) -> ClickCorrection:
    """Check the options of clicks, and add the parameters of the ranker among them to settings."""
    label = reading.label if schema is None else schema.label
    click_formula = clicks.check(label or "label", settings, schema)
    propensity = clicks.load_propensity()
    if propensity is not None and click_formula is None:
        settings["propensity"] = propensity
    for name in ("max_weight", "position_offset"):
        if getattr(clicks, name) is not None:
            settings[name] = getattr(clicks, name)
    return ClickCorrection(clicks, click_formula, propensity)


@dataclass(frozen=True)
class ClickCorrection:
    """Labels and propensities, estimated from the clicks of the training part only.

    Attributes
    ----------
    options
        Options of the command.
    click_formula
        Formula of clicks in ``--label coec(formula)``; None for other labels.
    propensity
        Propensities that were loaded from a file.
    """

    options: ClickCorrectionOptions
    click_formula: str | None
    propensity: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that the correction needs."""
        context = self.options.context or getattr(self.propensity, "context", None)
        names = (self.options.item, self.options.search, context)
        return tuple(name for name in names if name and name != "docid")

    def apply(self, train: Any, source: Any, reading: ReadingOptions, estimator: Any) -> Any:
        """Return the training part with its labels; set the propensities of the estimator."""
        from rankine.logs.clicks import CoecLabel, relabelled

        propensity = self.propensity
        schema = getattr(source, "schema", None)
        label = self.click_formula or getattr(schema, "label", None) or reading.label or "label"
        if self.options.propensity == "auto":
            propensity = self._estimate(train, schema, label, reading)
            if self.click_formula is None:
                estimator.set_params(propensity=propensity)
        if self.click_formula is None:
            return train
        columns = self._columns_of_clicks(schema, reading)
        return relabelled(train, CoecLabel(train, label, propensity or (), **columns))

    def _columns_of_clicks(self, schema: LogSchema | None, reading: ReadingOptions) -> Any:
        options = self.options
        return {
            "query": getattr(schema, "query", None) or reading.query or "qid",
            "position": options.position or getattr(schema, "position", None) or "position",
            "item": options.item or getattr(schema, "item", None),
            "search": options.search or getattr(schema, "search", None),
        }

    def _estimate(
        self, train: Any, schema: LogSchema | None, label: str, reading: ReadingOptions
    ) -> Any:
        """Estimate propensities from the training part."""
        from rankine.logs.propensity import estimate_propensity

        columns = self._columns_of_clicks(schema, reading)
        try:
            return estimate_propensity(
                train, label=label, context=self.options.context, n_resamples=0, **columns
            )
        except OverlapError as error:
            if error.parameter != "min_rows":
                raise
            # The limit that the error names is no option of this command.
            raise ParameterError(
                f"cannot be estimated: {error.reason}",
                parameter="propensity",
                fix="Use a longer log, or a file of rankine clicks propensity --min-rows N",
            ) from error

    def complete_schema(
        self, schema: LogSchema | None, paths: list[str], reading: ReadingOptions
    ) -> LogSchema | None:
        """Return the schema with the propensities that history features over examination need."""
        from rankine.logs.clicks import position_propensity
        from rankine.logs.schema import LogSchema

        if schema is None or schema.propensity or not schema.uses_examination:
            return schema
        propensity = self.propensity
        if self.options.propensity == "auto":
            # The rows and their split do not depend on the features.
            item = str(self.options.item or schema.item)
            plain = LogSchema(
                schema.query, schema.label, categorical=(item,), position=schema.position,
                time=schema.time, item=item, search=schema.search,
            )  # fmt: skip
            log = replace(reading, state=None).open(paths, stream=True, log_schema=plain)
            train = reading.parts(log)["train"]
            propensity = self._estimate(train, plain, schema.label or "label", reading)
        if propensity is None:
            return schema
        values = tuple(position_propensity(propensity).tolist())
        return msgspec.structs.replace(schema, propensity=values)


# -- training -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """One training: read files, fit, save the model, evaluate it.

    Attributes
    ----------
    start
        Model to start from.
    schema
        How the columns of a raw log are used; None for files of features.
    checkpoints
        Keyword arguments of ``fit``.
    stream
        Whether to read the data in blocks instead of loading it.
    state_folder
        Folder to save the state of history features to, or None.
    intervals, bootstrap
        Whether to compute the covariance of the weights; number of trainings for it, or None.
    """

    estimator: Any
    paths: list[str]
    out: str
    valid: str | None
    start: LinearModel | None
    reading: ReadingOptions
    schema: LogSchema | None
    correction: ClickCorrection
    cluster: ClusterOptions
    checkpoints: dict[str, Any]
    stream: bool
    state_folder: str | None = None
    intervals: bool = False
    bootstrap: int | None = None

    def run(self) -> dict[str, Any]:
        """Open the data, fit, save and evaluate the model; return what ``--json`` prints."""
        from rankine.history.state import save_state
        from rankine.kernels.compile import CLOCK

        mark = CLOCK.mark()
        with self._open_source() as source:
            parts = self._parts(source)
            train = parts.pop("train")
            if self.cluster.dask is None:
                train = self._correct(train, source)
            self._fit(train, parts.get("valid"))
            model = self._save()
            # The quality on a stream or partitions would cost one more pass over the data.
            if _is_loaded(train):
                parts = {"train": train, **parts}
            # Before the model is saved again: reports show the quality that was measured here.
            measured = _evaluate_parts(self.estimator.metric, model, parts)
        # The parts of a split cannot be measured later without repeating the split.
        if self.reading.split is not None:
            model = replace(model, provenance={**model.provenance, "measured": measured})
            model.save(self.out)
        # Last, so that a run which fails before can be repeated: a log is applied once.
        if self.state_folder is not None:
            save_state(source.history_state(), self.state_folder)
        result = _result(self.estimator, model, self.out)
        result["compile_seconds"] = CLOCK.since(mark)["compile_seconds"]
        n_missing = self.estimator.training_.get("missing_values", getattr(source, "nulls", None))
        if n_missing is not None:
            result["nulls"] = n_missing
        return {**result, **measured}

    @contextmanager
    def _open_source(self) -> Iterator[Any]:
        """Open what ``fit`` takes: rows in memory, a stream or partitions."""
        if self.cluster.dask is None:
            yield self._read(self.paths, stream=self.stream)
            return
        from rankine.distributed import scan

        paths = self.paths
        if self.cluster.repartition or self.cluster.repartition_to is not None:
            paths = [self._group_rows()]
        # A stream, whose files the workers read: nothing is loaded here.
        log = self._read(paths, stream=True)
        # Labels and propensities are estimated from the whole log, before it is partitioned.
        log = self._correct(log, log)
        with _connect_client(self.cluster.dask) as client:
            parts = scan(
                log,
                client=client,
                partition_bytes=self.cluster.partition_mb * 2**20,
                timeout=self.cluster.timeout,
            )
            _console.print_status(f"{parts.n_partitions} partitions of {len(parts.sources)} files")
            report_excluded(parts.read_counts)
            yield parts

    def _read(self, paths: list[str], *, stream: bool) -> Any:
        """Read rows, or open a stream; a raw log is a stream, which rankers load if they must."""
        columns = (*self.correction.columns, *self._metric_columns)
        options: dict[str, Any] = {"columns": columns}
        options["position"] = self.correction.options.position
        if self.schema is not None:
            like = self.start if log_schema_of(self.start) is not None else None
            return self.reading.open(
                paths, stream=True, like=like, log_schema=self.schema, **options
            )
        if self.start is not None:
            options["n_features"] = self.start.n_columns
        return self.reading.open(paths, stream=stream, **options)

    @property
    def _metric_columns(self) -> tuple[str, ...]:
        from rankine.metrics import metric_columns

        return metric_columns([self.estimator.metric])

    def _correct(self, train: Any, source: Any) -> Any:
        return self.correction.apply(train, source, self.reading, self.estimator)

    def _parts(self, source: Any) -> dict[str, Any]:
        """Return the training part and held-out parts; held-out rows are in memory."""
        if self.reading.split is not None and self.cluster.dask is not None:
            raise ParameterError(
                "cannot be combined with --dask",
                parameter="split",
                fix="Hold out other files with --valid, or leave --dask out",
            )
        options: dict[str, Any] = {"position": self.correction.options.position}
        options["columns"] = self._metric_columns
        if self.schema is not None:
            options["item"] = self.correction.options.item
            options["search"] = self.correction.options.search
        return self.reading.parts_with(source, {"valid": self.valid}, **options)

    def _fit(self, train: Any, valid: Any) -> None:
        """Fit the estimator under a progress bar."""
        with training_progress(f"training {type(self.estimator).__name__}") as callbacks:
            self.estimator.fit(
                train,
                eval_set=valid,
                coef_init=self.start,
                callbacks=callbacks,
                intervals=self.intervals,
                bootstrap=self.bootstrap,
                **self.checkpoints,
            )
        if _is_loaded(train):
            self.estimator.training_ |= {"fingerprint": train.fingerprint}
        if self.reading.split is not None:
            # With the split and the condition a report can print a command that trains again.
            self.estimator.training_ |= {"split": self.reading.split}
        if self.reading.where is not None:
            self.estimator.training_ |= {"where": self.reading.where}

    def _save(self) -> LinearModel:
        """Save the model of the fitted estimator."""
        model: LinearModel = self.estimator.to_model()
        if self.schema is None:
            model = replace(model, base=self.reading.base)
        model.save(self.out)
        return model

    def _group_rows(self) -> str:
        """Write a file of the rows grouped by query; a resumed run uses the existing file."""
        from rankine.data.sources import find_sources
        from rankine.distributed import repartition

        folder = self.cluster.repartition_to
        if folder is None:
            first_file = find_sources(self.paths)[0].path
            if first_file is None:
                raise ParameterError(
                    "the rows are in a store, and the grouped ones need a folder",
                    parameter="repartition",
                    fix="Name a local folder with --repartition-to",
                )
            folder = str(first_file.absolute().parent / "rankine-partitions")
        target = local_path(folder, "repartition_to") / "rows.parquet"
        if self.checkpoints.get("resume") and target.exists():
            return str(target)
        options = self._read(self.paths, stream=True).options
        report = repartition(
            self.paths, target, query=options.query, format=options.format, label=options.label
        )
        _console.print_status(
            f"{report.rows:,} rows of {report.queries:,} queries grouped in {target}"
        )
        return str(target)


def _is_loaded(data: Any) -> bool:
    """Return whether the data are rows in memory."""
    from rankine.data.dataset import Dataset

    return isinstance(data, Dataset)


@contextmanager
def _connect_client(address: str) -> Iterator[Any]:
    """Connect to a Dask scheduler; yield None for partitions in this process."""
    if address == "here":
        yield None
        return
    from rankine.distributed.runners import connect

    with connect(address) as client:
        yield client


# -- results ------------------------------------------------------------------------------------


def _result(estimator: Any, model: LinearModel, out: str) -> dict[str, Any]:
    """Return what ``--json`` prints of a fitted model, without its quality."""
    training = estimator.training_
    counts = ("rows", "queries", "queries_used", "pairs", "partitions", "seconds")
    return {
        "model": out,
        "digest": model.digest,
        "ranker": model.parameters.get("ranker"),
        "n_features": model.n_features,
        "nnz": model.nnz,
        **{name: training[name] for name in counts if name in training},
        "scaling": training["scaling"],
        "n_iter": int(estimator.n_iter_),
        "stop_reason": estimator.solution_.stop_reason,
        "certificate": dict(estimator.solution_.certificate),
        "metric": estimator.metric,
    }


def _evaluate_parts(metric: str, model: LinearModel, parts: dict[str, Any]) -> dict[str, float]:
    """Return the mean metric of each part over the queries that have a value."""
    import numpy as np

    from rankine.core.errors import LabelError
    from rankine.metrics import evaluate_on

    means = {}
    for name, part in parts.items():
        blocks = [part] if _is_loaded(part) else part
        try:
            values = [
                np.asarray(evaluate_on(block, metric=metric, model=model, per_query=True))
                for block in blocks
            ]
        except LabelError as error:
            if name != "train":
                raise
            # Training accepts labels, such as negative ones, for which some metrics are undefined.
            _console.print_status(f"{metric} on the training data: {error}")
            continue
        query_values = np.concatenate([np.zeros(0), *values])
        query_values = query_values[~np.isnan(query_values)]
        means[name] = float(query_values.mean()) if len(query_values) else float("nan")
    return means


def _next_commands(job: TrainingJob) -> list[list[str]]:
    """Return commands that a user may want to run after a training."""
    # A report on the training data would be too optimistic: without held-out data it is left open.
    held_out = ["TEST_DATA"]
    if job.valid is not None:
        held_out = [job.valid]
    elif job.reading.split is not None and "-" not in job.paths:
        held_out = [*job.paths, "--split", job.reading.split]
    held_out += job.reading.repeated_words(is_log=job.schema is not None)
    serve = ["rankine", "serve", job.out]
    if job.state_folder is not None:
        serve += ["--state", job.state_folder]
    commands = [["rankine", "report", job.out, *held_out], serve]
    if job.intervals:
        commands.insert(0, ["rankine", "inspect", job.out, "--intervals"])
    return commands


def _summary_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the result of a training as names and values."""
    from rankine.transforms.scaling import describe_scaling

    n_skipped = result["queries"] - result["queries_used"]
    queries_text = f"{result['queries']:,} queries ({n_skipped:,} without pairs)"
    if "pairs" in result:
        queries_text += f", {result['pairs']:,} pairs"
    run = f"{result['n_iter']:,} iterations in {result['seconds']:.2f} s"
    rows = [("data", f"{result['rows']:,} rows, {queries_text}")]
    if "partitions" in result:
        rows.append(("partitions", f"{result['partitions']:,}"))
    if result.get("nulls"):
        rows.append(("missing", f"{result['nulls']:,} values"))
    rows.append(("scaling", describe_scaling(result["scaling"])))
    rows.append(("training", f"{result['ranker']}: {run} ({result['stop_reason']})"))
    if result["compile_seconds"]:
        rows.append(("compiling", f"{result['compile_seconds']:.2f} s, once"))
    rows += [(name, f"{value:.6g}") for name, value in result["certificate"].items()]
    rows.append(("weights", f"{result['nnz']:,} of {result['n_features']:,} are not zero"))
    for part in ("train", "valid", "test"):
        if part in result:
            rows.append((f"{result['metric']} ({part})", f"{result[part]:.4f}"))
    rows.append(("model", f"{result['model']}  ({result['digest'][:12]})"))
    return rows
