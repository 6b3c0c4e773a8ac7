"""The list of decisions, from the files of ``docs/adr``."""

from __future__ import annotations

from tools.docs.includes import ROOT

__all__ = ["decisions"]


def decisions() -> str:
    """One line a decision: its number and title, as a link."""
    lines = []
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines)
