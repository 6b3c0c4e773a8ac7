"""Arrow's exceptions as typed errors with a file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from rankine.core.errors import DataError, FileKindError, LimitError, RankineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.sources import Source

__all__ = ["arrow_errors", "first_line", "open_seekable"]


@contextmanager
def arrow_errors(file: str, what: str, kind: type[DataError] = DataError) -> Iterator[None]:
    """Turn whatever Arrow raises about ``what`` into an error about ``file``."""
    try:
        yield
    except (pa.ArrowMemoryError, MemoryError) as error:
        raise LimitError(
            f"{what} needs more memory than there is: {first_line(error)}",
            fix="The file is damaged or hostile, or needs smaller row groups",
            file=file,
        ) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        if isinstance(error, RankineError):
            raise
        raise kind(
            f"{what} cannot be read: {first_line(error)}",
            fix="The file is damaged, or not of this kind; write it again",
            file=file,
        ) from error


def first_line(error: BaseException) -> str:
    """First line of a message, cut to a readable length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def open_seekable(source: Source, kind: str) -> pa.NativeFile:
    """Open a file that is read from its end; pipes are refused."""
    if not source.rereadable:
        raise FileKindError(
            f"{kind} cannot be read from a pipe, since its index stands at the end",
            fix="Save it to a file first",
            file=source.name,
        )
    source.open().close()  # notes what the file looks like, or notices that it changed
    return pa.OSFile(str(source.path), "rb")
