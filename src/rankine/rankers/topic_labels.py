"""A matrix of labels, one column per topic, in which rows may be missing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import ParameterError, SchemaError

__all__ = ["ABSENT", "TopicLabels"]

ABSENT = ("auto", "missing", "zero")


class TopicLabels(NamedTuple):
    """Labels of many topics.

    Attributes
    ----------
    matrix
        Dense array with NaN for missing, or CSC array.
    absent_is_missing
        Whether what a CSC array does not store is missing (else it is label 0).
    """

    matrix: Any
    absent_is_missing: bool

    @classmethod
    def of(cls, Y: Any, n_rows: int, absent: str = "auto") -> TopicLabels:
        """Check a label matrix.

        ``absent`` says what entries mean that a sparse Y does not store: "missing" (not a
        candidate), "zero" (label 0), or "auto": label 0 when no topic stores two different labels
        (an indicator matrix, from which nothing could be learnt otherwise), missing when every
        topic does.
        """
        if absent not in ABSENT:
            raise ParameterError(
                f"absent={absent!r} is not one of {', '.join(ABSENT)}", fix="Choose one of them"
            )
        if sparse.issparse(Y):
            matrix = sparse.csc_array(Y)
            matrix.sum_duplicates()
            stored = matrix.data
        else:
            matrix = np.asarray(Y, dtype=np.float64)
            matrix = matrix[:, None] if matrix.ndim == 1 else matrix
            stored = matrix[~np.isnan(matrix)]
        if matrix.ndim != 2 or matrix.shape[0] != n_rows:
            raise SchemaError(
                f"Y has shape {matrix.shape} for {n_rows} rows", fix="Pass rows x topics"
            )
        if not np.isfinite(stored).all():
            raise SchemaError("Y holds infinite labels", fix="NaN in a dense Y marks missing rows")
        missing = sparse.issparse(matrix) and _absent_is_missing(matrix, absent)
        return cls(matrix, missing)

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return int(self.matrix.shape[1])

    def column(self, topic: int) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """Labels of a topic, and which rows are its candidates (None: all of them)."""
        if not sparse.issparse(self.matrix):
            values = self.matrix[:, topic]
            known = ~np.isnan(values)
            if known.all():
                return np.ascontiguousarray(values), None
            return np.where(known, values, 0.0), known
        start, stop = self.matrix.indptr[topic], self.matrix.indptr[topic + 1]
        rows = self.matrix.indices[start:stop]
        values = np.zeros(self.matrix.shape[0])
        values[rows] = self.matrix.data[start:stop]
        if not self.absent_is_missing:
            return values, None
        known = np.zeros(self.matrix.shape[0], dtype=bool)
        known[rows] = True
        return values, known


def _absent_is_missing(matrix: Any, absent: str) -> bool:
    if absent != "auto":
        return absent == "missing"
    pointers = matrix.indptr
    several = [
        len(np.unique(matrix.data[a:b])) > 1
        for a, b in zip(pointers[:-1].tolist(), pointers[1:].tolist(), strict=True)
    ]
    if all(several):
        return True
    if not any(several):
        return False
    raise ParameterError(
        f"{sum(several)} of {len(several)} topics of the sparse Y store several labels, "
        "so it is unclear what entries mean that are not stored",
        fix="Pass absent='zero' (label 0) or absent='missing' (not a candidate)",
    )
