"""``rankine watch``: whether a served day still looks like the training."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import print_tables
from rankine.cli._options import AsJson, Files, ModelFile, ModelReadingOptions
from rankine.cli.main import app

_EPILOG = """
[bold]Examples[/bold]

  rankine watch models/shop.rankine today.parquet

  rankine watch models/shop.rankine today.parquet --threshold 0.2 --max-unseen 0.1 --json

  rankine watch models/shop.rankine today.parquet || echo 'the log has changed'
"""

#: Exit code where something has changed more than it may.
CHANGED = 3


@app.command(epilog=_EPILOG)
def watch(
    model: ModelFile,
    log: Files,
    threshold: Annotated[
        float, typer.Option(help="Largest population stability index of a column or the scores.")
    ] = 0.25,
    max_unseen: Annotated[
        float, typer.Option(help="Largest share of values that the training never saw.")
    ] = 0.2,
    max_missing: Annotated[
        float, typer.Option(help="Largest rise of a column's share of missing values.")
    ] = 0.1,
    *,
    reading: ModelReadingOptions,
    json: AsJson = False,
) -> None:
    """Compare the columns and scores of a log with the training's; exit code 3 where they differ.

    Per column: the population stability index (PSI), the share of unseen categories, the largest
    shift at a decile of numbers, the share of missing values; and the PSI of the scores.
    """
    import rankine
    from rankine.evaluation.tables import Table
    from rankine.logs.encoding import monitor_log
    from rankine.transforms.drift import DRIFT_HEADER, Drift

    fitted = rankine.LinearModel.load(model)
    drift_monitor = monitor_log(fitted, reading.open(log, model=fitted, stream=True))
    found = Drift.from_monitor(drift_monitor, threshold, max_unseen, max_missing)
    if json:
        _console.print_json({"model": model, "digest": fitted.digest, **found.to_dict()})
    else:
        title = f"{found.rows:,} rows against the training"
        print_tables([Table(title, DRIFT_HEADER, found.cells())])
        for line in found.alarms:
            _console.print_status(line)
    if found.alarms:
        raise typer.Exit(CHANGED)
