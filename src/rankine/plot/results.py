"""Plots of finished searches, comparisons and paths."""

from __future__ import annotations

from typing import Any

from rankine.plot.axes import COLOURS, finish, plain, start

__all__ = ["comparison", "path", "propensity", "trials"]


def comparison(result: Any, *, ax: Any = None) -> Any:
    """Paired differences of a ``Comparison`` with their intervals and the margin around zero."""
    ax = start(ax)
    ax.axvspan(-result.margin, result.margin, color=COLOURS["random"], alpha=0.15, linewidth=0)
    ax.axvline(0.0, color=COLOURS["soft"], linestyle="--", linewidth=1.2)
    for place, pair in enumerate(result.pairs):
        colour = COLOURS["model" if pair.significant else "random"]
        ax.plot([pair.low, pair.high], [-place] * 2, color=colour, alpha=0.4, linewidth=5)
        ax.plot(pair.difference, -place, marker="o", color=colour, linestyle="none")
    ax.set_yticks([-k for k in range(len(result.pairs))])
    ax.set_yticklabels([f"{plain(p.b, 20)} - {plain(p.a, 20)}" for p in result.pairs])
    return finish(ax, f"difference in {result.metric.title}", "")


def path(result: Any, *, ax: Any = None) -> Any:
    """Quality against size along a ``RegularizationPath``."""
    from rankine.rankers.plot_path import plot_path

    return plot_path(result, ax)


def propensity(result: Any, *, ax: Any = None) -> Any:
    """Chance of being looked at by position, with its interval, and by context where asked."""
    ax = start(ax)
    colours = [COLOURS[name] for name in ("model", "against", "shown", "feature", "random")]
    shown = {"all": result, **result.contexts}
    for place, (name, part) in enumerate(shown.items()):
        colour = colours[place % len(colours)]
        positions = range(1, len(part) + 1)
        ax.fill_between(positions, part.low, part.high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(positions, part.values, marker="o", markersize=4, color=colour, label=plain(name))
    ax.set_ylim(bottom=0)
    return finish(ax, "position", "looked at, relative to the first", key=len(shown) > 1)


def trials(result: Any, *, ax: Any = None) -> Any:
    """Metric against trial of a ``TuningResult``."""
    from rankine.tune.plot import plot_trace

    return plot_trace(result, ax)
