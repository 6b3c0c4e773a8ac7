"""Tables of results as Markdown, LaTeX and text."""

import io
import re

from rich.console import Console

from rankine.evaluation.tables import Table


def test_tables_in_markdown_and_latex():
    table = Table("a|b & c", ("name", "kind", "x"), [["r_1", "p|q", "1"], ["2", "", "3%"]], 2,
                  frozenset({(1, 2)}))  # fmt: skip
    assert table.markdown() == (
        "**a\\|b & c**\n\n| name | kind | x |\n| :-- | :-- | --: |\n"
        "| r_1 | p\\|q | 1 |\n| 2 |  | **3%** |\n"
    )
    assert Table("", ("x", "y"), []).markdown() == "| x | y |\n| :-- | --: |\n"
    assert table.latex().splitlines() == [
        r"\begin{table}", r"\centering", r"\caption{a|b \& c}", r"\begin{tabular}{llr}",
        r"\toprule", r"name & kind & x \\", r"\midrule", r"r\_1 & p|q & 1 \\",
        r"2 &  & \textbf{3\%} \\", r"\bottomrule", r"\end{tabular}", r"\end{table}",
    ]  # fmt: skip
    assert table.lines() == ["a|b & c", "name  kind   x", "r_1   p|q    1", "2           3%"]
    assert table.lines(bold=True)[-1] == "2           \x1b[1m3%\x1b[0m"
    screen = Console(file=io.StringIO(), width=9, force_terminal=True)
    screen.print(table)
    assert max(map(len, re.sub(r"\x1b\[\d*m", "", screen.file.getvalue()).splitlines())) <= 9
