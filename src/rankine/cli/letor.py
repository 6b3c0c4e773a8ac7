"""``rankine letor``: the whole LETOR protocol."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._console import (
    check_output_paths,
    open_text_output,
    print_tables,
    progress_bar,
    save_report,
)
from rankine.cli._options import (
    AsJson,
    AsLatex,
    AsMarkdown,
    Missing,
    ReportFile,
    Seed,
    make_ranker,
    parse_settings,
    require_one_format,
)
from rankine.cli.main import app
from rankine.core.errors import ParameterError

#: Seconds between lines of progress in a log.
EVERY = 20.0
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
            help="Folders of LETOR, MSLR, Yahoo or Istella, as they are distributed.",
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
        list[str] | None,
        typer.Option(
            metavar="FILE|FOLDER=FILE",
            help="Table of published figures (TOML or CSV), 'published' for rankine's own; "
            "FOLDER= says which folder they belong to. Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that fit at the same time; default: all cores.")
    ] = None,
    seed: Seed = 0,
    missing: Missing = "auto",
    per_query: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the values of every test query as CSV."),
    ] = None,
    report: ReportFile = None,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Means as task,method,metric,value, as --baselines reads.")
    ] = False,
) -> None:
    """Train, tune on validation, test once, on every fold; print the tables papers print."""
    from rankine.evaluation.letor import run_letor
    from rankine.evaluation.letor_tables import (
        add_baselines,
        letor_csv,
        letor_dict,
        letor_notes,
        letor_tables,
        per_query_csv,
    )

    require_one_format(json=json, latex=latex, markdown=markdown, csv=csv)
    check_output_paths(report=report, per_query=per_query)
    figures = parse_baselines(baselines or [])
    rankers, grids = parse_rankers(ranker)
    for one in rankers.values():
        if missing != "auto" and not one.takes_missing:
            one.set_params(missing=missing)
    with progress_bar("fits", remaining=True) as tell:
        result = run_letor(
            folders,
            rankers,
            metric=metric,
            script=script,
            grids=grids,
            random_state=seed,
            workers=workers if workers is not None else os.cpu_count() or 1,
            report=tell or line_by_line(),
        )
    for folder, table in figures:
        result = add_baselines(result, table, folder)
    if per_query is not None:
        with open_text_output(per_query) as write:
            for line in per_query_csv(result):
                write(line)
    save_report(report, result)
    if json:
        _console.print_json(letor_dict(result))
        return
    if csv:
        sys.stdout.writelines(letor_csv(result))
    else:
        print_tables(letor_tables(result), latex=latex, markdown=markdown)
    for note in letor_notes(result):
        _console.print_status(note)


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


def parse_baselines(texts: list[str]) -> list[tuple[str | None, Any]]:
    """``FILE`` or ``FOLDER=FILE`` as (folder or None, figures), read before anything is fitted."""
    from rankine.evaluation.letor_tables import read_baselines

    found: list[tuple[str | None, Any]] = []
    for text in texts:
        folder, equals, file = text.rpartition("=")
        found.append((folder if equals else None, read_baselines(file)))
    return found


def line_by_line() -> Callable[[int, int, str], None]:
    """Progress where there is no terminal: a line now and then, with the time that is left."""
    started = last = time.monotonic()

    def tell(done: int, total: int, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if 0 < done < total and now - last >= EVERY:
            last = now
            left = (now - started) * (total - done) / done
            _console.print_status(f"{done} of {total} fits, about {left:.0f} s left ({text})")

    return tell
