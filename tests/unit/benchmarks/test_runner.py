"""Every benchmark runs at its smallest size, and uses nothing private of the package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from benchmarks import runner
from benchmarks.__main__ import tasks_of

ROOT = Path(__file__).resolve().parents[3]
TASKS = tasks_of("smoke", [])
#: Modules that others import, and that measure nothing themselves.
HELPERS = {"billion.log", "instead.comparison", "instead.data_files", "instead.grids",
           "instead.learners", "instead.presentation", "instead.rankine_rankers",
           "instead.worker", "peers.ratios", "runner"}  # fmt: skip
#: Documented names of named tuples and of os that start with an underscore.
PUBLIC = {"_asdict", "_exit", "_fields", "_replace"}
#: Take more than a few seconds even at this size: they run in ``make test-full``.
LONG = {"additive", "billion.training", "clicks", "defaults", "domination.topics", "elastic.memory",
        "elastic.purchases", "elastic.raw_logs", "first_minute", "history", "instead.click_log",
        "instead.letor_fold", "instead.letor_like", "instead.mslr_like", "instead.real_sets",
        "partitions.rounds",
        "serving", "spd", "which_ranker"}  # fmt: skip
NEED_DATA = {"instead.letor_fold", "instead.real_sets", "letor", "tune.replay"}


@pytest.mark.filterwarnings("default")  # about results of tiny sizes, as on the command line
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] * (name in LONG)) for name in sorted(TASKS)],
)
def test_the_smoke_size_runs(name, request, tmp_path, monkeypatch, capfd):
    if name in NEED_DATA:
        request.getfixturevalue("real_data")
    monkeypatch.setenv("RANKINE_BENCH_RESULTS", str(tmp_path))
    TASKS[name]()
    assert capfd.readouterr().out or list(tmp_path.iterdir())


def test_every_module_is_a_benchmark_or_a_helper():
    folder = ROOT / "benchmarks"
    modules = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if not path.name.startswith("__") and path.parent.name != "common"
    }
    assert modules == set(TASKS) | HELPERS


@pytest.mark.filterwarnings("default")
def test_tasks_that_fail_do_not_stop_the_others_and_are_named(tmp_path, monkeypatch, capfd):
    """The process of a task may be killed; the next one runs all the same."""
    package = tmp_path / "trials"
    package.mkdir()
    (package / "__main__.py").write_text(
        "import os, sys\n"
        "name = sys.argv[-1]\n"
        "print('runs', name)\n"
        "if name == 'exits': raise SystemExit(2)\n"
        "if name == 'dies': os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert runner.run_all("trials", "smoke", ["exits", "dies", "works"]) == 1
    shown = capfd.readouterr().out
    assert "runs works" in shown
    assert "failed: exits (exit status 2), dies (exit status -9)" in shown
    assert runner.run_all("trials", "smoke", ["works"]) == 0


@pytest.mark.parametrize("package", ["benchmarks", "papers"])
def test_benchmarks_use_nothing_private_of_the_package(package):
    private = []
    for path in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rankine"):
                private += [(path.name, a.name) for a in node.names if a.name.startswith("_")]
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                if not own and not node.attr.startswith("__") and node.attr not in PUBLIC:
                    private.append((path.name, node.attr))
    assert private == []
