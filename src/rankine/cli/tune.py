"""``rankine tune``: a tuned ranker from one command."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._data_options import Reading
from rankine.cli._groups import spread
from rankine.cli._output import require_folder
from rankine.cli._report import ReportFile, save_report
from rankine.cli.app import app

_EPILOG = """
[bold]Examples[/bold]

  rankine tune train.txt --valid vali.txt --ranker ranksvm --metric ndcg@10 --out model.rankine

  rankine tune log.parquet --split time:0.8,0.1,0.1 --time-column day --columns day \\
      --ranker elastic --max-weights 500 --trials 50 --study study.db --out model.rankine

  rankine tune train.txt --ranker spd --folds 5 --space lam=1e-6..1e-2 --space scale=none,standard

  The same command again goes on where a study stopped; two at once share the work.
"""

_SEARCH = "Search"


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
    folds: Annotated[
        int | None, typer.Option(help="Folds by query (default 5).", rich_help_panel=_SEARCH)
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="time:0.8,0.2 or time:0.8,0.1,0.1 (test).", rich_help_panel=_SEARCH),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option(help="Column of times; default: file order.", rich_help_panel=_SEARCH),
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="Narrow the search: name=low..high[:log] or name=a,b,c.", rich_help_panel=_SEARCH
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Fix a parameter: name=value.", rich_help_panel=_SEARCH),
    ] = None,
    max_weights: Annotated[
        int | None, typer.Option(help="Most non-zero weights.", rich_help_panel=_SEARCH)
    ] = None,
    max_latency: Annotated[
        str | None,
        typer.Option(help="Longest time to score an item, such as 9us.", rich_help_panel=_SEARCH),
    ] = None,
    acquisition: Annotated[
        str, typer.Option(help="thompson, or ei.", rich_help_panel=_SEARCH)
    ] = "thompson",
    pruner: Annotated[
        str,
        typer.Option(
            help="Who gives up trials that cannot win: gain, median, halving, or none.",
            rich_help_panel=_SEARCH,
        ),
    ] = "gain",
    workers: Annotated[
        int, typer.Option(help="Trials at the same time.", rich_help_panel=_SEARCH)
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    plot: Annotated[
        str | None, typer.Option(help="Draw the metric against the trial (png, svg, pdf).")
    ] = None,
    report: ReportFile = None,
    *,
    reading: Reading,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """Find the parameters that rank held-out queries best, and train with them."""
    from rankine.cli._tuning import read_space, show_result, tune_files

    require_folder("--report", report)
    options = reading.options()
    found = tune_files(
        data,
        valid,
        options,
        out=out,
        plot=plot,
        max_latency=max_latency,
        settings=set_ or [],
        ranker=ranker,
        metric=metric,
        trials=trials,
        study=study,
        folds=folds,
        split=split,
        time_column=time_column,
        space=read_space(space or []),
        seed=seed,
        acquisition=acquisition,
        max_weights=max_weights,
        workers=workers,
        pruner=pruner,
    )
    save_report(report, found)
    if json:
        _console.print_json({**found.to_dict(), "study": study, "model": out})
    else:
        show_result(found, out)
