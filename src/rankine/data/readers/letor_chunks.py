"""Text in windows of whole lines, in a buffer that no line can blow up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.data.compression import ByteStream

__all__ = ["Window", "line_windows", "long_line"]

_CR = 13


@dataclass
class Window:
    """Whole lines ``buffer[:end]``; a last line without a line feed is closed by one.

    ``cut`` says that the file ends without a line feed.
    """

    buffer: NDArray[np.uint8]
    end: int
    cut: bool = False


def line_windows(
    stream: ByteStream,
    head: bytes,
    chunk_bytes: int,
    max_line_bytes: int,
    lines: NDArray[np.int64],
    name: str,
) -> Iterator[Window]:
    """Read windows of whole lines from ``head`` (read already) and the stream.

    The buffer holds at most a chunk and one line of ``max_line_bytes``; a longer line is refused
    before it is read. ``lines[0]``, the lines parsed so far, gives such an error its place.
    """
    store = bytearray(len(head) + 2 * chunk_bytes + 2)
    store[: len(head)] = head
    held, stop = 0, len(head)
    while True:
        stop += _fill(stream, memoryview(store)[stop : stop + chunk_bytes])
        if stop == held:
            if held:
                yield _last_window(store, held)
            return
        last = store.rfind(b"\n", held, stop) + 1
        if last:
            yield Window(_array(store), last)
            store[: stop - last] = store[last:stop]
            stop -= last
        held = stop
        if held > max_line_bytes:
            raise long_line(max_line_bytes, name, int(lines[0]) + 1)
        if held + chunk_bytes + 2 > len(store):
            longest = max_line_bytes + 2 * chunk_bytes + 2
            store = store[:held] + bytearray(min(2 * len(store), longest) - held)


def _last_window(store: bytearray, held: int) -> Window:
    """Close the last line; a blank keeps a carriage return from being taken for its end."""
    closing = b" \n" if store[held - 1] == _CR else b"\n"
    store[held : held + len(closing)] = closing
    return Window(_array(store), held + len(closing), cut=True)


def long_line(limit: int, name: str, line: int) -> LimitError:
    """The error for a line above the limit."""
    return LimitError(
        f"the line is longer than {limit} bytes",
        file=name,
        line=line,
        fix="Check that the file is text; raise max_line_bytes if it is",
    )


def _fill(stream: ByteStream, view: memoryview) -> int:
    """Fill the view as far as the stream allows."""
    count = 0
    while count < len(view) and (more := stream.readinto(view[count:])):
        count += more
    return count


def _array(store: Any) -> NDArray[np.uint8]:
    return np.frombuffer(store, dtype=np.uint8)
