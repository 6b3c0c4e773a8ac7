"""Products with several vectors at once equal one product after the other."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rankine.core.specs import Bins, Grids
from rankine.kernels.binned import BLOCK, BinnedProducts
from rankine.kernels.blocks import BlockCurvature, table_histograms, table_scores
from rankine.transforms.bins import BinCoder, fit_bins, grid_axis, layout_of

pytestmark = pytest.mark.kernels


def test_columns_are_those_of_one_product_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(BLOCK + 100, 3))
    bins = Bins(fit_bins(X, 8).cuts)
    axes = tuple(grid_axis(bins, j, np.ones(len(bins.cuts[j]) + 2), 4) for j in (0, 2))
    layout = layout_of(bins, Grids(axes, ((0, 1),)))
    products = BinnedProducts(BinCoder(bins).code(X), layout)
    tables, values = rng.normal(size=(layout.size, 3)), rng.normal(size=(len(X), 3))
    scores, sums = table_scores(products, tables), table_histograms(products, values)
    for k in range(3):
        np.testing.assert_allclose(scores[:, k], products.scores(tables[:, k].copy()), rtol=1e-12)
        np.testing.assert_allclose(
            sums[:, k], products.transpose_times(values[:, k].copy()), rtol=1e-9
        )


@pytest.mark.parametrize("max_entries", [1 << 26, 0])
def test_the_matrix_of_each_query_multiplies_its_rows(monkeypatch, max_entries):
    """Queries of 3 and 2 of six rows, in another order than that of the rows."""
    monkeypatch.setattr("rankine.kernels.blocks.MAX_ENTRIES", max_entries)
    rng = np.random.default_rng(1)
    rows = np.array([4, 0, 2, 5, 1], dtype=np.uint32)
    matrix = np.zeros((6, 6))
    for members in (rows[:3], rows[3:]):
        half = rng.normal(size=(len(members), len(members)))
        matrix[np.ix_(members, members)] = half + half.T
    curvature = SimpleNamespace(times=lambda v: matrix @ v)
    queries = SimpleNamespace(rows=rows, starts=np.array([0, 3, 5]))
    block = BlockCurvature(curvature, queries, 6, None)
    values = rng.normal(size=(6, 4))
    np.testing.assert_allclose(block.times(values), matrix @ values, atol=1e-12)
