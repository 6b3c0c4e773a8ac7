"""Find and open the files to read: paths, patterns, standard input, open streams.

A file that changes while it is read, or between two passes, is noticed.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from rankine.core.checks import reject_sets
from rankine.core.errors import (
    ChangedDataError,
    DataError,
    EmptyDataError,
    FileKindError,
    ParameterError,
    attach_file_to_errors,
)
from rankine.core.pipes import open_without_waiting, wait_for_writer
from rankine.core.safe_text import mask_secrets
from rankine.core.stores import Identity, Store, StoreFile, is_url, open_store

_GLOB = frozenset("*?[")

#: Bytes read to recognise the kind of a file (the mark of tar is at byte 257).
HEAD_BYTES = 512


class Stamp(NamedTuple):
    """Identity and state of a file: device, inode, size, time of last change in nanoseconds."""

    device: int
    inode: int
    size: int
    mtime: int


@dataclass(eq=False)
class Source:
    """One file, pipe, open stream or table in memory.

    Attributes
    ----------
    name
        Name in errors, reports and models; without the secrets of a URL.
    path
        The file, or None for standard input and open streams.
    handle
        The open stream, if any.
    stamp
        State of the file when it was first opened; ``check`` compares it.
    peeked
        First bytes that were read from a stream, or None.
    taken
        Whether a stream was opened; it can be opened only once.
    table
        A frame, or another object with Arrow's stream interface, instead of a file.
    table_rows
        Number of its rows, once a pass has reached the end.
    filesystem, remote_path
        Where a file is that is not local: its store, and the path in it.
    partition
        Values of the Hive columns in the path, as scalars of Arrow.
    casts
        Types of columns that are stored with another type here than in the data set.
    """

    name: str
    path: Path | None = None
    handle: BinaryIO | None = None
    stamp: Stamp | None = None
    peeked: bytes | None = None
    taken: bool = False
    table: Any = None
    table_rows: int | None = None
    filesystem: Store | None = None
    remote_path: str | None = None
    partition: dict[str, Any] = field(default_factory=dict)
    casts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Mask secrets in the name, which is all that others see of a URL."""
        if self.path is None:
            self.name = mask_secrets(self.name)

    @property
    def file_path(self) -> str:
        """Path of the file, as the user wrote it or in its filesystem; empty for streams."""
        if self.remote_path is not None:
            return self.remote_path
        return "" if self.path is None else str(self.path)

    @property
    def has_header(self) -> bool:
        """Whether names and widths can be read without using up rows."""
        return self.rereadable or self.table is not None

    @property
    def rereadable(self) -> bool:
        """Whether a second pass is possible."""
        if self.table is not None:
            # Readers of record batches, as Arrow's and those of databases, give each batch once.
            return not (hasattr(self.table, "read_next_batch") or hasattr(self.table, "__next__"))
        if self.filesystem is not None:
            return True
        return self.path is not None and (self.stamp is not None or self.path.is_file())

    @property
    def size(self) -> int | None:
        """Size of the file in bytes; None before it was opened, and for streams."""
        if self.stamp is None:
            return None
        return self.stamp.size

    def head(self, count: int = HEAD_BYTES) -> bytes:
        """Return the first bytes; ``open`` returns them again."""
        # A pipe's first bytes are kept, because they cannot be read again.
        if self.table is not None:
            return b""
        if self.rereadable and self.filesystem is None:
            with attach_file_to_errors(self.name), self.open() as file:
                return read_fully(file, count)
        if self.filesystem is not None and self.peeked is None:
            # Kept, because each request to a store takes its time.
            with attach_file_to_errors(self.name), self.open() as file:
                self.peeked = read_fully(file, HEAD_BYTES)
        # A pipe cannot go back: ``open`` gives these bytes again, before the others.
        if self.peeked is None:
            with attach_file_to_errors(self.name):
                self.peeked = read_fully(self._stream(), count)
        return self.peeked

    def open(self) -> BinaryIO:
        """Open for reading bytes from the start; the caller closes it."""
        if self.table is not None:
            raise FileKindError(
                "a table in memory is not a file of text", file=self.name, fix="Pass a path"
            )
        if self.rereadable:
            return self._open_path()
        self.take()
        return cast("BinaryIO", Prefixed(self.peeked or b"", self._stream()))

    def take(self) -> None:
        """Note that a source which can be read only once is read; refuse a second time."""
        if self.taken:
            fix = "Save it to a file first, and give n_features to scan"
            if self.table is not None:
                fix = "Pass pyarrow.table(reader), which can be read again, or a Parquet file"
            raise ChangedDataError("it can be read only once", file=self.name, fix=fix)
        self.taken = True

    def pass_over(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of one pass over a table; refuse a pass with other rows."""
        if not self.rereadable:
            self.take()
        n_rows = 0
        for batch in batches:
            n_rows += batch.num_rows
            yield batch
        if self.table_rows not in (None, n_rows):
            raise ChangedDataError(
                f"the table had {self.table_rows} rows in the first pass, and now has {n_rows}",
                file=self.name,
                fix="Pass pyarrow.table(...) of it, which can be read again, or a Parquet file",
            )
        self.table_rows = n_rows

    def _stream(self) -> BinaryIO:
        if self.handle is None:
            self.handle = sys.stdin.buffer if self.path is None else self._open_path()
        return self.handle

    def open_seekable(self) -> Any:
        """Open a local file that can be read again as a file of Arrow; the caller closes it."""
        self.open().close()  # records the file's stamp, or notices that the file changed
        import pyarrow as pa

        return pa.OSFile(str(self.path), "rb")

    def _open_path(self) -> BinaryIO:
        if self.filesystem is not None:
            return cast("BinaryIO", self.open_object(sequential=True))
        if self.path is None:
            raise DataError("has no path", file=self.name, fix="Pass a file instead of a stream")
        try:
            file = open(os.fspath(self.path), "rb", buffering=0, opener=open_without_waiting)  # noqa: SIM115
        except OSError as error:
            if self.stamp is not None:
                raise self._changed("since the last pass") from error
            raise DataError(
                f"cannot be opened: {error.strerror}",
                file=self.name,
                fix="Check the path and its permissions",
            ) from error
        prefix = wait_for_writer(file.fileno())
        # Of the open file, not of the path, which may name another file a moment later.
        stamp = stamp_of(os.fstat(file.fileno()))
        if self.stamp is None:
            self.stamp = stamp
        elif stamp is not None and stamp != self.stamp:
            file.close()
            raise self._changed("since the last pass")
        if prefix:
            return cast("BinaryIO", Prefixed(prefix, file))
        return cast("BinaryIO", file)

    def open_object(self, *, sequential: bool) -> StoreFile:
        """Open an object of a store, and compare it with the last pass."""
        assert self.filesystem is not None  # noqa: S101 - narrows the type
        try:
            file = self.filesystem.open(self.remote_path or "", sequential=sequential)
        except FileNotFoundError as error:
            if self.stamp is not None:
                raise self._changed("since the last pass (it is gone)") from error
            raise DataError(
                "does not exist", file=self.name, fix="Check the bucket and the path"
            ) from error
        self._compare_stamp("since the last pass", _object_stamp(file.identity))
        return file

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Enclose one pass over the file: errors name it.

        If the file changed meanwhile, that is the error: other errors may be its consequence.
        """
        try:
            with attach_file_to_errors(self.name):
                yield
        except DataError:
            self.check()
            raise
        self.check()

    def check(self) -> None:
        """Raise ChangedDataError if the file changed since it was opened."""
        if self.stamp is not None:
            try:
                stamp = self.current_stamp()
            except OSError as error:
                raise self._changed("while it was read (it is gone)") from error
            self._compare_stamp("while it was read", stamp)

    def _compare_stamp(self, when: str, stamp: Stamp | None) -> None:
        """Record the first stamp of a file; raise if a later one differs."""
        if self.stamp is None:
            self.stamp = stamp
        elif stamp != self.stamp:
            raise self._changed(when)

    def current_stamp(self) -> Stamp | None:
        """Return the stamp that the file has now; an OSError if it is gone."""
        if self.filesystem is not None:
            try:
                return _object_stamp(self.filesystem.identity(self.remote_path or ""))
            except FileNotFoundError as error:
                raise self._changed("since it was listed (it is gone)") from error
        if self.path is None:
            return None
        return stamp_of(self.path.stat())

    def _changed(self, when: str) -> ChangedDataError:
        return ChangedDataError(
            f"the file changed {when}", file=self.name, fix="Read a copy that does not change"
        )


class Prefixed(io.RawIOBase):
    """A stream whose first bytes were read before; closing it leaves the stream open."""

    def __init__(self, prefix: bytes, stream: BinaryIO) -> None:
        self._prefix = prefix
        self._stream = stream

    def readable(self) -> bool:
        """Return True: the stream can be read, not written."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill from the prefix first, then from the stream."""
        view = memoryview(buffer).cast("B")
        if self._prefix:
            count = min(len(view), len(self._prefix))
            view[:count] = self._prefix[:count]
            self._prefix = self._prefix[count:]
            return count
        data = self._stream.read(len(view)) or b""
        view[: len(data)] = data
        return len(data)


def read_fully(file: BinaryIO, count: int) -> bytes:
    """Read ``count`` bytes, fewer only at the end of the file."""
    chunks: list[bytes] = []
    missing = count
    # A pipe may give fewer bytes than are asked for before its end.
    while missing:
        data = read_some(file, missing)
        if not isinstance(data, bytes):
            raise ParameterError("the stream gives text, not bytes", fix="Open it in binary mode")
        if not data:
            break
        chunks.append(data)
        missing -= len(data)
    return b"".join(chunks)


def read_some(file: BinaryIO, count: int) -> bytes:
    """Read up to ``count`` bytes; failures of the system are DataErrors."""
    try:
        return file.read(count) or b""
    except OSError as error:
        raise unreadable(error) from error


def unreadable(error: OSError) -> DataError:
    """Build the error for a failed read."""
    return DataError(
        f"cannot be read: {error.strerror or error}", fix="Check the disk and the path"
    )


def _object_stamp(identity: Identity) -> Stamp:
    digest = hashlib.blake2b(identity.tag.encode(), digest_size=8).digest()
    return Stamp(0, 0, identity.size, int.from_bytes(digest))


def stamp_of(info: os.stat_result) -> Stamp | None:
    """Return the stamp of a regular file; None for pipes and devices, whose content is not kept."""
    if not stat.S_ISREG(info.st_mode):
        return None
    return Stamp(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


def find_sources(paths: Any) -> list[Source]:
    """Return the sources of paths, in the given order.

    A pattern is replaced by its matches, and a folder by the tables in it and in the folders below
    it, sorted by their Hive columns and by name. The list does not change when files appear later.
    ``-`` is standard input. Open binary streams (objects with ``read``) are sources too, and so are
    frames and other tables.
    """
    groups: list[list[Source]] = []
    for item in _as_list(paths):
        if isinstance(item, Source):
            groups.append([item])
        elif is_table(item):
            groups.append([Source(f"<{type(item).__name__}>", table=item)])
        elif hasattr(item, "read"):
            groups.append([Source(str(getattr(item, "name", "<stream>")), handle=item)])
        elif os.fspath(item) == "-":
            groups.append([Source("<stdin>")])
        else:
            groups.append(_matches(os.fspath(item)))
    sources = [source for group in groups for source in group]
    if not sources:
        raise EmptyDataError("no files were given", fix="Pass at least one path")
    new_files = [source for source in sources if "=" in source.file_path and not source.partition]
    if new_files:
        # Imported here: files of text need no Arrow.
        from rankine.data.listing import add_partitions, partition_order

        add_partitions(new_files)
        for group in groups:
            group.sort(key=lambda source: partition_order(source.partition))
        sources = [source for group in groups for source in group]
    return sources


def is_table(item: Any) -> bool:
    """Whether an object is a frame, a dataset of Arrow, or has Arrow's stream interface."""
    return hasattr(item, "__arrow_c_stream__") or is_lazy(item) or hasattr(item, "scanner")


def is_lazy(item: Any) -> bool:
    """Whether an object is a lazy frame of polars."""
    return hasattr(item, "collect_schema") and not hasattr(item, "__arrow_c_stream__")


def _as_list(paths: Any) -> Iterable[Any]:
    if isinstance(paths, (str, os.PathLike, Source)) or hasattr(paths, "read") or is_table(paths):
        return [paths]
    reject_sets(paths=paths)
    return list(paths)


def _matches(text: str) -> list[Source]:
    if is_url(text):
        return _remote_matches(text, *open_store(text))
    path = Path(text)
    # A file whose name holds a bracket is that file, not a pattern.
    if path.exists() or not _GLOB & set(text):
        if path.is_dir():
            return _tables_in([text])
        if not path.exists():
            raise DataError("does not exist", file=text, fix="Check the path")
        return [Source(text, path)]
    names = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 (relative names as the user wrote them)
    files = [name for name in names if not Path(name).is_dir() and not _is_marker(name)]
    if files:
        return [Source(name, Path(name)) for name in files]
    if not names:
        raise DataError("no file matches the pattern", file=text, fix="Check the pattern")
    return _tables_in([name for name in names if Path(name).is_dir()])


def _is_marker(name: str) -> bool:
    """Whether a file beside data is none, such as ``_SUCCESS``, which Spark writes."""
    base = os.path.basename(name)  # noqa: PTH119 (a string, as glob gives it)
    return base.startswith("_") and "." not in base


def _tables_in(folders: list[str]) -> list[Source]:
    from pyarrow import fs

    from rankine.data.listing import list_tables

    filesystem = fs.LocalFileSystem()
    files = dict.fromkeys(file for folder in folders for file in list_tables(filesystem, folder))
    return [Source(file, Path(file)) for file in files]


def _remote_matches(url: str, store: Store, path: str) -> list[Source]:
    """Return the files of a URL: an object, a folder of tables, or matches of a pattern."""
    from pyarrow import fs

    from rankine.data.listing import list_tables, match_pattern

    root = url.removesuffix(path)
    names = [path]
    if _GLOB & set(path) and store.has_folders:
        names = match_pattern(store, path)
    types = [(info.path, info.type) for info in store.get_file_info(names)]
    files = [name for name, type_ in types if type_ == fs.FileType.File and not _is_marker(name)]
    if not files:
        folders = [name for name, type_ in types if type_ == fs.FileType.Directory]
        files = [file for folder in folders for file in list_tables(store, folder)]
    if not files:
        raise DataError("does not exist", file=url, fix="Check the bucket and the path")
    return [
        Source(f"{root}{name}", filesystem=store, remote_path=name) for name in dict.fromkeys(files)
    ]
