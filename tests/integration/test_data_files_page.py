"""The page on data files says what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from rankine.data.options import ReadOptions

pytestmark = pytest.mark.docs

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "data-files.md"


def test_every_option_named_exists_with_the_default_told():
    text = PAGE.read_text()
    named = set(re.findall(r"`(\w+)(?:=[^`]*)?`", text))
    options = {field.name: field.default for field in fields(ReadOptions)}
    assert {"base", "on_bad_row", "max_line_bytes", "max_ratio"} <= named & set(options)
    assert options["max_ratio"] == 256
    assert options["max_queries"] == options["max_query_rows"] == 2**24
    assert options["max_line_bytes"] == 16 * 2**20
    for name in re.findall(r"`(max_\w+|require_\w+)`", text):
        assert name in options
