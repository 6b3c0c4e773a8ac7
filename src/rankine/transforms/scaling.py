"""Feature scaling: column factors that fold into the weights, and ranges within lists.

A constant added to a feature changes no ranking, so nothing is ever subtracted and sparse data
stays sparse: ``standard`` divides by the standard deviation, ``maxabs`` by the largest magnitude,
``query`` by the range within each list. ``auto`` decides for each column by its values:

    within [-1, 1]                              x, unless it is dense and hardly varies
    else, non-zero in a tenth of the rows       x / standard deviation
    else                                        x / largest magnitude

so that numbers become comparable, while indicators, hashed categories, words of normalised texts
and columns that were scaled before stay as they are.
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
    has_missing,
    measure_missing,
    refuse_missing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankine.data.dataset import Dataset


SCALES = ("auto", "none", "standard", "maxabs", "query")
"""Values of the rankers' parameter ``scale``."""
#: Rows that one thread sums up, unless there are many more columns.
SPAN = 1 << 16
#: For ``auto``, columns with a smaller share of non-zero values are sparse.
DENSE_FROM = 0.1
#: For ``auto``, dense columns within [-1, 1] with a smaller deviation are divided by it as well.
SCALED_FROM = 0.001
#: Most rankers learn poorly from columns whose deviations differ by a larger ratio.
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
        Values that replace missing ones before scaling; whether missing values are passed to the
        ranker unfilled instead. With neither, missing values are an error.
    decisions
        What ``auto`` chose: number of columns ``by_deviation``, ``by_largest`` and
        ``as_they_are``, and number of ``lists`` that this is based on.
    uneven
        With ``none``: columns of the three largest standard deviations and of the smallest, with
        these deviations, where they differ by a factor of more than ``UNEVEN_FROM``.
    """

    kind: str
    factors: NDArray[np.float64] | None = None
    positions: int = 0
    missing: MissingValues | None = None
    keeps_missing: bool = False
    decisions: Mapping[str, int] = field(default_factory=dict)
    uneven: tuple[tuple[int, float], ...] = ()

    def apply(self, data: Dataset) -> Dataset:
        """Return rows for weights in scaled units: filled, scaled, then with missing indicators.

        Returns ``data`` itself where nothing changes.
        """
        unfilled = data.X
        if self._prepares_rows(unfilled):
            return self._prepare_rows(data)
        if self.missing is not None:
            data = fill_dataset(self.missing, data)
        elif not (self.keeps_missing or data.complete):
            # In a raw log only numbers can be missing, and they are its first features.
            names = data.feature_names
            if data.encoding is not None:
                names = data.encoding.spec.numeric
            refuse_missing(unfilled, names)
        if self.kind == "query":
            data = replace(data, X=scale_lists(data, dtype=data.X.dtype), query_index=data.queries)
        elif self.factors is not None:
            scaled = _multiply_columns(data.X, self.factors, self._n_scaled)
            data = replace(data, X=scaled, query_index=data.queries)
        if self.missing is not None and self.n_indicators:
            data = add_missing_indicators(self.missing, unfilled, data)
        return data

    def following(self, earlier: Scaling) -> Scaling:
        """Return the scaling of a run that continues the one of ``earlier``.

        Factors and values for missing ones stay as they were; columns that the earlier run did not
        contain (factor NaN, or no value) have those measured now.
        """
        factors = earlier.factors
        if factors is not None:
            measured = 1.0 if self.factors is None else self.factors
            # New columns only: weights were learned in the units of the others.
            factors = np.where(np.isnan(factors), measured, factors)
            if (factors == 1.0).all():
                factors = None
        missing = self.missing
        if missing is not None and earlier.missing is not None:
            pairs = zip(missing.columns, missing.values, strict=True)
            fills = dict(pairs)
            if missing.rule == "indicator":
                fills = dict.fromkeys(fills, 0.0)
            fills |= zip(earlier.missing.columns, earlier.missing.values, strict=True)
            columns = tuple(sorted(fills))
            values = tuple(fills[column] for column in columns)
            missing = msgspec.structs.replace(missing, columns=columns, values=values)
        return replace(self, factors=factors, missing=missing)

    def _prepares_rows(self, X: Any) -> bool:
        """Return whether rows of X are filled and scaled one by one, in one pass over them."""
        if self.missing is None or self.missing.rule == "query_min" or self.kind == "query":
            return False
        if getattr(X, "format", None) != "csr":
            return False
        return self.n_indicators > 0 or has_missing(X.data)

    def _prepare_rows(self, data: Dataset) -> Dataset:
        """Return compressed rows filled, scaled and with indicators; the zeros are not stored."""
        missing: Any = self.missing
        width = max((0, *missing.columns)) + 1
        columns = np.array(missing.columns, dtype=np.int64)
        fills, indicators = np.zeros(width), np.full(width, -1)
        names = data.feature_names
        if self.n_indicators:
            indicators[columns] = data.n_features + np.arange(len(columns))
            if names is not None:
                names = (*names, *(f"missing {j}" for j in columns.tolist()))
        else:
            fills[columns] = missing.values
        factors = np.zeros(0)
        if self.factors is not None:
            factors = self.factors[: self._n_scaled]
        X: Any = data.X
        indptr = np.zeros_like(X.indptr)
        indices, values = np.empty_like(X.indices), np.empty_like(X.data)
        _prepare_csr(
            X.indptr, X.indices, X.data, factors, fills, indicators, indptr, indices, values
        )
        shape = (data.n_rows, data.n_features + self.n_indicators)
        stored = slice(0, indptr[-1])
        # The constructor of X's own class: naming scipy would import it into a server.
        prepared = type(X)((values[stored], indices[stored], indptr), shape=shape)
        prepared.has_canonical_format = True
        return replace(data, X=prepared, feature_names=names, query_index=data.queries)

    def widened(self, n_features: int) -> Scaling:
        """Return the scaling with further columns, up to ``n_features``, that stay as they are."""
        factors, decisions = self.factors, dict(self.decisions)
        if factors is not None:
            factors = np.concatenate([factors, np.ones(n_features - len(factors))])
        if decisions:
            others = decisions["by_deviation"] + decisions["by_largest"]
            decisions["as_they_are"] = n_features - others
        return replace(self, factors=factors, decisions=decisions)

    @cached_property
    def _n_scaled(self) -> int:
        """Number of columns up to the last that is scaled; hashed ones after it need no lookup."""
        factors: Any = self.factors
        scaled = np.flatnonzero(factors != 1.0)
        return int(scaled.max(initial=-1)) + 1

    def prepare(self, data: Dataset) -> Dataset:
        """Return training rows: scaled, then with their columns of positions."""
        return add_position_columns(self.apply(data), self.positions)

    @property
    def n_indicators(self) -> int:
        """Number of indicator columns of missing values, which follow the columns of the data."""
        if self.missing is None or self.missing.rule != "indicator":
            return 0
        return len(self.missing.columns)

    def split(self, coef: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Split weights into three parts: features, missing indicators and positions."""
        n_scored = len(coef) - max(self.positions - 1, 0)  # position 1 has no weight
        n_features = n_scored - self.n_indicators
        return coef[:n_features], coef[n_features:n_scored], coef[n_scored:]

    def with_learned_missing(self, coef: NDArray[np.float64]) -> Scaling:
        """Return the scaling with the learned weights of missing indicators."""
        if self.missing is None or not self.n_indicators:
            return self
        learned = tuple(self.split(coef)[1].tolist())
        return replace(self, missing=msgspec.structs.replace(self.missing, values=learned))

    def fold(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return weights for unscaled rows: X diag(f) w = X (f w), without offsets."""
        coef, _, _ = self.split(coef)
        if self.factors is not None:
            coef = coef * self.factors
        return coef

    def unfold(
        self, coef: NDArray[np.float64], learned: MissingValues | None = None
    ) -> NDArray[np.float64]:
        """Return weights for training rows from folded ones, for a warm start; offsets are 0.

        ``learned`` holds the weights of missing indicators, by default this scaling's.
        """
        # A column of factor 0 was constant and has no weight.
        if self.factors is not None:
            coef = np.divide(coef, self.factors, out=np.zeros_like(coef), where=self.factors != 0)
        indicator_weights: list[float] = []
        if self.missing is not None and self.n_indicators:
            learned = learned or self.missing
            weights = dict(zip(learned.columns, learned.values, strict=True))
            indicator_weights = [weights.get(column, 0.0) for column in self.missing.columns]
        return np.r_[coef, np.array(indicator_weights), np.zeros(max(self.positions - 1, 0))]

    @property
    def metadata(self) -> dict[str, Any]:
        """Record of the scaling in a model."""
        return {"kind": self.kind, **self.decisions}

    @property
    def transforms(self) -> tuple[msgspec.Struct, ...]:
        """Transforms that a model runs at scoring time because they cannot be folded."""
        transforms: list[msgspec.Struct] = []
        if self.missing is not None:
            transforms.append(self.missing)
        if self.kind == "query":
            transforms.append(ListRange())
        return tuple(transforms)


class ColumnSizes(NamedTuple):
    """Number of rows and lists; largest magnitude and number of non-zero values of each column.

    Rows are counted by weight: a row of weight 2 counts twice.
    """

    n_rows: float
    n_lists: int
    largest: NDArray[np.float64]
    counts: NDArray[np.float64]

    def merge(self, other: ColumnSizes) -> ColumnSizes:
        """Return the sizes of the rows of both."""
        return ColumnSizes(
            self.n_rows + other.n_rows,
            self.n_lists + other.n_lists,
            np.maximum(self.largest, other.largest),
            self.counts + other.counts,
        )


class ColumnStatistics:
    """Statistics of the first ``n_features`` columns of blocks; each method reads the blocks once.

    Rows are summed in spans that are counted from the first row, so neither the size of blocks
    nor the number of threads changes a bit of the result. Zeros are never added, so sparse and
    dense rows give the same bits too.
    """

    def __init__(
        self, read: Callable[[], Iterable[Dataset]], n_features: int, threads: int | None = 1
    ) -> None:
        self._read = read
        self.n_features = n_features
        self.threads = threads

    def without_missing(self, spec: MissingValues) -> ColumnStatistics:
        """Return the statistics of the columns with missing values filled."""
        return ColumnStatistics(
            lambda: (fill_dataset(spec, block) for block in self._read()),
            self.n_features,
            self.threads,
        )

    def missing_weights(self) -> NDArray[np.float64]:
        """Sum the weights of the missing values of every column."""
        total = np.zeros(self.n_features)
        for block in self._read():
            missing = find_missing(block.X)
            if missing is not None:
                np.add.at(total, missing.columns, _weights(block)[missing.rows])
        return total

    def known_weights(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum the weights of the values of some columns that are not missing."""
        total = np.zeros(len(columns))
        for block in self._read():
            weight, missing = _weights(block), find_missing(block.X)
            for k, j in enumerate(columns):
                known_weight = weight
                if missing is not None:
                    known_weight = np.delete(weight, missing.rows[missing.columns == j])
                # cumsum adds one by one: a pairwise sum would depend on the blocks.
                total[k] = np.cumsum(np.r_[total[k], known_weight])[-1]
        return total

    def sizes(self) -> ColumnSizes:
        """Measure the magnitudes of all columns."""
        n_rows, n_lists = 0.0, 0
        spans = _Spans(self, self.n_features, (np.maximum, np.add))
        for block in self._read():
            spans.add(block, _sizes)
            # cumsum adds one by one: the result does not depend on the blocks.
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
        """Sum x f and (x f - mean)^2 over the non-zero values of some columns."""
        slots = np.full(self.n_features, -1, dtype=np.int32)
        slots[columns] = np.arange(len(columns))
        spans = _Spans(self, len(columns), (np.add, np.add))
        for block in self._read():
            spans.add(block, _sums, slots, factors, means)
        sums, squares = spans.total()
        return sums, squares


class _Spans:
    """Computes two statistics of every column for each span of rows, and joins them in order."""

    def __init__(
        self, columns: ColumnStatistics, width: int, join: tuple[np.ufunc, np.ufunc]
    ) -> None:
        self.threads, self.join, self.row = columns.threads, join, 0
        # The statistics of a span should not take more memory than its rows.
        self.size = max(SPAN, 4 * columns.n_features)
        self._complete, self._current = np.zeros((2, width)), np.zeros((2, width))

    def add(self, block: Dataset, kernel: Callable[..., None], *arguments: Any) -> None:
        """Add the rows of a block, which may begin within a span; threads share its spans."""
        rows, weight = block.rows, _weights(block)

        def measure_span(first: int, last: int) -> NDArray[np.float64]:
            result = np.zeros_like(self._complete)
            if first == 0:
                # The first span of a block continues the last span of the previous block.
                result = self._current
            kernel(rows, first, last, weight, *arguments, *result)
            return result

        # Where spans, counted from the first row of all, begin in this block.
        inner = np.arange(-self.row % self.size, block.n_rows, self.size)
        cuts = np.unique(np.r_[0, inner, block.n_rows])
        results = map_shards(measure_span, cuts, self.threads)
        for last, result in zip(cuts[1:], results, strict=True):
            self._current = result
            if (self.row + last) % self.size == 0:
                self._complete, self._current = self.total(), np.zeros_like(result)
        self.row += block.n_rows

    def total(self) -> NDArray[np.float64]:
        """Return the statistics of all rows so far."""
        pairs = zip(self.join, self._complete, self._current, strict=True)
        return np.array([join(complete, current) for join, complete, current in pairs])


def _weights(block: Dataset) -> NDArray[np.float64]:
    if block.weight is None:
        return np.ones(block.n_rows)
    return block.weight


def fit_scaling(kind: str | None, data: Dataset, missing: str = "error") -> Scaling:
    """Fit a scaling to training data."""
    return measure_rows(kind, missing, ColumnStatistics(lambda: [data], data.n_features))


def measure_rows(kind: str | None, rule: str, columns: Any) -> Scaling:
    """Measure the values that replace missing ones, then the scaling of the filled rows.

    ``columns`` are ``ColumnStatistics``, or have its methods.
    """
    missing = measure_missing(rule, columns)
    if missing is not None:
        # Deviations are those of the rows as the ranker sees them.
        columns = columns.without_missing(missing)
    scaling = Scaling("none")
    if kind is not None:
        scaling = measure_scaling(kind, columns)
    return replace(scaling, missing=missing, keeps_missing=rule == "bin")


def measure_scaling(kind: str | None, statistics: Any) -> Scaling:
    """Measure a scaling; ``statistics`` has the methods of ``ColumnStatistics``."""
    kind = check_scale(kind)
    if kind == "query":
        return Scaling(kind)
    sizes = statistics.sizes()
    largest = sizes.largest
    if kind == "maxabs":
        return Scaling(kind, 1.0 / np.where(largest > 0, largest, 1.0))
    measured = largest > 0
    # The deviation of a sparse column says little, and dividing by it would blow up rare values.
    if kind != "standard":
        measured &= sizes.counts >= DENSE_FROM * sizes.n_rows
    columns = np.flatnonzero(measured)
    deviations = _deviations(statistics, sizes, columns)
    if kind == "none":
        return Scaling(kind, uneven=_find_uneven(columns, deviations))
    # A smaller deviation is only the rounding error of a constant column.
    varying = deviations > 1e-12 * largest[columns]
    spreads = np.where(varying, deviations, largest[columns])
    divisors = np.ones(len(largest))
    if kind == "standard":
        divisors[columns] = spreads
        return Scaling(kind, 1.0 / divisors)
    # Columns that are already of a usual size keep their units, which users know.
    by_deviation = (largest[columns] > 1.0) | (spreads < SCALED_FROM)
    divisors = np.maximum(largest, 1.0)
    divisors[columns[by_deviation]] = 1.0
    n_by_deviation = int(np.count_nonzero(by_deviation))
    n_by_largest = int(np.count_nonzero(divisors > 1.0))
    divisors[columns[by_deviation]] = spreads[by_deviation]
    decisions = {
        "by_deviation": n_by_deviation,
        "by_largest": n_by_largest,
        "as_they_are": len(largest) - n_by_deviation - n_by_largest,
        "lists": sizes.n_lists,
    }
    unscaled = n_by_deviation == n_by_largest == 0
    if unscaled:
        return Scaling(kind, decisions=decisions)
    return Scaling(kind, 1.0 / divisors, decisions=decisions)


def _deviations(
    statistics: Any, sizes: ColumnSizes, columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute the standard deviations of some columns."""
    largest, n_zeros = sizes.largest[columns], sizes.n_rows - sizes.counts[columns]
    # Divided by the largest magnitude first, so that the square of 1e300 does not overflow.
    factors, means, squares = 1.0 / largest, np.zeros(len(columns)), np.zeros(len(columns))
    # Two passes: squares around the means of the first lose no digits.
    n_passes = 2
    if len(columns) == 0:
        n_passes = 0
    for _ in range(n_passes):
        sums, squares = statistics.moments(columns, factors, means)
        squares = squares + n_zeros * means**2
        means = sums / sizes.n_rows
    return np.asarray(largest * np.sqrt(squares / sizes.n_rows))


def _find_uneven(
    columns: NDArray[np.int64], deviations: NDArray[np.float64]
) -> tuple[tuple[int, float], ...]:
    """Find the columns of the three largest deviations and of the smallest one, if they differ."""
    varying = np.flatnonzero(deviations > 0)
    order = varying[np.argsort(-deviations[varying], kind="stable")]
    if len(order) < 2 or deviations[order[0]] <= UNEVEN_FROM * deviations[order[-1]]:
        return ()
    return tuple((int(columns[k]), float(deviations[k])) for k in (*order[:-1][:3], order[-1]))


def check_scale(kind: str | None) -> str:
    """Check the name of a scaling; None is ``none``."""
    if kind is None:
        return "none"
    if kind not in SCALES:
        raise ParameterError(
            f"{kind!r} is not one of {', '.join(SCALES)}",
            parameter="scale",
            fix="Choose one of them",
        )
    return kind


def describe_scaling(metadata: Mapping[str, Any]) -> str:
    """Describe ``Scaling.metadata`` in words."""
    if metadata["kind"] != "auto":
        return str(metadata["kind"])
    treatments = {
        "by_deviation": "divided by their standard deviation",
        "by_largest": "divided by their largest value",
        "as_they_are": "left as they are",
    }
    parts = [f"{metadata[k]:,} columns {text}" for k, text in treatments.items() if metadata.get(k)]
    return f"auto: {', '.join(parts)} (measured on {metadata['lists']:,} lists)"


def scale_lists(
    data: Dataset, spec: msgspec.Struct | None = None, *, dtype: Any = np.float64
) -> Any:
    """Apply a transform of whole lists: ``ListRange`` unless ``RunScores`` is given.

    Scores are computed from float64 features, for rows of any type; for training,
    ``dtype`` keeps the type of the rows.
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
    """Normalise scores of retrievers; values that a sparse ``X`` does not store are absent."""
    if _is_sparse(X):
        n_rows = len(X.indptr) - 1
        scores = np.full((n_rows, n_features), np.nan)
        scores[np.repeat(np.arange(n_rows), np.diff(X.indptr)), X.indices] = X.data
    else:
        scores = np.asarray(X, dtype=np.float64)
    if order is None:
        return run_score_values(spec, scores, starts)
    normalised = np.empty_like(scores)
    normalised[order] = run_score_values(spec, scores[order], starts)
    return normalised


def _is_sparse(X: Any) -> bool:
    # Compressed rows of any library; a test with scipy would import it into a server.
    return hasattr(X, "indptr")


def _multiply_columns(X: Any, factors: NDArray[np.float64], n_scaled: int) -> Any:
    if not _is_sparse(X):
        return (X * factors).astype(X.dtype, copy=False)
    # The structure is shared with the unscaled rows; only the values differ.
    values = X.data.copy()
    _multiply_values(values, X.indices, factors[:n_scaled])
    scaled = copy(X)
    scaled.data = values
    return scaled


@jit
def _multiply_values(values: Any, indices: Any, factors: Any) -> None:
    """Multiply values by the factors of their columns; columns without a factor stay unchanged."""
    for k in range(values.shape[0]):
        if indices[k] < factors.shape[0]:
            values[k] *= factors[indices[k]]


@jit
def _prepare_csr(
    indptr: Any,
    indices: Any,
    values: Any,
    factors: Any,
    fills: Any,
    indicators: Any,
    out_indptr: Any,
    out_indices: Any,
    out_values: Any,
) -> None:
    """Write rows with missing values filled, columns scaled, and 1 in columns of indicators.

    ``fills`` and ``indicators`` (column number, -1 for none) are by column; columns behind them are
    filled with 0. A row has at most as many entries as before, since 0 is not stored.
    """
    n_out = np.uint64(0)
    for i in range(np.uint64(indptr.shape[0] - 1)):
        any_missing = False
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.uint64(indices[k])
            x = float(values[k])
            if np.isnan(x):
                any_missing = True
                x = 0.0
                if j < fills.shape[0]:
                    x = fills[j]
                if x == 0.0:
                    continue
            if j < factors.shape[0]:
                x *= factors[j]
            out_indices[n_out] = j
            out_values[n_out] = x
            n_out += np.uint64(1)
        if any_missing:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.uint64(indices[k])
                if np.isnan(values[k]) and j < indicators.shape[0] and indicators[j] >= 0:
                    out_indices[n_out] = indicators[j]
                    out_values[n_out] = 1.0
                    n_out += np.uint64(1)
        out_indptr[i + np.uint64(1)] = n_out


@generic
def column_sizes_into(
    rows: Rows, first: int, last: int, weight: Any, largest: Any, counts: Any
) -> None:
    """Measure the largest magnitude of every column, and sum the weights of its non-zero values."""


@generic
def column_sums_into(
    rows: Rows,
    first: int,
    last: int,
    weight: Any,
    slots: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> None:
    """Add weighted sums of x f and (x f - mean)^2 over non-zero values of columns with a slot."""


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
                j = rows.indices[k]
                if j >= counts.shape[0]:
                    break  # the indices of a row increase
                size = abs(rows.values[k])
                if size > 0.0:
                    counts[j] += weight[i]
                    largest[j] = max(largest[j], size)


@column_sums_into.implementation(DenseRows)
def _dense_sums(
    rows: Any,
    first: Any,
    last: Any,
    weight: Any,
    slots: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> Any:
    for i in range(first, last):
        for j in range(rows.values.shape[1]):
            p = slots[j]
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
    slots: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> Any:
    for i in range(first, last):
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            if rows.indices[k] >= slots.shape[0]:
                break  # the indices of a row increase
            p = slots[rows.indices[k]]
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
    slots: Any,
    factors: Any,
    means: Any,
    sums: Any,
    squares: Any,
) -> None:
    column_sums_into(rows, first, last, weight, slots, factors, means, sums, squares)
