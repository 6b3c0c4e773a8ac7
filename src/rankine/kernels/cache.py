"""Compiled kernels on disk: bundled with the package, or in the user's cache.

Kernels are looked up in the folder ``_kernels`` of the package, where a platform wheel bundles
them, then in ``RANKINE_CACHE_DIR`` or the user's cache. Missing ones are compiled and written to
the latter.

A folder filled by ``rankine warmup --into`` contains ``baseline.json``: its kernels are compiled
for the oldest supported CPU of a kind rather than for this machine. A process that finds such a
folder compiles for that CPU too, so that every machine that uses the folder computes the same bits.

Numba's documented setting ``NUMBA_CACHE_LOCATOR_CLASSES`` can name a folder per function, but all
signatures of a function then share one index file, which processes that compile at the same time
overwrite. ``KernelCache`` therefore gives each signature a separate index. It is built from the
classes in ``numba.core.caching`` and takes the place of the cache that ``njit(cache=True)`` makes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding
import numba
from numba.core import caching

from rankine.kernels.sources import (
    compiled_from,
    has_interactive_spec,
    outside_digest,
    source_digest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Kernels that were installed with the package.
_BUNDLED = Path(__file__).resolve().parent.parent / "_kernels"
_BASELINE_FILE = "baseline.json"
#: Machine -> oldest supported CPU and the features it needs, as LLVM names them. Every 64-bit ARM
#: processor has the features of its baseline.
_BASELINES = {
    "x86_64": ("x86-64-v3", ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")),
    "aarch64": ("generic", ()),
    "arm64": ("apple-m1", ()),
}
#: Names that Windows gives to machines.
_MACHINE_ALIASES = {"AMD64": "x86_64"}


def user_cache() -> Path:
    """Return the folder of everything that rankine keeps between processes."""
    if chosen := os.environ.get("RANKINE_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "rankine" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rankine"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rankine"


class _KernelLocator(caching._CacheLocator):  # noqa: SLF001 - the base class that Numba documents
    """Name the cache folder of a source file after the digest of its sources."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        path = Path(file).resolve()
        self._py_file = file  # read by Numba's warnings
        self._first_line = function.__code__.co_firstlineno
        self._digest = source_digest(compiled_from(path))
        self.folder_name = f"{path.stem}-{self._digest}"

    def get_cache_path(self) -> str:
        return str(user_cache() / "kernels" / self.folder_name)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._first_line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _KernelLocator | None:
        return cls(py_func, py_file) if Path(py_file).is_file() else None


class _ResultFormat(caching.CompileResultCacheImpl):
    """How Numba writes and reads a compiled function, for files that our locator names."""

    _locator_classes = (_KernelLocator,)


class KernelCache(caching._Cache):  # noqa: SLF001 - the interface that a dispatcher's cache has
    """The compiled versions of one function, with separate files for each signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._enabled = True

    @cached_property
    def _format(self) -> _ResultFormat:
        # Created on first use: digests take time, and most kernels are never called by a process.
        return _ResultFormat(self._function)

    @property
    def cache_path(self) -> str:
        """Return the folder that new kernels are written to."""
        return str(self._format.locator.get_cache_path())

    def enable(self) -> None:
        """Start reading and writing files again."""
        self._enabled = True

    def disable(self) -> None:
        """Stop reading and writing files."""
        self._enabled = False

    def flush(self) -> None:
        """Do nothing: a file is never stale, because its name contains the sources' digest."""

    def _key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return signature, codegen.magic_tuple(), bool(numba.config.BOUNDSCHECK), outside_digest()

    def _file(self, folder: Path, key: tuple[Any, ...]) -> caching.IndexDataCacheFile:
        # One index per key: processes that save at the same time would overwrite a shared one.
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        locator = self._format.locator
        return caching.IndexDataCacheFile(
            cache_path=str(folder / "kernels" / locator.folder_name),
            filename_base=f"{self._format.filename_base}-{name}",
            source_stamp=locator.get_source_stamp(),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function compiled for a signature, or None if no folder has it."""
        if not self._enabled or has_interactive_spec(sig):
            return None
        # Loaded code refers to functions that Numba registers in the context.
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for folder in (_BUNDLED, user_cache()):
            # A damaged or unreadable file is compiled again.
            with suppress(OSError, EOFError, caching.pickle.UnpicklingError):
                payload = self._file(folder, key).load(key)
                if payload is not None:
                    return self._format.rebuild(target_context, payload)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the function compiled for a signature to the user's cache."""
        if not self._enabled or has_interactive_spec(sig) or not self._format.check_cachable(data):
            return
        key = self._key(sig, data.codegen)
        try:
            self._format.locator.ensure_cache_path()
            self._file(user_cache(), key).save(key, self._format.reduce(data))
        except OSError:
            self.disable()  # a read-only or full folder: compiled code stays in memory


def _baseline() -> dict[str, str] | None:
    """Return what this machine's shared kernels are compiled for, or None if it has no baseline."""
    machine = platform.machine()
    machine = _MACHINE_ALIASES.get(machine, machine)
    if machine not in _BASELINES:
        return None
    cpu, needed = _BASELINES[machine]
    if needed:
        features = llvmlite.binding.get_host_cpu_features()
        if not all(features.get(name) for name in needed):
            return None
    return {
        "cpu": cpu,
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "system": sys.platform,
    }


def write_baseline(folder: Path) -> None:
    """Mark an empty folder as one whose kernels are shared between machines."""
    from rankine.core.errors import ParameterError

    baseline = _baseline()
    if baseline is None:
        supported = ", ".join(cpu for cpu, _ in _BASELINES.values())
        raise ParameterError(
            f"this machine cannot compile kernels to share; its CPU is none of {supported}",
            parameter="into",
            fix="Run rankine warmup without --into on each machine",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _BASELINE_FILE).write_text(json.dumps(baseline) + "\n", encoding="utf-8")


def compile_for_baseline() -> None:
    """Set Numba's target CPU to the baseline if a cache folder was filled for it."""
    if numba.config.CPU_NAME is not None:
        return
    for folder in (_BUNDLED, user_cache()):
        try:
            baseline = json.loads((folder / _BASELINE_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if baseline == _baseline():
            numba.config.CPU_NAME, numba.config.CPU_FEATURES = baseline["cpu"], ""
            return
