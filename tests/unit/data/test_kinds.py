"""Files of other kinds are named, not misread."""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
import tarfile
import zipfile

import numpy as np
import pytest

import rankine
from rankine.core.errors import DataError, FileKindError
from rankine.data.compression import kind_of

ROWS = "1 qid:1 1:0.5\n0 qid:1 1:0.25\n"


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("train.txt")
        info.size = len(ROWS)
        archive.addfile(info, io.BytesIO(ROWS.encode()))
    return out.getvalue()


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("train.txt", ROWS)
    return out.getvalue()


def npy():
    out = io.BytesIO()
    np.save(out, np.ones(3))
    return out.getvalue()


def sqlite(tmp_path):
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as base:
        base.execute("create table t (a)")
    base.close()
    return path.read_bytes()


NAMED = {
    "UTF-8 with a byte order mark": ROWS.encode("utf-8-sig"),
    "UTF-16": ROWS.encode("utf-16"),
    "UTF-16 ": ROWS.encode("utf-16-be"),
    "UTF-16  ": ROWS.encode("utf-16-le"),
    "UTF-32": ROWS.encode("utf-32"),
    "HTML": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "HTML ": b"\n\n<html>\n",
    "HTML or XML": b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
    "Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "pickle": pickle.dumps({"X": [1]}),
    "pickle ": pickle.dumps([1], protocol=2),
    "Parquet": b"PAR1\x15\x04\x15\x10",
    "Arrow": b"ARROW1\x00\x00\xff\xff\xff\xff",
    "Arrow stream": b"\xff\xff\xff\xff\x10\x00\x00\x00",
    "numpy": npy(),
    "tar": tar(),
    "zip": zipped(),
    "JSON": json.dumps([{"label": 1}]).encode(),
    "JSON ": b'  {"label": 1}\n',
    "binary data": b"\x89HDF\r\n\x1a\n\x00",
    "Avro": b"Obj\x01\x04\x14",
    "ORC": b"ORC\x08\x03",
    "lz4": b"\x04\x22\x4d\x18\x64\x40",
    "binary data ": b"\xff\x06\x00\x00sNaPpY\x00",
    "7z": b"7z\xbc\xaf\x27\x1c\x00\x04",
    "RAR": b"Rar!\x1a\x07\x01\x00",
    "binary data  ": b"\x1f\x9d\x90",
    "Feather V1": b"FEA1\x00\x00\x00\x00",
    "binary data   ": b"\x01\xab\xff\xff\x04\x00",
    "LightGBM model": b"tree\nversion=v4\n",
    "SVMlight model": b"SVM-light Version V6.02\n0 # kernel type\n",
    "liblinear model": b"solver_type L2R_L2LOSS_SVC\n",
    "libsvm model": b"svm_type c_svc\n",
    "PDF": b"%PDF-1.7\n",
    "binary data        ": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00",
    "binary data    ": b"\x89PNG\r\n\x1a\n\x00",
    "binary data     ": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "binary data      ": b"\x7fELF\x02\x01\x01",
    "binary data       ": b"\x00asm\x01\x00\x00\x00",
}


@pytest.mark.parametrize("kind", NAMED)
def test_the_kind_is_named(kind):
    head = NAMED[kind][:512]
    found = kind_of(head)
    assert found is not None
    assert kind.strip() in found[0]


@pytest.mark.parametrize("kind", NAMED)
def test_none_is_read_as_text(kind):
    with pytest.raises(FileKindError) as caught:
        rankine.load(io.BytesIO(NAMED[kind]), format="letor")
    assert kind.strip() in caught.value.reason
    assert caught.value.fix
    with pytest.raises(DataError):
        rankine.load(io.BytesIO(NAMED[kind]))


def test_a_database_is_named(tmp_path):
    assert "SQLite" in kind_of(sqlite(tmp_path)[:512])[0]


@pytest.mark.parametrize(
    "head",
    [b"", b"1 qid:1 1:1\n", b"# {json}\n", b"#\x00\x00\x00\x00\n", b"+1 qid:1\n", b".5 qid:1\n",
     b"\n", b"-1 qid:3 # <html>\n", b"1"],
)  # fmt: skip
def test_text_is_taken_for_text(head):
    assert kind_of(head) is None


def test_a_name_that_lies_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text(ROWS)
    with pytest.raises(FileKindError, match="parquet"):
        rankine.load(path)
