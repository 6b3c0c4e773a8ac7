"""Formats are recognised by content and suffix."""

from __future__ import annotations

import numpy as np
import pytest

import rankine
from error_checks import raises_for
from rankine.core.errors import (
    FileKindError,
    ParameterError,
)
from rankine.data.compression import strip_compression
from rankine.data.formats import FORMATS, choose_format, format_for
from rankine.data.save import save
from rankine.data.sources import Source


def test_a_format_is_named_recognised_or_told_by_its_suffix():
    def chosen(name, head=b"1 qid:1\n", form=None):
        return choose_format(Source(name), form, head).name

    assert chosen("x.txt.gz") == chosen("x") == chosen("x.unknown") == "letor"
    assert chosen("x.CSV") == chosen("x.tsv.bz2") == "csv"
    assert chosen("x.txt", b"PAR1....") == "parquet"
    assert chosen("x.txt", b"FEA1....") == "arrow"
    assert chosen("x.parquet", b"") == "parquet"
    assert chosen("x.parquet", form="csv") == "csv"
    with pytest.raises(FileKindError) as caught:
        chosen("x.npz")
    assert "numpy.load" in caught.value.fix
    with pytest.raises(ParameterError) as caught:
        chosen("x", form="xls")
    assert caught.value.parameter == "format"
    for name in ("x.gz", "x.bz2", "x.xz", "x.zst"):
        assert strip_compression(name) == "x"
    assert strip_compression("x.gzip") == "x.gzip"


def test_only_some_formats_are_written(tmp_path):
    assert format_for("x.txt").name == "letor"
    assert format_for("x.txt", "npz").name == "npz"
    for name, form in (("x.csv", None), ("x", None), ("x.txt", "csv")):
        with raises_for("path"):
            format_for(name, form)
    assert all(form.writer or form.name in ("csv", "json") for form in FORMATS.values())
    data = rankine.Dataset.from_arrays(np.eye(2), [0, 1])
    for name, given, parameter in (
        ("-", {"format": "npz"}, "path"),
        ("x.parquet.gz", {}, "path"),
        ("x.parquet", {"zeros": True}, "zeros"),
        ("x.txt", {"layout": "sparse"}, "layout"),
    ):
        with pytest.raises(ParameterError) as caught:
            save(data, name if name == "-" else tmp_path / name, **given)
        assert caught.value.parameter == parameter
    assert list(tmp_path.iterdir()) == []
