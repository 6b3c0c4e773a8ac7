"""``rankine path``: models of every size, and which of them to keep."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._data_options import Reading
from rankine.cli._groups import spread
from rankine.cli._report import ReportFile
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine path train.txt --valid vali.txt --metric ndcg@10 --plot sizes.png

  rankine path train.txt --valid vali.txt --max-nonzero 50 --out small.rankine

  rankine path train.txt --set l2=0.1 --n-steps 50 --min-ratio 0.001 --json

  rankine path log.txt --ranker elastic --valid vali.txt --solvers rda,psgd --n-steps 10 \\
    --max-latency 0.009ms --out fast.rankine
"""


@app.command(epilog=_EPILOG)
@spread
def path(
    data: Annotated[list[str], typer.Argument(help="Files, patterns, or - for stdin.")],
    ranker: Annotated[str, typer.Option(help="A ranker with an l1 path.")] = "domination",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter name=value, repeatable.")
    ] = None,
    valid: Annotated[str | None, typer.Option(help="Evaluation data.")] = None,
    metric: Annotated[str, typer.Option(help="Metric on --valid.")] = "ndcg@10",
    scale: Annotated[str, typer.Option(help="none, standard, maxabs or query.")] = "none",
    n_steps: Annotated[int, typer.Option(help="Number of values of l1.")] = 30,
    min_ratio: Annotated[
        float, typer.Option(help="Smallest l1, as a share of the smallest that gives no weights.")
    ] = 0.01,
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
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    *,
    reading: Reading,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Train models of every size along an l1 path; show, draw and keep the best."""
    from rankine.cli._path import path_options, path_table, walk_files
    from rankine.cli._settings import make_ranker, parse_settings

    settings = {"metric": metric, "scale": scale, "random_state": seed}
    estimator = make_ranker(ranker, {**settings, **parse_settings(set_ or [])})
    options: dict[str, Any] = reading.options()
    result = walk_files(
        estimator,
        data,
        options,
        valid=valid,
        steps={
            "n_steps": n_steps,
            "min_ratio": min_ratio,
            "max_nonzero": max_nonzero,
            **path_options(estimator, solvers, max_latency),
        },
        out=out,
        plot=plot,
        report=report,
    )
    if json:
        _console.print_json(result)
    else:
        _console.show(path_table(result))
