"""``rankine path``: models of every size, and which of them to keep."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, save_report, training_progress
from rankine.cli._options import (
    AsJson,
    Files,
    Missing,
    ReadingOptions,
    ReportFile,
    Seed,
    Settings,
    make_ranker,
    parse_settings,
    split_list,
)
from rankine.cli.main import app
from rankine.core.errors import ParameterError

_EPILOG = """
[bold]Examples[/bold]

  rankine path train.txt --valid vali.txt --metric ndcg@10 --plot sizes.png

  rankine path train.txt --valid vali.txt --max-nonzero 50 --out small.rankine

  rankine path train.txt --set l2=0.1 --n-steps 50 --min-ratio 0.001 --json

  rankine path train.txt --ranker additive --valid vali.txt --n-steps 10 --out curves.rankine

  rankine path log.txt --ranker elastic --valid vali.txt --solvers rda,psgd --n-steps 10 \\
    --max-latency 0.009ms --out fast.rankine
"""


@app.command(epilog=_EPILOG)
def path(
    data: Files,
    ranker: Annotated[str, typer.Option(help="domination, elastic (l1) or additive (smooth).")] = (
        "domination"
    ),
    set_: Settings = None,
    valid: Annotated[str | None, typer.Option(help="Evaluation data.")] = None,
    metric: Annotated[str, typer.Option(help="Metric on --valid.")] = "ndcg@10",
    scale: Annotated[str, typer.Option(help="auto, none, standard, maxabs or query.")] = "auto",
    missing: Missing = "auto",
    n_steps: Annotated[
        int | None, typer.Option(help="Number of strengths; default 30, additive 10.")
    ] = None,
    min_ratio: Annotated[
        float | None,
        typer.Option(help="Smallest strength by the largest; default 0.01, additive 1e-6."),
    ] = None,
    max_nonzero: Annotated[
        int | None, typer.Option(help="End the path before models with more weights.")
    ] = None,
    solvers: Annotated[
        str | None, typer.Option(help="elastic: which of rda, fobos, psgd, tgd; comma-separated.")
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="elastic: longest time to score an item, such as 0.009ms.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Save the best model.")] = None,
    plot: Annotated[
        str | None, typer.Option(help="Draw quality against size (png, svg or pdf).")
    ] = None,
    report: ReportFile = None,
    seed: Seed = 0,
    *,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Train models of every size along a path of strengths; show, draw and keep the best."""
    import rankine

    settings = {"metric": metric, "scale": scale, "missing": missing, "random_state": seed}
    estimator = make_ranker(ranker, {**settings, **parse_settings(set_ or [])})
    steps: dict[str, Any] = {"max_nonzero": max_nonzero}
    steps |= {} if n_steps is None else {"n_steps": n_steps}
    steps |= {} if min_ratio is None else {"min_ratio": min_ratio}
    steps |= path_options(estimator, solvers, max_latency)
    check_output_paths(out=out, plot=plot, report=report)
    estimator.capabilities.require("path", "memory", type(estimator).__name__)
    # Known to be this wide, a stream is read once and never held in memory.
    known = reading.raw or reading.n_features is not None
    rows = reading.open(data, stream="stream" in estimator.capabilities.path and known)
    held = None if valid is None else reading.open_like(valid, rows)
    if reading.split is not None:
        if valid is not None:
            raise ParameterError("both --valid and --split", fix="Leave out one of them")
        parts = reading.parts(rows)
        rows, held = parts["train"], parts["valid"]
    with training_progress(f"path of {type(estimator).__name__}") as callbacks:
        found = estimator.path(rows, eval_set=held, callbacks=callbacks, **steps)
    if len(found) == 0:
        raise ParameterError("the path is empty", fix="Allow more weights with --max-nonzero")
    best = found.best()
    result: dict[str, Any] = {
        "ranker": type(estimator).__name__,
        "metric": found.metric,
        "measured": found.measured,
        "n_features": rows.n_features,
        "best": best,
        "steps": found.records(),
    }
    if plot is not None:
        rankine.plot.save_axes(rankine.plot.path(found), plot)
        result["plot"] = plot
    save_report(report, found)
    if out is not None:
        model = found.to_model(best)
        model.save(out)
        result |= {"model": out, "digest": model.digest}
    if json:
        _console.print_json(result)
    else:
        _console.print_result(path_table(result))


def path_options(estimator: Any, solvers: str | None, max_latency: str | None) -> dict[str, Any]:
    """Options that not every path has, where the ranker's path has them."""
    from rankine.scoring.latency import parse_latency

    found: dict[str, Any] = {}
    if solvers is not None:
        found["solvers"] = split_list(solvers)
    if max_latency is not None:
        found["max_latency"] = parse_latency(max_latency)
    for name in found:
        if name not in estimator.capabilities.path_options:
            raise ParameterError(
                f"the path of {type(estimator).__name__} has no {name}",
                fix=f"Leave out --{name.replace('_', '-')}, or use --ranker elastic",
            )
    return found


def path_table(result: dict[str, Any]) -> Any:
    """The steps, for people; a star marks the best."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    quality = result["metric"] if result["measured"] else "loss"
    one_pass = "solver" in result["steps"][0]
    strength = "smooth" if "smooth" in result["steps"][0] else "l1"
    first = "solver" if one_pass else "pairs" if strength == "smooth" else ""
    last = "ms an item" if one_pass else "gap"
    for name in ("", first, strength, "weights", quality, last, "seconds"):
        table.add_column(name, justify="right")
    for k, step in enumerate(result["steps"]):
        gap = step["relative_gap"]
        shown = f"{step['latency_ms']:.2g}" if one_pass else "" if gap is None else f"{gap:.1e}"
        table.add_row(
            "*" if k == result["best"] else "",
            str(step.get(first, "")),
            f"{step[strength]:.4g}",
            f"{step['nonzeros']:,}",
            f"{step[quality]:.4f}",
            shown,
            f"{step['seconds']:.2f}",
        )
    return table
