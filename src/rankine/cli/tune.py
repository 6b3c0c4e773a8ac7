"""``rankine tune``: a tuned ranker from one command."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._data_options import Reading
from rankine.cli._groups import spread
from rankine.cli._output import require_folder
from rankine.cli._report import ReportFile, save_report
from rankine.cli._tune_options import Search
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine tune train.txt --valid vali.txt --ranker ranksvm --metric ndcg@10 --out model.rankine

  rankine tune log.parquet --split time:0.8,0.1,0.1 --time-column day --columns day \\
      --ranker elastic --max-nonzero 500 --trials 50 --study study.db --out model.rankine

  rankine tune train.txt --ranker spd --folds 5 --space l2=1e-6..1e-2 --space scale=none,standard

  The same command again goes on where a study stopped; two at once share the work.
"""


@app.command(epilog=_EPILOG)
@spread
def tune(
    data: Annotated[list[str], typer.Argument(help="Training files or patterns.")],
    ranker: Annotated[
        str, typer.Option(help="spd, ranksvm, least-squares, domination, elastic, or auto.")
    ] = "spd",
    valid: Annotated[str | None, typer.Option(help="Validation data; else folds.")] = None,
    metric: Annotated[str, typer.Option("--metric", "-m", help="What is optimised.")] = "ndcg@10",
    trials: Annotated[int, typer.Option(help="Trials of the study, in all.")] = 30,
    study: Annotated[
        str | None, typer.Option(help="SQLite file of the study; default: in memory.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Where to write the model.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    plot: Annotated[
        str | None, typer.Option(help="Draw the metric against the trial (png, svg, pdf).")
    ] = None,
    report: ReportFile = None,
    *,
    search: Search,
    reading: Reading,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Find the parameters that rank held-out queries best, and train with them."""
    from rankine.cli._tuning import show_result, tune_files

    require_folder("--report", report)
    found = tune_files(
        data,
        valid,
        reading.options(),
        out=out,
        plot=plot,
        study=study,
        ranker=ranker,
        metric=metric,
        trials=trials,
        random_state=seed,
        **search.options(),
    )
    save_report(report, found)
    if json:
        _console.print_json({**found.to_dict(), "study": study, "model": out})
    else:
        show_result(found, out)
