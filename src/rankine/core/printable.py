"""Names from files, made safe to show on a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, limit: int = 120) -> str:
    r"""Text with every control, format and unassigned character written as an escape.

    Feature names, query ids and docids come from files: an escape sequence in one must not reach
    the terminal, nor a line break tear a table.

    Examples
    --------
    >>> print(printable("price\x1b[31m"))
    price\x1b[31m
    """
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    if shown.isprintable():
        return shown
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in shown
    )
