"""npz archives: dense ``X``, or CSR ``data``, ``indices``, ``indptr``, ``shape``; ``y``, ``qid``.

Optional members: ``docid``, ``weight``, ``position``, ``feature_names`` and any others named by
``columns``. Members are read side by side, a few rows at a time; nothing is ever unpickled, and no
allocation follows a number in the file before it was checked against the file's size.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LimitError, SchemaError
from rankine.data.dataset import Dataset, finite
from rankine.data.progress import Meter
from rankine.data.query_index import check_qid
from rankine.data.readers.columns import TEXT, refuse_positions, refuse_weights, stored_as
from rankine.data.readers.list_rows import ItemFaults, csr_rows
from rankine.data.readers.npy_stream import NpyStream, open_archive
from rankine.data.readers.numbers import exact_floats, refuse_not_finite
from rankine.data.readers.row_faults import Place, RowFaults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["feature_names", "measure", "read_blocks"]

_CSR = ("data", "indices", "indptr", "shape")


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Datasets of at most ``options.block_rows`` rows, in file order, not query-aligned."""
    with _open(source, options) as archive, Meter(source, options) as meter:
        for start in range(0, archive.n_rows, options.block_rows):
            yield archive.block(start, min(options.block_rows, archive.n_rows - start))
            meter.update((source.size or 0) * start // archive.n_rows)
        archive.finish()
    source.check()


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features."""
    with _open(source, options) as archive:
        return archive.n_features


def feature_names(source: Source, options: ReadOptions) -> tuple[str, ...] | None:
    """Names of the features, if the file has them."""
    with _open(source, options) as archive:
        return archive.names


@contextmanager
def _open(source: Source, options: ReadOptions) -> Iterator[_Archive]:
    with ExitStack() as stack:
        members = stack.enter_context(open_archive(source, options))
        yield _Archive(members, source.name, options, stack)


class _Archive:
    """The members of one archive, by role, each read from its start to its end."""

    def __init__(self, members: Any, file: str, options: ReadOptions, stack: ExitStack) -> None:
        self.file = file
        self.options = options
        self._members = members
        self._stack = stack
        self.sparse = "X" not in members.names
        query = options.query if options.has_query_ids else None
        label = "y" if options.label == "label" and "y" in members.names else options.label
        self.roles = {
            role: name if name is None or name in members.names else None
            for role, name in (
                ("docid", options.docid),
                ("weight", options.weight),
                ("position", options.position),
            )
        }
        needed = [name for name in (label, query) if name is not None]
        needed += [*(_CSR if self.sparse else ("X",)), *options.columns]
        for role, name in self.roles.items():
            if name is None and getattr(options, role) not in (None, role):
                needed.append(getattr(options, role))
        for name in needed:
            self._require(members, name)
        if self.sparse:
            self._open_csr()
        else:
            self._open_dense()
        self.label = self._column(label)
        self.query = self._column(query)
        self.others = {role: self._column(name) for role, name in self.roles.items()}
        self.extra = {name: self._column(name) for name in options.columns}
        self.names = self._read_names(members)

    def _require(self, members: Any, name: str) -> None:
        if name in members.names:
            return
        held = ", ".join(repr(member) for member in sorted(members.names)[:12])
        raise SchemaError(
            f"no member {name!r}; the archive holds {held}",
            fix="Save X (or data, indices, indptr, shape), y and qid, or use label= and query=",
            file=self.file,
            column=name,
        )

    def _open(self, name: str) -> NpyStream:
        stream: NpyStream = self._stack.enter_context(self._members.stream(name))
        return stream

    # ---------------------------------------------------------------- opening
    def _open_dense(self) -> None:
        self.X = self._open("X")
        if len(self.X.shape) != 2 or self.X.dtype.kind not in "fiub":
            raise self._misfit("X", f"X is {self.X}", "Save a numeric matrix of rows x features")
        self.n_rows, self.n_features = self.X.shape
        self._check_width()

    def _open_csr(self) -> None:
        parts = {name: self._open(name) for name in _CSR}
        for name, kinds in (("data", "fiub"), ("indices", "iu"), ("indptr", "iu"), ("shape", "iu")):
            if len(parts[name].shape) != 1 or parts[name].dtype.kind not in kinds:
                raise self._misfit(name, f"{name} is {parts[name]}", "Save scipy's CSR arrays")
        shape = parts.pop("shape")
        if shape.shape != (2,):
            raise self._misfit("shape", f"shape is {shape}", "Save rows and columns")
        self.n_rows, self.n_features = (int(value) for value in shape.take(2))
        self.data, self.indices, self.pointer = parts.values()
        if self.n_rows < 0 or self.pointer.shape != (self.n_rows + 1,):
            raise self._misfit(
                "indptr", f"indptr is {self.pointer} for {self.n_rows} rows", "Save scipy's arrays"
            )
        if self.data.shape != self.indices.shape:
            raise self._misfit(
                "data", f"{self.data} values for {self.indices} indices", "Save scipy's arrays"
            )
        self._end = int(self.pointer.take(1)[0])
        if self._end != 0:
            raise self._misfit("indptr", "indptr does not start at 0", "Save scipy's CSR arrays")
        self._check_width()

    def _check_width(self) -> None:
        given = self.options.n_features
        if self.n_features < 0 or self.n_features > self.options.max_features:
            raise LimitError(
                f"{self.n_features} features exceed max_features={self.options.max_features}",
                fix="Raise max_features if this is meant",
                file=self.file,
            )
        fits = (
            given is None or self.n_features == given or (self.sparse and self.n_features < given)
        )
        if not fits:
            raise self._misfit(
                "X", f"{self.n_features} features where n_features={given}", "Leave n_features out"
            )
        self.width = self.n_features if given is None else given

    def _column(self, name: str | None) -> NpyStream | None:
        if name is None:
            return None
        stream = self._open(name)
        if stream.shape != (self.n_rows,):
            raise self._misfit(
                name, f"{name} is {stream} for {self.n_rows} rows", "Save one value per row"
            )
        return stream

    def _read_names(self, members: Any) -> tuple[str, ...] | None:
        if "feature_names" not in members.names:
            return None
        stream = self._open("feature_names")
        if stream.shape != (self.n_features,) or stream.dtype.kind != "U":
            raise self._misfit(
                "feature_names",
                f"feature_names is {stream} for {self.n_features} features",
                "Save one string per feature",
            )
        return tuple(stream.take(self.n_features).tolist())

    def _misfit(self, column: str, reason: str, fix: str) -> SchemaError:
        return SchemaError(reason, fix=fix, file=self.file, column=column)

    # ---------------------------------------------------------------- reading
    def block(self, start: int, count: int) -> Dataset:
        """The next ``count`` rows."""
        place = Place(self.file, start)
        faults = RowFaults(place, count, skip=self.options.on_bad_row == "skip")
        X = self._csr_block(count, faults) if self.sparse else self._dense_block(count, faults)
        y = np.zeros(count) if self.label is None else _floats(self.label, count, faults)
        qid = self._ids(self.query, count)
        names = self.names if self.width == self.n_features else None
        weight, position = self.others["weight"], self.others["position"]
        data = Dataset(
            stored_as(X, self.options, place),
            y,
            np.zeros(count, dtype=np.int64) if qid is None else qid,
            self._ids(self.others["docid"], count),
            names,
            None
            if weight is None
            else refuse_weights(_floats(weight, count, faults), weight.name, faults),
            None
            if position is None
            else refuse_positions(self._integers(position, count), position.name, faults),
            {name: self._value(stream, count, faults) for name, stream in self.extra.items()},
            sources=(self.file,),
            notes=faults.notes,
            lines=np.arange(start + 1, start + count + 1),
        )
        return data if faults.bad is None else data.take(np.flatnonzero(~faults.bad))

    def _dense_block(self, count: int, faults: RowFaults) -> NDArray[Any]:
        stored = self.X.take(count)
        matrix = exact_floats(stored, self._dtype(stored.dtype), "X", faults)
        if finite(matrix):
            return matrix
        names = self.names or tuple(f"X[:, {j}]" for j in range(self.n_features))
        zero = self.options.missing == "zero"
        columns = [
            refuse_not_finite(matrix[:, j], name, faults, zero=zero) for j, name in enumerate(names)
        ]
        return np.column_stack(columns)

    def _csr_block(self, count: int, faults: RowFaults) -> Any:
        ends = self.pointer.take(count).astype(np.int64)
        pointer = np.concatenate([[self._end], ends])
        nnz = self.data.shape[0]
        if (np.diff(pointer) < 0).any() or pointer[-1] > nnz:
            row = int(np.argmax((np.diff(pointer) < 0) | (ends > nnz)))
            raise faults.place.error(
                row,
                "indptr",
                f"indptr {pointer[row]}, {ends[row]} is out of order or range",
                "Save scipy's CSR arrays",
            )
        first, self._end = self._end, int(pointer[-1])
        pointer -= first
        items = ItemFaults(faults, pointer)
        stored = self.data.take(self._end - first)
        values = exact_floats(stored, self._dtype(stored.dtype), "data", items)
        if not finite(values):
            values = refuse_not_finite(values, "data", items, zero=self.options.missing == "zero")
        faults.missing += items.missing
        indices = self.indices.take(self._end - first)
        zero_based = replace(self.options, base=0)
        return csr_rows(values, indices, pointer, self.width, zero_based, items, "indices")

    def finish(self) -> None:
        """Check that the row pointer covered everything."""
        if self.sparse and self._end != self.data.shape[0]:
            raise self._misfit(
                "indptr",
                f"indptr ends at {self._end} but there are {self.data.shape[0]} values",
                "Save scipy's CSR arrays",
            )

    def _dtype(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        if self.options.dtype is not None:
            return np.dtype(self.options.dtype)
        return np.dtype(np.float32 if stored in (np.float32, np.float16) else np.float64)

    def _ids(self, stream: NpyStream | None, count: int) -> NDArray[Any] | None:
        if stream is None:
            return None
        if stream.dtype.kind == "U":
            return stream.take(count).astype(TEXT)
        values = self._integers(stream, count)
        return (
            values.astype(TEXT)
            if self.options.qid_type == "str" and stream is self.query
            else values
        )

    def _integers(self, stream: NpyStream, count: int) -> NDArray[np.int64]:
        if stream.dtype.kind not in "iu":
            raise self._misfit(
                stream.name, f"{stream.name} is {stream}", "Save integers (or strings, for ids)"
            )
        return check_qid(stream.take(count))

    def _value(self, stream: NpyStream | None, count: int, faults: RowFaults) -> NDArray[Any]:
        if stream is None or stream.dtype.kind not in "fiubUM":
            raise self._misfit("columns", f"member is {stream}", "Save numbers, strings or times")
        values = stream.take(count)
        if stream.dtype.kind == "U":
            return values.astype(TEXT)
        if stream.dtype.kind == "f" and not finite(values):
            return refuse_not_finite(
                values, stream.name, faults, zero=self.options.missing == "zero"
            )
        return values


def _floats(stream: NpyStream, count: int, faults: RowFaults) -> NDArray[np.float64]:
    if stream.dtype.kind not in "fiub":
        raise SchemaError(
            f"{stream.name} is {stream}, not numbers",
            fix="Save real numbers",
            file=faults.place.file,
            column=stream.name,
        )
    values = exact_floats(stream.take(count), np.dtype(np.float64), stream.name, faults)
    return values if finite(values) else refuse_not_finite(values, stream.name, faults)
