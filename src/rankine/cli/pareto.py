"""``rankine pareto``: train models that trade several goals, and choose one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import (
    check_output_paths,
    print_tables,
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
    make_ranker,
    parse_settings,
)
from rankine.cli._reading import ReadingOptions
from rankine.cli.main import app
from rankine.core.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPILOG = """
[bold]Examples[/bold]

  rankine pareto log.parquet --goal clicked --goal 'purchased*margin' --out models/

  rankine pareto log.parquet --goal clicked --goal 'purchased*margin' \\
      --maximise 'purchased*margin' --floor clicked=0.98 --report front.html

  rankine pareto train.parquet --valid valid.parquet --test test.parquet \\
      --goal clicked --goal margin --ranker additive --set smooth=1 --json
"""


@app.command(epilog=_EPILOG)
def pareto(
    data: Files,
    goal: Annotated[
        list[str],
        typer.Option(
            "--goal",
            help="Column or formula to maximise, two or three times: clicked, 'purchased*margin'; "
            "label is the label of the data.",
        ),
    ],
    ranker: Annotated[
        str,
        typer.Option(help="Train this ranker: ranksvm, least-squares, additive or elastic."),
    ] = "ranksvm",
    set_: Settings = None,
    valid: Annotated[
        str | None,
        typer.Option(help="Choose on this held-out file (default: a part of the lists)."),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(help="Report the choice on this file (default: a part of the lists)."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="Metric of all goals, or of each in their order: {metrics} "
            "(default: ndcg@10, and dcg@10:gain=GOAL for money).",
        ),
    ] = None,
    points: Annotated[int, typer.Option(help="Largest number of models.")] = 21,
    maximise: Annotated[
        str | None, typer.Option(help="Choose the model that maximises this goal.")
    ] = None,
    floor: Annotated[
        list[str] | None,
        typer.Option(
            "--floor",
            help="Share of its best value that another goal keeps, clicked=0.98; repeatable.",
        ),
    ] = None,
    scale: Scale = "auto",
    missing: Missing = "auto",
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Save one model per point to this folder."),
    ] = None,
    report: ReportFile = None,
    seed: Seed = 0,
    *,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Train models that trade several goals, and choose one of them."""
    import rankine

    settings = {"scale": scale, "missing": missing, "random_state": seed}
    estimator = make_ranker(ranker, {**settings, **parse_settings(set_ or [])})
    floors = parse_floors(floor or [])
    check_output_paths(report=report)
    parts = _read(data, valid, test, goal, metric, reading)
    with training_progress(f"front of {type(estimator).__name__}") as callbacks:
        front = rankine.pareto(
            estimator,
            parts["train"],
            goal,
            valid=parts.get("valid"),
            test=parts.get("test"),
            metrics=metric,
            n_points=points,
            maximise=maximise,
            floors=floors,
            random_state=seed,
            callbacks=callbacks,
        )
    result = front.to_dict() if out is None else front.save(out)
    save_report(report, front)
    if json:
        _console.print_json({**result, "out": out})
        return
    print_tables(front.tables())
    for trade in front.trades:
        _console.print_result(str(trade))
    if not front.exact:
        _console.print_status(f"{front.ranker} learns in one pass: its points have no certificate")
    if out is not None:
        _console.print_status(f"wrote {len(front)} models and front.json to {out}")


def parse_floors(texts: Sequence[str]) -> dict[str, float]:
    """Parse ``["clicked=0.98"]`` to a mapping from goals to shares."""
    floors = {}
    for text in texts:
        # A formula may contain == or >=, so the last sign separates the number.
        goal, equals, share = text.rpartition("=")
        try:
            floors[goal.strip()] = float(share)
        except ValueError:
            equals = ""
        if not equals or not goal.strip():
            raise ParameterError(
                f"{text!r} is not goal=share", parameter="floor", fix="Write --floor clicked=0.98"
            )
    return floors


def _read(
    files: list[str],
    valid: str | None,
    test: str | None,
    goals: list[str],
    metrics: list[str] | None,
    reading: ReadingOptions,
) -> dict[str, Any]:
    """Read the data and held-out data with the columns of goals and metrics."""
    from rankine.data.expressions import parse_expression
    from rankine.metrics import metric_columns

    formulas = [parse_expression(goal) for goal in goals if goal != "label"]
    named = [name for formula in formulas for name in formula.columns]
    columns = tuple(dict.fromkeys([*named, *metric_columns(metrics or [])]))
    try:
        rows = reading.open(files, columns=columns)
    except SchemaError as error:
        # A file of features needs no label of its own where goals are its labels.
        if error.parameter != "label" or reading.label is not None or "label" in goals:
            raise
        reading = replace(reading, label=named[0])
        rows = reading.open(files, columns=columns)
    return reading.parts_with(rows, {"valid": valid, "test": test}, columns=columns)
