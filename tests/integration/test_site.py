"""The documentation site builds without a warning, holds every public name, and fetches nothing."""

from __future__ import annotations

import html
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tools.docs.cli_reference import commands
from tools.docs.site_pages import write_site_pages

import rankine
from integration.serve.chromium import Browser, find_chromium

ROOT = Path(__file__).resolve().parents[2]
#: Packages whose ``__all__`` is public, besides ``rankine`` itself.
PUBLIC_PACKAGES = [
    "rankine.core.errors",
    "rankine.data",
    "rankine.distributed",
    "rankine.export",
    "rankine.losses",
    "rankine.metrics",
    "rankine.model",
    "rankine.updates",
    "rankine.plot",
    "rankine.reporting",
    "rankine.scoring",
    "rankine.transforms",
    "rankine.tuning",
]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built site; building it is the first test of all."""
    folder = tmp_path_factory.mktemp("site")
    write_site_pages()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="session")
def pages(site):
    return {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for path in site.rglob("*.html")
    }


def public_names():
    for name in rankine.__all__:
        if not isinstance(getattr(rankine, name), (str, ModuleType)):
            yield f"rankine.{name}"
    yield from ("rankine.tuning.run.tune", "rankine.reporting.run.report")
    for package in PUBLIC_PACKAGES:
        for name in importlib.import_module(package).__all__:
            yield f"{package}.{name}"


@pytest.mark.docs
def test_every_public_name_is_in_the_reference(pages):
    anchors = {
        found for page in pages.values() for found in re.findall(r'id="(rankine\.[^"]+)"', page)
    }
    # A name that two packages export is described where it is first met.
    described = {anchor.rpartition(".")[2] for anchor in anchors}
    missing = [name for name in public_names() if name.rpartition(".")[2] not in described]
    assert missing == []
    rankers = [name for name in rankine.__all__ if hasattr(getattr(rankine, name), "fit")]
    assert {f"rankine.{name}.fit" for name in rankers} <= anchors
    assert len(rankers) >= 6


@pytest.mark.docs
def test_every_command_and_option_is_in_the_reference(pages):
    text = html.unescape(pages["cli.html"])
    found = commands()
    assert set(found) >= {"train", "evaluate", "serve", "letor", "tune"}
    for name, command in found.items():
        start = text.index(f'<h2 id="rankine-{name.replace(" ", "-")}"')
        section = text[start : text.find("<h2 ", start + 1)]
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert f"<code>{option}</code>" in section, f"{name} {option}"


@pytest.mark.docs
def test_pages_fetch_nothing_and_leave_no_formula_unset(pages):
    for name, page in pages.items():
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"', page)
        loaded += re.findall(
            r'<link[^>]*rel="(?:stylesheet|icon|preconnect)"[^>]*href="([^"]+)"', page
        )
        assert not [url for url in loaded if url.startswith(("http", "//"))], name
        text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
        assert not re.search(r"<\w+,", text), f"{name}: a formula such as <w, x> is read as a tag"
    assert any("<math" in page for page in pages.values())


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.close()


def in_one_page(site, pages):
    """The contents of all pages in the frame of one: scripts run once, not for every page."""
    contents = re.compile(r"(?<=<article)([^>]*>.*)(?=</article>)", re.DOTALL)

    def absolute(name, text):
        folder = (site / name).parent.as_uri()
        return re.sub(r'\b(src|href)="(?!\w+:|#)', rf'\1="{folder}/', text)

    found = {name: contents.search(absolute(name, text))[1] for name, text in pages.items()}
    # Every page has the menu at the left and its contents at the right, so one frame serves all.
    assert all(text.count('<div class="md-sidebar ') == 2 for text in pages.values())
    joined = "</article><article".join(found[name] for name in sorted(found))
    return contents.sub(lambda _: joined, absolute("cli.html", pages["cli.html"]))


@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is None, reason="no chromium: apt-get install chromium")
def test_no_page_cuts_off_code_or_tables(site, pages, browser, tmp_path):
    (tmp_path / "all.html").write_text(in_one_page(site, pages), encoding="utf-8")
    browser.open((tmp_path / "all.html").as_uri())
    assert browser.evaluate("document.querySelectorAll('article').length") == len(pages) > 70
    for width in (375, 1280):
        assert browser.cut_off(width) == [], width
        browser.wait("document.documentElement.scrollWidth <= innerWidth")
    browser.evaluate(
        "document.querySelector('article').insertAdjacentHTML("
        "'beforeend', '<svg width=2000 style=\"max-width: none\"><text>too wide</text></svg>')"
    )
    assert browser.cut_off(1280) == ["svg too wide"]


@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is None, reason="no chromium: apt-get install chromium")
def test_the_site_opens_from_the_file_system_and_searches(site, browser):
    for page in ("index.html", "rankers/ranksvm.html", "cli.html", "api/data.html"):
        browser.open((site / page).as_uri())
        assert browser.faults() == []
        assert [url for url in browser.requests() if url.startswith("http")] == []
    browser.evaluate(
        "document.querySelector('#__search').checked = true;"
        "document.querySelector('#__search').dispatchEvent(new Event('change'));"
        "const box = document.querySelector('.md-search__input');"
        "box.focus(); box.value = 'pegasos'"
    )
    browser.wait("typeof __index === 'object'")
    browser.evaluate("box.dispatchEvent(new Event('keyup', {bubbles: true}))")
    browser.wait("document.querySelectorAll('.md-search-result__item').length > 0")
