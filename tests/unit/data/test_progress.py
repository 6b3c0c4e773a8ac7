"""A bar only where it is asked for, on a terminal, after some patience."""

from __future__ import annotations

import pytest

from rankine.data import progress
from rankine.data.options import ReadOptions
from rankine.data.progress import Meter
from rankine.data.sources import Source, Stamp

SOURCE = Source("x[1].txt", stamp=Stamp(1, 1, 500, 1))


class Screen:
    """Stands for the clock, the terminal and the bar."""

    def __init__(self, patch, *, terminal=True):
        self.now, self.asked, self.bar, self.shown = 100.0, 0, None, []
        patch.setattr(progress.time, "monotonic", lambda: self.now)
        patch.setattr(progress, "live_console", lambda: self.console(terminal))
        patch.setattr(progress, "_open_bar", self.open)

    def console(self, terminal):
        self.asked += 1
        return "console" if terminal else None

    def open(self, console, text, total):
        assert self.bar is None
        self.bar = (console, text, total)
        return self, 7

    def update(self, task, completed):
        self.shown.append((task, completed))

    def stop(self):
        self.shown.append("stopped")


def test_the_bar_appears_after_two_seconds(monkeypatch):
    screen = Screen(monkeypatch)
    with Meter(SOURCE, ReadOptions(progress=True)) as meter:
        meter.update(1)
        screen.now = 101.999
        meter.update(2)
        assert (screen.shown, screen.asked) == ([], 0)
        screen.now = 102.0
        meter.update(3)
        meter.update(400)
    assert screen.bar == ("console", "Reading x[1].txt", 500)
    assert screen.shown == [(7, 3), (7, 400), "stopped"]


@pytest.mark.parametrize("wanted", [True, False])
def test_silence_where_nobody_looks(monkeypatch, wanted):
    screen = Screen(monkeypatch, terminal=False)
    with Meter(SOURCE, ReadOptions(progress=wanted)) as meter:
        screen.now = 200.0
        meter.update(3)
        meter.update(4)
    assert screen.asked == wanted, "a terminal is looked for once"
    assert (screen.bar, screen.shown) == (None, [])


@pytest.mark.parametrize(("terminal", "notebook"), [(0, 0), (1, 0), (0, 1)])
def test_a_console_is_a_terminal_or_a_notebook(monkeypatch, terminal, notebook):
    import rich.console

    class Console:
        def __init__(self, *, stderr):
            assert stderr
            self.is_terminal, self.is_jupyter = bool(terminal), bool(notebook)

    monkeypatch.setattr(rich.console, "Console", Console)
    assert (progress.live_console() is None) == (not terminal and not notebook)


def test_names_are_shown_as_they_are():
    from rich.console import Console

    console = Console(force_terminal=True, width=80, record=True)
    bar, task = progress._open_bar(console, "Reading x[1].txt", 500)
    bar.update(task, completed=250)
    bar.stop()
    assert bar.tasks[0].total == 500
    assert bar.tasks[0].percentage == 50
    assert bar.get_renderable() is not None
    with console.capture() as seen:
        console.print(bar.get_renderable())
    assert "Reading x[1].txt" in seen.get()
