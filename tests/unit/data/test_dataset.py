"""Rows in memory: what is taken, refused, cut and joined, beside plain NumPy."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from error_checks import raises_at
from rankine import LeastSquaresRanker, RankSVM
from rankine.core.errors import EmptyDataError, SchemaError
from rankine.data import Dataset, QueryIndex
from rankine.data.dataset import (
    CodedText,
    NamedColumns,
    all_finite,
    as_rows,
    check_matrix,
    check_weight,
    column_storage,
    concat,
    drain,
    first_lists,
    is_column_storage,
    make_csr,
    require_rows,
    row_scores,
    row_slices,
    take_columns,
)

STORAGE = {"dense": np.asarray, "csr": sparse.csr_matrix}


def texts(codes, known):
    return CodedText(np.array(codes, dtype=np.int32), known)


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def everything(n=12, seed=0, storage="dense", **change):
    """A dataset with every kind of column; its queries are not contiguous."""
    rng = np.random.default_rng(seed)
    return Dataset.from_arrays(
        STORAGE[storage](np.round(rng.normal(size=(n, 3)), 2) * (rng.random((n, 3)) < 0.6)),
        np.arange(n, dtype=float),
        rng.integers(0, 5, n),
        **{
            "docid": np.array([f"d{k}" for k in range(n)]),
            "weight": np.arange(n) + 1.0,
            "position": np.arange(n) + 1,
            "columns": {"price": np.arange(n) * 10},
            **change,
        },
    )


def same_rows(found, data, rows):
    """Whether every column of one dataset is that of the other at these rows."""
    np.testing.assert_array_equal(dense(found.X), dense(data.X)[rows])
    for name in ("y", "qid", "docid", "weight", "position"):
        np.testing.assert_array_equal(getattr(found, name), getattr(data, name)[rows])
    for name in data.columns:
        np.testing.assert_array_equal(found.columns[name], data.columns[name][rows])


# ------------------------------------------------------------------ columns of text
def test_text_is_decoded_once_and_numbers_are_as_they_were():
    prices = np.arange(3)
    columns = NamedColumns({"brand": texts([1, 0, 1], ["a", "b"]), "price": prices})
    assert columns["price"] is prices
    assert columns["brand"].tolist() == ["b", "a", "b"]
    assert columns["brand"] is columns["brand"]
    assert (list(columns), len(columns)) == (["brand", "price"], 2)
    assert repr(columns) == "columns brand, price"
    assert columns.coded("price") is None
    assert columns.coded("brand").texts == ["a", "b"]


def test_a_quarter_of_the_texts_is_where_they_stay():
    known = [f"t{k}" for k in range(8)]
    columns = NamedColumns({"text": texts(range(8), known)})
    assert take_columns(columns, np.array([7, 2])).coded("text").texts is known
    (few,) = take_columns(columns, np.array([7])).coded("text").texts
    assert few == "t7"
    plain = take_columns({"n": [5, 6, 7]}, np.array([2, 0]))
    assert plain["n"].tolist() == [7, 5]


# ------------------------------------------------------------------ what is taken and refused
def test_given_query_ids_stand_before_those_of_a_frame():
    frame = pd.DataFrame({"qid": [1, 1, 2], "x": [1.0, 2.0, 3.0]})
    y = [0, 1, 2]
    assert Dataset.from_arrays(frame, y).qid.tolist() == [1, 1, 2]
    assert Dataset.from_arrays(frame, y, [7, 8, 8]).qid.tolist() == [7, 8, 8]
    assert Dataset.from_arrays(frame, y, group=[1, 0, 2]).qid.tolist() == [0, 2, 2]
    with pytest.raises(SchemaError):
        Dataset.from_arrays(np.eye(3), y, [7, 8, 8], group=[1, 2])


def test_no_rows_are_a_dataset_of_no_queries():
    empty = Dataset.from_arrays(np.zeros((0, 2)), [], np.zeros(0, dtype=int), weight=[])
    assert (empty.n_rows, empty.n_queries, empty.nnz, len(empty)) == (0, 0, 0, 0)
    assert list(empty.blocks()) == []
    with pytest.raises(EmptyDataError):
        require_rows(empty)
    one = Dataset.from_arrays(np.zeros((1, 2)), [1])
    assert require_rows(one) is one
    assert (one.n_queries, one.qid.tolist()) == (1, [0])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"feature_names": ["a"]}, "1 feature names for 2 columns"),
        ({"feature_names": ["a", "b", "c"]}, "3 feature names for 2 columns"),
        ({"y": [1, 0]}, r"y has shape \(2,\) for 3 rows"),
        ({"y": [1, "x", 0]}, "labels are not numeric"),
        ({"y": [1, 0, np.nan]}, r"y\[2\] is nan"),
        ({"y": [1, -np.inf, 0]}, r"y\[1\] is -inf"),
        ({"y": ["1_0", "1", "0"]}, "labels are not numeric: '1_0' is not a number"),
        ({"X": [["1_0", "2"]] * 3}, r"X\[0, 0\] is '1_0', not a number"),
        ({"X": [[b"1", "\uff11"]] * 3}, r"X\[0, 1\] is '\uff11', not a number"),
        ({"y": [1, 1j, 0]}, "labels are not numeric: they are of type complex128"),
        ({"y": np.zeros(3, "M8[D]")}, r"labels are not numeric: .* datetime64\[D\]"),
        ({"y": [1, 10**400, 0]}, "labels are not numeric"),
        ({"weight": [1, 1j, 1]}, "sample_weight are not numeric: they are of type complex128"),
        ({"weight": list("abc")}, "sample_weight are not numeric"),
        ({"docid": ["a"]}, "docid has shape"),
        ({"position": [1, 2, 3, 4]}, "position has shape"),
        ({"columns": {"price": [1, 2]}}, "price has shape"),
        ({"qid": [1, 2]}, "qid has 2 entries for 3 rows"),
        ({"weight": [1, 2]}, r"sample_weight.shape == \(2,\), expected \(3,\)"),
        ({"weight": [1, np.inf, 1]}, r"sample_weight\[1\] is inf"),
        ({"weight": [1, -1, 1]}, "Negative values"),
        ({"weight": [0, 0, 0]}, "at least one non-zero"),
        ({"X": np.zeros((3, 2, 1))}, "X has 3 dimensions"),
        ({"X": np.zeros(3)}, "X has 1 dimensions"),
        ({"X": np.zeros((3, 2), dtype=complex)}, "complex128, not numbers"),
        ({"X": np.zeros((3, 2), dtype="M8[D]")}, r"datetime64\[D\], not numbers"),
        ({"X": sparse.csr_array(np.eye(3, 2) * 1j)}, "complex128, not numbers"),
    ],
)
def test_what_does_not_fit_is_refused(given, reason):
    arguments = {"X": np.eye(3, 2), "y": [1, 0, 2], **given}
    with pytest.raises(SchemaError, match=reason):
        Dataset.from_arrays(**arguments)


def test_weights_are_one_number_or_one_a_row():
    assert check_weight(2, 3).tolist() == [2.0, 2.0, 2.0]
    assert check_weight([0, 1, 0], 3).tolist() == [0.0, 1.0, 0.0]
    assert check_weight([], 0).tolist() == []


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_named_by_row_and_column(storage, bad):
    X = np.zeros((5, 3))
    X[1, 0], X[3, 2], X[4, 1] = 7.0, bad, np.inf
    made = STORAGE[storage](X)
    with pytest.raises(SchemaError, match=rf"X\[3, 2\] is {bad}; Input X contains inf") as error:
        check_matrix(made)
    assert error.value.column is None
    with pytest.raises(SchemaError, match=rf"X\[3, 'c'\] is {bad}") as error:
        check_matrix(made, ["a", "b", "c"])
    assert error.value.column == "c"
    with pytest.raises(SchemaError, match=r"X\[3, 2\]"):
        check_matrix(made, ["a", "b"])
    np.testing.assert_array_equal(dense(check_matrix(made, infinite=True)), X)


@pytest.mark.parametrize("storage", STORAGE)
def test_missing_values_stand_and_are_noticed(storage):
    X = np.array([[1.0, np.nan], [0.0, 2.0]])
    full = STORAGE[storage](np.nan_to_num(X))
    endless = STORAGE[storage](np.where(np.isnan(X), np.inf, X))
    for matrix, complete in ((STORAGE[storage](X), False), (full, True), (endless, True)):
        data = Dataset.from_arrays(matrix, [0, 1], infinite=True)
        assert data.complete == complete
    assert not Dataset.from_arrays(STORAGE[storage](X), [0, 1]).complete


def test_large_numbers_are_finite_though_their_sum_is_not():
    huge = np.full(4, 1e308)
    assert all_finite(huge)
    assert not all_finite(np.array([np.inf, -np.inf]))
    assert Dataset.from_arrays(huge[:, None], np.arange(4)).X.max() == 1e308


def test_numbers_in_any_dress_are_numbers():
    for given in ([["1", "2.5"]], [[1, None]], np.array([[True, 2]], dtype=object)):
        found = check_matrix(np.asarray(given, dtype=object))
        assert found.dtype == np.float64
    assert check_matrix(np.array([["1", "2.5"]])).tolist() == [[1.0, 2.5]]
    assert check_matrix([[True, False]]).dtype == np.float64
    fortran = np.asfortranarray(np.eye(3, dtype=np.float32))
    assert check_matrix(fortran).flags.c_contiguous
    assert check_matrix(fortran).dtype == np.float32


@pytest.mark.parametrize(
    "value", ["cheap", date(2026, 1, 1), np.datetime64("2026-01-01"), np.timedelta64(3, "s"), [1]]
)
def test_what_is_no_number_is_named(value):
    X = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=object)
    X[1, 0] = value
    with pytest.raises(SchemaError, match=r"X\[1, 0\] is .*not a number"):
        check_matrix(X)
    with raises_at(SchemaError, column="price") as error:
        check_matrix(X, ["price", "size"])
    assert error.value.column == "price"
    with pytest.raises(SchemaError) as error:
        check_matrix(X[1])
    assert error.value.column is None


# ------------------------------------------------------------------ storage
def test_a_matrix_is_copied_only_where_it_must_be():
    twice = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), [1, 1, 0], [0, 3]), shape=(1, 2))
    before = twice.data.copy()
    found = check_matrix(twice)
    np.testing.assert_array_equal(found.toarray(), [[4.0, 3.0]])
    assert found.has_canonical_format
    np.testing.assert_array_equal(twice.data, before)
    clean = sparse.csr_matrix(np.eye(3))
    assert check_matrix(clean) is clean
    whole = check_matrix(sparse.csr_matrix(np.eye(3, dtype=int)))
    assert whole.dtype == np.float64
    for dtype in (np.float32, np.float64):
        assert check_matrix(sparse.csc_matrix(np.eye(2, dtype=dtype))).dtype == dtype


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_and_columns_are_views(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.5)
    rows, columns = sparse.csr_matrix(X), sparse.csc_matrix(X)
    for matrix in (rows, columns):
        matrix.indices, matrix.indptr = matrix.indices.astype(dtype), matrix.indptr.astype(dtype)
    unsigned = np.uint32 if dtype == np.int32 else np.uint64
    viewed = as_rows(rows)
    assert viewed.indices.dtype == unsigned
    assert np.shares_memory(viewed.indices, rows.indices)
    stored, shape = column_storage(columns)
    assert (stored.indices.dtype, shape) == (unsigned, (6, 4))
    assert np.shares_memory(stored.values, columns.data)
    weights = rng.normal(size=4)
    np.testing.assert_allclose(row_scores(rows, weights), X @ weights, rtol=1e-12)


def test_columns_are_used_as_they_stand_only_where_they_can_be():
    X = sparse.csc_matrix(np.eye(3))
    assert is_column_storage(X)
    assert is_column_storage(X.astype(np.float32))
    assert not is_column_storage(X.tocsr())
    assert not is_column_storage(X.astype(np.int64))
    assert not is_column_storage(np.eye(3))
    twice = sparse.csc_matrix((np.ones(2), [0, 0], [0, 2]), shape=(2, 1))
    assert not is_column_storage(twice)
    assert column_storage(np.eye(3, 2))[1] == (3, 2)
    X.data[1] = np.nan
    with pytest.raises(SchemaError, match=r"X\[1\] is nan"):
        column_storage(X)


def test_long_matrices_have_long_offsets():
    short = make_csr(np.ones(2), np.array([1, 0], np.int32), np.array([0, 2]), (1, 2))
    assert (short.indptr.dtype, short.indices.dtype) == (np.int32, np.int32)
    assert short.has_canonical_format, "it is told, not looked at again"
    wide = make_csr(np.ones(2), np.array([0, 1], np.int64), np.array([0, 2]), (1, 2))
    assert (wide.indptr.dtype, wide.indices.dtype) == (np.int64, np.int64)

    class Endless(SimpleNamespace):
        def __len__(self):
            return 2**31

    data = Endless(dtype=np.dtype(np.float64))
    long = make_csr(data, np.zeros(1, np.int32), np.array([0, 2**31]), (1, 2))
    assert (long.indptr.dtype, long.indices.dtype) == (np.int64, np.int64)
    assert int(long.indptr[-1]) == 2**31


# ------------------------------------------------------------------ parts
@pytest.mark.parametrize("storage", STORAGE)
def test_rows_and_queries_are_taken_as_numpy_takes_them(storage):
    rng = np.random.default_rng(1)
    data = replace(everything(storage=storage), lines=np.arange(12) + 1)
    for rows in (rng.permutation(12)[:5], slice(2, 9), np.zeros(0, dtype=int)):
        found = data.take(rows)
        same_rows(found, data, rows)
        assert found.lines.tolist() == data.lines[rows].tolist()
        assert found.n_queries == len(set(data.qid[rows].tolist()))
    grouped = data.take(np.argsort(data.qid, kind="stable"))
    for whole in (data, grouped):
        for chosen in ([1, 2], [2, 1], [0, 3], [3], [], range(whole.n_queries)):
            rows = [np.flatnonzero(whole.qid == whole.queries.ids[q]) for q in chosen]
            rows = np.concatenate([np.zeros(0, dtype=int), *rows])
            same_rows(whole.take_queries(np.array(chosen, dtype=int)), whole, rows)


def test_neighbouring_queries_are_a_view():
    data = Dataset.from_arrays(np.arange(8.0).reshape(8, 1), np.zeros(8), [1, 1, 2, 3, 3, 4, 4, 4])
    assert np.shares_memory(data.take_queries(np.array([1, 2])).X, data.X)
    assert not np.shares_memory(data.take_queries(np.array([1, 3])).X, data.X)


def test_blocks_are_as_long_as_they_may_be():
    data = Dataset.from_arrays(np.zeros((8, 1)), np.zeros(8), group=[2, 2, 3, 1])
    for most, sizes in (
        (1, [2, 2, 3, 1]), (3, [2, 2, 3, 1]), (4, [4, 4]), (6, [4, 4]), (7, [7, 1]), (99, [8]),
    ):  # fmt: skip
        assert [block.n_rows for block in data.blocks(most)] == sizes


@pytest.mark.parametrize(("count", "read"), [(1, 1), (4, 1), (5, 2), (8, 2), (12, 3), (99, 3)])
def test_the_first_lists_however_they_are_cut(count, read):
    data = Dataset.from_arrays(np.zeros((24, 1)), np.zeros(24), np.repeat(np.arange(12), 2))
    given = []

    def blocks():
        for first in (0, 4, 8):
            given.append(first)
            yield data.take_queries(np.arange(first, first + 4))

    found = [q for block in first_lists(blocks(), count) for q in block.queries.ids]
    assert found == list(range(min(count, 12)))
    assert len(given) == read


def test_what_a_dataset_says_of_itself():
    data = everything()
    assert repr(data) == "Dataset(12 rows x 3 dense features, 5 queries)"
    assert "sparse" in repr(everything(storage="csr"))
    assert (data.n_rows, data.n_features, data.nnz, len(data)) == (12, 3, 36, 12)
    assert everything(storage="csr").nnz == np.count_nonzero(data.X)


# ------------------------------------------------------------------ joins
@pytest.mark.parametrize("kinds", [("dense", "dense"), ("csr", "csr"), ("dense", "csr")])
def test_parts_join_to_the_rows_in_order(kinds):
    parts = [everything(7, 1, kinds[0]), everything(5, 2, kinds[1]), everything(0, 3, kinds[0])]
    given = list(parts)
    whole = concat(given)
    assert given == parts
    drained = list(parts)
    released = concat(drain(drained))
    assert drained == []
    np.testing.assert_array_equal(dense(released.X), dense(whole.X))
    assert sparse.issparse(whole.X) == ("csr" in kinds)
    for part, rows in zip(parts, (slice(0, 7), slice(7, 12), slice(12, 12)), strict=True):
        same_rows(part, whole, rows)
    assert whole.n_rows == 12
    if sparse.issparse(whole.X):
        whole.X.check_format()
    one = everything(4)
    assert concat([one]) is one
    assert concat([]).n_rows == 0


@pytest.mark.parametrize("storage", STORAGE)
def test_the_widest_part_says_the_width_and_the_type(storage):
    parts = [
        Dataset.from_arrays(STORAGE[storage](np.full((2, width), 1.0 + width, dtype)), [0, 1])
        for width, dtype in ((1, np.float32), (3, np.float32), (2, np.float64))
    ]
    whole = concat(list(parts))
    expected = np.zeros((6, 3))
    expected[:2, :1], expected[2:4, :], expected[4:, :2] = 2, 4, 3
    np.testing.assert_array_equal(dense(whole.X), expected)
    assert whole.X.dtype == np.float64
    assert concat(list(parts[:2])).X.dtype == np.float32


def test_notes_add_up_and_files_are_named_once():
    a = replace(everything(3, 1), read_counts={"skipped_rows": 2}, sources=("x", "y"), encoding="e",
                lines=np.array([1, 2, 3]))  # fmt: skip
    counts = {"skipped_rows": 3, "missing_values": 1}
    b = replace(everything(2, 2), read_counts=counts, sources=("y",), lines=np.array([8, 9]))
    whole = concat([a, b])
    assert whole.read_counts == {"skipped_rows": 5, "missing_values": 1}
    assert (whole.sources, whole.encoding) == (("x", "y"), "e")
    assert whole.lines.tolist() == [1, 2, 3, 8, 9]
    assert concat([a, replace(b, lines=None)]).lines is None
    bare = concat([everything(3, 1, docid=None), everything(2, 2)])
    assert bare.docid.tolist() == ["", "", "", "d0", "d1"]
    assert concat([everything(3, 1, docid=None), everything(2, 2, docid=None)]).docid is None
    turned = [everything(2, columns={a: [1, 2], b: [3, 4]}) for a, b in ("xy", "yx")]
    assert list(concat(turned).columns) == ["x", "y"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"feature_names": ["a", "b", "c"]}, "different feature names"),
        ({"weight": None}, "some files have weight and others do not"),
        ({"position": None}, "some files have position and others do not"),
        ({"columns": {"size": np.arange(4)}}, "different columns"),
        ({"columns": {}}, "different columns"),
    ],
)
def test_parts_that_do_not_belong_together(change, reason):
    with pytest.raises(SchemaError, match=reason):
        concat([everything(4), everything(4, **change)])
    with pytest.raises(SchemaError):
        concat([everything(4), replace(everything(4), qid=np.array(list("abcd")))])
    plain = {"weight": None, "position": None}
    joined = concat([everything(4, **plain), everything(4, **plain)])
    assert (joined.weight, joined.position) == (None, None)


def test_texts_of_several_parts_have_one_dictionary():
    known, other = ["a", "b"], ["c", "b", "d"]
    plain = np.array(["x", "y"], dtype=object)

    def joined(*columns):
        parts = [replace(everything(2, columns={}), columns=c) for c in columns]
        return concat(parts).columns

    def named(*given):
        return NamedColumns({"text": texts(*given)})

    same = joined(named([0, 1], known), named([1, 1], known))
    assert same.coded("text").texts is known
    assert same["text"].tolist() == ["a", "b", "b", "b"]
    mixed = joined(named([0, 1], known), named([0, 1], other), named([1, 0], known))
    assert mixed.coded("text").texts == ["a", "b", "c", "d"]
    assert mixed["text"].tolist() == ["a", "b", "c", "b", "b", "a"]
    for part in (NamedColumns({"text": plain}), {"text": plain}):
        found = joined(named([0, 1], known), part)
        assert found.coded("text") is None
        assert found["text"].tolist() == ["a", "b", "x", "y"]


@pytest.mark.parametrize("storage", STORAGE)
def test_slabs_hold_so_many_values(storage):
    def cuts(n_rows, width, values):
        X = STORAGE[storage](np.ones((n_rows, width)))
        return [
            (s.start, s.stop) for s in row_slices(Dataset.from_arrays(X, np.zeros(n_rows)), values)
        ]

    assert cuts(6, 10, 20) == [(0, 2), (2, 4), (4, 6)]
    assert cuts(5, 10, 29) == [(0, 2), (2, 4), (4, 6)]
    assert cuts(3, 10, 5) == [(0, 1), (1, 2), (2, 3)]
    assert cuts(4, 1, 1) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert cuts(0, 3, 5) == []
    assert cuts(2, 0, 1) == [(0, 2)]


# ------------------------------------------------------------------ Bad values in arrays: the err
NAMES = ["price", "rating"]


def _refused(X: object, **options: object) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        Dataset.from_arrays(X, np.zeros(3), **options)
    return caught.value


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix])
def test_what_is_not_finite(value, make):
    X = make([[1.0, 2.0], [0.0, value], [3.0, 0.0]])
    error = _refused(X, feature_names=NAMES)
    assert error.column == "rating"
    assert f"X[1, 'rating'] is {value}" in error.reason
    assert f"X[1, 1] is {value}" in _refused(X).reason


@pytest.mark.parametrize("value", ["dear", np.datetime64("2026-01-01"), [1, 2]])
def test_what_is_no_number(value):
    X = np.array([[1.0, 2.0], [0.5, 1.0], [3.0, 0.0]], dtype=object)
    X[2, 0] = value
    error = _refused(X, feature_names=NAMES)
    assert error.column == "price"
    assert "X[2, 'price'] is" in error.reason


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]", "complex128"])
def test_types_that_are_no_numbers_are_not_cast(kind):
    assert kind in _refused(np.zeros((3, 2), dtype=kind)).reason


@pytest.mark.parametrize(
    ("qid", "reason"),
    [
        ([1, 2, np.nan], "row 2 is missing"),
        ([1, None, 2], "row 1 is missing"),
        (["a", np.nan, "b"], "row 1 is missing"),
        (np.array(["a", None, "b"], dtype=object), "row 1 is missing"),
        ([1, 2.5, 3], "row 1 is"),
        (np.array(["a", 7, "b"], dtype=object), "row 1 is 7"),
        (np.array([1, 2, "c"], dtype=object), "row 2 is 'c'"),
        ([1.0, 2.0, 1e300], "row 2 is"),
    ],
)
def test_query_ids_name_the_row(qid, reason):
    with pytest.raises(SchemaError, match=reason) as caught:
        QueryIndex.from_qid(np.asarray(qid, dtype=object if "a" in qid else None), 3)
    assert caught.value.column == "qid"
    assert caught.value.fix


def test_times_are_no_query_ids():
    with raises_at(SchemaError, column="qid"):
        QueryIndex.from_qid(np.zeros(3, dtype="datetime64[s]"), 3)


def test_query_ids_have_one_dimension():
    with pytest.raises(SchemaError):
        Dataset.from_arrays(np.eye(4), np.arange(4), np.zeros((4, 1), dtype=int))


def test_finite_values_whose_sum_is_not_finite_are_fine():
    X = np.full((4, 2), 1e308)
    assert Dataset.from_arrays(X, np.arange(4), np.zeros(4, dtype=int)).X.max() == 1e308
    X[2, 1] = np.inf
    with pytest.raises(SchemaError, match=r"X\[2, 1\]"):
        Dataset.from_arrays(X, np.arange(4), np.zeros(4, dtype=int))


@pytest.mark.parametrize("value", [2e75, 5e-76, 1e300, 5e-324])
def test_weights_whose_products_are_lost_are_refused(value):
    weight = np.array([1.0, 0.0, value, value])
    given = np.arange(4.0)[:, None], [0, 1, 0, 1]
    with pytest.raises(SchemaError, match=re.escape(f"{value:g} at position 2 is not")):
        Dataset.from_arrays(*given, [1, 1, 2, 2], weight=weight)
    # Also where nothing else is checked.
    with pytest.raises(SchemaError, match="not between 1e-75 and 1e"):
        Dataset(*map(np.array, given), np.array([1, 1, 2, 2]), weight=weight)
    with pytest.raises(SchemaError, match="not between 1e-75 and 1e"):
        RankSVM().fit(*given, qid=[1, 1, 2, 2], query_weight={1: 1.0, 2: value})


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_weights_that_are_none_are_refused(value):
    for make in (Dataset.from_arrays, Dataset):
        with pytest.raises(SchemaError):
            make(np.ones((2, 1)), np.arange(2.0), np.ones(2), weight=np.array([1.0, value]))


@pytest.mark.parametrize("value", [1e75, 1e-75])
def test_weights_of_any_one_unit_train_the_same_model(value):
    rng = np.random.default_rng(2)
    X, y, qid = rng.normal(size=(12, 2)), rng.integers(0, 3, 12), np.repeat([1, 2], 6)
    for ranker in (RankSVM(tol=1e-8, loss="squared_hinge"), LeastSquaresRanker()):
        plain = ranker.fit(X, y, qid=qid).coef_
        other = ranker.fit(X, y, qid=qid, sample_weight=np.full(12, value)).coef_
        np.testing.assert_allclose(other, plain, rtol=1e-4)
