"""``rankine letor``: run the LETOR protocol on benchmark data sets."""

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
from rankine.cli._groups import require_one_format
from rankine.cli._options import (
    AsJson,
    AsLatex,
    AsMarkdown,
    Missing,
    ReportFile,
    Seed,
    make_ranker,
    parse_settings,
)
from rankine.cli.main import app
from rankine.core.errors import ParameterError

#: Seconds between lines of progress if stderr is not a terminal.
EVERY = 20.0
_EPILOG = """
[bold]Examples[/bold]

  rankine letor OHSUMED --ranker ranksvm --ranker spd

  rankine letor OHSUMED --ranker all --latex

  rankine letor OHSUMED MQ2008 --ranker ranksvm --ranker spd:solver=romma \\
      --baselines published

  rankine letor MSLR-WEB10K --ranker least-squares --script mslr \\
      --metric ndcg@10 --latex
"""


@app.command(epilog=_EPILOG)
def letor(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER...",
            help="Folders of LETOR, MSLR, Yahoo or Istella data, as distributed.",
        ),
    ],
    ranker: Annotated[
        list[str],
        typer.Option(
            "--ranker",
            "-r",
            help="Run this ranker, repeatable: {rankers}, or all. Parameters follow a colon: "
            "spd:solver=romma,l2=1e-3.",
        ),
    ],
    metric: Annotated[
        str,
        typer.Option("--metric", "-m", help="Choose parameters by this metric on validation data."),
    ] = "map",
    script: Annotated[
        str | None,
        typer.Option(
            help="Evaluate as this script does: letor3, letor4 or mslr (default: letor4; mslr for "
            "labels above 2)."
        ),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|FOLDER=FILE",
            help="Add published figures from a TOML or CSV file, or those bundled with rankine "
            "('published'). FOLDER= names the folder they belong to. Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes (default: number of CPU cores).")
    ] = None,
    seed: Seed = 0,
    missing: Missing = "auto",
    per_query: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the values of every test query to a CSV file."),
    ] = None,
    report: ReportFile = None,
    json: AsJson = False,
    latex: AsLatex = False,
    markdown: AsMarkdown = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv", help="Print means as task,method,metric,value, which --baselines reads."
        ),
    ] = False,
) -> None:
    """Run the LETOR protocol: on every fold train, tune on validation data and test once."""
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
    baseline_tables = read_baseline_files(baselines or [])
    rankers, grids = parse_rankers(ranker)
    for each in rankers.values():
        # Rankers that take missing values have no rule to set.
        if missing != "auto" and not each.takes_missing:
            each.set_params(missing=missing)
    if workers is None:
        workers = os.cpu_count() or 1
    with progress_bar("fits", show_remaining=True) as update:
        result = run_letor(
            folders,
            rankers,
            metric=metric,
            script=script,
            grids=grids,
            random_state=seed,
            workers=workers,
            report=update or print_progress_lines(),
        )
    for folder, table in baseline_tables:
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
    """Parse texts such as ``spd:solver=romma,l2=1e-3`` to rankers and their search grids.

    ``all`` means every ranker with its defaults. The grids leave out the parameters that a
    text sets.
    """
    from rankine.rankers.registry import RANKERS

    rankers: dict[str, Any] = {}
    grids: dict[str, dict[str, list[Any]]] = {}
    names = [name for text in texts for name in (RANKERS if text == "all" else [text])]
    for text in names:
        if text in rankers:
            raise ParameterError(
                f"{text!r} is named twice", parameter="ranker", fix="Name each ranker once"
            )
        name, _, settings_text = text.partition(":")
        settings = parse_settings([part for part in settings_text.split(",") if part])
        ranker = make_ranker(name, settings)
        grid = getattr(ranker, "letor_grid", {})
        rankers[text] = ranker
        grids[text] = {key: list(values) for key, values in grid.items() if key not in settings}
    return rankers, grids


def read_baseline_files(texts: list[str]) -> list[tuple[str | None, Any]]:
    """Read ``FILE`` or ``FOLDER=FILE``; return pairs of the folder (or None) and the table."""
    from rankine.evaluation.letor_tables import read_baselines

    tables: list[tuple[str | None, Any]] = []
    for text in texts:
        folder, equals, file = text.rpartition("=")
        tables.append((folder if equals else None, read_baselines(file)))
    return tables


def print_progress_lines() -> Callable[[int, int, str], None]:
    """Return a progress function that prints a line every ``EVERY`` seconds."""
    started = time.monotonic()
    last_printed = started

    def update(done: int, total: int, text: str) -> None:
        nonlocal last_printed
        now = time.monotonic()
        if 0 < done < total and now - last_printed >= EVERY:
            last_printed = now
            remaining = (now - started) * (total - done) / done
            _console.print_status(f"{done} of {total} fits, about {remaining:.0f} s left ({text})")

    return update
