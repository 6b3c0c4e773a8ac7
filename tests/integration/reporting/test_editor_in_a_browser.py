"""The page of ``rankine edit`` in a real browser: drag, keyboard, number field, save."""

import json
import os
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

import rankine
from integration.serve.chromium import Browser, find_chromium
from rankine import AdditiveRanker, LinearModel
from rankine.cli._edit_server import EditServer
from rankine.reporting.editor import EditSession

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no chromium: apt-get install chromium"),
]
READY = "typeof state !== 'undefined' && state !== null"
OPTIONS = {"bins": 12, "smooth": 1.0, "pairs": 1, "categorical": ["warehouse_id"]}


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.close()


@pytest.fixture(scope="module")
def log():
    return replace(rankine.shop_log(60, random_state=0), columns={}, position=None)


@pytest.fixture
def server(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile = '<img src=x onerror="window.hacked=1">'
    names = tuple(hostile if name == "discount" else name for name in log.feature_names)
    named = replace(log, feature_names=names)
    train, valid = named.take_queries(np.arange(40)), named.take_queries(np.arange(40, 60))
    model = AdditiveRanker(**OPTIONS).fit(train).to_model()
    session = EditSession(model, lambda: AdditiveRanker(**OPTIONS), train, valid)
    with EditServer(session, 0) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def text(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")


def mouse(browser, kind, x, y):
    pressed = 0 if kind == "mouseReleased" else 1
    browser.call(
        "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=pressed,
        clickCount=1,
    )  # fmt: skip


def press(browser, key):
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key)


def handle(browser, cell):
    """Return the middle of the mark of an entry."""
    return browser.evaluate(
        f"(() => {{ const box = document.querySelector('[data-cell=\"{cell}\"]')"
        ".getBoundingClientRect();"
        "return [box.left + box.width / 2, box.top + box.height / 2]; })()"
    )


def changed(browser):
    return browser.evaluate("requestedCells()")


def solve(browser):
    browser.evaluate("document.querySelector('#solve').click()")
    browser.wait("document.querySelector('#status').textContent.startsWith('Solved')", 60)


def test_a_dragged_entry_is_fixed_solved_and_saved(server, browser, tmp_path):
    browser.resize(1280, 1000)
    browser.open(server.url, READY)
    assert "#" not in browser.evaluate("location.href")
    x, y = handle(browser, 3)
    mouse(browser, "mousePressed", x, y)
    mouse(browser, "mouseReleased", x, y)
    assert changed(browser) == []  # a click changes nothing
    x, y = handle(browser, 3)
    mouse(browser, "mousePressed", x, y)
    for step in range(1, 6):
        mouse(browser, "mouseMoved", x, y + 12 * step)
    mouse(browser, "mouseReleased", x, y + 60)
    (cell,) = changed(browser)
    before = browser.evaluate("curve().values[3]")
    assert cell["cell"] == 3
    assert cell["value"] < before
    assert "not solved" in text(browser, "#status")
    assert browser.evaluate("document.querySelector('#saving').hidden")
    solve(browser)
    assert browser.evaluate("after[curve().column][3]") == cell["value"]
    assert "20 held-out lists" in text(browser, "#tiles")
    assert list(tmp_path.iterdir()) == []
    browser.evaluate("document.querySelector('#out').value = 'dragged.rankine'")
    browser.evaluate("document.querySelector('#by').value = 'Anna'")
    browser.evaluate("document.querySelector('#save button').click()")
    browser.wait("document.querySelector('#saved').textContent.startsWith('Wrote')")
    (edit,) = LinearModel.load(tmp_path / "dragged.rankine").provenance["edits"]
    assert edit["by"] == "Anna"
    assert edit["fixed"][0]["value"] == cell["value"]
    assert browser.faults() == []
    assert all(url.startswith(("http://127.0.0.1", "data:")) for url in browser.requests())
    assert not browser.evaluate("window.hacked === 1")


def test_keyboard_and_number_field_change_entries_as_well(server, browser):
    browser.open(server.url, READY)
    browser.evaluate("document.querySelector('#plot [tabindex=\"0\"]').focus()")
    press(browser, "ArrowRight")
    press(browser, "ArrowUp")
    (cell,) = changed(browser)
    assert cell["cell"] == 1
    assert cell["value"] > browser.evaluate("curve().values[1]")
    press(browser, "Delete")
    assert changed(browser) == []
    browser.evaluate(
        "document.querySelector('#first').selectedIndex = 2;"
        "document.querySelector('#last').selectedIndex = 4;"
        "document.querySelector('#value').value = '0.25';"
        "document.querySelector('#range button').click()"
    )
    assert [(each["cell"], each["value"]) for each in changed(browser)] == [
        (2, 0.25), (3, 0.25), (4, 0.25)
    ]  # fmt: skip
    assert browser.evaluate("document.querySelector('[data-cell=\"3\"]').getAttribute('role')") == (
        "slider"
    )
    browser.evaluate("document.querySelector('#undo').click()")
    assert changed(browser) == []
    assert browser.faults() == []


def test_the_page_needs_the_token(server, browser):
    browser.open(
        server.url.split("#", maxsplit=1)[0], "document.querySelector('#status.bad') !== null"
    )
    assert "address" in text(browser, "#status")


def test_nothing_is_cut_off_in_four_looks(server, browser):
    browser.open(server.url, READY)
    browser.evaluate("changeCell(2, 0.4)")
    solve(browser)
    for scheme in ("light", "dark"):
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.call("Emulation.setEmulatedMedia", features=media)
        for width in (1280, 375):
            assert browser.cut_off(width) == []
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
            if folder := os.environ.get("RANKINE_SCREENSHOTS"):
                browser.screenshot(f"{folder}/edit-{scheme}-{width}.png")
    assert browser.faults() == []
