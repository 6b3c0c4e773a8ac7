"""A progress bar for files that take more than a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from rankine.core.terminal import live_console

if TYPE_CHECKING:
    from rich.console import Console

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["Meter"]

#: Seconds before the bar appears.
_PATIENCE = 2.0


class Meter:
    """Shows bytes read on stderr, once a file has taken two seconds; silent unless asked for."""

    def __init__(self, source: Source, options: ReadOptions, *, verb: str = "Reading") -> None:
        self._wanted = options.progress
        self._name = source.name
        self._size = source.size if options.progress else None
        self._verb = verb
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def update(self, consumed: int) -> None:
        """Tell how many bytes of the file have been read."""
        if not self._wanted:
            return
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE:
                return
            console = live_console()
            if console is None:
                self._wanted = False
                return
            self._bar, self._task = _open_bar(console, f"{self._verb} {self._name}", self._size)
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
