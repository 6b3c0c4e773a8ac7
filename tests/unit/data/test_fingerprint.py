import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import rankine
from rankine.data import Dataset
from rankine.data import fingerprint as module
from rankine.data.fingerprint import fingerprint

rng = np.random.default_rng(4)
X = np.round(rng.normal(size=(30, 6)), 2) * (rng.random((30, 6)) < 0.5)
Y = rng.integers(0, 3, 30)
QID = np.repeat(np.arange(10), 3)
WHOLE = Dataset.from_arrays(X, Y, QID).fingerprint


@pytest.mark.kernels
def test_storage_does_not_matter():
    stored_zero = sparse.csr_matrix(X)
    stored_zero.data[::3] = 0
    zeroed = stored_zero.toarray()
    assert Dataset.from_arrays(sparse.csr_matrix(X), Y, QID).fingerprint == WHOLE
    assert Dataset.from_arrays(np.asfortranarray(X), Y, QID).fingerprint == WHOLE
    assert (
        Dataset.from_arrays(stored_zero, Y, QID).fingerprint
        == Dataset.from_arrays(zeroed, Y, QID).fingerprint
    )
    wide = sparse.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert Dataset.from_arrays(wide, Y, QID).fingerprint == WHOLE


def test_float32_values_that_are_exact_have_the_same_digest():
    quarters = np.rint(X * 4) / 4
    a = Dataset.from_arrays(quarters, Y, QID).fingerprint
    assert Dataset.from_arrays(quarters.astype(np.float32), Y, QID).fingerprint == a


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 30), max_size=6), st.booleans(), st.integers(1, 50))
def test_blocks_have_the_digest_of_the_whole(cuts, csr, slab):
    data = Dataset.from_arrays(sparse.csr_matrix(X) if csr else X, Y, QID)
    ends = sorted({0, 30, *(min(cut, 30) for cut in cuts)})
    before, module._SLAB_VALUES = module._SLAB_VALUES, slab
    try:
        blocks = [data.take(slice(a, b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        assert fingerprint(blocks) == WHOLE
    finally:
        module._SLAB_VALUES = before


@pytest.mark.kernels
def test_every_part_counts():
    changed = X.copy()
    changed[np.nonzero(X)[0][0], np.nonzero(X)[1][0]] += 1e-9
    others = [
        Dataset.from_arrays(changed, Y, QID),
        Dataset.from_arrays(np.roll(X, 1, axis=1), Y, QID),
        Dataset.from_arrays(X[::-1], Y, QID),
        Dataset.from_arrays(X, Y + 1, QID),
        Dataset.from_arrays(X, Y, QID + 1),
        Dataset.from_arrays(X, Y, [str(q) for q in QID]),
        Dataset.from_arrays(X, Y, QID, feature_names=list("abcdef")),
        Dataset.from_arrays(np.hstack([X, np.zeros((30, 1))]), Y, QID),
        Dataset.from_arrays(X[:29], Y[:29], QID[:29]),
        Dataset.from_arrays(X.reshape(15, 12), Y[:15], QID[:15]),
    ]
    digests = {WHOLE, *(other.fingerprint for other in others)}
    assert len(digests) == len(others) + 1


@pytest.mark.parametrize("pair", [(["ab", "c"], ["a", "bc"]), (["1", "2"], ["12", ""])])
def test_ids_do_not_run_together(pair):
    a, b = (Dataset.from_arrays(np.eye(2), [0, 1], ids).fingerprint for ids in pair)
    assert a != b


@pytest.mark.parametrize("names", [None, ["a", "b", "c"]])
def test_the_digest_is_made_as_it_is_documented(names):
    rows = np.array([[0.0, 1.5, 0.0], [0.0, 0.0, 0.0], [-2.0, 0.0, 4.0]])
    columns = (
        np.array([2.0, 0.0, 1.0]),
        np.array([7, 7, -9], dtype="<i8"),
        np.array([1, 0, 2], dtype="<i8"),
        np.array([1, 0, 2], dtype="<i4"),
        np.array([1.5, -2.0, 4.0]),
    )
    whole = hashlib.sha256(b"rankine-data-1" + np.array([3, 3], dtype="<i8").tobytes())
    whole.update(repr(names and tuple(names)).encode())
    for column in columns:
        whole.update(hashlib.sha256(column.tobytes()).digest())
    for kind in (np.asarray, sparse.csr_matrix):
        data = Dataset.from_arrays(kind(rows), columns[0], columns[1], feature_names=names)
        assert data.fingerprint == whole.hexdigest()


def test_negative_zero_labels_are_zero():
    a = Dataset.from_arrays(np.eye(2), [0.0, 1.0]).fingerprint
    assert Dataset.from_arrays(np.eye(2), [-0.0, 1.0]).fingerprint == a


@pytest.mark.parametrize("suffix", ["txt", "parquet", "arrow"])
def test_a_stream_has_the_digest_of_its_file(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    Dataset.from_arrays(X, Y, QID).save(path)
    stream = rankine.scan(path, block_rows=7, n_features=6)
    assert fingerprint(stream) == WHOLE
    assert stream.compute_fingerprint() == WHOLE
    assert rankine.load(path, n_features=6).fingerprint == WHOLE
