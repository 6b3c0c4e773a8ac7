from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset
from scipy import sparse

import rankine
from error_checks import raises_at
from rankine.core.errors import ChangedDataError, DataError, FileKindError, SchemaError
from rankine.data import Dataset, frames
from rankine.data.frames import is_frame, split_frame, take_qid

COLUMNS = {
    "qid": ["a", "a", "b"],
    "price": np.array([1.5, 2, 3], dtype=np.float32),
    "rank": np.array([0.5, 0.25, 0], dtype=np.float32),
}
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "table": pa.table,
    "batch": pa.record_batch,
}
Y = [1.0, 0.0, 2.0]


@pytest.fixture(params=list(KINDS))
def make(request):
    return KINDS[request.param]


def test_every_library_gives_the_same_dataset(make):
    data = Dataset.from_arrays(make(COLUMNS), Y)
    assert data.feature_names == ("price", "rank")
    assert data.qid.tolist() == ["a", "a", "b"]
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, np.stack([COLUMNS["price"], COLUMNS["rank"]], axis=1))


def test_one_wider_column_makes_float64(make):
    data = Dataset.from_arrays(make(COLUMNS | {"clicks": [1, 2, 2**40]}), Y)
    assert data.X.dtype == np.float64
    assert data.X[2, 2] == 2**40


def test_the_qid_column_can_be_taken_out(make):
    rest, qid = take_qid(make(COLUMNS))
    assert qid.tolist() == ["a", "a", "b"]
    assert split_frame(rest).names == ("price", "rank")
    assert take_qid(rest)[1] is None


def test_booleans_and_integers_are_numbers(make):
    parts = split_frame(make({"new": [True, False, True], "n": [1, 2, 3]}))
    np.testing.assert_array_equal(parts.values, [[1, 1], [0, 2], [1, 3]])


@pytest.mark.parametrize("column", [["x", "y", "z"], ["x", None, "z"]])
def test_text_says_what_to_do(make, column):
    with raises_at(SchemaError, column="brand"):
        Dataset.from_arrays(make(COLUMNS | {"brand": column}), Y)


def test_missing_values_are_nan(make):
    data = Dataset.from_arrays(make(COLUMNS | {"clicks": [1.0, None, 2.0]}), Y)
    assert np.isnan(data.X[1, data.feature_names.index("clicks")])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_values_that_are_not_finite_are_named(make, value):
    with raises_at(SchemaError, column="ctr"):
        Dataset.from_arrays(make(COLUMNS | {"ctr": np.array([1.0, 0.5, value])}), Y)


def test_missing_query_ids_are_refused(make):
    with raises_at(SchemaError, column="qid"):
        Dataset.from_arrays(make(COLUMNS | {"qid": ["a", None, "b"]}), Y)


def test_fractional_query_ids_are_refused(make):
    with raises_at(SchemaError, column="qid"):
        Dataset.from_arrays(make(COLUMNS | {"qid": [1.5, 1.5, 2.0]}), Y)


def test_given_names_replace_those_of_the_frame(make):
    data = Dataset.from_arrays(make(COLUMNS), Y, feature_names=["p", "r"])
    assert data.feature_names == ("p", "r")
    with pytest.raises(SchemaError) as caught:
        Dataset.from_arrays(make(COLUMNS), Y, feature_names=["p", "r", "s"])
    assert caught.value.parameter == "feature_names"


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean", "int64[pyarrow]"])
def test_nullable_pandas_columns(dtype):
    frame = pd.DataFrame({"a": pd.array([1, 0, 1], dtype=dtype)})
    np.testing.assert_array_equal(split_frame(frame)[0].ravel(), [1, 0, 1])
    frame.loc[1, "a"] = pd.NA
    np.testing.assert_array_equal(split_frame(frame)[0].ravel(), [1, np.nan, 1])


def test_pandas_float32_nullable_stays_float32():
    frame = pd.DataFrame({"a": pd.array([1.5, 2.5], dtype="Float32")})
    assert split_frame(frame)[0].dtype == np.float32


def test_pandas_sparse_columns_stay_sparse():
    frame = pd.DataFrame(np.eye(3, dtype=np.float32)).astype(pd.SparseDtype(np.float32, 0))
    data = Dataset.from_arrays(frame, Y, [1, 1, 1])
    assert sparse.issparse(data.X)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X.toarray(), np.eye(3))
    filled = pd.DataFrame({"a": pd.arrays.SparseArray([1.0, 1.0, 2.0], fill_value=1.0)})
    with pytest.raises(SchemaError):
        Dataset.from_arrays(filled, Y)


def test_numbered_pandas_columns_are_no_names():
    assert split_frame(pd.DataFrame(np.eye(2))).names is None


def test_twin_columns_are_refused():
    with raises_at(SchemaError, column="a"):
        split_frame(pd.DataFrame(np.eye(2), columns=["a", "a"]))


@pytest.mark.parametrize(
    "qid",
    [
        pd.Series(["x", "x", "y"], dtype="category"),
        pd.Series(["x", "x", "y"]),
        pl.Series(["x", "x", "y"]),
        pl.Series(["x", "x", "y"], dtype=pl.Categorical),
        pa.chunked_array([["x"], ["x", "y"]]),
    ],
)
def test_query_ids_of_any_library(qid):
    assert Dataset.from_arrays(np.eye(3), Y, qid).qid.tolist() == ["x", "x", "y"]


def test_categorical_qid_column():
    frame = pd.DataFrame(COLUMNS).astype({"qid": "category"})
    assert Dataset.from_arrays(frame, Y).qid.tolist() == ["a", "a", "b"]
    polar = pl.DataFrame(COLUMNS).with_columns(pl.col("qid").cast(pl.Categorical))
    assert Dataset.from_arrays(polar, Y).qid.tolist() == ["a", "a", "b"]


def test_lazy_frames_are_collected():
    data = Dataset.from_arrays(pl.DataFrame(COLUMNS).lazy(), Y)
    assert data.fingerprint == Dataset.from_arrays(pl.DataFrame(COLUMNS), Y).fingerprint


def test_float32_arrays_are_used_as_they_stand():
    X = np.ones((3, 2), dtype=np.float32)
    assert Dataset.from_arrays(X, Y).X is X
    rows = sparse.csr_matrix(X)
    assert np.shares_memory(Dataset.from_arrays(rows, Y).X.data, rows.data)


def test_frames_of_no_columns_or_rows():
    for frame in (pd.DataFrame(index=range(3)), pa.table({"qid": ["a", "a", "b"]})):
        data = Dataset.from_arrays(frame, Y)
        assert (data.X.shape, data.X.dtype) == ((3, 0), np.float64)
    for kind in (pd.DataFrame, pl.DataFrame, pa.table):
        empty = Dataset.from_arrays(kind({"a": np.zeros(0, np.float32)}), [])
        assert (empty.X.shape, empty.X.dtype) == ((0, 1), np.float32)


def test_sparse_columns_beside_others_become_dense():
    mixed = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 2.0]), "b": [1.0, 3.0]})
    assert split_frame(mixed)[0].tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize("values", [["x", "y", "x"], [1, 2, 1], [1.5, 2.5, 1.5]])
def test_categories_are_no_numbers(values):
    with raises_at(SchemaError, column="size"):
        split_frame(pd.DataFrame({"size": pd.Categorical(values)}))


def test_arrays_are_no_frames():
    for other in (pa.chunked_array([[1.0]]), np.eye(2), sparse.eye(2), SimpleNamespace(schema=1),
                  [[1.0]]):  # fmt: skip
        assert not is_frame(other)
        assert take_qid(other) == (other, None) or isinstance(other, np.ndarray)
    assert split_frame(np.eye(2), ["a", "b"]).names == ("a", "b")
    half = pa.table({"a": pa.array(np.array([1, 2], np.float16))})
    assert split_frame(half)[0].dtype == np.float32
    with raises_at(SchemaError, column="b"):
        split_frame(pa.table([[1.0], [2.0], [3.0]], names=["a", "b", "b"]))


# ------------------------------------------------------------------ tables that are read as files
LOG = pa.table(
    {
        "qid": [1, 1, 2, 2, 3, 3],
        "label": [1, 0, 0, 1, 1, 0],
        "price": [0.5, 2.0, 1.0, 4.0, None, 3.0],
        "brand": pa.array(["a", "b", "a", None, "b", "a"]).dictionary_encode(),
        "name": ["x", "yy", None, "z", "", "x"],
        "tags": [[1], [], [2], [3], [4], [5]],
    }
)
TABLES = {
    "pandas": LOG.to_pandas,
    "polars": lambda: pl.from_arrow(LOG),
    "lazy": lambda: pl.from_arrow(LOG).lazy(),
    "table": lambda: LOG,
    "reader": lambda: LOG.to_reader(max_chunksize=2),
    "dataset": lambda: dataset.dataset(LOG),
    "stream": lambda: Stream(LOG),
}
OPTIONS = {"features": ["price"], "columns": ["brand", "name"], "where": "brand != 'b'"}


class Stream:
    """An object with Arrow's stream interface alone."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("rows", [1, 100])
def test_tables_give_the_rows_of_a_file(kind, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "_PANDAS_ROWS", 4)
    pq.write_table(LOG, tmp_path / "log.parquet")
    data = rankine.load(TABLES[kind](), **OPTIONS, block_rows=rows)
    expected = rankine.load(tmp_path / "log.parquet", **OPTIONS)
    assert data.fingerprint == expected.fingerprint
    assert data.columns["brand"].tolist() == expected.columns["brand"].tolist() == ["a"] * 3
    assert data.columns["name"].tolist() == expected.columns["name"].tolist() == ["x", "", "x"]
    stream = rankine.scan(TABLES[kind](), **OPTIONS, block_rows=rows)
    assert stream.compute_fingerprint() == expected.fingerprint


def test_what_is_read_once_says_so():
    fields = {"query": "qid", "label": "label", "one_hot": ["brand"]}
    with pytest.raises(FileKindError):
        rankine.logs.scan(LOG.to_reader(), **fields)
    stream = rankine.scan(LOG.to_reader(), **OPTIONS)
    list(stream)
    with pytest.raises(ChangedDataError):
        list(stream)
    emptied = rankine.scan(Stream(LOG.to_reader()), **OPTIONS)
    with pytest.raises(DataError):
        list(emptied)
        list(emptied)


def test_a_table_that_fails_in_the_middle_is_an_error():
    def batches():
        yield from LOG.to_batches(max_chunksize=2)
        raise ArithmeticError("the disk of the warehouse is full")

    reader = pa.RecordBatchReader.from_batches(LOG.schema, batches())
    with pytest.raises(DataError, match="warehouse is full") as error:
        rankine.load(reader, **OPTIONS)
    assert error.value.file == "<RecordBatchReader>"

    def fail(frame):
        raise ArithmeticError("no such function")

    lazy = pl.from_arrow(LOG).lazy().map_batches(fail, schema=pl.from_arrow(LOG).schema)
    with pytest.raises(DataError) as error:
        rankine.load(lazy, **OPTIONS)
    assert error.value.file == "<LazyFrame>"
    with pytest.raises(DataError):
        rankine.RankSVM().fit(lazy, [0])


def test_only_the_columns_that_are_read_are_computed():
    def fail(column):
        raise ArithmeticError("computed")

    lazy = (
        pl.from_arrow(LOG)
        .lazy()
        .with_columns(pl.col("label").map_batches(fail, return_dtype=pl.Int64).alias("unused"))
    )
    assert rankine.load(lazy, **OPTIONS).n_rows == 3
