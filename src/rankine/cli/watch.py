"""``rankine watch``: compare the data of a day with the training data of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import print_tables
from rankine.cli._options import AsJson, Files, ModelFile
from rankine.cli._reading import ModelReadingOptions
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine watch models/shop.rankine today.parquet

  rankine watch models/shop.rankine today.parquet --threshold 0.2 \\
      --max-unseen 0.1 --json

  rankine watch models/shop.rankine today.parquet || echo \\
      'the log has changed'
"""

#: Exit code if a column or the scores have changed more than allowed.
CHANGED = 3


@app.command(epilog=_EPILOG)
def watch(
    model: ModelFile,
    log: Files,
    threshold: Annotated[
        float,
        typer.Option(
            help="Largest allowed population stability index (PSI) of a column or of the scores."
        ),
    ] = 0.25,
    max_unseen: Annotated[
        float,
        typer.Option(
            help="Largest allowed share of values that the training data did not contain."
        ),
    ] = 0.2,
    max_missing: Annotated[
        float,
        typer.Option(help="Largest allowed increase of the share of missing values of a column."),
    ] = 0.1,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
) -> None:
    """Detect drift: compare a log with the training data; exit with code 3 if they differ.

    The table lists for each column the population stability index (PSI), the share of unseen
    categories, the largest shift of a decile of numbers and the share of missing values. The last
    row is the PSI of the scores.
    """
    import rankine
    from rankine.evaluation.tables import Table
    from rankine.logs.encoding import monitor_log
    from rankine.transforms.drift import DRIFT_HEADER, Drift

    linear_model = rankine.LinearModel.load(model)
    monitor = monitor_log(linear_model, reading.open(log, model=linear_model, stream=True))
    drift = Drift.from_monitor(monitor, threshold, max_unseen, max_missing)
    if json:
        _console.print_json({"model": model, "digest": linear_model.digest, **drift.to_dict()})
    else:
        title = f"{drift.rows:,} rows compared with the training data"
        optional = ("shift", "in training")
        print_tables([Table(title, DRIFT_HEADER, drift.cells(), optional=optional)])
        for alarm in drift.alarms:
            _console.print_status(alarm)
    if drift.alarms:
        raise typer.Exit(CHANGED)
