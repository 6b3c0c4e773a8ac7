"""Every result of the papers can be measured, stored, drawn and written about."""

from __future__ import annotations

import json

import pytest
from papers import runs

# As on the command line: warnings about results of tiny sizes are no failures.
pytestmark = [pytest.mark.data, pytest.mark.filterwarnings("default")]


#: Take more than a few seconds even at this size: they run in ``make test-full``.
LONG = {"freno.acquisition", "freno.after_training", "freno.deltas", "freno.figure2",
        "freno.figure3", "freno.table1", "sculley.figure1", "sculley.figure2", "sculley.section34",
        "sculley.speed", "sculley.table1_imdb", "sculley.table1_reuters", "sculley.samplers",
        "stevens.sparsity", "stevens.table11"}  # fmt: skip


def check_run(name, size, folder, monkeypatch):
    """Run a result at a size and check what it stores."""
    monkeypatch.setenv("RANKINE_BENCH_RESULTS", str(folder))
    runs.run(name, size)
    stored = json.loads((folder / f"{name}.json").read_text())
    assert stored["size"] == size
    assert stored["parameters"] == runs.parameters_of(name, size)
    assert (folder / f"{name}.svg").is_file() == hasattr(runs.module_of(name), "draw")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] * (name in LONG)) for name in runs.paper_names()],
)
def test_the_smoke_size_runs(name, real_data, tmp_path, monkeypatch, capsys):
    check_run(name, "smoke", tmp_path, monkeypatch)
    assert len(capsys.readouterr().out) > 100


@pytest.mark.full
@pytest.mark.parametrize("name", runs.names())
def test_the_quick_size_runs(name, real_data, tmp_path, monkeypatch, capsys):
    check_run(name, "quick", tmp_path, monkeypatch)
    assert len(capsys.readouterr().out) > 100
