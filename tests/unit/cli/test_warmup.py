"""``rankine warmup`` compiles its parts in processes that write to the chosen folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from error_checks import raises_for
from rankine.cli import warmup
from rankine.cli.main import app, find_commands
from rankine.cli.warmup import compile_part, part_names
from rankine.core.errors import ParameterError
from rankine.kernels import cache
from rankine.rankers.registry import RANKERS

find_commands()


@pytest.fixture
def compiled(monkeypatch):
    """Calls of ``_compile``, which takes 1.2345 s here, and of ``write_baseline``."""
    calls, clock = [], [10.0]

    def record(rankers, folder, jobs):
        calls.append((rankers, folder, jobs))
        clock[0] += 1.2345
        return {"reader": 0.5}

    monkeypatch.setattr(warmup, "_compile", record)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(cache, "write_baseline", calls.append)
    return calls


def call(*arguments):
    result = CliRunner().invoke(app, ["warmup", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(("cores", "jobs"), [(8, 4), (3, 3), (None, 1)])
def test_the_default_is_all_rankers_and_one_process_per_core(monkeypatch, compiled, cores, jobs):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    call()
    assert compiled == [(list(RANKERS), cache.user_cache(), jobs)]


def test_options_choose_rankers_folder_and_processes(compiled, tmp_path):
    output = call("--ranker", "spd", "--into", str(tmp_path), "--jobs", "1", "--json")
    assert json.loads(output) == {
        "cache": str(tmp_path),
        "parts": {"reader": 0.5},
        "seconds": 1.23,
    }
    assert compiled == [tmp_path, (["spd"], tmp_path, 1)]
    assert call("--into", str(tmp_path)) == f"compiled in 1.23 s into {tmp_path}\n"


def test_bad_options_are_errors(compiled):
    with pytest.raises(ParameterError) as caught:
        call("--jobs", "0")
    assert caught.value.parameter == "--jobs"
    with raises_for("--ranker"):
        call("--ranker", "tree")
    assert compiled == []


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_parts_are_compiled_by_new_processes_with_the_folder_as_cache(
    monkeypatch, tmp_path, before, capsys
):
    class Pool:
        def __init__(self, jobs, mp_context):
            assert (jobs, mp_context.get_start_method()) == (3, "spawn")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def map(self, function, names):
            assert function is compile_part
            assert os.environ["RANKINE_CACHE_DIR"] == str(tmp_path)
            return [float(len(name)) for name in names]

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", Pool)
    monkeypatch.delenv("RANKINE_CACHE_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("RANKINE_CACHE_DIR", before)
    seconds = warmup._compile(["spd"], Path(tmp_path), 3)
    assert seconds == {name: float(len(name)) for name in part_names(["spd"])}
    assert os.environ.get("RANKINE_CACHE_DIR") == before
    assert "reader: 6.00 s" in capsys.readouterr().err


def test_fits_are_compiled_for_both_precisions_of_a_storage(monkeypatch):
    fits, clock = [], [0.0]

    class Ranker:
        def __init__(self, random_state):
            self.seed = random_state

        def fit(self, X, y, qid):
            clock[0] += 1.001
            fits.append((type(X), X.dtype, self.seed, len(set(qid))))

    monkeypatch.setattr("rankine.rankers.registry.ranker_class", {"spd": Ranker}.__getitem__)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    assert compile_part("spd dense") == 2.0
    assert fits == [(np.ndarray, np.float64, 0, 12), (np.ndarray, np.float32, 0, 12)]
    fits.clear()
    compile_part("spd sparse")
    assert fits == [(sparse.csr_array, np.float64, 0, 12), (sparse.csr_array, np.float32, 0, 12)]


def test_other_parts_read_and_measure(monkeypatch):
    compile_part("reader")
    evaluated = []
    monkeypatch.setattr(
        "rankine.metrics.evaluate_on",
        lambda data, scores, metric: evaluated.append((scores.shape, metric)),
    )
    compile_part("metrics")
    assert {len(shape) for shape, _ in evaluated} == {1}
    assert len(evaluated) == 5
