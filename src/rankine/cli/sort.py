"""``rankine sort``: group a file by query, whatever its size."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli import _console
from rankine.cli._options import AsJson, SortOptions
from rankine.cli.main import app

_HELP = """Group files by query, so that they can be streamed: text, Parquet or Arrow.

Files larger than memory are sorted in runs on disk. Rows of a query keep their order; queries
come in increasing order of their ids. Tables, raw logs too, keep names, types and all columns.
Compression follows the suffixes.

Examples:

  rankine sort clicks.txt clicks.sorted.txt.gz

  rankine sort 'day-*.txt.zst' month.txt.zst --qid-type str --memory 4096

  zcat log.gz | rankine sort - sorted.txt

  rankine sort monday.parquet tuesday.parquet log.parquet --query session_id
"""


@app.command(help=_HELP)
def sort(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT",
            help="Files, patterns or - for stdin; then a file, or -.",
        ),
    ],
    memory: Annotated[int, typer.Option(help="Memory to use, in MiB.", min=8)] = 768,
    *,
    reading: SortOptions,
    json: AsJson = False,
) -> None:
    """Sort."""
    from dataclasses import asdict

    from rankine.core.errors import ParameterError
    from rankine.data.sort import sort_file

    *source, target = files
    if not source:
        raise ParameterError("an output without an input", fix="Write: rankine sort IN... OUT")
    if json and target == "-":
        raise ParameterError("--json and the data both want stdout", fix="Name an output file")
    report = sort_file(source, target, **reading.options(max_memory=memory * 2**20))
    if json:
        _console.print_json(asdict(report))
        return
    skipped = f", {report.skipped:,} bad rows skipped" if report.skipped else ""
    runs = f" from {report.runs} runs" if report.runs > 1 else ""
    _console.print_status(f"{report.rows:,} rows of {report.queries:,} queries{runs}{skipped}")
