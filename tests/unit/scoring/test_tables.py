"""Scores by tables."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import (
    FeatureMismatchError,
    SchemaError,
)
from rankine.core.specs import (
    Bins,
    GridAxis,
    Grids,
    LogColumns,
    OneHot,
)
from rankine.model import LinearModel
from rankine.scoring import Scorer

pytestmark = pytest.mark.kernels

BINS = Bins(((0.5,), (), (1.0, 2.0)), linear=(1,), names=("x", "y", "z"))


#: Cells of x and z (below, above or between, missing), then the weight of y.
TABLE = np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0, 40.0, 0.5])


def by_hand(x, y, z):
    first = 3.0 if np.isnan(x) else TABLE[int(x >= 0.5)]
    third = 40.0 if np.isnan(z) else TABLE[3 + int(z >= 1) + int(z >= 2)]
    return first + third + 0.5 * y


def test_tables_score_rows_in_every_form():
    scorer = Scorer(LinearModel.from_weights(TABLE, transforms=(BINS,)), unknown="zero")
    assert scorer.reads_columns
    assert scorer.required == ("x", "y", "z")
    rng = np.random.default_rng(0)
    X = rng.choice([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0], size=(140, 3))
    X[[7, 139]] = 0.0
    expected = [by_hand(*row) for row in X]
    named = [dict(zip("xyz", row, strict=True)) for row in X.tolist()]
    turned = [{"z": row["z"], "x": row["x"], "y": row["y"]} for row in named]
    more = [{**row, "other": 1} for row in named]
    columns = {name: X[:, j].tolist() for j, name in enumerate("xyz")}
    csr = sparse.csr_array(X)
    shifted = SimpleNamespace(
        indptr=csr.indptr + 1, indices=[9, *csr.indices], data=[7.0, *csr.data]
    )
    for rows in (X, X.astype(np.float32), csr, shifted, named, turned, more, columns):
        assert scorer.score(rows).tolist() == expected
    assert scorer.issues.unknown_columns == {"other": 140}
    for n in (1, 2, 3, 4):
        for name, place in (("x", 0), ("z", 2)):
            one = np.full(3, np.nan)
            one[1] = 0.0
            want = [by_hand(*np.where(np.arange(3) == place, X[i, place], one)) for i in range(n)]
            assert scorer.score([{name: X[i, place]} for i in range(n)]).tolist() == want
    holes = [{"x": 1.0}, {"x": None, "y": None, "z": 1.5}, {"y": 2.0, "z": np.float32(3.0)}]
    nan = np.nan
    want = [by_hand(1.0, 0.0, nan), by_hand(nan, 0.0, 1.5), by_hand(nan, 2.0, 3.0)]
    assert scorer.score(holes).tolist() == want
    matrix = [[1.0, 0.0, nan], [nan, 0.0, 1.5], [nan, 2.0, 3.0]]
    np.testing.assert_array_equal(scorer.features(holes), matrix)
    np.testing.assert_array_equal(scorer.features(turned), X)
    X[3, 0] = X[5, 2] = nan
    assert scorer.score(X).tolist() == [by_hand(*row) for row in X]
    for i in (0, 3, 5):
        assert scorer.explain(X, i).total == pytest.approx(by_hand(*X[i]))
        told = scorer.explain_pair(X, i, 0).total
        assert told == pytest.approx(by_hand(*X[i]) - by_hand(*X[0]))
    X[4, 1] = nan
    with pytest.raises(SchemaError, match="row 4: the score is nan"):
        scorer.score(X)


PLACES = LogColumns(numeric=("x", "y"), one_hot=(OneHot("shop", ("a", "b")),), tables=True)


CELLS = Bins(((0.5,), (1.0,), (0.5,)), names=("x", "y", "shop"))


PAIRED = Grids((GridAxis(0, (0, 1, 2)), GridAxis(1, (0, 1, 1))), ((0, 1),))


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("own", [0.0, 1.0])
def test_tables_of_pairs_and_of_raw_columns_add_up(raw, paired, own):
    """``own`` is 0 where only the pair has entries: its columns are looked up all the same."""
    weights = own * 2.0 ** np.arange(9)
    if paired:
        weights = np.concatenate([weights, 1000.0 * np.arange(1.0, 7.0)])
    elif not own:
        weights += 0.5
    transforms = (*((PLACES,) if raw else ()), CELLS, *((PAIRED,) if paired else ()))
    scorer = Scorer(LinearModel.from_weights(weights, transforms=transforms), unknown="zero")
    numbers = [(0.0, 0.0, 0.0), (1.0, 0.0, 1.0), (0.0, 2.0, 1.0), (1.0, 2.0, 0.0), (np.nan, 0, 1)]
    expected = []
    for x, y, shop in numbers:
        cells = [2 if np.isnan(v) else int(v >= c) for v, c in ((x, 0.5), (y, 1.0), (shop, 0.5))]
        total = sum(weights[3 * j + cell] for j, cell in enumerate(cells))
        if paired:
            total += weights[9 + 2 * (0, 1, 2)[cells[0]] + (0, 1, 1)[cells[1]]]
        expected.append(total)
    assert len(set(expected)) == 5 or not own
    rows = [
        {"x": None if np.isnan(x) else x, "y": y, "shop": "ab"[int(shop)] if raw else shop}
        for x, y, shop in numbers
    ]
    assert scorer.score(np.array(numbers)).tolist() == expected
    assert scorer.score(np.array(numbers[::-1])).tolist() == expected[::-1]
    assert scorer.score(rows).tolist() == expected
    assert scorer.score({name: [row[name] for row in rows] for name in rows[0]}).tolist() == (
        expected
    )
    assert scorer.reads_columns


def test_rows_that_do_not_fit_tables_are_refused():
    scorer = Scorer(LinearModel.from_weights(TABLE, transforms=(BINS,)))
    good = {"indptr": [0, 1, 3], "indices": [0, 1, 2], "data": [1.0, 2.0, 3.0]}
    assert len(scorer.score(SimpleNamespace(**good))) == 2
    for change in (
        {"indices": [0, 1, 3]}, {"indices": [0, -1, 2]}, {"data": [1.0, 2.0]},
        {"indptr": [0, 2, 1]}, {"indptr": [-1, 1, 3]}, {"indptr": [0, 1, 4]}, {"indices": [0, 1]},
    ):  # fmt: skip
        with pytest.raises(FeatureMismatchError, match="do not fit a model of 3 columns"):
            scorer.score(SimpleNamespace(**{**good, **change}))
    for value in ("1", [1.0], 1j, np.complex64(1.0), {}):
        with pytest.raises(SchemaError, match="row 1: column 'x' is "):
            scorer.score([{"x": 1.0, "y": 1.0, "z": 1.0}, {"x": value, "y": 1.0, "z": 1.0}])
    with pytest.raises(SchemaError, match="row 0: column 'x' is "):
        scorer.score([{"x": np.complex64(1.0), "y": 1.0}])
    strict = Scorer(LinearModel.from_weights(TABLE, transforms=(BINS,)), strict=True)
    with pytest.raises(FeatureMismatchError, match=r"1 of 2 rows lack .* 'y'"):
        strict.score([{"x": 1.0, "z": 1.0}, {"x": 1.0, "y": 1.0, "z": 1.0}])
    with pytest.raises(FeatureMismatchError, match=r"2 of 3 rows lack .* 'x', 'y'"):
        strict.score([{"x": 1.0, "z": 1.0}, {"z": 1.0}, {"x": 1.0, "y": 1.0, "z": 1.0}])
    with pytest.raises(FeatureMismatchError, match="no column 'w'"):
        scorer.score([{"x": 1.0, "y": 1.0, "z": 1.0, "w": 0.0}])
    assert scorer.score([{"x": 1.0, "y": 1.0, "z": True}]).tolist() == [by_hand(1.0, 1.0, 1.0)]


@pytest.mark.parametrize("cell", range(8))
def test_a_column_counts_if_any_of_its_cells_does(cell):
    weights = np.zeros(8)
    weights[cell] = 2.0
    model = LinearModel.from_weights(weights, transforms=(Bins(((0.0, 1.0), (0.0, 1.0))),))
    x = np.array([-1.0, 0.5, 2.0, np.nan])[cell % 4]
    rows = np.full((1, 2), 7.0)
    rows[0, cell // 4] = x
    # Elsewhere 7 is in the third cell, whose entry is 0 for the other column.
    assert Scorer(model).score(rows).tolist() == [2.0]
