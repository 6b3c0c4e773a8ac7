"""``rankine sort``: group a file of any size by query."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._console import check_output_paths, check_stdout_unused
from rankine.cli._options import AsJson
from rankine.cli._reading import SortOptions, report_excluded
from rankine.cli.main import app
from rankine.core.errors import ParameterError

_EPILOG = """
[bold]Examples[/bold]

  rankine sort clicks.txt clicks.sorted.txt.gz

  rankine sort 'day-*.txt.zst' month.txt.zst --qid-type str --memory 4096

  zcat log.gz | rankine sort - sorted.txt

  rankine sort monday.parquet tuesday.parquet log.parquet --query session_id

  rankine sort log.parquet sorted.parquet --query session_id --by-time ts
"""


@app.command(epilog=_EPILOG)
def sort(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT",
            help="Input files, patterns or - for stdin; then the output file, or - for stdout.",
        ),
    ],
    by_time: Annotated[
        str | None,
        typer.Option(
            help="Sort lists by the time of their earliest row, in this column, instead of by id.",
            metavar="COLUMN",
        ),
    ] = None,
    memory: Annotated[int, typer.Option(help="Memory to use, in MiB.", min=8)] = 768,
    *,
    reading: SortOptions,
    json: AsJson = False,
) -> None:
    """Group the rows of files by query, as streaming needs: text, Parquet or Arrow.

    Queries are sorted by their ids, or with --by-time by time, as history features need it. The
    rows of a query keep their order. Files larger than memory are sorted on disk. Parquet and Arrow
    files keep all columns, their names and types. The suffix of the output file selects its
    compression.
    """
    from dataclasses import asdict

    from rankine.data.sort import sort_file

    *sources, target = files
    if not sources:
        raise ParameterError("the input is missing", fix="Write: rankine sort IN... OUT")
    check_stdout_unused(target, json=json)
    check_output_paths(files=target)
    report = sort_file(
        sources, target, by_time=by_time, **reading.options(max_memory=memory * 2**20)
    )
    if json:
        _console.print_json(asdict(report))
        return
    text = f"{report.rows:,} rows of {report.queries:,} queries"
    if report.runs > 1:
        text += f", merged from {report.runs} sorted parts on disk"
    if report.skipped:
        text += f", {report.skipped:,} bad rows skipped"
    _console.print_status(text)
    report_excluded(vars(report))
