"""Raw logs as labelled lists: Parquet, Arrow, CSV or JSON lines with one column per fact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.core.specs import LogColumns, RunScores
from rankine.data.dataset import Dataset, concat, make_csr
from rankine.data.expressions import Expression, parse_expression
from rankine.data.open import load
from rankine.data.open import scan as scan_files
from rankine.data.splits import named_parts, query_units
from rankine.data.streams import LabelledStream
from rankine.logs.clicks import CoecLabel, coec_formula
from rankine.logs.schema import (
    LogSchema,
    check_same_features,
    column_names,
    columns_of,
    frequent_texts,
    log_sources,
    measure_cuts,
    one_hot_values,
    placed,
    read_cuts,
    schema_of,
    vocabulary,
)
from rankine.model.weights import PackedNames, Probe, Probes
from rankine.transforms.apply import score_dataset, transformed_scores
from rankine.transforms.drift import SEEN_BITS, DriftMonitor, summarise, summary_of
from rankine.transforms.log_columns import LogEncoder, mark_hashed

if TYPE_CHECKING:
    from rankine.data.scan import Scan
    from rankine.distributed.partitions import PartitionedDataset
    from rankine.model import LinearModel

#: Made-up rows that a model of a log is tested by before it serves.
PROBE_ROWS = 4
#: Options of reading that a log has no use for: its columns and its schema say these things.
#: What a log's own columns say.
_READ = ("query", "label", "features", "columns", "position", "weight", "format",
         "on_bad_row")  # fmt: skip
_NOT_FOR_LOGS = ("n_features", "feature_names", "dtype", "dense", "features", "group")


class LogEncoding:
    """How raw rows become features and labels; finishes the models that learn from them.

    Parameters
    ----------
    schema, spec
        What columns are for, and how they become features.
    label
        Formula of the label; None gives all rows the label 0 (scoring).
    raw
        The log, where the names of hashed features are looked up.
    """

    def __init__(
        self,
        schema: LogSchema,
        spec: LogColumns,
        label: Expression | CoecLabel | None,
        raw: Scan | None = None,
    ) -> None:
        self.schema = schema
        self.spec = spec
        self.label = label
        self.raw = raw

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, (self.schema, self.spec, self.label)

    @cached_property
    def encoder(self) -> LogEncoder:
        """Encodes columns."""
        return LogEncoder(self.spec, keeps_missing=True)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, when none is hashed."""
        return self.spec.names if self.spec.hash_start == self.spec.n_features else None

    @property
    def key(self) -> str:
        """Equal for encodings that give the same features and labels."""
        label = None if self.label is None else self.label.text
        return repr((msgspec.to_builtins(self.spec), msgspec.to_builtins(self.schema), label))

    def encode(self, block: Dataset) -> Dataset:
        """A raw block with features and labels."""
        columns: Any = block.columns
        with placed(block):
            X: Any
            if self.spec.tables:
                X = self.encoder.matrix(columns, block.n_rows)
            else:
                rows = self.encoder.encode(columns, block.n_rows)
                shape = (block.n_rows, self.spec.n_features)
                X = make_csr(rows.values, rows.indices, rows.indptr, shape)
        y = np.zeros(block.n_rows)
        if self.label is not None:
            y = self.label({name: _filled(columns[name]) for name in self.label.columns})
        return replace(
            block,
            X=X,
            y=y,
            feature_names=self.feature_names,
            query_index=block.queries,
            encoding=self,
        )

    def for_tables(self, blocks: Iterable[Dataset]) -> LogEncoding:
        """The encoding of a ranker of tables; texts are those of the first lists."""
        if self.spec.tables:
            return self
        schema, ignored = self.schema, self.spec.ignored
        if schema.crosses:
            raise ParameterError(
                f"tables have no cross {schema.crosses[0]!r}",
                fix="Leave crosses out; pairs=[(...)] names columns that share a table",
            )
        texts = (*schema.one_hot, *schema.categorical)
        values = frequent_texts(blocks if self.raw is None else self.raw.blocks(), texts)
        numeric = (*schema.numeric, *schema.binned)
        spec = LogColumns(numeric, values, ignored=ignored, tables=True)
        return LogEncoding(schema, spec, self.label, self.raw)

    def check_start(self, model: LinearModel) -> None:
        """Refuse to go on from a model that makes other features."""
        own = schema_of(model)
        if own is None:
            raise ParameterError(
                "the model to start from reads features, not the columns of a log",
                fix="Start from a model of a log, or leave it out",
            )
        check_same_features(self.schema, own, "the model to start from")
        theirs = getattr(columns_of(model), "read_columns", None)
        if theirs != self.spec.read_columns:
            raise FeatureMismatchError(
                "the one-hot values or cuts of this log are not those of the model to start from",
                fix="Read the log as the model does: rankine.logs.scan(path, like=model)",
            )

    def start_record(self) -> LogRecord:
        """What one fit remembers of the log."""
        return LogRecord(self)

    def finish(self, model: LinearModel) -> LinearModel:
        """The model with its columns, the names of its weights and rows to test it by."""
        if self.spec.tables:
            made = replace(
                model,
                transforms=(self.spec, *model.transforms),
                parameters={**model.parameters, "log": msgspec.to_builtins(self.schema)},
            )
            rows = [_made_up(self.spec, (), i) for i in range(PROBE_ROWS)]
            columns = {name: [row[name] for row in rows] for name in self.spec.columns}
            X = self.encoder.matrix(columns, PROBE_ROWS)
            scores = score_dataset(made, Dataset(X, np.zeros(PROBE_ROWS), np.zeros(PROBE_ROWS)))
            probes = Probes(tuple(Probe(raw=row) for row in rows), tuple(scores.tolist()))
            return replace(made, probes=probes)
        names = self.weight_names(model.indices.tolist())
        return replace(
            model,
            transforms=(self.spec, *model.transforms),
            parameters={**model.parameters, "log": msgspec.to_builtins(self.schema)},
            probes=self._probes(model, names),
            names=PackedNames.pack(names),
        )

    def _probes(self, model: LinearModel, names: Sequence[str]) -> Probes:
        """Made-up raw rows of one list with their scores.

        A model file must not leak a log: no row here was ever seen. Categories are those the file
        names anyway, in its one-hot lists and the names of its weights, dealt out so that no row
        repeats one.
        """
        rows = [_made_up(self.spec, names, i) for i in range(PROBE_ROWS)]
        columns = {name: [row[name] for row in rows] for name in self.spec.columns}
        encoded = self.encoder.encode(columns, PROBE_ROWS)
        shape = (PROBE_ROWS, self.spec.n_features)
        X = make_csr(encoded.values, encoded.indices, encoded.indptr, shape)
        one_list = Dataset(X, np.zeros(PROBE_ROWS), np.zeros(PROBE_ROWS, dtype=np.int64))
        scores = transformed_scores(model.transforms, one_list, model.to_dense())
        return Probes(tuple(Probe(raw=row) for row in rows), tuple(scores.tolist()))

    def weight_names(self, indices: Sequence[int]) -> list[str]:
        """Names of the given features; hashed ones by reading the log's columns once more.

        Where several values share a place the first one met gives the name.
        """
        known = self.spec.names
        wanted: dict[int, str | None] = {
            int(j): known[j] if j < len(known) else None for j in indices
        }
        if self.raw is not None and None in wanted.values():
            for block in self.raw.blocks():
                self.encoder.name_features(block.columns, wanted)
                if None not in wanted.values():
                    break
        start = self.spec.hash_start
        return [name or f"hash:{j - start}" for j, name in wanted.items()]


def _filled(values: Any) -> Any:
    """Values of a column of a label, 0 where one is missing."""
    if values.dtype == object:
        return np.array([bool(value) for value in values.tolist()])
    return np.nan_to_num(values, nan=0.0) if values.dtype.kind == "f" else values


#: Encodings that came from elsewhere, by their keys.
_SHARED: WeakValueDictionary[str, LogEncoding] = WeakValueDictionary()


def _shared(*made_of: Any) -> LogEncoding:
    """One encoding for all partitions that were sent here: it remembers texts it has met."""
    made = LogEncoding(*made_of)
    return _SHARED.setdefault(made.key, made)


#: Lists that a training is remembered by.
SAMPLE = 1000


class LogRecord:
    """What one fit saw of a log: some of its lists, and which hashed places were in use.

    Lists are those whose ids have the smallest hashes, so that blocks, passes and partitions give
    the same.
    """

    def __init__(self, encoding: LogEncoding) -> None:
        self.encoding = encoding
        spec = encoding.spec
        bits = min(SEEN_BITS, spec.hash_bits) if spec.n_features > spec.hash_start else 0
        self._seen = np.zeros(1 << bits, dtype=np.bool_)
        self._units = np.zeros(0)
        self._parts: list[Dataset] = []
        self._bound = 1.0
        #: All lists once more, until a reading has come to its end: a run may stop before.
        self.remaining_blocks: Iterable[Dataset] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "remaining_blocks": None}

    def add_block(self, block: Dataset) -> None:
        """Take note of encoded, unscaled lists."""
        self.add(sample_lists(block, len(self._seen), self._bound))

    def add(self, part: tuple[NDArray[np.float64], Dataset, NDArray[np.int64]]) -> None:
        """Take note of what ``sample_lists`` found in a part of the log."""
        units, lists, places = part
        self._seen[places] = True
        fresh = np.flatnonzero(~np.isin(units, self._units))
        if len(fresh):
            self._units = np.append(self._units, units[fresh])
            self._parts.append(lists.take_queries(fresh))
        if len(self._units) > 2 * SAMPLE:
            self._sample()

    def _sample(self) -> Dataset:
        """The lists with the smallest hashes, in order of these; all others are forgotten."""
        kept = np.argsort(self._units, kind="stable")[:SAMPLE]
        found = concat(self._parts).take_queries(kept)
        self._units, self._parts = self._units[kept], [found]
        if len(kept) == SAMPLE:
            self._bound = float(self._units[-1])
        return found

    def add_partitions(self, parts: PartitionedDataset) -> None:
        """Take note of the lists of all partitions."""
        for some in parts.groups():
            for part in some.each(sample_lists, len(self._seen), self._bound):
                self.add(part)

    def check_start(self, model: LinearModel) -> None:
        """Refuse to go on from a model that makes other features."""
        self.encoding.check_start(model)

    def finish(self, model: LinearModel) -> LinearModel:
        """The finished model of the log, with a summary of what it learned from."""
        made = self.encoding.finish(model)
        for block in self.remaining_blocks or ():
            self.add_block(block)
        self.remaining_blocks = None
        if not len(self._units):
            return made
        sample = self._sample()
        scores = (
            score_dataset(made, sample)
            if self.encoding.spec.tables
            else transformed_scores(model.transforms, sample, model.to_dense())
        )
        summary = summarise(
            self.encoding.spec,
            sample.columns,
            centred(scores, sample),
            sample.n_queries,
            self._seen,
        )
        provenance = {**made.provenance, "log": msgspec.to_builtins(summary)}
        return replace(made, provenance=provenance)


def sample_lists(
    block: Dataset, places: int, bound: float = 1.0
) -> tuple[NDArray[np.float64], Dataset, NDArray[np.int64]]:
    """Lists with the smallest hashes below a bound, and the hashed places that all rows use."""
    ids = block.queries.ids
    if ids.dtype.kind != "i":  # a quick sum is random enough once it is mixed
        sums = (crc32(text.encode("utf-8", "surrogatepass")) for text in ids.tolist())
        ids = np.fromiter(sums, dtype=np.int64, count=len(ids))
    units = query_units(ids, np.uint64(0))
    chosen = np.flatnonzero(units <= bound)
    chosen = chosen[np.argsort(units[chosen], kind="stable")[:SAMPLE]]
    # Rows by number are copies: a slice would keep the whole block.
    rows = [np.zeros(0, dtype=np.int64), *map(block.queries.rows_of, chosen.tolist())]
    lists = replace(block, read_counts={}, lines=None, sources=()).take(np.concatenate(rows))
    start = block.encoding.spec.hash_start
    used = np.zeros(places, dtype=np.bool_)
    if hasattr(block.X, "indices"):
        mark_hashed(block.X.indices, start, used)
    return units[chosen], replace(lists, encoding=None), np.flatnonzero(used)


def centred(scores: NDArray[np.float64], data: Dataset) -> NDArray[np.float64]:
    """Scores less the means of their lists."""
    codes, sizes = data.queries.codes, data.queries.sizes
    means: Any = np.bincount(codes, scores, minlength=data.n_queries) / sizes
    return np.asarray(scores - means[codes], dtype=np.float64)


def monitor_log(model: LinearModel, log: Any) -> DriftMonitor:
    """All lists of a log, read for a model, counted against the summary of its training."""
    summary = summary_of(model)
    spec = columns_of(model)
    if summary is None or spec is None:
        raise ParameterError(
            "the model holds no summary of a training log",
            fix="Train it on a raw log with this version of rankine",
        )
    drift_monitor = DriftMonitor(summary, spec)
    for block in log:
        scores = score_dataset(model, block)
        columns: Any = block.columns
        drift_monitor.add(columns, block.n_rows, centred(scores, block))
    return drift_monitor


class LogScan(LabelledStream):
    """A log read as encoded, query-aligned blocks; re-iterable, with the face of a ``Scan``.

    Every ranker's ``fit`` takes it, and so do ``tune``, ``cross_validate``, ``path`` and
    ``report``; rankers that need all rows at once load it.

    Parameters
    ----------
    raw
        A ``Scan`` whose blocks carry the raw columns.
    schema
        What columns are for.
    label
        Formula of the label; None gives all rows the label 0.
    spec
        How columns become features; None measures values and cuts on this log when they are needed.
    cuts
        Cuts of binned columns that are not measured.
    """

    def __init__(
        self,
        raw: Scan,
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
        self._spec = spec

    @property
    def nulls(self) -> int | None:
        """Missing values of all columns that are read, once the log was read to its end."""
        read_counts = self.raw.read_counts
        return None if read_counts is None else read_counts.get("missing_values", 0)

    @cached_property
    def encoding(self) -> LogEncoding:
        """How rows become features; one reading where values or cuts must be measured."""
        spec = self._spec or self._measured(lambda names: (
            vocabulary(block, names) for block in self.raw.blocks()
        ))  # fmt: skip
        return LogEncoding(self.schema, spec, self.label, self.raw)

    def log_encoding(self) -> LogEncoding:
        """Return how rows become features; reads the log where values or cuts must be measured."""
        return self.encoding

    def _measured(self, parts: Any) -> LogColumns:
        """The spec with the values of ``parts(names)``, which give each part's vocabulary."""
        schema = self.schema
        used = set(schema.spec().columns)
        ignored = sorted(set(column_names(list(self.sources))) - used)
        values = one_hot_values(parts(schema.one_hot), schema.one_hot) if schema.one_hot else ()
        cells = measure_cuts(self.raw.blocks(), schema.binned, schema.bins, self.cuts)
        return schema.spec(values, cells, ignored)

    @property
    def n_features(self) -> int:
        """Width of every block."""
        return self.encoding.spec.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, when none is hashed."""
        return self.encoding.feature_names

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass over the log."""
        yield from map(self.encoding.encode, self.raw.blocks(block_rows))

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def load(self) -> Dataset:
        """All lists in memory."""
        return concat(list(self.blocks()))

    def relabelled(self, label: Expression | CoecLabel) -> LogScan:
        """The log with other labels."""
        return LogScan(self.raw, self.schema, label, self._spec, self.cuts)

    def split(self, text: str = "time:9/11,1/11,1/11") -> dict[str, Any]:
        """``"train"``, ``"valid"`` (and ``"test"``): the oldest lists and the newer ones.

        Lists are in order of the schema's ``time`` column, which is checked, or of the file.
        """
        return named_parts(self, text, self.schema.time)

    def for_tables(self) -> LogScan:
        """The same log for a ranker of tables."""
        spec = self._spec
        if spec is None or not spec.tables:
            ignored = sorted(
                set(column_names(list(self.sources))) - set(self.schema.spec().columns)
            )
            bare = LogEncoding(self.schema, self.schema.spec((), (), ignored), self.label, self.raw)
            spec = bare.for_tables(()).spec
        return LogScan(self.raw, self.schema, self.label, spec)

    def to_partitions(self, **options: Any) -> PartitionedDataset:
        """The log cut into partitions, see ``rankine.distributed.scan``."""
        from rankine.distributed.partitions import scan as cut

        reading = self.raw.options
        parts = cut(
            list(self.sources),
            **options,
            **{name: getattr(reading, name) for name in _READ},
        )
        if self._spec is None:
            self._spec = self._measured(lambda names: parts.each(vocabulary, names))
        return parts.encoded(self.encoding)

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
    propensity: Sequence[float] = (),
    cuts: str | Path | Mapping[str, Sequence[float]] | None = None,
    **options: Any,
) -> LogScan:
    """Read a raw log as labelled lists.

    Parameters
    ----------
    path
        Parquet, Arrow, CSV or JSON lines files, as for ``rankine.scan``.
    schema
        What columns are for; the fields below (see ``LogSchema``) change it.
    like
        A model, or a log that was read before: rows become the same features, so that training
        goes on from the model, or that this log is held out. Other columns are an error.
    query, label, numeric, categorical, one_hot, binned, crosses, hash_bits, bins, position, time
        Fields of ``LogSchema``.
    item, search, weight, columns
        Fields of ``LogSchema``.
    propensity
        For the label ``"coec"``: how often each position is looked at.
    cuts
        Cuts of binned columns, by column, or a JSON file of them; others are quantiles of the
        first 10,000 lists.
    **options
        Of ``rankine.scan``: ``format``, ``on_bad_row``, ``block_rows``, ``progress`` ...

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
    own = _schema_of(like)
    given = {
        "query": query, "label": label, "numeric": numeric, "categorical": categorical,
        "one_hot": one_hot, "binned": binned, "crosses": crosses, "hash_bits": hash_bits,
        "bins": bins, "position": position, "time": time, "item": item, "search": search,
        "weight": weight, "columns": columns,
    }  # fmt: skip
    chosen = LogSchema.make(given, schema or own)
    spec = None
    if own is not None:
        check_same_features(chosen, own)
        spec = like.encoding.spec if hasattr(like, "encoding") else columns_of(like)
    formula = _formula(path, chosen, propensity)
    known = read_cuts(cuts, chosen.binned)
    return LogScan(_raw(path, chosen, formula, options), chosen, formula, spec, known)


def _schema_of(like: Any) -> LogSchema | None:
    if like is None:
        return None
    encoding = getattr(like, "encoding", None)
    own: LogSchema | None = schema_of(like) if encoding is None else encoding.schema
    if own is None:
        raise ParameterError(
            "the model reads features, not the columns of a log",
            fix="Leave out the options of logs",
        )
    return own


def _formula(
    path: Any, schema: LogSchema, propensity: Sequence[float]
) -> Expression | CoecLabel | None:
    if schema.label is None:
        return None
    inside = coec_formula(schema.label)
    if inside is None:
        return parse_expression(schema.label)
    if schema.item is None:
        raise ParameterError(
            "coec counts the clicks of each item", fix="Name the item column: item='item'"
        )
    return CoecLabel(
        path,
        inside,
        propensity,
        query=schema.query,
        position=schema.position or "position",
        item=schema.item,
        search=schema.search,
    )


def _raw(path: Any, schema: LogSchema, formula: Any, options: Mapping[str, Any]) -> Scan:
    """The columns of a log that are read."""
    kept = [schema.time, schema.item, schema.search, *schema.columns]
    wanted = [*schema.spec().columns, *(() if formula is None else formula.columns), *kept]
    names = dict.fromkeys(n for n in wanted if n is not None and n != schema.position)
    log_sources(path)
    return scan_files(
        path,
        query=schema.query,
        label=None,
        features=(),
        columns=tuple(names),
        position=schema.position or "position",
        weight=schema.weight,
        **{name: value for name, value in options.items() if name not in _NOT_FOR_LOGS},
    )


def read_for(
    model: LinearModel,
    path: Any,
    *,
    schema: LogSchema | None = None,
    stream: bool = False,
    columns: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Data as a model reads it: a ``Dataset``, or a stream of them.

    A model of a raw log reads its own columns, encoded as in training. ``schema`` and the fields of
    a ``LogSchema`` may say how this log is judged (``label``, ``query``, ``position``, ``time``);
    where they name features these must be the model's. A log without the columns of the label has
    the label 0 everywhere, and models that learned from coec are judged by clicks. Other models
    read files as ``rankine.load`` and ``rankine.scan`` do, with their width and index base.
    """
    own = schema_of(model)
    if own is None:
        if schema is not None:
            _schema_of(model)
        if not stream and any(isinstance(spec, RunScores) for spec in model.transforms):
            found = _retrieved(model, path, columns, options)
            if found is not None:
                return found
        options = {"base": model.base, "columns": tuple(columns), **options}
        if model.column_names is None:
            options = {"n_features": model.n_columns, **options}
        return scan_files(path, **options) if stream else load(path, **options)
    fields = {n: options.pop(n) for n in LogSchema.__struct_fields__ if n in options}
    for name in ("base", "qid_type"):
        options.pop(name, None)
    chosen = LogSchema.make(fields, schema or own)
    check_same_features(chosen, own)
    have = set(column_names(path))
    # What was not asked for here may be absent: a log without outcomes is scored.
    asked = {**({} if schema is None else msgspec.to_builtins(schema)), **fields}
    absent: dict[str, Any] = {
        name: None
        for name in ("position", "time", "item", "search", "weight")
        if name not in asked and getattr(chosen, name) not in have
    }
    absent["columns"] = [*(n for n in chosen.columns if n in have or "columns" in asked), *columns]
    if "label" not in asked and chosen.label is not None:
        clicked = coec_formula(chosen.label) or chosen.label
        absent["label"] = clicked if set(parse_expression(clicked).columns) <= have else None
    log = scan(path, schema=_without(chosen, absent), like=model, **options)
    return log if stream else log.load()


def _retrieved(
    model: LinearModel, path: Any, columns: Sequence[str], options: Mapping[str, Any]
) -> Dataset | None:
    """Tables with a column per retriever, null where it did not return the document."""
    names = tuple(model.feature_names or ())
    files = [path] if isinstance(path, (str, Path)) else list(path)
    tables = all(Path(str(file)).suffix in {".parquet", ".arrow", ".csv"} for file in files)
    if not (tables and names and set(names) <= set(column_names(path))):
        return None
    data = load(path, **{**options, "features": (), "columns": (*columns, *names)})
    rest = {name: values for name, values in data.columns.items() if name not in names}
    X = np.column_stack([data.columns[name] for name in names]).astype(np.float64)
    return replace(data, X=X, feature_names=names, columns=rest, query_index=data.queries)


def _without(schema: LogSchema, changes: Mapping[str, Any]) -> LogSchema:
    found = {**changes, "columns": tuple(dict.fromkeys(changes["columns"]))}
    return msgspec.structs.replace(schema, **found)


def _made_up(spec: LogColumns, names: Sequence[str], i: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(spec.columns, f"made up {i}")
    crossed = {*chain(*spec.crosses)}
    for k, name in enumerate((*spec.numeric, *(field.column for field in spec.binned))):
        number = (7 * i + 5 * k + i * k) % 17 - 8
        # A number that is a part of a cross is a category there: it must be whole.
        row[name] = number if name in crossed else number / 4
    for k, field in enumerate(spec.one_hot):
        row[field.column] = _dealt(field.values, i, k, row[field.column])
    for k, column in enumerate(spec.hashed):
        start = f"{column}="
        known = islice((name for name in names if name.startswith(start)), 2 * PROBE_ROWS)
        values = [name.removeprefix(start) for name in known]
        row[column] = _dealt(values, i, k, row[column])
    return row


def _dealt(values: Sequence[str], i: int, k: int, otherwise: str) -> str:
    """The value of row i in the k-th column: neighbouring columns start at different places."""
    return values[(i + k) % len(values)] if values else otherwise
