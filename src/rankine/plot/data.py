"""Plots of a data set."""

from __future__ import annotations

from typing import Any

from rankine.plot.axes import COLOURS, finish, start

__all__ = ["labels", "lengths"]


def labels(data: Any, *, ax: Any = None) -> Any:
    """Items of each label."""
    from rankine.report.figures.data import levels

    found = levels(data)
    ax = start(ax)
    if found.names:
        ax.bar(range(len(found.names)), found.counts, color=COLOURS["model"])
        ax.set_xticks(range(len(found.names)))
        ax.set_xticklabels(found.names)
    else:
        ax.stairs(found.counts, found.edges, fill=True, color=COLOURS["model"])
    return finish(ax, "label", "items")


def lengths(data: Any, *, ax: Any = None) -> Any:
    """Queries by the number of their items."""
    from rankine.report.figures.data import lengths as measure

    found = measure(data)
    ax = start(ax)
    ax.stairs(found.counts, found.edges, fill=True, color=COLOURS["model"])
    return finish(ax, "items of a query", "queries")
