"""The work of ``rankine path``."""

from __future__ import annotations

from typing import Any

from rankine.cli._progress import training_progress
from rankine.core.errors import ParameterError

__all__ = ["path_table", "walk_files"]


def walk_files(
    estimator: Any,
    paths: list[str],
    options: dict[str, Any],
    *,
    valid: str | None,
    steps: dict[str, Any],
    out: str | None,
    plot: str | None,
) -> dict[str, Any]:
    """Walk the path of a ranker on files; returns the steps and the best of them."""
    import rankine

    if not hasattr(estimator, "path"):
        raise ParameterError(
            f"{type(estimator).__name__} has no l1 path", fix="Use --ranker domination"
        )
    data = rankine.load(paths, **options)
    held = None
    if valid is not None:
        held = rankine.load(valid, **{**options, "n_features": data.n_features})
    with training_progress(f"path of {type(estimator).__name__}") as callbacks:
        path = estimator.path(data, eval_set=held, callbacks=callbacks, **steps)
    if len(path) == 0:
        raise ParameterError("the path is empty", fix="Allow more weights with --max-nonzero")
    best = path.best()
    result: dict[str, Any] = {
        "ranker": type(estimator).__name__,
        "metric": path.metric,
        "measured": path.measured,
        "n_features": data.n_features,
        "best": best,
        "steps": path.records(),
    }
    if plot is not None:
        from rankine.rankers.plot_path import save_plot

        save_plot(path, plot)
        result["plot"] = plot
    if out is not None:
        model = path.to_model(best)
        model.save(out)
        result["model"] = out
        result["digest"] = model.digest
    return result


def path_table(result: dict[str, Any]) -> Any:
    """The steps, for people; a star marks the best."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    quality = result["metric"] if result["measured"] else "loss"
    for name in ("", "l1", "weights", quality, "gap", "seconds"):
        table.add_column(name, justify="right")
    for k, step in enumerate(result["steps"]):
        gap = step["relative_gap"]
        table.add_row(
            "*" if k == result["best"] else "",
            f"{step['l1']:.4g}",
            f"{step['nonzeros']:,}",
            f"{step[quality]:.4f}",
            "" if gap is None else f"{gap:.1e}",
            f"{step['seconds']:.2f}",
        )
    return table
