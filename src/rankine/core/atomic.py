"""Write files atomically: a file is complete or it does not exist."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rankine.core.pipes import open_for_writing
from rankine.core.stores import is_url, writing


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that replaces ``path`` only when it is complete.

    The bytes are written to a new file in the same folder and flushed to disk, and the file is
    renamed to ``path``; then the folder is flushed. After an error, a full disk or a kill the old
    file is unchanged; after an error the new file is removed. The permissions of an existing file
    are kept, a new file has the umask's. A symbolic link is replaced, and the file that it
    names is unchanged. Pipes, devices and links in ``/dev`` are written to directly; a pipe that no
    program reads within 10 seconds is an error, and so are sockets. For a URL such as
    ``s3://bucket/key`` the object is stored when it is complete.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_file(folder / "model.bin") as file:
    ...     _ = file.write(b"whole")
    >>> (folder / "model.bin").read_bytes()
    b'whole'
    """
    if is_url(path):
        with writing(os.fspath(path)) as file:
            yield file
        return
    target = Path(path).absolute()
    if is_written_directly(target):
        with os.fdopen(open_for_writing(target), "wb") as device:
            yield device
        return
    mode = None
    if target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
    # In the same folder: a rename is atomic only within one file system.
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # A private file is private from the start.
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)  # noqa: PTH105 (named after the system call)
    except BaseException:  # also KeyboardInterrupt
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)


def is_written_directly(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a pipe, a device or a link to an open file, which cannot be replaced."""
    target = Path(path).absolute()
    # /dev/stdout must stay a link, also where it leads to a regular file.
    is_device = target.parts[1:2] in (("dev",), ("proc",))
    return target.exists() and (is_device or not target.is_file())


def _flush_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a rename in it survives a power cut."""
    if os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
