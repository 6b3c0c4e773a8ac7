"""Every binary format gives back exactly what was written, in both layouts."""

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine.data import Dataset
from rankine.data.save import save
from reference.npz import load_npz

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
