"""One decorator for every compiled function, and the cache that survives the process.

A file's cache folder is named by a digest of the sources that its compiled code may come from: its
own, those of the compiled files it imports, and every file that answers a question (``dispatch``).
Numba by itself notices a change in the file of a cached function, not in the functions it calls.
``RANKINE_CACHE_DIR`` moves it; a folder that is filled but read-only (a container image after
``rankine warmup``) is copied to a private temporary folder, since Numba refuses folders it cannot
write to.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numba

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["REDUCE", "cache_folder", "compiled_from", "jit", "source_digest", "user_cache"]

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
    """Digest of source files of the package in a fixed order; None takes all of them."""
    digest = hashlib.sha256()
    for path in sorted(_package_files() if files is None else files):
        digest.update(path.relative_to(_ROOT).as_posix().encode())
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
    found = {path, *(file for file in _package_files() if ".answer(" in _text(file))}
    pending = list(found)
    while pending:
        current = pending.pop()
        if _COMPILES.search(_text(current)) or current.name == "__init__.py":
            fresh = _imported(current) - found
            found |= fresh
            pending.extend(fresh)
    return frozenset(found)


@cache
def cache_folder(path: Path | None = None) -> str:
    """The folder of the compiled code of a file (None: of all); empty when nothing can be kept."""
    kernels = f"kernels-{source_digest(compiled_from(path) if path else None)}"
    folder = user_cache() / kernels
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
    source = Path(function.__code__.co_filename).resolve()
    numba.config.CACHE_DIR = cache_folder(source if source.is_relative_to(_ROOT) else None)
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
