import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import rankine
from rankine.core.errors import (
    CompressionError,
    EmptyDataError,
    FileKindError,
    LimitError,
    SchemaError,
)
from rankine.data import Dataset

X = np.arange(12, dtype=np.float32).reshape(4, 3)
CSR = sparse.csr_matrix(X)
PARTS = {
    "data": CSR.data,
    "indices": CSR.indices,
    "indptr": CSR.indptr,
    "shape": np.array(CSR.shape),
}
REST = {"y": np.array([2, 0, 1, 0]), "qid": np.array([1, 1, 2, 2])}


@pytest.fixture
def put(tmp_path):
    def write(**members):
        path = tmp_path / "data.npz"
        np.savez(path, **{name: value for name, value in members.items() if value is not None})
        return str(path)

    return write


def refused(path, kind, column=None, match=None, **options):
    with pytest.raises(kind, match=match) as caught:
        rankine.load(path, **options)
    assert type(caught.value) is kind
    assert caught.value.file == path
    if column is not None:
        assert caught.value.column == column
    return caught.value


def test_dense_and_csr(put):
    dense = rankine.load(put(X=X, **REST))
    assert dense.X.dtype == np.float32
    np.testing.assert_array_equal(dense.X, X)
    rows = rankine.load(put(**PARTS, **REST))
    assert sparse.issparse(rows.X)
    assert rows.fingerprint == dense.fingerprint
    assert rows.qid.tolist() == [1, 1, 2, 2]


def test_optional_members(put):
    path = put(
        X=X, **REST,
        docid=np.array(["a", "b", "c", "ä"]), weight=np.array([1, 2, 3, 4]),
        position=np.array([1, 2, 1, 2]), feature_names=np.array(["u", "v", "w"]),
        price=np.array([1.5, 2.5, 3.5, 4.5]), brand=np.array(["x", "y", "x", "y"]),
    )  # fmt: skip
    data = rankine.load(path, columns=["price", "brand"])
    assert data.docid.tolist() == ["a", "b", "c", "ä"]
    assert data.weight.tolist() == [1, 2, 3, 4]
    assert data.position.tolist() == [1, 2, 1, 2]
    assert data.feature_names == ("u", "v", "w")
    assert data.columns["brand"].tolist() == ["x", "y", "x", "y"]


def test_roles_by_other_names(put):
    path = put(X=X, clicks=REST["y"], session=np.array(["a", "a", "b", "b"]))
    data = rankine.load(path, label="clicks", query="session")
    assert data.qid.tolist() == ["a", "a", "b", "b"]
    assert rankine.load(path, label=None, query=None).n_queries == 1
    refused(path, SchemaError, column="label")
    refused(path, SchemaError, column="who", label="clicks", query="session", docid="who")
    both = put(X=X, clicks=REST["y"], y=REST["y"] * 0, qid=REST["qid"])
    assert rankine.load(both, label="clicks").y.tolist() == [2, 0, 1, 0]
    called = put(X=X, label=REST["y"], qid=REST["qid"])
    assert rankine.load(called).y.tolist() == [2, 0, 1, 0]


def test_archives_are_not_streamed(put):
    path = put(**PARTS, **REST)
    for use in (list, lambda stream: stream.n_features, lambda stream: stream.feature_names):
        with pytest.raises(FileKindError, match="read whole, not as a stream") as caught:
            use(rankine.scan(path))
        assert caught.value.file == path


def test_matrices_stored_by_columns_are_understood(put):
    data = rankine.load(put(X=np.asfortranarray(X), **REST))
    np.testing.assert_array_equal(data.X, X)
    assert data.X.flags.c_contiguous


def test_byte_orders_are_understood(put):
    swapped = put(X=X.astype(">f4"), y=REST["y"].astype(">f8"), qid=REST["qid"].astype(">i8"))
    np.testing.assert_array_equal(rankine.load(swapped).X, X)


@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_values_that_are_not_finite(put, value):
    bad = X.copy()
    bad[2, 1] = value
    error = refused(put(X=bad, **REST), SchemaError, column="X[:, 1]")
    assert error.line == 3
    named = put(X=bad, **REST, feature_names=np.array(["u", "v", "w"]))
    assert refused(named, SchemaError, column="v").line == 3
    rows = sparse.csr_matrix(bad)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    error = refused(put(**parts, shape=PARTS["shape"], **REST), SchemaError, column="data")
    assert error.line == 3
    labels = np.array([1, 0, 1, value])
    assert refused(put(X=X, y=labels, qid=REST["qid"]), SchemaError, column="y").line == 4


def test_nan_is_a_missing_value(put):
    bad = X.copy()
    bad[2, 1] = np.nan
    data = rankine.load(put(X=bad, **REST), on_bad_row="skip")
    assert np.isnan(data.X[2, 1])
    assert data.read_counts["missing_values"] == 1
    bad[2, 1] = np.inf
    assert rankine.load(put(X=bad, **REST), on_bad_row="skip").n_rows == 3


SHAPES = {
    "X of one dimension": ({"X": X[:, 0]}, "X"),
    "X of text": ({"X": X.astype(str)}, "X"),
    "complex X": ({"X": X.astype(complex)}, "X"),
    "short y": ({"y": np.zeros(3)}, "y"),
    "text y": ({"y": np.array(list("abcd"))}, "y"),
    "float qid": ({"qid": np.zeros(4)}, "qid"),
    "wide qid": ({"qid": np.zeros((4, 1), int)}, "qid"),
    "low position": ({"position": np.zeros(4, int)}, "position"),
    "negative weight": ({"weight": np.array([1, 1, 1, -1])}, "weight"),
    "too few names": ({"feature_names": np.array(["a"])}, "feature_names"),
    "huge integers": ({"X": np.full((4, 3), 2**60)}, "X"),
    "names of numbers": ({"feature_names": np.arange(3)}, "feature_names"),
    "complex y": ({"y": np.zeros(4, complex)}, "y"),
    "nothing in X": ({"X": np.zeros((4, 3), "V0")}, "X"),
}


@pytest.mark.parametrize("name", list(SHAPES))
def test_members_of_a_wrong_shape_or_type(put, name):
    change, column = SHAPES[name]
    error = refused(put(**({"X": X, **REST} | change)), SchemaError)
    assert error.column == column


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.float16, np.float64])
def test_matrices_of_every_kind_of_number(put, kind):
    found = rankine.load(put(X=(X > 5).astype(kind), **REST))
    assert found.X.dtype == (np.float32 if kind is np.float16 else np.float64)
    assert found.X.tolist() == (X > 5).tolist()
    assert rankine.load(put(X=X[:, :0], **REST)).X.shape == (4, 0)


def test_widths_that_were_declared(put):
    dense, rows = put(X=X, **REST), {**PARTS, **REST}
    assert rankine.load(dense, n_features=3).X.shape == (4, 3)
    for width in (2, 4):
        refused(
            dense,
            SchemaError,
            column="X",
            match=f"3 features where n_f.*={width}",
            n_features=width,
        )
    path = put(**rows, feature_names=np.array(["u", "v", "w"]))
    wide = rankine.load(path, n_features=5)
    assert wide.X.shape == (4, 5)
    assert wide.feature_names is None
    assert rankine.load(path, n_features=3).feature_names == ("u", "v", "w")
    refused(path, SchemaError, column="X", n_features=2)


def test_empty_rows_and_missing_values_of_csr(put):
    some = X.copy()
    some[[0, 2]] = 0
    some[3, 1] = np.nan
    rows = sparse.csr_matrix(some)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    data = rankine.load(put(**parts, shape=PARTS["shape"], **REST))
    np.testing.assert_array_equal(data.X.toarray(), some)
    assert data.read_counts == {"missing_values": 1}


def test_members_that_expand_too_far(tmp_path, monkeypatch):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=np.zeros((100, 10)), y=np.zeros(100), qid=np.zeros(100, int))
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: (info.file_size, info.compress_size) for info in archive.infolist()}
    full, packed = sizes["X.npy"]
    monkeypatch.setattr("rankine.data.readers.npz._RATIO_FREE", 1000)
    fits = -(-full // packed)
    assert rankine.load(path, max_ratio=fits).n_rows == 100
    refused(str(path), LimitError, column="X", match="expands", max_ratio=fits - 1)
    monkeypatch.setattr("rankine.data.readers.npz._RATIO_FREE", full)
    assert rankine.load(path, max_ratio=1).n_rows == 100
    monkeypatch.setattr("rankine.data.readers.npz._RATIO_FREE", full - 1)
    refused(str(path), LimitError, column="X", match="expands", max_ratio=1)


CSR_FAULTS = {
    "pointer too short": ({"indptr": np.array([0, 3, 6])}, SchemaError),
    "pointer not from 0": ({"indptr": np.array([1, 3, 6, 9, 11])}, SchemaError),
    "pointer falls": ({"indptr": np.array([0, 6, 3, 9, 11])}, SchemaError),
    "pointer too far": ({"indptr": np.array([0, 3, 6, 9, 99])}, SchemaError),
    "pointer stops early": ({"indptr": np.array([0, 3, 6, 9, 10])}, SchemaError),
    "index beyond": ({"shape": np.array([4, 2])}, LimitError),
    "negative index": ({"indices": CSR.indices - 1}, SchemaError),
    "index twice": ({"indices": np.zeros_like(CSR.indices)}, SchemaError),
    "fewer values": ({"data": CSR.data[:-1]}, SchemaError),
    "float indices": ({"indices": CSR.indices.astype(float)}, SchemaError),
    "three sides": ({"shape": np.array([4, 3, 1])}, SchemaError),
    "negative rows": ({"shape": np.array([-4, 3])}, SchemaError),
    "too many features": ({"shape": np.array([4, 2**40])}, LimitError),
    "no shape": ({"shape": None}, SchemaError),
    "no rows at all": (
        {"shape": np.array([-1, 3]), "indptr": np.zeros(0, int)}
        | dict.fromkeys(("data", "indices"), np.zeros(0, int)),
        SchemaError,
    ),
    "no rows": (
        {
            "shape": np.array([0, 3]),
            "indptr": np.zeros(1, int),
            "y": np.zeros(0),
            "qid": np.arange(0),
        }
        | dict.fromkeys(("data", "indices"), np.zeros(0, int)),
        EmptyDataError,
    ),
    "values in a square": ({"data": CSR.data[None]}, SchemaError),
}
REASONS = {
    "pointer too short": "indptr is int64 of shape (3,) for 4 rows",
    "pointer falls": "indptr does not rise from 0 to 11",
    "pointer stops early": "indptr does not rise from 0 to 11",
    "fewer values": "there are not as many values as indices",
    "float indices": "indices is float64 of shape (11,)",
    "three sides": "shape is int64 of shape (3,)",
    "negative rows": "indptr is int64 of shape (5,) for -4 rows",
    "no rows at all": "indptr is int64 of shape (0,) for -1 rows",
    "values in a square": "data is float32 of shape (1, 11)",
}


@pytest.mark.parametrize("name", list(CSR_FAULTS))
def test_csr_parts_that_do_not_fit(put, name):
    change, kind = CSR_FAULTS[name]
    path = put(**(PARTS | REST | change))
    if kind is EmptyDataError:
        with pytest.raises(EmptyDataError):
            rankine.load(path)
        return
    assert REASONS.get(name, "") in refused(path, kind).reason


def test_unsorted_rows_are_sorted(put):
    order = np.array([1, 0, 4, 3, 2, 5, 6, 7, 10, 9, 8])
    data = rankine.load(
        put(**(PARTS | {"data": CSR.data[order], "indices": CSR.indices[order]}), **REST)
    )
    np.testing.assert_array_equal(data.X.toarray(), X)
    assert data.X.has_canonical_format


def test_objects_are_never_read(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=X, y=np.array([1, 2, 3, object()], dtype=object), qid=REST["qid"])
    assert refused(str(path), SchemaError, match="never read").column == "y"


def rewrite(path, change):
    """Copy an archive, passing the bytes of each member through ``change``."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members.items():
            new.writestr(name, change(name, data))


def test_a_header_that_lies(put):
    path = put(X=X, **REST)
    for lie in (b"(9, 3), ", b"(4, 9), ", b"(-4, -3)", b"(1, 3), "):
        rewrite(path, lambda _, data, lie=lie: data.replace(b"(4, 3), ", lie))
        assert refused(path, SchemaError, match="says it holds").column == "X"
        path = put(X=X, **REST)
    rewrite(path, lambda name, data: data[:20] if name == "X.npy" else data)
    assert refused(path, SchemaError, match="not an array").column == "X"


def test_a_damaged_member(put):
    path = Path(put(X=X, **REST))
    raw = bytearray(path.read_bytes())
    raw[raw.index(X.tobytes()) + 5] ^= 1
    path.write_bytes(raw)
    assert refused(str(path), SchemaError, match="CRC").column == "X"
    long = np.arange(4000.0).reshape(4, 1000)
    whole = bytearray(Path(put(X=long, **REST)).read_bytes())
    whole[whole.index(long.tobytes()) + 31_000] ^= 1
    path.write_bytes(whole)
    assert refused(str(path), SchemaError, match="is damaged: Bad CRC").column == "X"
    raw[6] |= 1  # says that it is encrypted
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    assert "X" in str(refused(str(path), CompressionError))


def test_twin_members(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=X, **REST)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("y.npy", b"other")
    refused(str(path), SchemaError, match="two members")


def test_the_writer_keeps_its_word(tmp_path):
    data = Dataset.from_arrays(X, REST["y"], REST["qid"], columns={"price": np.arange(4)})
    path = tmp_path / "out.npz"
    data.save(path)
    with np.load(path, allow_pickle=False) as found:
        np.testing.assert_array_equal(found["X"], X)
        assert found["price"].tolist() == [0, 1, 2, 3]
    first = path.read_bytes()
    data.save(path)
    assert path.read_bytes() == first
    reserved = Dataset.from_arrays(X, REST["y"], columns={"indptr": np.arange(4)})
    with pytest.raises(SchemaError, match="indptr"):
        reserved.save(path)
    with pytest.raises(SchemaError, match="different columns"):
        rankine.data.save.save([data, Dataset.from_arrays(X, REST["y"])], path)
    assert path.read_bytes() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.npz"]
