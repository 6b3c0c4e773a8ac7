"""Text with one home and several readers: ``<!-- include FILE[#part] -->``.

A part stands between ``<!-- part NAME -->`` and ``<!-- end NAME -->`` in its file (in code:
``# part NAME`` and ``# end NAME``). Links of an included Markdown file are turned so that they lead
to the same file from the page that includes it.
"""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path, PurePosixPath

__all__ = ["ROOT", "include"]

ROOT = Path(__file__).resolve().parents[2]
_INCLUDE = re.compile(r"^<!-- include (\S+?)(?:#(\S+))? -->$", re.MULTILINE)
_MARK = re.compile(r"^ *(?:<!--|#) (?:part|end) \S+(?: -->)?\n", re.MULTILINE)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")
_LANGUAGES = {".py": "python", "": "dockerfile", ".toml": "toml", ".svg": None, ".md": None}


def include(markdown: str, page: str) -> str:
    """Markdown of ``docs/<page>`` with everything it includes."""
    return _INCLUDE.sub(lambda found: _text(found.group(1), found.group(2), page), markdown)


def _text(name: str, part: str | None, page: str) -> str:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    if part is not None:
        text = _part(text, part, name)
    text = _MARK.sub("", text)
    language = _LANGUAGES[path.suffix]
    if language is not None:
        return f"```{language}\n{text.strip()}\n```"
    if path.suffix == ".md":
        text = _LINK.sub(lambda found: f"]({_turned(found.group(1), name, page)})", text)
    return text.strip()


def _part(text: str, part: str, name: str) -> str:
    bounds = re.search(
        rf"^ *(?:<!--|#) part {part}(?: -->)?\n(.*?)^ *(?:<!--|#) end {part}(?: -->)?$",
        text,
        re.MULTILINE | re.DOTALL,
    )
    if bounds is None:
        raise ValueError(f"{name} has no part {part!r}")
    return textwrap.dedent(bounds.group(1))


def _turned(target: str, name: str, page: str) -> str:
    """A link of file ``name`` as seen from ``docs/<page>``."""
    goal, hash_sign, anchor = target.partition("#")
    there = os.path.normpath(PurePosixPath(name).parent / goal)
    here = PurePosixPath("docs") / PurePosixPath(page).parent
    return f"{PurePosixPath(os.path.relpath(there, here))}{hash_sign}{anchor}"
