"""One decorator for every compiled function, and the cache that survives the process.

A compiled function is kept under a key of our own: a digest of the sources it may come from (its
own file, the compiled files that file imports, every file that answers a question), the versions of
Numba and Python, and the CPU. Numba by itself notices a change in the file of a cached function,
not in the functions it calls, and misses its own files when a path or a CPU's name differ.

Kernels are looked up in the folder ``_kernels`` beside this package, where a platform wheel brings
them, then in ``RANKINE_CACHE_DIR`` or the user's cache; what is missing is compiled and written to
the latter. A folder that ``rankine warmup --into`` has filled holds ``baseline.json``: its kernels
were compiled for a baseline of CPUs instead of this machine's, so the process compiles for that
baseline too, and computes the same bits as every other machine that uses the folder.

With ``RANKINE_BOUNDS_CHECK=1`` every index is checked (IndexError where it is out of bounds), at
a price in speed; such kernels are kept under keys of their own. It is for tests.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import llvmlite.binding
import numba
from numba import _dynfunc
from numba.core import caching, codegen, compiler, compiler_lock, event, sigutils
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

F = TypeVar("F", bound="Callable[..., Any]")

#: Fast-math flags for sums, which may then be re-ordered inside one kernel. LLVM may also fold a
#: finiteness test of such a sum, so test finiteness outside the kernel that carries these flags.
REDUCE: frozenset[str] = frozenset({"reassoc", "contract", "nsz"})

_ROOT = Path(__file__).resolve().parent.parent
#: A file that holds one of these holds compiled code.
_COMPILES = re.compile(r"import numba|from numba|kernels\.compile import|kernels\.dispatch import")
_IMPORT = re.compile(r"^[ ]*from (rankine[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
#: Classes are no part of compiled code unless they are specs, whose files answer questions.
_NO_CLASS = re.compile(r"\b(?:[a-z_]\w*|[A-Z][A-Z0-9_]*)\b")


def user_cache() -> Path:
    """The folder of everything that rankine keeps between processes."""
    if chosen := os.environ.get("RANKINE_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "rankine" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rankine"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rankine"


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _package_files() -> tuple[Path, ...]:
    return tuple(sorted(_ROOT.rglob("*.py")))


def source_digest(files: Iterable[Path] | None = None) -> str:
    """Digest of source files in a fixed order; None takes all files of the package."""
    digest = hashlib.sha256()
    for path in sorted(_package_files() if files is None else files):
        inside = path.is_relative_to(_ROOT)
        digest.update((path.relative_to(_ROOT) if inside else path).as_posix().encode())
        digest.update(_text(path).encode())
    return digest.hexdigest()[:16]


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Files whose change may change the compiled code of this one, directly."""
    found: set[Path] = set()
    for module, names in _IMPORT.findall(_text(path)):
        stem = _ROOT.joinpath(*module.split(".")[1:])
        file = stem.with_suffix(".py")
        if stem.is_dir():
            found.update(stem.glob("*.py"))
        elif file.is_file() and (_COMPILES.search(_text(file)) or _NO_CLASS.search(names)):
            found.add(file)
    return frozenset(found)


@cache
def compiled_from(path: Path) -> frozenset[Path]:
    """Files of the package that the compiled code of a file may come from."""
    found = {path, *(file for file in _package_files() if ".implementation(" in _text(file))}
    pending = list(found)
    while pending:
        current = pending.pop()
        if _COMPILES.search(_text(current)) or current.name == "__init__.py":
            fresh = _imported(current) - found
            found |= fresh
            pending.extend(fresh)
    return frozenset(found)


#: Files outside the package that answer questions: kernels that ask them depend on these.
_OUTSIDE: set[Path] = set()
#: Spec types whose answers stand in no file, such as a notebook's: their kernels are not kept.
_TYPED_IN: set[str] = set()


def note_implementation(function: Callable[..., Any], spec_type: type) -> None:
    """Remember where an answer was written."""
    source = Path(function.__code__.co_filename)
    if not source.is_file():
        _TYPED_IN.add(spec_type.__name__)
    elif not source.is_relative_to(_ROOT):
        _OUTSIDE.add(source)


def _typed_in(sig: Any) -> bool:
    """Whether a signature names a spec whose answer may be another the next time it is typed."""
    text = str(sig)
    return any(name in text for name in _TYPED_IN)


class _Locator(caching._CacheLocator):  # noqa: SLF001 - Numba has no public way to name a cache
    """Where the kernels of a file are kept: by content, wherever the file lies."""

    def __init__(self, function: Any, file: str) -> None:
        source = Path(file).resolve()
        self._py_file = file
        self._line = function.__code__.co_firstlineno
        self._digest = source_digest(compiled_from(source))
        self.name = f"{source.stem}-{self._digest}"

    def get_cache_path(self) -> str:
        return str(user_cache() / "kernels" / self.name)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator | None:
        return cls(py_func, py_file) if Path(py_file).is_file() else None


class _Kept(caching.CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _KernelCache(caching.FunctionCache):
    """Files of their own for each signature of a function, so that processes never meet."""

    _impl_class = _Kept

    def _files(self, sig: Any, codegen: Any) -> tuple[Any, list[Any]]:
        """The key of a signature, and its files: brought with the package, and the user's own."""
        outside = source_digest(_OUTSIDE) if _OUTSIDE else ""
        checked = bool(numba.config.BOUNDSCHECK)
        key = (outside, checked, *self._index_key(sig, codegen))
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        locator = self._impl.locator
        return key, [
            caching.IndexDataCacheFile(
                cache_path=str(folder / "kernels" / locator.name),
                filename_base=f"{self._impl.filename_base}-{name}",
                source_stamp=locator.get_source_stamp(),
            )
            for folder in (_BROUGHT, user_cache())
        ]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """As ever, but for what only a compiler needs, which takes longer than to load."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        if _typed_in(sig):
            return None
        key, files = self._files(sig, target_context.codegen())
        for file in files:
            with suppress(OSError, EOFError, caching.pickle.UnpicklingError):
                kept = file.load(key)
                if kept is not None:
                    return self._impl.rebuild(target_context, kept)
        return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        if isinstance(data.library, _Linked):
            return
        if not self._enabled or _typed_in(sig) or not self._impl.check_cachable(data):
            return
        key, (_, file) = self._files(sig, data.codegen)
        try:
            self._impl.locator.ensure_cache_path()
            file.save(key, self._impl.reduce(data))
        except (OSError, EOFError):
            self.disable()  # a read-only or full folder: compiled code stays in memory


#: Kernels that were installed with the package.
_BROUGHT = _ROOT / "_kernels"
_BASELINE_FILE = "baseline.json"
#: Machine -> the oldest CPU that shared kernels run on, and what it must have (LLVM's names).
_BASELINES = {"x86_64": ("x86-64-v3", ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"))}


def _baseline() -> dict[str, str] | None:
    """What kernels of a shared folder must have been made for; None where nothing is shared."""
    if platform.machine() not in _BASELINES:
        return None
    cpu, needed = _BASELINES[platform.machine()]
    features = llvmlite.binding.get_host_cpu_features()
    if not all(features.get(name) for name in needed):
        return None
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    made_for = {"cpu": cpu, "python": python, "numba": numba.__version__}
    return {**made_for, "llvmlite": llvmlite.__version__, "system": sys.platform}


def keeps_kernels() -> bool:
    """Whether anything was compiled before, here or with the package."""
    return any(any(folder.glob("kernels/*/*")) for folder in (_BROUGHT, user_cache()))


def write_baseline(folder: Path) -> None:
    """Mark a folder as one whose kernels are shared between machines, before it is filled."""
    from rankine.core.errors import ParameterError

    made_for = _baseline()
    if made_for is None:
        known = ", ".join(cpu for cpu, _ in _BASELINES.values())
        raise ParameterError(
            f"kernels can be shared between machines of the kind {known}, and this is another",
            fix="Run rankine warmup without --into on each machine",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _BASELINE_FILE).write_text(json.dumps(made_for) + "\n", encoding="utf-8")


def _compile_for_baseline() -> None:
    """Compile for the baseline when one of the folders is made for it, else for this CPU."""
    if numba.config.CPU_NAME is not None:
        return
    for folder in (_BROUGHT, user_cache()):
        try:
            made_for = json.loads((folder / _BASELINE_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if made_for == _baseline():
            numba.config.CPU_NAME, numba.config.CPU_FEATURES = made_for["cpu"], ""
            return


_compile_for_baseline()
if os.environ.get("RANKINE_BOUNDS_CHECK") == "1":
    numba.config.BOUNDSCHECK = 1


class CompileClock(event.Listener):
    """How long this process has compiled; ``begin`` is called when it starts to."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.begin: Callable[[], None] | None = None
        self.end: Callable[[], None] | None = None
        self._depth = 0
        self._since = 0.0
        self._collecting = False

    def mark(self) -> tuple[float, float]:
        """Now, for ``since``."""
        return time.perf_counter(), self.seconds

    def since(self, mark: tuple[float, float]) -> dict[str, float]:
        """Seconds that have passed without compiling, and those of compiling."""
        compiled = self.seconds - mark[1]
        passed = time.perf_counter() - mark[0] - compiled
        return {"seconds": round(passed, 3), "compile_seconds": round(compiled, 3)}

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """All that happens inside counts as compiling."""
        self.on_start(None)
        try:
            yield
        finally:
            self.on_end(None)

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        """Count, tell, and keep the collector from walking Numba's millions of objects."""
        self._depth += 1
        if self._depth > 1:
            return
        self._since = time.perf_counter()
        self._collecting = gc.isenabled()
        gc.disable()
        if self.begin is not None:
            self.begin()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Add what has passed."""
        self._depth -= 1
        if self._depth:
            return
        self.seconds += time.perf_counter() - self._since
        if self._collecting:
            gc.enable()
        if self.end is not None:
            self.end()


#: Seconds this process has spent on compiling.
CLOCK = CompileClock()
event.register("numba:compile", CLOCK)


class _Linked(codegen.JITCodeLibrary):
    """Code that becomes a part of other code: no machine code is made of it alone."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class Inner(compiler.Compiler):
    """Compiles what only compiled code calls: half of the work is the way in from Python."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        flags = rest[2]
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        super().__init__(typing, target, library or _Linked(target.codegen(), "inner"), *rest)

    def compile_extra(self, func: Any) -> Any:
        """As ever; whoever links the result finds it by a function that nobody may call."""
        result = super().compile_extra(func)
        library, described = result.library, result.fndesc
        way_in = _dynfunc.make_function(
            described.lookup_module(), described.qualname, "", 0, result.environment, (library,)
        )
        result.target_context.insert_user_function(way_in, described, [library])
        result.reload_init.extend(getattr(library, "_reload_init", ()))
        return result._replace(entry_point=way_in)


class _Kernel(CPUDispatcher):
    """A compiled function; what is compiled for another one first is no function of Python's."""

    _depth = 0
    _cache: Any

    def compile(self, sig: Any) -> Any:
        with compiler_lock.global_compiler_lock:
            kept = Path(self.__code__.co_filename).is_file()
            if kept and not isinstance(self._cache, _KernelCache):
                self._cache = _KernelCache(self.py_func)  # late: most kernels are never called
            arguments = tuple(sigutils.normalize_signature(sig)[0])
            inner = _Kernel._depth > 0
            if not inner and arguments in self.overloads:
                if not isinstance(self.overloads[arguments].library, _Linked):
                    return self.overloads[arguments].entry_point
                del self.overloads[arguments]
            self._compiler.pipeline_class = Inner if inner else compiler.Compiler
            _Kernel._depth += 1
            try:
                return super().compile(sig)
            finally:
                _Kernel._depth -= 1

    def add_overload(self, cres: Any) -> None:
        if isinstance(cres.library, _Linked):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)


@cache
def plain(function: Any) -> Any:
    """The same function in plain Python, with every compiled function that it calls."""
    if hasattr(function, "implementations"):
        known = function.implementations
        return lambda spec, *rest: plain(known.get(type(spec), known.get(object)))(spec, *rest)
    function = getattr(function, "py_func", function)
    code, known = function.__code__, dict(function.__globals__)
    for name in code.co_names:
        value = known.get(name)
        if isinstance(value, _Kernel) or hasattr(value, "implementations"):
            known[name] = plain(value)
    made = FunctionType(code, known, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


#: Rows that a process hands to a light kernel before it is compiled.
LIGHT_ROWS = 0 if numba.config.BOUNDSCHECK else 4096
_HANDED: Counter[Any] = Counter()


def light(kernel: F, n_rows: int) -> F:
    """A kernel that takes seconds to compile, in plain Python while a process has few rows for it.

    Both compute the same bits: nothing in such a kernel may be re-ordered or come from a library of
    mathematics.
    """
    if not isinstance(kernel, _Kernel) or kernel.overloads:
        return kernel
    _HANDED[kernel] += n_rows
    return plain(kernel) if _HANDED[kernel] <= LIGHT_ROWS else kernel


@contextmanager
def sharing(claims: Path) -> Iterator[None]:
    """Compile beside another process: what that has claimed first runs in plain Python here.

    It is for toys, whose results nobody needs. The kernels of both are kept on disk.
    """
    mine: set[str] = set()

    def call(kernel: Any, *given: Any) -> Any:
        function = kernel.py_func
        types = [str(kernel.typeof_pyval(value)) for value in given]
        words = repr((function.__module__, function.__qualname__, types))
        claim = hashlib.sha256(words.encode()).hexdigest()
        if claim in mine:
            return CPUDispatcher.__call__(kernel, *given)
        try:
            (claims / claim).touch(exist_ok=False)
        except FileExistsError:
            if not (claims / claim).read_bytes():
                return plain(kernel)(*given)
        mine.add(claim)
        result = CPUDispatcher.__call__(kernel, *given)
        (claims / claim).write_bytes(b"compiled")
        return result

    _Kernel.__call__ = call
    try:
        yield
    finally:
        del _Kernel.__call__


@overload
def jit(function: F) -> F: ...
@overload
def jit(*, fastmath: frozenset[str] | bool = False, inline: bool = False) -> Callable[[F], F]: ...
def jit(
    function: F | None = None, *, fastmath: frozenset[str] | bool = False, inline: bool = False
) -> F | Callable[[F], F]:
    """Compile a function: no Python objects, no GIL, cached on disk.

    Parameters
    ----------
    fastmath
        Pass ``REDUCE`` for inner products; anything wider deletes finiteness tests.
    inline
        Inline into callers (needed by no one, useful to tiny helpers of hot loops).
    """
    if function is None:
        return partial(jit, fastmath=fastmath, inline=inline)
    if numba.config.DISABLE_JIT:
        return function
    options = {
        "nopython": True,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": set(fastmath) if isinstance(fastmath, frozenset) else fastmath,
        "inline": "always" if inline else "never",
        "boundscheck": None,
        "no_cfunc_wrapper": True,
    }
    return cast("F", _Kernel(function, targetoptions=options))
