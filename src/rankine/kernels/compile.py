"""One decorator for every compiled function, and the cache that survives the process.

The cache folder is named by a digest of the sources that compiled code may come from, because Numba
notices a change in the file of a cached function but not in the functions it calls.
``RANKINE_CACHE_DIR`` moves it; a folder that is filled but read-only (a container image after
``rankine warmup``) is copied to a private temporary folder, since Numba refuses folders it cannot
write to.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["REDUCE", "UNCOMPILED", "cache_folder", "jit", "source_digest"]

F = TypeVar("F", bound="Callable[..., Any]")

#: Fast-math flags for sums, which may then be re-ordered inside one kernel. LLVM may also fold a
#: finiteness test of such a sum, so test finiteness outside the kernel that carries these flags.
REDUCE: frozenset[str] = frozenset({"reassoc", "contract", "nsz"})

#: Floors without compiled code, which may change without compiling anything again.
UNCOMPILED = frozenset({"cli", "distributed", "export", "model", "report", "tune"})


def _user_cache() -> Path:
    if chosen := os.environ.get("RANKINE_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "rankine" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rankine"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rankine"


def source_digest(without: frozenset[str] = frozenset()) -> str:
    """Digest of the package's source files in a fixed order, without some of its floors."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in without:
            continue
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> str:
    """The folder of this version's compiled kernels; empty when nothing can be kept."""
    folder = _user_cache() / f"kernels-{source_digest(UNCOMPILED)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except OSError:
        pass
    private = tempfile.mkdtemp(prefix="rankine-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    if folder.is_dir():
        shutil.copytree(folder, private, dirs_exist_ok=True)
    return private


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
        return lambda wrapped: jit_with(wrapped, fastmath=fastmath, inline=inline)
    return jit_with(function, fastmath=fastmath, inline=inline)


def jit_with(function: F, *, fastmath: frozenset[str] | bool, inline: bool) -> F:
    """Decorate one function, pointing Numba at our cache only while it looks for one."""
    if numba.config.DISABLE_JIT:
        return function
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = cache_folder()
    try:
        compiled = numba.njit(
            cache=True,
            nogil=True,
            error_model="numpy",
            fastmath=set(fastmath) if isinstance(fastmath, frozenset) else fastmath,
            inline="always" if inline else "never",
        )(function)
    finally:
        numba.config.CACHE_DIR = before
    return cast("F", compiled)
