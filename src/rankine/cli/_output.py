"""Text output to a file, written whole or not at all, or to stdout."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["require_folder", "text_output"]


@contextmanager
def text_output(path: str) -> Iterator[Callable[[str], object]]:
    """A function that writes text; a file appears under its name only when all went well."""
    if path == "-":
        yield sys.stdout.write
        sys.stdout.flush()
        return
    from rankine.core.atomic import atomic_file

    with atomic_file(path) as file:
        yield lambda text: file.write(text.encode())


def require_folder(option: str, path: str | None) -> None:
    """Refuse a file that could not be written, before long work rather than after it."""
    if path is None:
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ParameterError(
            f"{option} {path}: there is no folder {folder} that can be written to",
            fix="Make the folder, or name another file",
        )
    if Path(path).is_dir():
        raise ParameterError(f"{option} {path} is a folder", fix="Name a file")
