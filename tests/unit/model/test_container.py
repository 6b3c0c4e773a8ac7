import hashlib

import numpy as np
import pytest

from rankine.core.errors import DigestError, ModelFormatError
from rankine.model import LinearModel, container
from rankine.model import weights as weights_module
from rankine.model.container import pack, unpack

DOCUMENT = {
    "kind": "linear",
    "n_features": 2,
    "base": 1,
    "metric": None,
    "parameters": {},
    "provenance": {},
    "transforms": [],
    "probes": None,
}
PROBE = {"indices": [1], "values": [1.0]}
TENSORS = {"indices": np.array([0, 1]), "values": np.array([1.0, 2.0])}


def packed(document, tensors):
    return b"".join(pack(document, tensors)[0])


def names(text, *ends):
    return {**TENSORS, "names": np.frombuffer(text, np.uint8), "name_ends": np.array(ends)}


def test_the_hand_made_document_is_good():
    assert LinearModel.from_bytes(packed(DOCUMENT, TENSORS)).nnz == 2
    for count in (1, 16):
        probes = {"rows": [PROBE] * count, "scores": [1.0] * count}
        model = LinearModel.from_bytes(packed({**DOCUMENT, "probes": probes}, TENSORS))
        assert len(model.probes.rows) == count


@pytest.mark.parametrize(
    "tensors",
    [
        {**TENSORS, "extra": np.array([1.0])},
        {"indices": TENSORS["indices"]},
        {**TENSORS, "values": np.array([1, 2])},
        {**TENSORS, "values": np.array([1.0])},
        {**TENSORS, "indices": np.array([1, 0])},
        {**TENSORS, "indices": np.array([1, 1])},
        {**TENSORS, "indices": np.array([0, 2])},
        {**TENSORS, "indices": np.array([-1, 0])},
        {**TENSORS, "values": np.array([1.0, np.nan])},
        {**TENSORS, "values": np.array([1.0, 0.0])},
        names(b"aa", 1, 2),
        names(b"\xff\xfe", 1, 2),
        names("é".encode(), 1, 2),
        names(b"ab", 2, 1),
        names(b"ab", 1, 3),
        names(b"ab", -1, 2),
        names(b"abc", 1, 2, 3),
        {**TENSORS, "names": np.frombuffer(b"ab", np.uint8)},
    ],
)
def test_tensors_that_no_model_has_are_refused(tensors):
    with pytest.raises(ModelFormatError):
        LinearModel.from_bytes(packed(DOCUMENT, tensors))


def signed(data):
    """The bytes with the digest that they should have."""
    start, rest = data[: container._DIGEST_OFFSET], data[container._DIGEST_OFFSET + 64 :]
    return start + hashlib.sha256(start + b"0" * 64 + rest).hexdigest().encode() + rest


def with_header(document, shapes, payload):
    """A file with such a header, whatever its tensors are."""
    header = container._header(document, shapes, "0" * 64)
    return signed(len(header).to_bytes(8, "little") + header + payload)


SHAPES = {"indices": ("I64", 2), "values": ("F64", 2)}
PAYLOAD = np.array([0, 1]).tobytes() + np.array([1.0, 2.0]).tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.replace(b'"rankine/1"', b'"another/1"'), "has no rankine format"),
        (lambda data: data.replace(b'"dtype":"I64"', b'"dtype":"F32"'), "F64, I64 or U8"),
        (lambda data: data.replace(b'"shape":[2]', b'"shape":[-2]', 1), "F64, I64 or U8"),
        (lambda data: data.replace(b'"shape":[2]', b'"shape":[true]', 1), "F64, I64 or U8"),
        (lambda data: data.replace(b'"shape":[2]', b'"shape":[2,1]', 1), "malformed header"),
        (lambda data: data.replace(b'"data_offsets":[0', b'"data_offsets":[8'), "canonical"),
        (lambda data: data + b"\0" * 3, "3 bytes after the last tensor"),
        (lambda data: data[:-8], "'values' extends past"),
    ],
)  # fmt: skip
def test_headers_that_rankine_does_not_write_are_refused(change, message):
    good = with_header(DOCUMENT, SHAPES, PAYLOAD)
    assert good == packed(DOCUMENT, TENSORS)
    changed = change(good)
    grown = len(changed[: changed.index(PAYLOAD[:8])]) - 8  # the header may have another length
    pad = -grown % 8
    cut = 8 + grown
    data = (grown + pad).to_bytes(8, "little") + changed[8:cut] + b" " * pad + changed[cut:]
    with pytest.raises(ModelFormatError, match=message):
        unpack(signed(data))


@pytest.mark.parametrize("document", [[], "x", 3])
def test_a_document_that_is_no_object_is_refused(document):
    with pytest.raises(ModelFormatError):
        LinearModel.from_bytes(with_header(document, SHAPES, PAYLOAD))


def test_lengths_are_checked_before_anything_is_read():
    good = packed(DOCUMENT, TENSORS)
    length = int.from_bytes(good[:8], "little")
    for claimed in (length - 1, len(good)):
        with pytest.raises(ModelFormatError, match=f"claims {claimed:,} bytes in a file"):
            unpack(claimed.to_bytes(8, "little") + good[8:])
    with pytest.raises(ModelFormatError, match=r"8,388,608 bytes; the limit is 1,048,576"):
        unpack((1 << 23).to_bytes(8, "little") + good[8:])
    for claimed in (0, 8):  # too short for a digest
        with pytest.raises((DigestError, ModelFormatError)):
            unpack(signed(claimed.to_bytes(8, "little") + good[8:]))


def test_limits_hold_to_the_byte_and_the_tensor(monkeypatch):
    limit = container.MAX_TENSORS
    many = {f"t{k}": np.array([1.0]) for k in range(limit + 1)}
    assert len(unpack(packed({}, dict(list(many.items())[:limit]))).tensors) == limit
    with pytest.raises(ModelFormatError, match=f"{limit + 1} tensors, at most {limit}"):
        unpack(packed({}, many))
    good = packed(DOCUMENT, TENSORS)
    length = int.from_bytes(good[:8], "little")
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", length)
    assert unpack(packed(DOCUMENT, TENSORS)).document == DOCUMENT
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", length - 1)
    with pytest.raises(ModelFormatError):
        pack(DOCUMENT, TENSORS)
    with pytest.raises(ModelFormatError):
        unpack(good)


def test_names_are_checked_block_by_block(monkeypatch):
    monkeypatch.setattr(weights_module, "_CHECK_BLOCK", 2)
    given = ["", "é", "b", "", "ccc", "d"]
    for names in (given[1:], given[:3], given[1:3], given[1:4]):
        assert weights_module.PackedNames.pack(names).strings == tuple(names)
    text = np.frombuffer(b"abc\xffe", np.uint8)
    with pytest.raises(ModelFormatError, match="name 3 is not UTF-8"):
        weights_module.PackedNames(text, np.arange(1, 6))
    for first in range(5):
        for second in range(first + 1, 5):
            given = list("abcde")
            given[second] = given[first]
            text_twice = np.frombuffer("".join(given).encode(), np.uint8)
            with pytest.raises(ModelFormatError):
                weights_module.PackedNames(text_twice, np.arange(1, 6))
    with pytest.raises(ModelFormatError):
        weights_module.PackedNames(text, np.zeros(0, np.int64))
    monkeypatch.setattr(weights_module, "hash", lambda _: 7, raising=False)
    assert len(weights_module.PackedNames.pack(["a", "b", "c"])) == 3, "hashes may be equal"


def test_the_tensors_that_are_missing_are_named():
    with pytest.raises(ModelFormatError, match=r"expected \['indices', 'name_ends', 'names'"):
        LinearModel.from_bytes(packed(DOCUMENT, {**TENSORS, "names": np.zeros(2, np.uint8)}))
    with pytest.raises(ModelFormatError, match=r"expected \['indices', 'values'\]"):
        LinearModel.from_bytes(packed(DOCUMENT, {**TENSORS, "name_ends": np.array([1, 2])}))
