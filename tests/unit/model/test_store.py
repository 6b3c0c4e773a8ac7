"""Model files: what is written, what is read back, and what is refused."""

import os

import numpy as np
import pytest

from rankine.core.errors import (
    DigestError,
    ModelFormatError,
    ModelVersionError,
)
from rankine.core.specs import ListRange
from rankine.model import LinearModel, ModelBundle
from rankine.model import container as container_module
from rankine.model.store import load_any
from rankine.model.weights import Probe, Probes
from unit.model.test_bundle import bundle
from unit.model.test_container import DOCUMENT, PROBE, TENSORS, packed
from unit.model.test_linear import NAMES


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "tree"},
        {"n_features": -1},
        {"n_features": 2.5},
        {"n_features": 10**12},
        {"n_features": True},
        {"base": 7},
        {"metric": 3},
        {"transforms": [{"type": "exec"}]},
        {"transforms": [{"type": "list_range", "extra": 1}]},
        {"probes": {"rows": [], "scores": []}},
        {"probes": {"rows": [{"indices": [5], "values": [1.0]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [1, 0], "values": [1.0, 2.0]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [1], "values": [1]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [-1], "values": [1.0]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [2], "values": [1.0]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [1, 1], "values": [1.0, 2.0]}], "scores": [1.0]}},
        {"probes": {"rows": [{"indices": [1], "values": [1.0, 2.0]}], "scores": [1.0]}},
        {"probes": {"rows": [PROBE], "scores": [1.0, 2.0]}},
        {"probes": {"rows": [PROBE] * 17, "scores": [1.0] * 17}},
        {"surprise": 1},
    ],
)
def test_documents_that_no_model_has_are_refused(change):
    with pytest.raises(ModelFormatError):
        LinearModel.from_bytes(packed({**DOCUMENT, **change}, TENSORS))


@pytest.mark.parametrize(
    ("starts", "topics", "ends"),
    [([0, 2, 1], b"ab", [1, 2]), ([0, 2, 1, 2], b"abc", [1, 2, 3]),
     ([0, 1, 2, 2], b"ab", [1, 2]), ([0, 1], b"ab", [1, 2]), ([1, 1, 2], b"ab", [1, 2]),
     ([0, 1, 3], b"ab", [1, 2]), ([0, 1, 2], b"aa", [1, 2]), ([], b"", [])],
)  # fmt: skip
def test_bundles_with_bad_rows_are_refused(starts, topics, ends):
    tensors = {
        **TENSORS,
        "starts": np.array(starts, dtype=np.int64),
        "topics": np.frombuffer(topics, np.uint8),
        "topic_ends": np.array(ends, dtype=np.int64),
    }
    with pytest.raises(ModelFormatError):
        ModelBundle.from_bytes(packed({**DOCUMENT, "kind": "bundle"}, tensors))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of POSIX")
@pytest.mark.timeout(30)
def test_a_pipe_or_a_folder_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFormatError) as caught:
        LinearModel.load(tmp_path / "pipe")
    assert caught.value.file == str(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        LinearModel.load(tmp_path)


def full_model():
    return LinearModel.from_weights(
        [0.0, 1.5, 0.0, -2.0],
        NAMES,
        transforms=(ListRange(),),
        metric="ndcg@10",
        parameters={"ranker": "spd", "l2": np.float64(1e-4), "bound": np.inf, "k": np.int64(3)},
        provenance={"rows": 10, "trace": [1, 2.5, None, True]},
        base=0,
        probes=Probes((Probe((1, 3), (0.5, 1.0)),), (-1.25,)),
    )


def test_every_field_survives_a_file(tmp_path):
    model = full_model()
    model.save(tmp_path / "m.rankine")
    again = LinearModel.load(tmp_path / "m.rankine")
    assert again.n_features == 4
    assert again.nnz == 2
    assert again.indices.tolist() == [1, 3]
    assert again.values.tolist() == [1.5, -2.0]
    assert again.to_dense().tolist() == [0.0, 1.5, 0.0, -2.0]
    assert again.feature_names == tuple(NAMES)
    assert again.weight_names == ("age", "prix é")
    assert again.transforms == (ListRange(),)
    assert again.metric == "ndcg@10"
    assert again.parameters == {"ranker": "spd", "l2": 1e-4, "bound": "inf", "k": 3}
    assert again.provenance == {"rows": 10, "trace": [1, 2.5, None, True]}
    assert again.base == 0
    assert again.probes == model.probes == Probes((Probe((1, 3), (0.5, 1.0)),), (-1.25,))
    assert again == model
    assert again.digest == model.digest
    assert again.to_bytes() == (tmp_path / "m.rankine").read_bytes()


def test_the_safetensors_library_opens_the_file(tmp_path):
    from safetensors import safe_open

    full_model().save(tmp_path / "m.rankine")
    with safe_open(tmp_path / "m.rankine", "np") as file:
        assert file.get_tensor("values").tolist() == [1.5, -2.0]
        assert file.get_tensor("indices").tolist() == [1, 3]
        assert bytes(file.get_tensor("names")) == "".join(NAMES).encode()
        assert file.metadata()["format"] == "rankine/1"
        assert '"ranker":"spd"' in file.metadata()["model"]


def test_a_changed_byte_is_noticed_and_the_file_named(tmp_path):
    path = tmp_path / "m.rankine"
    full_model().save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DigestError, match=r"m\.rankine.*SHA-256"):
        LinearModel.load(path)


def test_a_newer_format_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(container_module, "FORMAT_VERSION", 2)
    data = full_model().to_bytes()
    monkeypatch.setattr(container_module, "FORMAT_VERSION", 1)
    with pytest.raises(ModelVersionError, match=r"format 2.* up to 1"):
        LinearModel.from_bytes(data)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x80\x04\x95abc", "pickle"),
        (b"\x80\x04\x95abcde{}", "pickle"),
        (b"PK\x03\x04....", "zip"),
        (b"PAR1....", "Parquet"),
        (b"<html>404</html>", "HTML"),
        (b'{"weights": [1]}', "JSON"),
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1", "LFS"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00" + b'{"a":{}}        ', "safetensors"),
        (b"\x00\x01\x02", r"not a rankine model \["),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path, content, kind):
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=kind):
        LinearModel.load(path)


def test_a_huge_file_of_another_kind_is_not_read(tmp_path):
    path = tmp_path / "huge.bin"
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.truncate(2**40)  # a hole: reading it would take a terabyte of memory
    with pytest.raises(ModelFormatError):
        LinearModel.load(path)


def test_a_folder_or_device_is_no_model(tmp_path):
    with pytest.raises(ModelFormatError):
        LinearModel.load("/dev/zero")
    with pytest.raises(OSError, match="directory"):
        LinearModel.load(tmp_path)


def test_a_document_beyond_the_header_limit_is_refused_at_save():
    model = LinearModel.from_weights([1.0], parameters={"note": "x" * 2_000_000})
    with pytest.raises(ModelFormatError):
        model.to_bytes()


def test_a_model_that_was_read_has_its_digest_from_the_file(monkeypatch):
    model = full_model()
    again = LinearModel.from_bytes(model.to_bytes())
    expected = model.digest
    monkeypatch.setattr("rankine.model.store.encode", None)
    assert again.digest == expected


def test_many_names_fit(tmp_path):
    n = 100_000
    model = LinearModel.from_weights(np.ones(n), [f"feature {j}" for j in range(n)])
    model.save(tmp_path / "big")
    assert LinearModel.load(tmp_path / "big").feature_names[-1] == f"feature {n - 1}"


def test_kinds_are_not_confused(tmp_path):
    bundle().save(tmp_path / "b")
    LinearModel.from_weights([1.0]).save(tmp_path / "m")
    with pytest.raises(ModelFormatError, match="bundle of 3"):
        LinearModel.load(tmp_path / "b")
    with pytest.raises(ModelFormatError):
        ModelBundle.load(tmp_path / "m")
    assert isinstance(load_any(tmp_path / "m"), LinearModel)
