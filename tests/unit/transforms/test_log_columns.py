"""Raw columns as features: numbers, one-hot values, hashed values, crosses."""

from __future__ import annotations

import hashlib
import pickle

import msgspec
import numpy as np
import pytest
from scipy import sparse

from error_checks import raises_at
from rankine.core.errors import ParameterError, SchemaError
from rankine.core.specs import Binned, LogColumns, OneHot, decode_transforms, encode_transforms
from rankine.data.dataset import CodedText, NamedColumns
from rankine.logs.schema import LogSchema
from rankine.transforms.categories import (
    HashedFeatures,
    OneHotFeatures,
    category_texts,
    feature_indices,
    first_rows,
    texts_in_order,
)
from rankine.transforms.log_columns import LogEncoder, numeric_values

COLUMNS = {
    "price": [3.0, 0.0, None],
    "brand": ["acme", "", "zed"],
    "size": [9, 10, 9],
    "colour": ["red", "blue", "green"],
    "new": [True, False, None],
}


def log_spec(one_hot=(), ignored=(), **fields):
    """The spec of a schema whose one-hot values are known."""
    names = [field.column for field in one_hot]
    schema = LogSchema.make({"query": "session", "one_hot": names, **fields})
    return schema.spec(one_hot, None, ignored)


def dense(spec, columns=COLUMNS, n_rows=3):
    rows = LogEncoder(spec).encode(columns, n_rows)
    shape = (n_rows, spec.n_features)
    return sparse.csr_matrix((rows.values, rows.indices, rows.indptr), shape=shape).toarray()


def place(spec, *parts):
    digest = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).digest()
    return spec.hash_start + int.from_bytes(digest, "little") % 2**spec.hash_bits


@pytest.mark.kernels
def test_features_are_laid_out_in_the_documented_order():
    spec = log_spec(
        numeric=["price"],
        one_hot=[OneHot("colour", ("red", "blue"))],
        categorical=["brand", "size"],
        crosses=["brand*size"],
        hash_bits=10,
    )
    assert spec.n_features == 1 + 2 + 1024
    X = dense(spec)
    np.testing.assert_array_equal(X[:, 0], [3, 0, 0])
    np.testing.assert_array_equal(X[:, 1:3], [[1, 0], [0, 1], [0, 0]])
    assert X[0, place(spec, "brand", "acme")] == 1
    assert X[0, place(spec, "size", "9")] == 1
    assert X[0, _cross(spec)] == 1
    assert X[1].sum() == 2  # blue, size 10; no brand, so no cross
    assert X[2].sum() == 3


def _cross(spec):
    return place(spec, "brand", "size", "acme", "9")


@pytest.mark.kernels
def test_rows_are_sorted_and_collisions_add_up():
    names = [f"c{k}" for k in range(12)]
    spec = log_spec(categorical=names, hash_bits=3)
    rng = np.random.default_rng(0)
    columns = {name: [str(v) for v in rng.integers(0, 9, 50)] for name in names}
    rows = LogEncoder(spec).encode(columns, 50)
    assert rows.values.max() > 1
    for i in range(50):
        mine = rows.indices[rows.indptr[i] : rows.indptr[i + 1]]
        assert (np.diff(mine) > 0).all()
        assert rows.values[rows.indptr[i] : rows.indptr[i + 1]].sum() == 12


def test_categories_are_converted_to_text():
    spec = log_spec(categorical=["new", "size"], hash_bits=16)
    X = dense(spec)
    assert X[0, place(spec, "new", "true")] == 1
    assert X[1, place(spec, "new", "false")] == 1
    same = dense(spec, {"new": np.array([True, False, True]), "size": np.array([9.0, 10.0, 9.0])})
    np.testing.assert_array_equal(X[:2], same[:2])
    with raises_at(SchemaError, column="size"):
        dense(spec, {"size": [1.5, 2, 3]})


def test_bad_numbers_are_refused():
    spec = log_spec(numeric=["price"])
    with raises_at(SchemaError, column="price"):
        dense(spec, {"price": ["cheap", 1, 2]})
    with raises_at(SchemaError, column="price"):
        dense(spec, {"price": [0.0, np.inf, 2]})
    with raises_at(SchemaError, column="age") as caught:
        dense(log_spec(numeric=["price", "age"]), {"price": [1, 2, 3], "age": [1, 2, -np.inf]})
    assert caught.value.column == "age"
    with pytest.raises(SchemaError, match="'price' is not a list"):
        dense(spec, {"price": np.ones((3, 2))})
    with pytest.raises(SchemaError, match="'price' is not a list of numbers"):
        numeric_values(np.ones((0, 2)), "price")


def test_required_columns_are_those_of_the_weights():
    spec = log_spec(
        numeric=["price", "age"],
        one_hot=[OneHot("colour", ("red", "blue"))],
        categorical=["brand"],
        crosses=["brand*size"],
        ignored=["session"],
    )

    def required(*indices):
        return LogEncoder(spec, np.array(indices, dtype=np.int64)).required

    assert required(1) == ("age",)
    assert required(0, 3) == ("price", "colour")
    assert required(1000) == ("brand", "size")
    assert [required(j) for j in (0, 2, 4)] == [("price",), ("colour",), ("brand", "size")]
    assert LogEncoder(spec).known == {
        "price",
        "age",
        "colour",
        "brand",
        "size",
        "session",
    }


def test_specs_are_encoded_and_decoded():
    spec = log_spec(
        numeric=["price"], one_hot=[OneHot("c", ("x",))], categorical=["b"], crosses=["b*c"]
    )
    assert decode_transforms(
        msgspec.json.decode(msgspec.json.encode(encode_transforms([spec])))
    ) == (spec,)


@pytest.mark.parametrize(
    "options",
    [
        {"categorical": ["a"], "hash_bits": 27},
        {"categorical": ["a"], "hash_bits": 0},
        {"categorical": ["a"], "numeric": ["a"]},
        {"crosses": ["a"]},
        {"crosses": ["a*a"]},
        {},
    ],
)
def test_bad_specs_are_refused(options):
    with pytest.raises(ParameterError):
        log_spec(**options)


def test_a_bad_spec_in_a_file_is_refused():
    with pytest.raises(msgspec.ValidationError):
        decode_transforms([{"type": "log_columns", "hashed": ["a"], "hash_bits": 60}])
    with pytest.raises(msgspec.ValidationError):
        decode_transforms([{"type": "log_columns", "surprise": 1}])


def test_hashed_features_are_named_by_column_and_value():
    spec = log_spec(
        [OneHot("colour", ("red",))],
        categorical=["absent", "brand"],
        crosses=["brand*size"],
        hash_bits=20,
    )
    encoder = LogEncoder(spec)
    names = encoder.hashed_names()
    names.add(COLUMNS, {place(spec, "brand", "acme"), _cross(spec)})
    assert names.get(place(spec, "brand", "acme")) == "brand=acme"
    assert names.get(_cross(spec)) == "brand=acme x size=9"
    assert (names.get(5), names.get(place(spec, "brand", "zed"))) == (None, None)
    names.add(COLUMNS)
    assert names.get(place(spec, "brand", "zed")) == "brand=zed"


def test_the_cache_of_hashed_values_is_bounded(monkeypatch):
    from rankine.transforms import categories

    monkeypatch.setattr(categories, "MAX_CACHED", 10)
    places = categories.HashedFeatures(["a"], 20, 0)
    first, sizes = zip(*((places[str(k)], len(places)) for k in range(100)), strict=True)
    assert max(sizes) == 10
    assert "99" in places
    assert list(first) == [categories.HashedFeatures(["a"], 20, 0)[str(k)] for k in range(100)]


def test_rows_may_be_empty_and_tables_have_a_column_each():
    assert dense(log_spec(numeric=["price"]), {}, 2).tolist() == [[0.0], [0.0]]
    spec = LogColumns(("price", "age"), (OneHot("colour", ("red", "blue")),), tables=True)
    found = LogEncoder(spec).matrix({"age": [1, None, 3, 4], "colour": ["blue", "", "red", "x"]}, 4)
    nan = np.nan
    np.testing.assert_array_equal(
        found, [[nan, 1, 1], [nan, nan, nan], [nan, 3, 0], [nan, 4, np.inf]]
    )
    np.testing.assert_array_equal(LogEncoder(spec).matrix({"price": [7]}, 1), [[7, nan, nan]])


def test_feature_indices_of_missing_and_unknown_values_are_minus_one():
    places = HashedFeatures(["a"], 4, 100)
    assert [places[value] for value in (None, "", ("x", None), ("x", ""))] == [-1] * 4
    assert places["7"] == places[7] >= 100
    travelled = pickle.loads(pickle.dumps(places))  # noqa: S301
    assert len(travelled) == 0
    assert travelled["7"] == places["7"]
    known = OneHotFeatures(("red", "9"), 5)
    assert [known[value] for value in ("red", "9", 9, "x", 8, None)] == [5, 6, 6, -1, -1, -1]


def test_values_of_categories_as_text():
    given = ["x", np.str_("y"), 3, np.int32(4), 5.0, np.float32(6), True, np.False_, None, np.nan]
    expected = ["x", "y", "3", "4", "5", "6", "true", "false", "", ""]
    assert category_texts(given, "c") == expected
    assert category_texts(np.array(["a", "b"]), "c") == ["a", "b"]
    with raises_at(SchemaError, column="c") as caught:
        category_texts([1.0, 2.5], "c")
    assert caught.value.column == "c"
    with raises_at(SchemaError, column="c"):
        category_texts([np.inf], "c")


def test_binned_columns_have_a_cell_for_every_range_and_one_for_missing_values():
    schema = LogSchema(query="session", binned=("price",), categorical=("brand",), hash_bits=4)
    spec = schema.spec(binned=[Binned("price", (1.0, 2.5))])
    prices = [0.5, 1.0, 2.4, 2.5, 99.0, None, float("nan")]
    X = dense(spec, {"price": prices}, len(prices))
    np.testing.assert_array_equal(X[:, :4].argmax(axis=1), [0, 1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(X.sum(axis=1), 1)
    assert spec.names == ("price < 1", "1 <= price < 2.5", "price >= 2.5", "price missing")
    assert (dense(spec, {}, 2)[:, 3] == 1).all()
    for cell in range(4):
        assert LogEncoder(spec, np.array([cell])).required == ("price",)
    assert LogEncoder(spec, np.array([4])).required == ("brand",)
    assert decode_transforms(encode_transforms([spec])) == (spec,)


def test_coded_text_gives_the_features_and_names_of_plain_text(monkeypatch):
    rng = np.random.default_rng(5)
    texts = {
        "brand": ["acme", "", "zed", "never used", "acme"],
        "kind": ["hat", "shoe", ""],
        "colour": ["red", "blue", "green", "unknown"],
    }
    codes = {name: rng.integers(0, 3, 50).astype(np.int32) for name in texts}
    coded = NamedColumns({name: CodedText(codes[name], known) for name, known in texts.items()})
    plain = {name: [texts[name][k] for k in codes[name]] for name in texts}
    spec = log_spec(
        [OneHot("colour", ("red", "green"))],
        categorical=["brand", "kind"],
        crosses=["brand*kind", "brand*kind*colour"],
        hash_bits=5,  # so few places that values share them
    )
    for columns in (coded, NamedColumns({**coded, "kind": coded.coded("kind")})):
        assert (dense(spec, columns, 50) == dense(spec, plain, 50)).all()
        names = [LogEncoder(spec).hashed_names() for _ in range(2)]
        names[0].add(columns)
        names[1].add(plain)
        features = range(spec.hash_start, spec.n_features)
        assert [names[0].get(j) for j in features] == [names[1].get(j) for j in features]
        assert not any("never used" in (names[0].get(j) or "") for j in features)
    looked_up = []
    monkeypatch.setattr(
        "rankine.transforms.log_columns.feature_indices",
        lambda places, values: looked_up.append(len(values)) or feature_indices(places, values),
    )
    encoder = LogEncoder(log_spec(categorical=["brand", "kind"]))
    for _ in range(3):
        encoder.encode(coded, 50)
    assert looked_up == [5, 3], "a dictionary that comes again is not looked up again"
    assert first_rows(np.array([2, 0, 2]), 4).tolist() == [1, -1, 0, -1]
    for name in texts:
        assert texts_in_order(coded, name) == list(dict.fromkeys(plain[name]))


def test_hashed_columns_follow_binned_ones():
    schema = LogSchema(query="session", binned=("price",), categorical=("brand",), hash_bits=4)
    spec = schema.spec(binned=[Binned("price", (1.0, 2.5))])
    X = dense(spec, {"price": [0.5, 9.0], "brand": ["acme", "zed"]}, 2)
    for row, (cell, brand) in enumerate(((0, "acme"), (2, "zed"))):
        assert set(np.flatnonzero(X[row])) == {cell, place(spec, "brand", brand)}


@pytest.mark.parametrize("columns", [("brand",), ("item", "size")])
def test_texts_that_are_hashed_together_have_the_same_features(columns):
    texts = ["acme", "", "bête", "\ud800", "acme", "7", 7, None]
    together, alone = (HashedFeatures(columns, 20, 5) for _ in range(2))
    together.add_texts(texts)
    assert len(together) == 4
    assert feature_indices(together, texts).tolist() == feature_indices(alone, texts).tolist()
    before = dict(together)
    together.add_texts([*texts, "new"])
    assert dict(together) == {**before, "new": alone["new"]}
