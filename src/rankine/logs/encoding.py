"""Encode the rows of a raw log as features, and complete a model with a summary of its log.

A ``LogEncoding`` encodes blocks of raw columns. A ``LogRecord`` samples the lists that one fit
reads, so that the model can contain a summary of them (``rankine.transforms.drift``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.core.specs import MAX_CUTS, LogColumns
from rankine.core.user_warnings import warn_user
from rankine.data.dataset import Dataset, concat
from rankine.data.expressions import Expression
from rankine.data.list_ids import hash_ids, pack_hashes
from rankine.data.open import load
from rankine.logs.clicks import CoecLabel
from rankine.logs.history import HistoryScan
from rankine.logs.schema import (
    LogSchema,
    check_same_features,
    frequent_texts,
    locate_row_errors,
    schema_of,
    varies_within_lists,
)
from rankine.model.weights import PackedNames, Probe, Probes
from rankine.transforms.apply import encode_csr, score_dataset, transformed_scores
from rankine.transforms.categories import MAX_CACHED, category_texts
from rankine.transforms.drift import DriftMonitor, summarise, summary_of, value_hashers
from rankine.transforms.log_columns import HashedNames, LogEncoder, columns_of
from rankine.transforms.value_sets import NewValues, ValueHasher, ValueSet

if TYPE_CHECKING:
    from rankine.data.scan import Scan
    from rankine.distributed.partitions import PartitionedDataset
    from rankine.model import LinearModel

#: Number of invented rows that a model of a log is tested with before it serves.
PROBE_ROWS = 4
#: Number of lists in the sample that the summary in a model is computed from.
SAMPLE_LISTS = 1000
#: Fewest lists of at least two rows from which a column is called constant within lists.
MIN_LISTS_FOR_WARNING = 25


class LogEncoding:
    """Encodes raw rows as features and labels, and completes models that were trained on them.

    Parameters
    ----------
    schema, spec
        Use of the columns, and how they become features.
    label
        Formula of the label; None gives all rows the label 0 (scoring).
    raw
        The log, to look up the names of hashed features; None where it cannot be read.
    """

    def __init__(
        self,
        schema: LogSchema,
        spec: LogColumns,
        label: Expression | CoecLabel | None,
        raw: Scan | HistoryScan | None = None,
    ) -> None:
        self.schema = schema
        self.spec = spec
        self.label = label
        self.raw = raw

    def __reduce__(self) -> tuple[Any, ...]:
        # The log stays behind: workers do not name features, and get the rows as partitions.
        return _shared_encoding, (self.schema, self.spec, self.label)

    @cached_property
    def encoder(self) -> LogEncoder:
        """Encoder of the columns."""
        return LogEncoder(self.spec, keeps_missing=True)

    @property
    def history(self) -> HistoryScan | None:
        """The log with its history features; None where it has none."""
        return self.raw if isinstance(self.raw, HistoryScan) else None

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None where some are hashed."""
        if self.spec.hash_start < self.spec.n_features:
            return None
        return self.spec.names

    @property
    def key(self) -> str:
        """Text that is equal for encodings with the same features and labels."""
        label = None
        if self.label is not None:
            label = self.label.text
        # All fields of the schema: msgspec leaves out a default only if it is the same object.
        return repr((msgspec.to_builtins(self.spec), self.schema, label))

    def encode(self, block: Dataset) -> Dataset:
        """Return a raw block with features and labels."""
        columns: Any = block.columns
        X = self.features(block)
        y = np.zeros(block.n_rows)
        if self.label is not None:
            y = self.label({name: _fill_label(columns[name]) for name in self.label.columns})
        return replace(
            block,
            X=X,
            y=y,
            feature_names=self.feature_names,
            query_index=block.queries,
            encoding=self,
        )

    def features(self, block: Dataset) -> Any:
        """Return the features of the raw columns of a block."""
        columns: Any = block.columns
        with locate_row_errors(block):
            if self.spec.tables:
                return self.encoder.matrix(columns, block.n_rows)
            return encode_csr(self.encoder, columns, block.n_rows)

    def read_frame(self, frame: Any) -> Dataset:
        """Return the rows of a frame with their features, in one list and without labels."""
        if self.history is not None:
            raise ParameterError(
                "the features depend on the history of a log, which the frame lacks",
                parameter="X",
                fix="Read it as a log: rankine.logs.scan(frame, like=...).load()",
            )
        numbers = {*self.schema.numbers, *self.schema.binned}
        no_roles: Any = dict.fromkeys(("label", "query", "docid", "weight", "position"))
        rows = load(
            frame,
            features=(),
            numbers=sorted(numbers),
            categories=[name for name in self.spec.columns if name not in numbers],
            **no_roles,
        )
        X = self.features(rows)
        return replace(rows, X=X, feature_names=self.feature_names, encoding=self)

    def for_tables(self, blocks: Iterable[Dataset]) -> LogEncoding:
        """Return the encoding for a ranker of tables.

        Categories are collected from the first lists of the log, or of ``blocks`` if the encoding
        has no log to read.
        """
        if self.spec.tables:
            return self
        schema = self.schema
        if schema.crosses:
            raise ParameterError(
                f"tables have no cross {schema.crosses[0]!r}",
                parameter="crosses",
                fix="Leave crosses out, and set pairs to the columns that share a table",
            )
        if self.raw is not None:
            blocks = self.raw.blocks()
        categories = frequent_texts(blocks, (*schema.one_hot, *schema.categorical))
        numeric = (*schema.numbers, *schema.binned)
        spec = LogColumns(numeric, categories, ignored=self.spec.ignored, tables=True)
        return LogEncoding(schema, spec, self.label, self.raw)

    def check_start(self, start: LinearModel | LogEncoding) -> None:
        """Raise if a model, or the log of the last fit, has other features than this log."""
        start_schema: LogSchema | None
        start_columns: LogColumns | None
        if isinstance(start, LogEncoding):
            start_schema, start_columns = start.schema, start.spec
        else:
            start_schema, start_columns = schema_of(start), columns_of(start)
        if start_schema is None:
            raise ParameterError(
                "the model to start from reads features, not the columns of a log",
                fix="Start from a model of a log, or leave the model out",
            )
        check_same_features(self.schema, start_schema, "the model to start from")
        if start_columns is None or start_columns.read_columns != self.spec.read_columns:
            raise FeatureMismatchError(
                "this log has other one-hot values or cuts than the model to start from",
                fix="Read the log as the model does: rankine.logs.scan(path, like=model)",
            )

    def start_record(self) -> LogRecord:
        """Return the empty record of one fit."""
        return LogRecord(self)

    def finish(self, model: LinearModel, names: HashedNames | None = None) -> LinearModel:
        """Return the model with its columns, the names of its weights, and rows to test it with.

        Without ``names`` of all hashed features, the log is read once more.
        """
        transforms = (self.spec, *model.transforms)
        if self.history is not None:
            transforms = (self.history.spec, *transforms)
            model = replace(
                model, provenance={**model.provenance, "history": self.history.origin()}
            )
        parameters = {**model.parameters, "log": msgspec.to_builtins(self.schema)}
        if self.spec.tables:
            finished = replace(model, transforms=transforms, parameters=parameters)
            rows, columns = self._invent_rows(())
            X: Any = self.encoder.matrix(columns, PROBE_ROWS)
            scores = score_dataset(finished, _as_one_list(X))
            return replace(finished, probes=_probes(rows, scores))
        weight_names = self._weight_names(model.indices.tolist(), names)
        rows, columns = self._invent_rows(weight_names)
        X = encode_csr(self.encoder, columns, PROBE_ROWS)
        scores = transformed_scores(model.transforms, _as_one_list(X), model.to_dense())
        return replace(
            model,
            transforms=transforms,
            parameters=parameters,
            probes=_probes(rows, scores),
            names=PackedNames.pack(weight_names),
        )

    def _invent_rows(
        self, names: Sequence[str]
    ) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
        """Invent raw rows of one list, as rows and as columns.

        A model file must not leak rows of a log, so these rows are invented. Their categories are
        names that the file contains anyway, in its one-hot lists and names of weights, combined
        so that no row repeats a row of the log except by chance.
        """
        rows = [invent_row(self.spec, names, i) for i in range(PROBE_ROWS)]
        return rows, {name: [row[name] for row in rows] for name in self.spec.columns}

    def _weight_names(self, indices: Sequence[int], names: HashedNames | None) -> list[str]:
        """Return the names of some features; hashed ones are looked up in the log if necessary."""
        start, fixed_names = self.spec.hash_start, self.spec.names
        hashed = {j for j in indices if j >= start}
        if names is None:
            names = self.encoder.hashed_names()
            if self.raw is not None and hashed:
                for block in self.raw.blocks():
                    names.add(block.columns, hashed)
        return [
            fixed_names[j] if j < start else names.get(j) or f"hash:{j - start}" for j in indices
        ]


def _as_one_list(X: Any) -> Dataset:
    return Dataset(X, np.zeros(PROBE_ROWS), np.zeros(PROBE_ROWS, dtype=np.int64))


def _probes(rows: Sequence[dict[str, Any]], scores: NDArray[np.float64]) -> Probes:
    return Probes(tuple(Probe(raw=row) for row in rows), tuple(scores.tolist()))


def _fill_label(values: Any) -> Any:
    """Return a column of the label formula with 0 for missing values."""
    if values.dtype == object:
        return np.array([bool(value) for value in values.tolist()])
    if values.dtype.kind == "f":
        return np.nan_to_num(values, nan=0.0)
    return values


#: Encodings that were unpickled in this process, by their keys.
_SHARED: WeakValueDictionary[str, LogEncoding] = WeakValueDictionary()


def _shared_encoding(*arguments: Any) -> LogEncoding:
    """Return one encoding for all partitions that were sent here, so that they share its cache."""
    encoding = LogEncoding(*arguments)
    return _SHARED.setdefault(encoding.key, encoding)


def invent_row(spec: LogColumns, names: Sequence[str], i: int) -> dict[str, Any]:
    """Invent row i of a test list, with categories from the names of weights."""
    row: dict[str, Any] = dict.fromkeys(spec.columns, f"made up {i}")
    crossed = {*chain(*spec.crosses)}
    for k, name in enumerate((*spec.numeric, *(field.column for field in spec.binned))):
        number = (7 * i + 5 * k + i * k) % 17 - 8
        row[name] = number / 4
        if name in crossed:
            row[name] = number  # a cross reads numbers as categories, which must be whole
    for k, field in enumerate(spec.one_hot):
        row[field.column] = _pick_value(field.values, i, k, row[field.column])
    for k, column in enumerate(spec.hashed):
        prefix = f"{column}="
        matching = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        row[column] = _pick_value(list(islice(matching, 2 * PROBE_ROWS)), i, k, row[column])
    return row


def _pick_value(values: Sequence[str], i: int, k: int, default: str) -> str:
    """Return a value for row i of the k-th column; adjacent columns start at different values."""
    if not values:
        return default
    return values[(i + k) % len(values)]


class LogRecord:
    """Samples the lists that one fit reads, and records the values of categorical columns.

    The sample contains the lists whose ids have the smallest hashes, so it does not depend on
    blocks, passes and partitions.
    """

    def __init__(self, encoding: LogEncoding) -> None:
        self.encoding = encoding
        self._hashers = value_hashers(encoding.spec)
        self._values = {hasher.column: ValueSet() for hasher in self._hashers}
        self._new_values = [NewValues((hasher.column,)) for hasher in self._hashers]
        #: Names of hashed features; None if there are too many, or partitions were recorded.
        self._names: HashedNames | None = None
        if not encoding.spec.tables:
            self._names = encoding.encoder.hashed_names()
        self._list_hashes = np.zeros(0)
        self._samples: list[Dataset] = []
        #: Lists with a larger hash cannot enter the sample any more.
        self._hash_bound = 1.0
        #: Blocks that this fit has not read yet; None once all of the log is recorded.
        self.remaining_blocks: Iterable[Dataset] | None = None

    def __getstate__(self) -> dict[str, Any]:
        new_values = [NewValues((hasher.column,)) for hasher in self._hashers]
        return {
            **self.__dict__, "remaining_blocks": None, "_names": None, "_new_values": new_values,
        }  # fmt: skip

    def add_block(self, block: Dataset) -> None:
        """Record encoded lists that are not scaled yet."""
        columns: Any = block.columns
        for hasher, new_values in zip(self._hashers, self._new_values, strict=True):
            self._values[hasher.column].add(hasher.hash_values(new_values.find(columns)))
        if self._names is not None:
            self._names.add(columns)
            if len(self._names) > MAX_CACHED:
                self._names = None
        self.add(sample_lists(block, (), self._hash_bound))

    def add(self, sample: ListSample) -> None:
        """Record the result of ``sample_lists`` for a part of the log."""
        hashes, lists, values = sample
        for column, (value_hashes, bits) in values.items():
            self._values[column].add(value_hashes, bits)
        # A later pass reads the same lists again.
        new = np.flatnonzero(~np.isin(hashes, self._list_hashes))
        if len(new):
            self._list_hashes = np.append(self._list_hashes, hashes[new])
            self._samples.append(lists.take_queries(new))
        # Reducing only at twice the size keeps the cost of sorting small for each block.
        if len(self._list_hashes) > 2 * SAMPLE_LISTS:
            self._reduce_sample()

    def add_partitions(self, parts: PartitionedDataset) -> None:
        """Record the lists of all partitions."""
        self._names = None
        for group in parts.groups():
            for sample in group.each(sample_lists, self._hashers, self._hash_bound):
                self.add(sample)

    def _reduce_sample(self) -> Dataset:
        """Keep only the lists with the smallest hashes, ordered by hash, and return them."""
        smallest = np.argsort(self._list_hashes, kind="stable")[:SAMPLE_LISTS]
        sample = concat(self._samples).take_queries(smallest)
        self._list_hashes, self._samples = self._list_hashes[smallest], [sample]
        if len(smallest) == SAMPLE_LISTS:
            self._hash_bound = float(self._list_hashes[-1])
        return sample

    def check_start(self, start: LinearModel | LogEncoding) -> None:
        """Raise if a model, or the log of the last fit, has other features than this log."""
        self.encoding.check_start(start)

    def finish(self, model: LinearModel) -> LinearModel:
        """Return the completed model, with a summary of the lists it was trained on."""
        for block in self.remaining_blocks or ():
            self.add_block(block)
        self.remaining_blocks = None
        finished = self.encoding.finish(model, self._names)
        if not len(self._list_hashes):
            return finished
        sample = self._reduce_sample()
        sample = replace(sample, X=self.encoding.features(sample), query_index=sample.queries)
        if self.encoding.spec.tables:
            scores = score_dataset(finished, sample)
            self._warn_of_shared_entries(sample)
        else:
            scores = transformed_scores(model.transforms, sample, model.to_dense())
            self._warn_of_constant_columns(sample)
        summary = summarise(
            self.encoding.spec,
            sample.columns,
            centre_by_list(scores, sample),
            sample.n_queries,
            self._values,
        )
        lists = pack_hashes(self._list_hashes)
        log = msgspec.to_builtins(summary)
        provenance = {**finished.provenance, "log": log, "lists": lists}
        return replace(finished, provenance=provenance)

    def _warn_of_shared_entries(self, sample: Dataset) -> None:
        """Warn of columns with more values than a table has entries."""
        for field in self.encoding.spec.one_hot:
            if len(field.values) < MAX_CUTS:
                continue
            values = set(field.values)
            texts = category_texts(sample.columns[field.column], field.column)
            share = sum(bool(text) and text not in values for text in texts) / len(texts)
            if share > 0:
                warn_user(
                    f"column {field.column!r} has more values than a table has entries: the "
                    f"{len(values)} most frequent ones have one each, and {share:.0%} of the rows "
                    "have others, which share one"
                )

    def _warn_of_constant_columns(self, sample: Dataset) -> None:
        """Warn of features that are constant within lists, whose weights rank nothing."""
        if np.count_nonzero(sample.queries.sizes > 1) < MIN_LISTS_FOR_WARNING:
            return
        spec = self.encoding.spec
        crossed = {*chain(*spec.crosses)}
        names = [name for name in spec.columns if name not in crossed or name in spec.hashed]
        constant = [repr(name) for name in names if not varies_within_lists(sample, name)]
        if constant:
            warn_user(
                f"constant within lists, so their weights rank nothing: {', '.join(constant)}. "
                "Cross them with a column of the items (crosses), or leave them out"
            )


#: Hashes of the sampled lists, the lists, and by column the hashes of all values with their bits.
ListSample = tuple[NDArray[np.float64], Dataset, Mapping[str, tuple[NDArray[np.int64], int]]]


def sample_lists(
    block: Dataset, hashers: Sequence[ValueHasher], hash_bound: float = 1.0
) -> ListSample:
    """Sample the lists of a block with the smallest hashes, and collect the values of all rows."""
    hashes = hash_ids(block.queries.ids)
    selected = np.flatnonzero(hashes <= hash_bound)
    selected = selected[np.argsort(hashes[selected], kind="stable")[:SAMPLE_LISTS]]
    # Rows by number are copies: a slice would keep the whole block in memory.
    rows = block.queries.rows_of_queries(selected)
    # Line numbers and files describe the whole block, not the sampled rows. Features are made again
    # of the few lists that are still in the sample at the end.
    no_features = np.zeros((block.n_rows, 0))
    bare = replace(
        block, X=no_features, read_counts={}, lines=None, sources=(), query_index=block.queries
    )
    lists = bare.take(rows)
    columns: Any = block.columns
    values = {}
    for hasher in hashers:
        value_set = ValueSet()
        value_set.add(hasher.hash_distinct(columns))
        values[hasher.column] = value_set.hashes, value_set.bits
    return hashes[selected], replace(lists, encoding=None), values


def centre_by_list(scores: NDArray[np.float64], data: Dataset) -> NDArray[np.float64]:
    """Subtract from each score the mean of its list."""
    codes, sizes = data.queries.codes, data.queries.sizes
    means: Any = np.bincount(codes, scores, minlength=data.n_queries) / sizes
    return np.asarray(scores - means[codes], dtype=np.float64)


def monitor_log(model: LinearModel, blocks: Iterable[Dataset]) -> DriftMonitor:
    """Compare all lists of a log, as read for a model, with the summary of the training log."""
    summary = summary_of(model)
    spec = columns_of(model)
    if summary is None or spec is None:
        raise ParameterError(
            "the model contains no summary of its training data, so drift cannot be measured",
            fix="Train it on a raw log; models of feature files have no summary",
        )
    monitor = DriftMonitor(summary, spec)
    for block in blocks:
        columns: Mapping[str, Any] = block.columns
        monitor.add(columns, block.n_rows, centre_by_list(score_dataset(model, block), block))
    return monitor
