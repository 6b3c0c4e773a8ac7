"""Explanations and summaries as text and as rich tables; names from files are made safe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rankine.core.printable import printable

if TYPE_CHECKING:
    from rankine.model.explain import Explanation

__all__ = ["explanation_table", "explanation_text"]


def explanation_text(explanation: Explanation, limit: int | None = 10) -> str:
    """Aligned columns, a rest line where terms are left out, and the total."""
    head, body = _cells(explanation, limit)
    widths = [max(len(row[c]) for row in [head, *body]) for c in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if c == 0 else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *body]
    ]
    return "\n".join(lines)


def explanation_table(explanation: Explanation, limit: int | None = 10) -> Any:
    """Rich table of the largest terms; cells are plain text, never markup."""
    from rich.table import Table
    from rich.text import Text

    head, body = _cells(explanation, limit)
    table = Table(box=None, pad_edge=False)
    for c, title in enumerate(head):
        table.add_column(title, justify="left" if c == 0 else "right")
    for row in body:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _cells(explanation: Explanation, limit: int | None) -> tuple[list[str], list[list[str]]]:
    pair = explanation.pair
    head = ["feature", "weight", *(["a", "b"] if pair else ["value"]), "contribution"]
    shown = explanation.contributions[:limit]
    body = []
    for term in shown:
        values = [term.value] if term.other is None else [term.value, term.other]
        numbers = [term.weight, *values]
        body.append(
            [
                printable(term.name, 60),
                *(f"{number:.6g}" for number in numbers),
                f"{term.contribution:+.6g}",
            ]
        )
    blank = [""] * (len(head) - 2)
    rest = explanation.contributions[len(shown) :]
    if rest:
        amount = math.fsum(term.contribution for term in rest)
        body.append([f"({len(rest)} more)", *blank, f"{amount:+.6g}"])
    label = "score of a - score of b" if pair else "score"
    body.append([label, *blank, f"{explanation.total:+.6g}"])
    return head, body
