"""Explanations and summaries as text and as rich tables; names from files are made safe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rankine.core.printable import printable

if TYPE_CHECKING:
    from rankine.model.explain import Explanation

__all__ = ["explanation_table", "explanation_text", "summary_text"]


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
        if pair and len(values) == 1:
            values = [term.value, None]
        numbers = [term.weight, *values]
        body.append(
            [
                printable(term.where or term.name, 60),
                *("" if number is None else f"{number:.6g}" for number in numbers),
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


def summary_text(data: dict[str, Any]) -> str:
    """A summary (``model.summary()``) as lines of text."""
    lines = [
        f"{data['kind']} model, {data['nnz']:,} of {data['n_features']:,} features weighted",
        f"digest      {data['digest']}",
    ]
    if data.get("metric"):
        lines.append(f"metric      {printable(data['metric'])}")
    for spec in data["transforms"]:
        rest = ", ".join(f"{key}={value}" for key, value in spec.items() if key != "type")
        lines.append(f"transform   {printable(spec['type'])} {printable(rest)}".rstrip())
    for section in ("parameters", "provenance"):
        for key, value in data[section].items():
            lines.append(f"{section[:10]:<11} {printable(str(key))} = {printable(str(value))}")
    if "topics" in data:
        lines.append("")
        width = max((len(printable(row["topic"], 40)) for row in data["topics"]), default=0)
        lines.extend(
            f"{printable(row['topic'], 40):<{width}}  {row['nnz']:>10,} weights"
            for row in data["topics"]
        )
        if data["n_topics"] > len(data["topics"]):
            lines.append(f"({data['n_topics'] - len(data['topics'])} more topics)")
        return "\n".join(lines)
    lines.append("")
    width = max((len(printable(row["name"], 60)) for row in data["top_weights"]), default=0)
    lines.extend(
        f"{printable(row['name'], 60):<{width}}  {row['weight']:>+14.6g}"
        for row in data["top_weights"]
    )
    if data["nnz"] > len(data["top_weights"]):
        lines.append(f"({data['nnz'] - len(data['top_weights'])} more weights)")
    return "\n".join(lines)
