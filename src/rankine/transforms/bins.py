"""Cuts of columns, and columns as cells: the same numbers give the same cells everywhere.

Cuts are quantiles of a column's distinct values. A value that holds two bins' worth of the rows
or more (zero, often) has a bin of its own, and the rest is shared out by mass. A cut lies between
two values that were seen, on a float32 where one fits, so that a comparison in single precision
decides alike. Missing values (NaN) have a cell of their own; infinities fall into the outer bins.
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

#: Cuts are measured on at most this many rows of the first lists, evenly spread.
SAMPLE_ROWS = 65_536
#: Buckets of a column; its cuts fall into all but the first and the last.
BUCKETS = 1024
#: Rows whose columns are searched one after the other.
FEW = 128


def quantile_cuts(
    values: NDArray[np.float64], counts: NDArray[np.int64], bins: int
) -> tuple[float, ...]:
    """At most ``bins - 1`` cuts between increasing distinct values of the given counts."""
    if len(values) <= bins:
        ends = np.arange(1, len(values))
    else:
        mass = np.concatenate([[0], np.cumsum(counts)])
        heavy = np.flatnonzero(counts * bins >= 2 * mass[-1])
        # Light values between two heavy ones share the bins that are left, by their mass.
        edges = np.concatenate([[-1], heavy, [len(values)]])
        spans = [(a + 1, b) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a + 1]
        weight = np.array([mass[b] - mass[a] for a, b in spans], dtype=np.float64)
        spare = bins - len(heavy) - len(spans)  # heavy values fill two bins each
        shares = 1 + np.floor(spare * weight / weight.sum()).astype(np.int64)
        ends = np.concatenate(
            [
                heavy,
                heavy + 1,
                *(_even(mass, a, b, n) for (a, b), n in zip(spans, shares, strict=True)),
            ]
        )
        ends = np.unique(ends)
        ends = ends[(ends > 0) & (ends < len(values))]
    return tuple(_between(float(values[k - 1]), float(values[k])) for k in ends.tolist())


def _even(mass: NDArray[np.int64], start: int, stop: int, n: int) -> NDArray[np.int64]:
    """Boundaries that cut values start..stop-1 into about n equal masses (inner ones only)."""
    targets = mass[start] + (mass[stop] - mass[start]) * np.arange(1, n) / n
    after = np.searchsorted(mass, targets, side="left")
    nearer = (targets - mass[after - 1]) < (mass[after] - targets)
    return np.unique(np.where(nearer, after - 1, after))


def _between(low: float, high: float) -> float:
    """A number above low and at most high: a float32 in the middle, if one lies there."""
    middle = low + (high - low) / 2 if np.isfinite(high - low) else low / 2 + high / 2
    with np.errstate(over="ignore"):
        single = float(np.float32(middle))
    if low < single <= high:
        return single
    return middle if low < middle <= high else high


class RowSample:
    """Every k-th row of those that come, k the least power of 2 that keeps ``SAMPLE_ROWS`` at most.

    The sample is the same however the rows are cut into parts.
    """

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._step, self._seen, self._kept = 1, 0, 0

    def append(self, X: Any) -> None:
        """Take further rows (dense or CSR)."""
        seen = self._seen + X.shape[0]
        while -(-seen // self._step) > SAMPLE_ROWS:
            parts, self._parts, self._kept, at = self._parts, [], 0, 0
            for part in parts:
                self._add(part[at % 2 :: 2])
                at += part.shape[0]
            self._step *= 2
        first = -self._seen % self._step
        self._seen = seen
        self._add(X[first :: self._step])

    def _add(self, part: Any) -> None:
        self._parts.append(part.copy())
        self._kept += part.shape[0]

    def rows(self) -> Any:
        """The sample."""
        if not hasattr(self._parts[0], "indptr"):
            return np.concatenate(self._parts)
        # A matrix of its own kind: naming scipy would import it into a server.
        parts = self._parts
        counts = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)])
        data = np.concatenate([part.data for part in parts])
        indices = np.concatenate([part.indices for part in parts])
        shape = (self._kept, parts[0].shape[1])
        return type(parts[0])((data, indices, np.cumsum(counts)), shape=shape)


def fit_bins(X: Any, bins: int, *, unordered: Sequence[int] = ()) -> Bins:
    """Measure cuts on the rows of a sample (dense or CSR; an absent value of CSR is a zero)."""
    if not 2 <= bins <= MAX_CUTS + 1:
        raise ParameterError(
            f"bins={bins} is not between 2 and {MAX_CUTS + 1}", fix="64 bins serve most data"
        )
    columns = X.tocsc() if hasattr(X, "indptr") else X
    cuts: list[tuple[float, ...]] = []
    for j in range(X.shape[1]):
        values, counts = _distinct(columns, j)
        if j in unordered:
            most = np.sort(np.argsort(-counts, kind="stable")[:MAX_CUTS])
            cuts.append(tuple(values[most].tolist()))
        else:
            cuts.append(quantile_cuts(values, counts, bins))
    return Bins(tuple(cuts), tuple(sorted(set(unordered))))


def _distinct(columns: Any, j: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Finite distinct values of a column, increasing, and how often each occurs."""
    if hasattr(columns, "indptr"):
        stored = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        absent = columns.shape[0] - len(stored)
    else:
        stored, absent = columns[:, j], 0
    values = np.sort(stored)
    values = values[np.isfinite(values)].astype(np.float64) + 0.0  # -0 is 0
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])[: len(values)])
    counts = np.diff(np.concatenate([first, [len(values)]]))
    values = values[first]
    if absent:
        at = int(np.searchsorted(values, 0.0))
        if at < len(values) and values[at] == 0.0:
            counts[at] += absent
        else:
            values, counts = np.insert(values, at, 0.0), np.insert(counts, at, absent)
    return values, counts.astype(np.int64)


class CutSearch(NamedTuple):
    """Cuts of several columns, laid out to be searched.

    The *bucket* of a value x is a run of high bits of the number max(x + added, least): such
    numbers are positive, so their bits are in their order, and a bucket never falls as x grows. A
    value lies above all cuts of lower buckets: ``guide`` counts them, and one cut is left to
    compare. Bits grow with the logarithm, or, where ``added`` is large, in proportion: each column
    has the steps that tell its cuts apart. Columns with two cuts in a bucket all the same are
    searched in eighths. Both add up comparisons instead of branching on them: values come in no
    order that could be foreseen.

    Attributes
    ----------
    cuts
        Row j: cuts of column j, then NaN (which nothing exceeds), a multiple of 8 places.
    sizes
        Number of cuts; -1 where a column has no cells.
    added, least
        What makes the values of a column positive.
    base, shift
        Bits of bucket 0, and bits that a bucket does not see.
    guide
        Cuts below each bucket.
    guided, sought, named
        Columns with cells: those to search from their buckets, the other ordered ones, and the
        unordered ones.
    """

    cuts: NDArray[np.float64]
    sizes: NDArray[np.int64]
    added: NDArray[np.float64]
    least: NDArray[np.float64]
    base: NDArray[np.int64]
    shift: NDArray[np.int64]
    guide: NDArray[np.uint8]
    guided: NDArray[np.uint64]
    sought: NDArray[np.uint64]
    named: NDArray[np.uint64]


@jit
def _bits(x: Any) -> Any:
    return np.float64(x).view(np.int64)


@jit
def _guided_cell(
    x: Any, cuts: Any, guide: Any, added: Any, least: Any, base: Any, shift: Any, missing: Any
) -> Any:
    """Cell of a value in an ordered column whose buckets hold one cut at most."""
    y = x + added
    y = y if y > least else least  # noqa: FURB136 - NaN too
    bucket = min((_bits(y) - base) >> shift, BUCKETS - 1)
    place = np.uint64(guide[np.uint64(bucket)])
    place += np.uint64(x >= cuts[place])
    return place + np.uint64(missing) * np.uint64(x != x)  # noqa: PLR0124 - NaN is not itself


@jit
def _above(x: Any, cuts: Any) -> Any:
    """Cuts that are at most x: every eighth is asked, then seven."""
    eighths = np.uint64(0)
    for c in range(7, cuts.shape[0], 8):
        eighths += np.uint64(x >= cuts[c])
    first = eighths * np.uint64(8)
    place = first
    for c in range(7):
        place += np.uint64(x >= cuts[first + np.uint64(c)])
    return place


@jit
def _sought_cell(x: Any, cuts: Any, missing: Any) -> Any:
    """Cell of a value in any ordered column."""
    # A missing value is above no cut.
    return _above(x, cuts) + np.uint64(missing) * np.uint64(x != x)  # noqa: PLR0124


@jit
def _named_cell(x: Any, cuts: Any, missing: Any) -> Any:
    """Cell of a value in an unordered column."""
    place = _above(x, cuts)
    hit = place > np.uint64(0) and cuts[place - np.uint64(1)] == x
    place = place - np.uint64(1) if hit else np.uint64(missing) - np.uint64(1)
    return place if x == x else np.uint64(missing)  # noqa: PLR0124


def cut_search(bins: Bins, used: NDArray[np.bool_] | None = None) -> CutSearch:
    """Lay out the cuts of all columns; those not ``used`` are not searched."""
    n_columns = len(bins.cuts)
    longest = max((len(cuts) for cuts in bins.cuts), default=0)
    cuts = np.full((n_columns, 8 * (longest // 8 + 1)), np.nan)
    linear = set(bins.linear)
    sizes = np.array([-1 if j in linear else len(own) for j, own in enumerate(bins.cuts)])
    kinds = np.where(sizes >= 0, 0, -1)
    kinds[list(bins.unordered)] = 2
    if used is not None:
        kinds[~used] = -1
    added, least = np.zeros(n_columns), np.ones(n_columns)
    base, shift = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.int64)
    guide = np.zeros((n_columns, BUCKETS), dtype=np.uint8)
    for j, own in enumerate(bins.cuts):
        cuts[j, : len(own)] = own
        if kinds[j] != 0 or not own:
            continue
        found = _buckets(own)
        if found is None:
            kinds[j] = 1
        else:
            added[j], least[j], base[j], shift[j], buckets = found
            guide[j] = np.searchsorted(buckets, np.arange(BUCKETS), side="left")
    columns = [np.flatnonzero(kinds == kind).astype(np.uint64) for kind in range(3)]
    return CutSearch(cuts, sizes.astype(np.int64), added, least, base, shift, guide, *columns)


def _buckets(cuts: tuple[float, ...]) -> tuple[float, float, int, int, NDArray[np.int64]] | None:
    """Steps that give every cut a bucket of its own (added, least, base, shift), and the buckets.

    Steps in proportion are tried first, then ever more logarithmic ones; None where none serve.
    """
    span = cuts[-1] - cuts[0] if len(cuts) > 1 else 1.0
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
    """Codes of the rows of a matrix: ``codes[j, i]`` of column j in row i.

    Few rows at a time stay in the first cache while their columns are searched one by one.
    """
    for first in range(0, values.shape[0], FEW):
        last = min(first + FEW, values.shape[0])
        for j in search.guided:
            cuts, guide, out = search.cuts[j], search.guide[j], codes[j]
            added, least, missing = search.added[j], search.least[j], search.sizes[j] + 1
            base, shift = search.base[j], search.shift[j]
            for i in range(first, last):
                x = np.float64(values[i, j])
                out[i] = _guided_cell(x, cuts, guide, added, least, base, shift, missing)
        for j in search.sought:
            cuts, missing, out = search.cuts[j], search.sizes[j] + 1, codes[j]
            for i in range(first, last):
                out[i] = _sought_cell(np.float64(values[i, j]), cuts, missing)
        for j in search.named:
            cuts, missing, out = search.cuts[j], search.sizes[j] + 1, codes[j]
            for i in range(first, last):
                out[i] = _named_cell(np.float64(values[i, j]), cuts, missing)


@jit
def _code_dense(values: Any, search: Any, codes: Any, offset: int, first: int, last: int) -> None:
    """Codes of rows first..last-1 of a matrix, written from row ``offset`` of the store on."""
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
    named = np.zeros(sizes.shape[0], dtype=np.bool_)
    for j in search.named:
        named[j] = True
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
                if named[j]:
                    codes[k, j, at] = _named_cell(x, cuts[j], missing)
                else:
                    codes[k, j, at] = _sought_cell(x, cuts[j], missing)


class BinCoder:
    """Turns rows into codes, which do not depend on the number of threads."""

    def __init__(self, bins: Bins, threads: int | None = None) -> None:
        self.bins = bins
        self.threads = threads
        self.search = cut_search(bins)

    @cached_property
    def _absent(self) -> NDArray[np.uint8]:
        """Codes of a row of zeros."""
        return self.code(np.zeros((1, len(self.bins.cuts)))).codes[0, :, 0]

    def code_into(self, X: Any, codes: NDArray[np.uint8], offset: int = 0) -> None:
        """Write the codes of rows from row ``offset`` of the blocks on."""
        if X.shape[1] != len(self.bins.cuts):
            raise SchemaError(
                f"{X.shape[1]} columns for bins of {len(self.bins.cuts)}",
                fix="Give the columns of the fit",
            )
        n_rows = X.shape[0]
        shards = [*range(0, n_rows, 8 * BLOCK), n_rows]
        if hasattr(X, "indptr"):
            parts, absent = (X.indptr, X.indices, X.data), self._absent
            map_shards(
                lambda a, b: _code_csr(*parts, self.search, absent, codes, offset, a, b),
                shards,
                self.threads,
            )
        else:
            map_shards(
                lambda a, b: _code_dense(X, self.search, codes, offset, a, b),
                shards,
                self.threads,
            )

    def code(self, X: Any) -> BinnedRows:
        """Codes of all rows of a matrix."""
        store = CodeStore(self, X.shape[0])
        store.append(X)
        return store.rows()


class CodeStore:
    """Codes of rows that come in parts; a store is the same whatever the parts are.

    There is room for ``expected`` rows; more may come.
    """

    def __init__(self, coder: BinCoder, expected: int = 0) -> None:
        self._coder = coder
        self._n_rows = 0
        expected = max(expected, 1)
        self._codes = self._room(-(-expected // BLOCK), min(expected, BLOCK))

    def _room(self, n_blocks: int, length: int) -> NDArray[np.uint8]:
        return np.zeros((n_blocks, len(self._coder.bins.cuts), length), dtype=np.uint8)

    def append(self, X: Any) -> None:
        """Take further rows."""
        needed = self._make_room(X.shape[0])
        self._coder.code_into(X, self._codes, self._n_rows)
        self._n_rows = needed

    def append_codes(self, rows: BinnedRows) -> None:
        """Take rows that were coded elsewhere; the first are taken as they are."""
        if self._n_rows == 0 and rows.codes.flags.owndata:
            self._codes, self._n_rows = rows
            return
        needed = self._make_room(rows.n_rows)
        copy_rows(rows.codes, rows.n_rows, self._codes, self._n_rows)
        self._n_rows = needed

    def _make_room(self, more: int) -> int:
        needed = self._n_rows + more
        blocks, columns, length = self._codes.shape
        if needed > blocks * length:
            if length < BLOCK:
                grown = self._room(blocks, BLOCK)
                grown[:, :, :length] = self._codes
                self._codes = grown
            # In place: two copies of all codes would not fit where one just does.
            self._codes.resize((-(-needed // BLOCK), columns, BLOCK), refcheck=False)
        return needed

    def rows(self) -> BinnedRows:
        """The codes taken so far."""
        n_blocks = max(1, -(-self._n_rows // self._codes.shape[2]))
        # No view: memory that others look at must not be moved when further rows come.
        whole = n_blocks == self._codes.shape[0]
        return BinnedRows(self._codes if whole else self._codes[:n_blocks].copy(), self._n_rows)


def grid_axis(bins: Bins, column: int, counts: NDArray[np.float64], side: int) -> GridAxis:
    """Join the cells of a column into at most ``side`` places of about equal mass, and one for NaN.

    Of an unordered column the ``side - 1`` most frequent values keep a place of their own and the
    others share one with values never seen. ``counts`` are the rows of each cell.
    """
    inner = len(bins.cuts[column]) + 1
    if inner <= side:
        return GridAxis(column, tuple(range(inner + 1)))
    if column in bins.unordered:
        known = np.argsort(-counts[: inner - 1], kind="stable")[: side - 1]
        places = np.full(inner, side - 1)
        places[np.sort(known)] = np.arange(side - 1)
    else:
        mass = np.concatenate([[0.0], np.cumsum(counts[:inner])]) + np.arange(inner + 1) * 1e-9
        targets = mass[-1] * np.arange(1, side) / side
        ends = np.unique(np.clip(np.searchsorted(mass, targets), 1, inner - 1))
        places = np.searchsorted(ends, np.arange(inner), side="right")
    return GridAxis(column, (*places.tolist(), int(places.max()) + 1))


def score_tables(
    bins: Bins,
    grids: Grids | None,
    weights: NDArray[np.float64],
    X: Any,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Scores of many rows: sums of table entries, and of linear columns times their weights."""
    layout = layout_of(bins, grids)
    rows = BinCoder(bins, threads).code(X)
    scores = BinnedProducts(rows, layout, threads).scores(weights[: layout.size])
    if bins.linear:
        part = linear_part(X, bins.linear, bins.names)
        for k in range(part.shape[1]):
            column = part[:, [k]].toarray().ravel() if hasattr(part, "indptr") else part[:, k]
            scores += weights[layout.size + k] * column
    return scores


def linear_part(X: Any, linear: Sequence[int], names: Sequence[str] | None) -> Any:
    """The linear columns of rows; only tables have places for what is no finite number."""
    part = X[:, list(linear)]
    stored = part.tocoo() if hasattr(part, "indptr") else None
    bad = ~np.isfinite(part if stored is None else stored.data)
    if bad.any():
        rows, places = np.nonzero(bad) if stored is None else (stored.row[bad], stored.col[bad])
        row, j = int(rows[0]), int(linear[places[0]])
        what = f"is {X[row, j]}, and the column is linear: only tables have a place for it"
        raise cell_error(row, j, names, what, "Fill it, or take the column out of linear")
    return part


def layout_of(bins: Bins, grids: Grids | None = None) -> TableLayout:
    """Where the tables of cells and grids stand in one vector."""
    sizes = np.array(bins.n_cells, dtype=np.int64)
    ends = np.cumsum(sizes)
    starts = np.where(sizes > 0, ends - sizes, -1)
    n_cells = int(ends[-1]) if len(ends) else 0
    if grids is None:
        none = np.zeros(0, dtype=np.int64)
        return TableLayout(starts, none, none, none, np.zeros((0, 256), dtype=np.uint16), n_cells)
    grid_sizes = np.array(grids.n_cells, dtype=np.int64)
    grid_ends = n_cells + np.cumsum(grid_sizes)
    places = np.zeros((2 * len(grids.pairs), 256), dtype=np.uint16)
    for g, (a, b) in enumerate(grids.pairs):
        first, second = grids.axes[a], grids.axes[b]
        places[2 * g, : len(first.cells)] = np.array(first.cells) * second.size
        places[2 * g + 1, : len(second.cells)] = second.cells
    columns = np.array([axis.column for axis in grids.axes], dtype=np.int64)
    pairs = np.array(grids.pairs, dtype=np.int64).reshape(len(grids.pairs), 2)
    size = int(grid_ends[-1]) if len(grid_ends) else n_cells
    return TableLayout(
        starts, columns[pairs[:, 0]], columns[pairs[:, 1]], grid_ends - grid_sizes, places, size
    )
