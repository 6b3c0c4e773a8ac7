"""Feature scaling: column factors that fold into the weights, and ranges of lists that do not.

A constant added to a feature changes no ranking, so nothing is ever subtracted and sparse data
stays sparse: ``standard`` divides by the standard deviation, ``maxabs`` by the largest magnitude,
``query`` by the range within each list. ``auto`` decides column by column, by the values alone:

    within [-1, 1]                              x, unless it is dense and hardly varies
    else, non-zero in a tenth of the rows       x / standard deviation
    else                                        x / largest magnitude

so that numbers become comparable, and what was scaled before, indicators, hashed categories and
the words of normalised texts stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.core.specs import ListRange, MissingValues, RunScores
from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
from rankine.kernels.list_range import list_range_values
from rankine.kernels.rows import CsrRows, DenseRows, Rows
from rankine.kernels.run_scores import run_score_values
from rankine.kernels.shards import map_shards
from rankine.transforms.clicks import add_position_columns
from rankine.transforms.missing import (
    add_missing_indicators,
    fill_dataset,
    find_missing,
    measure_missing,
    refuse_missing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankine.data.dataset import Dataset


SCALES = ("auto", "none", "standard", "maxabs", "query")
"""Values of the rankers' parameter ``scale``."""
#: Rows that are summed up by one thread, where there are not many more columns.
SPAN = 1 << 16
#: Columns whose non-zero values are rarer than this are sparse to ``auto``.
DENSE_FROM = 0.1
#: Dense columns within [-1, 1] that deviate by less are divided by their deviation all the same.
SCALED_FROM = 0.001
#: Deviations of columns that differ by more than this ruin most rankers.
UNEVEN_FROM = 1000.0


@dataclass(frozen=True, eq=False)
class Scaling:
    """A fitted scaling.

    Attributes
    ----------
    kind
        One of ``SCALES``.
    factors
        Column multipliers, None where all are 1.
    positions
        Positions with a separate offset in training rows (``add_position_columns``); 0 for none.
    missing, keeps_missing
        What stands for missing values, before anything is scaled; whether they are left to the
        ranker instead. With neither they are refused.
    chosen
        What ``auto`` found: columns ``by_deviation``, ``by_largest`` and ``as_they_are``, and the
        ``lists`` it looked at.
    uneven
        With ``none``: columns by deviation, largest first and the smallest last, where they differ
        by more than ``UNEVEN_FROM``.
    """

    kind: str
    factors: NDArray[np.float64] | None = None
    positions: int = 0
    missing: MissingValues | None = None
    keeps_missing: bool = False
    chosen: Mapping[str, int] = field(default_factory=dict)
    uneven: tuple[tuple[int, float], ...] = ()

    def apply(self, data: Dataset) -> Dataset:
        """Rows for weights in scaled units: filled, scaled, then with marks of missing values.

        The data itself where nothing changes.
        """
        before = data.X
        if self.missing is not None:
            data = fill_dataset(self.missing, data)
        elif not (self.keeps_missing or data.complete):
            # Of a raw log only numbers can be missing, and they are its first features.
            log = data.encoding
            refuse_missing(before, data.feature_names if log is None else log.spec.numeric)
        if self.kind == "query":
            data = replace(data, X=scale_lists(data, dtype=data.X.dtype), query_index=data.queries)
        elif self.factors is not None:
            scaled = _multiply_columns(data.X, self.factors, self._n_scaled)
            data = replace(data, X=scaled, query_index=data.queries)
        if self.missing is not None and self.n_marks:
            data = add_missing_indicators(self.missing, before, data)
        return data

    @cached_property
    def _n_scaled(self) -> int:
        """Columns up to the last that is scaled; hashed ones after them are not looked up."""
        factors: Any = self.factors
        return len(np.trim_zeros(factors - 1.0, "b"))

    def prepare(self, data: Dataset) -> Dataset:
        """Training rows: scaled, then with their columns of positions."""
        return add_position_columns(self.apply(data), self.positions)

    @property
    def n_marks(self) -> int:
        """Columns that mark missing values, after those of the data."""
        missing = self.missing
        return len(missing.columns) if missing is not None and missing.rule == "indicator" else 0

    def split(self, coef: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Weights of features and of marks, and offsets of positions (scored without them)."""
        marks = len(coef) - max(self.positions - 1, 0)
        features = marks - self.n_marks
        return coef[:features], coef[features:marks], coef[marks:]

    def with_learned_missing(self, coef: NDArray[np.float64]) -> Scaling:
        """The same, with what missing values add to a score as it was learned."""
        if self.missing is None or not self.n_marks:
            return self
        learned = tuple(self.split(coef)[1].tolist())
        return replace(self, missing=msgspec.structs.replace(self.missing, values=learned))

    def fold(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights for unscaled rows: X diag(f) w = X (f w), without offsets."""
        coef = self.split(coef)[0]
        return coef if self.factors is None else coef * self.factors

    def unfold(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights for training rows, to warm-start from folded ones; offsets start at 0."""
        if self.factors is not None:
            coef = np.divide(coef, self.factors, out=np.zeros_like(coef), where=self.factors != 0)
        marks = self.missing.values if self.missing is not None and self.n_marks else ()
        return np.r_[coef, np.array(marks), np.zeros(max(self.positions - 1, 0))]

    @property
    def metadata(self) -> dict[str, Any]:
        """What a model remembers of it."""
        return {"kind": self.kind, **self.chosen}

    @property
    def transforms(self) -> tuple[msgspec.Struct, ...]:
        """What a model has to run at scoring time because it cannot be folded."""
        lists = (ListRange(),) if self.kind == "query" else ()
        return lists if self.missing is None else (self.missing, *lists)


class ColumnSizes(NamedTuple):
    """What was looked at, and the largest magnitude and non-zero values of each column.

    A row counts as often as it weighs: weight 2 is the row twice.
    """

    n_rows: float
    n_lists: int
    largest: NDArray[np.float64]
    counts: NDArray[np.float64]

    def merge(self, other: ColumnSizes) -> ColumnSizes:
        """Of both together."""
        return ColumnSizes(
            self.n_rows + other.n_rows,
            self.n_lists + other.n_lists,
            np.maximum(self.largest, other.largest),
            self.counts + other.counts,
        )


class ColumnStatistics:
    """Columns of blocks of rows, read up to three times.

    Sums go over spans of rows, counted from the first row of all: neither how blocks are cut nor
    how many threads share them changes a bit. Zeros are never added: nor does how they are stored.
    """

    def __init__(
        self, read: Callable[[], Iterable[Dataset]], n_features: int, threads: int | None = 1
    ) -> None:
        self._read = read
        self.n_features = n_features
        self.threads = threads

    def without_missing(self, spec: MissingValues) -> ColumnStatistics:
        """The columns without missing values."""
        return ColumnStatistics(
            lambda: (fill_dataset(spec, block) for block in self._read()),
            self.n_features,
            self.threads,
        )

    def missing_weights(self) -> NDArray[np.float64]:
        """What the missing values of every column weigh."""
        total = np.zeros(self.n_features)
        for block in self._read():
            found = find_missing(block.X)
            if found is not None:
                np.add.at(total, found.columns, _weights(block)[found.rows])
        return total

    def known_weights(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the known values of some columns weigh."""
        total = np.zeros(len(columns))
        for block in self._read():
            weight, found = _weights(block), find_missing(block.X)
            for k, j in enumerate(columns):
                gone = [] if found is None else found.rows[found.columns == j]
                total[k] = np.cumsum(np.r_[total[k], np.delete(weight, gone)])[-1]
        return total

    def sizes(self) -> ColumnSizes:
        """Sizes of the values of all columns."""
        n_rows, n_lists = 0.0, 0
        spans = _Spans(self, self.n_features, (np.maximum, np.add))
        for block in self._read():
            spans.add(block, _sizes)
            n_rows = float(np.cumsum(np.r_[n_rows, _weights(block)])[-1])
            n_lists += block.n_queries
        largest, counts = spans.total()
        return ColumnSizes(n_rows, n_lists, largest, counts)

    def moments(
        self,
        columns: NDArray[np.int64],
        factors: NDArray[np.float64],
        means: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of x f and of (x f - mean)^2 over the non-zero values of some columns."""
        place = np.full(self.n_features, -1, dtype=np.int32)
        place[columns] = np.arange(len(columns))
        spans = _Spans(self, len(columns), (np.add, np.add))
        for block in self._read():
            spans.add(block, _sums, place, factors, means)
        sums, squares = spans.total()
        return sums, squares


class _Spans:
    """Two figures of every column: found in each span of rows by itself, joined in order."""

    def __init__(
        self, asked: ColumnStatistics, width: int, join: tuple[np.ufunc, np.ufunc]
    ) -> None:
        self.threads, self.join, self.row = asked.threads, join, 0
        # What is found in a span must not outweigh its rows.
        self.size = max(SPAN, 4 * asked.n_features)
        self._whole, self._begun = np.zeros((2, width)), np.zeros((2, width))

    def add(self, block: Dataset, look: Callable[..., None], *arguments: Any) -> None:
        """The rows of a block, which need not begin with a span; several threads share them."""
        rows, weight = block.rows, _weights(block)

        def part(first: int, last: int) -> NDArray[np.float64]:
            found = self._begun if first == 0 else np.zeros_like(self._whole)
            look(rows, first, last, weight, *arguments, *found)
            return found

        inner = np.arange(-self.row % self.size, block.n_rows, self.size)
        cuts = np.unique(np.r_[0, inner, block.n_rows])
        for last, found in zip(cuts[1:], map_shards(part, cuts, self.threads), strict=True):
            self._begun = found
            if (self.row + last) % self.size == 0:
                self._whole, self._begun = self.total(), np.zeros_like(found)
        self.row += block.n_rows

    def total(self) -> NDArray[np.float64]:
        """Of all rows so far."""
        both = zip(self.join, self._whole, self._begun, strict=True)
        return np.array([join(whole, begun) for join, whole, begun in both])


def _weights(block: Dataset) -> NDArray[np.float64]:
    return np.ones(block.n_rows) if block.weight is None else block.weight


def fit_scaling(kind: str | None, data: Dataset, missing: str = "error") -> Scaling:
    """Measure what a scaling needs on training data."""
    return measure_rows(kind, missing, ColumnStatistics(lambda: [data], data.n_features))


def measure_rows(kind: str | None, rule: str, asked: Any) -> Scaling:
    """What stands for missing values, then the scaling of the rows without them."""
    missing = measure_missing(rule, asked)
    if missing is not None:
        asked = asked.without_missing(missing)
    scaling = Scaling("none") if kind is None else measure_scaling(kind, asked)
    return replace(scaling, missing=missing, keeps_missing=rule == "bin")


def measure_scaling(kind: str | None, asked: Any) -> Scaling:
    """Measure what a scaling needs; ``asked`` answers as ``ColumnStatistics`` does."""
    kind = check_scale(kind)
    if kind == "query":
        return Scaling(kind)
    sizes = asked.sizes()
    largest = sizes.largest
    if kind == "maxabs":
        return Scaling(kind, 1.0 / np.where(largest > 0, largest, 1.0))
    used = largest > 0
    if kind != "standard":
        used &= sizes.counts >= DENSE_FROM * sizes.n_rows
    columns = np.flatnonzero(used)
    deviation = _deviations(asked, sizes, columns)
    if kind == "none":
        return Scaling(kind, uneven=_uneven(columns, deviation))
    spread = np.where(deviation > 1e-12 * largest[columns], deviation, largest[columns])
    if kind == "standard":
        divisors = np.ones(len(largest))
        divisors[columns] = spread
        return Scaling(kind, 1.0 / divisors)
    measured = (largest[columns] > 1.0) | (spread < SCALED_FROM)
    columns = columns[measured]
    divisors = np.maximum(largest, 1.0)
    divisors[columns] = 1.0
    by_largest = int(np.count_nonzero(divisors > 1.0))
    divisors[columns] = spread[measured]
    chosen = {
        "by_deviation": len(columns),
        "by_largest": by_largest,
        "as_they_are": len(largest) - len(columns) - by_largest,
        "lists": sizes.n_lists,
    }
    plain = len(columns) == by_largest == 0
    return Scaling(kind, None if plain else 1.0 / divisors, chosen=chosen)


def _deviations(asked: Any, sizes: ColumnSizes, columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Standard deviations of some columns."""
    # They are measured after division by the largest magnitude: 1e300 does not overflow.
    largest, zeros = sizes.largest[columns], sizes.n_rows - sizes.counts[columns]
    factors, means, squares = 1.0 / largest, np.zeros(len(columns)), np.zeros(len(columns))
    for _ in range(2 if len(columns) else 0):
        sums, squares = asked.moments(columns, factors, means)
        squares = squares + zeros * means**2
        means = sums / sizes.n_rows
    return np.asarray(largest * np.sqrt(squares / sizes.n_rows))


def _uneven(
    columns: NDArray[np.int64], deviation: NDArray[np.float64]
) -> tuple[tuple[int, float], ...]:
    varied = np.flatnonzero(deviation > 0)
    order = varied[np.argsort(-deviation[varied], kind="stable")]
    if len(order) < 2 or deviation[order[0]] <= UNEVEN_FROM * deviation[order[-1]]:
        return ()
    return tuple((int(columns[k]), float(deviation[k])) for k in (*order[:-1][:3], order[-1]))


def check_scale(kind: str | None) -> str:
    """The name of a scaling, or ParameterError; None is ``none``."""
    if kind is None:
        return "none"
    if kind not in SCALES:
        raise ParameterError(
            f"scale={kind!r} is not one of {', '.join(SCALES)}", fix="Choose one of them"
        )
    return kind


def describe_scaling(facts: Mapping[str, Any]) -> str:
    """``Scaling.metadata`` for people."""
    if facts["kind"] != "auto":
        return str(facts["kind"])
    done = {
        "by_deviation": "divided by their standard deviation",
        "by_largest": "divided by their largest value",
        "as_they_are": "left as they are",
    }
    parts = [f"{facts[key]:,} columns {words}" for key, words in done.items() if facts.get(key)]
    return f"auto: {', '.join(parts)} (measured on {facts['lists']:,} lists)"


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


def _multiply_columns(X: Any, factors: NDArray[np.float64], n_scaled: int) -> Any:
    if not _is_sparse(X):
        return (X * factors).astype(X.dtype, copy=False)
    values = X.data.copy()
    _multiply_values(values, X.indices, factors[:n_scaled])
    scaled = copy(X)
    scaled.data = values
    return scaled


@jit
def _multiply_values(values: Any, indices: Any, factors: Any) -> None:
    """Values times the factors of their columns; columns without one stay as they are."""
    for k in range(values.shape[0]):
        if indices[k] < factors.shape[0]:
            values[k] *= factors[indices[k]]


@generic
def column_sizes_into(
    rows: Rows, first: int, last: int, weight: Any, largest: Any, counts: Any
) -> None:
    """Largest magnitude of every column, and what its non-zero values weigh."""


@generic
def column_sums_into(
    rows: Rows,
    first: int,
    last: int,
    weight: Any,
    place: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> None:
    """Weighted sums of x f and of (x f - mean)^2 over non-zero values of columns with a place."""


@column_sizes_into.implementation(DenseRows)
def _dense_sizes(rows: Any, first: Any, last: Any, weight: Any, largest: Any, counts: Any) -> Any:
    for i in range(first, last):
        if weight[i] > 0.0:
            for j in range(rows.values.shape[1]):
                size = abs(rows.values[i, j])
                if size > 0.0:
                    counts[j] += weight[i]
                    largest[j] = max(largest[j], size)


@column_sizes_into.implementation(CsrRows)
def _csr_sizes(rows: Any, first: Any, last: Any, weight: Any, largest: Any, counts: Any) -> Any:
    for i in range(first, last):
        if weight[i] > 0.0:
            for k in range(rows.indptr[i], rows.indptr[i + 1]):
                size = abs(rows.values[k])
                if size > 0.0:
                    j = rows.indices[k]
                    counts[j] += weight[i]
                    largest[j] = max(largest[j], size)


@column_sums_into.implementation(DenseRows)
def _dense_sums(
    rows: Any,
    first: Any,
    last: Any,
    weight: Any,
    place: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> Any:
    for i in range(first, last):
        for j in range(rows.values.shape[1]):
            p = place[j]
            if p >= 0 and rows.values[i, j] != 0.0:
                x = rows.values[i, j] * factors[p]
                sums[p] += weight[i] * x
                squares[p] += weight[i] * (x - means[p]) ** 2


@column_sums_into.implementation(CsrRows)
def _csr_sums(
    rows: Any,
    first: Any,
    last: Any,
    weight: Any,
    place: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> Any:
    for i in range(first, last):
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            p = place[rows.indices[k]]
            if p >= 0 and rows.values[k] != 0.0:
                x = rows.values[k] * factors[p]
                sums[p] += weight[i] * x
                squares[p] += weight[i] * (x - means[p]) ** 2


@jit
def _sizes(rows: Rows, first: int, last: int, weight: Any, largest: Any, counts: Any) -> None:
    column_sizes_into(rows, first, last, weight, largest, counts)


@jit
def _sums(
    rows: Rows,
    first: int,
    last: int,
    weight: Any,
    place: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> None:
    column_sums_into(rows, first, last, weight, place, factors, means, sums, squares)
