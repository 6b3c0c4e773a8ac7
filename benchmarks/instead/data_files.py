"""The rows that everyone learns from: three parts in npz files.

Dense features are divided by their standard deviation in the training part, for everyone: linear
learners without a scaling of their own would suffer most, trees do not mind.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

PARTS = ("train", "vali", "test")


def write(folder, part, X, y, qid):
    """Write one part; the rows of a query are contiguous."""
    if sparse.issparse(X):
        fields = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    else:
        fields = {"X": X}
    np.savez(folder / f"{part}.npz", y=y, qid=qid, **fields)


def write_parts(folder, parts):
    """Training, validation and test rows (X, y, qid); returns their numbers."""
    X = parts[0][0]
    factors = None
    if not sparse.issparse(X):
        spread = X.std(axis=0)
        factors = np.where(spread > 0, 1 / np.maximum(spread, 1e-12), 0.0).astype(X.dtype)
    sizes = {}
    for name, (rows, y, qid) in zip(PARTS, parts, strict=True):
        write(folder, name, rows if factors is None else rows * factors, y, qid)
        sizes[name] = {"rows": len(y), "queries": len(np.unique(qid))}
    return sizes


def split(X, y, qid, shares=(0.6, 0.2, 0.2)):
    """Split the queries, in order, into three parts; the rows of a query are contiguous."""
    queries = np.unique(qid)
    cuts = np.cumsum(np.rint(np.array(shares) * len(queries)).astype(int))[:-1]
    starts = [0, *np.searchsorted(qid, queries[cuts]), len(qid)]
    return [(X[a:b], y[a:b], qid[a:b]) for a, b in zip(starts, starts[1:], strict=False)]
