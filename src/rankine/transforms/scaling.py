"""Feature scaling: global factors that fold into the weights, and per-list ranges that do not.

A constant added to a feature changes no ranking, so nothing is ever subtracted and sparse data
stays sparse: ``standard`` divides by the standard deviation, ``maxabs`` by the largest magnitude,
``query`` by the range within each list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.core.specs import ListRange, RunScores
from rankine.kernels.compile import jit
from rankine.kernels.dispatch import question
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import CsrRows, DenseRows, Rows
from rankine.kernels.run_scores import run_score_values
from rankine.transforms.clicks import widen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import msgspec

    from rankine.data.dataset import Dataset


SCALES = ("none", "standard", "maxabs", "query")
"""Values of the rankers' parameter ``scale``."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """A fitted scaling.

    Attributes
    ----------
    kind
        One of ``SCALES``.
    factors
        Column multipliers of the global kinds, else None.
    positions
        Positions with an offset of their own in training rows (see ``widen``); 0 for none.
    """

    kind: str
    factors: NDArray[np.float64] | None = None
    positions: int = 0

    def apply(self, data: Dataset) -> Dataset:
        """Scaled copy of the data (the data itself for ``none``)."""
        if self.kind == "none":
            return data
        if self.kind == "query":
            scaled = scale_lists(data, dtype=data.X.dtype)
        else:
            assert self.factors is not None  # noqa: S101 - narrows the type
            scaled = _multiply_columns(data.X, self.factors)
        return replace(data, X=scaled, query_index=data.queries)

    def prepare(self, data: Dataset) -> Dataset:
        """Training rows: scaled, then with their columns of positions."""
        return widen(self.apply(data), self.positions)

    def split(self, coef: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of the features, and offsets of positions 2, 3, ... (scored without them)."""
        kept = len(coef) - max(self.positions - 1, 0)
        return coef[:kept], coef[kept:]

    def fold(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights for unscaled rows: X diag(f) w = X (f w), without offsets."""
        coef = self.split(coef)[0]
        return coef if self.factors is None else coef * self.factors

    def unfold(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights for training rows, to warm-start from folded ones; offsets start at 0."""
        if self.factors is not None:
            coef = np.divide(coef, self.factors, out=np.zeros_like(coef), where=self.factors != 0)
        return np.r_[coef, np.zeros(self.positions - 1)] if self.positions else coef

    @property
    def transforms(self) -> tuple[msgspec.Struct, ...]:
        """What a model has to run at scoring time because it cannot be folded."""
        return (ListRange(),) if self.kind == "query" else ()


def fit_scaling(kind: str, data: Dataset) -> Scaling:
    """Measure what a scaling needs on training data."""
    return measure_scaling(kind, lambda: [data], data.n_features)


def measure_scaling(kind: str, read: Callable[[], Iterable[Dataset]], n_features: int) -> Scaling:
    """Measure what a scaling needs on blocks of rows, read up to three times.

    Sums are carried from block to block, row by row: how the rows are cut changes no bit.
    """
    if check_scale(kind) in ("none", "query"):
        return Scaling(kind)
    largest = np.zeros(n_features)
    for block in read():
        _max_abs(block.rows, largest)
    if kind == "maxabs":
        return scaling_from(largest)
    # Deviations are measured after division by the largest magnitude: 1e300 does not overflow.
    factors, means = 1.0 / divisors(largest), np.zeros(n_features)
    for _ in range(2):
        sums, squares, counts = np.zeros(n_features), np.zeros(n_features), np.zeros(n_features)
        n_rows = 0
        for block in read():
            _sums(block.rows, factors, means, sums, squares, counts)
            n_rows += block.n_rows
        variance = (squares + (n_rows - counts) * means**2) / max(n_rows, 1)
        means = sums / max(n_rows, 1)
    return scaling_from(largest, np.sqrt(variance))


def check_scale(kind: str) -> str:
    """The name of a scaling, or ParameterError."""
    if kind not in SCALES:
        raise ParameterError(
            f"scale={kind!r} is not one of {', '.join(SCALES)}", fix="Choose one of them"
        )
    return kind


def divisors(largest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest magnitudes, 1 for columns of zeros."""
    return np.where(largest > 0, largest, 1.0)


def scaling_from(
    largest: NDArray[np.float64], deviation: NDArray[np.float64] | None = None
) -> Scaling:
    """``maxabs`` from the largest magnitudes; ``standard`` from the deviations of x / largest."""
    factors = 1.0 / divisors(largest)
    if deviation is None:
        return Scaling("maxabs", factors)
    return Scaling("standard", factors / np.where(deviation > 1e-12, deviation, 1.0))


def scale_lists(
    data: Dataset, spec: msgspec.Struct | None = None, *, dtype: Any = np.float64
) -> Any:
    """Features after a transform of whole lists: ``ListRange`` unless ``RunScores`` is given.

    Scores are computed from float64 features, whatever the rows are; training rows keep theirs.
    """
    index = data.queries
    if isinstance(spec, RunScores):
        return normalised_runs(spec, data.X, data.n_features, index.starts, index.rows)
    values = list_range_values(data.rows, data.n_features, index.starts, index.rows, dtype=dtype)
    if not _is_sparse(data.X):
        return values
    return type(data.X)((values, data.X.indices, data.X.indptr), shape=data.X.shape)


def normalised_runs(
    spec: RunScores,
    X: Any,
    n_features: int,
    starts: NDArray[np.int64],
    order: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Scores of retrievers after ``RunScores``, dense; what ``X`` does not store is absent."""
    if _is_sparse(X):
        n_rows = len(X.indptr) - 1
        scores = np.full((n_rows, n_features), np.nan)
        scores[np.repeat(np.arange(n_rows), np.diff(X.indptr)), X.indices] = X.data
    else:
        scores = np.asarray(X, dtype=np.float64)
    if order is None:
        return run_score_values(spec, scores, starts)
    out = np.empty_like(scores)
    out[order] = run_score_values(spec, scores[order], starts)
    return out


def _is_sparse(X: Any) -> bool:
    """Compressed rows of any library; asking scipy would import it into a server."""
    return hasattr(X, "indptr")


def _multiply_columns(X: Any, factors: NDArray[np.float64]) -> Any:
    if _is_sparse(X):
        values = (X.data * factors[X.indices]).astype(X.dtype, copy=False)
        return type(X)((values, X.indices, X.indptr), shape=X.shape)
    return (X * factors).astype(X.dtype, copy=False)


@question
def column_max_abs_into(rows: Rows, out: NDArray[np.float64]) -> None:
    """Largest magnitude of every column."""


@question
def column_sums_into(
    rows: Rows,
    factors: NDArray[np.float64],
    means: NDArray[np.float64],
    sums: Any,
    squares: Any,
    counts: Any,
) -> None:
    """Sums of x f and of (x f - mean)^2 over stored values, and how many are stored."""


@column_max_abs_into.answer(DenseRows)
def _dense_max_abs(rows: Any, out: Any) -> Any:
    for i in range(rows.values.shape[0]):
        for j in range(rows.values.shape[1]):
            out[j] = max(out[j], abs(rows.values[i, j]))


@column_max_abs_into.answer(CsrRows)
def _csr_max_abs(rows: Any, out: Any) -> Any:
    for k in range(rows.values.shape[0]):
        j = rows.indices[k]
        out[j] = max(out[j], abs(rows.values[k]))


@column_sums_into.answer(DenseRows)
def _dense_sums(rows: Any, factors: Any, means: Any, sums: Any, squares: Any, counts: Any) -> Any:
    for i in range(rows.values.shape[0]):
        for j in range(rows.values.shape[1]):
            x = rows.values[i, j] * factors[j]
            sums[j] += x
            squares[j] += (x - means[j]) ** 2
    counts += rows.values.shape[0]


@column_sums_into.answer(CsrRows)
def _csr_sums(rows: Any, factors: Any, means: Any, sums: Any, squares: Any, counts: Any) -> Any:
    for k in range(rows.values.shape[0]):
        j = rows.indices[k]
        x = rows.values[k] * factors[j]
        sums[j] += x
        squares[j] += (x - means[j]) ** 2
        counts[j] += 1


@jit
def _max_abs(rows: Rows, out: NDArray[np.float64]) -> None:
    column_max_abs_into(rows, out)


@jit
def _sums(rows: Rows, factors: Any, means: Any, sums: Any, squares: Any, counts: Any) -> None:
    column_sums_into(rows, factors, means, sums, squares, counts)


def column_max_abs(rows: Rows, n_features: int) -> NDArray[np.float64]:
    """max_i |x_ij| for every column j."""
    out = np.zeros(n_features)
    _max_abs(rows, out)
    return out


def column_moments(
    rows: Rows, n_rows: int, factors: NDArray[np.float64], means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over all rows of x_ij f_j and of (x_ij f_j - mean_j)^2, implicit zeros included."""
    n_features = len(factors)
    sums, squares, counts = np.zeros(n_features), np.zeros(n_features), np.zeros(n_features)
    _sums(rows, factors, means, sums, squares, counts)
    return sums, squares + (n_rows - counts) * means**2
