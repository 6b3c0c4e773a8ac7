"""``rankine calibrate``: let a model compute the probability of an outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, print_tables
from rankine.cli._options import AsJson, Files, ModelFile
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine calibrate model.rankine newest.parquet --outcome clicked \\
      --position position

  rankine calibrate model.rankine log.parquet --outcome purchased \\
      --split time:9/10,1/10 --out calibrated.rankine
"""


@app.command(epilog=_EPILOG)
def calibrate(
    model: ModelFile,
    log: Files,
    outcome: Annotated[str, typer.Option(help="Column of 0 and 1, or a formula, such as clicked.")],
    position: Annotated[
        str | None,
        typer.Option(
            help="Column of displayed positions, from 1 (default: the probability does not depend "
            "on the position)."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Write the model to this file (default: replace MODEL)."),
    ] = None,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
) -> None:
    """Fit the probability of an outcome to the scores of a model, and store it in the model.

    Use lists that the model was not trained on. Scores and rankings do not change. predict
    --probability and the server then give probabilities.
    """
    import rankine
    from rankine.core.errors import SchemaError
    from rankine.data.expressions import parse_expression
    from rankine.evaluation.calibration import OutcomeRows, check_held_out
    from rankine.metrics.probability import brier_score, calibration_error, log_loss

    check_output_paths(out=out)
    linear_model = rankine.LinearModel.load(model)
    columns = parse_expression(outcome).columns
    if position is not None:
        columns = (*columns, position)
    try:
        data = reading.open(log, model=linear_model, columns=columns)
    except SchemaError as error:
        if error.parameter == "columns":  # the option that the user wrote is another one
            error.parameter = "position" if error.column == position else "outcome"
        raise
    check_held_out(linear_model, data)
    rows = OutcomeRows.read(linear_model, data, outcome, position)
    calibrated = replace(linear_model, calibration=rows.fit())
    outcomes, probabilities = rows.held_out_probabilities()
    calibrated.save(out or model)
    calibration = calibrated.calibration
    assert calibration is not None  # noqa: S101 - narrows the type
    results: dict[str, Any] = {
        "model": out or model,
        "digest": calibrated.digest,
        "outcome": outcome,
        "lists": calibration.n_lists,
        "rows": calibration.n_rows,
        "outcomes": calibration.n_outcomes,
        "examination": list(calibration.examination),
        "held_out": {
            "ece": calibration_error(outcomes, probabilities),
            "log-loss": log_loss(outcomes, probabilities),
            "brier": brier_score(outcomes, probabilities),
        },
    }
    if json:
        _console.print_json(results)
    else:
        _print(results)


def _print(results: dict[str, Any]) -> None:
    from rankine.evaluation.tables import Table

    rows = [
        ("lists", f"{results['lists']:,}"),
        ("rows", f"{results['rows']:,}"),
        ("outcomes", f"{results['outcomes']:,}"),
        *((name, f"{value:.4f}") for name, value in results["held_out"].items()),
    ]
    print_tables([Table("", (results["outcome"], "value"), rows)])
    _console.print_status("ece, log-loss and brier: fitted on half of the lists, on the other half")
    if results["examination"]:
        text = ", ".join(f"{value:.3f}" for value in results["examination"][:10])
        _console.print_status(f"examination probability by position: {text}")
    _console.print_status(f"wrote {results['model']}, digest {results['digest'][:12]}")
