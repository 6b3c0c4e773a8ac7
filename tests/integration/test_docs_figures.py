"""Figures in the pages are those of ``benchmarks/results``."""

from __future__ import annotations

import re

import pytest
from tools.docs.figures import TABLES, figure, fill_in, pages, unmarked
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


def test_no_table_shows_a_figure_without_a_marker():
    """README, rankers, guides and "which ranker?": numbers in tables come from stored results."""
    docs = ROOT / "docs"
    checked = [ROOT / "README.md", docs / "which-ranker.md"]
    checked += [*(docs / "rankers").glob("*.md"), *(docs / "how-to").glob("*.md")]
    found = {path.name: unmarked(path.read_text(encoding="utf-8")) for path in checked}
    assert {name: rows for name, rows in found.items() if rows} == {}


@pytest.mark.parametrize(
    ("row", "is_figure"),
    [
        ("| RankSVM | 0.47 |", True),
        ("| RankSVM | .4723 |", True),
        ("| reading | 586 MB/s |", True),
        ("| training | 12 s |", True),
        ("| error | 5 % |", True),
        ("| `tol` | `1e-3`, at most `0.5` |", False),
        ("| rows | 512,000 |", False),
        ("| SVMrank 2009 | section 3 |", False),
        ("| LETOR 4.0 | `Fold1` |", False),
        ("| Solr 9.10.1, embedded | yes |", False),
        (r"| speed | <!--= elastic: speed / cpu_s \| .1f -->9.2<!-- --> s |", False),
    ],
)
def test_what_counts_as_a_figure(row, is_figure):
    assert bool(unmarked(f"| a | b |\n|---|---|\n{row}\n")) == is_figure
    assert not unmarked(f"```\n{row}\n```\n")


def test_several_runs_are_shown_by_their_median():
    runs = sorted(figure("elastic", f"speed / cpu_s / {k}") for k in range(3))
    assert figure("elastic", "speed / cpu_s") == runs[1]


def test_a_figure_that_nobody_measured_is_an_error():
    with pytest.raises(LookupError, match=r"spd\.json has no 'sofia / no such learner'"):
        fill_in("<!--= spd: sofia / no such learner | .2f -->1<!-- -->")
