"""Every way a table can be wrong gives a typed error that names file, row and column."""

from __future__ import annotations

import pickle
from itertools import product
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import rankine
from error_checks import raises_at, raises_for
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    FileKindError,
    LimitError,
    QueryOrderError,
    SchemaError,
)
from rankine.data.dataset import TEXT, NamedColumns, concat
from rankine.data.options import ReadOptions
from rankine.data.readers import columns
from rankine.data.readers import columns as reader
from rankine.data.readers.values import BatchLocation, RowFaults

F32 = np.float32


def table(**changes):
    """Six rows of two queries, with columns replaced, added or (None) removed."""
    held = {
        "label": pa.array([2.0, 0, 1, 0, 1, 0]),
        "qid": pa.array([1, 1, 1, 2, 2, 2]),
        "a": pa.array(np.arange(6, dtype=F32)),
        "b": pa.array(np.arange(6, dtype=F32)),
    }
    held.update(changes)
    return pa.table({name: array for name, array in held.items() if array is not None})


def sparse_table(indices=None, values=None, **changes):
    indices = [[1, 3], [2], [], [1], [4], [2, 4]] if indices is None else indices
    values = [[1.0, 2.0], [3.0], [], [4.0], [5.0], [6.0, 7.0]] if values is None else values
    if isinstance(indices, list):
        indices = pa.array(indices, type=pa.list_(pa.int32()))
    if isinstance(values, list):
        values = pa.array(values, type=pa.list_(pa.float32()))
    return table(a=None, b=None, indices=indices, values=values, **changes)


@pytest.fixture(params=["parquet", "arrow", "arrows"])
def put(request, tmp_path):
    """Write a table in small pieces and return its path."""

    def write(content, size=4):
        path = tmp_path / f"data.{request.param}"
        if request.param == "parquet":
            pq.write_table(content, path, row_group_size=size)
        else:
            start = pa.ipc.new_file if request.param == "arrow" else pa.ipc.new_stream
            with start(path, content.schema) as writer:
                writer.write_table(content, max_chunksize=size)
        return str(path)

    return write


def assert_refused(path, kind, line=None, column=None, match=None, **options):
    with pytest.raises(kind, match=match) as caught:
        rankine.load(path, **options)
    error = caught.value
    assert type(error) is kind
    assert error.file == path
    assert error.fix
    if line is not None:
        assert error.line == line
    if column is not None:
        assert error.column == column
    return error


NULLS = {
    "label": pa.array([1.0, 0, 1, 0, None, 0]),
    "qid": pa.array([1, 1, 1, 2, None, 2]),
    "a": pa.array([0, 1, 2, 3, None, 5], pa.float32()),
    "weight": pa.array([1.0, 1, 1, 1, None, 1]),
    "position": pa.array([1, 2, 3, 1, None, 3]),
    "docid": pa.array(["u", "v", "w", "x", None, "z"]),
}


@pytest.mark.parametrize("column", [name for name in NULLS if name != "a"])
def test_a_null_is_named_with_row_and_column(put, column):
    path = put(table(**{column: NULLS[column]}))
    error = assert_refused(path, SchemaError, line=5, column=column, match="null")
    assert "row 1 of it" in error.reason


def test_the_part_of_a_file_is_named(put):
    path = put(table(a=np.array([1, 1, 1, 1, 1, np.inf], dtype=F32)))
    part = "row group 1" if path.endswith(".parquet") else "record batch 1"
    error = assert_refused(path, SchemaError, line=6, column="a")
    assert f"({part}, row 2 of it)" in error.reason
    assert rankine.load(put(table())).read_counts == {}


def test_a_part_begins_with_its_first_row():
    for place, where in (
        (BatchLocation("f"), ""),
        (BatchLocation("f", 7, "p"), " (p, row 3 of it)"),
    ):
        error = place.error(2, "c", "wrong", "mend it")
        assert (error.reason, error.line) == (f"wrong{where}", place.first_row + 3)


def test_nulls_of_features_are_missing_values(put):
    data = rankine.load(put(table(a=NULLS["a"])))
    np.testing.assert_array_equal(data.X[:, 0], [0, 1, 2, 3, np.nan, 5])
    assert data.read_counts["missing_values"] == 1


@pytest.mark.parametrize(
    ("column", "value"),
    [(c, v) for c in ("label", "a", "weight") for v in (np.inf, -np.inf)]
    + [("label", np.nan), ("weight", np.nan)],
)
def test_values_that_are_not_finite(put, column, value):
    wrong = np.array([1, 1, 1, 1, 1, value], dtype=F32)
    assert_refused(put(table(**{column: wrong})), SchemaError, line=6, column=column)


def test_nan_is_a_missing_value_and_infinity_is_not(put):
    data = rankine.load(put(table(a=np.array([np.nan] * 6, F32))))
    assert np.isnan(data.X[:, 0]).all()
    assert data.read_counts["missing_values"] == 6
    assert_refused(put(table(a=np.array([np.inf] * 6, F32))), SchemaError, line=1)


def test_bad_rows_are_skipped_and_counted_when_asked(put):
    path = put(
        table(
            label=pa.array([1.0, None, 1, 0, 1, 0]),
            a=pa.array([0, 1, np.inf, 3, 4, 5], pa.float32()),
            qid=pa.array([1, 1, 1, 2, 2, None]),
        )
    )
    data = rankine.load(path, on_bad_row="skip")
    assert data.X[:, 0].tolist() == [0, 3, 4]
    assert data.read_counts["skipped_rows"] == 3
    for rows in (1, 3, 100):
        blocks = list(rankine.scan(path, on_bad_row="skip", block_rows=rows).raw_blocks())
        assert [line for block in blocks for line in block.lines] == [1, 4, 5]
        good = rankine.scan(path, features=["b"], label="b", query=None)
        lines = [line for block in good.raw_blocks(rows) for line in block.lines]
        assert lines == [1, 2, 3, 4, 5, 6]


def test_missing_columns_are_listed(put):
    error = assert_refused(put(table()), SchemaError, column="clicks", label="clicks")
    assert error.reason.endswith("the file holds 'label', 'qid', 'a', 'b'")
    assert error.parameter == "label"
    assert "formula as its label" in assert_refused(put(table()), SchemaError, label="a+b").fix
    assert "A formula" not in assert_refused(put(table()), SchemaError, query="a+b").fix
    error = assert_refused(put(table()), SchemaError, label="labe", columns=["a"])
    assert error.fix.startswith("Did you mean 'label'? Name the right")
    error = assert_refused(put(table()), SchemaError, columns=["qidd"])
    assert error.fix == "Did you mean 'qid'? Add it to the file, or name another column"
    wide = {f"f{k:02}": np.zeros(6) for k in range(10)}
    error = assert_refused(put(table(**wide, a=None, b=None)), SchemaError, label="zz")
    assert error.reason.endswith("'f09'")
    error = assert_refused(put(table(**wide, b=None)), SchemaError, label="zz")
    assert error.reason.endswith(" and 1 more")
    assert_refused(put(table()), SchemaError, column="session", query="session")
    assert_refused(put(table()), SchemaError, column="id", docid="id")
    assert_refused(put(table()), SchemaError, column="brand", columns=["brand"])
    assert_refused(put(table()), SchemaError, column="c", features=["a", "c"])


def test_columns_by_other_names(put):
    renamed = table().rename_columns(["clicked", "session", "price", "age"])
    data = rankine.load(put(renamed), label="clicked", query="session", features=["age", "price"])
    assert data.feature_names == ("age", "price")
    assert data.y.tolist() == [2, 0, 1, 0, 1, 0]


def test_no_labels_and_no_queries(put):
    data = rankine.load(put(table(label=None, qid=None)), label=None, query=None)
    assert data.y.tolist() == [0] * 6
    assert data.n_queries == 1
    assert data.n_features == 2


def test_group_sizes_stand_in_for_query_ids(put):
    data = rankine.load(put(table(qid=None, weight=np.arange(6.0))), group=[2, 4])
    assert data.queries.sizes.tolist() == [2, 4]
    assert data.y.tolist() == [2, 0, 1, 0, 1, 0]
    assert data.weight.tolist() == list(range(6))
    assert rankine.load(put(table()), group=[6]).n_features == 2
    with pytest.raises(SchemaError) as caught:
        rankine.load(put(table(qid=None)), group=[2, 3])
    assert caught.value.parameter == "group"


WRONG_FEATURES = {
    "text": pa.array(list("uvwxyz")),
    "dictionary": pa.array(list("uvwxyz")).dictionary_encode(),
    "decimal": pa.array([1, 2, 3, 4, 5, 6], pa.decimal128(10, 2)),
    "time": pa.array([1, 2, 3, 4, 5, 6], pa.timestamp("s")),
    "binary": pa.array([b"u"] * 6),
    "list": pa.array([[1.0]] * 6),
    "struct": pa.array([{"x": 1}] * 6),
    "null": pa.nulls(6),
}


@pytest.mark.parametrize("kind", list(WRONG_FEATURES))
def test_features_of_a_wrong_type(put, kind):
    error = assert_refused(put(table(c=WRONG_FEATURES[kind])), SchemaError, column="c")
    assert "Set features to" in error.fix
    assert ("add this one to columns" in error.fix) == (kind in ("text", "dictionary"))
    assert rankine.load(put(table(c=WRONG_FEATURES[kind])), features=["a", "b"]).n_features == 2


@pytest.mark.parametrize("role", ["label", "weight"])
@pytest.mark.parametrize("kind", ["text", "decimal", "list", "time"])
def test_numbers_of_a_wrong_type(put, role, kind):
    assert_refused(put(table(**{role: WRONG_FEATURES[kind]})), SchemaError, column=role)


@pytest.mark.parametrize("role", ["qid", "docid"])
@pytest.mark.parametrize("kind", ["decimal", "list", "time", "binary", "null"])
def test_ids_of_a_wrong_type(put, role, kind):
    assert_refused(put(table(**{role: WRONG_FEATURES[kind]})), SchemaError, column=role)


def test_float_query_ids_are_refused(put):
    assert_refused(put(table(qid=pa.array([1.0] * 6))), SchemaError, column="qid", match="double")


def test_extension_types_are_refused(tmp_path):
    path = str(tmp_path / "data.parquet")
    pq.write_table(table(c=pa.array([b"0" * 16] * 6, pa.uuid())), path)
    assert_refused(path, SchemaError, column="c")
    assert_refused(path, SchemaError, column="c", features=["a"], columns=["c"])
    assert_refused(path, SchemaError, column="c", features=["a"], query="c")


#: Before version 21 pyarrow could not write views of strings to Parquet.
STRINGS = [pa.string(), pa.large_string()]
STRINGS += [pa.string_view()] if int(pa.__version__.partition(".")[0]) >= 21 else []


@pytest.mark.parametrize(
    "qid",
    [pa.array(["a", "a", "a", "b", "b", "b"], kind) for kind in STRINGS]
    + [pa.array(["a", "a", "a", "b", "b", "b"]).dictionary_encode()],
)
def test_string_query_ids(put, qid):
    data = rankine.load(put(table(qid=qid)))
    assert data.qid.tolist() == ["a", "a", "a", "b", "b", "b"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.uint64()])
def test_integer_query_ids(put, kind):
    data = rankine.load(put(table(qid=pa.array([1, 1, 1, 2, 2, 2], kind))))
    assert data.qid.dtype == np.int64
    assert data.qid.tolist() == [1, 1, 1, 2, 2, 2]
    text = rankine.load(put(table(qid=pa.array([1, 1, 1, 2, 2, 2], kind))), qid_type="str")
    assert text.qid.tolist() == ["1", "1", "1", "2", "2", "2"]


def test_query_ids_at_the_edges(put):
    edge = [-(2**63), -(2**63), 2**63 - 1, 2**63 - 1, 0, 0]
    assert rankine.load(put(table(qid=pa.array(edge)))).qid.tolist() == edge
    beyond = pa.array([0, 0, 0, 0, 0, 2**63], pa.uint64())
    assert_refused(put(table(qid=beyond)), SchemaError, line=6, column="qid", match="2\\^63")
    after = pa.array([0, 0, 0, 0, 2**63 - 1, 2**63], pa.uint64())
    assert_refused(put(table(qid=after)), SchemaError, line=6, column="qid", match="2\\^63")


def test_unsigned_ids_fit_up_to_the_edge(put):
    edge = [2**63 - 1] * 6
    assert rankine.load(put(table(qid=pa.array(edge, pa.uint64())))).qid.tolist() == edge


@pytest.mark.parametrize("texts", [["x"], ["x", "y"]])
def test_rows_without_an_id_are_skipped_when_asked(put, texts):
    codes = [0, None, 0, len(texts) - 1, 0, 0]
    docid = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts))
    numbers = pa.array([1, 2, 3, 4, 5, None], pa.uint64())
    path = put(table(docid=docid, qid=numbers))
    data = rankine.load(path, on_bad_row="skip")
    assert data.docid.tolist() == [texts[codes[k]] for k in (0, 2, 3, 4)]
    assert data.qid.tolist() == [1, 3, 4, 5]
    assert data.read_counts == {"skipped_rows": 2}


def test_a_dictionary_of_nothing_is_all_null(put):
    nothing = pa.DictionaryArray.from_arrays(pa.array([None] * 6, pa.int32()), pa.array([], "str"))
    assert_refused(put(table(docid=nothing)), SchemaError, line=1, column="docid", match="null")
    with pytest.raises(EmptyDataError):
        rankine.load(put(table(docid=nothing)), on_bad_row="skip")


def test_a_null_in_a_dictionary_is_a_null(tmp_path):
    path = str(tmp_path / "data.arrow")
    docid = pa.array(["x", None, "y", "x", "y", "x"]).dictionary_encode("encode")
    content = table(docid=docid)
    with pa.ipc.new_file(path, content.schema) as writer:
        writer.write_table(content)
    assert_refused(path, SchemaError, line=2, column="docid", match="null")


def test_dictionary_encoded_integers(put):
    qid = pa.array([7, 7, 7, -1, -1, -1]).dictionary_encode()
    assert rankine.load(put(table(qid=qid))).qid.tolist() == [7, 7, 7, -1, -1, -1]


def test_integers_that_a_float_cannot_hold(put):
    exact = pa.array([2**53, 1, 1, 1, 1, -(2**53)])
    assert rankine.load(put(table(a=exact))).X[0, 0] == 2**53
    for value in (2**53 + 1, -(2**53) - 1, 2**63 - 1):
        bad = pa.array([0, 0, 0, value, 0, 0])
        assert_refused(put(table(a=bad)), SchemaError, line=4, column="a", match="digits")
        assert_refused(put(table(label=bad)), SchemaError, line=4, column="label", match="digits")
    assert_refused(put(table(a=pa.array([2**24 + 1] * 6))), SchemaError, line=1, dtype="float32")
    for value, good in ((2**53, True), (2**53 + 1, False), (2**64 - 1, False)):
        unsigned = put(table(a=pa.array([0, 1, 2, value, 0, 0], pa.uint64())))
        if good:
            assert rankine.load(unsigned).X[:4, 0].tolist() == [0, 1, 2, value]
        else:
            assert_refused(unsigned, SchemaError, line=4, column="a", match="digits")


def test_floats_too_large_for_float32(put):
    wide = put(table(a=pa.array([1.0, 1, 1, 1, 1e39, 1])))
    assert rankine.load(wide).X[4, 0] == 1e39
    assert_refused(wide, SchemaError, line=5, column="a", match="too large", dtype="float32")


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((pa.float32(), pa.float32()), np.float32),
        ((pa.float16(), pa.float32()), np.float32),
        ((pa.float32(), pa.float64()), np.float64),
        ((pa.int8(), pa.int8()), np.float64),
        ((pa.bool_(), pa.float32()), np.float64),
    ],
)
def test_stored_types_decide_the_matrix(put, kinds, expected):
    stored = {name: pa.array([1, 0] * 3).cast(kind) for name, kind in zip("ab", kinds, strict=True)}
    data = rankine.load(put(table(**stored)))
    assert data.X.dtype == expected
    assert data.X[:, 0].tolist() == [1, 0] * 3
    assert rankine.load(put(table(**stored)), dtype="float64").X.dtype == np.float64
    assert rankine.load(put(table(**stored)), dtype="float32").X.dtype == np.float32


def test_negative_weights_and_low_positions(put):
    assert_refused(put(table(weight=[1.0, 1, 1, 1, 1, -1])), SchemaError, line=6, column="weight")
    for beyond in (2e75, 5e-76):
        given = put(table(weight=[1.0, 0, 1e75, 1e-75, beyond, 1]))
        told = assert_refused(given, SchemaError, line=5, column="weight")
        assert f"weight {beyond:g} is not between" in str(told)
    assert_refused(put(table(position=[1, 2, 3, 0, 1, 2])), SchemaError, line=4, column="position")
    assert_refused(put(table(position=pa.array([1.0] * 6))), SchemaError, column="position")
    assert rankine.load(put(table(weight=[0.0] * 6))).weight.tolist() == [0] * 6
    bad = table(position=[1, 0, 3, 1, 1, 2], label=pa.array([1.0, None, 1, 1, None, 1]))
    data = rankine.load(put(bad), on_bad_row="skip")
    assert data.position.tolist() == [1, 3, 1, 2]
    assert data.read_counts == {"skipped_rows": 2}
    worse = table(position=[1, 0, 3, 1, 1, 2], label=pa.array([None, 1.0, 1, 1, 1, 1]))
    assert rankine.load(put(worse), on_bad_row="skip").read_counts == {"skipped_rows": 2}


def test_further_columns_of_every_kind(put):
    extra = {
        "brand": pa.array(["x", "y"] * 3).dictionary_encode(),
        "price": pa.array([1.5] * 6, pa.float32()),
        "n": pa.array([1] * 6, pa.int16()),
        "new": pa.array([True, False] * 3),
        "day": pa.array([0, 1] * 3, pa.date32()),
        "at": pa.array([0, 1] * 3, pa.timestamp("us")),
    }
    data = rankine.load(put(table(**extra)), columns=list(extra), features=["a"])
    assert data.columns["brand"].tolist() == ["x", "y"] * 3
    assert data.columns["price"].dtype == np.float32
    assert data.columns["n"].tolist() == [1] * 6
    assert data.columns["new"].tolist() == [True, False] * 3
    assert data.columns["at"].dtype.kind == "M"
    assert data.columns["day"].dtype.kind == "M"


FURTHER = {
    "price": [1.5, 2.5, 1.5, 2.5, 1.5, 2.5],
    "count": [1, 2, 1, 2, 1, 2],
    "new": [True, False] * 3,
    "at": np.array(["2026-01-01", "2026-01-02"] * 3, dtype="datetime64[s]"),
}


@pytest.mark.parametrize("name", list(FURTHER))
@pytest.mark.parametrize("nulls", [False, True])
def test_dictionaries_of_what_is_no_text(tmp_path, name, nulls):
    values = pa.array(FURTHER[name])
    texts, codes = values[:2], pa.array([0, 1, 0, 1, 0, None if nulls else 1], pa.int32())
    content = table(c=pa.DictionaryArray.from_arrays(codes, texts))
    path = str(tmp_path / "data.arrow")
    with pa.ipc.new_file(path, content.schema) as writer:
        writer.write_table(content)
    options = {"features": ["a"], "columns": ["c"]}
    data = rankine.load(path, **options)
    assert data.columns["c"][:5].tolist() == values.to_numpy(zero_copy_only=False)[:5].tolist()
    assert data.read_counts == ({"missing_values": 1} if nulls else {})
    last = data.columns["c"][5]
    if nulls:
        assert last is None if name == "new" else last != last  # noqa: PLR0124 - NaN, NaT


def test_further_numbers_may_be_missing_but_not_infinite(put):
    options = {"features": ["a"], "columns": ["c"]}
    for values, kind in (([1, None, 3, 4, 5, 6], pa.int64()), ([1, np.nan] * 3, pa.float32()),
                         ([1, None, np.nan] * 2, pa.float64())):  # fmt: skip
        data = rankine.load(put(table(c=pa.array(values, kind))), **options)
        expected = [np.nan if value is None else value for value in values]
        np.testing.assert_array_equal(data.columns["c"], expected)
        assert data.read_counts == {"missing_values": int(np.isnan(expected).sum())}
    for values in (
        [1, 2, 3, 4, np.inf, 6],
        [1, 2, None, 4, np.inf, 6],
        [1, 2, np.nan, 4, np.inf, 6],
    ):
        wrong = put(table(c=pa.array(values, pa.float64())))
        assert_refused(wrong, SchemaError, line=5, column="c", match="inf", **options)
    large = put(table(c=pa.array([1, None, 2**53 + 1, 1, 1, 1])))
    assert_refused(large, SchemaError, line=3, column="c", match="digits", **options)
    times = put(table(c=pa.array([1, 2, 3, None, 5, 6], pa.timestamp("s"))))
    data = rankine.load(times, **options)
    assert np.isnat(data.columns["c"]).tolist() == [False, False, False, True, False, False]
    assert data.read_counts == {"missing_values": 1}


@pytest.mark.parametrize("kind", ["decimal", "list", "struct", "binary"])
def test_further_columns_of_a_wrong_type(put, kind):
    path = put(table(c=WRONG_FEATURES[kind]))
    assert_refused(path, SchemaError, column="c", columns=["c"])


def test_nulls_in_further_columns(put):
    path = put(
        table(
            brand=pa.array(["x", None] * 3),
            kind=pa.array(["x", None] * 3).dictionary_encode(),
            price=pa.array([1.5, None] * 3),
            new=pa.array([True, None] * 3),
            empty=pa.nulls(6),
        )
    )
    names = ["brand", "kind", "price", "new", "empty"]
    data = rankine.load(path, columns=names, features=["a"])
    assert data.columns["brand"].tolist() == ["x", ""] * 3
    assert data.columns["kind"].tolist() == ["x", ""] * 3
    np.testing.assert_array_equal(data.columns["price"], [1.5, np.nan] * 3)
    assert data.columns["new"].tolist() == [True, None] * 3
    assert np.isnan(data.columns["empty"]).all()
    assert data.read_counts["missing_values"] == 18


# ---------------------------------------------------------------- sparse layout
def test_sparse_rows(put):
    data = rankine.load(put(sparse_table()))
    assert data.X.shape == (6, 4)
    assert data.X.dtype == np.float32
    assert data.X.toarray()[5].tolist() == [0, 6, 0, 7]


def test_the_width_of_sparse_rows_is_the_largest_index(put):
    lists = [[4], [2], [], [1], [3], [2]]
    values = [[1.0], [2.0], [], [3.0], [4.0], [5.0]]
    path = put(sparse_table(lists, values), size=2)
    assert rankine.scan(path).n_features == 4
    assert rankine.scan(path, base=0).n_features == 5
    assert {block.n_features for block in rankine.scan(path, block_rows=1)} == {4}
    nothing = put(sparse_table([[]] * 6, [[]] * 6))
    assert rankine.scan(nothing).n_features == 0
    assert rankine.load(nothing).X.shape == (6, 0)
    assert rankine.load(nothing, n_features=3).X.shape == (6, 3)


def test_the_largest_usable_index():
    for lists, base, limit, width in (
        ([[1, 3], [None, 2]], 1, 9, 3), ([[1, 3], [None, 2]], 0, 9, 4), ([[-5]], 1, 9, 0),
        ([[], []], 1, 9, 0), ([[1, 3, 4]], 1, 3, 3), ([[1, 3, 2]], 0, 3, 3), ([[9]], 1, 8, 0),
    ):  # fmt: skip
        array = pa.array(lists, pa.list_(pa.int64()))
        assert columns.highest_index(array, ReadOptions(base=base, max_features=limit)) == width


def test_unsorted_rows_are_found():
    rng = np.random.default_rng(0)
    for _ in range(300):
        sizes = rng.integers(0, 4, rng.integers(1, 7))
        rows = [rng.integers(0, 5, size) for size in sizes]
        rows = [np.unique(row) if rng.random() < 0.8 else row for row in rows]
        pointer = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        flat = np.concatenate(rows).astype(np.int32)
        unsorted = any((np.diff(row) <= 0).any() for row in rows)
        assert columns._any_unsorted(flat, pointer) == unsorted


@pytest.mark.parametrize("first", [0, 1, 2])
def test_rows_are_the_same_wherever_a_block_begins(put, first):
    lists = [[1, 2][:first], [3, 4], [1], [], [2, 3], [4]]
    values = [[10.0 * k + j for j in row] for k, row in enumerate(lists)]
    path = put(sparse_table(lists, values), size=6)
    whole = rankine.load(path, n_features=4).X.toarray()
    for rows in (1, 2, 5):
        blocks = rankine.scan(path, n_features=4, block_rows=rows).raw_blocks()
        assert np.concatenate([block.X.toarray() for block in blocks]).tolist() == whole.tolist()
    assert whole[1].tolist() == [0, 0, 13, 14]


def test_equal_indices_of_neighbouring_rows_are_no_twins(put):
    lists = [[], [3, 1], [3], [3, 4], [], []]
    values = [[], [1.0, 2.0], [3.0], [4.0, 5.0], [], []]
    data = rankine.load(put(sparse_table(lists, values), size=6))
    assert data.X.toarray()[1:4].tolist() == [[2, 0, 1, 0], [0, 0, 3, 0], [0, 0, 4, 5]]


def test_bad_sparse_rows_are_skipped_when_asked(put):
    lists = [[1, 3], None, [0], [9], [4, None], [2, 2]]
    values = [[1.0, None], None, [3.0], [4.0], [5.0, 5.5], [6.0, 7.0]]
    data = rankine.load(put(sparse_table(lists, values)), on_bad_row="skip", n_features=8)
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, np.nan, 0, 0, 0, 0, 0]])
    assert data.read_counts == {"skipped_rows": 5, "missing_values": 1}
    negative = put(
        sparse_table([[-1], [2], [], [1], [4], [2]], [[1.0], [2.0], [], [3.0], [4], [5]])
    )
    assert "must not be negative" in assert_refused(negative, SchemaError, base=0, line=1).fix
    assert "Set base to 0" in assert_refused(negative, SchemaError, line=1).fix


def test_sparse_columns_by_other_names(put):
    renamed = sparse_table().rename_columns(["label", "qid", "where", "what"])
    data = rankine.load(put(renamed), features=["where", "what"])
    assert data.X.shape == (6, 4)


def test_the_order_of_the_two_lists_does_not_matter(put):
    turned = sparse_table().select(["values", "label", "indices", "qid"])
    assert rankine.load(put(turned)).fingerprint == rankine.load(put(sparse_table())).fingerprint


def test_base_is_declared(put):
    assert_refused(
        put(sparse_table(indices=[[0, 3], [2], [], [1], [4], [2, 4]])),
        SchemaError, line=1, column="indices", match="below the declared base 1",
    )  # fmt: skip
    data = rankine.load(put(sparse_table()), base=0)
    assert data.X.shape == (6, 5)
    assert_refused(
        put(sparse_table(indices=[[-1, 3], [2], [], [1], [4], [2, 4]])),
        SchemaError, line=1, base=0,
    )  # fmt: skip


def test_unsorted_rows_are_sorted(put):
    mixed = put(sparse_table(indices=[[3, 1], [2], [], [1], [4], [4, 2]]))
    data = rankine.load(mixed)
    assert data.X.has_sorted_indices
    assert data.X.toarray()[0].tolist() == [2, 0, 1, 0]
    assert data.X.toarray()[5].tolist() == [0, 7, 0, 6]
    clean = rankine.load(put(sparse_table(
        indices=[[1, 3], [2], [], [1], [4], [2, 4]],
        values=[[2.0, 1.0], [3.0], [], [4.0], [5.0], [7.0, 6.0]],
    )))  # fmt: skip
    assert data.fingerprint == clean.fingerprint


def test_duplicate_indices_are_refused(put):
    for row in ([2, 4, 2], [4, 4, 1], [1, 2, 2]):
        path = put(sparse_table(
            indices=[[1, 3], [2], [], [1], [4], row],
            values=[[1.0, 2.0], [3.0], [], [4.0], [5.0], [6.0, 7.0, 8.0]],
        ))  # fmt: skip
        assert_refused(path, SchemaError, line=6, column="indices", match="twice")


def test_indices_beyond_the_width(put):
    path = put(sparse_table())
    assert_refused(path, LimitError, line=5, column="indices", n_features=3)
    assert rankine.load(path, n_features=9).X.shape == (6, 9)
    assert rankine.load(path, n_features=4).X.shape == (6, 4)
    assert rankine.load(path, n_features=5, base=0).X.shape == (6, 5)
    assert_refused(path, LimitError, line=5, column="indices", n_features=4, base=0)
    assert rankine.load(path, max_features=4).X.shape == (6, 4)
    assert_refused(path, LimitError, line=5, max_features=3)
    for kind, value in ((pa.int64(), 2**31), (pa.int64(), 2**62), (pa.uint32(), 2**32 - 1)):
        lists = pa.array([[1], [2], [], [1], [4], [value]], pa.list_(kind))
        values = [[1.0], [2.0], [], [3.0], [4.0], [5.0]]
        assert_refused(put(sparse_table(lists, values)), LimitError, line=6, column="indices")


def test_lists_of_unequal_length(put):
    path = put(sparse_table(values=[[1.0, 2.0], [3.0], [], [4.0], [5.0, 5.5], [6.0, 7.0]]))
    assert_refused(path, SchemaError, line=5, column="values", match="2 values for 1 indices")
    data = rankine.load(path, on_bad_row="skip")
    assert data.n_rows == 5
    assert data.X.toarray()[4].tolist() == [0, 6, 0, 7]


def test_null_lists_and_null_items(put):
    assert_refused(put(sparse_table(
        indices=[[1, 3], [2], None, [1], [4], [2, 4]],
        values=[[1.0, 2.0], [3.0], None, [4.0], [5.0], [6.0, 7.0]])),
        SchemaError, line=3, column="indices", match="null list")  # fmt: skip
    assert_refused(put(sparse_table(indices=[[1, 3], [2], [], [1], [4], [2, None]])),
        SchemaError, line=6, column="indices", match="null index")  # fmt: skip
    nulls = put(sparse_table(values=[[1.0, 2.0], [3.0], [], [4.0], [5.0], [6.0, None]]))
    data = rankine.load(nulls)
    np.testing.assert_array_equal(data.X.toarray()[5], [0, 6, 0, np.nan])
    assert data.read_counts == {"missing_values": 1}


@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_sparse_values_that_are_not_finite(put, value):
    path = put(sparse_table(values=[[1.0, 2.0], [3.0], [], [4.0], [5.0], [6.0, value]]))
    assert_refused(path, SchemaError, line=6, column="values")


def test_sparse_types(put):
    large = sparse_table(
        pa.array([[1], [2], [], [1], [4], [2]], pa.large_list(pa.uint8())),
        pa.array([[1], [2], [], [1], [4], [2]], pa.large_list(pa.int64())),
    )
    data = rankine.load(put(large))
    assert data.X.dtype == np.float64
    assert data.X.indices.dtype == np.int32
    text = pa.array([["1"], ["2"], [], ["1"], ["4"], ["2"]], pa.list_(pa.string()))
    assert_refused(put(sparse_table(indices=text)), SchemaError, column="indices")
    assert_refused(put(sparse_table(values=text)), SchemaError, column="values")


def test_no_rows_and_no_features(put):
    refused_type = (EmptyDataError,)
    with pytest.raises(refused_type):
        rankine.load(put(table().slice(0, 0)))
    with pytest.raises(EmptyDataError):
        list(rankine.scan(put(table().slice(0, 0))))
    data = rankine.load(put(table(a=None, b=None)))
    assert data.X.shape == (6, 0)
    assert data.X.dtype == np.float64


def test_numbers_called_indices_and_values_are_features(put):
    assert rankine.load(put(table(indices=np.ones(6), values=np.ones(6)))).n_features == 4
    pair = {"label": None, "query": None, "columns": ["values"]}
    assert_refused(put(sparse_table(label=None, qid=None)), SchemaError, column="indices", **pair)


def test_text_may_expand_so_far(monkeypatch):
    monkeypatch.setattr(columns, "MAX_TEXT_BYTES", 60)
    long, short = pa.array(["x" * 20, "y", None]), pa.array([1, 2])
    view = pa.array(["zz", "x" * 20, "y" * 20, "w" * 20, ""]).cast(pa.string_view())[1:]
    location = BatchLocation("f", part="row group 3")

    def check(texts, codes):
        if codes is None:
            columns._check_view_expansion(texts, "c", location)
        else:
            columns._check_code_expansion(texts, codes, "c", location)

    for texts, codes, total in (
        (long, np.zeros(3, int), 60), (long, np.array([0, 0, 0, 1]), 61), (long, None, 0),
        (short, np.zeros(99, int), 0), (view, None, 60), (view[:2], None, 40),
        (view, np.array([0, 1, 2, 3, 0]), 80), (pa.array([], pa.string()), np.zeros(0, int), 0),
        (pa.array(["", "x" * 20]), np.array([1] * 4), 80),
    ):  # fmt: skip
        if total > 60:
            with pytest.raises(LimitError, match=f"expands to {total} bytes in row group 3"):
                check(texts, codes)
        else:
            check(texts, codes)


def test_ids_that_expand_too_far_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(columns, "MAX_TEXT_BYTES", 60)
    for kind in ("view", "dictionary"):
        docid = pa.array(["x" * 11] * 6)
        docid = docid.cast(pa.string_view()) if kind == "view" else docid.dictionary_encode()
        content = table(docid=docid)
        path = str(tmp_path / "data.arrow")
        with pa.ipc.new_file(path, content.schema) as writer:
            writer.write_table(content)
        assert_refused(path, LimitError, column="docid", match="expands to 66 bytes")
        assert sum(block.n_rows for block in rankine.scan(path, block_rows=3)) == 6


def test_a_dictionary_stays_whole_unless_it_is_longer_than_the_block():
    plan = SimpleNamespace(dictionaries={})
    faults = RowFaults(BatchLocation("f"), 4, skip=False)
    texts = pa.array(list("abcd"))
    for codes, kept in (([1, 1, 3, None], "abcd"), ([0, 0, 0], "a"), ([2, 0, 2], "ac")):
        array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), texts)
        coded = columns._to_coded_text(array, "c", faults, plan)
        assert coded.texts == [*kept, ""]
        found = [coded.texts[code] for code in coded.codes]
        assert found == ["" if code is None else "abcd"[code] for code in codes]


def test_a_dictionary_of_nothing_but_null_is_all_missing():
    faults = RowFaults(BatchLocation("f"), 2, skip=False)
    codes, texts = pa.array([None, 0], pa.int32()), pa.array([None], pa.string())
    array = pa.DictionaryArray.from_arrays(codes, texts)
    found = columns._to_coded_text(array, "c", faults, SimpleNamespace(dictionaries={}))
    assert [found.texts[code] for code in found.codes] == ["", ""]
    assert faults.missing == 2


def test_invalid_arrow_data_are_refused(tmp_path):
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    content = pa.table({"label": [1.0], "qid": [1], "a": [1.0], "docid": broken})
    path = str(tmp_path / "data.arrow")
    with pa.ipc.new_file(path, content.schema) as writer:
        writer.write_table(content)
    assert_refused(path, SchemaError, match="record batch 0 holds invalid data")


def test_whatever_arrow_says_becomes_an_error_about_the_file(monkeypatch):
    plan = SimpleNamespace(sparse=True)
    batch = SimpleNamespace(num_rows=1)
    for raised, kind, part, what in (
        (
            pa.ArrowInvalid("bad\nworse"),
            DataError,
            "row group 3",
            "row group 3 cannot be read: bad",
        ),
        (KeyError("x"), DataError, "", "the table cannot be read: 'x'"),
        (ValueError(" "), DataError, "", "the table cannot be read: ValueError"),
        (OSError("y" * 300), DataError, "", "the table cannot be read: " + "y" * 200),
        (MemoryError(), LimitError, "p", "p needs more memory than there is: MemoryError"),
        (pa.ArrowMemoryError("m"), LimitError, "p", "p needs more memory than there is: m"),
        (SchemaError("own"), SchemaError, "p", "own"),
    ):
        monkeypatch.setattr(columns, "_sparse_rows", mock.Mock(side_effect=raised))
        with pytest.raises(kind) as caught:
            columns.batch_to_dataset(batch, plan, ReadOptions(), BatchLocation("f", part=part))
        assert caught.value.reason == what


def test_dense_storage_may_take_all_memory_but_no_more():
    X = sparse.csr_matrix(np.ones((3, 4)))
    assert columns._force_storage(X, ReadOptions(dense=True, max_memory=96)).shape == (3, 4)
    with pytest.raises(LimitError) as caught:
        columns._force_storage(X, ReadOptions(dense=True, max_memory=95))
    assert caught.value.parameter == "dense"
    assert columns._force_storage(X, ReadOptions(dense=False)) is X


def test_forced_storage(put):
    assert rankine.load(put(sparse_table()), dense=True).X.shape == (6, 4)
    assert rankine.load(put(table()), dense=False).X.nnz == 10
    wide = put(sparse_table(), size=2)
    assert_refused(wide, LimitError, dense=True, n_features=2**30, max_memory=2**20)


def test_widths_and_names(put):
    assert_refused(put(table()), SchemaError, match="n_features: 2", n_features=3)
    assert_refused(put(table()), LimitError, match="max_features", max_features=1)
    data = rankine.load(put(table()), feature_names=["x", "y"])
    assert data.feature_names == ("x", "y")
    with raises_for("features"):
        rankine.load(put(table()), features=["a", "a"])
    two = pa.table([pa.array([1.0])] * 4, names=["a", "b", "c", "b"])
    assert_refused(put(two), SchemaError, column="b", match="two columns are called 'b'")
    assert rankine.load(put(table()), n_features=2, max_features=2).n_features == 2


def test_notes_of_a_file_decide_names_and_widths(tmp_path):
    X, path = np.arange(6.0).reshape(3, 2), str(tmp_path / "data.parquet")
    unnamed = rankine.Dataset.from_arrays(X, [1, 2, 3])
    unnamed.save(path)
    assert rankine.load(path).feature_names is None
    chosen = [name for name in pq.read_schema(path).names if name not in ("label", "qid")][1:]
    assert rankine.load(path, features=chosen).feature_names == tuple(chosen)
    named = rankine.Dataset.from_arrays(X, [1, 2, 3], feature_names=["u", "v"])
    named.save(path, layout="sparse")
    assert rankine.load(path).feature_names == ("u", "v")
    assert rankine.load(path, feature_names=["x", "y"]).feature_names == ("x", "y")
    assert_refused(path, SchemaError, match="2 feature names for 3 features", n_features=3)
    unnamed.save(path, layout="sparse")
    assert rankine.load(path, n_features=3).X.shape == (3, 3)
    for raw in (b'{"base": 1}', b'{"n_features": 0}', b"{}"):
        pq.write_table(table(a=None, b=None).replace_schema_metadata({b"rankine": raw}), path)
        assert rankine.load(path).X.shape == (6, 0)


# -------------------------------------------------------------------- streams
def test_queries_stay_whole_over_row_groups_and_files(put, tmp_path):
    path = put(table(), size=2)
    for rows in (1, 2, 3, 100):
        blocks = list(rankine.scan(path, block_rows=rows))
        for block in blocks:
            assert block.queries.sizes.tolist() == [3] * block.n_queries
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"
    pq.write_table(table().slice(0, 4), first)
    pq.write_table(table().slice(4), second)
    blocks = list(rankine.scan([first, second], block_rows=2))
    assert [block.qid.tolist() for block in blocks] == [[1, 1, 1], [2, 2, 2]]


def test_a_query_that_reappears_is_named(put):
    path = put(table(qid=pa.array([1, 1, 2, 2, 1, 1])), size=2)
    assert rankine.load(path).n_queries == 2
    with raises_at(QueryOrderError, line=5) as caught:
        list(rankine.scan(path, block_rows=1))
    assert caught.value.line == 5


def test_files_with_other_features(put, tmp_path):
    first = put(table())
    other = tmp_path / "other.parquet"
    pq.write_table(table().rename_columns(["label", "qid", "b", "a"]), other)
    with pytest.raises(SchemaError):
        rankine.load([first, other])
    with pytest.raises(SchemaError):
        list(rankine.scan([first, other], block_rows=1))
    data = rankine.load([first, other], features=["a", "b"])
    assert data.n_rows == 12
    assert next(iter(rankine.scan(first))).feature_names == rankine.scan(first).feature_names


def test_a_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(table(), path, row_group_size=2)
    stream = rankine.scan(path, block_rows=1)
    iterator = iter(stream)
    next(iterator)
    pq.write_table(table(label=[9.0] * 6), path, row_group_size=2)
    with pytest.raises(DataError):
        list(iterator)
    with pytest.raises(DataError, match="changed"):
        list(stream)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.feather", "x.npz"])
@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"PAR1", b"PAR1" * 5, b"ARROW1", b"PK\x03\x04"]
)
def test_files_that_are_something_else(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        rankine.load(path)
    assert isinstance(caught.value, (FileKindError, EmptyDataError, SchemaError))


def test_pipes_are_refused_where_an_index_is_needed(tmp_path):
    import io

    for make, content in (("parquet", b"PAR1"), ("arrow", b"ARROW1\0\0")):
        with pytest.raises(FileKindError):
            rankine.load(io.BytesIO(content), format=make)


def test_damaged_notes_are_refused(put):
    for raw in (b"{", b"[]", b'{"n_features": "x"}', b'{"n_features": -1}', b'{"other": 1}',
                b'{"n_features": 2, "base": 1, "feature_names": ["a"]}'):  # fmt: skip
        noted = table().replace_schema_metadata({b"rankine": raw})
        assert_refused(put(noted), SchemaError, match="damaged")


def test_a_base_other_than_the_noted_one(tmp_path):
    path = str(tmp_path / "data.parquet")
    data = rankine.Dataset.from_arrays(np.eye(3), [1, 2, 3])
    data.save(path, layout="sparse", base=0)
    assert_refused(path, SchemaError, match="count from 0")
    assert rankine.load(path, base=0).fingerprint == data.fingerprint


# ------------------------------------------------------------------ Columns of text stay codes fr
TEXTS = np.array(["acme", "zed", "", "ß", "a longer name than the others"], dtype=object)


def column(rng, n, kind):
    """Texts with nulls as an Arrow array of some kind, and what they are as plain text."""
    known = [None if rng.random() < 0.1 else TEXTS[k] for k in rng.integers(0, len(TEXTS), n)]
    plain = ["" if text is None else text for text in known]
    array = pa.array(known, pa.string())
    if kind == "dictionary":
        array = array.dictionary_encode()
    elif kind == "null in the dictionary":
        array = array.dictionary_encode("encode")
    elif kind == "twins in a long dictionary":
        codes = [
            None if t is None else list(TEXTS).index(t) + 5 * (k % 9) for k, t in enumerate(known)
        ]
        texts = pa.array([*np.tile(TEXTS, 9), *(f"unused {k}" for k in range(500))], pa.string())
        array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), texts)
    elif kind != "string":
        array = array.cast(kind)
    return array, plain, known.count(None)


#: Those that Parquet can hold, too.
KINDS = ("string", "large_string", "dictionary", "twins in a long dictionary", "string_view")


@pytest.mark.parametrize(
    ("form", "kind"),
    [("arrow", "null in the dictionary"), *product(("parquet", "arrow"), KINDS)],
)
def test_arrays_are_the_texts_and_missing_ones_are_counted(tmp_path, kind, form):
    array, plain, missing = column(np.random.default_rng(3), 200, kind)
    table = pa.table({"qid": np.arange(200) // 7, "x": np.ones(200), "text": array})
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=61)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, 61)
    options = {"label": "x", "features": ["x"], "columns": ["text"]}
    data = rankine.load(path, **options)
    assert data.columns["text"].dtype == TEXT
    assert data.columns["text"].tolist() == plain
    assert data.read_counts.get("missing_values", 0) == missing
    blocks = list(rankine.scan(path, block_rows=23, **options))
    assert [text for block in blocks for text in block.columns["text"].tolist()] == plain
    assert sum(block.read_counts.get("missing_values", 0) for block in blocks) == missing


def coded(path, **options):
    log = rankine.scan(path, label="x", features=["x"], columns=["text"], **options)
    return [block.columns for block in log]


def test_a_dictionary_that_comes_again_is_one_object(tmp_path):
    texts = pa.array(np.tile(TEXTS, 40)).dictionary_encode()
    table = pa.table({"qid": np.arange(200) // 2, "x": np.ones(200), "text": texts})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=50)
    found = [columns.coded("text") for columns in coded(tmp_path / "rows.parquet", block_rows=20)]
    assert len(found) == 10
    assert all(one.texts is found[0].texts for one in found)


def test_rows_are_taken_and_joined_without_decoding(monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.choice(TEXTS, n).astype(object) for n in (7, 0, 12)]
    parts = [
        rankine.Dataset(
            np.zeros((len(texts), 1)), np.zeros(len(texts)), np.zeros(len(texts), dtype=np.int64),
            columns=NamedColumns({"text": as_codes(rng, texts), "n": np.arange(len(texts))}),
        )
        for texts in arrays
    ]  # fmt: skip
    monkeypatch.setattr("rankine.data.dataset.TEXT", None)  # what is decoded is of this type
    rows = rng.permutation(19)[:11]
    taken = pickle.loads(pickle.dumps(concat(list(parts)).take(rows)))  # noqa: S301
    monkeypatch.undo()
    assert taken.columns["text"].tolist() == np.concatenate(arrays)[rows].tolist()
    assert (
        taken.columns["n"].tolist() == np.concatenate([np.arange(7), np.arange(12)])[rows].tolist()
    )
    assert "text" in taken.columns
    assert "other" not in taken.columns


def as_codes(rng, texts):
    """Texts as codes of a dictionary in an order of its own."""
    from rankine.data.dataset import CodedText

    known = rng.permutation(TEXTS).tolist()
    return CodedText(np.array([known.index(t) for t in texts], dtype=np.int32), known)


def test_few_bytes_that_stand_for_many_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_TEXT_BYTES", 5000)
    texts = pa.array(["x" * 100] * 60).dictionary_encode()
    table = pa.table({"qid": np.arange(60), "x": np.ones(60), "text": texts})
    pq.write_table(table, tmp_path / "rows.parquet")
    with raises_at(LimitError, column="text"):
        coded(tmp_path / "rows.parquet")
    assert len(coded(tmp_path / "rows.parquet", block_rows=30)) == 2
