"""Every result can be measured, stored, drawn and written about at its quick size."""

from __future__ import annotations

import json

import pytest
from papers import runs

pytestmark = [pytest.mark.full, pytest.mark.data]


@pytest.mark.parametrize("name", runs.names())
def test_the_quick_size_runs(name, real_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANKINE_BENCH_RESULTS", str(tmp_path))
    runs.run(name, "quick")
    stored = json.loads((tmp_path / f"{name}.json").read_text())
    assert stored["size"] == "quick"
    assert stored["parameters"] == runs.parameters_of(name, "quick")
    assert (tmp_path / f"{name}.svg").is_file() == hasattr(runs.module_of(name), "draw")
    assert len(capsys.readouterr().out) > 100
