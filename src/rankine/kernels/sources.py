"""Digests of the source files that compiled code comes from: the keys of the kernel cache.

Numba's own cache notices a change in the file of a cached function, but not in the functions that
it calls. A kernel is therefore cached under a digest of its file, of the compiled files that this
file imports, directly or not, and of every file that implements a generic function.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
#: A file with one of these imports contains compiled code.
_COMPILED = re.compile(r"import numba|from numba|kernels\.compile import|kernels\.dispatch import")
_IMPORT = re.compile(r"^[ ]*from (rankine[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
#: Names of functions and constants. An imported class is not compiled into a kernel, unless it is
#: a spec, and files with specs count because they implement generic functions.
_FUNCTION_OR_CONSTANT = re.compile(r"\b(?:[a-z_]\w*|[A-Z][A-Z0-9_]*)\b")
_IMPLEMENTS = ".implementation("

#: Files outside the package that implement generic functions.
_OUTSIDE_FILES: set[Path] = set()
#: Names of spec types with an implementation that is in no file, such as one typed into a notebook.
_INTERACTIVE_SPECS: set[str] = set()


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _package_files() -> tuple[Path, ...]:
    return tuple(sorted(_ROOT.rglob("*.py")))


def source_digest(files: Iterable[Path] | None = None) -> str:
    """Return a digest of source files, in any order; None means all files of the package."""
    digest = hashlib.sha256()
    for path in sorted(_package_files() if files is None else files):
        # Relative names, so that the digest does not depend on where the package is installed.
        name = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path
        digest.update(name.as_posix().encode())
        digest.update(_text(path).encode())
    return digest.hexdigest()[:16]


@cache
def _imported_files(path: Path) -> frozenset[Path]:
    """Return the files that this file imports and whose change may change its compiled code."""
    files: set[Path] = set()
    for module, names in _IMPORT.findall(_text(path)):
        target = _ROOT.joinpath(*module.split(".")[1:])
        file = target.with_suffix(".py")
        if target.is_dir():
            files.update(target.glob("*.py"))
        elif file.is_file() and (
            _COMPILED.search(_text(file)) or _FUNCTION_OR_CONSTANT.search(names)
        ):
            files.add(file)
    return frozenset(files)


@cache
def compiled_from(path: Path) -> frozenset[Path]:
    """Return the files of the package that the kernels of a file may be compiled from."""
    files = {path, *(file for file in _package_files() if _IMPLEMENTS in _text(file))}
    pending = list(files)
    while pending:
        current = pending.pop()
        if _COMPILED.search(_text(current)) or current.name == "__init__.py":
            imported = _imported_files(current) - files
            files |= imported
            pending.extend(imported)
    return frozenset(files)


def record_implementation(function: Callable[..., Any], spec_type: type) -> None:
    """Record where an implementation of a generic function is written."""
    path = Path(function.__code__.co_filename)
    if not path.is_file():
        _INTERACTIVE_SPECS.add(spec_type.__name__)
    elif not path.is_relative_to(_ROOT):
        _OUTSIDE_FILES.add(path)


def outside_digest() -> str:
    """Return a digest of the files outside the package that implement generic functions."""
    return source_digest(_OUTSIDE_FILES) if _OUTSIDE_FILES else ""


def has_interactive_spec(signature: Any) -> bool:
    """Return whether an argument is a spec whose implementation is in no file.

    The same text could be typed in differently the next time, so nothing identifies such a kernel.
    """
    text = str(signature)
    return any(name in text for name in _INTERACTIVE_SPECS)
