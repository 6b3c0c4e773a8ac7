"""Models of tables: cells, labels and entries, against their definitions one at a time."""

import math

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import FeatureMismatchError
from rankine.core.specs import Bins, GridAxis, Grids, LogColumns, OneHot
from rankine.model import LinearModel
from rankine.model.tables import find_tables
from rankine.transforms.bins import TableScorer

# price (ordered), brand (unordered), parity (linear), flag (no cuts), size, bulk (linear).
BINS = Bins(((1.0, 2.0, 5.0), (0.0, 1.0, 2.0), (), (), (3.0,), ()), (1,), (2, 5))
GRIDS = Grids(
    (GridAxis(0, (0, 0, 1, 2, 3)), GridAxis(1, (1, 0, 1, 1, 2)), GridAxis(4, (0, 1, 2))),
    ((0, 1), (0, 2)),
)
NAMES = ("price", "brand", "parity", "flag", "size", "bulk")
BRANDS = ("acme", "zed", "nadir")
VALUES = (
    (-3.0, 1.0, 1.5, 2.0, 4.9, 5.0, 7.0, math.nan),
    (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, math.nan),
    (0.0, 2.0, -1.5),
    (0.0, 4.0, math.nan),
    (2.9, 3.0, math.nan),
    (0.0, 3.0, -0.5),
)


def model_of(names=NAMES, grids=GRIDS):
    bins = BINS if names is None else Bins(BINS.cuts, BINS.unordered, BINS.linear, names)
    specs = (bins,) if grids is None else (bins, grids)
    size = sum(BINS.n_cells) + (0 if grids is None else sum(grids.n_cells)) + 2
    weights = np.random.default_rng(0).permutation(np.arange(1.0, size + 1))
    return LinearModel.from_weights(weights, transforms=specs)


def rows(count=60):
    rng = np.random.default_rng(1)
    return np.array([[rng.choice(column) for column in VALUES] for _ in range(count)])


def cell(j, x):
    """The definition of ``Bins``, and what a label says of the cell."""
    cuts = BINS.cuts[j]
    if math.isnan(x):
        return len(cuts) + 1
    if j in BINS.unordered:
        return cuts.index(x) if x in cuts else len(cuts)
    return sum(cut <= x for cut in cuts)


def entries(model, x):
    """Name, index and value of every entry that a row meets."""
    start, found, dense = 0, [], model.to_dense()
    cells = {}
    for j, size in enumerate(BINS.n_cells):
        if size:
            cells[j] = cell(j, x[j])
            found.append((NAMES[j], start + cells[j]))
        start += size
    if len(model.transforms) > 1:
        for a, b in GRIDS.pairs:
            first, second = GRIDS.axes[a], GRIDS.axes[b]
            at = first.cells[cells[first.column]], second.cells[cells[second.column]]
            name = f"{NAMES[first.column]} x {NAMES[second.column]}"
            found.append((name, start + at[0] * second.size + at[1]))
            start += first.size * second.size
    linear = [(NAMES[j], start + k, float(dense[start + k])) for k, j in enumerate(BINS.linear)]
    return [(name, k, float(dense[k])) for name, k in found], linear


@pytest.mark.parametrize("grids", [GRIDS, None])
def test_terms_of_a_row_are_the_entries_it_meets(grids):
    model = model_of(grids=grids)
    tables, X = find_tables(model), rows()
    names, parts = tables.parts(X)
    sparse_names, sparse_parts = tables.parts(sparse.csr_array(X))
    scores = TableScorer(tables.bins, tables.grids).score(tables.weights, X)
    for i, x in enumerate(X):
        own, linear = entries(model, x)
        expected = [(name, k, entry, entry) for name, k, entry in own]
        added = [(name, k, w, w * x[NAMES.index(name)]) for name, k, w in linear]
        expected += [term for term in added if term[3]]
        found = model.explain(x)
        told = [(t.name, t.index, t.weight, t.contribution) for t in found.contributions]
        assert sorted(told) == sorted(expected)
        sizes = [abs(one[3]) for one in told]
        assert sizes == sorted(sizes, reverse=True)
        assert found.total == pytest.approx(scores[i], rel=1e-12)
        assert names == [*(name for name, _, _ in own), "parity", "bulk"] == sparse_names
        assert parts[i].tolist() == [*(entry for _, _, entry in own), *(t[3] for t in added)]
        assert parts[i].tolist() == sparse_parts[i].tolist()
        for t in found.contributions:
            alone = None if " x " in t.name else x[NAMES.index(t.name)]
            assert t.value == (None if alone is None or math.isnan(alone) else alone)
            assert t.other is None
    starts = {term.columns: term.start for term in tables.terms}
    assert starts[0,] == 0
    assert starts[3,] == BINS.n_cells[0] + BINS.n_cells[1]


def test_a_pair_of_rows_differs_by_its_entries():
    model = model_of()
    X = rows()
    for a, b in zip(X[:30], X[30:], strict=True):
        (one, linear), (two, _) = entries(model, a), entries(model, b)
        expected = [(name, k, u, u - v) for (name, k, u), (_, _, v) in zip(one, two, strict=True)]
        for name, k, w in linear:
            j = NAMES.index(name)
            expected.append((name, k, w, w * (a[j] - b[j])))
        found = model.explain_pair(a, b)
        told = [(t.name, t.index, t.weight, t.contribution) for t in found.contributions]
        assert sorted(told) == sorted(term for term in expected if term[3])
        assert found.pair
        for t in found.contributions:
            others = None if " x " in t.name else b[NAMES.index(t.name)]
            assert t.other == (None if others is None or math.isnan(others) else others)
            assert (t.where is None) == (t.other_where is None)


def test_labels_say_which_values_a_cell_holds():
    tables = find_tables(model_of())
    labels = {term.columns: term.labels for term in tables.terms}
    assert labels[0,][0] == (
        "price < 1", "1 <= price < 2", "2 <= price < 5", "price >= 5", "price missing",
    )  # fmt: skip
    assert labels[1,][0] == (
        "brand = 0", "brand = 1", "brand = 2", "brand other", "brand missing",
    )  # fmt: skip
    assert labels[3,][0] == ("flag present", "flag missing")
    assert labels[4,][0] == ("size < 3", "size >= 3", "size missing")
    assert labels[0, 1] == (
        ("price < 2", "2 <= price < 5", "price >= 5", "price missing"),
        ("brand = 1", "brand other", "brand missing"),
    )
    assert labels[0, 4][1] == ("size < 3", "size >= 3", "size missing")
    one = GridAxis(0, (0, 0, 0, 0, 1))
    assert tables.axis_labels(one) == ("price present", "price missing")
    inner = GridAxis(0, (0, 1, 1, 2, 3))
    assert tables.axis_labels(inner)[1] == "1 <= price < 5"


def test_texts_of_a_log_stand_for_the_numbers_of_its_columns():
    bins = Bins(((1.0,), (0.0, 1.0, 2.0)), (1,), (), ("price", "brand"))
    log = LogColumns(numeric=("price",), one_hot=(OneHot("brand", BRANDS),), tables=True)
    model = LinearModel.from_weights(np.arange(1.0, 9.0), transforms=(log, bins))
    tables = find_tables(model)
    (brand,) = tables.terms[1].labels
    assert brand == ("brand = acme", "brand = zed", "brand = nadir", "brand other", "brand missing")
    places = {"acme": 0, "zed": 1, "nadir": 2, "new": 3, "": 4, None: 4}
    for text, place in places.items():
        terms = {t.name: t for t in model.explain({"price": 0.5, "brand": text}).contributions}
        assert terms["brand"].where == brand[place]
        assert terms["price"].where == "price < 1"
    (first, *_) = model.explain({"brand": "zed"}).contributions
    assert (first.where, first.value) == ("brand = zed", "zed")
    assert model.explain({"brand": "new"}).contributions[0].value is None
    assert model.explain({"brand": "zed", "price": None}).contributions[1].where == "price missing"


def test_rows_may_be_dense_sparse_or_named():
    tables = find_tables(model_of())
    x = np.array([1.5, 0.0, 2.0, 0.0, 3.0, 7.0])
    for given in (x, x[None, :], sparse.csr_array(x[None, :]), x.tolist()):
        assert tables.row(given).tolist() == x.tolist()
    named = tables.row({"price": 1.5, "size": 3})
    np.testing.assert_array_equal(named, [1.5, np.nan, 0.0, np.nan, 3.0, 0.0])
    assert find_tables(model_of(None)).row({"1": 1.5, "5": 3})[[0, 4]].tolist() == [1.5, 3]
    for wrong in (x[:4], np.ones((2, 6)), np.ones((6, 1)), 1.0):
        with pytest.raises(FeatureMismatchError, match="6 columns"):
            tables.row(wrong)
    with pytest.raises(FeatureMismatchError, match="no feature 'prize'"):
        tables.row({"prize": 1.0})


@pytest.mark.parametrize("j", [0, 1, 3, 4])
@pytest.mark.parametrize("joined", [False, True])
def test_asking_in_order_finds_the_place(j, joined):
    tables = find_tables(model_of())
    axes = {axis.column: axis.cells for axis in GRIDS.axes}
    places = axes.get(j) if joined else None
    asked = tables.tests(j, places)
    answers = {
        "missing": lambda x, _: math.isnan(x),
        "=": lambda x, cut: x == cut,
        "<": lambda x, cut: x < cut,
        "other": lambda _x, _cut: True,
    }
    for x in VALUES[j]:
        found = next(one.position for one in asked if answers[one.operator](x, one.cut))
        assert found == (cell(j, x) if places is None else places[cell(j, x)])
    # Nothing is asked that the next question, or what is left, would answer alike.
    after = asked[2:] if j not in BINS.unordered else [asked[-1]] * len(asked)
    assert all(
        one.position != other.position for one, other in zip(asked[1:-1], after, strict=False)
    )
    assert [one.operator for one in (asked[0], asked[-1])] == ["missing", "other"]


def test_ranges_are_those_of_entries_largest_first():
    model = model_of()
    tables = find_tables(model)
    dense = model.to_dense()
    expected = {"parity": abs(dense[-2]), "bulk": abs(dense[-1])}
    start = 0
    for j, size in enumerate(BINS.n_cells):
        if size:
            expected[NAMES[j]] = np.ptp(dense[start : start + size])
        start += size
    for (a, b), size in zip(GRIDS.pairs, GRIDS.n_cells, strict=True):
        name = f"{NAMES[GRIDS.axes[a].column]} x {NAMES[GRIDS.axes[b].column]}"
        expected[name] = np.ptp(dense[start : start + size])
        start += size
    found = tables.ranges()
    assert dict(found) == expected
    assert [size for _, size in found] == sorted(expected.values(), reverse=True)
    assert (model.n_columns, model.column_names) == (6, NAMES)
    assert model_of(None, None).column_names is None
    told = model.summary(2)
    assert told["n_tables"] == len(expected)
    assert [(one["name"], one["weight"]) for one in told["top_weights"]] == found[:2]
    assert find_tables(LinearModel.from_weights([1.0])) is None
