"""Open pipes without waiting for ever for a program that writes to them."""

from __future__ import annotations

import errno
import os
import select
import stat

from rankine.core.errors import DataError, FileKindError

#: How long to wait for a program to open a named pipe for writing.
WAIT_SECONDS = 10.0


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
