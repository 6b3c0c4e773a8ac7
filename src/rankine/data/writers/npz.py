"""npz archives, written with bounded memory: arrays grow side by side, then join the archive."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.atomic import atomic_file
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rankine.data.dataset import Dataset

__all__ = ["write_blocks"]

_RESERVED = frozenset(
    [
        "X",
        "data",
        "indices",
        "indptr",
        "shape",
        "y",
        "qid",
        "docid",
        "weight",
        "position",
        "feature_names",
    ]
)


def write_blocks(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    compression: str = "none",
) -> int:
    """Write blocks to an npz archive that appears only when it is complete.

    Parameters
    ----------
    blocks
        Datasets in row order, all of one width.
    path
        The file.
    layout
        "columns" (dense ``X``) or "sparse" (CSR); None takes the storage of the first block.
    compression
        "none" or "deflate".

    Returns
    -------
    int
        Rows written. Strings (ids) are kept in memory until the end, numbers are not.
    """
    if compression not in ("none", "deflate"):
        raise ParameterError(
            f"compression={compression!r} is not known", fix="Choose none or deflate"
        )
    if layout not in (None, "columns", "sparse"):
        raise ParameterError(f"layout={layout!r} is not known", fix="Choose columns or sparse")
    folder = Path(os.path.realpath(path)).parent
    with atomic_file(path) as file, tempfile.TemporaryDirectory(dir=folder, prefix=".npz-") as room:
        growing = _Growing(Path(room), layout)
        for block in blocks:
            growing.add(block)
        if growing.n_rows == 0:
            raise EmptyDataError("there are no rows to write", fix="Check the input")
        kind = zipfile.ZIP_DEFLATED if compression == "deflate" else zipfile.ZIP_STORED
        with zipfile.ZipFile(file, "w", kind, allowZip64=True) as archive:
            growing.save(archive)
    return growing.n_rows


class _Growing:
    """Arrays that grow block by block: numbers in files, strings in memory."""

    def __init__(self, room: Path, layout: str | None) -> None:
        self._room = room
        self._layout = layout
        self._types: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._counts: dict[str, int] = {}
        self._texts: dict[str, list[NDArray[Any]]] = {}
        self._first: Dataset | None = None
        self.n_rows = 0
        self._nnz = 0

    def add(self, block: Dataset) -> None:
        first = self._first
        if first is None:
            first = self._first = block
            if self._layout is None:
                self._layout = "sparse" if sparse.issparse(block.X) else "columns"
        if block.n_features != first.n_features or block.feature_names != first.feature_names:
            raise SchemaError(
                f"a block has {block.n_features} features where the first has {first.n_features}, "
                "or other names",
                fix="Give all blocks the same features",
            )
        if self._layout == "sparse":
            self._add_csr(block.X)
        else:
            self._append("X", block.X.toarray() if sparse.issparse(block.X) else block.X)
        self.n_rows += block.n_rows
        for name in block.columns:
            if name in _RESERVED:
                raise SchemaError(
                    f"a column is called {name!r}, which has another meaning",
                    fix="Rename it",
                    column=name,
                )
        columns = {"y": block.y, "qid": block.qid, "docid": block.docid, "weight": block.weight}
        columns |= {"position": block.position, **block.columns}
        for name, values in columns.items():
            if values is not None:
                self._append(name, np.asarray(values))

    def _add_csr(self, X: Any) -> None:
        rows = X if sparse.issparse(X) else sparse.csr_matrix(X)
        pointer = rows.indptr.astype(np.int64) + self._nnz
        self._nnz += rows.nnz
        self._append("indptr", pointer if self.n_rows == 0 else pointer[1:])
        self._append("indices", rows.indices.astype(np.int32, copy=False))
        self._append("data", rows.data)

    def _append(self, name: str, values: NDArray[Any]) -> None:
        if values.dtype.kind in "UTO":
            self._texts.setdefault(name, []).append(values)
            return
        kind = (values.dtype, values.shape[1:])
        if self._types.setdefault(name, kind) != kind:
            raise SchemaError(
                f"{name} is {values.dtype} here and {self._types[name][0]} before",
                fix="Give all blocks the same types",
                column=name,
            )
        self._counts[name] = self._counts.get(name, 0) + len(values)
        with self._path(name).open("ab") as file:
            file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def _path(self, name: str) -> Path:
        """Temporary file of an array; names of columns may hold anything."""
        return self._room / str(list(self._types).index(name))

    def save(self, archive: zipfile.ZipFile) -> None:
        for name, (dtype, row) in self._types.items():
            count = self._counts[name]
            self._complete(name, count)
            with (
                _member(archive, name, (count, *row), dtype) as out,
                self._path(name).open("rb") as raw,
            ):
                shutil.copyfileobj(raw, out, 2**22)
        for name, parts in self._texts.items():
            self._complete(name, sum(len(part) for part in parts))
            _save_text(archive, name, parts)
        first = self._first
        if first is None:
            return
        if self._layout == "sparse":
            shape = np.array([self.n_rows, first.n_features], dtype=np.int64)
            with _member(archive, "shape", (2,), shape.dtype) as out:
                out.write(shape.tobytes())
        if first.feature_names is not None:
            _save_text(archive, "feature_names", [np.asarray(first.feature_names, dtype="U")])

    def _complete(self, name: str, count: int) -> None:
        per_row = name not in ("data", "indices", "indptr")
        if per_row and count != self.n_rows:
            raise SchemaError(
                f"{name} has {count} values for {self.n_rows} rows",
                fix="Give it for all blocks or for none",
                column=name,
            )


def _save_text(archive: zipfile.ZipFile, name: str, parts: list[NDArray[Any]]) -> None:
    width = max((len(text) for part in parts for text in part.tolist()), default=1)
    dtype = np.dtype(f"U{max(width, 1)}")
    with _member(archive, name, (sum(len(part) for part in parts),), dtype) as out:
        for part in parts:
            out.write(part.astype(dtype).tobytes())


@contextmanager
def _member(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Iterator[IO[bytes]]:
    """Open an array of the archive; equal data give equal files, so it carries no time."""
    info = zipfile.ZipInfo(f"{name}.npy")
    info.compress_type = archive.compression
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with archive.open(info, "w", force_zip64=True) as out:
        npy.write_array_header_2_0(out, header)
        yield out
