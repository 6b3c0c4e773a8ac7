"""None"""

import hashlib
import random
import threading
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankine.core.errors import (
    FeatureMismatchError,
    ModelError,
    ParameterError,
    SchemaError,
)
from rankine.core.specs import (
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    RunScores,
)
from rankine.data import Dataset
from rankine.model import LinearModel
from rankine.model.weights import Probe, Probes
from rankine.scoring import Scorer
from rankine.scoring import scorer as scorer_module
from rankine.scoring.kernels import DenseTable, HashTable
from rankine.scoring.scorer import LinearScores
from rankine.transforms.scaling import scale_lists

pytestmark = pytest.mark.kernels

NAMES = ["bm25", "age", "spam", "clicks"]


WEIGHTS = [0.5, 0.0, -2.0, 0.25]


def random_case(seed, n=30, d=50, density=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    w = rng.normal(size=d) * (rng.random(d) < 0.3)
    w[0] = 1.0
    return X, w


def brute_force(w, X, transforms=(), group=None):
    """Scores in plain loops."""
    sizes = [len(X)] if group is None else group
    out, first = [], 0
    for size in sizes:
        block = X[first : first + size].astype(np.float64)
        first += size
        if transforms and size:
            span = block.max(axis=0) - block.min(axis=0)
            block = np.divide(block, span, out=np.zeros_like(block), where=span > 0)
        out.extend(float(sum(wj * xj for wj, xj in zip(w, row, strict=True))) for row in block)
    return np.array(out)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("transforms", [(), (ListRange(),)])
def test_every_storage_gives_the_same_scores(dtype, small, transforms):
    X, w = random_case(1)
    X = X.astype(dtype)
    scorer = Scorer(LinearModel.from_weights(w, transforms=transforms, base=0), small=small)
    expected = brute_force(w, X, transforms)
    csr = sparse.csr_array(X)
    wide = sparse.csr_array(
        (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), shape=csr.shape
    )
    bare = SimpleNamespace(indptr=csr.indptr.tolist(), indices=csr.indices, data=csr.data)
    named = [{str(j): float(x) for j, x in enumerate(row) if w[j] != 0 and x != 0} for row in X]
    for rows in (X, np.asfortranarray(X), X.tolist(), csr, wide, csr.tocsc(), bare, named):
        np.testing.assert_allclose(scorer.score(rows), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("transforms", [(), (ListRange(),), (MissingValues("zero"),)])
def test_few_weights_of_a_wide_space_score_every_form_of_rows(small, transforms):
    rng = np.random.default_rng(4)
    X, w = rng.integers(-4, 5, (7, 300)) / 2, np.zeros(300)
    w[[0, 3, 150, 299]] = 1.0, -2.0, 0.5, 4.0
    model = LinearModel.from_weights(w, transforms=transforms, base=0)
    scorer = Scorer(model, small=small)
    assert isinstance(LinearScores(model, small).table, HashTable if small else DenseTable)
    expected = brute_force(w, X, transforms if transforms == (ListRange(),) else ())
    named = [{str(j): row[j] for j in np.flatnonzero(w)} for row in X]
    for rows in (X, X.tolist(), sparse.csr_array(X), named, X.astype(np.float32)):
        np.testing.assert_allclose(scorer.score(rows), expected, rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 6), min_size=1, max_size=5))
@settings(max_examples=25, deadline=None)
def test_list_scaling_equals_brute_force_for_any_lists(seed, group):
    X, w = random_case(seed, n=sum(group), d=7, density=0.6)
    scorer = Scorer(LinearModel.from_weights(w, transforms=(ListRange(),)))
    expected = brute_force(w, X, (ListRange(),), group)
    np.testing.assert_allclose(scorer.score(X, group=group), expected, atol=1e-9)
    np.testing.assert_allclose(scorer.score(sparse.csr_array(X), group=group), expected, atol=1e-9)


def test_list_scaling_is_that_of_training():
    X, w = random_case(3, n=20)
    qid = np.repeat([1, 2, 3], [5, 9, 6])
    scorer = Scorer(LinearModel.from_weights(w, transforms=(ListRange(),)))
    for storage in (X, sparse.csr_array(X)):
        trained = scale_lists(Dataset.from_arrays(storage, np.zeros(20), qid)) @ w
        np.testing.assert_allclose(scorer.score(storage, group=[5, 9, 6]), trained, atol=1e-12)


def test_rank_is_best_first_and_stable():
    scorer = Scorer(LinearModel.from_weights([1.0]))
    rows = np.array([[1.0], [3.0], [2.0], [3.0]])
    ranking = scorer.rank(rows)
    assert ranking.indices.tolist() == [1, 3, 2, 0]
    assert ranking.scores.tolist() == [3.0, 3.0, 2.0, 1.0]
    assert scorer.rank(rows, k=2).indices.tolist() == [1, 3]
    assert scorer.rank(rows, k=99).indices.tolist() == [1, 3, 2, 0]
    assert scorer.rank(rows, k=0).indices.tolist() == []
    assert scorer.rank(np.zeros((0, 1))).indices.tolist() == []
    with pytest.raises(ParameterError):
        scorer.rank(rows, k=-1)


def test_required_lists_what_the_weights_read():
    assert Scorer(LinearModel.from_weights(WEIGHTS, NAMES)).required == ("bm25", "spam", "clicks")
    assert Scorer(LinearModel.from_weights([0.0, 1.0])).required == ("2",)


@pytest.mark.parametrize("transforms", [(), (ListRange(),)])
def test_rows_alike_and_rows_shuffled_have_the_same_scores(transforms):
    rng = random.Random(2)
    names = [f"f{j}" for j in range(12)]
    weights = [rng.choice([0.0, rng.gauss(0, 1), 1e16, -1e16]) for _ in names]
    model = LinearModel.from_weights(weights, names, transforms=transforms)
    scorer = Scorer(model)
    rows = [{name: rng.choice([rng.gauss(0, 1), 3, True]) for name in names} for _ in range(20)]
    shuffled = [dict(rng.sample(list(row.items()), len(row))) for row in rows]
    assert scorer.score(rows).tolist() == scorer.score(shuffled).tolist()
    lenient = Scorer(model, unknown="zero")
    assert lenient.score([{**row, "x": 1} for row in rows]).tolist() == scorer.score(rows).tolist()
    assert lenient.issues.unknown_features == 20
    cut = [dict(list(row.items())[: rng.randrange(1, 13)]) for row in rows]
    whole = [{**dict.fromkeys(names, 0.0), **row} for row in cut]
    np.testing.assert_allclose(scorer.score(cut), scorer.score(whole), rtol=1e-15)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, with the JIT off
def test_products_beyond_the_doubles_are_refused():
    level = Scorer(LinearModel.from_weights([1.0, 1.0], ["a", "b"]))
    for rows in ([{"a": 1.7e308, "b": 1.7e308}], [{"a": 1.0}, {"a": 1.7e308, "b": 1.7e308}]):
        with pytest.raises(SchemaError):
            level.score(rows)
    with pytest.raises(SchemaError):
        level.score([{"a": 10**400}])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, with the JIT off
@pytest.mark.parametrize("transforms", [(), (ListRange(),), (MissingValues("zero"),)])
def test_a_bad_value_is_refused_also_where_its_weight_is_zero(transforms):
    scorer = Scorer(LinearModel.from_weights(WEIGHTS, NAMES, transforms=transforms))
    missing = [np.nan, None]
    if transforms == (MissingValues("zero"),):
        for value in missing:
            rows = [{"bm25": 1.0, "age": 1.0}, {"age": value}]
            assert scorer.score(rows).tolist() == [0.5, 0.0]
        missing = []
    for value in (*missing, np.inf, "1", 1j, np.complex64(1j), 10**400):
        different = [{"bm25": 1.0, "age": 1.0}, {"age": value}]
        alike = [{"age": 1.0, "bm25": 1.0}, {"age": value, "bm25": 1.0}]
        for rows in (different, alike):
            with pytest.raises(SchemaError, match=r"row 1: feature 'age' is .*not a finite"):
                scorer.score(rows)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (np.ones((2, 3)), FeatureMismatchError),
        (np.ones(4), FeatureMismatchError),
        (sparse.csr_array(np.ones((2, 5))), FeatureMismatchError),
        ([["a", "b", "c", "d"]], FeatureMismatchError),
        ([["1", "2", "3", "4"]], FeatureMismatchError),
        ([[1.0, 2.0], [3.0]], FeatureMismatchError),
        (np.array([[1.0, "2", 3.0, None]], dtype=object), FeatureMismatchError),
        (object(), FeatureMismatchError),
        ([{"bm25": "1"}], SchemaError),
        ([{"bm25": None}], SchemaError),
        ([{"bm25": float("nan")}], SchemaError),
        ([{"bm25": 1j}], SchemaError),
        ([{"bm25": 1.0}, [1.0]], SchemaError),
        (np.array([[np.nan, 0.0, 0.0, 0.0]]), SchemaError),
        (np.array([[0.0, np.inf, 0.0, 0.0]]), SchemaError),
        (sparse.csr_array(np.array([[np.inf, 0.0, 0.0, 0.0]])), SchemaError),
        (SimpleNamespace(indptr=[0, 1], indices=[4], data=[1.0]), FeatureMismatchError),
        (SimpleNamespace(indptr=[0, 1], indices=[-1], data=[1.0]), FeatureMismatchError),
        (SimpleNamespace(indptr=[0, 9], indices=[0], data=[1.0]), FeatureMismatchError),
        (SimpleNamespace(indptr=[0, 1], indices=[0], data=[]), FeatureMismatchError),
        (SimpleNamespace(indptr=[-1, 1], indices=[0], data=[1.0]), FeatureMismatchError),
        (SimpleNamespace(indptr=[1, 0], indices=[0], data=[1.0]), FeatureMismatchError),
        (SimpleNamespace(indptr=[], indices=[0], data=[1.0]), SchemaError),
        (SimpleNamespace(indptr=[0.0, 1.0], indices=[0], data=[1.0]), SchemaError),
    ],
)
@pytest.mark.parametrize("transforms", [(), (ListRange(),)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, with the JIT off
def test_bad_rows_are_refused_with_a_typed_error(rows, error, transforms):
    if transforms and isinstance(rows, np.ndarray) and rows.shape == (1, 4):
        rows = np.vstack([rows, np.ones((1, 4))])
    scorer = Scorer(LinearModel.from_weights([0.5, 1.0, -2.0, 0.25], NAMES, transforms=transforms))
    with pytest.raises(error):
        scorer.score(rows)


def test_bad_groups_are_refused():
    scorer = Scorer(LinearModel.from_weights([1.0], transforms=(ListRange(),)))
    for group in ([1], [3, -1], [0.5, 1.5], [[2]]):
        with pytest.raises(SchemaError):
            scorer.score(np.ones((2, 1)), group=group)


def test_a_scorer_is_immutable_and_does_not_share_the_models_arrays():
    model = LinearModel.from_weights(WEIGHTS, NAMES)
    scorer = Scorer(model)
    with pytest.raises(AttributeError, match="immutable"):
        scorer.model = model
    with pytest.raises(AttributeError, match="immutable"):
        scorer.other = 1


def test_threads_share_a_scorer():
    X, w = random_case(5, n=200)
    scorer = Scorer(LinearModel.from_weights(w))
    expected, wrong = scorer.score(X), []

    def work():
        wrong.extend(int((scorer.score(X) != expected).sum()) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * 80


@pytest.mark.parametrize("transforms", [(), (ListRange(),)])
def test_stored_rows_are_scored_before_serving(transforms):
    w = random_case(7)[1]
    model = LinearModel.from_weights(w, transforms=transforms)
    assert len(model.probes.rows) == 4
    Scorer(model).self_test()
    wrong = Probes(model.probes.rows, (*model.probes.scores[:-1], 123.0))
    with pytest.raises(ModelError, match="stored rows"):
        Scorer(LinearModel.from_weights(w, transforms=transforms, probes=wrong)).self_test()


def test_probes_may_be_raw_rows_and_models_without_probes_still_run():
    raw = Probes((Probe(raw={"bm25": 2.0}), Probe(raw={"spam": 1.0})), (1.0, -2.0))
    Scorer(LinearModel.from_weights(WEIGHTS, NAMES, probes=raw)).self_test()
    empty = LinearModel.from_weights(np.zeros(3))
    assert empty.probes is None
    Scorer(empty).self_test()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_stored_scores_may_differ_by_a_billionth_of_the_largest(size):
    def tested(stored):
        rows = (Probe((0,), (1.0,)), Probe((1,), (1.0,)))
        model = LinearModel.from_weights([size, size / 1000], probes=Probes(rows, stored))
        Scorer(model).self_test()

    near = 1e-9 * max(1.0, size)
    for sign in (1, -1):
        tested((size, size / 1000 + sign * 0.9 * near))
        for stored in ((size, size / 1000 + sign * 1.1 * near), (size + sign * near * 1.1, 0.0)):
            with pytest.raises(ModelError, match="stored rows differ by up to"):
                tested(stored)


def test_one_stored_row_is_enough_and_the_tolerance_is_inside():
    alone = Probes((Probe((0,), (1.0,)),), (0.0,))
    Scorer(LinearModel.from_weights([1e-9], probes=alone)).self_test()
    with pytest.raises(ModelError, match="stored rows"):
        Scorer(LinearModel.from_weights([1.01e-9], probes=alone)).self_test()


def test_without_stored_rows_one_row_of_zeros_is_scored(monkeypatch):
    seen = []
    score = Scorer.score
    monkeypatch.setattr(Scorer, "score", lambda self, rows: seen.append((rows, score(self, rows))))
    Scorer(LinearModel.from_weights(np.zeros(3))).self_test()
    ((rows, scores),) = seen
    assert scores.tolist() == [0.0]
    assert len(rows.indices) == len(rows.data) == 0


def test_a_compact_model_scores_the_required_columns_alone():
    X, w = random_case(11)
    model = LinearModel.from_weights(w)
    small = Scorer(model.compact())
    np.testing.assert_allclose(
        small.score(np.ascontiguousarray(X[:, model.indices])), Scorer(model).score(X), atol=1e-12
    )


def test_weights_near_the_largest_number_make_a_model_without_stored_rows():
    for weights in ([1.7e308, -1.7e308], [1.7e308] * 3, [1e308, 1.0, -1e308]):
        model = LinearModel.from_weights(np.array(weights))
        assert model.probes is None
        assert LinearModel.from_bytes(model.to_bytes()).digest == model.digest


SPEC = LogColumns(
    numeric=("price", "ctr"),
    one_hot=(OneHot(column="shop", values=("north", "7")),),
    hashed=("brand",),
    crosses=(("shop", "brand"),),
    hash_bits=8,
    ignored=("session",),
)


def raw_rows(rng, n):
    """Rows of a log in plain values; categories as text, whole numbers or nothing."""
    return [
        {
            "price": rng.choice([rng.gauss(0, 2), 3, None, 0.0]),
            "ctr": rng.random(),
            "shop": rng.choice(["north", 7, "elsewhere", None]),
            "brand": rng.choice(["a", "b", 7, 12, "", None]),
        }
        for _ in range(n)
    ]


def encoded_by_hand(rows):
    """The features of raw rows, by the definition of the spec."""
    X = np.zeros((len(rows), SPEC.n_features))

    def text(value):
        return "" if value is None else str(value)

    def add(i, *parts):
        digest = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).digest()
        X[i, SPEC.hash_start + int.from_bytes(digest, "little") % 2**SPEC.hash_bits] += 1

    for i, row in enumerate(rows):
        X[i, :2] = row["price"] or 0.0, row["ctr"]
        shop, brand = text(row["shop"]), text(row["brand"])
        X[i, 2:4] = shop == "north", shop == "7"
        if brand:
            add(i, "brand", brand)
        if shop and brand:
            add(i, "shop", "brand", shop, brand)
    return X


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("scaling", [(), (ListRange(),)])
def test_raw_rows_score_as_their_features_by_hand(small, scaling):
    rng = random.Random(6)
    w = np.random.default_rng(1).normal(size=SPEC.n_features)
    scorer = Scorer(LinearModel.from_weights(w, transforms=(SPEC, *scaling)), small=small)
    for n in (1, 2, 30):
        rows = raw_rows(rng, n)
        expected = brute_force(w, encoded_by_hand(rows), scaling)
        np.testing.assert_allclose(scorer.score(rows), expected, atol=1e-12)
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        assert scorer.score(columns).tolist() == scorer.score(rows).tolist()


def test_booleans_are_not_the_numbers_they_equal():
    spec = LogColumns(hashed=("new",), hash_bits=16)
    w = np.random.default_rng(3).normal(size=spec.n_features)
    scorer = Scorer(LinearModel.from_weights(w, transforms=(spec,)))
    one, yes = scorer.score([{"new": 1}])[0], scorer.score([{"new": True}])[0]
    assert one != yes
    assert scorer.score([{"new": 1}, {"new": True}, {"new": "true"}]).tolist() == [one, yes, yes]


@pytest.mark.parametrize("bits", [20, 26])
@pytest.mark.parametrize("scaling", [(), (ListRange(),)])
def test_the_size_of_the_hashed_space_costs_no_memory_in_a_call(bits, scaling):
    spec = LogColumns(numeric=("price",), hashed=("brand",), hash_bits=bits)
    indices = np.array([0, 5, 99, 2**bits])
    model = LinearModel(spec.n_features, indices, np.ones(4), transforms=(spec, *scaling))
    scorer = Scorer(model)
    rows = [{"price": float(i), "brand": f"b{i}"} for i in range(100)]
    scorer.rank(rows)
    tracemalloc.start()
    scorer.rank(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


def test_sparse_rows_without_groups_are_one_list_of_missing_values():
    missing = MissingValues("query_min")
    scorer = Scorer(LinearModel.from_weights([1.0, 10.0], transforms=(missing,)))
    X = np.array([[3.0, np.nan], [np.nan, 2.0], [1.0, 5.0]])
    np.testing.assert_array_equal(scorer.score(sparse.csr_array(X)), scorer.score(X))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scaling", [(), (ListRange(),)])
def test_missing_values_are_the_smallest_of_their_own_list(storage, scaling):
    model = LinearModel.from_weights([1.0, 10.0], transforms=(MissingValues("query_min"), *scaling))
    scorer = Scorer(model)
    X = np.array([[3.0, np.nan], [np.nan, 2.0], [1.0, 5.0], [np.nan, 7.0], [9.0, np.nan], [8, 8]])
    group = [2, 0, 1, 3]
    alone = [scorer.score(storage(X[a:b])) for a, b in ((0, 2), (2, 3), (3, 6))]
    found = scorer.score(storage(X), group=group)
    np.testing.assert_array_equal(found, np.concatenate(alone))
    assert found.tolist() != scorer.score(storage(X)).tolist()


@pytest.mark.parametrize("small", [True, False])
def test_compressed_rows_of_every_length_and_offset(small):
    n = 200
    w = np.random.default_rng(0).normal(size=n) * (np.arange(n) % 29 == 0)
    scorer = Scorer(LinearModel.from_weights(w), small=small)
    rng = np.random.default_rng(1)
    sizes = [0, 1, 3, 4, 5, 7, 8, 9, 12]
    indices = np.concatenate([np.sort(rng.choice(n, size, replace=False)) for size in [2, *sizes]])
    data = rng.normal(size=len(indices))
    indptr = 2 + np.concatenate([[0], np.cumsum(sizes)])
    found = scorer.score(SimpleNamespace(indptr=indptr, indices=indices, data=data))
    for i, score in enumerate(found):
        span = slice(indptr[i], indptr[i + 1])
        assert score == pytest.approx(np.sum(w[indices[span]] * data[span]), abs=1e-12)

    def refused(what, indptr=indptr, indices=indices, data=data):
        with pytest.raises(FeatureMismatchError, match=what):
            scorer.score(SimpleNamespace(indptr=indptr, indices=indices, data=data))

    refused("offsets", indices=indices[:-1])
    refused("offsets", data=data[:-1])
    refused("offsets", indptr=np.array([-1, 2]))
    refused("offsets", indptr=np.array([3, 2]))
    for k in range(len(indices) - 2):
        for bad in (n, -1):
            wrong = indices.copy()
            wrong[k + 2] = bad
            refused("index", indices=wrong)
    unread = indices.copy()
    unread[:2] = n
    again = scorer.score(SimpleNamespace(indptr=indptr, indices=unread, data=data))
    assert again.tolist() == found.tolist()


def test_rows_in_every_type_have_the_same_scores():
    scorer = Scorer(LinearModel.from_weights([1.0, -2.0, 0.5]))
    dense = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0]])
    csr = sparse.csr_array(dense)
    expected = scorer.score(dense).tolist()
    parts = {"indptr": csr.indptr, "indices": csr.indices, "data": csr.data}
    for name, values in (
        ("indptr", csr.indptr.astype(np.int64)),
        ("indices", csr.indices.astype(np.int16)),
        ("indices", csr.indices.astype(np.uint32)),
        ("indices", csr.indices.tolist()),
        ("data", csr.data.astype(np.float32)),
        ("data", csr.data.astype(np.int64)),
        ("data", csr.data.tolist()),
        ("data", np.repeat(csr.data, 2)[::2]),
        ("indices", np.repeat(csr.indices, 2)[::2]),
        ("indptr", np.repeat(csr.indptr, 2)[::2]),
    ):
        rows = SimpleNamespace(**{**parts, name: values})
        assert scorer.score(rows).tolist() == expected
    for shape in ((2, 4), (2,), (2, 3, 1)):
        with pytest.raises(FeatureMismatchError, match="model has 3 features"):
            scorer.score(SimpleNamespace(**parts, shape=shape))
    with pytest.raises(FeatureMismatchError):
        scorer.score(SimpleNamespace(**{**parts, "indptr": [[0, 2, 4]]}))
    for name, values in (("indices", [0.5] * 4), ("indptr", ["0"]), ("indptr", [])):
        with pytest.raises(SchemaError, match=f"{name} is not a list of integers"):
            scorer.score(SimpleNamespace(**{**parts, name: values}))
    assert scorer.score(dense.astype(np.int32)).tolist() == expected
    assert scorer.score(dense.astype(bool)).tolist() == [-1.0, -1.5]
    assert scorer.score(dense.astype(np.float32)).tolist() == expected
    assert scorer.score(sparse.csc_array(dense)).tolist() == expected
    for empty in ([], np.zeros((0, 3)), np.zeros((0, 9)), np.array([])):
        assert scorer.score(empty).tolist() == []
    for bad in (np.zeros((2, 0)), np.zeros((0, 3, 1)), [[], []], np.zeros((2, 3, 1))):
        with pytest.raises(FeatureMismatchError, match="model has 3 features"):
            scorer.score(bad)


def test_transforms_that_cannot_run_together_are_refused():
    runs, scaled, missing = RunScores(), ListRange(), MissingValues("zero")
    for transforms in ((scaled, scaled), (runs, scaled), (runs, missing), (missing, missing)):
        with pytest.raises(ModelError, match="cannot run these transforms together"):
            Scorer(LinearModel.from_weights([1.0, 2.0], transforms=transforms))
    for transforms in ((scaled, missing), (runs,), (SPEC, scaled)):
        n = SPEC.n_features if SPEC in transforms else 2
        scorer = Scorer(LinearModel.from_weights(np.ones(n), transforms=transforms))
        assert scorer.reads_columns == (SPEC in transforms)
        assert scorer.scales_lists == (scaled in transforms)
        assert (scorer.run_scores is not None) == (runs in transforms)


def test_scores_of_retrievers_are_checked():
    scorer = Scorer(
        LinearModel.from_weights([1.0, 2.0], ["bm25", "dense"], transforms=(RunScores(),))
    )
    X = np.array([[1.0, 5.0], [3.0, np.nan], [2.0, 6.0]])
    expected = [2.0 * 0.0, 1.0, 0.5 + 2.0]
    stored = sparse.csr_array(np.nan_to_num(X))
    for rows in (X, stored):
        np.testing.assert_allclose(scorer.score(rows), expected, atol=0.01)
    shifted = SimpleNamespace(
        indptr=stored.indptr + 1, indices=[7, *stored.indices], data=[np.inf, *stored.data]
    )
    assert scorer.score(shifted).tolist() == scorer.score(stored).tolist()
    both = sparse.csr_array(np.vstack([stored.toarray(), stored.toarray() * 3]))
    twice = scorer.score(both, group=[3, 3])
    np.testing.assert_allclose(twice[3:], twice[:3], atol=1e-12)
    np.testing.assert_allclose(twice[:3], scorer.score(stored), atol=1e-12)
    for change, what in (
        ({"indptr": [0, 3, 2, 5]}, "offsets"),
        ({"indptr": [-1, 2, 3, 5]}, "offsets"),
        ({"indptr": [0, 2, 3, 6]}, "offsets"),
        ({"indices": [0, 1, 0, 0]}, "offsets"),
        ({"data": [1.0, 5.0, 3.0, 2.0]}, "offsets"),
        ({"indices": [0, 2, 0, 0, 1]}, "index is out of range"),
        ({"indices": [0, -1, 0, 0, 1]}, "index is out of range"),
    ):
        parts = {"indptr": stored.indptr, "indices": stored.indices, "data": stored.data, **change}
        with pytest.raises(FeatureMismatchError, match=what):
            scorer.score(SimpleNamespace(**parts))
    for i, bad, name in ((2, np.inf, "bm25"), (0, np.nan, "dense"), (1, -np.inf, "bm25")):
        data = stored.toarray()
        j = scorer.model.feature_names.index(name)
        data[i, j] = 9.0
        rows = sparse.csr_array(data)
        rows.data[rows.data == 9.0] = bad
        with pytest.raises(SchemaError, match=f"row {i}: .*feature '{name}' is {bad}"):
            scorer.score(rows)
        if np.isinf(bad):
            data[i, j] = bad
            with pytest.raises(SchemaError, match=f"row {i}: .*feature '{name}' is {bad}"):
                scorer.score(data)
    after_nothing = SimpleNamespace(indptr=[0, 1, 1, 2], indices=[0, 1], data=[1.0, np.inf])
    with pytest.raises(SchemaError, match="row 2: the score is inf: feature 'dense' is inf"):
        scorer.score(after_nothing)
    empty = SimpleNamespace(indptr=[0, 0], indices=np.zeros(0, dtype=int), data=np.zeros(0))
    assert scorer.score(empty).tolist() == [0.0]


def test_compiling_scores_with_every_kind_of_weights(monkeypatch):
    seen = set()

    def recording(kernel, scaled):
        def run(rows, table, *arguments):
            seen.add((type(table), scaled))
            return kernel(rows, table, *arguments)

        return run

    for name, scaled in (("run_csr_kernel", False), ("run_scaled_csr_kernel", True)):
        monkeypatch.setattr(scorer_module, name, recording(getattr(scorer_module, name), scaled))
    scorer_module.compile_kernels()
    assert seen == {(kind, scaled) for kind in (DenseTable, HashTable) for scaled in (True, False)}
