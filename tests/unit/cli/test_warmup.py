"""What a machine's first training compiles beside another process; what ``warmup`` compiles."""

from __future__ import annotations

import json
import os
import subprocess
import time
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from rankine.cli import warmup
from rankine.cli.main import app, find_commands
from rankine.cli.warmup import compiling_beside, part_names, toy, warm_part
from rankine.core.errors import ParameterError
from rankine.kernels import compile as compile_
from rankine.rankers.registry import RANKERS

find_commands()


@pytest.mark.parametrize("ranker", RANKERS)
def test_a_toy_runs_while_another_process_compiles_all_that_it_needs(ranker, monkeypatch, tmp_path):
    """Nothing is compiled here, and nothing waits."""

    compiled = []
    claim = SimpleNamespace(hexdigest=lambda: "taken")
    monkeypatch.setattr(compile_, "hashlib", SimpleNamespace(sha256=lambda _: claim))
    (tmp_path / "taken").touch()
    monkeypatch.setattr(compile_._Kernel, "compile", lambda kernel, _: compiled.append(kernel))
    toy(ranker, str(tmp_path))
    assert compiled == []


class Child:
    """A process that trains on the toy."""

    made: ClassVar[list[Child]] = []

    def __init__(self, words, **_):
        self.words, self.waited, self.did = words, [], []
        Child.made.append(self)

    def wait(self, seconds=None):
        self.waited.append(seconds)
        if seconds is not None:
            raise subprocess.TimeoutExpired("toy", seconds)

    def kill(self):
        self.did.append("killed")


@pytest.fixture
def first_command(monkeypatch):
    """The first command of a machine of two cores."""
    Child.made, toys = [], []
    monkeypatch.setattr(compile_, "keeps_kernels", lambda: False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", Child)
    monkeypatch.setattr(warmup, "toy", lambda ranker, claims: toys.append((ranker, claims)))
    monkeypatch.setattr(compile_, "LIGHT_ROWS", 5)
    return toys


class Rows(SimpleNamespace):
    def __len__(self):
        return self.X.shape[0]


@pytest.mark.parametrize(
    ("X", "usual", "trains", "light"),
    [
        (np.ones((5, 2)), True, True, 5),
        (np.ones((6, 2)), True, True, 0),
        (np.ones((6, 2)), False, False, 5),
        (np.ones((6, 2), dtype=np.float32), True, False, 5),
        (sparse.csr_array(np.ones((6, 2))), True, False, 5),
    ],
)
def test_the_toy_is_trained_on_where_the_data_are_like_it(first_command, X, usual, trains, light):
    with compiling_beside("ranksvm", usual=usual) as before_training:
        (child,) = Child.made
        assert "w.toy('ranksvm', " in child.words[-1]
        before_training(Rows(X=X))
        assert len(first_command) == trains
        assert child.waited == ([60.0] if trains else [])
        assert all(claims in child.words[-1] for _, claims in first_command)
        assert light == compile_.LIGHT_ROWS
        assert child.did == []
    assert (child.did, child.waited[-1]) == (["killed"], None)


@pytest.mark.parametrize(("kept", "cores"), [(True, 2), (False, 1), (False, None)])
def test_one_core_or_kept_kernels_need_no_other_process(first_command, monkeypatch, kept, cores):
    monkeypatch.setattr(compile_, "keeps_kernels", lambda: kept)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    with compiling_beside("spd", usual=True) as before_training:
        before_training(Rows(X=np.ones((9, 2))))
    assert (Child.made, first_command) == ([], [])


def test_rankers_folder_and_processes(monkeypatch, tmp_path):
    asked, clock = [], [10.0]

    def compiled(rankers, folder, jobs):
        asked.append((rankers, folder, jobs))
        clock[0] += 1.2345
        return {"reader": 0.5}

    monkeypatch.setattr(warmup, "_compile", compiled)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(compile_, "write_baseline", asked.append)

    def call(*words):
        done = CliRunner().invoke(app, ["warmup", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    for cores, jobs in ((8, 4), (3, 3), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        call()
        assert asked.pop() == (list(RANKERS), compile_.user_cache(), jobs)
        assert asked == []
    found = json.loads(call("--ranker", "spd", "--into", str(tmp_path), "--jobs", "1", "--json"))
    assert found == {"cache": str(tmp_path), "parts": {"reader": 0.5}, "seconds": 1.23}
    assert asked == [tmp_path, (["spd"], tmp_path, 1)]
    assert call("--into", str(tmp_path)) == f"compiled in 1.23 s into {tmp_path}\n"
    with pytest.raises(ParameterError, match="--jobs 0 is no number"):
        call("--jobs", "0")
    with pytest.raises(ParameterError, match="tree"):
        call("--ranker", "tree")


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_parts_are_compiled_by_processes_that_keep_them(monkeypatch, tmp_path, before, capsys):
    class Pool:
        def __init__(self, jobs, mp_context):
            assert (jobs, mp_context.get_start_method()) == (3, "spawn")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def map(self, function, names):
            assert function is warm_part
            assert os.environ["RANKINE_CACHE_DIR"] == str(tmp_path)
            return [float(len(name)) for name in names]

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", Pool)
    monkeypatch.delenv("RANKINE_CACHE_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("RANKINE_CACHE_DIR", before)
    found = warmup._compile(["spd"], tmp_path, 3)
    assert found == {name: float(len(name)) for name in part_names(["spd"])}
    assert os.environ.get("RANKINE_CACHE_DIR") == before
    assert "reader: 6.00 s" in capsys.readouterr().err


def test_a_part_is_one_piece_of_work(monkeypatch):
    fitted, clock = [], [0.0]

    class Ranker:
        def __init__(self, random_state):
            self.seed = random_state

        def fit(self, X, y, qid):
            clock[0] += 1.001
            fitted.append((type(X), X.dtype, self.seed, len(set(qid)), compile_.LIGHT_ROWS))

    monkeypatch.setattr(compile_, "LIGHT_ROWS", 5)
    monkeypatch.setattr(warmup, "import_later", lambda: None)
    monkeypatch.setattr("rankine.rankers.registry.ranker_class", {"spd": Ranker}.__getitem__)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    assert warm_part("spd dense") == 2.0
    kinds = [(np.ndarray, np.float64, 0, 12, 0), (np.ndarray, np.float32, 0, 12, 0)]
    assert fitted == kinds
    warm_part("spd sparse")
    assert fitted[2:] == [(sparse.csr_array, *kind[1:]) for kind in kinds]
    warm_part("reader")
    measured = []
    monkeypatch.setattr(
        "rankine.metrics.evaluate_on",
        lambda data, scores, metric: measured.append((scores.shape, metric)),
    )
    warm_part("metrics")
    assert {len(shape) for shape, _ in measured} == {1}
    assert len(measured) == 5
