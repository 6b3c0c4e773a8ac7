"""The page is inert and self-contained; its tables name their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markupsafe import Markup

from rankine.reporting import page
from rankine.reporting.html import parts
from unit.reporting.report_cases import (
    words,
)
from unit.reporting.test_svg import Drawn


@pytest.mark.parametrize("columns", [page.MAX_STACKED, page.MAX_STACKED + 1])
@pytest.mark.parametrize("left", [1, 2])
def test_a_table_names_its_rows_and_marks_the_best(columns, left):
    header = [f"h{c}" for c in range(columns)]
    rows = [[f"{r}.{c}" for c in range(columns)] for r in range(2)]
    bold = frozenset({(0, 1), (1, columns - 1)})
    made = Markup("<div>%s</div>") % page.table(
        header, rows, left=left, bold=bold, caption="All of it"
    )
    root = Drawn(made).root
    narrow = columns == page.MAX_STACKED
    assert root[-1].attrib["class"] == ("stack" if narrow else "scroll")
    assert words(made).startswith("All of it")
    numbers = ["n" if c >= left else None for c in range(columns)]
    assert [cell.attrib.get("class") for cell in root.find(".//thead/tr")] == numbers
    for r, row in enumerate(root.findall(".//tbody/tr")):
        assert [cell.text for cell in row] == rows[r]
        assert (row[0].tag, row[1].tag) == ("th", "td")
        for c, cell in enumerate(row[1:], 1):
            classes = [numbers[c], "best" if (r, c) in bold else None]
            assert cell.attrib.get("class", "").split() == [one for one in classes if one]
            assert cell.attrib.get("data-of") == (header[c] if narrow else None)
    assert "caption" not in page.table(header, rows)
    assert page.table([Markup("<b>x</b>"), "y"], [["a", "c"]]).count('data-of="y"') == 1
    assert page.table(["x", "y"], [["a", "c"]]).count('class="n"') == 2


def test_small_parts_of_a_page_are_left_out_where_they_are_empty():
    assert "more" not in parts.tile("what", "1")
    assert words(parts.tile("what", "1", "or less")) == "what 1 or less"
    assert page.figures(None, None) == ""
    assert page.figures(None, Markup("<i>x</i>")).count("<i>") == 1
    assert words(parts.facts([("a", "b"), ("c", 1)])) == "a b c 1"
    bare = page.Section("x", "short", "Long", "", "body")
    made = page.make_report(
        "t", "k", ["sum"], [], [None, bare, replace(bare, id="y", lead="L")], {}
    )
    assert made.html.count('class="lead"') == 1
    assert made.html.count("<section") == 2
    assert 'class="tiles"' not in made.html
    assert made.figures == {"title": "t"}
    assert repr(made) == f"Report('t', {len(made.html) / 1000:,.0f} kB)"
