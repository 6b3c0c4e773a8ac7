"""Entries of edits, from Python and from TOML files."""

import math

import numpy as np
import pytest

from rankine.core.edits import Edit, FixedEntry, check_edit, parse_fixed, read_edit
from rankine.core.errors import ParameterError


def test_keys_of_a_mapping():
    fixed = {
        "price": {(1, 2): 0.5, (None, 3): 0.1, (4, math.inf): 0, None: -1.0, math.nan: None},
        "brand": {"acme": 0.0, np.float64(2.0): 0.1, math.inf: 0.2},
        np.int64(3): 0.0,
    }
    assert parse_fixed(fixed) == (
        FixedEntry(column="price", low=1, high=2, value=0.5),
        FixedEntry(column="price", high=3, value=0.1),
        FixedEntry(column="price", low=4, value=0),
        FixedEntry(column="price", missing=True, value=-1.0),
        FixedEntry(column="price", missing=True, free=True),
        FixedEntry(column="brand", category="acme", value=0.0),
        FixedEntry(column="brand", category=2.0, value=0.1),
        FixedEntry(column="brand", other=True, value=0.2),
        FixedEntry(column=3, value=0.0),
    )


def test_entries_pass_through():
    entries = [FixedEntry(column="a", value=1.0), {"column": "b", "from": 1.0, "value": 2}]
    parsed = parse_fixed(entries)
    assert parsed[0] is entries[0]
    assert parsed[1] == FixedEntry(column="b", low=1.0, value=2)


def test_a_file_of_entries(tmp_path):
    path = tmp_path / "edits.toml"
    path.write_text(
        'by = "Anna"\n[[fixed]]\ncolumn = "price"\nfrom = 100\nto = 200\nvalue = 0.1\n'
        '[[fixed]]\ncolumn = "brand"\ncategory = "acme"\nfree = true\n'
    )
    edit = read_edit(str(path))
    assert edit == Edit(
        (
            FixedEntry(column="price", low=100, high=200, value=0.1),
            FixedEntry(column="brand", category="acme", free=True),
        ),
        by="Anna",
    )
    assert edit.to_dict()["fixed"][0] == {
        "column": "price", "from": 100, "to": 200, "value": 0.1
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("fixed = 3", "edits.toml"),
        ("[[fixed]]\ncolumn = 'a'\n", "entry 1"),
        ("[[fixed]]\ncolumn='a'\nvalue=1\n[[fixed]]\ncolumn='b'\nvalue='x'", "entry 2"),
        ("[[fixed]]\ncolumn='a'\nvalue=nan\n", "entry 1"),
        ("[[fixed]]\ncolumn='a'\nvalue=1\nmissing=true\nother=true\n", "entry 1"),
        ("[[fixed]]\ncolumn='a'\nvalue=1\nform=1\n", "entry 1"),
        ("surname = 'x'", "edits.toml"),
        ("[[fixed", "edits.toml"),
        ("[[fixed]]\ncolumn='a'\nfrom=2\nto=1\nvalue=1\n", "entry 1"),
        ("a=" + "[" * 5000, "edits.toml"),
    ],
)
def test_an_error_in_a_file_names_the_place(tmp_path, text, place):
    path = tmp_path / "edits.toml"
    path.write_text(text)
    with pytest.raises(ParameterError) as caught:
        read_edit(str(path))
    assert caught.value.parameter == "fixed"
    assert place in caught.value.reason


@pytest.mark.parametrize("text", ["", "x" * 1001, 3])
def test_names_and_notes_are_short_texts(text):
    with pytest.raises(ParameterError) as caught:
        check_edit({"a": 1.0}, note=text)
    assert caught.value.parameter == "note"
