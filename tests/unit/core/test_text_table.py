"""Tables never cut a cell and never exceed the width, unless a single character must."""

import numpy as np
import pytest

from rankine.core.text_table import display_width, table_lines, wrap_text

HEADER = ("system", "mean", "95% interval", "wins/ties/losses", "verdict")
ROWS = [
    ("new.rankine - old.rankine", "-0.0007", "[-0.0071, +0.0057]", "65/278/57", "equivalent"),
    ("a", "+0.1000", "[+0.0500, +0.1500]", "300/50/50", "better"),
]


def lay_out(width, optional=("wins/ties/losses",)):
    return table_lines(HEADER, ROWS, text=(0, 4), optional=optional, width=width)


@pytest.mark.parametrize("width", [20, 30, 40, 60, 70, 80, 120, None])
def test_no_line_is_too_wide_and_nothing_is_cut(width):
    lines = lay_out(width)
    assert max(map(len, lines)) <= (width or 10_000)
    # Wrapped cells continue in later lines, so their words are looked for.
    words = {word.strip("()[],") for line in lines for word in line.split()}
    hidden = {"65/278/57", "300/50/50"} if width in (60, 70) else set()
    for row in ROWS:
        for cell in row:
            if cell not in hidden and (width is None or width >= 30):
                assert {word.strip("()[],") for word in cell.split()} <= words
    assert not any("..." in line or "…" in line for line in lines)


def test_wide_narrow_and_block_layouts():
    natural = lay_out(None)
    assert lay_out(200) == lay_out(len(natural[1])) == natural
    assert len(natural) == 3
    assert natural[0].split("  ")[0] == "system"
    narrow = lay_out(60)
    assert narrow[-1] == "(this terminal is too narrow for: wins/ties/losses)"
    assert "verdict" in narrow[0]
    blocks = lay_out(40)
    assert blocks[0] == "new.rankine - old.rankine"
    assert blocks[1].split() == ["mean", "-0.0007"]
    assert "65/278/57" in "".join(blocks)


def test_a_header_of_several_words_is_wrapped_before_a_column_is_left_out():
    lines = table_lines(("", "chosen on validation"), [("a", "1")], optional=("b",), width=14)
    assert [line.split() for line in lines] == [["chosen", "on"], ["validation"], ["a", "1"]]


def test_a_table_without_header_or_rows():
    assert table_lines(("", ""), [("a", "b")], text=(0, 1)) == ["a  b"]
    assert table_lines(("x", "y"), [], width=10) == ["x  y"]


def test_a_style_does_not_move_columns():
    plain = table_lines(("n", "v"), [("a", "1"), ("bb", "22")])
    styled = table_lines(
        ("n", "v"), [("a", "1"), ("bb", "22")],
        style=lambda row, column, cell: f"<{cell}>" if (row, column) == (0, 1) else cell,
    )  # fmt: skip
    assert styled[1] == "a   < 1>"
    assert [styled[0], styled[2]] == [plain[0], plain[2]]


def test_wide_characters_take_two_cells():
    assert display_width("日本") == 4
    assert display_width("e\N{COMBINING ACUTE ACCENT}") == 1
    lines = table_lines(("名前", "v"), [("日本", "1"), ("ab", "2")])
    assert {display_width(line) for line in lines} == {7}
    assert max(display_width(line) for line in wrap_text("日本 " * 20, 11)) <= 11


def test_text_is_wrapped_at_spaces_or_where_a_line_ends():
    rng = np.random.default_rng(0)
    for _ in range(50):
        words = ["x" * n for n in rng.integers(1, 30, 8)]
        lines = wrap_text(" ".join(words), 12)
        assert max(map(len, lines)) <= 12
        assert "".join(lines).replace(" ", "") == "".join(words)
    assert wrap_text("a\n\nb c", 80) == ["a", "", "b c"]
    assert wrap_text("aaa bbb", 4, indent=" ") == ["aaa", " bbb"]
