"""Products of binned rows equal those of their indicator matrix."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.specs import Bins, Grids
from rankine.kernels.binned import (
    BLOCK,
    BinnedProducts,
    BinnedRows,
    TableLayout,
    copy_rows,
    pair_histograms,
    shard_cuts,
    take_rows,
)
from rankine.kernels.shards import N_SHARDS
from rankine.transforms.bins import BinCoder, fit_bins, grid_axis, layout_of

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(BLOCK + 300, 5))
    X[::7, 1] = np.nan
    cuts = fit_bins(X, 12).cuts
    bins = Bins((*cuts[:3], (), cuts[4]), linear=(3,))
    axes = tuple(grid_axis(bins, j, np.ones(len(bins.cuts[j]) + 2), 4) for j in (0, 1, 4))
    grids = Grids(axes, ((0, 1), (1, 2)))
    return BinCoder(bins).code(X), bins, grids, layout_of(bins, grids)


def indicators(rows, bins, grids, layout):
    """Return the matrix with one column per cell."""
    codes = np.concatenate(list(rows.codes.transpose(0, 2, 1)))[: rows.n_rows]
    out = np.zeros((rows.n_rows, layout.size))
    every = np.arange(rows.n_rows)
    for j, start in enumerate(layout.starts):
        if start >= 0:
            out[every, start + codes[:, j]] = 1.0
    for g, (a, b) in enumerate(grids.pairs):
        first, second = grids.axes[a], grids.axes[b]
        place = np.array(first.cells)[codes[:, first.column]] * second.size
        place += np.array(second.cells)[codes[:, second.column]]
        out[every, layout.grid_starts[g] + place] = 1.0
    return out


def test_products_equal_those_of_the_indicator_matrix(tables):
    rows, _, _, layout = tables
    Z = indicators(*tables)
    rng = np.random.default_rng(1)
    products = BinnedProducts(rows, layout)
    t, v = rng.normal(size=layout.size), rng.normal(size=rows.n_rows)
    np.testing.assert_allclose(products.scores(t), Z @ t, atol=1e-12)
    np.testing.assert_allclose(products.transpose_times(v), Z.T @ v, atol=1e-10)


def test_products_do_not_depend_on_the_number_of_threads(tables):
    rows, _, _, layout = tables
    v = np.random.default_rng(2).normal(size=rows.n_rows)
    t = np.random.default_rng(3).normal(size=layout.size)
    one, three = (BinnedProducts(rows, layout, threads) for threads in (1, 3))
    assert (one.scores(t) == three.scores(t)).all()
    assert (one.transpose_times(v) == three.transpose_times(v)).all()


def test_scores_of_selected_rows(tables):
    rows, _, _, layout = tables
    selected = np.random.default_rng(4).permutation(rows.n_rows)[: BLOCK + 5]
    t = np.random.default_rng(3).normal(size=layout.size)
    taken = BinnedProducts(take_rows(rows, selected), layout).scores(t)
    np.testing.assert_array_equal(taken, BinnedProducts(rows, layout).scores(t)[selected])


CELLS, SHORT_BLOCK = 5, 7


def short_blocks(n_columns, n_rows=3 * SHORT_BLOCK - 2, seed=0):
    """Return codes in blocks of a few rows, and the same codes row by row."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, CELLS, (-(-n_rows // SHORT_BLOCK), n_columns, SHORT_BLOCK), np.uint8)
    return BinnedRows(codes, n_rows), np.concatenate(list(codes.transpose(0, 2, 1)))[:n_rows]


# Columns with a table. Two are added at a time, so an odd number is a case of its own.
@pytest.mark.parametrize("tabled", [(0,), (3,), (0, 1), (0, 2, 3), (1, 2), (0, 1, 2, 3), ()])
@pytest.mark.parametrize("pairs", [(), ((0, 2),), ((3, 1), (1, 2))])
def test_every_layout_adds_the_cells_of_a_row(tabled, pairs):
    rows, codes = short_blocks(4)
    starts = np.full(4, -1, dtype=np.int64)
    starts[list(tabled)] = CELLS * np.arange(len(tabled))
    grid_starts = CELLS * len(tabled) + CELLS * CELLS * np.arange(len(pairs))
    rng = np.random.default_rng(1)
    places = np.array([rng.permutation(CELLS) for _ in range(2 * len(pairs))], dtype=np.uint16)
    places = places.reshape(-1, CELLS)
    places[::2] *= CELLS
    size = CELLS * len(tabled) + CELLS * CELLS * len(pairs)
    firsts, seconds = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    products = BinnedProducts(rows, TableLayout(starts, firsts, seconds, grid_starts, places, size))
    indicator = np.zeros((rows.n_rows, size))
    for i, row in enumerate(codes):
        for j in tabled:
            indicator[i, starts[j] + row[j]] += 1
        for g, (a, b) in enumerate(pairs):
            cell = int(places[2 * g, row[a]]) + int(places[2 * g + 1, row[b]])
            indicator[i, grid_starts[g] + cell] += 1
    table, v = rng.normal(size=size), np.arange(1.0, rows.n_rows + 1)
    np.testing.assert_allclose(products.scores(table), indicator @ table, atol=1e-14)
    np.testing.assert_array_equal(products.transpose_times(v), v @ indicator)


def test_histograms_of_pairs_sum_over_the_cells_of_both_columns():
    rows, codes = short_blocks(3)
    side = 4
    places = np.random.default_rng(2).integers(0, side, (3, CELLS)).astype(np.uint16)
    values = np.random.default_rng(3).integers(1, 9, (rows.n_rows, 2)).astype(float)
    pairs = np.array([[0, 1], [2, 0]])
    out = np.zeros((2, side, side, 2))
    pair_histograms(rows.codes, rows.n_rows, pairs, places, side, values, out)
    expected = np.zeros_like(out)
    for p, (a, b) in enumerate(pairs):
        np.add.at(expected[p], (places[a, codes[:, a]], places[b, codes[:, b]]), values)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("offset", [0, 3, 8])
def test_rows_are_copied_into_blocks_of_another_length(offset):
    rows, codes = short_blocks(2)
    out = np.full((7, 2, 4), 99, dtype=np.uint8)
    copy_rows(rows.codes, rows.n_rows, out, offset)
    flat = np.concatenate(list(out.transpose(0, 2, 1)))
    np.testing.assert_array_equal(flat[offset : offset + rows.n_rows], codes)
    assert (np.delete(flat, np.s_[offset : offset + rows.n_rows], axis=0) == 99).all()


@pytest.mark.parametrize("count", [0, 1, 5, BLOCK, BLOCK + 1])
def test_selected_rows_are_stored_in_new_blocks(count):
    rows, codes = short_blocks(2)
    selected = np.random.default_rng(count).integers(0, rows.n_rows, count)
    taken = take_rows(rows, selected)
    assert taken.n_rows == count
    assert taken.codes.shape == (max(1, -(-count // BLOCK)), 2, min(max(count, 1), BLOCK))
    flat = np.concatenate(list(taken.codes.transpose(0, 2, 1)))
    np.testing.assert_array_equal(flat[:count], codes[selected])


@pytest.mark.parametrize("blocks", [0, 1, 3, N_SHARDS, N_SHARDS + 1, 100])
def test_shards_have_equal_numbers_of_blocks(blocks):
    sizes = np.diff(shard_cuts(blocks))
    assert sizes.sum() == blocks
    assert len(sizes) == min(max(blocks, 1), N_SHARDS)
    assert np.ptp(sizes) <= 1
