import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankine.core.errors import ParameterError, SchemaError
from rankine.core.specs import MAX_CUTS, Bins, decode_transforms, encode_transforms
from rankine.kernels.binned import BLOCK
from rankine.transforms.bins import (
    BinCoder,
    CodeStore,
    RowSample,
    TableScorer,
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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # with the JIT off
@pytest.mark.kernels
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=60),
    st.integers(2, 9),
    st.integers(0, 2),
)
def test_codes_follow_the_definition_dense_and_sparse(rows, bins, unordered):
    X = np.array(rows)
    fitted = fit_bins(X, bins, unordered=[unordered])
    expected = [[slow_cell(fitted, j, x) for j, x in enumerate(row)] for row in X]
    assert codes_of(fitted, X).tolist() == expected
    compressed = sparse.csr_array(np.nan_to_num(X, nan=7.0))
    assert (codes_of(fitted, compressed) == codes_of(fitted, compressed.toarray())).all()


def slow_ends(counts, bins):
    """Where bins end, by the words: heavy values alone, the rest shared out by mass."""
    total, n = sum(counts), len(counts)
    if n <= bins:
        return list(range(1, n))
    heavy = [k for k in range(n) if counts[k] * bins >= 2 * total]
    runs, first = [], 0
    for k in [*heavy, n]:
        if k > first:
            runs.append((first, k))
        first = k + 1
    spare = bins - len(heavy) - len(runs)
    light = sum(sum(counts[a:b]) for a, b in runs)
    ends = {k + more for k in heavy for more in (0, 1)}
    for a, b in runs:
        mass = sum(counts[a:b])
        parts = 1 + spare * mass // light
        for part in range(1, parts):
            target = mass * part / parts
            # The nearest boundary, the later of two.
            best = min(range(a, b + 1), key=lambda k: (abs(sum(counts[a:k]) - target), -k))
            ends.add(best)
    return sorted(end for end in ends if 0 < end < n)


@settings(max_examples=150, deadline=None)
@example([1, 1, 1, 1, 4], 4)  # as heavy as it must be for a bin of its own
@given(
    st.lists(st.sampled_from([1, 1, 2, 3, 7, 20, 60]), min_size=1, max_size=40), st.integers(2, 12)
)
def test_cuts_follow_the_documented_rule(counts, bins):
    values = np.arange(len(counts)) * 2.0
    found = quantile_cuts(values, np.array(counts), bins)
    assert found == tuple(2.0 * k - 1.0 for k in slow_ends(counts, bins))


def test_a_cut_is_a_float32_in_the_middle_if_there_is_one():
    above = np.nextafter(1.0, 2.0)
    for low, high, cut in (
        (1.0, 2.0, 1.5), (-3.0, 1.0, -1.0), (1.0, above, above), (0.0, 5e-324, 5e-324),
        (-1.7e308, 1.7e308, 0.0), (1e300, 3e300, 2e300),
        (-1.5e308, 1.6e308, -1.5e308 / 2 + 0.8e308),
    ):  # fmt: skip
        assert quantile_cuts(np.array([low, high]), np.array([1, 1]), 8) == (cut,)
    third = quantile_cuts(np.array([0.0, 2 / 3]), np.array([1, 1]), 8)
    assert third == (float(np.float32(1 / 3)),)


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


def test_tails_have_bins_of_tables():
    values = np.expm1(np.random.default_rng(0).normal(size=20_000) * 2)
    X = np.sort(values)[:, np.newaxis]
    cuts = np.array(fit_bins(X, 64).cuts[0])
    assert len(cuts) >= 60
    mass = np.diff(np.searchsorted(X[:, 0], cuts), prepend=0, append=len(X)) / len(X)
    assert mass.max() < 1.5 / 64, "three quarters of the bins follow the mass"
    assert cuts[-1] > np.quantile(values, 0.999)
    far = fit_bins(np.append(X, [[1e300]], axis=0), 64).cuts[0]
    assert len(far) >= 45, "a single huge value takes a quarter of the bins at most"
    for ends in ([-1.7e308, 1.7e308], [0.0, 5e-324]):
        column = np.concatenate([ends, values[:98]])[:, np.newaxis]
        assert len(fit_bins(column, 16).cuts[0]) >= 8


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


@pytest.mark.parametrize(
    ("expected", "parts"),
    [(0, [1]), (1, [1]), (5, [5]), (5, [2, 3]), (3, [3, 4]), (BLOCK, [BLOCK]), (0, []),
     (BLOCK, [BLOCK - 1, 2]), (BLOCK + 1, [BLOCK + 1]), (3 * BLOCK, [7]),
     (3 * BLOCK, [BLOCK + 1])],
)  # fmt: skip
def test_a_store_takes_no_more_memory_than_its_rows_need(expected, parts):
    n = sum(parts)
    X = np.random.default_rng(2).normal(size=(max(n, 30), 2))
    bins = fit_bins(X, 8)
    store = CodeStore(BinCoder(bins), expected)
    for part in np.split(X[:n], np.cumsum(parts)[:-1]) if parts else ():
        store.append(part)
    found = store.rows()
    codes = np.concatenate(list(found.codes.transpose(0, 2, 1)))[: found.n_rows]
    assert found.n_rows == n
    assert codes.tolist() == [[slow_cell(bins, j, x) for j, x in enumerate(row)] for row in X[:n]]
    blocks, columns, length = found.codes.shape
    assert (blocks, columns) == (max(1, -(-n // BLOCK)), 2)
    grown = n > max(expected, 1)
    assert length == (BLOCK if grown else min(max(expected, 1), BLOCK))
    assert BinCoder(bins).code(X[:5]).codes.shape == (1, 2, 5)
    more = X[:3]
    store.append_codes(BinCoder(bins).code(more))
    assert store.rows().n_rows == n + 3
    kept = np.concatenate(list(store.rows().codes.transpose(0, 2, 1)))
    assert kept[n : n + 3].tolist() == codes_of(bins, more).tolist()
    assert kept[:n].tolist() == codes.tolist()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_sample_of_rows_is_evenly_spread_for_any_parts(kind, monkeypatch):
    monkeypatch.setattr("rankine.transforms.bins.SAMPLE_ROWS", 64)
    X = np.arange(1.0, 1001.0).reshape(-1, 1)
    for cuts in ([], [1, 7, 400], list(range(10, 1000, 10))):
        sample = RowSample()
        for part in np.split(X, cuts):
            sample.append(kind(part))
        found = sample.rows()
        found = found.toarray() if sparse.issparse(found) else found
        assert found.ravel().tolist() == X[::16].ravel().tolist()
    for n, step, cuts in ((64, 1, []), (64, 1, [20]), (65, 2, [30]), (128, 2, []), (129, 4, [5])):
        sample = RowSample()
        for part in np.split(X[:n], cuts):
            sample.append(kind(part))
        found = sample.rows()
        found = found.toarray() if sparse.issparse(found) else found
        assert found.ravel().tolist() == X[:n:step].ravel().tolist()


def test_columns_of_any_scale_are_searched_from_buckets():
    rng = np.random.default_rng(3)
    X = np.stack([rng.normal(size=4000), np.expm1(rng.normal(0, 4, 4000)), 1e9 + rng.random(4000),
                  np.exp(rng.normal(0, 30, 4000))], axis=1)  # fmt: skip
    X = np.hstack([X, -np.abs(X[:, [1]]), X[:, [0]] - 100, X[:, [0]] * 1e307, X[:, [0]] > 0])
    fitted = fit_bins(X, 64)
    assert [len(cuts) for cuts in fitted.cuts[-2:]] == [63, 1]
    search = cut_search(fitted)
    assert search.bucketed.tolist() == [0, 1, 2, 3, 5, 6, 7]
    assert search.scanned.tolist() == [4], "its cuts crowd at the upper end"
    expected = [[slow_cell(fitted, j, x) for j, x in enumerate(row)] for row in X]
    assert codes_of(fitted, X).tolist() == expected


def test_crowded_cuts_are_scanned_and_unused_columns_are_left_out():
    bins = Bins(((0.0, 1 - 2.0**-10, 1.0), (), (), (2.0, 3.0), (0.0,)), (3,), (1,))
    X = np.zeros((7, 5))
    X[:, 0] = [-1.0, 0.0, 0.5, 1 - 2.0**-10, 0.9999, 1.0, 2.0]
    assert codes_of(bins, X)[:, 0].tolist() == [slow_cell(bins, 0, x) for x in X[:, 0]]
    search = cut_search(bins)
    assert search.sizes.tolist() == [3, -1, 0, 2, 1]
    assert search.unordered.tolist() == [3]
    assert sorted([*search.bucketed, *search.scanned]) == [0, 2, 4]
    some = cut_search(bins, np.array([True, True, False, False, True]))
    assert (sorted([*some.bucketed, *some.scanned]), len(some.unordered)) == ([0, 4], 0)


def test_bad_bins_and_rows_are_refused():
    for bins in (1, MAX_CUTS + 2):
        with pytest.raises(ParameterError) as caught:
            fit_bins(np.zeros((3, 1)), bins)
        assert caught.value.parameter == "bins"
    assert len(fit_bins(np.arange(999.0)[:, None], MAX_CUTS + 1).cuts[0]) == MAX_CUTS
    assert len(fit_bins(np.arange(999.0)[:, None], 2).cuts[0]) == 1
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


def test_specs_are_encoded_and_decoded():
    fitted = fit_bins(np.arange(40.0).reshape(20, 2), 4, unordered=[1])
    assert decode_transforms(encode_transforms([fitted])) == (fitted,)


@settings(max_examples=40, deadline=None)
@example([50, 0, 0, 9], 3, False)
@example([1, 0, 0, 1, 0], 2, False)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=40), st.integers(2, 16), st.booleans())
def test_axes_of_grids_join_adjacent_cells_and_keep_missing_values_separate(
    counts, side, unordered
):
    cuts = tuple(float(k) for k in range(len(counts) - 2))
    bins = Bins((cuts,), (0,) if unordered else ())
    axis = grid_axis(bins, 0, np.array(counts, dtype=float), side)
    places = np.array(axis.cells)
    assert axis.size <= side + 1
    assert places[-1] == axis.size - 1
    assert (places[:-1] < places[-1]).all()
    inner = len(counts) - 1
    assert layout_of(bins).size == len(counts)
    assert layout_of(Bins(())).size == 0
    if inner <= side:
        assert places.tolist() == list(range(inner + 1))
    elif unordered:
        often = sorted(range(inner - 1), key=lambda k: -counts[k])[: side - 1]
        own = {k: place for place, k in enumerate(sorted(often))}
        assert places[:-1].tolist() == [own.get(k, side - 1) for k in range(inner)]
    else:
        # A place ends at the first cell that reaches the next share of the mass.
        reached = np.cumsum([0, *counts[:inner]]) + np.arange(inner + 1) * 1e-9
        shares = [reached[-1] * k / side for k in range(1, side)]
        ends = {min(max(sum(r < share for r in reached), 1), inner - 1) for share in shares}
        assert places[:-1].tolist() == [sum(end <= k for end in ends) for k in range(inner)]


def test_the_most_frequent_categories_are_kept_and_zero_has_one_sign():
    values = np.r_[np.arange(1.0, 300.0), np.arange(20.0, 300.0), [-0.0] * 2]
    (cuts,) = fit_bins(values[:, None], 8, unordered=[0]).cuts
    assert cuts == (0.0, *np.arange(20.0, 20.0 + MAX_CUTS - 1))
    assert np.copysign(1.0, cuts[0]) == 1.0


def test_sparse_columns_without_cells_or_cuts():
    bins = Bins(((1.0,), (), (), (2.0, 3.0)), (3,), (1,))
    X = np.array([[0.5, 7.0, np.nan, 2.0], [np.nan, 1.0, 5.0, 9.0], [0.0, 0.0, 0.0, 3.0]])
    expected = [[0 if j == 1 else slow_cell(bins, j, x) for j, x in enumerate(row)] for row in X]
    assert codes_of(bins, X).tolist() == expected
    assert codes_of(bins, sparse.csr_array(X)).tolist() == expected
    weights = np.arange(1.0, 11.0)
    scores = TableScorer(bins, None).score(weights, X)
    assert scores.tolist() == TableScorer(bins, None).score(weights, sparse.csr_array(X)).tolist()
    starts = {0: 0, 2: 3, 3: 5}
    hand = [sum(weights[starts[j] + row[j]] for j in starts) for row in expected]
    assert scores.tolist() == [h + 10.0 * x for h, x in zip(hand, X[:, 1], strict=True)]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_what_a_sparse_column_does_not_store_is_zero(sign):
    X = np.zeros((40, 3))
    X[:30, 0] = sign * np.arange(1, 31)
    X[5:30, 1] = np.arange(25) - 12.0
    X[:, 2] = np.arange(40)
    some_zeros = sparse.csr_array(np.where(X == 0, np.arange(40)[:, None] % 2, X))
    some_zeros.data[some_zeros.data == 1.0] = 0.0
    for stored in (sparse.csr_array(X), some_zeros):
        assert fit_bins(stored, 8) == fit_bins(stored.toarray(), 8)
