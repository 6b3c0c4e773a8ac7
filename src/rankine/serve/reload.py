"""Keep the served models up to date with a model file or a folder of them.

The folder, of this machine or of a store, is listed every second. A new or changed file is opened
without following links; its content must match its digest and give the scores stored in it. Only
then is the served model replaced. If anything fails, the old model stays, and the reason appears in
the log, in ``/metrics`` and in ``/v1/models``. Lists of ``shop.rankine`` follow the rules of
``shop.rules.toml`` in the same folder.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from rankine.core.errors import DataError, ModelError, RankineError
from rankine.core.safe_text import printable
from rankine.core.specs import History
from rankine.model.bundle import ModelBundle
from rankine.model.checks import find_spec
from rankine.model.store import decode_any, read_model_bytes
from rankine.reranking import Rules
from rankine.reranking.schema import MAX_BYTES, decode_rules
from rankine.serve.history import HistoryService
from rankine.serve.places import find_place
from rankine.serve.registry import RULES_SUFFIX, Registry, ServedModel

if TYPE_CHECKING:
    from rankine.history.live import LiveHistory
    from rankine.model import LinearModel
    from rankine.serve.metrics import Metrics


_LOG = logging.getLogger("rankine.serve")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_FILE_BYTES = 8 * 2**30
#: Listings that must lack a file before its model is dropped: copying tools unlink and write.
_LISTINGS_BEFORE_DROP = 2
_TOPICS_TESTED = 8


def model_name(file: str) -> str | None:
    """Return the name of the model in a file: the file name without its last suffix, or None.

    Examples
    --------
    >>> model_name("shop-2.rankine"), model_name(".hidden"), model_name("a b")
    ('shop-2', None, None)
    """
    stem = file
    if "." in file[1:]:
        stem = file.rsplit(".", 1)[0]
    if NAME.fullmatch(stem) is None or ".." in stem:
        return None
    return stem


def _reason(error: DataError | OSError) -> str:
    """Return why a file or folder cannot be opened, without its name."""
    return error.reason if isinstance(error, DataError) else str(error.strerror)


class Reloader:
    """Keeps a registry in step with a model file or a folder of them."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        registry: Registry,
        metrics: Metrics,
        history: HistoryService | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.place = find_place(path)
        self.registry = registry
        self.metrics = metrics
        self.history = history
        #: Whether files that are not served are logged.
        self._logs_errors = True
        #: Device, inode, size and time of the files that were read, by model name.
        self._versions: dict[str, tuple[int, ...]] = {}
        #: Number of listings in a row that lacked the file of a model.
        self._missing: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- the thread -----------------------------------------------------------------------------

    def start(self, seconds: float) -> None:
        """Start a thread that refreshes every ``seconds``."""
        self._thread = threading.Thread(
            target=self._watch, args=(seconds,), name="rankine-reload", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        """Run a refresh immediately, and retry files that were refused."""
        self._wake.set()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, seconds: float) -> None:
        while not self._stop.is_set():
            is_requested = self._wake.wait(min(seconds, threading.TIMEOUT_MAX))
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self.refresh(retry=is_requested)
            except Exception:  # noqa: BLE001 - the models must stay, and the thread go on
                _LOG.exception("the check for new models failed; the old ones stay")

    def load_first(self) -> None:
        """Load the models; raise an error with all reasons if there is nothing to serve."""
        # The error would repeat the lines of the log.
        self._logs_errors = False
        self.refresh()
        self._logs_errors = True
        snapshot = self.registry.current
        reasons = [f"{name or 'folder'}: {text}" for name, text in sorted(snapshot.errors.items())]
        if snapshot.models:
            for reason in reasons:
                _LOG.error("model %s", reason)
            return
        fix = "Pass a model file, or a folder of them"
        if reasons:
            fix = "Correct the cause, or pass another model"
        raise ModelError(
            f"no model to serve: {'; '.join(reasons) or 'the folder is empty'}",
            fix=fix,
            file=self.path,
        )

    # -- one refresh ----------------------------------------------------------------------------

    def refresh(self, *, retry: bool = False) -> None:
        """Load new and changed files, with ``retry`` also those refused before; drop old models."""
        with self._lock:
            if self.history is not None and self.history.refresh():
                retry = True
            try:
                is_folder = self.place.is_folder()
                files = self._files(is_folder)
                rules = self._rules_files(files)
            except (DataError, OSError) as error:
                self._report("", f"the models cannot be listed: {_reason(error)}")
                return
            if "" in self.registry.current.errors:
                self.registry.report("", None)
            # First, so that no list of a new model is shown without them.
            self._load_changed(rules, retry, self._load_rules)
            self._load_changed(files, retry, self._load)
            self._drop_missing({**files, **rules}, is_folder)

    def _files(self, is_folder: bool) -> dict[str, str]:
        """Return the file names by model name."""
        if not is_folder:
            name = model_name(self.place.name)
            if name is None:
                raise ModelError(
                    f"{printable(self.place.name)!r} gives no model name",
                    fix="Use letters, digits, dots, dashes and underscores, 64 at most",
                )
            return {name: self.place.name}
        files: dict[str, str] = {}
        for file in self.place.files():
            name = model_name(file)
            if name is None or file.endswith((".tmp", "~", RULES_SUFFIX)):
                continue
            if name in files:
                self._report(name, "two files give this name; the first in order is served")
                continue
            files[name] = file
        return files

    def _rules_files(self, models: dict[str, str]) -> dict[str, str]:
        """Return the rules files in the folders of models, by their own names."""
        names = self.place.existing([name + RULES_SUFFIX for name in models])
        return {name: name for name in sorted(names)}

    def _load_changed(
        self, files: dict[str, str], retry: bool, load: Callable[[str, io.RawIOBase], bool]
    ) -> None:
        """Load the files that are new, have changed, or are to be retried."""
        for name, file_name in files.items():
            try:
                opened = self.place.open(file_name)
            except (DataError, OSError) as error:
                reason = _reason(error)
                if isinstance(error, OSError) and error.errno == errno.ELOOP:
                    reason = "it is a symbolic link"
                self._report(name, f"the file cannot be opened: {reason}")
                continue
            if opened is None:
                continue
            with opened.file as file:
                retries = retry and name in self.registry.current.errors
                if self._versions.get(name) == opened.version and not retries:
                    continue
                if load(name, file):
                    self._versions[name] = opened.version

    def _load_rules(self, name: str, file: io.RawIOBase) -> bool:
        """Let lists follow the rules of a file; return whether it is settled until it changes."""
        model = name.removesuffix(RULES_SUFFIX)
        try:
            content = file.read(MAX_BYTES + 1) or b""
        except (DataError, OSError) as error:
            self._report(name, f"the file cannot be read: {_reason(error)}")
            return False
        try:
            rules = Rules(decode_rules(content))
        except RankineError as error:
            self._report(name, f"{error.reason} [{error.code}]")
            return True
        self.registry.put_rules(model, rules)
        self.metrics.reload("loaded")
        _LOG.info("model %s follows %d rules", model, len(rules.names))
        for warning in rules.warnings:
            _LOG.warning("model %s: %s", model, printable(warning, 300))
        return True

    def _load(self, name: str, file: io.RawIOBase) -> bool:
        """Serve the model of a file; return whether the file is settled until it changes."""
        snapshot = self.registry.current
        rules_refused = name + RULES_SUFFIX in snapshot.errors
        if rules_refused and name not in {*snapshot.models, *snapshot.rules}:
            self._report(name, "it is not served before its rules can be read")
            return False
        try:
            served = self._checked(name, file)
        except (DataError, OSError) as error:
            self._report(name, f"the file cannot be read: {_reason(error)}")
            return False  # a later listing may be able to read it
        except RankineError as error:
            self._report(name, f"{error.reason} [{error.code}]")
            return True
        except MemoryError:
            self._report(name, "the model does not fit into memory")
            return True
        is_new = name not in self.registry.current.models
        self.registry.put(served)
        self.metrics.reload("loaded")
        change = "replaced"
        if is_new:
            change = "loaded"
        _LOG.info("model %s %s, digest %s", name, change, served.digest[:12])
        return True

    def _checked(self, name: str, file: io.RawIOBase) -> ServedModel:
        """Read a file, check its digest and test the scores of the model."""
        model = decode_any(read_model_bytes(file, _MAX_FILE_BYTES))
        served = ServedModel(name, model, self._attach_history(model))
        if isinstance(model, ModelBundle):
            for topic in islice(model, _TOPICS_TESTED):
                served.scorer(topic).self_test()
        else:
            served.scorer().self_test()
        return served

    def _attach_history(self, model: LinearModel | ModelBundle) -> LiveHistory | None:
        """Return the state that the model's history features are computed from."""
        history = find_spec(model.transforms, History)
        if history is None:
            return None
        if self.history is None:
            raise ModelError(
                "the model computes history features from a state, and --state names none",
                fix="Pass --state DIR, the folder that rankine train --state wrote",
            )
        return self.history.attach(history)

    def _drop_missing(self, files: dict[str, str], is_folder: bool) -> None:
        """Drop models whose file has disappeared. The model of a single file stays."""
        snapshot = self.registry.current
        rules = {name + RULES_SUFFIX for name in snapshot.rules}
        for name in {*snapshot.models, *snapshot.errors, *rules} - {"", *files}:
            self._missing[name] += 1
            is_rules = name.endswith(RULES_SUFFIX)
            if (is_folder or is_rules) and self._missing[name] >= _LISTINGS_BEFORE_DROP:
                if is_rules:
                    self.registry.put_rules(name.removesuffix(RULES_SUFFIX), None)
                self.registry.drop(name)
                self._versions.pop(name, None)
                del self._missing[name]
                self.metrics.reload("dropped")
                _LOG.info("%s is no longer in use: its file is gone", name)
        for name in files:
            self._missing.pop(name, None)

    def _report(self, name: str, reason: str) -> None:
        """Record why a file is not served; log it when the reason changes."""
        text = printable(reason, 300)
        if self.registry.current.errors.get(name) == text:
            return
        self.registry.report(name, text)
        self.metrics.reload("refused")
        if self._logs_errors:
            _LOG.error("model %s: %s", name or "folder", text)
