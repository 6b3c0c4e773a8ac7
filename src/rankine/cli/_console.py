"""Where words go: results to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "print_json", "say", "say_error", "set_verbosity", "show", "verbosity"]

_STATE = {"verbosity": 0}


def set_verbosity(level: int) -> None:
    """-1 quiet, 0 normal, 1 verbose."""
    _STATE["verbosity"] = level


def verbosity() -> int:
    """The chosen level."""
    return _STATE["verbosity"]


def console(*, stderr: bool = False) -> Console:
    """A rich console on stdout or stderr; markup is off, so that names stay what they are."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False)


def say(message: str) -> None:
    """A remark on stderr, unless quiet."""
    if verbosity() >= 0:
        sys.stderr.write(f"{printable(message)}\n")


def say_error(message: str) -> None:
    """One line on stderr, always."""
    sys.stderr.write(f"rankine: error: {printable(message)}\n")


def show(renderable: Any) -> None:
    """A table or text on stdout."""
    # Plain text is left as it is: a command that wraps cannot be copied.
    console().print(renderable, soft_wrap=isinstance(renderable, str))


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def printable(text: str) -> str:
    """Text whose control characters cannot move the cursor or change colours."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
