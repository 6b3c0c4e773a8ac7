"""Compiled kernels on disk: bundled with the package, or in the user's cache.

Kernels are looked up in the folder ``_kernels`` of the package, where a platform wheel bundles
them, then in ``RANKINE_CACHE_DIR`` or the user's cache. Missing ones are compiled and written to
the latter. Loading one runs machine code and unpickles Numba's description of it, so the folder
must belong to the user or to root, and nobody else may be able to write to it. Each file starts
with a digest of its content, which is checked first: a damaged file is compiled again.

A folder filled by ``rankine warmup --into`` contains ``baseline.json``: its kernels are compiled
for the oldest supported CPU of a kind rather than for this machine. A process that finds such a
folder compiles for that CPU too, so that every machine that uses the folder computes the same bits.

Numba's documented setting ``NUMBA_CACHE_LOCATOR_CLASSES`` can name a folder per function, but all
signatures of a function then share one index file, which processes that compile at the same time
overwrite. ``KernelCache`` therefore writes one file per signature. It is built from the classes in
``numba.core.caching`` and takes the place of the cache that ``njit(cache=True)`` makes.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
import stat
import sys
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding
import numba
from numba.core import caching

from rankine.core.atomic import atomic_file
from rankine.core.user_warnings import warn_user
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
#: Length of the SHA-256 digest at the start of a kernel's file.
_DIGEST_BYTES = 32
#: Machine -> oldest supported CPU and the features it needs, as LLVM names them. Every 64-bit ARM
#: processor has the features of its baseline.
_BASELINES = {
    "x86_64": ("x86-64-v3", ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")),
    "aarch64": ("generic", ()),
    "arm64": ("apple-m1", ()),
}
#: Names that Windows gives to machines.
_MACHINE_ALIASES = {"AMD64": "x86_64"}


#: Permissions with which somebody else could replace a kernel.
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def user_cache() -> Path | None:
    """Return the folder of everything that rankine keeps between processes; None without a home."""
    if folder := _absolute_folder("RANKINE_CACHE_DIR"):
        return folder
    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry in the list of users
        return None
    if not home.is_absolute():
        return None
    if sys.platform == "win32":
        return (_absolute_folder("LOCALAPPDATA") or home) / "rankine" / "cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "rankine"
    return (_absolute_folder("XDG_CACHE_HOME") or home / ".cache") / "rankine"


def _absolute_folder(variable: str) -> Path | None:
    """Return the folder that an environment variable names; None if it is empty or relative.

    As the XDG specification requires: a relative folder would be in the working directory, where
    somebody else may have put files.
    """
    value = os.environ.get(variable, "")
    if os.path.isabs(value):  # noqa: PTH117 - Path("") is "."
        return Path(value)
    if value:
        _warn_once(f"{variable}={value!r} is ignored: it is relative. Name an absolute folder.")
    return None


def _is_trusted(status: os.stat_result) -> bool:
    """Whether nobody but this user, or root, can write to a file or folder."""
    if not hasattr(os, "geteuid"):  # Windows: the user's folder is private by default
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _WRITABLE_BY_OTHERS


@cache
def _warn_once(message: str) -> None:
    warn_user(message, RuntimeWarning)


class _KernelLocator(caching._CacheLocator):  # noqa: SLF001 - the base class that Numba documents
    """Name the cache folder of a source file after the digest of its sources."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        path = Path(file).resolve()
        self._py_file = file  # read by Numba's warnings
        self._first_line = function.__code__.co_firstlineno
        self._digest = source_digest(compiled_from(path))
        self.folder_name = f"{path.stem}-{self._digest}"

    def get_cache_path(self) -> str:
        return str((user_cache() or Path()) / "kernels" / self.folder_name)

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
        return (
            signature,
            codegen.magic_tuple(),
            bool(numba.config.BOUNDSCHECK),
            outside_digest(),
            numba.__version__,
        )

    def _file(self, folder: Path, key: tuple[Any, ...]) -> Path:
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        file_name = f"{self._format.filename_base}-{name}.nbc"
        return folder / "kernels" / self._format.locator.folder_name / file_name

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function compiled for a signature, or None if no folder has it."""
        if not self._enabled or has_interactive_spec(sig):
            return None
        # Loaded code refers to functions that Numba registers in the context.
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for folder in (_BUNDLED, user_cache()):
            if folder is None:
                continue
            data = _read(self._file(folder, key), is_bundled=folder == _BUNDLED)
            if data is None:
                continue
            # The file is as it was written, perhaps by an installation that has other modules.
            with suppress(Exception):
                return self._format.rebuild(target_context, pickle.loads(data))  # noqa: S301
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the function compiled for a signature to the user's cache."""
        folder = user_cache()
        if folder is None or not self._enabled or has_interactive_spec(sig):
            return
        if not self._format.check_cachable(data):
            return
        path = self._file(folder, self._key(sig, data.codegen))
        payload = caching.dumps(self._format.reduce(data))
        try:
            for parent in (folder, folder / "kernels", path.parent):
                # Not writable by a group, whatever the umask.
                parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            if _folders_trusted(path):
                _write(path, payload)
        except OSError:
            self.disable()  # a read-only or full folder: compiled code stays in memory


def _folders_trusted(path: Path) -> bool:
    """Whether the folders of a kernel can be used; warn if others can write to them."""
    for folder in (path.parents[2], path.parents[1], path.parent):
        if not _is_trusted(folder.stat()):
            _warn_once(
                f"compiled code is neither read from nor written to {folder}: it belongs to "
                "another user, or others can write to it. Run chmod go-w on it, or set "
                "RANKINE_CACHE_DIR to a folder of your own."
            )
            return False
    return True


def _read(path: Path, *, is_bundled: bool) -> bytes | None:
    """Return the content of a kernel's file; None if it is missing, damaged or not to be trusted.

    Bundled kernels belong to the installed package, as its Python files do.
    """
    try:
        if not is_bundled and not _folders_trusted(path):
            return None
        with path.open("rb") as file:
            if not is_bundled and not _is_trusted(os.fstat(file.fileno())):
                return None
            data = file.read()
    except OSError:
        return None
    digest, payload = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def _write(path: Path, payload: bytes) -> None:
    with atomic_file(path) as file:
        if hasattr(os, "fchmod"):
            mode = os.fstat(file.fileno()).st_mode
            os.fchmod(file.fileno(), stat.S_IMODE(mode) & ~_WRITABLE_BY_OTHERS)
        file.write(hashlib.sha256(payload).digest() + payload)


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
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / _BASELINE_FILE).write_text(json.dumps(baseline) + "\n", encoding="utf-8")


def compile_for_baseline() -> None:
    """Set Numba's target CPU to the baseline if a cache folder was filled for it."""
    if numba.config.CPU_NAME is not None:
        return
    for folder in (_BUNDLED, user_cache()):
        if folder is None:
            continue
        try:
            baseline = json.loads((folder / _BASELINE_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if baseline == _baseline():
            numba.config.CPU_NAME, numba.config.CPU_FEATURES = baseline["cpu"], ""
            return
