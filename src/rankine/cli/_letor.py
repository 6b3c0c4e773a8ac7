"""Rankers with parameters in one word, and the progress of many fits."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankine.cli import _console
from rankine.cli._settings import make_ranker, parse_settings
from rankine.core.errors import ParameterError

__all__ = ["fits_progress", "parse_baselines", "parse_rankers"]

#: Seconds between lines of progress in a log.
EVERY = 20.0


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


def parse_baselines(texts: list[str]) -> list[tuple[str | None, Any]]:
    """``FILE`` or ``FOLDER=FILE`` as (folder or None, figures), read before anything is fitted."""
    from rankine.evaluation.letor_tables import read_baselines

    found: list[tuple[str | None, Any]] = []
    for text in texts:
        folder, equals, file = text.rpartition("=")
        found.append((folder if equals else None, read_baselines(file)))
    return found


@contextmanager
def fits_progress() -> Iterator[Any]:
    """A report function: a bar on stderr when it is a terminal, a line now and then when not."""
    if _console.verbosity() < 0:
        yield None
        return
    if not sys.stderr.isatty():
        yield _line_by_line()
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


def _line_by_line() -> Any:
    """A report function that says how far it is, and how long it will take, every some seconds."""
    started = last = time.monotonic()

    def report(done: int, total: int, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if 0 < done < total and now - last >= EVERY:
            last = now
            left = (now - started) * (total - done) / done
            _console.say(f"{done} of {total} fits, about {left:.0f} s left ({text})")

    return report
