"""``rankine letor``: the whole LETOR protocol."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import progress_bar, require_folder, save_report, show_tables
from rankine.cli._options import (
    AsJson,
    AsLatex,
    AsMarkdown,
    ReportFile,
    Seed,
    make_ranker,
    parse_settings,
)
from rankine.cli.main import app
from rankine.core.errors import ParameterError

_EPILOG = """
[bold]Examples[/bold]

  rankine letor OHSUMED --ranker ranksvm --ranker spd

  rankine letor OHSUMED MQ2008 --ranker ranksvm --ranker spd:solver=romma --baselines published

  rankine letor MSLR-WEB10K --ranker least-squares --script mslr --metric ndcg@10 --latex
"""


@app.command(epilog=_EPILOG)
def letor(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER...",
            help="Folders with Fold1..5/{train,vali,test}.txt, or S1..S5.txt and FOLDS.txt.",
        ),
    ],
    ranker: Annotated[
        list[str],
        typer.Option(
            "--ranker",
            "-r",
            help="Ranker, repeatable; parameters after a colon: spd:solver=romma,l2=1e-3.",
        ),
    ],
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="Chosen on validation data.")
    ] = "map",
    script: Annotated[
        str | None,
        typer.Option(help="letor3, letor4 or mslr; default letor4, mslr for labels above 2."),
    ] = None,
    baselines: Annotated[
        str | None,
        typer.Option(help="Table of published figures (TOML or CSV); 'published': rankine's own."),
    ] = None,
    seed: Seed = 0,
    missing: Annotated[str, typer.Option(help="error, or zero: NULL becomes 0.")] = "error",
    report: ReportFile = None,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
) -> None:
    """Train, tune on validation, test once, on every fold; print the tables papers print."""
    from rankine.evaluation.baselines import add_baselines, read_baselines
    from rankine.evaluation.letor import run_letor
    from rankine.evaluation.letor_report import letor_dict, letor_notes, letor_tables

    require_folder("--report", report)
    figures = None if baselines is None else read_baselines(baselines)
    rankers, grids = parse_rankers(ranker)
    with progress_bar("fits", remaining=True) as tell:
        result = run_letor(
            folders,
            rankers,
            metric=metric,
            script=script,
            grids=grids,
            random_state=seed,
            report=tell,
            missing=missing,
        )
    if figures is not None:
        result = add_baselines(result, figures)
    save_report(report, result)
    if json:
        _console.print_json(letor_dict(result))
        return
    show_tables(letor_tables(result), latex=latex, markdown=markdown)
    for note in letor_notes(result):
        _console.say(note)


def parse_rankers(texts: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, list[Any]]]]:
    """``spd:solver=romma,l2=1e-3`` as rankers and grids; what is set is not searched."""
    rankers: dict[str, Any] = {}
    grids: dict[str, dict[str, list[Any]]] = {}
    for text in texts:
        if text in rankers:
            raise ParameterError(f"ranker {text!r} is named twice", fix="Name each once")
        name, _, rest = text.partition(":")
        given = parse_settings([part for part in rest.split(",") if part])
        ranker = make_ranker(name, given)
        grid = getattr(ranker, "letor_grid", {})
        rankers[text] = ranker
        grids[text] = {key: list(values) for key, values in grid.items() if key not in given}
    return rankers, grids
