"""Read raw logs as streams of labelled lists: Parquet, Arrow, CSV or JSON lines, one row per item.

``scan`` reads a log as a ``LogSchema`` describes; ``read_for`` reads data as a model needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rankine.core.errors import ParameterError
from rankine.core.specs import LogColumns, OneHot, RunScores
from rankine.data.dataset import Dataset
from rankine.data.expressions import Expression, parse_expression
from rankine.data.open import load
from rankine.data.open import scan as scan_files
from rankine.data.splits import named_parts
from rankine.data.streams import LabelledStream
from rankine.history.rows import RowReader
from rankine.history.state import HistoryState, load_state
from rankine.logs.clicks import CoecLabel, coec_formula, position_propensity
from rankine.logs.encoding import LogEncoding
from rankine.logs.history import HistoryScan, check_history_columns
from rankine.logs.schema import (
    LogSchema,
    check_same_features,
    column_names,
    log_sources,
    measure_cuts,
    one_hot_values,
    read_cuts,
    schema_of,
    vocabulary,
)
from rankine.model import LinearModel
from rankine.transforms.log_columns import columns_of

if TYPE_CHECKING:
    from rankine.data.scan import Scan
    from rankine.data.sources import Source
    from rankine.distributed.partitions import PartitionedDataset

#: Options of reading that partitions of a log take over from its scan.
_PARTITION_OPTIONS = (
    "query",
    "label",
    "features",
    "columns",
    "categories",
    "numbers",
    "position",
    "weight",
    "format",
    "on_bad_row",
    "where",
)
#: Options of reading that a raw log ignores, because its schema determines its features.
_IGNORED_OPTIONS = ("n_features", "feature_names", "dtype", "dense", "features", "group")


class LogScan(LabelledStream):
    """A raw log, which can be read as encoded blocks of whole lists any number of times.

    Every ranker's ``fit`` takes it, and so do ``tune``, ``cross_validate``, ``path`` and
    ``report``; rankers that need all rows at once load it.

    A fit reads the files up to four times: for the vocabularies of one-hot columns and for the cuts
    of binned ones (``log_encoding``), for training, and for the names of hashed features with a
    weight (``LogEncoding.weight_names``, until all are named). Each pass is needed only for the
    columns that it serves.

    Parameters
    ----------
    raw
        A ``Scan`` or ``HistoryScan`` whose blocks carry the raw columns.
    schema
        Use of the columns.
    label
        Formula of the label; None gives all rows the label 0.
    spec
        How columns become features. None measures one-hot values and cuts on this log, when
        ``log_encoding`` is first called.
    cuts
        Cuts of binned columns that are not measured.
    """

    is_raw_log = True

    def __init__(
        self,
        raw: Scan | HistoryScan,
        schema: LogSchema,
        label: Expression | CoecLabel | None,
        spec: LogColumns | None = None,
        cuts: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.raw = raw
        self.schema = schema
        self.label = label
        self.cuts = cuts or {}
        self.options = raw.options
        self.sources = raw.sources
        self._encoding: LogEncoding | None = None
        if spec is not None:
            self._encoding = LogEncoding(schema, spec, label, raw)

    @property
    def read_counts(self) -> Mapping[str, int] | None:
        """Missing values, and rows that were left out, of a full pass; None before one."""
        return self.raw.read_counts

    @property
    def nulls(self) -> int | None:
        """Number of missing values in the columns that are read; None before a full pass."""
        if self.read_counts is None:
            return None
        return self.read_counts.get("missing_values", 0)

    @property
    def inputs(self) -> list[Source]:
        """Files that can be read apart: none where features depend on earlier rows."""
        return [] if isinstance(self.raw, HistoryScan) else self.raw.inputs

    def select_files(self, inputs: list[Source]) -> LogScan:
        """Return the log of some of the files, with the same features."""
        assert not isinstance(self.raw, HistoryScan)  # noqa: S101 - narrows the type
        self.log_encoding()  # measured on all files
        selected = copy(self)
        selected.raw = self.raw.select_files(inputs)
        selected.sources = selected.raw.sources
        return selected

    def log_encoding(self) -> LogEncoding:
        """Return how rows become features.

        The first call reads the log where one-hot values or cuts have to be measured.
        """
        if self._encoding is None:
            names = self.schema.one_hot
            spec = self._measure_spec(
                lambda: (vocabulary(block, names) for block in self.raw.blocks())
            )
            self._encoding = LogEncoding(self.schema, spec, self.label, self.raw)
        return self._encoding

    def _measured_encoding(self) -> LogEncoding:
        """Return the encoding if it was measured: a property must not read the log."""
        if self._encoding is None:
            raise ParameterError(
                "the features of this log are not measured yet",
                parameter="X",
                fix="Call log_encoding() first, which reads the log once",
            )
        return self._encoding

    def _measure_spec(
        self, read_vocabularies: Callable[[], Iterable[Mapping[str, Sequence[str]]]]
    ) -> LogColumns:
        """Measure one-hot values, from the vocabularies of the parts of the log, and cuts."""
        schema, ignored = self.schema, self._ignored_columns()
        one_hot: tuple[OneHot, ...] = ()
        if schema.one_hot:
            one_hot = one_hot_values(read_vocabularies(), schema.one_hot)
        binned = measure_cuts(self.raw.blocks(), schema.binned, schema.bins, self.cuts)
        return schema.spec(one_hot, binned, ignored)

    def _ignored_columns(self) -> list[str]:
        """Return the columns of the files that are not features."""
        return sorted(set(column_names(self.raw.inputs)) - set(self.schema.spec().columns))

    @property
    def n_features(self) -> int:
        """Number of columns of every block; ``log_encoding`` measures it."""
        return self._measured_encoding().spec.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None where some are hashed. ``log_encoding`` measures them."""
        return self._measured_encoding().feature_names

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """Read the log once, as blocks of encoded lists."""
        yield from map(self.log_encoding().encode, self.raw.blocks(block_rows))

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def relabelled(self, label: Expression | CoecLabel) -> LogScan:
        """Return the log with other labels."""
        spec = None
        if self._encoding is not None:
            spec = self._encoding.spec
        return LogScan(self.raw, self.schema, label, spec, self.cuts)

    def split(self, text: str = "time:9/11,1/11,1/11") -> dict[str, Any]:
        """Split into ``"train"``, ``"valid"`` (and ``"test"``), older lists first.

        Lists must be in order of the schema's ``time`` column; without one the order of the file
        counts.
        """
        return named_parts(self, text, self.schema.time)

    def for_tables(self) -> LogScan:
        """Return the same log for a ranker of tables."""
        encoding = self._encoding
        if encoding is None or not encoding.spec.tables:
            # The encoding for tables collects their categories, so nothing is measured here.
            spec = self.schema.spec((), (), self._ignored_columns())
            encoding = LogEncoding(self.schema, spec, self.label, self.raw).for_tables(())
        return LogScan(self.raw, self.schema, self.label, encoding.spec)

    def to_partitions(self, **options: Any) -> PartitionedDataset:
        """Cut the log into partitions; see ``rankine.distributed.scan``."""
        from rankine.distributed.partitions import scan as scan_partitions

        if isinstance(self.raw, HistoryScan):
            raise ParameterError(
                "history features depend on all earlier rows, and partitions are read apart",
                parameter="history",
                fix="Compute them first: rankine history build LOG --schema SCHEMA --out FEATURES",
            )
        reading = {name: getattr(self.raw.options, name) for name in _PARTITION_OPTIONS}
        parts = scan_partitions(self.raw.inputs, **options, **reading)
        if self.raw.n_excluded_files:
            counts = {**parts.read_counts, "excluded_files": self.raw.n_excluded_files}
            parts = replace(parts, read_counts=counts)
        if self._encoding is None:
            # One-hot values are collected by the workers, not in this process.
            spec = self._measure_spec(lambda: parts.each(vocabulary, self.schema.one_hot))
            self._encoding = LogEncoding(self.schema, spec, self.label, self.raw)
        return parts.encoded(self._encoding)

    def history_state(self) -> HistoryState:
        """Return the state of the history features after the log."""
        if not isinstance(self.raw, HistoryScan):
            raise ParameterError(
                "the log has no history features", parameter="state", fix="Leave it out"
            )
        return self.raw.state()

    def __repr__(self) -> str:
        return f"Log of {self.raw!r}"


def scan(
    path: Any,
    *,
    schema: LogSchema | None = None,
    like: Any = None,
    query: str | None = None,
    label: str | None = None,
    numeric: Sequence[str] = (),
    categorical: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    binned: Sequence[str] = (),
    crosses: Sequence[str | Sequence[str]] = (),
    hash_bits: int | None = None,
    bins: int | None = None,
    position: str | None = None,
    time: str | None = None,
    item: str | None = None,
    search: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] = (),
    history: Mapping[str, Any] | None = None,
    outcome_time: str | None = None,
    time_unit: str | None = None,
    delay: str | float | None = None,
    refresh: str | float | None = None,
    forget: str | float | None = None,
    propensity: Sequence[float] = (),
    cuts: str | Path | Mapping[str, Sequence[float]] | None = None,
    state: Any = None,
    **options: Any,
) -> LogScan:
    """Read a raw log as labelled lists.

    Parameters
    ----------
    path
        Parquet, Arrow, CSV or JSON lines files and folders of them, as for ``rankine.scan``; or
        frames and other tables in memory that can be read more than once.
    schema
        Use of the columns; the fields below (see ``LogSchema``) change it.
    like
        A model, or another log: rows are encoded as the same features. Use it to continue training
        from the model, or to read a log held out from training. Other columns are an error.
    query, label, numeric, categorical, one_hot, binned, crosses, hash_bits, bins, position, time
        Fields of ``LogSchema``.
    item, search, weight, columns
        Fields of ``LogSchema``.
    history, outcome_time, time_unit, delay, refresh, forget
        Fields of ``LogSchema``, for features computed from earlier rows. A log that is read
        ``like`` another one continues it, or starts with the same list.
    propensity
        For the label ``"coec"`` and for rates over ``"examination"``: examination probability by
        position.
    cuts
        Cuts of binned columns, as a mapping by column or a JSON file. The cuts of other columns
        are quantiles of the first 10,000 lists.
    state
        Folder of the state of history features after an earlier log, which this log continues; or
        a ``HistoryState``.
    **options
        Options of ``rankine.scan``: ``where`` (a condition on rows), ``format``, ``on_bad_row``,
        ``block_rows``, ``progress`` ...

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, rankine, tempfile
    >>> path = tempfile.mkdtemp() + "/log.parquet"
    >>> pq.write_table(pa.table({"session": [1, 1, 2, 2], "clicked": [0, 1, 1, 0],
    ...                          "brand": ["a", "b", "b", "a"]}), path)
    >>> log = rankine.logs.scan(path, query="session", label="clicked", one_hot=["brand"])
    >>> model = rankine.RankSVM().fit(log).to_model()
    >>> rankine.Scorer(model).rank([{"brand": "a"}, {"brand": "b"}]).indices.tolist()
    [1, 0]
    """
    fields = {
        "query": query, "label": label, "numeric": numeric, "categorical": categorical,
        "one_hot": one_hot, "binned": binned, "crosses": crosses, "hash_bits": hash_bits,
        "bins": bins, "position": position, "time": time, "item": item, "search": search,
        "weight": weight, "columns": columns, "history": history, "outcome_time": outcome_time,
        "time_unit": time_unit, "delay": delay, "refresh": refresh, "forget": forget,
    }  # fmt: skip
    if like is None:
        schema, spec = LogSchema.make(fields, schema), None
    else:
        like_schema, spec = _schema_and_spec(like)
        schema = LogSchema.make(fields, schema or like_schema).with_propensity(like_schema)
        check_same_features(schema, like_schema)
    if len(propensity) and schema.uses_examination:
        values = tuple(position_propensity(propensity).tolist())
        schema = msgspec.structs.replace(schema, propensity=values)
    # Listed once: files that appear later are not read.
    sources = log_sources(path)
    formula = _label_formula(sources, schema, propensity, options.get("where"))
    fixed_cuts = read_cuts(cuts, schema.binned)
    raw = scan_columns(sources, schema, formula, options, like=like, state=state)
    return LogScan(raw, schema, formula, spec, fixed_cuts)


def _schema_and_spec(like: Any) -> tuple[LogSchema, LogColumns]:
    """Return the schema of a log, of its rows or of a model, and how columns become features."""
    if isinstance(like, LabelledStream):
        encoding = like.log_encoding()
    else:
        encoding = getattr(like, "encoding", None)
    if encoding is not None:
        return encoding.schema, encoding.spec
    schema, spec = schema_of(like), columns_of(like)
    if schema is None or spec is None:
        raise _not_a_log_model()
    return schema, spec


def _not_a_log_model() -> ParameterError:
    return ParameterError(
        "the model reads features, not the columns of a log", fix="Leave out the options of logs"
    )


def _label_formula(
    path: Any, schema: LogSchema, propensity: Sequence[float], where: str | None
) -> Expression | CoecLabel | None:
    """Parse the label; clicks over expected clicks are counted on the log."""
    if schema.label is None:
        return None
    clicks = coec_formula(schema.label)
    if clicks is None:
        return parse_expression(schema.label)
    if schema.item is None:
        raise ParameterError(
            "coec counts the clicks of each item, and the item column is not named",
            parameter="item",
            fix="Name the column of items, such as 'item'",
        )
    return CoecLabel(
        path,
        clicks,
        propensity,
        query=schema.query,
        position=schema.position or "position",
        item=schema.item,
        search=schema.search,
        where=where,
    )


def scan_columns(
    path: Any,
    schema: LogSchema,
    formula: Any,
    options: Mapping[str, Any],
    *,
    like: Any = None,
    state: Any = None,
) -> Scan | HistoryScan:
    """Scan the columns of a log that its schema names, each by its use."""
    spec = schema.spec()
    numbers = {*schema.numbers, *schema.binned} - {*schema.history}
    categories: list[str | None] = [name for name in spec.columns if name not in numbers]
    categories += [schema.item, schema.search]
    categories += [name for feature in schema.history.values() for name in feature.by]
    categories = [name for name in categories if name not in schema.history]
    if isinstance(formula, CoecLabel):
        categories += formula.columns
    elif formula is not None:
        categories += formula.text_columns
        numbers.update(name for name in formula.columns if name not in categories)
    history = schema.history_spec()
    adds_outcomes = True
    if history is not None:
        reader = RowReader(history)
        outcomes = set(reader.amount_columns) - {schema.position}
        present = set(column_names(path))
        # Lists without any outcomes, such as candidates to be scored, can only be read.
        adds_outcomes = like is None or not outcomes or bool(outcomes & present)
        check_history_columns(reader, present, adds_outcomes=adds_outcomes)
        if adds_outcomes:
            numbers.update(outcomes.difference(categories))
    columns = [schema.time, *schema.columns]
    if adds_outcomes:
        columns.append(schema.outcome_time)
    raw = scan_files(
        log_sources(path),
        query=schema.query,
        label=None,
        features=(),
        columns=_distinct(name for name in columns if name not in schema.history),
        categories=_distinct(name for name in categories if name not in numbers),
        numbers=tuple(sorted(numbers)),
        # Where the schema names none, a column of the usual name is read if there is one.
        position=schema.position or "position",
        weight=schema.weight,
        **{name: value for name, value in options.items() if name not in _IGNORED_OPTIONS},
    )
    if history is None:
        if state is not None:
            raise ParameterError(
                "applies to history features, and the log has none",
                parameter="state",
                fix="Leave it out",
            )
        return raw
    if state is not None and not isinstance(state, HistoryState):
        state = load_state(state, history)
    return HistoryScan(
        raw,
        history,
        before=state,
        previous=_history_scan(like),
        model_start=_model_start(like),
        adds_outcomes=adds_outcomes,
    )


def _history_scan(like: Any) -> HistoryScan | None:
    """Return the log with history features that ``like`` is, or that its rows were read from."""
    encoding = getattr(like, "encoding", None)
    if isinstance(like, LabelledStream):
        encoding = like.log_encoding()
    return encoding.history if isinstance(encoding, LogEncoding) else None


def _model_start(like: Any) -> Any:
    """Return the first list of the training log of a model; None if ``like`` is no model."""
    if not isinstance(like, LinearModel):
        return None
    return like.provenance.get("history", {})


def _distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))


def read_for(
    model: LinearModel,
    path: Any,
    *,
    schema: LogSchema | None = None,
    stream: bool = False,
    columns: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Read data as a model needs it: a ``Dataset``, or a stream of them with ``stream=True``.

    A model of a raw log reads its own columns, encoded as in training. ``schema`` and the fields of
    a ``LogSchema`` may change how this log is evaluated (``label``, ``query``, ``position``,
    ``time``); any features that they name must be the model's features. A log without the columns
    of the label has the label 0 everywhere, and models that learned from coec are evaluated on
    clicks. For other models, files are read as by ``rankine.load`` and ``rankine.scan``, with the
    model's number of features and index base.
    """
    if schema_of(model) is not None:
        log = _scan_log_for(model, path, schema, columns, options)
        if stream:
            return log
        return log.load()
    if schema is not None:
        raise _not_a_log_model()
    if not stream and _holds_retriever_scores(model, path):
        return _read_retriever_scores(model, path, columns, options)
    options = {"base": model.base, "columns": tuple(columns), **options}
    # Files with names are aligned by name later, so their width may differ from the model's.
    if model.column_names is None:
        options = {"n_features": model.n_columns, **options}
    if stream:
        return scan_files(path, **options)
    return load(path, **options)


def _scan_log_for(
    model: LinearModel,
    path: Any,
    schema: LogSchema | None,
    columns: Sequence[str],
    options: dict[str, Any],
) -> LogScan:
    """Scan a raw log with the columns of a model."""
    fields = {name: options.pop(name) for name in LogSchema.__struct_fields__ if name in options}
    # Callers pass these for files of features; raw logs have neither.
    for name in ("base", "qid_type"):
        options.pop(name, None)
    # Columns requested here must be present; columns of the model's schema may be absent.
    requested = dict(fields)
    if schema is not None:
        requested |= msgspec.to_builtins(schema)
    model_schema, _ = _schema_and_spec(model)
    schema = LogSchema.make(fields, schema or model_schema).with_propensity(model_schema)
    check_same_features(schema, model_schema)
    path = log_sources(path)
    schema = _drop_absent_columns(schema, set(column_names(path)), requested)
    schema = msgspec.structs.replace(
        schema, columns=tuple(dict.fromkeys((*schema.columns, *columns)))
    )
    return scan(path, schema=schema, like=model, **options)


def _drop_absent_columns(
    schema: LogSchema, present: set[str], requested: Mapping[str, Any]
) -> LogSchema:
    """Leave out columns that the files lack and nobody requested, so that any log can be scored.

    A label of clicks over expected clicks becomes the clicks themselves.
    """
    changes: dict[str, Any] = {}
    roles = ("position", "item", "search", "weight")
    # History features need their time, so its absence is an error.
    for name in roles if schema.history else (*roles, "time"):
        if name not in requested and getattr(schema, name) not in present:
            changes[name] = None
    if "columns" not in requested:
        changes["columns"] = tuple(name for name in schema.columns if name in present)
    if "label" not in requested and schema.label is not None:
        label = coec_formula(schema.label) or schema.label
        changes["label"] = None
        if set(parse_expression(label).columns) <= present:
            changes["label"] = label
    return msgspec.structs.replace(schema, **changes)


def _holds_retriever_scores(model: LinearModel, path: Any) -> bool:
    """Whether files are tables with a column for each retriever that a model fuses."""
    names = set(model.feature_names or ())
    if not names or not any(isinstance(spec, RunScores) for spec in model.transforms):
        return False
    tables = {".parquet", ".arrow", ".csv"}
    return all(file.suffix in tables for file in _files(path)) and names <= set(column_names(path))


def _read_retriever_scores(
    model: LinearModel, path: Any, columns: Sequence[str], options: Mapping[str, Any]
) -> Dataset:
    """Read the scores of each retriever as a feature; null where it did not return the document."""
    names = tuple(model.feature_names or ())
    data = load(path, **{**options, "features": (), "columns": (*columns, *names)})
    other_columns = {name: values for name, values in data.columns.items() if name not in names}
    X = np.column_stack([data.columns[name] for name in names]).astype(np.float64)
    return replace(data, X=X, feature_names=names, columns=other_columns, query_index=data.queries)


def _files(path: Any) -> list[Path]:
    if isinstance(path, (str, Path)):
        path = [path]
    return [Path(str(file)) for file in path]
