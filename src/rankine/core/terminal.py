"""Where a progress bar can be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["live_console"]


def live_console() -> Console | None:
    """A console on stderr, or None where it is neither a terminal nor a notebook.

    A bar that is drawn elsewhere leaves an empty line, with some versions of rich even a disabled
    one.
    """
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
