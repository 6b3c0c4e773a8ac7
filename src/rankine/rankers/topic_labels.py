"""Labels of many topics over the same rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.checks import check_choice
from rankine.core.errors import ParameterError, SchemaError

ABSENT = ("auto", "missing", "zero")


class TopicLabels(NamedTuple):
    """Labels of many topics: a dense array with NaN for missing, or a CSC array."""

    matrix: Any
    #: Whether entries that a CSC array does not store are missing (else they are label 0).
    absent_is_missing: bool

    @classmethod
    def from_matrix(cls, Y: Any, n_rows: int, absent: str = "auto") -> TopicLabels:
        """Check a label matrix; ``absent`` as in ``fit_topics``."""
        check_choice("absent", absent, ABSENT)
        if sparse.issparse(Y):
            matrix = sparse.csc_array(Y)
            matrix.sum_duplicates()
            stored = matrix.data
        else:
            matrix = np.asarray(Y, dtype=np.float64)
            if matrix.ndim == 1:
                matrix = matrix[:, None]
            stored = matrix[~np.isnan(matrix)]
        if matrix.ndim != 2 or matrix.shape[0] != n_rows:
            raise SchemaError(
                f"the shape is {matrix.shape} for {n_rows} rows",
                parameter="Y",
                fix="Pass rows x topics",
            )
        if not np.isfinite(stored).all():
            raise SchemaError(
                "it holds infinite labels",
                parameter="Y",
                fix="Pass finite labels; NaN in a dense Y marks missing rows",
            )
        return cls(matrix, sparse.issparse(matrix) and _is_absent_missing(matrix, absent))

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return int(self.matrix.shape[1])

    def column(self, topic: int) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """Return the labels of a topic and which rows are its candidates (None: all of them)."""
        if not sparse.issparse(self.matrix):
            labels = self.matrix[:, topic]
            is_candidate = ~np.isnan(labels)
            if is_candidate.all():
                return np.ascontiguousarray(labels), None
            return np.where(is_candidate, labels, 0.0), is_candidate
        start, stop = self.matrix.indptr[topic], self.matrix.indptr[topic + 1]
        rows = self.matrix.indices[start:stop]
        labels = np.zeros(self.matrix.shape[0])
        labels[rows] = self.matrix.data[start:stop]
        if not self.absent_is_missing:
            return labels, None
        is_candidate = np.zeros(self.matrix.shape[0], dtype=bool)
        is_candidate[rows] = True
        return labels, is_candidate


def _is_absent_missing(matrix: Any, absent: str) -> bool:
    if absent != "auto":
        return absent == "missing"
    ends = matrix.indptr[1:-1]
    has_two_labels = [len(np.unique(labels)) > 1 for labels in np.split(matrix.data, ends)]
    if all(has_two_labels):
        return True
    if not any(has_two_labels):
        return False
    raise ParameterError(
        f"{sum(has_two_labels)} of {len(has_two_labels)} topics of the sparse Y store several "
        "labels, so it is unclear what entries mean that are not stored",
        parameter="absent",
        fix="Pass 'zero' (label 0) or 'missing' (not a candidate)",
    )
