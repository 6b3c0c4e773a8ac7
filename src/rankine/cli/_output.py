"""Text output to a file, written whole or not at all, or to stdout."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["text_output"]


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
