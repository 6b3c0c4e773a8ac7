"""Text that reads back as the very same data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import rankine
from rankine.core.errors import ParameterError, SchemaError
from rankine.data import Dataset
from rankine.data.save import save
from rankine.data.writers import write_letor
from reference.npz import load_npz


def example(dtype=np.float64, *, dense=False, rows=200):
    rng = np.random.default_rng(0)
    X = sparse.random(rows, 40, 0.2, random_state=0, format="csr", dtype=dtype)
    X.data *= (10.0 ** rng.integers(-30, 30, X.nnz)).astype(dtype)
    docid = np.array([f"d{k}" if k % 3 else "" for k in range(rows)])
    qid = np.repeat(np.arange(rows // 10) - 7, 10)
    return Dataset.from_arrays(X.toarray() if dense else X, rng.normal(size=rows), qid, docid=docid)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_round_trip_is_exact(tmp_path, dtype, dense, base, suffix):
    data = example(np.dtype(dtype), dense=dense)
    path = tmp_path / f"x.txt{suffix}"
    blocks = list(data.blocks(30))
    assert len(blocks) > 3
    assert write_letor(blocks, path, base=base) == 200
    back = rankine.load(path, base=base, dtype=dtype, n_features=40, dense=dense)
    assert back.fingerprint == data.fingerprint
    assert back.docid.tolist() == data.docid.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_double_survives(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("w") / "x.txt"
    column = np.array(values)
    write_letor([Dataset.from_arrays(column[:, None], column, np.zeros(len(values), int))], path)
    back = rankine.load(path, n_features=1, dense=True)
    assert back.y.tobytes() == column.tobytes()
    assert (back.X[:, 0] == column).all()


def test_text_ids_weights_positions_and_groups(tmp_path):
    data = Dataset.from_arrays(
        np.eye(3), [2, 1, 0], np.array(["a", "a", "é"]), weight=[0.5, 2, 1], position=[1, 2, 1]
    )
    path = tmp_path / "x.txt"
    write_letor([data], path)
    back = rankine.load(path, qid_type="str", sample_weight=f"{path}.weight")
    assert back.qid.tolist() == ["a", "a", "é"]
    assert back.weight.tolist() == [0.5, 2, 1]
    assert (tmp_path / "x.txt.position").read_text() == "1\n2\n1\n"
    write_letor([data.take(slice(0, 1)), data.take(slice(1, 3))], path, group=True)
    assert rankine.load(path, group=f"{path}.query").qid.tolist() == [0, 0, 1]


def test_zeros_on_request(tmp_path):
    path = tmp_path / "x.txt"
    data = Dataset.from_arrays(np.array([[0.0, 1.0]]), [1], [1])
    write_letor([data], path)
    assert path.read_bytes() == b"1 qid:1 2:1\n"
    write_letor([data], path, zeros=True)
    assert path.read_bytes() == b"1 qid:1 1:0 2:1\n"


@pytest.mark.parametrize("docid", ["a b", "a\nb", "a\tb", "\x1b[31m"])
def test_ids_that_text_cannot_hold_are_refused(tmp_path, docid):
    path = tmp_path / "x.txt"
    with pytest.raises(SchemaError):
        write_letor([Dataset.from_arrays(np.eye(1), [1], [1], docid=[docid])], path)
    with pytest.raises(SchemaError):
        write_letor([Dataset.from_arrays(np.eye(1), [1], np.array([docid]))], path)
    assert not path.exists()


def test_columns_that_text_cannot_hold_are_refused(tmp_path):
    data = Dataset.from_arrays(np.eye(1), [1], [1], columns={"price": [3]})
    with pytest.raises(SchemaError):
        write_letor([data], tmp_path / "x.txt")
    with pytest.raises(ParameterError):
        write_letor([data], tmp_path / "x.txt", base=2)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ Every binary format gives bac
TEXT = np.dtypes.StringDType()


def make(kind, dtype=np.float64, **more):
    rng = np.random.default_rng(3)
    dense = np.round(rng.normal(size=(40, 7)), 3) * (rng.random((40, 7)) < 0.5)
    X = dense.astype(dtype)
    X = sparse.csr_matrix(X) if kind == "sparse" else X
    y = rng.integers(0, 5, 40) / 4
    qid = np.repeat(np.arange(8) * 10 - 20, 5)
    return Dataset.from_arrays(X, y, qid, **more)


def load(path):
    return load_npz(path) if path.suffix == ".npz" else rankine.load(path)


def same(a, b):
    assert a.fingerprint == b.fingerprint
    assert a.X.dtype == b.X.dtype
    assert a.feature_names == b.feature_names
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.qid, b.qid)
    for name in ("docid", "weight", "position"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None), name
        if left is not None:
            assert left.tolist() == right.tolist()
    assert list(a.columns) == list(b.columns)
    for name in a.columns:
        assert a.columns[name].tolist() == b.columns[name].tolist()


@pytest.mark.parametrize("suffix", ["parquet", "feather", "arrows", "npz"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("layout", [None, "columns", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip(tmp_path, suffix, kind, layout, dtype):
    data = make(kind, dtype)
    path = tmp_path / f"data.{suffix}"
    assert save(data.blocks(7), path, layout=layout) == 40
    back = load(path)
    same(back, data)
    expected = kind if layout is None else {"columns": "dense"}.get(layout, layout)
    assert sparse.issparse(back.X) == (expected == "sparse")


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_everything_a_dataset_holds_comes_back(tmp_path, suffix, kind):
    rng = np.random.default_rng(5)
    data = make(
        kind,
        docid=np.array([f"döc {k}\n" for k in range(40)], dtype=TEXT),
        feature_names=[f"näme {j}" for j in range(7)],
        weight=rng.random(40) + 0.1,
        position=rng.integers(1, 9, 40),
        columns={
            "shown": rng.integers(1, 5, 40),
            "brand": np.array([f"b{k % 3}" for k in range(40)]),
            "time": np.datetime64("2026-01-01T00:00:00", "s") + np.arange(40),
        },
    )
    path = tmp_path / f"data.{suffix}"
    data.save(path)
    same(load(path), data)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz"])
def test_string_queries_and_streams(tmp_path, suffix):
    data = make("sparse")
    data = Dataset.from_arrays(data.X, data.y, [f"q{q}" for q in data.qid])
    path = tmp_path / f"data.{suffix}"
    data.save(path)
    same(load(path), data)
    if suffix == "npz":
        return
    blocks = list(rankine.scan(path, block_rows=6))
    assert [block.n_rows for block in blocks] == [10, 10, 10, 10]
    assert {block.n_features for block in blocks} == {7}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("base", [0, 1])
def test_arrays_are_writable_so_that_kernels_compile_once(tmp_path, suffix, kind, base):
    data = make(kind, weight=np.ones(40), position=np.ones(40, int), columns={"m": np.ones(40)})
    path = tmp_path / f"data.{suffix}"
    data.save(path, base=base)
    for found in (rankine.load(path, base=base), next(rankine.scan(path, base=base).raw_blocks())):
        arrays = [found.y, found.qid, found.weight, found.position, *found.columns.values()]
        X = found.X
        arrays += [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
        assert all(array.flags.writeable for array in arrays)
