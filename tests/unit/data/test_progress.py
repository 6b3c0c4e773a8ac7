"""A bar only where it is asked for, on a terminal, after some patience."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from rankine.data import progress
from rankine.data.dataset import Dataset
from rankine.data.options import ReadOptions
from rankine.data.progress import Meter, read_ahead
from rankine.data.scan import regroup
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


# ------------------------------------------------------------------ Reading ahead and regrouping
def test_reading_ahead_keeps_the_order():
    assert list(read_ahead(range(100))) == list(range(100))
    assert list(read_ahead([])) == []


def test_reading_ahead_raises_where_the_producer_failed():
    def broken():
        yield 1
        raise KeyError("lost")

    items = read_ahead(broken())
    assert next(items) == 1
    with pytest.raises(KeyError, match="lost"):
        next(items)


@pytest.mark.timeout(20)
def test_a_forgotten_reader_can_be_collected_while_another_thread_starts():
    """The collector may run while the lock of starting and ending threads is held."""
    lock = getattr(threading, "_shutdown_locks_lock", None)
    if lock is None:
        pytest.skip("this Python has no such lock")
    items = read_ahead(range(100))
    assert next(items) == 0
    with lock:
        items.close()


def test_reading_ahead_reads_at_most_depth_ahead():
    produced = []

    def slow():
        for k in range(50):
            produced.append(k)
            yield k

    items = read_ahead(slow(), depth=3)
    next(items)
    time.sleep(0.3)
    assert len(produced) <= 6
    items.close()


def test_leaving_early_stops_the_thread():
    before = set(threading.enumerate())  # some of which may end meanwhile
    for item in read_ahead(iter(int, 1)):
        assert item == 0
        break
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("cuts", [(5,), (1,), (3, 2, 7), (30,)])
def test_regroup_depends_on_the_queries_alone(cuts):
    sizes = np.random.default_rng(0).integers(1, 5, 23)
    qid = np.repeat(np.arange(23), sizes)
    data = Dataset.from_arrays(np.arange(len(qid), dtype=float)[:, None], qid % 2, qid)

    def blocks():
        first = k = 0
        while first < 23:
            last = min(first + cuts[k % len(cuts)], 23)
            yield data.take_queries(np.arange(first, last))
            first, k = last, k + 1

    parts = list(regroup(blocks(), 6))
    assert [part.n_queries for part in parts] == [6, 6, 6, 5]
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), data.X)
    np.testing.assert_array_equal(np.concatenate([part.qid for part in parts]), data.qid)


def test_one_thread_reads_ahead():
    threads = set()

    def slow():
        for k in range(6):
            threads.add(threading.get_ident())
            time.sleep(0.01)
            yield k

    assert list(read_ahead(slow())) == list(range(6))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_leaving_early_waits_for_what_is_being_read():
    begun, done = threading.Event(), threading.Event()

    def slow():
        yield 0
        begun.set()
        time.sleep(0.2)
        done.set()
        yield 1

    items = read_ahead(slow(), depth=1)
    assert next(items) == 0
    assert begun.wait(5)
    items.close()
    assert done.is_set()
