"""Compiled code is kept between processes under a key of our own, and never used when stale."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numba
import numpy as np
import pytest

from rankine.core.errors import ParameterError
from rankine.kernels import compile as compile_
from rankine.kernels import rows as rows_kernels
from rankine.kernels.dispatch import generic

PROGRAM = """
import json, sys, warnings
sys.path.insert(0, sys.argv[1])
from rankine.kernels.compile import CLOCK
import numba, own
value = own.twice(3.0)
cpu = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()[1]
print(json.dumps({"value": value, "compiled": CLOCK.seconds > 0, "cpu": cpu}))
"""
OWN = """
from rankine.kernels.compile import jit
@jit
def twice(x):
    return x * FACTOR
"""


@pytest.fixture
def run(tmp_path):
    """Write own.py, call it in a fresh process, say what it gave and whether it compiled."""

    def call(source, folder=None):
        (tmp_path / "own.py").write_text(source, encoding="utf-8")
        environment = {**os.environ, "RANKINE_CACHE_DIR": str(folder or tmp_path / "cache")}
        environment.pop("NUMBA_DISABLE_JIT", None)
        done = subprocess.run(
            # No bytecode: Python takes a file of the same size and second for the same.
            [sys.executable, "-B", "-c", PROGRAM, tmp_path],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(done.stdout)

    return call


def kept(folder):
    return sorted(folder.rglob("*.nbc"))


def test_a_second_process_compiles_nothing_and_a_changed_file_does(run, tmp_path):
    first = run(OWN.replace("FACTOR", "2.0"))
    assert first["compiled"]
    again = run(OWN.replace("FACTOR", "2.0"))
    assert not again["compiled"]
    assert again["value"] == first["value"] == 6.0
    changed = run(OWN.replace("FACTOR", "4.0"))
    assert changed["compiled"]
    assert changed["value"] == 12.0
    assert len(kept(tmp_path / "cache")) == 2


def test_indices_are_checked_when_asked_and_kept_apart(run, monkeypatch, tmp_path):
    """A kernel that reads beside its array is found by the mode with checks, never by chance."""
    beside = """
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
    assert run(beside)["value"] == [3.0, 6.0]
    monkeypatch.setenv("RANKINE_BOUNDS_CHECK", "1")
    checked = run(beside)
    assert checked["value"] == ["outside", 6.0]
    assert checked["compiled"]
    assert not run(beside)["compiled"]
    monkeypatch.delenv("RANKINE_BOUNDS_CHECK")
    again = run(beside)
    assert again["value"] == [3.0, 6.0]
    assert not again["compiled"]
    assert len(kept(tmp_path / "cache")) == 2


def test_damaged_and_read_only_folders_do_no_harm(run, tmp_path):
    source = OWN.replace("FACTOR", "2.0")
    run(source)
    (file,) = kept(tmp_path / "cache")
    file.write_bytes(file.read_bytes()[:100])
    assert run(source) == {**run(source), "compiled": True}
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be", encoding="utf-8")
    assert run(source, blocked / "cache")["value"] == 6.0


def test_a_shared_folder_is_compiled_for_its_baseline(run, tmp_path):
    shared = tmp_path / "shared"
    try:
        compile_.write_baseline(shared)
    except ParameterError:
        pytest.skip("this machine has no baseline")
    source = OWN.replace("FACTOR", "2.0")
    made_for = json.loads((shared / "baseline.json").read_text(encoding="utf-8"))
    assert run(source, shared)["cpu"] == made_for["cpu"]
    assert not run(source, shared)["compiled"]
    # Made for something else: this machine compiles for itself.
    other = json.dumps({**made_for, "numba": "0.1"})
    (shared / "baseline.json").write_text(other, encoding="utf-8")
    assert run(source, shared)["cpu"] != made_for["cpu"]


ASKING = """
from typing import NamedTuple
from rankine.kernels.dispatch import generic
from rankine.kernels.compile import jit
import answers

@jit
def twice(x):
    return answers.double(answers.Own(1.0), x)
"""
ANSWER = """
from typing import NamedTuple
from rankine.kernels.dispatch import generic

@generic
def double(spec, x):
    "x and x again"

class Own(NamedTuple):
    a: float

@double.implementation(Own)
def _double(spec, x):
    return x * FACTOR
"""


def test_an_answer_outside_the_package_that_changes_is_compiled_again(run, tmp_path):
    found = []
    for factor in ("2.0", "2.0", "5.0"):
        (tmp_path / "answers.py").write_text(ANSWER.replace("FACTOR", factor), encoding="utf-8")
        found.append(run(ASKING))
    assert [one["value"] for one in found] == [6.0, 6.0, 15.0]
    assert [one["compiled"] for one in found] == [True, False, True]


TYPED_IN = """
import os
from rankine.kernels.compile import jit
from rankine.kernels.dispatch import generic
@generic
def ask(spec, x):
    pass
from typing import NamedTuple
class Typed(NamedTuple):
    size: float = 1.0
space = {"ask": ask, "NamedTuple": NamedTuple, "Typed": Typed}
exec('''
@ask.implementation(Typed)
def typed(spec, x):
    return x * ''' + os.environ["FACTOR"], space)
@jit
def asked(spec, x):
    return ask(spec, x)
def twice(x):
    return asked(space["Typed"](), x)
"""


SPEC = """class Typed(NamedTuple):
    size: float = 1.0
"""


@pytest.mark.parametrize("spec", ["in a file", "typed in"])
def test_an_answer_that_stands_in_no_file_is_compiled_each_time(run, monkeypatch, spec):
    """It cannot be told from what was typed in before: nothing is kept of it."""
    source = TYPED_IN
    if spec == "typed in":
        source = source.replace("exec('''\n", f"exec('''\n{SPEC}")
    for factor in ("2.0", "2.0", "3.0"):
        monkeypatch.setenv("FACTOR", factor)
        found = run(source)
        assert found["value"] == 3.0 * float(factor)
        assert found["compiled"]


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


def test_what_is_compiled_for_others_first_can_be_called_and_only_what_is_called_is_kept(
    run, tmp_path
):
    first = run(NESTED)
    assert first["value"] == [20.0, 4.0, 5.0]
    assert len(kept(tmp_path / "cache")) == 3
    assert run(NESTED) == {**first, "compiled": False}
    (tmp_path / "cache").rename(tmp_path / "before")
    run(NESTED.replace("return outer(x), add(x), add(x, 2.0)", "return outer(x)"))
    assert len(kept(tmp_path / "cache")) == 1


@generic
def _size(spec, x):
    "how large"


class _Squared(NamedTuple):
    factor: float


@_size.implementation(_Squared)
def _squared(spec, x):
    return spec.factor * _product(x, x)


@compile_.jit
def _product(x, y):
    return x * y


@compile_.jit
def _sizes(spec, values, *, out):
    for i in range(values.shape[0]):
        out[i] = _size(spec, values[i])


needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


@needs_jit
def test_plain_functions_call_plain_functions(monkeypatch):
    out = np.zeros(3)
    monkeypatch.setattr(compile_.CPUDispatcher, "compile", None)
    compile_.plain(_sizes)(_Squared(2.0), np.arange(3.0), out=out)
    assert out.tolist() == [0.0, 2.0, 8.0]


@needs_jit
def test_a_light_kernel_is_compiled_when_a_process_has_many_rows_for_it():
    @compile_.jit
    def own(x):
        return x + 1

    assert compile_.light(own, compile_.LIGHT_ROWS) is compile_.plain(own)
    assert compile_.light(own, 1) is own
    assert own(1) == 2
    assert compile_.light(own, 0) is own


@needs_jit
def test_two_processes_share_what_they_compile(tmp_path):
    @compile_.jit
    def own(x):
        return x + 1

    with compile_.sharing(tmp_path):
        assert [own(1), own(2)] == [2, 3]
        assert len(own.overloads) == 1
        (claim,) = tmp_path.iterdir()
    own._reset_overloads()
    with compile_.sharing(tmp_path):
        claim.write_bytes(b"")  # as if another process compiled it now
        assert own(1) == 2
        assert not own.overloads
        claim.write_bytes(b"compiled")
        assert own(1) == 2
        assert len(own.overloads) == 1
    assert "__call__" not in vars(type(own))


def test_where_kernels_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKINE_CACHE_DIR", str(tmp_path / "own"))
    assert compile_.user_cache() == tmp_path / "own"
    monkeypatch.delenv("RANKINE_CACHE_DIR")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for platform, below in (
        ("linux", "xdg/rankine"),
        ("win32", "local/rankine/cache"),
        ("darwin", "Library/Caches/rankine"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert compile_.user_cache() == tmp_path / below
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert compile_.user_cache() == tmp_path / ".cache" / "rankine"


def test_a_machine_without_a_baseline_shares_no_kernels(monkeypatch, tmp_path):
    monkeypatch.setattr(compile_, "_baseline", lambda: None)
    with pytest.raises(ParameterError, match="machines of the kind x86-64-v3"):
        compile_.write_baseline(tmp_path / "shared")
    assert not (tmp_path / "shared").exists()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a few files, in the place of rankine's own."""
    root = tmp_path / "rankine"
    files = {
        "a.py": "from rankine.kernels.compile import jit\nfrom rankine.b import (\n    WIDTH,\n)\n"
        "from rankine.d import Plain\nfrom rankine.e import Spec\nfrom rankine.gone import x\n"
        "from rankine.part import f\n",
        "b.py": "WIDTH = 3\nfrom rankine.c import depth\n",
        "c.py": "depth = 1\n",
        "d.py": "class Plain: ...\n",
        "e.py": "from rankine.kernels.dispatch import generic\nfrom rankine.c import depth\n",
        "part/__init__.py": "from rankine.part.one import f\nfrom rankine.far import g\n",
        "part/one.py": "def f(): ...\nfrom rankine.b import WIDTH\n",
        "far.py": "def g(): ...\n",
        "own.py": "@ask.implementation(Spec)\ndef f(): ...\n",
        "kernels/compile.py": "import numba\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(compile_, "_ROOT", root)
    monkeypatch.setattr(compile_, "_package_files", lambda: tuple(sorted(root.rglob("*.py"))))
    return root


@pytest.mark.kernels
def test_kernels_depend_on_what_they_may_be_made_of_and_on_nothing_else(package):
    """What a file takes from others: values and functions, compiled files, whole folders.

    Classes alone are no part of compiled code, and what a plain file imports is not followed.
    """

    def made_of(name):
        found = compile_.compiled_from(package / name)
        return {file.relative_to(package).as_posix() for file in found}

    folder = {"part/__init__.py", "part/one.py", "far.py"}
    assert made_of("a.py") == {
        "a.py", "b.py", "e.py", "c.py", "own.py", "kernels/compile.py", *folder
    }  # fmt: skip
    assert made_of("b.py") == {"b.py", "own.py"}
    assert made_of("d.py") == {"d.py", "own.py"}


def test_digests_change_with_texts_and_names(package, tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1\n", encoding="utf-8")
    files = [package / "b.py", package / "c.py"]
    known = compile_.source_digest(files)
    assert known == compile_.source_digest(reversed(files))
    others = [files[:1], files[1:], [*files, package / "d.py"], None, [outside], [*files, outside]]
    assert len({known, *map(compile_.source_digest, others)}) == len(others) + 1


def test_the_baseline_names_what_kernels_are_made_for(monkeypatch):
    cpu, needed = compile_._BASELINES["x86_64"]
    features = dict.fromkeys(needed, True)
    monkeypatch.setattr(compile_.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(compile_.llvmlite.binding, "get_host_cpu_features", lambda: features)
    assert compile_._baseline() == {
        "cpu": cpu,
        "python": ".".join(map(str, sys.version_info[:2])),
        "numba": numba.__version__,
        "llvmlite": compile_.llvmlite.__version__,
        "system": sys.platform,
    }
    for lost in needed:
        features[lost] = False
        assert compile_._baseline() is None
        features[lost] = True
    monkeypatch.setattr(compile_.platform, "machine", lambda: "riscv64")
    assert compile_._baseline() is None


@pytest.mark.parametrize("place", ["brought", "kept"])
def test_either_folder_may_ask_for_the_baseline(place, monkeypatch, tmp_path):
    made_for = {"cpu": "some-cpu"}
    monkeypatch.setattr(compile_, "_baseline", lambda: made_for)
    monkeypatch.setattr(compile_, "_BROUGHT", tmp_path / "brought")
    monkeypatch.setenv("RANKINE_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(numba.config, "CPU_NAME", None)
    monkeypatch.setattr(numba.config, "CPU_FEATURES", None)
    compile_._compile_for_baseline()
    assert (numba.config.CPU_NAME, numba.config.CPU_FEATURES) == (None, None)
    assert not compile_.keeps_kernels()
    compile_.write_baseline(tmp_path / place)
    monkeypatch.setattr(compile_, "_baseline", dict)
    compile_._compile_for_baseline()
    assert numba.config.CPU_NAME is None
    monkeypatch.setattr(compile_, "_baseline", lambda: made_for)
    compile_._compile_for_baseline()
    assert (numba.config.CPU_NAME, numba.config.CPU_FEATURES) == ("some-cpu", "")
    monkeypatch.setattr(numba.config, "CPU_NAME", "chosen")
    compile_._compile_for_baseline()
    assert numba.config.CPU_NAME == "chosen"
    kernel = tmp_path / place / "kernels" / "some" / "kernel.nbc"
    kernel.parent.mkdir(parents=True)
    assert not compile_.keeps_kernels()
    kernel.touch()
    assert compile_.keeps_kernels()


def test_the_clock_counts_the_outermost_compiling_alone(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(compile_.time, "perf_counter", lambda: now[0])
    clock, told = compile_.CompileClock(), []
    clock.begin, clock.end = lambda: told.append("begin"), lambda: told.append("end")
    mark = clock.mark()
    for collecting in (True, False):
        (gc.enable if collecting else gc.disable)()
        try:
            with clock.compiling():
                now[0] += 2.0
                with clock.compiling():
                    now[0] += 3.0
                assert not gc.isenabled()
                assert told[-1] == "begin"
            assert gc.isenabled() == collecting
        finally:
            gc.enable()
        now[0] += 1.0
    assert told == ["begin", "end"] * 2
    assert clock.seconds == 10.0
    assert clock.since(mark) == {"seconds": 2.0, "compile_seconds": 10.0}
    assert clock.since((100.5, 9.0)) == {"seconds": 10.5, "compile_seconds": 1.0}


class _Shelf:
    """As much of Numba's cache as saving needs; it writes down what it is asked."""

    _enabled = True
    _save_overload = compile_._KernelCache._save_overload

    def __init__(self, error=None):
        self.saved, self.error = [], error
        self.cachable = True
        self._impl = self
        self.locator = self

    def check_cachable(self, _data):
        return self.cachable

    def ensure_cache_path(self):
        if self.error:
            raise self.error

    def reduce(self, data):
        return data

    def _files(self, sig, _codegen):
        return sig, (None, self)

    def save(self, key, data):
        self.saved.append((key, data))

    def disable(self):
        self._enabled = False


class _Compiled(NamedTuple):
    library: object
    codegen: object = None


def test_only_what_can_be_kept_is_kept():
    shelf, whole = _Shelf(), _Compiled("library")
    shelf._save_overload("sig", whole)
    assert shelf.saved == [("sig", whole)]
    shelf._save_overload("sig", _Compiled(object.__new__(compile_._Linked)))
    shelf.cachable = False
    shelf._save_overload("sig", whole)
    shelf.cachable, shelf._enabled = True, False
    shelf._save_overload("sig", whole)
    assert len(shelf.saved) == 1
    full = _Shelf(OSError("disk full"))
    full._save_overload("sig", whole)
    assert not full._enabled
    assert not full.saved


@needs_jit
def test_what_stands_in_no_file_is_compiled_and_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKINE_CACHE_DIR", str(tmp_path))
    space = {}
    exec("def own(x):\n    return x + 1\n", space)  # noqa: S102
    own = compile_.jit(space["own"])
    assert [own(1), own(2.5), own(3)] == [2, 3.5, 4]
    assert len(own.overloads) == 2
    assert not kept(tmp_path)


def test_what_is_compiled_already_or_never_is_no_light_kernel():
    def never(x):
        return x + 1

    own = compile_.jit(never)
    assert compile_.light(never, 1) is never
    assert own(1) == 2
    assert compile_.light(own, 1) is own


@pytest.fixture
def jit_on(monkeypatch):
    """Kernels are made as with the JIT on; nothing here compiles them."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 0)
    monkeypatch.setattr(compile_.CPUDispatcher, "compile", None)


def _taken(x):
    return x + 1


FLOAT = (numba.float64,)


def test_what_is_compiled_meanwhile_is_inner_code(jit_on, monkeypatch):
    outer, inner = compile_.jit(_taken), compile_.jit(_taken)
    steps, fails = [], []

    def compile_one(kernel, sig):
        steps.append((kernel, kernel._compiler.pipeline_class, type(kernel._cache)))
        if kernel is outer:
            inner.compile(sig)
        if fails:
            raise TypeError("no such type")
        return "way in"

    whole = (compile_.compiler.Compiler, compile_._KernelCache)
    within = (compile_.Inner, compile_._KernelCache)
    monkeypatch.setattr(compile_.CPUDispatcher, "compile", compile_one)
    for _ in range(2):
        steps.clear()
        assert outer.compile(FLOAT) == "way in"
        assert steps == [(outer, *whole), (inner, *within)]
    # Inner code serves inner code, but nobody else; what can be called is not compiled again.
    inner.overloads[FLOAT] = SimpleNamespace(library=object.__new__(compile_._Linked))
    outer.compile(FLOAT)
    assert FLOAT in inner.overloads
    steps.clear()
    assert inner.compile(FLOAT) == "way in"
    assert steps == [(inner, *whole)]
    assert FLOAT not in inner.overloads
    outer.overloads[FLOAT] = SimpleNamespace(library="whole", entry_point="known")
    steps.clear()
    assert outer.compile(FLOAT) == "known"
    assert not steps
    fails.append(1)
    with pytest.raises(TypeError):
        inner.compile(FLOAT)
    fails.clear()
    inner.compile(FLOAT)
    assert steps[-1] == (inner, *whole)


def test_inner_code_is_known_without_a_way_in(jit_on, monkeypatch):
    kernel, added = compile_.jit(_taken), []
    monkeypatch.setattr(compile_.CPUDispatcher, "add_overload", lambda _, one: added.append(one))
    signature = SimpleNamespace(args=list(FLOAT))
    linked = SimpleNamespace(library=object.__new__(compile_._Linked), signature=signature)
    kernel.add_overload(linked)
    assert kernel.overloads[FLOAT] is linked
    whole = SimpleNamespace(library="whole", signature=signature)
    kernel.add_overload(whole)
    assert added == [whole]


def test_inner_code_has_no_wrappers_and_a_library_that_is_not_finished_alone(monkeypatch):
    begun = []
    monkeypatch.setattr(
        compile_.compiler.Compiler, "__init__", lambda _, *given: begun.append(given)
    )
    monkeypatch.setattr(compile_, "_Linked", lambda made, name: (made, name))
    target = SimpleNamespace(codegen=lambda: "codegen")
    for library, expected in (("given", "given"), (None, ("codegen", "inner"))):
        flags = SimpleNamespace()
        compile_.Inner("typing", target, library, "args", "result", flags, {})
        assert begun.pop() == ("typing", target, expected, "args", "result", flags, {})
        assert flags.no_compile
        assert flags.no_cpython_wrapper
        assert flags.no_cfunc_wrapper


def test_a_library_of_inner_code_is_finished_without_machine_code():
    library, done = object.__new__(compile_._Linked), []
    library._finalize_dynamic_globals = lambda: done.append("globals")
    library._finalize_final_module()
    assert done == ["globals"]
    assert library._finalized


def test_kernels_of_a_function_lie_by_its_sources_beside_the_package_and_at_the_users(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("RANKINE_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setattr(compile_, "_BROUGHT", tmp_path / "brought")
    monkeypatch.setattr(compile_, "_OUTSIDE", set())
    shelf = compile_._KernelCache(_taken)
    locator = shelf._impl.locator
    digest = compile_.source_digest(compile_.compiled_from(Path(__file__).resolve()))
    assert locator.name == f"test_compile-{digest}"
    assert locator.get_source_stamp() == digest
    assert locator.get_cache_path() == str(tmp_path / "own" / "kernels" / locator.name)
    assert locator.get_disambiguator() == str(_taken.__code__.co_firstlineno)
    assert compile_._Locator.from_function(_taken, str(tmp_path / "gone.py")) is None
    codegen = SimpleNamespace(magic_tuple=lambda: ("this", "machine"))
    seen = set()
    for checks, outside in ((0, set()), (1, set()), (0, {Path(__file__)})):
        monkeypatch.setattr(numba.config, "BOUNDSCHECK", checks)
        monkeypatch.setattr(compile_, "_OUTSIDE", outside)
        for sig in (FLOAT, (numba.int64,)):
            key, files = shelf._files(sig, codegen)
            seen.add(key)
            folders = [Path(file._index_path).parent for file in files]
            assert folders == [
                tmp_path / place / "kernels" / locator.name for place in ("brought", "own")
            ]
            seen.add(Path(files[0]._index_path).name)
    assert len(seen) == 2 * 6
    unkept = SimpleNamespace(
        lifted=(),
        library=SimpleNamespace(has_dynamic_globals=True),
        fndesc=SimpleNamespace(qualname="taken"),
    )
    with pytest.warns(numba.NumbaWarning, match="Cannot cache") as caught:
        assert not shelf._impl.check_cachable(unkept)
    assert caught[0].filename == __file__


@pytest.mark.kernels
def test_where_answers_stand_is_noted(monkeypatch, tmp_path):
    for name in ("_OUTSIDE", "_TYPED_IN"):
        monkeypatch.setattr(compile_, name, set())
    inside = next(iter(rows_kernels.row_dot.implementations.values()))
    compile_.note_answer(inside, _Squared)
    assert (set(), set()) == (compile_._OUTSIDE, compile_._TYPED_IN)
    compile_.note_answer(_taken, _Squared)
    assert ({Path(__file__)}, set()) == (compile_._OUTSIDE, compile_._TYPED_IN)
    space = {}
    exec("def typed(spec):\n    return 1\n", space)  # noqa: S102
    compile_.note_answer(space["typed"], _Squared)
    assert ({Path(__file__)}, {"_Squared"}) == (compile_._OUTSIDE, compile_._TYPED_IN)


CALLS = """
def add(x, y=2, *, z=10):
    return x + y * z
def outer(spec, x):
    return add(x) + size(spec, x) + add(x, 0, z=1)
"""


@pytest.mark.kernels
def test_plain_functions_keep_their_defaults_and_what_they_call(jit_on):
    space = {"size": _size}
    exec(CALLS, space)  # noqa: S102
    space["add"] = compile_.jit(space["add"])
    outer = compile_.jit(space["outer"])
    before = _squared.__globals__["_product"]
    assert compile_.plain(space["add"])(1) == 21
    assert compile_.plain(outer)(_Squared(3.0), 2.0) == 22.0 + 12.0 + 2.0
    assert _squared.__globals__["_product"] is before
