"""Read and write objects in stores: s3://, gs://, abfs://, https:// and other URLs of fsspec.

pyarrow opens what it can, with the credentials of the provider's environment; fsspec opens other
schemes. Failed requests are repeated with growing pauses. Reads run ahead, so that the latency of a
store is paid once and not once per block. Objects are written whole or not at all.
"""

from __future__ import annotations

import errno
import io
import os
import re
import tempfile
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from rankine.core.errors import DataError, MissingExtraError, ParameterError, RankineError
from rankine.core.safe_text import mask_secrets

T = TypeVar("T")

#: Bytes of one request, and the number of requests on their way at a time.
BLOCK_BYTES, N_AHEAD = 2**20, 32
#: Blocks that a file keeps, at least, whose parts are read side by side.
N_KEPT = 128
#: Objects of which a store keeps the first and the last block: files are opened several times.
N_REMEMBERED = 16
#: Attempts of one request, the first pause in seconds, and the longest.
N_ATTEMPTS, FIRST_PAUSE, LONGEST_PAUSE = 8, 0.1, 5.0

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
#: Schemes that pyarrow opens itself.
_ARROW_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "file")
_MISSING = re.compile(r"NO_SUCH|NoSuch|NOT_FOUND|NotFound|Not a regular file|\b404\b")
_EXPIRED = re.compile(r"EXPIRED|Expired|expired")
_DENIED = re.compile(
    r"ACCESS_DENIED|AccessDenied|Forbidden|FORBIDDEN|INVALID_ACCESS_KEY|InvalidAccessKey|"
    r"SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION|"
    r"redentials|Unauthorized|UNAUTHENTICATED|PERMISSION_DENIED|\b40[13]\b"
)
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
    "gcs": "GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
    "abfs": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or run az login",
    "abfss": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or run az login",
}


def is_url(path: Any) -> bool:
    """Whether a path is a URL such as ``s3://bucket/key``."""
    return isinstance(path, str) and _URL.match(path) is not None


def open_store(url: str) -> tuple[Store, str]:
    """Return the store of a URL, and the path of the object in it."""
    scheme, _, tail = url.partition("://")
    if scheme.lower() not in _ARROW_SCHEMES:
        return _open_with_fsspec(url, scheme.lower())
    bucket, slash, key = tail.partition("/")
    store = _arrow_store(scheme.lower(), bucket)
    return store, f"{store.root}{slash}{key}"


@lru_cache(maxsize=64)
def _arrow_store(scheme: str, bucket: str) -> Store:
    from pyarrow import fs

    # The key is not part of this URL: keys hold characters that URLs cannot.
    url = f"{scheme}://{bucket}"
    if scheme == "file":
        return Store(fs.LocalFileSystem(), "file://", (_arrow_store, (scheme, bucket)))
    filesystem, root = _repeat(lambda: fs.FileSystem.from_uri(url), url)
    return Store(filesystem, url.removesuffix(root), (_arrow_store, (scheme, bucket)), root)


def _open_with_fsspec(url: str, scheme: str) -> tuple[Store, str]:
    try:
        import fsspec
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError(
            f"{scheme}:// is read with fsspec", fix="pip install 'rankine[cloud]'"
        ) from error
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        raise MissingExtraError(
            f"{scheme}:// needs another package: {error}",
            fix="Install it too, such as pip install 'rankine[cloud]' for https",
        ) from error
    except ValueError as error:
        raise DataError(
            f"no filesystem opens {scheme}://", fix="Check the start of the URL"
        ) from error
    # The host and the user of some schemes belong to the filesystem, not to the path.
    inner, path = _repeat(lambda: url_to_fs(url), url)
    return _fsspec_store(inner, scheme), path


@lru_cache(maxsize=64)
def _fsspec_store(inner: Any, scheme: str) -> Store:
    from pyarrow import fs

    arrow = fs.PyFileSystem(fs.FSSpecHandler(inner))
    return Store(arrow, f"{scheme}://", (_fsspec_store, (inner, scheme)), inner=inner)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a local file or of the object of a URL."""
    if is_url(path):
        store, name = open_store(os.fspath(path))
        return store.read(name)
    return Path(path).read_bytes()


def open_binary(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a local file, or the object of a URL, for reading bytes."""
    if is_url(path):
        store, name = open_store(os.fspath(path))
        return io.BufferedReader(store.open(name))
    return Path(path).open("rb")


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a local file, or a URL an object."""
    if is_url(path):
        store, name = open_store(os.fspath(path))
        info: bool = store.get_file_info(name).is_file
        return info
    return Path(path).is_file()


def local_path(path: str | os.PathLike[str], parameter: str) -> Path:
    """Return a path that must be local; raise for a URL."""
    if is_url(path):
        raise ParameterError(
            f"{path} is a URL, and this is changed in place",
            parameter=parameter,
            fix="Pass a local path",
        )
    return Path(path)


class Identity(NamedTuple):
    """Version of an object: its ETag (or time of change), and its size."""

    tag: str
    size: int


class Store:
    """One bucket or host, with the part of a filesystem's methods that readers and writers use.

    Parameters
    ----------
    filesystem
        A filesystem of Arrow.
    prefix
        Text before the path in a URL.
    opener
        Function and arguments that open the store again, in another process and with the
        credentials that it has.
    root
        Path of the bucket.
    inner
        The filesystem of fsspec, if that is what opens the store.
    """

    def __init__(
        self,
        filesystem: Any,
        prefix: str,
        opener: tuple[Callable[..., Store], tuple[Any, ...]],
        root: str = "",
        inner: Any = None,
    ) -> None:
        self.filesystem = filesystem
        self.prefix = prefix
        self.opener = opener
        self.root = root
        self.inner = inner
        #: First and last blocks of the objects that were opened last.
        self._ends: OrderedDict[tuple[str, Identity], dict[int, Future[bytes]]] = OrderedDict()

    def __reduce__(self) -> tuple[Callable[..., Store], tuple[Any, ...]]:
        """Open the store again when it is unpickled."""
        return self.opener

    @property
    def has_folders(self) -> bool:
        """Whether folders can be listed; a ``?`` in a web address starts a query."""
        return not self.prefix.startswith("http")

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return path if _URL.match(path) else self.prefix + path

    def get_file_info(self, paths: Any) -> Any:
        """Return Arrow's description of a path, of several, or of the files of a selector."""
        if paths == []:
            return []
        first = paths[0] if isinstance(paths, list) else getattr(paths, "base_dir", paths)
        return _repeat(lambda: self.filesystem.get_file_info(paths), self.url(first))

    def identity(self, path: str) -> Identity:
        """Return what identifies the present version of an object; FileNotFoundError without it."""
        return _repeat(lambda: self._open(path)[0], self.url(path))

    def open(self, path: str, *, sequential: bool = True) -> StoreFile:
        """Open an object for reading, from the start or at any place."""
        identity, read_range = _repeat(lambda: self._open(path), self.url(path))
        n_kept = N_AHEAD + 2 if sequential else N_KEPT
        ends = self._ends.pop((path, identity), {})
        self._ends[path, identity] = ends
        if len(self._ends) > N_REMEMBERED:
            self._ends.popitem(last=False)
        return StoreFile(self.url(path), identity, read_range, n_kept, ends)

    def _open(self, path: str) -> tuple[Identity, Callable[[int, int], bytes]]:
        """Request an object; return its identity, and a function that reads a range of bytes."""
        if self.inner is None:
            file = self.filesystem.open_input_file(path)
            metadata = file.metadata() or {}
            tag = metadata.get("ETag", metadata.get(b"ETag", b"")).decode()
            if not tag:
                tag = str(self.filesystem.get_file_info(path).mtime_ns)
            return Identity(tag, file.size()), lambda start, stop: file.read_at(stop - start, start)
        info = self.inner.info(path)
        tags = (info.get(name) for name in ("ETag", "etag", "mtime", "LastModified", "created"))
        size = info.get("size")
        if size is None:  # such as a page that a web server makes on request
            content = self.inner.cat_file(path)
            return Identity("", len(content)), lambda start, stop: content[start:stop]
        identity = Identity(str(next((tag for tag in tags if tag), "")), size)

        def read_range(start: int, stop: int) -> bytes:
            data: bytes = self.inner.cat_file(path, start=start, end=stop)
            # A web server may ignore the range.
            return data[start:stop] if len(data) == size else data

        return identity, read_range

    def read(self, path: str) -> bytes:
        """Return the content of an object."""
        with self.open(path) as file:
            return file.read()

    def list_objects(self, folder: str) -> list[str]:
        """Return the paths of the objects directly in a folder, sorted; none if it is absent."""
        from pyarrow import fs

        infos = self.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(info.path for info in infos if info.is_file)

    def delete(self, path: str) -> None:
        """Delete an object."""
        _repeat(lambda: self.filesystem.delete_file(path), self.url(path))

    def upload(self, path: str, file: BinaryIO) -> None:
        """Store the content of a local file as one object."""
        import pyarrow as pa

        size = file.seek(0, io.SEEK_END)

        def send() -> None:
            content = pa.py_buffer(b"")
            if size:
                content = pa.memory_map(file.name).read_buffer()
            if self.inner is not None:
                self.inner.pipe_file(path, content.to_pybytes())
                return
            # One write: the object appears when the stream is closed, and a stream that failed is
            # not closed by Arrow to a shorter object.
            stream = self.filesystem.open_output_stream(path, compression=None)
            stream.write(content)
            stream.close()

        _repeat(send, self.url(path), "written")


@contextmanager
def writing(url: str) -> Iterator[BinaryIO]:
    """Open a local file whose content becomes the object ``url``, unless an error occurs."""
    store, path = open_store(url)
    with tempfile.NamedTemporaryFile(prefix="rankine-") as file:
        yield file  # type: ignore[misc]
        file.flush()
        store.upload(path, file)  # type: ignore[arg-type]


def check_writable(url: str) -> None:
    """Raise an error unless the bucket of a URL exists and can be reached."""
    store, path = open_store(url)
    bucket = path.partition("/")[0]
    if store.inner is None and store.get_file_info(bucket).type.name == "NotFound":
        raise DataError("the bucket does not exist", file=url, fix="Create it, or check its name")


class StoreFile(io.RawIOBase):
    """An object of a store, read in blocks of which the next ones are requested ahead."""

    def __init__(
        self,
        url: str,
        identity: Identity,
        read_range: Callable[[int, int], bytes],
        n_kept: int,
        ends: dict[int, Future[bytes]],
    ) -> None:
        self.url = url
        self.identity = identity
        self.size = identity.size
        self._read_range = read_range
        self._n_kept = n_kept
        self._position = 0
        #: Blocks by number, those used or requested last at the end.
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        #: Numbers of the blocks that are read, if these are known.
        self._planned: list[int] = []
        #: First and last block, which outlive this file.
        self._ends = ends
        self._threads = ThreadPoolExecutor(N_AHEAD, thread_name_prefix="rankine-store")

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}
        self._position = max(starts[whence] + offset, 0)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Read up to ``size`` bytes; fewer only at the end."""
        start = min(self._position, self.size)
        stop = self.size
        if size is not None and size >= 0:
            stop = min(start + size, self.size)
        parts = []
        while start < stop:
            number, offset = divmod(start, BLOCK_BYTES)
            part = memoryview(self._block(number))[offset : offset + stop - start]
            parts.append(part)
            start += len(part)
        self._position = stop
        return b"".join(parts)

    def readall(self) -> bytes:
        """Read to the end."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def plan(self, parts: Sequence[Sequence[tuple[int, int]]], max_bytes: int) -> None:
        """Request only these ranges of bytes ahead, which are read part by part.

        The ranges of a part are read side by side, so all its blocks are kept: up to ``max_bytes``.
        """
        planned: set[int] = set()
        for ranges in parts:
            blocks: set[int] = set()
            for start, stop in ranges:
                # A damaged footer may state any range.
                first, end = max(start, 0) // BLOCK_BYTES, min(stop, self.size)
                blocks.update(range(first, -(-end // BLOCK_BYTES)))
            n_kept = max(self._n_kept, len(blocks) + 2 * N_AHEAD)
            self._n_kept = max(N_KEPT, min(n_kept, max_bytes // BLOCK_BYTES))
            planned |= blocks
        self._planned = sorted(planned)

    def _blocks_ahead(self, number: int) -> Iterable[int]:
        """Return the blocks that are likely to be read next, beginning with ``number``."""
        k = bisect_left(self._planned, number)
        if k < len(self._planned) and self._planned[k] == number:
            return self._planned[k : k + 1 + N_AHEAD]
        last = number
        if number - 1 in self._blocks and not self._planned:
            last = min(number + N_AHEAD, (self.size - 1) // BLOCK_BYTES)
        return range(number, last + 1)

    def _block(self, number: int) -> bytes:
        """Return a block, and request those that are likely to be read next."""
        for k in self._blocks_ahead(number):
            if k not in self._blocks:
                self._blocks[k] = self._ends.get(k) or self._threads.submit(self._fetch, k)
            # Blocks that are needed soon are kept longer than those that were used.
            self._blocks.move_to_end(k)
        block = self._blocks[number]
        while len(self._blocks) > self._n_kept:
            self._blocks.popitem(last=False)
        data = block.result()
        if number in (0, (self.size - 1) // BLOCK_BYTES):
            # Only blocks that have arrived: others may be cancelled with this file.
            self._ends[number] = block
        return data

    def _fetch(self, number: int) -> bytes:
        start = number * BLOCK_BYTES
        stop = min(start + BLOCK_BYTES, self.size)

        def read() -> bytes:
            data = self._read_range(start, stop)
            if len(data) != stop - start:
                raise OSError(f"{len(data)} of {stop - start} bytes arrived")
            return data

        return _repeat(read, self.url)

    def close(self) -> None:
        """Stop requests and free the blocks."""
        if not self.closed:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._blocks.clear()
        super().close()


def _repeat(call: Callable[[], T], url: str, verb: str = "read") -> T:
    """Call until it succeeds, with growing pauses; give up on errors that will not pass.

    An object that does not exist is a FileNotFoundError, as it is on a disk.
    """
    pause = FIRST_PAUSE
    attempt = 1
    while True:
        try:
            return call()
        except RankineError:
            raise
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            message = str(error).strip() or type(error).__name__
            # A traceback shows the cause, whose text cannot be changed.
            cause = None if mask_secrets(message) != message else error
            if isinstance(error, FileNotFoundError) or _MISSING.search(_without_key(message, url)):
                shown_url = mask_secrets(url)
                raise FileNotFoundError(errno.ENOENT, "does not exist", shown_url) from cause
            reason, fix = _explain(error, url)
            if reason or attempt == N_ATTEMPTS:
                reason = reason or (
                    f"cannot be {verb} after {attempt} attempts: {message.splitlines()[0][:300]}"
                )
                raise DataError(reason, file=url, fix=fix) from cause
        time.sleep(pause)
        attempt += 1
        pause = min(2 * pause, LONGEST_PAUSE)


def _without_key(message: str, url: str) -> str:
    """Return a message without the name of the object, which may hold any word."""
    tail = url.partition("://")[2]
    return message.replace(tail, "").replace(tail.partition("/")[2] or tail, "")


def _explain(error: Exception, url: str) -> tuple[str, str]:
    """Return why a request failed for good, empty where another attempt may succeed, and a fix."""
    message = _without_key(str(error), url)
    scheme = url.partition("://")[0].lower()
    variables = _CREDENTIALS.get(scheme, "the credentials of the store")
    if _EXPIRED.search(message):
        return "the credentials have expired", f"Log in again, or set {variables}"
    # Answers to HEAD have no text; this is what S3 answers to a token that has expired.
    if "HTTP status 400" in message:
        return (
            "the request is refused (status 400), as with credentials that have expired",
            f"Log in again, or set {variables}",
        )
    if isinstance(error, PermissionError) or _DENIED.search(message):
        return (
            "access is denied, or there are no credentials",
            f"Set {variables}, and check the permissions of the bucket",
        )
    return "", "Check the network and the endpoint, then start again"
