import numpy as np
import pytest

from rankine.core.specs import Bins, Grids
from rankine.kernels.binned import BLOCK, BinnedProducts, take_rows
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
    """One column for every cell."""
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


def test_products_are_those_of_indicators(tables):
    rows, _, _, layout = tables
    Z = indicators(*tables)
    rng = np.random.default_rng(1)
    products = BinnedProducts(rows, layout)
    t, v = rng.normal(size=layout.size), rng.normal(size=rows.n_rows)
    np.testing.assert_allclose(products.scores(t), Z @ t, atol=1e-12)
    np.testing.assert_allclose(products.transpose_times(v), Z.T @ v, atol=1e-10)


def test_threads_change_no_bit(tables):
    rows, _, _, layout = tables
    v = np.random.default_rng(2).normal(size=rows.n_rows)
    t = np.random.default_rng(3).normal(size=layout.size)
    one, three = (BinnedProducts(rows, layout, threads) for threads in (1, 3))
    assert (one.scores(t) == three.scores(t)).all()
    assert (one.transpose_times(v) == three.transpose_times(v)).all()


def test_rows_can_be_taken(tables):
    rows, _, _, layout = tables
    chosen = np.random.default_rng(4).permutation(rows.n_rows)[: BLOCK + 5]
    t = np.random.default_rng(3).normal(size=layout.size)
    taken = BinnedProducts(take_rows(rows, chosen), layout).scores(t)
    np.testing.assert_array_equal(taken, BinnedProducts(rows, layout).scores(t)[chosen])
