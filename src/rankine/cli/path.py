"""``rankine path``: train models along a path of regularization strengths and choose one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import (
    check_output_paths,
    print_tables,
    print_values,
    print_without_weights,
    save_plot,
    save_report,
    training_progress,
)
from rankine.cli._options import (
    AsJson,
    Files,
    Missing,
    ReportFile,
    Scale,
    Seed,
    Settings,
    ValidFile,
    make_ranker,
    parse_settings,
    split_list,
)
from rankine.cli._reading import ReadingOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError

if TYPE_CHECKING:
    from rankine.evaluation.tables import Table

_EPILOG = """
[bold]Examples[/bold]

  rankine path train.txt --valid vali.txt --metric ndcg@10 --plot sizes.png

  rankine path train.txt --valid vali.txt --max-nonzero 50 --out small.rankine

  rankine path train.txt --set l2=0.1 --n-steps 50 --min-ratio 0.001 --json

  rankine path train.txt --ranker additive --valid vali.txt --n-steps 10 \\
      --out curves.rankine

  rankine path log.txt --ranker elastic --valid vali.txt --solvers rda,psgd \\
      --n-steps 10 --max-latency 0.009ms --out fast.rankine
"""


@app.command(epilog=_EPILOG)
def path(
    data: Files,
    ranker: Annotated[
        str,
        typer.Option(
            help="Train this ranker: domination or elastic (varies l1), or additive (varies "
            "smooth)."
        ),
    ] = "domination",
    set_: Settings = None,
    valid: ValidFile = None,
    metric: Annotated[
        str, typer.Option(help="Evaluate with this metric on --valid: {metrics}.")
    ] = "ndcg@10",
    scale: Scale = "auto",
    missing: Missing = "auto",
    n_steps: Annotated[
        int | None,
        typer.Option(help="Number of regularization strengths (default: 30; additive: 10)."),
    ] = None,
    min_ratio: Annotated[
        float | None,
        typer.Option(
            help="Ratio of the smallest strength to the largest (default: 0.01; additive: 1e-6)."
        ),
    ] = None,
    max_nonzero: Annotated[
        int | None, typer.Option(help="Stop before models with more non-zero weights.")
    ] = None,
    solvers: Annotated[
        str | None,
        typer.Option(help="Elastic: try these of rda, fobos, psgd, tgd; comma-separated."),
    ] = None,
    max_latency: Annotated[
        str | None,
        typer.Option(help="Elastic: longest time to score an item, with a unit: 0.009ms."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Save the best model to this file.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(help="Draw quality against size to this file: .png, .svg or .pdf."),
    ] = None,
    report: ReportFile = None,
    seed: Seed = 0,
    *,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Train models along a path of regularization strengths, and save the best."""
    settings = {"metric": metric, "scale": scale, "missing": missing, "random_state": seed}
    estimator = make_ranker(ranker, {**settings, **parse_settings(set_ or [])})
    options = {"n_steps": n_steps, "min_ratio": min_ratio}
    # The defaults depend on the ranker, so only what the user wrote is passed on.
    options = {name: value for name, value in options.items() if value is not None}
    options |= path_options(estimator, solvers, max_latency)
    check_output_paths(out=out, plot=plot, report=report)
    train, held_out = _read(estimator, data, valid, reading)
    with training_progress(f"path of {type(estimator).__name__}") as callbacks:
        steps = estimator.path(
            train, eval_set=held_out, callbacks=callbacks, max_nonzero=max_nonzero, **options
        )
    # The path stops before the first model that is too large, which may be the very first one.
    if len(steps) == 0:
        raise ParameterError(
            "every model has more non-zero weights",
            parameter="max_nonzero",
            fix="Allow more weights",
        )
    best = steps.best()
    result: dict[str, Any] = {
        "ranker": type(estimator).__name__,
        "metric": steps.metric,
        "measured": steps.measured,
        "n_features": train.n_features,
        "best": best,
        "steps": steps.records(),
    }
    save_plot(plot, "path", steps)
    if plot is not None:
        result["plot"] = plot
    save_report(report, steps)
    if out is not None:
        model = steps.to_model(best)
        model.save(out)
        result |= {"model": out, "digest": model.digest}
    if json:
        _console.print_json(result)
    else:
        if steps.measured:
            print_without_weights(int(steps.nonzeros[best]), steps.metric)
        print_tables([path_table(result)])
        if out is not None:
            print_values([("model", f"{out}  ({result['digest'][:12]})")])


def _read(
    estimator: Any, files: list[str], valid: str | None, reading: ReadingOptions
) -> tuple[Any, Any]:
    """Return the training data and held-out data (or None) of a path."""
    from rankine.metrics import metric_columns

    estimator.capabilities.require("path", "memory", type(estimator).__name__)
    # A stream whose number of features is known is read once and never held in memory. Without
    # this number it would have to be read twice.
    has_known_width = reading.raw or reading.n_features is not None
    stream = "stream" in estimator.capabilities.path and has_known_width
    columns = metric_columns([estimator.metric])
    rows = reading.open(files, stream=stream, columns=columns)
    parts = reading.parts_with(rows, {"valid": valid}, columns=columns)
    return parts["train"], parts.get("valid")


def path_options(estimator: Any, solvers: str | None, max_latency: str | None) -> dict[str, Any]:
    """Return the options of a path that this ranker has; raise an error for others."""
    from rankine.scoring.latency import parse_latency

    options: dict[str, Any] = {}
    if solvers is not None:
        options["solvers"] = split_list(solvers)
    if max_latency is not None:
        options["max_latency"] = parse_latency(max_latency)
    for name in options:
        if name not in estimator.capabilities.path_options:
            raise ParameterError(
                f"has no effect on the path of {type(estimator).__name__}",
                parameter=name,
                fix="Leave it out, or use --ranker elastic",
            )
    return options


def path_table(result: dict[str, Any]) -> Table:
    """Return the steps as a table; a star marks the best."""
    from rankine.evaluation.tables import Table

    first_step = result["steps"][0]
    is_one_pass = "solver" in first_step
    strength = "smooth" if "smooth" in first_step else "l1"
    quality = result["metric"] if result["measured"] else "loss"
    # One-pass paths vary the solver, those of additive models the number of pairs of columns.
    kind = "solver" if is_one_pass else {"smooth": "pairs"}.get(strength)
    last_header = "ms an item" if is_one_pass else "gap"
    rows = []
    for k, step in enumerate(result["steps"]):
        if is_one_pass:
            last_cell = f"{step['latency_ms']:.2g}"
        else:
            last_cell = "" if step["relative_gap"] is None else f"{step['relative_gap']:.1e}"
        rows.append(
            (
                "*" if k == result["best"] else "",
                *(() if kind is None else (str(step[kind]),)),
                f"{step[strength]:.4g}",
                f"{step['nonzeros']:,}",
                f"{step[quality]:.4f}",
                last_cell,
                f"{step['seconds']:.2f}",
            )
        )
    kinds = () if kind is None else (kind,)
    header = ("best", *kinds, strength, "weights", quality, last_header, "seconds")
    return Table("", header, rows, further_text=("solver",), optional=("seconds", last_header))
