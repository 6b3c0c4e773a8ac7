"""Show progress while files are read, and read ahead on another thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source


def live_console() -> Console | None:
    """Return a console on stderr, or None where it is neither a terminal nor a notebook.

    Elsewhere a bar would leave an empty line, in some versions of rich even a disabled one.
    """
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None


#: Seconds before the bar appears.
_PATIENCE = 2.0


class Meter:
    """Shows the bytes read on stderr, if ``options.progress`` and after two seconds."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._enabled = options.progress
        self._name = source.name
        self._size = source.size if options.progress else None
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def update(self, consumed: int) -> None:
        """Report how many bytes of the file have been read."""
        if not self._enabled:
            return
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE:
                return
            console = live_console()
            if console is None:
                self._enabled = False
                return
            self._bar, self._task = _open_bar(console, f"Reading {self._name}", self._size)
        self._bar.update(self._task, completed=consumed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _open_bar(console: Console, text: str, total: int | None) -> tuple[Any, Any]:
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    bar.start()
    return bar, bar.add_task(escape(text), total=total)


T = TypeVar("T")


#: Marks the end of the items.
_END: Any = object()


def read_ahead(items: Iterable[T], depth: int = 1) -> Generator[T, None, None]:
    """Yield the same items in the same order, produced on a thread at most ``depth`` ahead.

    Errors of the producer are raised here. Leaving the loop early stops the producer.
    """
    source = iter(items)
    thread = ThreadPoolExecutor(1, thread_name_prefix="rankine-reader")
    ahead: deque[Future[Any]] = deque()
    try:
        ahead.extend(thread.submit(next, source, _END) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(thread.submit(next, source, _END))
            yield item
    finally:
        # The garbage collector may run this while another thread is being started: joining this
        # thread would then never return. So wait only for its work, and not for long.
        thread.shutdown(wait=False, cancel_futures=True)
        wait([future for future in ahead if not future.cancelled()], timeout=1.0)
