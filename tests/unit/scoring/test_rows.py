"""Rows in every form: dictionaries, columns, data frames and compressed arrays."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from rankine.core.errors import (
    FeatureMismatchError,
    ParameterError,
    SchemaError,
)
from rankine.core.specs import (
    LogColumns,
    OneHot,
)
from rankine.data import Dataset
from rankine.model import LinearModel
from rankine.scoring import InputIssues, Scorer
from rankine.scoring.rows import csr_parts, uniform_rows
from rankine.transforms.apply import score_dataset

pytestmark = pytest.mark.kernels

NAMES = ["bm25", "age", "spam", "clicks"]


WEIGHTS = [0.5, 0.0, -2.0, 0.25]


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


def test_named_scores_do_not_depend_on_the_order_of_keys():
    model = LinearModel.from_weights([1e16, 1.0, -1e16], ["a", "b", "c"])
    rows = [{"a": 1.0, "b": 1.0, "c": 1.0}, {"c": 1.0, "a": 1.0, "b": 1.0}]
    assert Scorer(model).score(rows).tolist() == [1.0, 1.0]


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
        with pytest.raises(FeatureMismatchError):
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
    with pytest.raises(SchemaError):
        scorer.score({"clicks": [1.0], "bm25": [1.0, 2.0]})


def test_no_columns_are_no_rows_and_what_is_no_table_is_refused():
    import pandas as pd

    scorer = Scorer(LinearModel.from_weights(WEIGHTS, NAMES))
    assert scorer.score({}).tolist() == []
    assert scorer.score({"bm25": []}).tolist() == []
    for rows in (pd.Series([1.0]), SimpleNamespace(columns=["bm25"]), 1.0, {1.0}):
        with pytest.raises(FeatureMismatchError):
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
        with pytest.raises(SchemaError):
            scorer.score(rows)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, with the JIT off
def test_a_score_that_is_not_finite_names_row_and_feature():
    scorer = Scorer(LinearModel.from_weights(WEIGHTS, NAMES))
    X = np.ones((3, 4))
    X[2, 1] = np.nan
    with pytest.raises(SchemaError, match="row 2: the score is nan: feature 'age' is nan"):
        scorer.score(X)
    huge = Scorer(LinearModel.from_weights([1e300, 1e300]))
    assert huge.score(np.ones((1, 2))).tolist() == [2e300]
    with pytest.raises(SchemaError, match="row 0: the score is inf"):
        huge.score(np.full((1, 2), 1e300))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, with the JIT off
@pytest.mark.parametrize("base", [0, 1])
def test_the_feature_that_is_not_finite_is_told_by_its_index_and_only_in_its_row(base):
    scorer = Scorer(LinearModel.from_weights([1e300, 1e300, 1.0], base=base))
    X = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, np.inf], [1.0, 0.0, np.nan]])
    huge = np.array([[1.0, 2.0, 3.0], [1e300, 1e300, 1.0], [np.nan, 1.0, 1.0]])
    for storage in (np.asarray, sparse.csr_array):
        with pytest.raises(
            SchemaError, match=f"row 1: the score is inf: feature '{2 + base}' is inf"
        ):
            scorer.score(storage(X))
        with pytest.raises(SchemaError, match=r"row 1: the score is inf(?!: feature)"):
            scorer.score(storage(huge))


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
    with pytest.raises(SchemaError, match="row 1: not a dictionary"):
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


@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_names_decide_which_column_is_which(storage):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6, 5))
    names = [*NAMES[::-1], "other"]
    data = Dataset.from_arrays(storage(X), np.zeros(6), feature_names=names)
    expected = X[:, :4] @ WEIGHTS[::-1]
    found = score_dataset(LinearModel.from_weights(WEIGHTS, NAMES), data)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
