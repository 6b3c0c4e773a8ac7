"""Write the generated parts of the pages: ``python -m tools.docs.generate``.

A part is between ``<!-- generated NAME -->`` and ``<!-- end generated -->``. The pages in the
repository hold the text, so that they can be read there and built by any program; a test compares
them with what this writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.docs.api_reference import api_reference
from tools.docs.cli_reference import cli_reference
from tools.docs.decisions import decisions
from tools.docs.engines import engine_table
from tools.docs.includes import ROOT, include

__all__ = ["fill_in", "pages"]

_PARTS = {
    "cli-reference": cli_reference, "decisions": decisions, "engine-table": engine_table,
}  # fmt: skip
_PART = re.compile(
    r"^(<!-- generated (\S+)(?: (\S+))? -->\n)(.*?)(^<!-- end generated -->)$",
    re.MULTILINE | re.DOTALL,
)


def pages() -> Iterator[Path]:
    """Yield the pages with generated parts."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if _PART.search(path.read_text(encoding="utf-8")):
            yield path


def fill_in(path: Path) -> str:
    """Return the text of a page with its generated parts written anew."""
    page = path.relative_to(ROOT / "docs").as_posix()
    return _PART.sub(
        lambda part: f"{part[1]}\n{_text(part[2], part[3], page)}\n\n{part[5]}",
        path.read_text(encoding="utf-8"),
    )


def _text(name: str, argument: str | None, page: str) -> str:
    if name == "include":
        return include(f"<!-- include {argument} -->", page)
    if argument is not None:
        text = api_reference(argument)
    else:
        text = _PARTS[name]()
    return re.sub(r"\n{3,}", "\n\n", text).strip()


if __name__ == "__main__":
    for path in pages():
        path.write_text(fill_in(path), encoding="utf-8")
