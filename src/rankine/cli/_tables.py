"""Tables of results on stdout: for people, for papers, for wikis."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankine.cli import _console

if TYPE_CHECKING:
    from rankine.evaluation.tables import Table

__all__ = ["show_tables"]


def show_tables(tables: Sequence[Table], *, latex: bool = False, markdown: bool = False) -> None:
    """Print tables in the chosen form; a wide table is never cut."""
    if latex or markdown:
        texts = [table.latex() if latex else table.markdown() for table in tables]
        sys.stdout.write("\n".join(texts))
        return
    from rich.console import Console

    usual = _console.console()
    for table in tables:
        # rich squeezes what does not fit; a cut figure is worse than a long line
        wide = Console(width=10_000)
        needed = wide.measure(table).maximum
        usual.width = max(_console.console().width, needed)
        usual.print(table)
        usual.print()
