"""Figures in the pages are those of ``benchmarks/results``."""

from __future__ import annotations

import re

import pytest
from tools.docs.figures import TABLES, fill_in, pages
from tools.docs.includes import ROOT

pytestmark = pytest.mark.docs


def test_every_figure_is_the_one_of_its_file():
    """``make results`` writes them."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        assert fill_in(text) == text, path


def test_pages_hold_figures_and_tables():
    text = "".join(path.read_text(encoding="utf-8") for path in pages())
    figures = re.findall(r"<!--= \S+: .+?-->[\d.,e+-]+%?<!-- -->", text)
    assert len(figures) == text.count("<!--=") > 5
    for name in TABLES:
        assert f"<!-- figures {name} -->\n\n" in text


def test_a_figure_is_written_anew():
    page = ROOT / "docs" / "which-ranker.md"
    text = page.read_text(encoding="utf-8")
    spoiled = text.replace("781,265<!-- -->", "7<!-- -->").replace("| 0.464 |", "| 0.999 |")
    assert spoiled != text
    assert fill_in(spoiled) == text


def test_a_figure_that_nobody_measured_is_an_error():
    with pytest.raises(LookupError, match=r"spd\.json has no 'sofia / no such learner'"):
        fill_in("<!--= spd: sofia / no such learner | .2f -->1<!-- -->")
