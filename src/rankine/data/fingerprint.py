"""One digest for equal data, in whatever format, storage or blocks it comes.

The digest covers labels, query ids, non-zero features and feature names, in row order:

    SHA-256(version, columns, names, digest of each column)

where labels, ids, row lengths, feature indices and feature values are five columns, each hashed by
its own SHA-256 as the blocks arrive. A stream therefore has the digest of the whole. Stored zeros,
the width of the floats (values are hashed as float64) and the index type do not matter.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.kernels.compile import jit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankine.data.dataset import Dataset


_VERSION = b"rankine-data-1"
_COLUMNS = ("label", "query", "length", "index", "value")
#: Rows hashed at a time, so that temporaries stay small.
_SLAB_VALUES = 2**20


def fingerprint(blocks: Iterable[Dataset]) -> str:
    """Digest of a data set given as blocks in row order, such as a ``Scan``."""
    state = Fingerprint()
    for block in blocks:
        state.update(block)
    return state.hexdigest()


class Fingerprint:
    """A digest that grows block by block."""

    def __init__(self) -> None:
        self._columns = {name: hashlib.sha256() for name in _COLUMNS}
        self._names: tuple[str, ...] | None = None
        self._width = 0
        self.n_rows = 0

    def update(self, block: Dataset) -> None:
        """Add the rows of a block."""
        self._names = block.feature_names
        self._width = max(self._width, block.n_features)
        self.n_rows += block.n_rows
        self._add("label", block.y.astype(np.float64, copy=False) + 0.0)
        self._add("query", _ids(block.qid))
        if sparse.issparse(block.X):
            self._add_sparse(block.X)
        else:
            self._add_dense(np.asarray(block.X))

    def _add_sparse(self, X: Any) -> None:
        pointer = X.indptr
        start = 0
        while start < X.shape[0]:
            limit = int(pointer[start]) + _SLAB_VALUES
            stop = max(start + 1, int(np.searchsorted(pointer, limit, side="right")) - 1)
            first, last = int(pointer[start]), int(pointer[stop])
            values, indices = X.data[first:last], X.indices[first:last]
            lengths = np.diff(pointer[start : stop + 1]).astype(np.int64)
            if values.all():
                self._add_entries(lengths, indices, values)
            else:
                kept = values != 0
                owner = np.repeat(np.arange(stop - start), lengths)
                lengths = np.bincount(owner[kept], minlength=stop - start)
                self._add_entries(lengths, indices[kept], values[kept])
            start = stop

    def _add_dense(self, X: NDArray[Any]) -> None:
        rows = max(1, _SLAB_VALUES // max(X.shape[1], 1))
        for start in range(0, X.shape[0], rows):
            self._add_entries(*_entries(np.ascontiguousarray(X[start : start + rows])))

    def _add_entries(
        self, lengths: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        self._add("length", lengths.astype("<i8", copy=False))
        self._add("index", indices.astype("<i4", copy=False))
        self._add("value", values.astype("<f8", copy=False))

    def _add(self, name: str, values: NDArray[Any]) -> None:
        self._columns[name].update(np.ascontiguousarray(values).data)

    def hexdigest(self) -> str:
        """The digest of all rows so far."""
        whole = hashlib.sha256(_VERSION)
        whole.update(np.array([self.n_rows, self._width], dtype="<i8").tobytes())
        whole.update(repr(self._names).encode("utf-8", "backslashreplace"))
        for name in _COLUMNS:
            whole.update(self._columns[name].digest())
        return whole.hexdigest()


def _ids(qid: NDArray[Any]) -> NDArray[Any]:
    """Integers as they are; strings as UTF-8 with their lengths."""
    if qid.dtype.kind == "i":
        return qid.astype("<i8", copy=False)
    texts = [str(text).encode("utf-8", "surrogatepass") for text in qid.tolist()]
    marked = b"".join(b"%d:%b" % (len(text), text) for text in texts)
    return np.frombuffer(marked, dtype=np.uint8)


@jit
def _entries(X: Any) -> Any:
    """Row lengths, indices and values of the non-zeros of dense rows."""
    lengths = np.zeros(X.shape[0], dtype=np.int64)
    indices = np.empty(X.size, dtype=np.int32)
    values = np.empty(X.size, dtype=np.float64)
    used = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if X[i, j] != 0.0:
                indices[used] = j
                values[used] = X[i, j]
                used += 1
                lengths[i] += 1
    return lengths, indices[:used].copy(), values[:used].copy()
