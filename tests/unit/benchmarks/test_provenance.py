"""Records of stored results, and when a result is older than its code."""

from __future__ import annotations

import json

import pytest
from benchmarks.common import machine, provenance


@pytest.fixture(autouse=True)
def results_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKINE_BENCH_RESULTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Return a source file that the result "x" measures."""
    file = tmp_path / "src" / "rankine" / "solver.py"
    file.parent.mkdir(parents=True)
    file.write_text("def f(x):\n    return x\n")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setitem(provenance.MEASURED, "x", ("solver.py",))
    return file


def is_old(measured):
    provenance._digest_of.cache_clear()
    return provenance.is_old("x", measured)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("def f(x):\n    return x\n", False),
        ('def f(x):\n    """Return x."""\n    return x  # as it is\n', False),
        ("def f(x):\n    return x + 1\n", True),
        ("def f(x, y=0):\n    return x\n", True),
    ],
)
def test_a_result_is_old_when_its_code_changes(source, text, old):
    measured = provenance.record("x")
    source.write_text(text)
    assert is_old(measured) == old


def test_a_result_without_a_record_is_old(source):
    assert is_old({})


def test_a_record_says_commit_time_and_size(monkeypatch):
    monkeypatch.setenv(provenance.SIZE, "quick")
    measured = provenance.record("spd")
    assert measured["size"] == "quick"
    assert measured["time"].endswith("UTC")
    assert len(measured["commit"]) in (7, 12)


def test_all_measured_sources_are_there():
    package = provenance.ROOT / "src" / "rankine"
    for paths in provenance.MEASURED.values():
        assert all((package / path).exists() for path in paths)


def test_parts_keep_their_own_records(results_folder):
    machine.add("x", "first", {"a": 1})
    (first,) = machine.records(read(results_folder)).values()
    machine.add("x", "second", {"b": 2})
    found = machine.records(read(results_folder))
    assert list(found) == ["first", "second"]
    assert found["first"] == first


def test_a_part_without_a_record_is_listed_without_one(results_folder):
    machine.write("x", {"machine": {}, "old part": 1})
    assert machine.records(read(results_folder)) == {"": {}}
    machine.add("x", "new part", 2)
    assert machine.records(read(results_folder))["old part"] == {}


def read(folder):
    return json.loads((folder / "x.json").read_text())
