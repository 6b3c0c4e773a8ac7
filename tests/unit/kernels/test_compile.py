"""Compiled code is reused by later processes, and never when its sources have changed."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numba
import pytest

from rankine.core.errors import IncompatibleVersionError, ParameterError
from rankine.kernels import cache
from rankine.kernels import compile as compile_

PROGRAM = """
import json, sys, warnings
sys.path.insert(0, sys.argv[1])
from rankine.kernels.compile import CLOCK
import numba, own
value = own.twice(3.0)
cpu = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()[1]
print(json.dumps({"value": value, "compiled": CLOCK.seconds > 0, "cpu": cpu}))
"""
TWICE = """
from rankine.kernels.compile import jit
@jit
def twice(x):
    return x * FACTOR
"""

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


@pytest.fixture
def run(tmp_path):
    """Write own.py, call it in a new process, return its value and whether it compiled."""

    def call(source, folder=None):
        (tmp_path / "own.py").write_text(source, encoding="utf-8")
        environment = {**os.environ, "RANKINE_CACHE_DIR": str(folder or tmp_path / "cache")}
        environment.pop("NUMBA_DISABLE_JIT", None)
        process = subprocess.run(
            # No bytecode: Python takes a file of the same size and second for the same.
            [sys.executable, "-B", "-c", PROGRAM, tmp_path],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(process.stdout)

    return call


def saved_files(folder):
    return sorted(folder.rglob("*.nbc"))


def test_a_second_process_loads_and_a_changed_file_is_compiled(run, tmp_path):
    first = run(TWICE.replace("FACTOR", "2.0"))
    assert first["compiled"]
    assert first["value"] == 6.0
    second = run(TWICE.replace("FACTOR", "2.0"))
    assert not second["compiled"]
    assert second["value"] == 6.0
    changed = run(TWICE.replace("FACTOR", "4.0"))
    assert changed["compiled"]
    assert changed["value"] == 12.0
    assert len(saved_files(tmp_path / "cache")) == 2


def test_bounds_checks_find_bad_indices_and_have_files_of_their_own(run, monkeypatch, tmp_path):
    source = """
import numpy as np
from rankine.kernels.compile import jit
@jit
def read(values, i):
    return values[i]
def twice(x):
    values = np.arange(4.0)[:2]
    try:
        return read(values, np.uint64(3)), 2 * x
    except IndexError:
        return "outside", 2 * x
"""
    monkeypatch.delenv("RANKINE_BOUNDS_CHECK", raising=False)
    assert run(source)["value"] == [3.0, 6.0]
    monkeypatch.setenv("RANKINE_BOUNDS_CHECK", "1")
    checked = run(source)
    assert checked["value"] == ["outside", 6.0]
    assert checked["compiled"]
    assert not run(source)["compiled"]
    monkeypatch.delenv("RANKINE_BOUNDS_CHECK")
    again = run(source)
    assert again["value"] == [3.0, 6.0]
    assert not again["compiled"]
    assert len(saved_files(tmp_path / "cache")) == 2


def test_damaged_files_and_unwritable_folders_only_cost_time(run, tmp_path):
    source = TWICE.replace("FACTOR", "2.0")
    run(source)
    (file,) = saved_files(tmp_path / "cache")
    file.write_bytes(file.read_bytes()[:100])
    assert run(source) == {**run(source), "compiled": True}
    blocked = tmp_path / "blocked"
    blocked.write_text("a file in the place of a folder", encoding="utf-8")
    assert run(source, blocked / "cache")["value"] == 6.0


def test_a_shared_folder_is_compiled_for_its_baseline(run, tmp_path):
    shared = tmp_path / "shared"
    try:
        cache.write_baseline(shared)
    except ParameterError:
        pytest.skip("this machine has no baseline")
    source = TWICE.replace("FACTOR", "2.0")
    baseline = json.loads((shared / "baseline.json").read_text(encoding="utf-8"))
    assert run(source, shared)["cpu"] == baseline["cpu"]
    assert not run(source, shared)["compiled"]
    # Kernels of another Numba: this machine compiles for its own CPU.
    other = json.dumps({**baseline, "numba": "0.1"})
    (shared / "baseline.json").write_text(other, encoding="utf-8")
    assert run(source, shared)["cpu"] != baseline["cpu"]


CALLER = """
from rankine.kernels.compile import jit
import implementations

@jit
def twice(x):
    return implementations.double(implementations.Own(1.0), x)
"""
IMPLEMENTATION = """
from typing import NamedTuple
from rankine.kernels.dispatch import generic

@generic
def double(spec, x):
    "Return x times a factor."

class Own(NamedTuple):
    a: float

@double.implementation(Own)
def _double(spec, x):
    return x * FACTOR
"""


def test_a_changed_implementation_outside_the_package_is_compiled_again(run, tmp_path):
    results = []
    for factor in ("2.0", "2.0", "5.0"):
        text = IMPLEMENTATION.replace("FACTOR", factor)
        (tmp_path / "implementations.py").write_text(text, encoding="utf-8")
        results.append(run(CALLER))
    assert [result["value"] for result in results] == [6.0, 6.0, 15.0]
    assert [result["compiled"] for result in results] == [True, False, True]


INTERACTIVE = """
import os
from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
@generic
def scale(spec, x):
    pass
from typing import NamedTuple
class Typed(NamedTuple):
    size: float = 1.0
namespace = {"scale": scale, "NamedTuple": NamedTuple, "Typed": Typed}
exec('''
@scale.implementation(Typed)
def typed(spec, x):
    return x * ''' + os.environ["FACTOR"], namespace)
@jit
def caller(spec, x):
    return scale(spec, x)
def twice(x):
    return caller(namespace["Typed"](), x)
"""
INTERACTIVE_SPEC = """class Typed(NamedTuple):
    size: float = 1.0
"""


@pytest.mark.parametrize("spec", ["in a file", "interactive"])
def test_an_implementation_that_is_in_no_file_is_compiled_in_every_process(run, monkeypatch, spec):
    source = INTERACTIVE
    if spec == "interactive":
        source = source.replace("exec('''\n", f"exec('''\n{INTERACTIVE_SPEC}")
    for factor in ("2.0", "2.0", "3.0"):
        monkeypatch.setenv("FACTOR", factor)
        result = run(source)
        assert result["value"] == 3.0 * float(factor)
        assert result["compiled"]


NESTED = """
from rankine.kernels.compile import jit
@jit
def add(x, y=1.0):
    return x + y
@jit
def outer(x):
    return add(x) * add(x, 2.0)
def twice(x):
    return outer(x), add(x), add(x, 2.0)
"""


def test_functions_called_by_compiled_code_can_be_called_from_python_too(run, tmp_path):
    first = run(NESTED)
    assert first["value"] == [20.0, 4.0, 5.0]
    assert len(saved_files(tmp_path / "cache")) == 3
    assert run(NESTED) == {**first, "compiled": False}


def test_a_damaged_file_is_compiled_again_and_replaced(run, tmp_path):
    first = run(NESTED)
    for number, file in enumerate(saved_files(tmp_path / "cache")):
        data = file.read_bytes()
        damaged = (data[: len(data) // 2], b"", data[:200] + b"\0" + data[201:])[number]
        file.write_bytes(damaged)
    assert run(NESTED) == first
    assert run(NESTED) == {**first, "compiled": False}


@needs_jit
def test_a_function_in_no_file_is_compiled_and_not_saved(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKINE_CACHE_DIR", str(tmp_path))
    namespace = {}
    exec("def own(x):\n    return x + 1\n", namespace)  # noqa: S102
    own = compile_.jit(namespace["own"])
    assert [own(1), own(2.5), own(3)] == [2, 3.5, 4]
    assert len(own.overloads) == 2
    assert not saved_files(tmp_path)


def test_without_the_jit_a_function_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)

    def own(x):
        return x + 1

    assert compile_.jit(own) is own
    assert compile_.jit(fastmath=compile_.REDUCE, inline=True)(own) is own


def test_the_clock_counts_the_outermost_function_only(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(compile_.time, "perf_counter", lambda: now[0])
    clock, calls = compile_.CompileClock(), []
    clock.begin, clock.end = lambda: calls.append("begin"), lambda: calls.append("end")
    mark = clock.mark()
    for gc_enabled in (True, False):
        (gc.enable if gc_enabled else gc.disable)()
        try:
            clock.on_start(None)
            now[0] += 2.0
            clock.on_start(None)
            now[0] += 3.0
            clock.on_end(None)
            assert not gc.isenabled()
            assert calls[-1] == "begin"
            clock.on_end(None)
            assert gc.isenabled() == gc_enabled
        finally:
            gc.enable()
        now[0] += 1.0
    assert calls == ["begin", "end"] * 2
    assert clock.seconds == 10.0
    assert clock.since(mark) == {"seconds": 2.0, "compile_seconds": 10.0}
    assert clock.since((100.5, 9.0)) == {"seconds": 10.5, "compile_seconds": 1.0}


@pytest.mark.parametrize("version", ["0.61.2", "0.69.0", "1.0.0", "0.7", "unknown"])
def test_an_untested_version_of_numba_is_an_import_error(version):
    with pytest.raises(IncompatibleVersionError, match=r"numba>=0\.62") as caught:
        compile_._check_numba_version(version)
    assert isinstance(caught.value, ImportError)
    assert version in caught.value.reason


@pytest.mark.parametrize("version", ["0.62.0", "0.68.1", "0.68.0rc1", numba.__version__])
def test_tested_versions_of_numba_are_accepted(version):
    compile_._check_numba_version(version)


def test_the_package_requires_the_versions_of_numba_that_it_checks():
    root = Path(__file__).resolve().parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest, newest = (".".join(map(str, version)) for version in compile_.NUMBA_VERSIONS)
    assert f"numba>={oldest},<{newest}" in project["dependencies"]
