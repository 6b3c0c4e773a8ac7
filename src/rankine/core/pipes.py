"""Open pipes without waiting for ever for the program at their other end."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from contextlib import suppress
from pathlib import Path

from rankine.core.errors import DataError, FileKindError

#: How long to wait for a program to open the other end of a named pipe.
WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.05


def open_without_waiting(path: str, flags: int) -> int:
    """Open a file for ``open``, and do not wait for the other end of a pipe."""
    try:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise FileKindError("this is a socket", fix="Pass the path of a file") from error
        raise


def wait_for_writer(file: int) -> bytes:
    """Wait until something is written to an open pipe; other files are left as they are.

    Returns bytes that were read meanwhile, usually none.

    Raises
    ------
    DataError
        No program has opened the pipe for writing within ``WAIT_SECONDS``.
    """
    if not stat.S_ISFIFO(os.fstat(file).st_mode):
        return b""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    start = b""
    if not poll.poll(WAIT_SECONDS * 1000):
        try:
            start = os.read(file, 1)
        except BlockingIOError:
            pass  # a program has opened the pipe, and takes longer
        else:
            if not start:
                raise DataError(
                    f"no program wrote to this pipe within {WAIT_SECONDS:g} s",
                    fix="Start the program that writes to it first, or pass a file",
                )
    os.set_blocking(file, True)
    return start


def open_for_writing(path: str | os.PathLike[str]) -> int:
    """Open a pipe or a device, and wait until a program reads from the pipe.

    Raises
    ------
    DataError
        No program has opened the pipe for reading within ``WAIT_SECONDS``.
    FileKindError
        The file is a socket.
    """
    mode = Path(path).stat().st_mode
    if stat.S_ISSOCK(mode):
        raise FileKindError("this is a socket", file=os.fspath(path), fix="Name a file")
    if not stat.S_ISFIFO(mode):
        return os.open(path, os.O_WRONLY | os.O_TRUNC)
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        # Without a reader opening fails at once instead of waiting.
        with suppress(FileKindError):
            file = open_without_waiting(os.fspath(path), os.O_WRONLY)
            os.set_blocking(file, True)
            return file
        time.sleep(_POLL_SECONDS)
    raise DataError(
        f"no program has read from this pipe for {WAIT_SECONDS:g} s",
        file=os.fspath(path),
        fix="Start the program that reads from it first, or name a file",
    )
