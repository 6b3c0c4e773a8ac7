"""The page on data files says what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import rankine
from rankine.data.options import ReadOptions

pytestmark = pytest.mark.docs

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "data-files.md"


def test_every_option_named_exists_with_the_default_told():
    text = PAGE.read_text()
    named = set(re.findall(r"`(\w+)(?:=[^`]*)?`", text))
    options = {field.name: field.default for field in fields(ReadOptions)}
    assert {"base", "missing", "on_bad_row", "max_line_bytes", "max_ratio"} <= named & set(options)
    assert options["max_ratio"] == 256
    assert options["max_queries"] == options["max_query_rows"] == 2**24
    assert options["max_line_bytes"] == 16 * 2**20
    for name in re.findall(r"`(max_\w+|require_\w+)`", text):
        assert name in options


def test_its_python_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import gzip

    rows = b"2 qid:1 1:0.5 # a\n0 qid:1 2:1 # b\n"
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "day-1.txt").write_bytes(rows)
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(rows))
    (tmp_path / "train.txt").write_bytes(b"1 1:1\n" * (120 + 87 + 95))
    (tmp_path / "train.txt.query").write_text("120\n182\n")
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    scope = {"rankine": rankine}
    for block in blocks:
        exec(block, scope)  # noqa: S102 (our own page)
    assert scope["data"].n_rows == 2
    assert [block.n_features for block in scope["stream"]] == [136]
