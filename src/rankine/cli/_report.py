"""Reports of other commands: the option, the page, and the word about where it is."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

from rankine.cli import _console

__all__ = ["ReportFile", "command_line", "save_report"]

ReportFile = Annotated[
    str | None, typer.Option("--report", help="Also write an HTML page about the result.")
]


def command_line() -> str:
    """The command that is running, to be copied."""
    return shlex.join(["rankine", *sys.argv[1:]])


def save_report(file: str | None, subject: Any, **options: Any) -> None:
    """Write the report of a finished result, if a file is named, and say so."""
    if file is None:
        return
    from rankine.report.run import report

    report(subject, command=command_line(), **options).save(file)
    _console.say(f"wrote {file}")
