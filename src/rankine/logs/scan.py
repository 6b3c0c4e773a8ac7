"""Raw logs as streams of encoded blocks: Parquet or Arrow with one column per fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import FileKindError, LimitError, ParameterError, SchemaError
from rankine.core.specs import LogColumns, OneHot
from rankine.data.dataset import Dataset, concat, make_csr, row_scores
from rankine.data.expressions import Expression, parse_expression
from rankine.data.formats import choose_format, reader_of
from rankine.data.open import load, scan
from rankine.data.options import ReadOptions
from rankine.data.sources import find_sources
from rankine.model.weights import PackedNames, Probe, Probes
from rankine.transforms.categories import category_texts
from rankine.transforms.log_columns import LogEncoder

if TYPE_CHECKING:
    from rankine.data.scan import Scan
    from rankine.logs.clicks import CoecLabel
    from rankine.model import LinearModel
    from rankine.transforms.scaling import Scaling

#: Made-up rows that a model of a log is tested by before it serves.
PROBE_ROWS = 4


def log_spec(
    *,
    numeric: Sequence[str] = (),
    categorical: Sequence[str] = (),
    one_hot: Sequence[OneHot] = (),
    crosses: Sequence[Sequence[str] | str] = (),
    hash_bits: int = 20,
    ignored: Sequence[str] = (),
) -> LogColumns:
    """A spec of encoded columns; a cross may be written ``"brand*category"``."""
    pairs = [tuple(c.split("*")) if isinstance(c, str) else tuple(c) for c in crosses]
    try:
        spec = LogColumns(
            tuple(numeric),
            tuple(one_hot),
            tuple(categorical),
            tuple(tuple(name.strip() for name in cross) for cross in pairs),
            hash_bits,
            tuple(ignored),
        )
    except ValueError as error:
        raise ParameterError(str(error), fix="Name every column once") from error
    if not spec.columns:
        raise ParameterError(
            "no column is named as a feature", fix="Name numeric or categorical columns"
        )
    return spec


class LogScan:
    """A log read as encoded, query-aligned blocks; re-iterable, with the face of a ``Scan``.

    Parameters
    ----------
    raw
        A ``Scan`` whose blocks carry the raw columns.
    spec
        How columns become features.
    label
        Formula of the label; None gives all rows the label 0 (scoring).
    note
        How the log is read: what a model of it remembers.
    """

    def __init__(
        self,
        raw: Scan,
        spec: LogColumns,
        label: Expression | CoecLabel | None,
        note: Mapping[str, Any] | None = None,
    ) -> None:
        self.raw = raw
        self.spec = spec
        self.label = label
        self.note = dict(note or {})
        self.options = raw.options
        self.sources = raw.sources
        self.encoder = LogEncoder(spec)
        #: Missing values of all columns, once the log was read to its end.
        self.nulls: int | None = None

    @property
    def n_features(self) -> int:
        """Width of every block."""
        return self.spec.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, when none is hashed."""
        names = self.encoder.known_names()
        return tuple(names) if len(names) == self.n_features else None

    def blocks(self, block_rows: int | None = None) -> Iterator[Dataset]:
        """One pass over the log."""
        nulls = 0
        for block in self.raw.blocks(block_rows):
            nulls += block.notes.get("missing_values", 0)
            yield self.encode(block)
        self.nulls = nulls

    def __iter__(self) -> Iterator[Dataset]:
        return self.blocks()

    def encode(self, block: Dataset) -> Dataset:
        """A raw block with features and labels."""
        columns: Any = block.columns
        rows = self.encoder.encode(columns, block.n_rows)
        X = make_csr(rows.values, rows.indices, rows.indptr, (block.n_rows, self.n_features))
        y = np.zeros(block.n_rows) if self.label is None else self.label(block.columns)
        return replace(block, X=X, y=y, feature_names=self.feature_names, query_index=block.queries)

    def load(self) -> Dataset:
        """All blocks in memory."""
        return concat(list(self.blocks()))

    @property
    def encoding(self) -> LogScan:
        """What finishes the model of a ranker that was fitted to this log."""
        return self

    def finish(self, model: LinearModel, scaling: Scaling) -> LinearModel:
        """The model with its columns, the names of its weights and rows to test it by."""
        names = self.weight_names(model.indices.tolist())
        return replace(
            model,
            transforms=(self.spec, *model.transforms),
            parameters={**model.parameters, "log": self.note},
            probes=self._probes(model.to_dense(), scaling, names),
            names=PackedNames.pack(names),
        )

    def _probes(self, coef: Any, scaling: Scaling, names: Sequence[str]) -> Probes:
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
        scores = row_scores(scaling.apply(one_list).X, coef)
        return Probes(tuple(Probe(raw=row) for row in rows), tuple(scores.tolist()))

    def weight_names(self, indices: Sequence[int]) -> list[str]:
        """Names of the given features; hashed ones by reading the log's columns once more.

        Where several values share a place the first one met gives the name.
        """
        known = self.encoder.known_names()
        wanted: dict[int, str | None] = {
            int(j): known[j] if j < len(known) else None for j in indices
        }
        if any(name is None for name in wanted.values()):
            for block in self.raw.blocks():
                self.encoder.name_features(block.columns, wanted)
                if all(name is not None for name in wanted.values()):
                    break
        start = self.spec.hash_start
        return [name or f"hash:{j - start}" for j, name in wanted.items()]

    def __repr__(self) -> str:
        return f"Log of {self.raw!r}"


def scan_log(
    path: Any,
    spec: LogColumns,
    *,
    query: str,
    label: str | CoecLabel | None = None,
    position: str | None = None,
    columns: Sequence[str] = (),
    missing: str = "zero",
    **options: Any,
) -> LogScan:
    """Stream a raw log.

    Parameters
    ----------
    path
        Parquet or Arrow files, as for ``rankine.scan``.
    spec
        From ``log_spec``, or from a model's transforms.
    query
        Column that names the list of a row; the rows of a list stand together.
    label
        Formula over columns (``"clicked + 4*purchased"``), or clicks over expected clicks; None
        when there are no labels.
    position
        Column of displayed positions, from 1.
    columns
        Further columns to keep (a cutoff, a time).
    missing
        ``"zero"``: nulls count as absent values; ``"error"`` refuses them.
    options
        Others of ``rankine.scan``.
    """
    formula = parse_expression(label) if isinstance(label, str) else label
    wanted = [*spec.columns, *(() if formula is None else formula.columns), *columns]
    chosen: dict[str, Any] = options if position is None else {**options, "position": position}
    raw = scan(
        path,
        query=query,
        label=None,
        features=(),
        columns=tuple(dict.fromkeys(name for name in wanted if name != position)),
        missing=missing,
        **chosen,
    )
    text = None if formula is None else formula.text
    note = {"query": query, "label": text, "position": position, "missing": missing}
    return LogScan(raw, spec, formula, note)


def read_for(model: LinearModel, path: Any, *, stream: bool = False, **options: Any) -> Any:
    """Data as a model reads it: a ``Dataset``, or a stream of them.

    A model of a raw log reads its own columns, encoded as in training; its query column and label
    formula stand in for the defaults ``query="qid"`` and ``label="label"``. Other models read
    files as ``rankine.load`` and ``rankine.scan`` do, with the width and index base of the model.
    """
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if spec is None:
        options = {"base": model.base, **options}
        if model.column_names is None:
            options = {"n_features": model.n_columns, **options}
        return scan(path, **options) if stream else load(path, **options)
    log = _scan_log_of(model.parameters.get("log", {}), spec, path, **options)
    return log if stream else log.load()


def _scan_log_of(log: Mapping[str, Any], spec: LogColumns, path: Any, **options: Any) -> LogScan:
    """A log read as the one that a model was trained on (``log`` is the model's note of it).

    A label column that is not there (a log without outcomes) gives all rows the label 0.
    """
    for name in ("n_features", "feature_names", "dtype"):
        options.pop(name, None)
    query = options.pop("query", "qid")
    label = options.pop("label", "label")
    query = log.get("query", query) if query == "qid" else query
    label = log.get("label") if label == "label" else label
    extra = tuple(options.pop("columns", ()))
    have = column_names(path)
    if label is not None and not set(parse_expression(label).columns) <= have:
        label = None
    position = log.get("position")
    return scan_log(
        path,
        spec,
        query=query,
        label=label,
        position=position if position in have else None,
        columns=extra,
        **{"missing": log.get("missing", "zero"), **options},
    )


def column_names(path: Any) -> set[str]:
    """Columns of the first of the given Parquet or Arrow files, by the guarded readers."""
    source = find_sources(path)[0]
    if source.path is None:
        raise FileKindError("a raw log is read from files, not from a pipe", fix="Pass a path")
    options = ReadOptions.make()
    reader = reader_of(choose_format(source, None, source.head()))
    names = getattr(reader, "column_names", None)
    if names is None:
        raise FileKindError(
            "not a Parquet or Arrow file",
            file=source.name,
            fix="Raw logs are Parquet or Arrow files",
        )
    return set(names(source, options))


def fit_one_hot(
    path: Any, names: Sequence[str], *, query: str, max_values: int = 10_000, **options: Any
) -> tuple[OneHot, ...]:
    """Values of categorical columns in order of first appearance, by one reading of them."""
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    raw = scan(
        path, query=query, label=None, features=(), columns=tuple(names), missing="zero", **options
    )
    for block in raw.blocks():
        for name, values in found.items():
            values.update(dict.fromkeys(category_texts(block.columns[name], name)))
            if len(values) > max_values:
                raise LimitError(
                    f"column {name!r} has more than {max_values} values",
                    fix="Hash it instead (categorical)",
                    column=name,
                )
    empty = [name for name, values in found.items() if not set(values) - {""}]
    if empty:
        raise SchemaError(f"column {empty[0]!r} holds no value", fix="Leave it out")
    return tuple(
        OneHot(name, tuple(value for value in values if value)) for name, values in found.items()
    )


def _made_up(spec: LogColumns, names: Sequence[str], i: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(spec.columns, f"made up {i}")
    for k, name in enumerate(spec.numeric):
        row[name] = ((7 * i + 5 * k + i * k) % 17 - 8) / 4
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
