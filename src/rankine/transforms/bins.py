"""Cut the values of columns into bins, and encode rows as the numbers of their cells.

Training, prediction and serving put the same value into the same cell.

Cuts are quantiles of a column's distinct values. A value with the mass of two bins or more (often
zero) gets a separate bin, and the other values share the remaining bins by mass. In tables a
quarter of the bins is placed by the spread of the values, so that tails have bins. A cut is between
two values that occur, at a float32 number if there is one in between, so that a comparison in
single precision gives the same cell. Missing values (NaN) have a separate cell; infinities are in
the outer bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import cell_error
from rankine.core.errors import ParameterError, SchemaError
from rankine.core.specs import MAX_CUTS, Bins, GridAxis, Grids
from rankine.kernels.binned import BLOCK, BinnedProducts, BinnedRows, TableLayout, copy_rows
from rankine.kernels.compile import jit
from rankine.kernels.shards import map_shards

#: Maximum number of rows, evenly spread over the first lists, that cuts are measured on.
SAMPLE_ROWS = 65_536
#: Number of buckets of a column; its cuts are in all but the first and the last.
BUCKETS = 1024
#: Number of rows that are searched together, column by column: they fit into the first-level cache.
CHUNK_ROWS = 128


#: Share of a table's bins that is placed by the spread of the values. Quantiles alone join all of a
#: long tail, so that a straight line over the bins is no line over the values.
SPREAD_SHARE = 0.25


def quantile_cuts(
    values: NDArray[np.float64],
    counts: NDArray[np.int64],
    bins: int,
    spread_share: float = 0.0,
) -> tuple[float, ...]:
    """Return at most ``bins - 1`` cuts between increasing distinct values with given counts.

    ``spread_share`` of the bins is placed by density^(1/3) instead of the density, which gives the
    bins of least squared error.
    """
    if len(values) <= bins:
        ends = np.arange(1, len(values))
    else:
        mass = np.concatenate([[0], np.cumsum(counts)])
        heavy = np.flatnonzero(counts * bins >= 2 * mass[-1])
        if spread_share > 0.0:
            mass = _mass_with_spread(values, counts, heavy, spread_share)
        # The values between two heavy ones share the remaining bins, by their mass.
        edges = np.concatenate([[-1], heavy, [len(values)]])
        spans = [(a + 1, b) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a + 1]
        span_mass = np.array([mass[b] - mass[a] for a, b in spans], dtype=np.float64)
        n_spare = bins - len(heavy) - len(spans)  # heavy values fill two bins each
        n_bins = 1 + np.floor(n_spare * span_mass / span_mass.sum()).astype(np.int64)
        inner = [_even_boundaries(mass, a, b, n) for (a, b), n in zip(spans, n_bins, strict=True)]
        ends = np.unique(np.concatenate([heavy, heavy + 1, *inner]))
        ends = ends[(ends > 0) & (ends < len(values))]
    return tuple(_between(float(values[k - 1]), float(values[k])) for k in ends.tolist())


def _mass_with_spread(
    values: NDArray[np.float64],
    counts: NDArray[np.int64],
    heavy: NDArray[np.int64],
    spread_share: float,
) -> NDArray[np.float64]:
    """Return the cumulated mass of the values, a share of it by spread; heavy values have none."""
    gaps = np.diff(values / np.abs(values).max())  # a difference of huge values would overflow
    widths = np.append(gaps, gaps[-1]) + np.append(gaps[0], gaps)
    light = counts.astype(np.float64)
    light[heavy] = 0.0
    spread = np.cbrt(light * widths**2)
    mixed = (1.0 - spread_share) * light / light.sum() + spread_share * spread / spread.sum()
    return np.concatenate([[0.0], np.cumsum(mixed)])


def _even_boundaries(mass: NDArray[Any], start: int, stop: int, n: int) -> NDArray[np.int64]:
    """Cut values start..stop-1 into about n equal masses, and return the inner boundaries."""
    targets = mass[start] + (mass[stop] - mass[start]) * np.arange(1, n) / n
    upper = np.searchsorted(mass, targets, side="left")
    lower_is_nearer = (targets - mass[upper - 1]) < (mass[upper] - targets)
    return np.unique(np.where(lower_is_nearer, upper - 1, upper))


def _between(low: float, high: float) -> float:
    """Return a number above low and at most high: a float32 in the middle, if there is one."""
    middle = low + (high - low) / 2
    if not np.isfinite(high - low):
        middle = low / 2 + high / 2  # cannot overflow, but loses the last digit of tiny numbers
    with np.errstate(over="ignore"):
        single = float(np.float32(middle))
    if low < single <= high:
        return single
    if low < middle <= high:
        return middle
    return high  # neighbouring numbers have no middle


class RowSample:
    """Every k-th row of a stream, for the smallest power of 2 k that gives ``SAMPLE_ROWS`` at most.

    The sample does not depend on how the rows are split into parts.
    """

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._step, self._n_seen, self._n_rows = 1, 0, 0

    def append(self, X: Any) -> None:
        """Append rows (dense or CSR)."""
        n_seen = self._n_seen + X.shape[0]
        while -(-n_seen // self._step) > SAMPLE_ROWS:
            # Too many: keep every second row of the sample.
            parts, self._parts, self._n_rows, start = self._parts, [], 0, 0
            for part in parts:
                self._add(part[start % 2 :: 2])
                start += part.shape[0]
            self._step *= 2
        first = -self._n_seen % self._step
        self._n_seen = n_seen
        self._add(X[first :: self._step])

    def _add(self, part: Any) -> None:
        self._parts.append(part.copy())
        self._n_rows += part.shape[0]

    def rows(self) -> Any:
        """Return the sample as one matrix."""
        parts = self._parts
        if not hasattr(parts[0], "indptr"):
            return np.concatenate(parts)
        counts = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)])
        data = np.concatenate([part.data for part in parts])
        indices = np.concatenate([part.indices for part in parts])
        shape = (self._n_rows, parts[0].shape[1])
        # The constructor of the parts' own class: naming scipy would import it into a server.
        return type(parts[0])((data, indices, np.cumsum(counts)), shape=shape)


def fit_bins(X: Any, bins: int, *, unordered: Sequence[int] = ()) -> Bins:
    """Measure cuts on a sample of rows (dense or CSR, where an absent value is a zero)."""
    if not 2 <= bins <= MAX_CUTS + 1:
        raise ParameterError(
            f"{bins} is not between 2 and {MAX_CUTS + 1}",
            parameter="bins",
            fix="Use 64, which suits most data",
        )
    columns = X
    if hasattr(X, "indptr"):
        columns = X.tocsc()
    cuts: list[tuple[float, ...]] = []
    for j in range(X.shape[1]):
        values, counts = _distinct(columns, j)
        if j in unordered:
            most_frequent = np.sort(np.argsort(-counts, kind="stable")[:MAX_CUTS])
            cuts.append(tuple(values[most_frequent].tolist()))
        else:
            cuts.append(quantile_cuts(values, counts, bins, SPREAD_SHARE))
    return Bins(tuple(cuts), tuple(sorted(set(unordered))))


def _distinct(columns: Any, j: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the finite distinct values of a column, increasing, and their counts."""
    if hasattr(columns, "indptr"):
        stored = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        n_zeros = columns.shape[0] - len(stored)
    else:
        stored, n_zeros = columns[:, j], 0
    values = np.sort(stored)
    values = values[np.isfinite(values)].astype(np.float64) + 0.0  # -0 is 0
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])[: len(values)])
    counts = np.diff(np.concatenate([first, [len(values)]]))
    values = values[first]
    if n_zeros:
        k = int(np.searchsorted(values, 0.0))
        if k < len(values) and values[k] == 0.0:
            counts[k] += n_zeros
        else:
            values, counts = np.insert(values, k, 0.0), np.insert(counts, k, n_zeros)
    return values, counts.astype(np.int64)


class CutSearch(NamedTuple):
    """Cuts of several columns, arranged for search.

    The *bucket* of a value x is given by the high bits of the number max(x + added, least): such
    numbers are positive, so their bits have their order, and a bucket never decreases as x grows.
    A value is above all cuts of lower buckets: ``guide`` counts these, and one cut remains to be
    compared. Buckets are spaced logarithmically, or almost evenly if ``added`` is large; each
    column has a spacing with at most one cut per bucket. A column without such a spacing is
    *scanned*: a value is compared with every eighth cut, then with seven. Both searches add up
    comparisons instead of branching on them: values come in random order, which a processor cannot
    predict.

    Attributes
    ----------
    cuts
        Row j: cuts of column j, then NaN (which no value exceeds), a multiple of 8 entries.
    sizes
        Number of cuts; -1 where a column has no cells.
    added, least
        Makes the values of a column positive.
    base, shift
        Bits of bucket 0, and number of low bits that a bucket ignores.
    guide
        Number of cuts below each bucket.
    bucketed, scanned, unordered
        Columns with cells, by search: ordered columns with buckets, ordered columns that are
        scanned, and unordered columns.
    """

    cuts: NDArray[np.float64]
    sizes: NDArray[np.int64]
    added: NDArray[np.float64]
    least: NDArray[np.float64]
    base: NDArray[np.int64]
    shift: NDArray[np.int64]
    guide: NDArray[np.uint8]
    bucketed: NDArray[np.uint64]
    scanned: NDArray[np.uint64]
    unordered: NDArray[np.uint64]


@jit
def _bits(x: Any) -> Any:
    return np.float64(x).view(np.int64)


@jit
def _bucketed_cell(
    x: Any, cuts: Any, guide: Any, added: Any, least: Any, base: Any, shift: Any, missing: Any
) -> Any:
    """Return the cell of a value in an ordered column with at most one cut per bucket."""
    y = x + added
    y = y if y > least else least  # noqa: FURB136 - NaN too
    bucket = min((_bits(y) - base) >> shift, BUCKETS - 1)
    cell = np.uint64(guide[np.uint64(bucket)])
    cell += np.uint64(x >= cuts[cell])
    return cell + np.uint64(missing) * np.uint64(x != x)  # noqa: PLR0124 - NaN is not itself


@jit
def _above(x: Any, cuts: Any) -> Any:
    """Count the cuts that are at most x: compare every eighth, then seven."""
    eighths = np.uint64(0)
    for c in range(7, cuts.shape[0], 8):
        eighths += np.uint64(x >= cuts[c])
    first = eighths * np.uint64(8)
    cell = first
    for c in range(7):
        cell += np.uint64(x >= cuts[first + np.uint64(c)])
    return cell


@jit
def _scanned_cell(x: Any, cuts: Any, missing: Any) -> Any:
    """Return the cell of a value in any ordered column."""
    # A missing value is above no cut.
    return _above(x, cuts) + np.uint64(missing) * np.uint64(x != x)  # noqa: PLR0124


@jit
def _unordered_cell(x: Any, cuts: Any, missing: Any) -> Any:
    """Return the cell of a value in an unordered column."""
    cell = _above(x, cuts)
    hit = cell > np.uint64(0) and cuts[cell - np.uint64(1)] == x
    cell = cell - np.uint64(1) if hit else np.uint64(missing) - np.uint64(1)
    return cell if x == x else np.uint64(missing)  # noqa: PLR0124


def cut_search(bins: Bins, used: NDArray[np.bool_] | None = None) -> CutSearch:
    """Arrange the cuts of all columns for search; columns that are not ``used`` are left out."""
    n_columns = len(bins.cuts)
    n_cuts = max((len(cuts) for cuts in bins.cuts), default=0)
    table = np.full((n_columns, 8 * (n_cuts // 8 + 1)), np.nan)
    sizes = np.array([len(cuts) for cuts in bins.cuts], dtype=np.int64)
    sizes[list(bins.linear)] = -1
    bucketed, scanned, unordered = range(3)
    search_kinds = np.where(sizes >= 0, bucketed, -1)
    search_kinds[list(bins.unordered)] = unordered
    if used is not None:
        search_kinds[~used] = -1
    added, least = np.zeros(n_columns), np.ones(n_columns)
    base, shift = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.int64)
    guide = np.zeros((n_columns, BUCKETS), dtype=np.uint8)
    for j, cuts in enumerate(bins.cuts):
        table[j, : len(cuts)] = cuts
        if search_kinds[j] != bucketed or not cuts:
            continue
        spacing = _bucket_spacing(cuts)
        if spacing is None:
            search_kinds[j] = scanned
        else:
            added[j], least[j], base[j], shift[j], buckets = spacing
            guide[j] = np.searchsorted(buckets, np.arange(BUCKETS), side="left")
    columns = [
        np.flatnonzero(search_kinds == search_kind).astype(np.uint64)
        for search_kind in (bucketed, scanned, unordered)
    ]
    return CutSearch(table, sizes, added, least, base, shift, guide, *columns)


def _bucket_spacing(
    cuts: tuple[float, ...],
) -> tuple[float, float, int, int, NDArray[np.int64]] | None:
    """Find a spacing (added, least, base, shift) that separates all cuts, and the cuts' buckets.

    Even spacing is tried first, then more and more logarithmic ones; None if none separates them.
    """
    span = 1.0
    if len(cuts) > 1:
        span = cuts[-1] - cuts[0]
    for power in (4, 0, -4, -8, -16, -32, -64, -128, -256):
        least = span * 2.0**power
        if not 0.0 < least < np.inf:
            continue
        added = least - cuts[0]
        with np.errstate(over="ignore"):
            bits = np.maximum(np.array(cuts) + added, least).view(np.int64)
        shift = (int(bits[-1] - bits[0]) // (BUCKETS - 1)).bit_length()
        base = int(bits[0]) - (1 << shift)
        buckets = (bits - base) >> shift
        if (np.diff(buckets) > 0).all():
            return added, least, base, shift, buckets
    return None


@jit
def code_rows(values: Any, search: Any, codes: Any) -> None:
    """Write the codes of the rows of a matrix: ``codes[j, i]`` of column j in row i.

    A few rows at a time stay in the first-level cache while their columns are searched one by one.
    """
    for first in range(0, values.shape[0], CHUNK_ROWS):
        last = min(first + CHUNK_ROWS, values.shape[0])
        for j in search.bucketed:
            cuts, guide, out = search.cuts[j], search.guide[j], codes[j]
            added, least, missing = search.added[j], search.least[j], search.sizes[j] + 1
            base, shift = search.base[j], search.shift[j]
            for i in range(first, last):
                x = np.float64(values[i, j])
                out[i] = _bucketed_cell(x, cuts, guide, added, least, base, shift, missing)
        for j in search.scanned:
            cuts, missing, out = search.cuts[j], search.sizes[j] + 1, codes[j]
            for i in range(first, last):
                out[i] = _scanned_cell(np.float64(values[i, j]), cuts, missing)
        for j in search.unordered:
            cuts, missing, out = search.cuts[j], search.sizes[j] + 1, codes[j]
            for i in range(first, last):
                out[i] = _unordered_cell(np.float64(values[i, j]), cuts, missing)


@jit
def _code_dense(values: Any, search: Any, codes: Any, offset: int, first: int, last: int) -> None:
    """Write the codes of rows first..last-1 of a matrix, from row ``offset`` of the store on."""
    block = codes.shape[2]
    while first < last:
        k, at = (offset + first) // block, (offset + first) % block
        n = min(last - first, block - at)
        code_rows(values[first : first + n], search, codes[k][:, at : at + n])
        first += n


@jit
def _code_csr(
    indptr: Any,
    indices: Any,
    values: Any,
    search: Any,
    absent: Any,
    codes: Any,
    offset: int,
    first: int,
    last: int,
) -> None:
    cuts, sizes = search.cuts, search.sizes
    is_unordered = np.zeros(sizes.shape[0], dtype=np.bool_)
    for j in search.unordered:
        is_unordered[j] = True
    block = codes.shape[2]
    for i in range(first, last):
        k, at = (offset + i) // block, (offset + i) % block
        for j in range(absent.shape[0]):
            codes[k, j, at] = absent[j]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if sizes[j] >= 0:
                x = np.float64(values[p])
                missing = sizes[j] + 1
                if is_unordered[j]:
                    codes[k, j, at] = _unordered_cell(x, cuts[j], missing)
                else:
                    codes[k, j, at] = _scanned_cell(x, cuts[j], missing)


class BinCoder:
    """Encodes rows as codes of cells, which do not depend on the number of threads."""

    def __init__(self, bins: Bins, threads: int | None = None) -> None:
        self.bins = bins
        self.threads = threads
        self.search = cut_search(bins)

    @cached_property
    def _zero_codes(self) -> NDArray[np.uint8]:
        """Codes of a row of zeros."""
        return self.code(np.zeros((1, len(self.bins.cuts)))).codes[0, :, 0]

    def code_into(self, X: Any, codes: NDArray[np.uint8], offset: int = 0) -> None:
        """Write the codes of rows from row ``offset`` of the blocks on."""
        if X.shape[1] != len(self.bins.cuts):
            raise SchemaError(
                f"{X.shape[1]} columns for bins of {len(self.bins.cuts)}",
                fix="Pass the columns that the ranker was fitted to",
            )
        n_rows, search = X.shape[0], self.search
        shards = [*range(0, n_rows, 8 * BLOCK), n_rows]
        if hasattr(X, "indptr"):
            zeros = self._zero_codes

            def code_shard(first: int, last: int) -> None:
                matrix = (X.indptr, X.indices, X.data)
                _code_csr(*matrix, search, zeros, codes, offset, first, last)
        else:

            def code_shard(first: int, last: int) -> None:
                _code_dense(X, search, codes, offset, first, last)

        map_shards(code_shard, shards, self.threads)

    def code(self, X: Any) -> BinnedRows:
        """Return the codes of all rows of a matrix."""
        store = CodeStore(self, X.shape[0])
        store.append(X)
        return store.rows()


class CodeStore:
    """Codes of rows that are appended in parts; the result does not depend on the parts.

    ``expected`` rows get memory at once; more can be appended.
    """

    def __init__(self, coder: BinCoder, expected: int = 0) -> None:
        self._coder = coder
        self._n_rows = 0
        expected = max(expected, 1)
        self._codes = self._allocate(-(-expected // BLOCK), min(expected, BLOCK))

    def _allocate(self, n_blocks: int, length: int) -> NDArray[np.uint8]:
        return np.zeros((n_blocks, len(self._coder.bins.cuts), length), dtype=np.uint8)

    def append(self, X: Any) -> None:
        """Append rows."""
        self._make_room(X.shape[0])
        self._coder.code_into(X, self._codes, self._n_rows)
        self._n_rows += X.shape[0]

    def append_codes(self, rows: BinnedRows) -> None:
        """Append rows that were coded elsewhere; the first ones are not copied."""
        if self._n_rows == 0 and rows.codes.flags.owndata:
            self._codes, self._n_rows = rows
            return
        self._make_room(rows.n_rows)
        copy_rows(rows.codes, rows.n_rows, self._codes, self._n_rows)
        self._n_rows += rows.n_rows

    def _make_room(self, n_more: int) -> None:
        needed = self._n_rows + n_more
        blocks, columns, length = self._codes.shape
        if needed <= blocks * length:
            return
        if length < BLOCK:
            grown = self._allocate(blocks, BLOCK)
            grown[:, :, :length] = self._codes
            self._codes = grown
        # In place: two copies of all codes may not fit into memory where one does.
        self._codes.resize((-(-needed // BLOCK), columns, BLOCK), refcheck=False)

    def rows(self) -> BinnedRows:
        """Return the codes of all rows so far."""
        n_blocks = max(1, -(-self._n_rows // self._codes.shape[2]))
        if n_blocks == self._codes.shape[0]:
            return BinnedRows(self._codes, self._n_rows)
        # Not a view: its memory would move when further rows are appended.
        return BinnedRows(self._codes[:n_blocks].copy(), self._n_rows)


def grid_axis(bins: Bins, column: int, counts: NDArray[np.float64], side: int) -> GridAxis:
    """Join the cells of a column into at most ``side`` groups of about equal mass, and one for NaN.

    The ``side - 1`` most frequent values of an unordered column keep separate groups, and the
    others share one with unseen values. ``counts`` are the numbers of rows of each cell.
    """
    n_inner = len(bins.cuts[column]) + 1
    if n_inner <= side:
        return GridAxis(column, tuple(range(n_inner + 1)))
    if column in bins.unordered:
        frequent = np.argsort(-counts[: n_inner - 1], kind="stable")[: side - 1]
        group_of_cell = np.full(n_inner, side - 1)
        group_of_cell[np.sort(frequent)] = np.arange(side - 1)
    else:
        mass = np.concatenate([[0.0], np.cumsum(counts[:n_inner])]) + np.arange(n_inner + 1) * 1e-9
        targets = mass[-1] * np.arange(1, side) / side
        ends = np.unique(np.clip(np.searchsorted(mass, targets), 1, n_inner - 1))
        group_of_cell = np.searchsorted(ends, np.arange(n_inner), side="right")
    return GridAxis(column, (*group_of_cell.tolist(), int(group_of_cell.max()) + 1))


class TableScorer:
    """Scores rows with tables; the arranged cuts serve many calls and all weights."""

    def __init__(self, bins: Bins, grids: Grids | None, threads: int | None = None) -> None:
        self.bins = bins
        self.grids = grids
        self.threads = threads
        self._layout = layout_of(bins, grids)
        self._coder = BinCoder(bins, threads)

    def score(self, weights: NDArray[np.float64], X: Any) -> NDArray[np.float64]:
        """Sum table entries, and linear columns times their weights, of every row."""
        n_cells = self._layout.size
        rows = self._coder.code(X)
        scores = BinnedProducts(rows, self._layout, self.threads).scores(weights[:n_cells])
        if self.bins.linear:
            part = linear_part(X, self.bins.linear, self.bins.names)
            for k in range(part.shape[1]):
                if hasattr(part, "indptr"):
                    column = part[:, [k]].toarray().ravel()
                else:
                    column = part[:, k]
                scores += weights[n_cells + k] * column
        return scores


def linear_part(X: Any, linear: Sequence[int], names: Sequence[str] | None) -> Any:
    """Return the linear columns of rows; raise if a value is not finite."""
    part = X[:, list(linear)]
    if hasattr(part, "indptr"):
        stored = part.tocoo()
        not_finite = ~np.isfinite(stored.data)
        rows, columns = stored.row[not_finite], stored.col[not_finite]
    else:
        rows, columns = np.nonzero(~np.isfinite(part))
    if len(rows):
        row, j = int(rows[0]), int(linear[columns[0]])
        reason = f"is {X[row, j]}, but the column is linear, and only tables have a cell for it"
        fix = "Fill the value, or take the column out of linear"
        raise cell_error(row, j, names, reason, fix, "linear")
    return part


def layout_of(bins: Bins, grids: Grids | None = None) -> TableLayout:
    """Arrange the tables of cells and grids in one vector."""
    sizes = np.array(bins.n_cells, dtype=np.int64)
    ends = np.cumsum(sizes)
    starts = np.where(sizes > 0, ends - sizes, -1)
    n_cells = int(ends[-1]) if len(ends) else 0
    if grids is None:
        empty = np.zeros(0, dtype=np.int64)
        return TableLayout(
            starts, empty, empty, empty, np.zeros((0, 256), dtype=np.uint16), n_cells
        )
    grid_sizes = np.array(grids.n_cells, dtype=np.int64)
    grid_ends = n_cells + np.cumsum(grid_sizes)
    cell_offsets = np.zeros((2 * len(grids.pairs), 256), dtype=np.uint16)
    for g, (a, b) in enumerate(grids.pairs):
        first, second = grids.axes[a], grids.axes[b]
        cell_offsets[2 * g, : len(first.cells)] = np.array(first.cells) * second.size
        cell_offsets[2 * g + 1, : len(second.cells)] = second.cells
    columns = np.array([axis.column for axis in grids.axes], dtype=np.int64)
    pairs = np.array(grids.pairs, dtype=np.int64).reshape(len(grids.pairs), 2)
    size = int(grid_ends[-1]) if len(grid_ends) else n_cells
    return TableLayout(
        starts,
        columns[pairs[:, 0]],
        columns[pairs[:, 1]],
        grid_ends - grid_sizes,
        cell_offsets,
        size,
    )
