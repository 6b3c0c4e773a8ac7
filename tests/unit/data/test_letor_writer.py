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
from rankine.data.writers import write_letor


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
    with pytest.raises(SchemaError, match="document id"):
        write_letor([Dataset.from_arrays(np.eye(1), [1], [1], docid=[docid])], path)
    with pytest.raises(SchemaError, match="query id"):
        write_letor([Dataset.from_arrays(np.eye(1), [1], np.array([docid]))], path)
    assert not path.exists()


def test_columns_that_text_cannot_hold_are_refused(tmp_path):
    data = Dataset.from_arrays(np.eye(1), [1], [1], columns={"price": [3]})
    with pytest.raises(SchemaError, match="price"):
        write_letor([data], tmp_path / "x.txt")
    with pytest.raises(ParameterError):
        write_letor([data], tmp_path / "x.txt", base=2)
    assert list(tmp_path.iterdir()) == []
