"""npz archives: dense ``X``, or CSR ``data``, ``indices``, ``indptr``, ``shape``; ``y``, ``qid``.

Optional members: ``docid``, ``weight``, ``position``, ``feature_names`` and any others named by
``columns``. Archives are read whole, by numpy; nothing is ever unpickled, and no allocation follows
a number in the file before it was checked against the file's size.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from rankine.core.errors import CompressionError, FileKindError, LimitError, SchemaError
from rankine.data.dataset import Dataset, finite
from rankine.data.options import ReadOptions
from rankine.data.progress import Meter
from rankine.data.readers.column_plan import ColumnPlan, check_width
from rankine.data.readers.columns import ItemFaults, csr_rows, rows_to_dataset
from rankine.data.readers.values import (
    Place,
    RowFaults,
    arrow_errors,
    exact_floats,
    first_line,
    open_seekable,
    refuse_not_finite,
)
from rankine.data.sources import Source

_CSR = {"data": "fiub", "indices": "iu", "indptr": "iu", "shape": "iu"}
_SCIPY = "Save scipy's CSR arrays"
#: Expansion is not judged below this size: small arrays may be very repetitive.
_RATIO_FREE = 64 * 2**20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)


def read(source: Source, options: ReadOptions) -> Dataset:
    """The whole archive."""
    with source.watched(), _opened(source) as archive, Meter(source, options) as meter:
        data = _ArchiveReader(archive, source.name, options).dataset()
        meter.update(cast("int", source.size))  # known, since the file is open
    return data


@contextmanager
def _opened(source: Source) -> Iterator[zipfile.ZipFile]:
    with open_seekable(source, "npz") as raw:
        try:
            archive = zipfile.ZipFile(raw)
        except (*_DAMAGE, ValueError) as error:
            raise FileKindError(
                f"not a complete npz archive: {first_line(error)}", fix="Save it again"
            ) from error
        with archive:
            yield archive


class _ArchiveReader:
    """The arrays of one archive, by role."""

    def __init__(self, archive: zipfile.ZipFile, file: str, options: ReadOptions) -> None:
        self._archive = archive
        self._file = file
        self._options = options
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in self._infos:
                raise SchemaError(f"two members are called {name!r}", fix="Save it again")
            self._infos[name] = info

    def dataset(self) -> Dataset:
        options = self._options
        X: Any = self._dense_array() if "X" in self._infos else self._csr_arrays()
        dense = isinstance(X, np.ndarray)
        self._n_rows, n_features = X.shape if dense else X["shape"]
        width = self._check_width(n_features, sparse=not dense)
        names = self._names(n_features)
        stored = X if dense else X["data"]
        plan = ColumnPlan(
            label="y" if options.label == "label" and "y" in self._infos else options.label,
            query=options.query if options.has_query_ids else None,
            docid=self._role("docid"),
            weight=self._role("weight"),
            position=self._role("position"),
            extra=tuple(options.columns),
            features=(),  # they are read here
            sparse=False,
            dtype=self._dtype(stored.dtype),
            n_features=width,
            feature_names=names if width == n_features else None,
        )
        faults = RowFaults(Place(self._file), self._n_rows, skip=options.on_bad_row == "skip")
        matrix = self._dense(X, names, plan, faults) if dense else self._csr(X, plan, faults)
        return rows_to_dataset(matrix, self._column, plan, options, faults)

    # ---------------------------------------------------------------- members
    def _array(self, name: str) -> NDArray[Any]:
        """One array, its header checked against its size before numpy reads it."""
        if name not in self._infos:
            held = ", ".join(repr(member) for member in sorted(self._infos)[:12])
            raise self._misfit(
                name,
                f"no member {name!r}; the archive holds {held}",
                "Save X (or data, indices, indptr, shape), y and qid, or use label= and query=",
            )
        info = self._infos[name]
        limit = self._options.max_ratio
        if info.file_size > max(_RATIO_FREE, limit * max(info.compress_size, 1)):
            raise LimitError(
                f"member {name!r} expands to more than {limit} times its size",
                fix="If the file can be trusted, pass a larger max_ratio",
                column=name,
            )
        self._check_header(name, info)
        try:
            with self._archive.open(info) as member:
                array = npy.read_array(member, allow_pickle=False, max_header_size=10_000)
        except (*_DAMAGE, ValueError) as error:
            raise self._bad_member(name, f"is damaged: {first_line(error)}") from error
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return np.ascontiguousarray(native) if native.ndim else native

    def _check_header(self, name: str, info: zipfile.ZipInfo) -> None:
        try:
            member = self._archive.open(info)
        except (*_DAMAGE, ValueError) as error:
            raise CompressionError(
                f"member {name!r} cannot be opened: {first_line(error)}", fix="Save it again"
            ) from error
        with member:
            try:
                version = npy.read_magic(member)
                read_header = (
                    npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                )
                shape, _, dtype = read_header(member, max_header_size=10_000)
            except (*_DAMAGE, ValueError, TypeError, KeyError, SyntaxError) as error:
                raise self._bad_member(name, f"is not an array: {first_line(error)}") from error
            stored = info.file_size - member.tell()
        if dtype.hasobject or dtype.itemsize == 0:
            raise self._bad_member(name, f"holds {dtype}: Python objects are never read")
        if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != stored:
            raise self._bad_member(name, f"says it holds {shape} but has {stored} bytes")

    def _bad_member(self, name: str, reason: str) -> SchemaError:
        return self._misfit(name, f"member {name!r} {reason}", "Save it again")

    def _misfit(self, column: str, reason: str, fix: str) -> SchemaError:
        return SchemaError(reason, fix=fix, column=column)

    # ---------------------------------------------------------------- the matrix
    def _dense_array(self) -> NDArray[Any]:
        X = self._array("X")
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise self._misfit("X", f"X is {_kind(X)}", "Save a numeric matrix of rows x features")
        return X

    def _csr_arrays(self) -> dict[str, Any]:
        arrays: dict[str, Any] = {name: self._array(name) for name in _CSR}
        for name, kinds in _CSR.items():
            if arrays[name].ndim != 1 or arrays[name].dtype.kind not in kinds:
                raise self._misfit(name, f"{name} is {_kind(arrays[name])}", _SCIPY)
        if arrays["shape"].shape != (2,):
            raise self._misfit("shape", f"shape is {_kind(arrays['shape'])}", "Save rows x columns")
        n_rows, _ = arrays["shape"] = tuple(int(side) for side in arrays["shape"])
        pointer = arrays["indptr"] = arrays["indptr"].astype(np.int64)
        if n_rows < 0 or pointer.shape != (n_rows + 1,):
            raise self._misfit("indptr", f"indptr is {_kind(pointer)} for {n_rows} rows", _SCIPY)
        if arrays["data"].shape != arrays["indices"].shape:
            raise self._misfit("data", "there are not as many values as indices", _SCIPY)
        ends = (pointer[0], pointer[-1])
        if ends != (0, len(arrays["data"])) or (np.diff(pointer) < 0).any():
            raise self._misfit(
                "indptr", f"indptr does not rise from 0 to {len(arrays['data'])}", _SCIPY
            )
        return arrays

    def _check_width(self, width: int, *, sparse: bool) -> int:
        given = self._options.n_features
        check_width(width, None, self._options)
        if given is not None and (given < width or (given > width and not sparse)):
            raise self._misfit(
                "X", f"{width} features where n_features={given}", "Leave n_features= out"
            )
        return width if given is None else given

    def _dense(
        self,
        stored: NDArray[Any],
        names: tuple[str, ...] | None,
        plan: ColumnPlan,
        faults: RowFaults,
    ) -> NDArray[Any]:
        matrix = exact_floats(stored, plan.dtype, "X", faults)
        if finite(matrix):
            return matrix
        names = names or tuple(f"X[:, {j}]" for j in range(matrix.shape[1]))
        columns = [
            refuse_not_finite(matrix[:, j], name, faults, missing=True)
            for j, name in enumerate(names)
        ]
        return np.column_stack(columns)

    def _csr(self, arrays: dict[str, Any], plan: ColumnPlan, faults: RowFaults) -> Any:
        items = ItemFaults(faults, arrays["indptr"])
        values = exact_floats(arrays["data"], plan.dtype, "data", items)
        values = refuse_not_finite(values, "data", items, missing=True)
        faults.missing += items.missing
        zero_based = replace(self._options, base=0)
        return csr_rows(
            values,
            arrays["indices"],
            arrays["indptr"],
            plan.n_features,
            zero_based,
            items,
            "indices",
        )

    def _dtype(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        if self._options.dtype is not None:
            return np.dtype(self._options.dtype)
        return np.dtype(np.float32 if stored in (np.float32, np.float16) else np.float64)

    # ---------------------------------------------------------------- columns
    def _names(self, n_features: int) -> tuple[str, ...] | None:
        if "feature_names" not in self._infos:
            return None
        names = self._array("feature_names")
        if names.shape != (n_features,) or names.dtype.kind != "U":
            raise self._misfit(
                "feature_names",
                f"feature_names is {_kind(names)} for {n_features} features",
                "Save one string per feature",
            )
        return tuple(names.tolist())

    def _role(self, role: str) -> str | None:
        """Name of an optional member; one that was named by the caller must be there."""
        name: str | None = getattr(self._options, role)
        return None if name == role and name not in self._infos else name

    def _column(self, name: str) -> pa.Array:
        values = self._array(name)
        if values.shape != (self._n_rows,):
            raise self._misfit(
                name, f"{name} is {_kind(values)} for {self._n_rows} rows", "Save one value per row"
            )
        if values.dtype.kind not in "fiubUM":
            raise self._misfit(name, f"{name} is {_kind(values)}", "Save numbers, text or times")
        with arrow_errors(f"member {name!r}", SchemaError):
            return pa.array(values)


def _kind(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"
