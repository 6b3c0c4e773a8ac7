"""Model files to served models: found, read, checked, self-tested, swapped.

A folder is looked at every second. A file that is new or has changed is read through a descriptor
that follows no link, must match its digest, and must give the scores stored in it; only then does
one reference change. Whatever fails changes nothing: the model before it goes on, and the reason
stands in the log, in ``/metrics`` and in ``/v1/models``.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import threading
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rankine.core.errors import ModelError, ModelFormatError, RankineError
from rankine.core.safe_text import printable
from rankine.model.bundle import ModelBundle
from rankine.model.store import decode_any, read_model_bytes
from rankine.serve.registry import Registry, ServedModel

if TYPE_CHECKING:
    from rankine.serve.metrics import Metrics


_LOG = logging.getLogger("rankine.serve")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_FILE_BYTES = 8 * 2**30
#: Looks that a file must be missing for before its model goes: copying tools unlink and write.
_LOOKS_BEFORE_DROP = 2
_TOPICS_TESTED = 8


def model_name(file: str) -> str | None:
    """Name of the model in a file: its name without the last suffix; None for other files.

    Examples
    --------
    >>> model_name("shop-2.rankine"), model_name(".hidden"), model_name("a b")
    ('shop-2', None, None)
    """
    stem = file.rsplit(".", 1)[0] if "." in file[1:] else file
    return stem if NAME.fullmatch(stem) and ".." not in stem else None


class Reloader:
    """Keeps a registry in step with a model file or a folder of them."""

    def __init__(self, path: str | os.PathLike[str], registry: Registry, metrics: Metrics) -> None:
        self.path = Path(path)
        self.registry = registry
        self.metrics = metrics
        #: What tells one version of a file from another without reading it.
        self._tried: dict[str, tuple[int, ...]] = {}
        self._missing: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- from time to time ----------------------------------------------------------------------

    def start(self, seconds: float) -> None:
        """Look every ``seconds``, in a thread."""
        self._thread = threading.Thread(
            target=self._watch, args=(seconds,), name="rankine-reload", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, seconds: float) -> None:
        while not self._stop.is_set():
            asked = self._wake.wait(seconds)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self.refresh(again=asked)
            except Exception:  # noqa: BLE001 - the watch goes on, and so do the models
                _LOG.exception("looking for new models failed; the old ones stay")

    # -- one look -------------------------------------------------------------------------------

    def refresh(self, *, again: bool = False) -> None:
        """Take in what has changed; ``again`` also retries files that were refused before."""
        with self._lock:
            folder = self.path.is_dir()
            try:
                files = self._files(folder)
            except OSError as error:
                self._fault("", f"the models cannot be listed: {error.strerror}")
                return
            if "" in self.registry.current.errors:
                self.registry.report("", None)
            self._take(files, folder, again)
            self._drop(files, folder)

    def _files(self, folder: bool) -> dict[str, str]:
        """Model name -> file name."""
        if not folder:
            name = model_name(self.path.name)
            if name is None:
                raise ModelError(
                    f"{printable(self.path.name)!r} gives no model name",
                    fix="Use letters, digits, dots, dashes and underscores, 64 at most",
                )
            return {name: self.path.name}
        found: dict[str, str] = {}
        for file in sorted(os.listdir(self.path)):  # noqa: PTH208 - names, not paths
            name = model_name(file)
            if name is None or file.endswith((".tmp", "~")):
                continue
            if name in found:
                self._fault(name, "two files give this name; the first in order is served")
                continue
            found[name] = file
        return found

    def _take(self, files: dict[str, str], folder: bool, again: bool) -> None:
        for name, file in files.items():
            try:
                descriptor = self._open(file, folder)
            except OSError as error:
                link = error.errno == errno.ELOOP
                reason = "it is a symbolic link" if link else error.strerror
                self._fault(name, f"the file is not opened: {reason}")
                continue
            try:
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):
                    continue
                seen = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
                failed = name in self.registry.current.errors
                if self._tried.get(name) == seen and not (again and failed):
                    continue
                self._tried[name] = seen
                self._load(name, descriptor)
            finally:
                os.close(descriptor)

    def _open(self, file: str, folder: bool) -> int:
        """Open a file below the folder, whatever happens to names meanwhile; links are refused."""
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        if not folder:
            return os.open(self.path, flags)
        flags |= getattr(os, "O_NOFOLLOW", 0)
        if os.open not in os.supports_dir_fd:
            return os.open(self.path / file, flags)
        above = os.open(self.path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            return os.open(file, flags, dir_fd=above)
        finally:
            os.close(above)

    def _load(self, name: str, descriptor: int) -> None:
        try:
            served = self._checked(name, descriptor)
        except RankineError as error:
            self._fault(name, f"{error.reason} [{error.code}]")
        except OSError as error:
            self._fault(name, f"the file cannot be read: {error.strerror}")
        except MemoryError:
            self._fault(name, "the model does not fit into memory")
        else:
            before = self.registry.current.models.get(name)
            self.registry.put(served)
            self.metrics.reload("loaded")
            change = "loaded" if before is None else "replaced"
            _LOG.info("model %s %s, digest %s", name, change, served.digest[:12])

    def _checked(self, name: str, descriptor: int) -> ServedModel:
        """Everything that must hold before a model is served."""
        if os.fstat(descriptor).st_size > _MAX_FILE_BYTES:
            raise ModelFormatError(
                f"the file is larger than {_MAX_FILE_BYTES} bytes", fix="Split the bundle"
            )
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            model = decode_any(read_model_bytes(file))
        served = ServedModel(name, model)
        if isinstance(model, ModelBundle):
            for topic in islice(model, _TOPICS_TESTED):
                served.target(topic).prove()
        else:
            served.target().prove()
        return served

    def _drop(self, files: dict[str, str], folder: bool) -> None:
        """Forget names whose file has gone for good; a single file's model stays."""
        now = self.registry.current
        for name in {*now.models, *now.errors} - {"", *files}:
            self._missing[name] += 1
            if folder and self._missing[name] >= _LOOKS_BEFORE_DROP:
                self.registry.drop(name)
                self._tried.pop(name, None)
                del self._missing[name]
                self.metrics.reload("dropped")
                _LOG.info("model %s is no longer served: its file is gone", name)
        for name in files:
            self._missing.pop(name, None)

    def _fault(self, name: str, reason: str) -> None:
        """Report once per change of reason."""
        text = printable(reason, 300)
        if self.registry.current.errors.get(name) == text:
            return
        self.registry.report(name, text)
        self.metrics.reload("refused")
        _LOG.error("model %s: %s", name or "folder", text)
