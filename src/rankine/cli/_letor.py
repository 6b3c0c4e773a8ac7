"""Rankers with parameters in one word, and the progress of many fits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankine.cli import _console
from rankine.cli._settings import make_ranker, parse_settings
from rankine.core.errors import ParameterError

__all__ = ["fits_progress", "parse_rankers"]


def parse_rankers(texts: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, list[Any]]]]:
    """``spd:solver=romma,l2=1e-3`` as rankers and grids; what is set is not searched."""
    rankers: dict[str, Any] = {}
    grids: dict[str, dict[str, list[Any]]] = {}
    for text in texts:
        if text in rankers:
            raise ParameterError(f"ranker {text!r} is named twice", fix="Name each once")
        name, _, rest = text.partition(":")
        given = parse_settings([part for part in rest.split(",") if part])
        ranker = make_ranker(name, given)
        grid = getattr(ranker, "letor_grid", {})
        rankers[text] = ranker
        grids[text] = {key: list(values) for key, values in grid.items() if key not in given}
    return rankers, grids


@contextmanager
def fits_progress() -> Iterator[Any]:
    """A report function that draws a bar on stderr when it is a terminal; None otherwise."""
    if not sys.stderr.isatty() or _console.verbosity() < 0:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    bar = Progress(
        BarColumn(),
        MofNCompleteColumn(),
        Remaining(),
        TextColumn("{task.description}", markup=False),
        console=_console.console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None)

    def report(done: int, total: int, text: str) -> None:
        bar.update(task, completed=done, total=total, description=text)

    with bar:
        yield report
