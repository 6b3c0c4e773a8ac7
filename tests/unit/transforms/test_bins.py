import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankine.core.errors import ParameterError, SchemaError
from rankine.core.specs import Bins, decode_transforms, encode_transforms
from rankine.kernels.binned import BLOCK
from rankine.transforms.bins import (
    BinCoder,
    CodeStore,
    RowSample,
    cut_search,
    fit_bins,
    grid_axis,
    layout_of,
    quantile_cuts,
)


def codes_of(bins, X):
    """One row of codes for each row of X."""
    binned = BinCoder(bins).code(X)
    return np.concatenate(list(binned.codes.transpose(0, 2, 1)))[: binned.n_rows]


def slow_cell(bins, j, x):
    """The definition of ``Bins``."""
    cuts = np.array(bins.cuts[j])
    if np.isnan(x):
        return len(cuts) + 1
    if j in bins.unordered:
        return int(np.flatnonzero(cuts == x)[0]) if (cuts == x).any() else len(cuts)
    return int((cuts <= x).sum())


numbers = st.one_of(
    st.floats(-10, 10, width=32),
    st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=60), st.integers(2, 9))
def test_codes_follow_the_definition_dense_and_sparse(rows, bins):
    X = np.array(rows)
    fitted = fit_bins(X, bins, unordered=[2])
    expected = [[slow_cell(fitted, j, x) for j, x in enumerate(row)] for row in X]
    assert codes_of(fitted, X).tolist() == expected
    compressed = sparse.csr_array(np.nan_to_num(X, nan=7.0))
    assert (codes_of(fitted, compressed) == codes_of(fitted, compressed.toarray())).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(2, 12))
def test_cuts_separate_values_and_respect_the_number_of_bins(values, bins):
    distinct, counts = np.unique(np.array(values, dtype=float), return_counts=True)
    cuts = np.array(quantile_cuts(distinct, counts, bins))
    assert len(cuts) <= bins - 1
    assert (np.diff(cuts) > 0).all()
    assert (np.float32(cuts) == cuts).all()
    places = np.searchsorted(cuts, distinct, side="right")
    if len(distinct) <= bins:
        assert (places == np.arange(len(distinct))).all()
    for k in np.flatnonzero(counts * bins >= 2 * counts.sum()):
        assert (places == places[k]).sum() == 1, "a heavy value has a bin of its own"


def test_bins_share_the_mass():
    X = np.random.default_rng(0).normal(size=(20_000, 1))
    X[:10_000] = 0.0
    codes = codes_of(fit_bins(X, 32), X)[:, 0]
    mass = np.bincount(codes, minlength=33)[:32]
    assert mass.max() == 10_000
    assert np.sort(mass)[:-1].max() < 3 * 10_000 / 31


def test_neighbouring_floats_and_huge_values_stay_apart():
    low = 1.0
    high = np.nextafter(low, 2.0)
    X = np.array([[low], [high], [-1.7e308], [1.7e308]])
    assert len(set(codes_of(fit_bins(X, 8), X)[:, 0].tolist())) == 4


def test_unseen_and_missing_categories_have_cells():
    fitted = fit_bins(np.array([[3.0], [5.0], [3.0]]), 8, unordered=[0])
    assert codes_of(fitted, np.array([[3.0], [4.0], [5.0], [np.nan]]))[:, 0].tolist() == [
        0,
        2,
        1,
        3,
    ]


def test_a_store_does_not_depend_on_its_parts():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2 * BLOCK + 77, 3))
    coder = BinCoder(fit_bins(X, 16))
    store = CodeStore(coder)
    for part in np.array_split(X, [5, BLOCK - 1, BLOCK + 3]):
        store.append(part)
    whole, parts = coder.code(X), store.rows()
    assert parts.n_rows == whole.n_rows
    assert (parts.codes == whole.codes).all()
    coded = CodeStore(coder)
    for part in np.array_split(X, [5, BLOCK - 1, BLOCK + 3]):
        coded.append_codes(coder.code(part))
    assert (coded.rows().codes == whole.codes).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_sample_of_rows_is_evenly_spread_whatever_the_parts(kind, monkeypatch):
    monkeypatch.setattr("rankine.transforms.bins.SAMPLE_ROWS", 64)
    X = np.arange(1.0, 1001.0).reshape(-1, 1)
    for cuts in ([], [1, 7, 400], list(range(10, 1000, 10))):
        sample = RowSample()
        for part in np.split(X, cuts):
            sample.append(kind(part))
        found = sample.rows()
        found = found.toarray() if sparse.issparse(found) else found
        assert found.ravel().tolist() == X[::16].ravel().tolist()


def test_columns_of_any_scale_are_searched_from_buckets():
    rng = np.random.default_rng(3)
    X = np.stack([rng.normal(size=4000), np.expm1(rng.normal(0, 4, 4000)), 1e9 + rng.random(4000),
                  np.exp(rng.normal(0, 30, 4000))], axis=1)  # fmt: skip
    fitted = fit_bins(X, 64)
    assert len(cut_search(fitted).guided) == X.shape[1]
    expected = [[slow_cell(fitted, j, x) for j, x in enumerate(row)] for row in X]
    assert codes_of(fitted, X).tolist() == expected


def test_refusals():
    with pytest.raises(ParameterError, match="bins=1 "):
        fit_bins(np.zeros((3, 1)), 1)
    with pytest.raises(SchemaError, match="2 columns"):
        BinCoder(Bins(((0.0,),))).code(np.zeros((3, 2)))
    for wrong in (
        {"cuts": ((1.0, 1.0),)},
        {"cuts": ((np.inf,),)},
        {"cuts": ((0.0,),), "linear": (0,)},
        {"cuts": ((),), "unordered": (3,)},
        {"cuts": ((),), "names": ("a", "b")},
    ):
        with pytest.raises(ValueError):
            Bins(**wrong)


def test_specs_travel_as_data():
    fitted = fit_bins(np.arange(40.0).reshape(20, 2), 4, unordered=[1])
    assert decode_transforms(encode_transforms([fitted])) == (fitted,)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=40), st.integers(2, 16), st.booleans())
def test_sides_of_grids_join_neighbours_and_keep_missing_apart(counts, side, unordered):
    cuts = tuple(float(k) for k in range(len(counts) - 2))
    bins = Bins((cuts,), (0,) if unordered else ())
    axis = grid_axis(bins, 0, np.array(counts, dtype=float), side)
    places = np.array(axis.cells)
    assert axis.size <= side + 1
    assert places[-1] == axis.size - 1
    assert (places[:-1] < places[-1]).all()
    if not unordered:
        assert (np.diff(places) >= 0).all()
    assert layout_of(bins).size == len(counts)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_what_a_sparse_column_does_not_store_is_zero(sign):
    X = np.zeros((40, 1))
    X[:30, 0] = sign * np.arange(1, 31)
    assert fit_bins(sparse.csr_array(X), 8) == fit_bins(X, 8)
