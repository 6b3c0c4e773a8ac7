import hashlib
import math
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
    Bins,
    GridAxis,
    Grids,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
    RunScores,
)
from rankine.data import Dataset
from rankine.model import LinearModel
from rankine.model.weights import Probe, Probes
from rankine.scoring import InputIssues, Scorer, latency
from rankine.scoring import scorer as scorer_module
from rankine.scoring.kernels import DenseTable, HashTable, _rounded, build_table, exact_scores
from rankine.scoring.rows import csr_parts, uniform_rows
from rankine.scoring.scorer import LinearScores
from rankine.transforms.apply import score_dataset
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


def test_the_hash_table_finds_every_weight_and_nothing_else():
    rng = np.random.default_rng(0)
    n = 2**31 - 1
    indices = np.unique(np.concatenate([rng.integers(0, n, 300), np.arange(5, 90), [n - 1]]))
    model = LinearModel(n, indices, rng.normal(size=len(indices)))
    absent = np.setdiff1d(rng.integers(0, n, 500), indices)
    probe = np.concatenate([indices, absent])
    rows = SimpleNamespace(
        indptr=np.arange(len(probe) + 1), indices=probe, data=np.ones(len(probe))
    )
    scores = Scorer(model).score(rows)
    assert scores.tolist() == [*model.values.tolist(), *([0.0] * len(absent))]


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


def test_named_scores_do_not_depend_on_the_order_of_keys():
    model = LinearModel.from_weights([1e16, 1.0, -1e16], ["a", "b", "c"])
    rows = [{"a": 1.0, "b": 1.0, "c": 1.0}, {"c": 1.0, "a": 1.0, "b": 1.0}]
    assert Scorer(model).score(rows).tolist() == [1.0, 1.0]


def test_exact_scores_are_fsum():
    rng = random.Random(8)
    for width in (0, 1, 2, 5, 33):
        rows = [
            [rng.gauss(0, 1) * 10.0 ** rng.randint(-20, 20) for _ in range(width)] for _ in "xy"
        ]
        rows.append([(-1.0) ** j * 1e16 for j in range(width)])
        weights = [rng.choice([1.0, -1.0, 1e-8, rng.gauss(0, 1)]) for _ in range(width)]
        values, out = np.array(rows).reshape(3, width), np.empty(3)
        assert exact_scores(values, np.array(weights), out)
        expected = [math.fsum(x * w for x, w in zip(row, weights, strict=True)) for row in rows]
        assert out.tolist() == expected


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
        with pytest.raises(SchemaError, match="inf"):
            level.score(rows)
    with pytest.raises(SchemaError, match="not a finite number"):
        level.score([{"a": 10**400}])


def test_unknown_names_are_an_error_or_a_counted_zero():
    model = LinearModel.from_weights(WEIGHTS, NAMES)
    rows = [{"bm25": 1.0, "bm26": 5.0}, {"age": 3, "x": 1, "y": 2}]
    with pytest.raises(FeatureMismatchError, match=r"'bm26'.*bm25"):
        Scorer(model).score(rows)
    lenient = Scorer(model, unknown="zero")
    assert lenient.score(rows).tolist() == [0.5, 0.0]
    assert lenient.issues.unknown_features == 3
    with pytest.raises(ParameterError):
        Scorer(model, unknown="ignore")


def test_a_model_without_names_knows_the_indices_of_its_weights():
    model = LinearModel.from_weights([0.0, 3.0])
    assert Scorer(model).score([{"2": 2.0}]).tolist() == [6.0]
    for row in ({"1": 2.0}, {"2": 1.0, "7": 1.0}):
        with pytest.raises(FeatureMismatchError, match="has no feature"):
            Scorer(model).score([row])
    lenient = Scorer(model, unknown="zero")
    assert lenient.score([{"1": 2.0}, {"2": 1.0, "7": 1.0}]).tolist() == [0.0, 3.0]
    assert lenient.issues.unknown_features == 2


def test_rows_alike_are_read_at_once_and_others_are_not():
    known = {"a": 0, "b": 1, "c": -1}
    names, values = uniform_rows([{"b": 1, "a": 2.5, "c": True}, {"b": 3, "a": 4, "c": 0}], known)
    assert names == ("b", "a", "c")
    assert values.tolist() == [[1.0, 2.5, 1.0], [3.0, 4.0, 0.0]]
    names, values = uniform_rows([{"a": 7}], known)
    assert (names, values.tolist()) == (("a",), [[7.0]])
    for second in ({"b": 1, "a": 2}, {"a": 1}, {"a": 1, "b": None}, {"a": 1, "b": "2"}, {}):
        assert uniform_rows([{"a": 1, "b": 2}, second], known) is None
    assert uniform_rows([{"x": 1}], known) is None
    assert uniform_rows([{"a": 1, "x": 1}], known) is None


def test_hashed_models_know_only_the_names_of_their_weights():
    model = LinearModel.from_weights([0.0, 2.0, 0.0], weight_names=["brand=x"])
    assert Scorer(model).score([{"brand=x": 1, "brand=y": 1}]).tolist() == [2.0]


def test_frames_and_columns_are_read_by_name():
    import pandas as pd
    import polars as pl

    scorer = Scorer(LinearModel.from_weights(WEIGHTS, NAMES))
    columns = {"clicks": [4.0, 8.0], "bm25": [1.0, 0.0]}
    for rows in (columns, pd.DataFrame(columns), pl.DataFrame(columns)):
        assert scorer.score(rows).tolist() == [1.5, 2.0]
    with pytest.raises(FeatureMismatchError, match="'colour'"):
        scorer.score({"colour": [1.0]})
    with pytest.raises(SchemaError, match="lengths"):
        scorer.score({"clicks": [1.0], "bm25": [1.0, 2.0]})


def test_no_columns_are_no_rows_and_what_is_no_table_is_refused():
    import pandas as pd

    scorer = Scorer(LinearModel.from_weights(WEIGHTS, NAMES))
    assert scorer.score({}).tolist() == []
    assert scorer.score({"bm25": []}).tolist() == []
    for rows in (pd.Series([1.0]), SimpleNamespace(columns=["bm25"]), 1.0, {1.0}):
        with pytest.raises(FeatureMismatchError):
            scorer.score(rows)


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
            with pytest.raises(SchemaError, match=r"feature 'age' of row 1 is .*not a finite"):
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


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint8])
def test_compressed_rows_become_arrays_of_two_types_that_kernels_know(kind):
    """C-ordered and writable, offsets and indices of one type."""
    csr = sparse.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0]]))
    for other in (np.int16, np.int32, np.int64):
        for data in (csr.data, csr.data.astype(np.float32), csr.data.astype(np.int8)):
            frozen = data.copy()
            frozen.flags.writeable = False
            for values in (data, frozen, np.repeat(data, 2)[::2]):
                indptr = np.repeat(csr.indptr.astype(kind), 2)[::2]
                rows = SimpleNamespace(
                    indptr=indptr, indices=csr.indices.astype(other), data=values
                )
                parts = csr_parts(rows, 3)
                assert parts.indptr.dtype == parts.indices.dtype
                assert parts.indptr.dtype in (np.int32, np.int64)
                assert parts.data.dtype in (np.float32, np.float64)
                assert all(part.flags.carray for part in parts)
                for part, known in zip(parts, (indptr, csr.indices, data), strict=True):
                    np.testing.assert_array_equal(part, known)


def test_compressed_rows_may_hold_nothing_but_need_an_end():
    scorer = Scorer(LinearModel.from_weights([1.0, 2.0]))
    for kind in (np.uint8, np.int16, np.int32, np.int64):
        nothing = np.zeros(0, dtype=kind)
        rows = SimpleNamespace(indptr=np.zeros(2, dtype=kind), indices=nothing, data=[])
        assert scorer.score(rows).tolist() == [0.0]
        rows.indptr = rows.indptr[:1]
        assert scorer.score(rows).tolist() == []
        rows.indptr = nothing
        with pytest.raises(SchemaError, match="indptr is not a list of integers"):
            scorer.score(rows)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, with the JIT off
def test_a_score_that_is_not_finite_names_row_and_feature():
    scorer = Scorer(LinearModel.from_weights(WEIGHTS, NAMES))
    X = np.ones((3, 4))
    X[2, 1] = np.nan
    with pytest.raises(SchemaError, match="row 2 is nan: feature 'age' is nan"):
        scorer.score(X)
    huge = Scorer(LinearModel.from_weights([1e300, 1e300]))
    assert huge.score(np.ones((1, 2))).tolist() == [2e300]
    with pytest.raises(SchemaError, match="row 0 is inf"):
        huge.score(np.full((1, 2), 1e300))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, with the JIT off
@pytest.mark.parametrize("base", [0, 1])
def test_the_feature_that_is_not_finite_is_told_by_its_index_and_only_in_its_row(base):
    scorer = Scorer(LinearModel.from_weights([1e300, 1e300, 1.0], base=base))
    X = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, np.inf], [1.0, 0.0, np.nan]])
    huge = np.array([[1.0, 2.0, 3.0], [1e300, 1e300, 1.0], [np.nan, 1.0, 1.0]])
    for storage in (np.asarray, sparse.csr_array):
        with pytest.raises(SchemaError, match=f"row 1 is inf: feature '{2 + base}' is inf"):
            scorer.score(storage(X))
        with pytest.raises(SchemaError, match=r"row 1 is inf(?!: feature)"):
            scorer.score(storage(huge))


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


def test_explanations_inside_a_list_add_up_to_the_score():
    X, w = random_case(9)
    for transforms in ((), (ListRange(),)):
        scorer = Scorer(LinearModel.from_weights(w, transforms=transforms))
        for rows in (X, sparse.csr_array(X)):
            scores = scorer.score(rows)
            assert scorer.explain(rows, 4).total == pytest.approx(scores[4], abs=1e-12)
            pair = scorer.explain_pair(rows, 2, 8)
            assert pair.total == pytest.approx(scores[2] - scores[8], abs=1e-12)
    with pytest.raises(ParameterError, match="row 30"):
        scorer.explain(X, 30)


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


def test_unknown_and_missing_columns_are_refused_or_noted():
    model = LinearModel.from_weights(np.ones(SPEC.n_features), transforms=(SPEC,))
    good = {"price": 1.0, "ctr": 0.5, "shop": "north", "brand": "a"}
    rows = [good, {**good, "colour": "red", "session": 1}, {"price": 1.0, "shop": None}]
    with pytest.raises(FeatureMismatchError, match="no column 'colour'"):
        Scorer(model).score(rows)
    with pytest.raises(FeatureMismatchError, match=r"1 of 2 rows lack .* 'brand', 'ctr'"):
        Scorer(model, strict=True).score([good, rows[2]])
    for scorer, issues in ((Scorer(model, unknown="zero"), None), (Scorer(model), InputIssues())):
        asked = rows if issues is None else [good, rows[2]]
        scores = scorer.score(asked, issues=issues)
        counted = issues or scorer.issues
        assert counted.unknown_columns == ({"colour": 1} if issues is None else {})
        assert counted.missing_columns == {"ctr": 1, "brand": 1}
        assert scores[-1] == 1.0
    columns = {"price": [1.0, 2.0], "colour": [0, 0]}
    lenient = Scorer(model, unknown="zero")
    lenient.score(columns)
    assert lenient.issues.unknown_columns == {"colour": 2}
    assert lenient.issues.missing_columns == {"ctr": 2, "shop": 2, "brand": 2}
    with pytest.raises(SchemaError, match="row 1 is not a dictionary"):
        Scorer(model).score([good, [1.0]])


@pytest.mark.parametrize("columns", [("price",), ("price", "brand"), ("price", "ctr", "brand")])
def test_columns_that_no_row_holds_are_missing_values(columns):
    rng = random.Random(3)
    w = np.random.default_rng(2).normal(size=SPEC.n_features)
    scorer = Scorer(LinearModel.from_weights(w, transforms=(SPEC,)))
    rows = raw_rows(rng, 9)
    some = [{name: row[name] for name in columns} for row in rows]
    null = [dict.fromkeys(rows[0]) | row for row in some]
    expected = scorer.score(null)
    assert scorer.score(some).tolist() == expected.tolist()
    assert scorer.score([*some, null[0]]).tolist() == [*expected, expected[0]]
    assert scorer.score({name: [row[name] for row in some] for name in columns}).tolist() == (
        expected.tolist()
    )
    assert scorer.issues.missing_columns == {name: 27 for name in rows[0] if name not in columns}


def test_all_unknown_columns_are_told_and_what_may_be_meant():
    model = LinearModel.from_weights(np.ones(SPEC.n_features), transforms=(SPEC,))
    with pytest.raises(FeatureMismatchError, match=r"no column 'brant', 'x'") as caught:
        Scorer(model).score({"x": [1], "brant": ["a"], "price": [1.0]})
    assert "Did you mean 'brand'?" in caught.value.fix


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"price": "dear"}, "row 2: 'dear' in numeric column 'price'"),
        ({"price": float("inf")}, "row 2: column 'price' is infinite"),
        ({"ctr": [1]}, r"row 2: \[1\] in numeric column 'ctr'"),
        ({"brand": 1.5}, "row 2: 1.5 in categorical column 'brand'"),
    ],
)
def test_values_of_another_type_are_named_with_row_and_column(row, place):
    model = LinearModel.from_weights(np.ones(SPEC.n_features), transforms=(SPEC,))
    good = {"price": 1.0, "ctr": 0.5, "shop": "north", "brand": "a"}
    with pytest.raises(SchemaError, match=place):
        Scorer(model).score([good, good, {**good, **row}])


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


@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_names_decide_which_column_is_which(storage):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6, 5))
    names = [*NAMES[::-1], "other"]
    data = Dataset.from_arrays(storage(X), np.zeros(6), feature_names=names)
    expected = X[:, :4] @ WEIGHTS[::-1]
    found = score_dataset(LinearModel.from_weights(WEIGHTS, NAMES), data)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # with the JIT off
def test_sums_between_two_doubles_are_rounded_to_even():
    rows = [
        [2.0**53, -0.5, -(2.0**-54)], [2.0**53, 1.0, 2.0**-100], [2.0**53 + 10, 1.0, 2.0**-100],
        [2.0**53 - 4, 0.5, 2.0**-54], [1e16, 1.0, 1e-16], [2.0**53, 1.0, -(2.0**-100)],
        [1.0, 2.0**-53, 2.0**-106], [1.0, 2.0**-53, -(2.0**-106)], [1.0, 2.0**-53, 0.0],
        [1.0 + 2.0**-52, 2.0**-53, 0.0], [1.0, -1.0, 2.0**-200], [0.0, 0.0, 0.0],
        [1.0, 1e-300, -1.0],
    ]  # fmt: skip
    values = np.array([*rows, *(-np.array(rows))])
    out = np.empty(len(values))
    assert exact_scores(values, np.ones(3), out)
    assert out.tolist() == [math.fsum(row) for row in values.tolist()]
    for bad in (np.nan, np.inf, -np.inf):
        assert not exact_scores(np.array([[1.0, bad]]), np.ones(2), np.empty(1))


@pytest.mark.parametrize("beside", [1e5, -1e5])
def test_what_lies_beside_partial_sums_is_not_read(beside):
    """They grow in size and do not overlap; half of the last place goes by the next one's sign."""
    for parts in (
        [], [3.0], [2.0**-53, 1.0], [-(2.0**-53), 1.0], [2.0**-106, 2.0**-53, 1.0],
        [-(2.0**-106), 2.0**-53, 1.0], [2.0**-160, -(2.0**-106), -(2.0**-53), 1.0 + 2.0**-52],
    ):  # fmt: skip
        for sign in (1, -1):
            partials = np.array([sign * part for part in parts] + [beside] * 3)
            assert _rounded(partials, len(parts)) == math.fsum(partials[: len(parts)])


@pytest.mark.parametrize("small", [True, False])
def test_compressed_rows_are_added_in_four_sums(small):
    """To the bit: blocks of four values in four sums, what is left over in the first."""
    rng = np.random.default_rng(2)
    w = np.zeros(300)
    w[:40] = rng.normal(size=40) * 10.0 ** rng.integers(-8, 9, 40)
    scorer = Scorer(LinearModel.from_weights(w), small=small)
    for size in range(14):
        for _ in range(5):
            indices, data = np.sort(rng.choice(40, size, replace=False)), rng.normal(size=size)
            products = (data * w[indices]).tolist()
            whole = size - size % 4
            sums = [0.0] * 4
            for k, product in enumerate(products):
                sums[k % 4 if k < whole else 0] += product
            rows = SimpleNamespace(indptr=[0, size], indices=indices, data=data)
            assert scorer.score(rows)[0] == (sums[0] + sums[1]) + (sums[2] + sums[3])


@pytest.mark.parametrize("weights", [1, 8, 9, 72])
def test_a_hash_table_is_taken_where_it_is_smaller(weights):
    slots = 8 * max(weights, 8)
    indices, values = np.arange(weights) * 2, np.arange(1.0, weights + 1)
    assert isinstance(build_table(indices, values, 2 * slots, small=True), DenseTable)
    table = build_table(indices, values, 2 * slots + 1, small=True)
    assert isinstance(table, HashTable)
    assert slots <= len(table.keys) < 2 * slots
    assert len(table.values) == len(table.keys) == 2 ** (32 - int(table.shift))
    held = np.array(table[1])
    assert sorted(held[held != 0]) == values.tolist()
    assert isinstance(build_table(indices, values, 2 * slots + 1, small=False), DenseTable)
    assert isinstance(build_table(indices, values, 2**21), DenseTable)
    assert isinstance(build_table(indices, values, 2**21 + 1), HashTable)


def test_weights_that_meet_at_the_last_slot_go_round():
    n = 2**20
    slots = (np.arange(n, dtype=np.uint64) * np.uint64(2654435769) & np.uint64(2**32 - 1)) >> 26
    last, first = np.flatnonzero(slots == 63), np.flatnonzero(slots == 0)
    indices = np.sort(np.concatenate([last[:3], first[:2]]))
    model = LinearModel(n, indices, np.arange(1.0, 6.0))
    absent = np.concatenate([last[3:6], first[2:5]])
    probe = np.concatenate([indices, absent])
    rows = SimpleNamespace(
        indptr=np.arange(len(probe) + 1), indices=probe, data=np.ones(len(probe))
    )
    scores = Scorer(model, small=True).score(rows)
    assert scores.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, *([0.0] * 6)]


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
    for name, values in (
        ("indptr", [[0, 2, 4]]), ("indices", [0.5] * 4), ("indptr", ["0"]), ("indptr", []),
    ):  # fmt: skip
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
        ({"indices": [0, 2, 0, 0, 1]}, "outside the 2 runs"),
        ({"indices": [0, -1, 0, 0, 1]}, "outside the 2 runs"),
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
        with pytest.raises(SchemaError, match=f"row {i} .*feature '{name}' is {bad}"):
            scorer.score(rows)
        if np.isinf(bad):
            data[i, j] = bad
            with pytest.raises(SchemaError, match=f"row {i} .*feature '{name}' is {bad}"):
                scorer.score(data)
    after_nothing = SimpleNamespace(indptr=[0, 1, 1, 2], indices=[0, 1], data=[1.0, np.inf])
    with pytest.raises(SchemaError, match="row 2 is inf: feature 'dense' is inf"):
        scorer.score(after_nothing)
    empty = SimpleNamespace(indptr=[0, 0], indices=np.zeros(0, dtype=int), data=np.zeros(0))
    assert scorer.score(empty).tolist() == [0.0]


def test_missing_values_explain_their_part_of_a_pair():
    missing = MissingValues("indicator", (0, 2), (10.0, 3.0))
    scorer = Scorer(
        LinearModel.from_weights([1.0, 2.0, 0.0], ["a", "b", "c"], transforms=(missing,))
    )
    X = np.array([[np.nan, 1.0, np.nan], [np.nan, 2.0, 0.0], [1.0, 3.0, np.nan]])
    names = [{"a": row[0], "b": row[1], "c": row[2]} for row in X.tolist()]
    scores = scorer.score(X)
    for rows in (X, sparse.csr_array(X), names):
        np.testing.assert_allclose(scorer.score(rows), scores)
        for i in range(3):
            assert scorer.explain(rows, i).total == pytest.approx(scores[i])
            for k in range(3):
                told = scorer.explain_pair(rows, i, k)
                assert told.total == pytest.approx(scores[i] - scores[k])
    terms = {t.name: t.contribution for t in scorer.explain_pair(X, 0, 1).contributions}
    assert (terms.get("a missing", 0.0), terms["c missing"]) == (0.0, 3.0)
    sizes = [abs(t.contribution) for t in scorer.explain_pair(X, 0, 2).contributions]
    assert sizes == sorted(sizes, reverse=True)
    for bad in (-1, 3):
        with pytest.raises(ParameterError, match=f"3 rows, and row {bad} "):
            scorer.explain(X, bad)


def test_explanations_add_up_where_a_list_is_read_as_a_whole():
    runs = np.array([[4.0, np.nan], [1.0, 5.0], [2.0, 7.0], [np.nan, 6.5]])
    fused = Scorer(LinearModel.from_weights([1.0, 2.0], transforms=(RunScores(),)))
    holes = np.array([[np.nan, 1.0], [3.0, np.nan], [2.0, 5.0], [4.0, 7.0]])
    lowest = (MissingValues("query_min"),)
    for scorer, X in (
        (fused, runs),
        (Scorer(LinearModel.from_weights([1.0, 10.0], transforms=lowest)), holes),
        (Scorer(LinearModel.from_weights([1.0, 10.0], transforms=(*lowest, ListRange()))), holes),
    ):
        scores = scorer.score(X)
        assert len(set(scores)) == 4
        for i in range(4):
            assert scorer.explain(X, i).total == pytest.approx(scores[i])
            assert scorer.explain_pair(X, i, 2).total == pytest.approx(scores[i] - scores[2])


@pytest.mark.parametrize("base", [0, 1])
def test_missing_values_without_names_are_told_by_their_index(base):
    missing = MissingValues("indicator", (0, 1, 2), (1.0, 0.0, -3.0))
    model = LinearModel.from_weights([1.0, 2.0, 4.0], transforms=(missing,), base=base)
    told = Scorer(model).explain(np.full((2, 3), np.nan), 1)
    found = {t.name: (t.index, t.contribution) for t in told.contributions if "missing" in t.name}
    assert found == {f"{base} missing": (0, 1.0), f"{base + 2} missing": (2, -3.0)}


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
    with pytest.raises(SchemaError, match="row 4 is nan"):
        scorer.score(X)


PLACES = LogColumns(numeric=("x", "y"), one_hot=(OneHot(column="shop", values=("a", "b")),))
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
        with pytest.raises(SchemaError, match="column 'x' of row 1 is "):
            scorer.score([{"x": 1.0, "y": 1.0, "z": 1.0}, {"x": value, "y": 1.0, "z": 1.0}])
    with pytest.raises(SchemaError, match="column 'x' of row 0 is "):
        scorer.score([{"x": np.complex64(1.0), "y": 1.0}])
    strict = Scorer(LinearModel.from_weights(TABLE, transforms=(BINS,)), strict=True)
    with pytest.raises(FeatureMismatchError, match=r"1 of 2 rows lack .* 'y'"):
        strict.score([{"x": 1.0, "z": 1.0}, {"x": 1.0, "y": 1.0, "z": 1.0}])
    with pytest.raises(FeatureMismatchError, match=r"2 of 3 rows lack .* 'x', 'y'"):
        strict.score([{"x": 1.0, "z": 1.0}, {"z": 1.0}, {"x": 1.0, "y": 1.0, "z": 1.0}])
    with pytest.raises(FeatureMismatchError, match="no column 'w'"):
        scorer.score([{"x": 1.0, "y": 1.0, "z": 1.0, "w": 0.0}])
    assert scorer.score([{"x": 1.0, "y": 1.0, "z": True}]).tolist() == [by_hand(1.0, 1.0, 1.0)]


def test_latency_is_the_fastest_of_some_measurements(monkeypatch):
    scored = []

    class Slow:
        def __init__(self, model):
            self.n = model.n_features

        def score(self, rows):
            assert rows.shape[1] == self.n
            scored.append(rows)
            clock[0] += durations[len(scored) - 1]

    clock = [50.0]
    monkeypatch.setattr("rankine.scoring.Scorer", Slow)
    monkeypatch.setattr(latency, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    X = np.arange(36.0).reshape(6, 6)
    for storage in (X, sparse.csr_matrix(X)):
        scored.clear()
        durations = [9.0, 1.0, 2.0, 1.0, 4.0, 1.0, 5.0, 1.0, 7.0, 7.0]
        data = Dataset.from_arrays(storage, np.zeros(6), [1, 1, 1, 1, 2, 2])
        found = latency.scoring_latency(np.array([0.0, 1, 0, 0, 2, 3]), data)
        assert found == pytest.approx(3.0 * 1000 / 6)
        assert len(scored) == 10
        first = scored[0] if isinstance(scored[0], np.ndarray) else scored[0].toarray()
        np.testing.assert_array_equal(first, X[:4, [1, 4, 5]])
    scored.clear()
    assert latency.scoring_latency(np.zeros(6), data) == pytest.approx(3.0 * 1000 / 6)
    assert scored[0].shape == (4, 1)
    scored.clear()
    durations = [1.0] * 600
    single = Dataset.from_arrays(np.ones((1, 1)), np.zeros(1))
    assert latency.scoring_latency(np.ones(1), single) == pytest.approx(1000.0)
    scored.clear()
    many = Dataset.from_arrays(np.ones((120, 1)), np.zeros(120), np.arange(120))
    assert latency.scoring_latency(np.ones(1), many) == pytest.approx(1000.0)
    assert len(scored) == 500


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("0.009ms", 0.009), ("9us", 0.009), (" 2 s ", 2000.0), (".5", 0.5), ("3.", 3.0)],
)
def test_latencies_are_read(text, milliseconds):
    assert latency.parse_latency(text) == pytest.approx(milliseconds)
    for bad in ("0", "0.0ms", "-1ms", "soon", "1 min", ""):
        with pytest.raises(ParameterError, match="cannot read the latency"):
            latency.parse_latency(bad)


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
