"""Quality against model size, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import MissingExtraError

if TYPE_CHECKING:
    from rankine.rankers.path import RegularizationPath

__all__ = ["new_axes", "path_curves", "plot_path"]

_COLOURS = ("#1f5f99", "#d98324", "#3f8f4f", "#7b5aa6")


def plot_path(path: RegularizationPath, ax: Any = None) -> Any:
    """Draw the metric (or the loss, without evaluation data) against non-zero weights.

    The size axis is logarithmic and leaves out the empty model; a ring marks the best step.
    Returns the axes.
    """
    if ax is None:
        ax = new_axes()
    values = path.values if path.measured else path.loss
    sizes = path.nonzeros
    shown = sizes > 0
    for (name, curve), colour in zip(path_curves(path), _COLOURS, strict=False):
        here = curve.nonzeros > 0
        heights = (curve.values if path.measured else curve.loss)[here]
        ax.plot(
            curve.nonzeros[here],
            heights,
            marker="o",
            markersize=3.5,
            linewidth=1.4,
            color=colour,
            label=name,
        )
    best = path.best()
    if sizes[best] > 0:
        ax.plot(
            sizes[best],
            values[best],
            marker="o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor="#c8443a",
            linestyle="none",
            label=f"best: {sizes[best]:,} weights, {values[best]:.4g}",
        )
        ax.legend(frameon=False)
    ax.set_xscale("log")
    ax.set_xlabel("non-zero weights")
    ax.set_ylabel(path.metric if path.measured else "training loss")
    if not np.isfinite(values[shown]).any():
        ax.set_title("no model with a non-zero weight")
    ax.grid(visible=True, alpha=0.25)
    return ax


def path_curves(path: RegularizationPath) -> list[tuple[str | None, RegularizationPath]]:
    """One curve, or one for each solver where there are several."""
    several = getattr(path, "curves", None)
    return [(None, path)] if several is None else list(several().items())


def new_axes() -> Any:
    """Axes of a figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "drawing needs matplotlib", fix="Install rankine[report]"
        ) from error
    return Figure(figsize=(6.0, 3.8), layout="constrained").subplots()
