"""JSON documents of other systems, one per line or one per file."""

from __future__ import annotations

import gzip
import json

import pytest

from rankine.core.errors import ParseError
from rankine.data.json_documents import read_documents, read_json

OBJECTS = [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize(
    "document",
    [OBJECTS, {"hits": {"hits": [{"_id": 1, "_source": each} for each in OBJECTS]}}],
)
def test_lists_and_hits_are_taken_apart(tmp_path, document):
    path = tmp_path / "all.json"
    path.write_text(json.dumps(document))
    found = list(read_documents([path]))
    assert [each for each, _ in found] == OBJECTS
    assert {location for _, location in found} == {(str(path), None)}


@pytest.mark.parametrize("block", [1, 5, 1 << 20])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_lines_are_numbered_and_may_be_blank(tmp_path, monkeypatch, block, end):
    monkeypatch.setattr("rankine.data.json_documents._BLOCK", block)
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(gzip.compress(f'{{"a": 1}}\n\n{{"a": 2}}{end}'.encode()))
    found = list(read_json(path))
    assert [(each["a"], location.line) for each, location in found] == [(1, 1), (2, 3)]


def test_errors_name_the_line(tmp_path):
    path = tmp_path / "events.jsonl"
    for text in ('{"a": 1}\n{"a": \n', '{"a": 1}\n3\n'):
        path.write_text(text)
        with pytest.raises(ParseError) as caught:
            list(read_documents(path))
        assert (caught.value.file, caught.value.line) == (str(path), 2)
