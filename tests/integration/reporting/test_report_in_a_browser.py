"""The page in a real browser: two widths, light and dark, and printed."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

import rankine
from integration.serve.chromium import Browser, find_chromium
from rankine import LinearModel
from unit.reporting.report_cases import fitted, hostile, random_data, shop

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no chromium: apt-get install chromium"),
]
PHONE, DESK = 375, 1280


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    test = shop()[1]
    systems = {"model": fitted(), "title": test.X[:, 0]}
    made = {
        "model": rankine.report(fitted(), test, against=LinearModel.from_weights([1.0] * 14)),
        "hostile": rankine.report(*hostile()),
        "zero": rankine.report(LinearModel.from_weights([0.0, 0.0]), random_data(4, 3, 2)),
        "comparison": rankine.report(rankine.compare(systems, test, n_resamples=200)),
    }
    for name, report in made.items():
        report.save(folder / f"{name}.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.close()


def show(browser, page, width, scheme="light"):
    browser.resize(width)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.call("Emulation.setEmulatedMedia", media="", features=[feature])
    browser.open(page.as_uri())


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["model", "hostile", "zero", "comparison"])
def test_nothing_overflows_nothing_fails_nothing_is_loaded(browser, pages, name, width):
    page = pages / f"{name}.html"
    show(browser, page, width)
    assert browser.faults() == []
    assert browser.requests() == [page.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("window.hacked === undefined")
    outside = browser.evaluate(
        "[...document.querySelectorAll('main *, header *')].filter((e) => {"
        " if (e.closest('.scroll') || e.closest('svg') || e.closest('thead')) return false;"
        " const b = e.getBoundingClientRect();"
        f" return b.width > 0 && (b.right > {width} + 1 || b.left < -1); }})"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
    assert browser.cut_off(width) == []
    cut = browser.evaluate(
        "[...document.querySelectorAll('.stack')]"
        ".filter((e) => e.scrollWidth > e.clientWidth).length"
    )
    assert cut == 0
    # every picture has a size, and its text can be read on a phone
    sizes = browser.evaluate(
        "[...document.querySelectorAll('svg.chart')].map((e) => e.getBoundingClientRect().width)"
    )
    assert all(size >= 250 for size in sizes)
    texts = browser.evaluate(
        "[...document.querySelectorAll('svg.chart text')].map((e) =>"
        " parseFloat(getComputedStyle(e).fontSize)"
        " * e.ownerSVGElement.getBoundingClientRect().width / 400)"
    )
    assert all(size >= 9.5 for size in texts)
    if folder := os.environ.get("RANKINE_SCREENSHOTS"):
        browser.screenshot(f"{folder}/report-{name}-{width}.png")


def contrast(a, b):
    """WCAG 2 contrast of two ``rgb(...)`` colours."""

    def light(colour):
        parts = [int(p) / 255 for p in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_have_enough_contrast(browser, pages, scheme):
    show(browser, pages / "model.html", DESK, scheme)
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    sheet = browser.evaluate("getComputedStyle(document.querySelector('figure')).backgroundColor")
    words = browser.evaluate("getComputedStyle(document.body).color")
    soft = browser.evaluate("getComputedStyle(document.querySelector('figcaption')).color")
    assert (contrast(ground, "rgb(0, 0, 0)") < 2) is (scheme == "dark")
    assert contrast(words, ground) >= 7
    assert min(contrast(soft, ground), contrast(soft, sheet)) >= 4.5
    fills = browser.evaluate(
        "[...document.querySelectorAll('svg.chart .dot, svg.chart .column, svg.chart text')]"
        ".map((e) => getComputedStyle(e).fill)"
    )
    assert fills
    assert min(contrast(fill, sheet) for fill in set(fills)) >= 3


def test_the_contents_follow_and_lead_to_the_sections(browser, pages):
    show(browser, pages / "model.html", DESK)
    browser.evaluate("window.scrollTo({top: 3000, behavior: 'instant'})")
    assert browser.evaluate("document.querySelector('nav').getBoundingClientRect().top") >= 0
    browser.evaluate("document.documentElement.classList.add('x'); 1")
    browser.evaluate("document.querySelector('nav a[href=\"#weights\"]').click()")
    browser.wait("Math.abs(document.querySelector('#weights').getBoundingClientRect().top) < 60")


def test_print_shows_everything_in_ink(browser, pages, tmp_path):
    show(browser, pages / "model.html", DESK, "dark")
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    folded = browser.evaluate(
        "[...document.querySelectorAll('details:not([open]) table')]"
        ".map((e) => e.getBoundingClientRect().height)"
    )
    assert folded
    assert all(height > 50 for height in folded)
    found = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    assert found.startswith(b"%PDF")
    Path(tmp_path / "page.pdf").write_bytes(found)
