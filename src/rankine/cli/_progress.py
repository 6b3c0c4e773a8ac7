"""A progress bar for training, fed by the callbacks of the solvers."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rankine.cli import _console

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["training_progress"]


@contextmanager
def training_progress(title: str) -> Iterator[list[Any]]:
    """Callbacks that draw a bar on stderr when it is a terminal; none otherwise."""
    if not sys.stderr.isatty() or _console.verbosity() < 0:
        yield []
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[shown]}"),
        TimeElapsedColumn(),
        console=_console.console(stderr=True),
        transient=True,
    )
    task = bar.add_task(title, total=None, shown="")

    def update(progress: Any) -> None:
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in progress.values.items())
        step = f"{progress.step:,}" + (f"/{progress.total:,}" if progress.total else "")
        bar.update(task, completed=progress.step, total=progress.total, shown=f"{step}  {numbers}")

    with bar:
        yield [update]
