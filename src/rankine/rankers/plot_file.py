"""A drawing on disk: refused before the work it shows when it could not be written after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError
from rankine.rankers.plot_path import new_axes

__all__ = ["check_plot_file", "save_axes"]


def check_plot_file(file: str) -> str:
    """The format that the name asks for; raises when it cannot be drawn."""
    kind = Path(file).suffix.removeprefix(".").lower()
    if kind not in new_axes().figure.canvas.get_supported_filetypes():
        raise ParameterError(
            f"cannot draw {file!r}: no format is called {kind!r}",
            fix="End the name with .png, .svg or .pdf",
        )
    return kind


def save_axes(ax: Any, file: str) -> None:
    """Write the figure of some axes; the suffix of the name chooses the format (png, svg, pdf)."""
    kind = check_plot_file(file)
    with atomic_file(file) as target:
        ax.figure.savefig(target, format=kind, dpi=150, bbox_inches="tight")
