"""Axes, colours and the small habits that all plots share."""

from __future__ import annotations

from typing import Any

from rankine.rankers.plot_path import new_axes

__all__ = ["COLOURS", "LINES", "finish", "plain", "start"]

#: Colour of each kind of order, as in the report.
COLOURS = {
    "model": "#0b5fad",
    "against": "#c2570c",
    "shown": "#7446b3",
    "feature": "#19764a",
    "random": "#77818b",
    "soft": "#59626c",
}
LINES = {"model": "-", "against": "-", "shown": ":", "feature": "-.", "random": "--", "soft": "--"}


def start(ax: Any) -> Any:
    """The given axes, or new ones that belong to no window."""
    return new_axes() if ax is None else ax


def finish(ax: Any, x_name: str, y_name: str, title: str = "", *, key: bool = False) -> Any:
    """Names, a faint grid, and the key where asked; returns the axes."""
    ax.set_xlabel(x_name)
    ax.set_ylabel(y_name)
    if title:
        ax.set_title(plain(title), loc="left", fontsize="medium")
    if key:
        ax.legend(frameon=False, fontsize="small")
    ax.grid(visible=True, alpha=0.25)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def plain(text: str, limit: int = 40) -> str:
    """A name from outside as plain text: no mathematics, no control characters, not too long."""
    from rankine.core.safe_text import printable

    return printable(text, limit).replace("$", r"\$")
