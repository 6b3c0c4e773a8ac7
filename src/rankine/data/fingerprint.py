"""Compute a digest that is equal for equal data in any format, storage and blocks.

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

from rankine.data.dataset import Dataset, row_slices
from rankine.kernels.compile import jit

if TYPE_CHECKING:
    from collections.abc import Iterable


_VERSION = b"rankine-data-1"
_COLUMNS = ("label", "query", "length", "index", "value")
#: Values hashed at a time, so that temporaries stay small.
_SLAB_VALUES = 2**20


def fingerprint(blocks: Iterable[Dataset]) -> str:
    """Compute the digest of a data set that is given as blocks in row order."""
    columns = {name: hashlib.sha256() for name in _COLUMNS}
    names: tuple[str, ...] | None = None
    width = n_rows = 0

    def add(name: str, values: NDArray[Any]) -> None:
        columns[name].update(np.ascontiguousarray(values).data)

    for block in blocks:
        names = block.feature_names
        width = max(width, block.n_features)
        n_rows += block.n_rows
        # Adding 0 turns -0 into 0, which is equal but has other bits.
        add("label", block.y.astype(np.float64, copy=False) + 0.0)
        add("query", _ids(block.qid))
        for rows in row_slices(block, _SLAB_VALUES):
            lengths, indices, values = _stored(block.X[rows])
            add("length", lengths.astype("<i8", copy=False))
            add("index", indices.astype("<i4", copy=False))
            add("value", values.astype("<f8", copy=False))
    whole = hashlib.sha256(_VERSION)
    whole.update(np.array([n_rows, width], dtype="<i8").tobytes())
    whole.update(repr(names).encode("utf-8", "backslashreplace"))
    for name in _COLUMNS:
        whole.update(columns[name].digest())
    return whole.hexdigest()


def _ids(qid: NDArray[Any]) -> NDArray[Any]:
    """Return the bytes of query ids: integers unchanged, strings as UTF-8 with their lengths."""
    if qid.dtype.kind == "i":
        return qid.astype("<i8", copy=False)
    texts = [str(text).encode("utf-8", "surrogatepass") for text in qid.tolist()]
    marked = b"".join(b"%d:%b" % (len(text), text) for text in texts)
    return np.frombuffer(marked, dtype=np.uint8)


def _stored(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return row lengths, indices and values of the non-zeros of some rows."""
    if not sparse.issparse(X):
        lengths, indices, values = _entries(np.ascontiguousarray(X))
        return lengths, indices, values
    if not X.data.all():
        X = X.copy()  # all rows of a matrix are the matrix itself
        X.eliminate_zeros()
    return np.diff(X.indptr), X.indices, X.data


@jit
def _entries(X: Any) -> Any:
    """Return row lengths, indices and values of the non-zeros of dense rows."""
    lengths = np.zeros(X.shape[0], dtype=np.int64)
    indices = np.empty(X.size, dtype=np.int32)
    values = np.empty(X.size, dtype=np.float64)
    n_entries = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if X[i, j] != 0.0:
                indices[n_entries] = j
                values[n_entries] = X[i, j]
                n_entries += 1
                lengths[i] += 1
    return lengths, indices[:n_entries].copy(), values[:n_entries].copy()
