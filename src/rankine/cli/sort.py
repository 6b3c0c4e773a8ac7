"""``rankine sort``: group a text file by query, whatever its size."""

from __future__ import annotations

from typing import Annotated

import typer

from rankine.cli.app import app

_HELP = """Group a LETOR text file by query, so that it can be streamed.

Files larger than memory are sorted in runs on disk. Rows of a query keep their order; queries
come in increasing order of their ids. Compression follows the suffixes.

Examples:

  rankine sort clicks.txt clicks.sorted.txt.gz

  rankine sort 'day-*.txt.zst' month.txt.zst --qid-type str --memory 4096

  zcat log.gz | rankine sort - sorted.txt
"""


@app.command(help=_HELP)
def sort(
    source: Annotated[str, typer.Argument(metavar="IN", help="File, pattern, or - for stdin")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File, or - for stdout")],
    qid_type: Annotated[str, typer.Option(help="Query ids: int or str")] = "int",
    base: Annotated[int, typer.Option(help="First feature index of the file, 0 or 1")] = 1,
    memory: Annotated[int, typer.Option(help="Memory to use, in MiB", min=8)] = 768,
    on_bad_row: Annotated[
        str, typer.Option(help="error, or skip bad rows and count them")
    ] = "error",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Sort."""
    from dataclasses import asdict
    from json import dumps

    from rankine.data.sort import sort_file

    report = sort_file(
        source,
        target,
        qid_type=qid_type,
        base=base,
        max_memory=memory * 2**20,
        on_bad_row=on_bad_row,
        progress=True,
    )
    if json:
        typer.echo(dumps(asdict(report)), err=target == "-")
        return
    skipped = f", {report.skipped:,} bad rows skipped" if report.skipped else ""
    text = f"{report.rows:,} rows of {report.queries:,} queries in {report.runs} runs{skipped}"
    typer.echo(text, err=True)
