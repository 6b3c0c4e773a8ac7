"""The metric against the trial, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.rankers.plot_path import new_axes

if TYPE_CHECKING:
    from rankine.tune.result import TuningResult

__all__ = ["plot_trace"]


def plot_trace(result: TuningResult, ax: Any = None) -> Any:
    """Finished trials as dots (hollow where a limit is exceeded), the best so far as a line."""
    if ax is None:
        ax = new_axes()
    done = [r for r in result.trace if r.value is not None]
    for feasible, face, label in ((True, "#1f5f99", "trials"), (False, "none", "above a limit")):
        shown = [r for r in done if r.feasible is feasible]
        if shown:
            ax.scatter(
                [r.number for r in shown],
                [r.value for r in shown],
                s=18,
                facecolors=face,
                edgecolors="#1f5f99",
                label=label,
            )
    line = [r for r in result.trace if r.best is not None]
    ax.step(
        [r.number for r in line],
        [r.best for r in line],
        where="post",
        color="#c8443a",
        linewidth=1.4,
        label=f"best: {result.best_value:.4g}",
    )
    ax.set_xlabel("trial")
    ax.set_ylabel(result.metric)
    ax.legend(frameon=False)
    ax.grid(visible=True, alpha=0.25)
    return ax
