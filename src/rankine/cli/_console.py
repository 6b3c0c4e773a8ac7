"""Output of commands: results go to stdout or a file, status and progress to stderr."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankine.core.errors import ParameterError
from rankine.core.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from rankine.evaluation.tables import Table

#: Width of a console on which no table is cut.
_UNLIMITED_WIDTH = 10_000
_STATE = {"verbosity": 0}


def set_verbosity(level: int) -> None:
    """Set how much is printed: -1 is quiet, 0 normal, 1 verbose."""
    _STATE["verbosity"] = level


def verbosity() -> int:
    """Return the level set by ``set_verbosity``."""
    return _STATE["verbosity"]


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that prints text unchanged."""
    from rich.console import Console

    # Names of features and files may contain brackets, which rich would read as markup.
    return Console(stderr=stderr, markup=False, highlight=False)


def print_status(message: str) -> None:
    """Print a line on stderr, unless the command is quiet."""
    if verbosity() >= 0:
        sys.stderr.write(f"{printable(message, len(message))}\n")


def print_error(message: str) -> None:
    """Print an error as one line on stderr."""
    sys.stderr.write(f"rankine: error: {printable(message, len(message))}\n")


def print_result(renderable: Any) -> None:
    """Print a table or text on stdout."""
    # Text is not wrapped, so that a printed command can be copied from the terminal.
    console().print(renderable, soft_wrap=isinstance(renderable, str))


def print_json(value: Any) -> None:
    """Print one JSON object on one line of stdout."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


@contextmanager
def open_text_output(path: str) -> Iterator[Callable[[str], object]]:
    """Yield a function that writes text to a file, or to stdout for ``-``.

    The file appears under its name only if no error occurs.
    """
    if path == "-":
        yield sys.stdout.write
        sys.stdout.flush()
        return
    from rankine.core.atomic import atomic_file

    with atomic_file(path) as file:
        yield lambda text: file.write(text.encode())


def check_output_paths(**files: str | None) -> None:
    """Raise an error for output files that cannot be written, before any long computation.

    Keywords are names of options. The file of ``plot`` must have the suffix of an image format.
    """
    for option, path in files.items():
        if path is None:
            continue
        folder = Path(path).absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ParameterError(
                f"{folder} is not a folder that can be written to",
                parameter=option,
                fix="Create the folder, or name another file",
            )
        if Path(path).is_dir():
            raise ParameterError(f"{path} is a folder", parameter=option, fix="Name a file")
        if option == "plot":
            from rankine.plot import check_plot_file

            check_plot_file(path)


def check_stdout_unused(out: str, *, json: bool) -> None:
    """Raise an error if JSON and the output file would both be written to stdout."""
    if json and out == "-":
        raise ParameterError(
            "cannot be combined with the output file -, which is stdout as well",
            parameter="json",
            fix="Name an output file",
        )


@contextmanager
def progress_bar(
    title: str, *, show_remaining: bool = False
) -> Iterator[Callable[[int, int | None, str], None] | None]:
    """Draw a bar on stderr and yield a function (done, total, text) that updates it.

    Yield None if the command is quiet or stderr is not a terminal. While kernels are compiled, the
    title shows it.
    """
    if not sys.stderr.isatty() or verbosity() < 0:
        yield None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from rankine.kernels.compile import CLOCK

    time_column = TimeRemainingColumn() if show_remaining else TimeElapsedColumn()
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[status]}", markup=False),
        time_column,
        console=console(stderr=True),
        transient=True,
    )
    # The total is unknown until the first update: the bar only pulses.
    task = bar.add_task(title, total=None, status="")

    def update(done: int, total: int | None, text: str) -> None:
        count = f"{done:,}/{total:,}" if total else f"{done:,}"
        bar.update(task, completed=done, total=total, status=f"{count}  {text}")

    compiling = f"{title} (compiling kernels, only in the first run)"
    CLOCK.begin = lambda: bar.update(task, description=compiling)
    CLOCK.end = lambda: bar.update(task, description=title)
    try:
        with bar:
            yield update
    finally:
        # The clock is global: later commands of this process must not draw on a closed bar.
        CLOCK.begin = CLOCK.end = None


@contextmanager
def training_progress(title: str) -> Iterator[list[Any]]:
    """Draw a bar and yield the callbacks for ``fit`` that update it.

    The list is empty if there is no terminal.
    """
    with progress_bar(title) as update:
        if update is None:
            yield []
            return

        def on_progress(progress: Any) -> None:
            values = (f"{name} {value:.4g}" for name, value in progress.values.items())
            update(progress.step, progress.total, "  ".join(values))

        yield [on_progress]


def command_line() -> str:
    """Return the running command, quoted for a shell."""
    return shlex.join(["rankine", *sys.argv[1:]])


def save_report(file: str | None, subject: Any, **options: Any) -> None:
    """Write the HTML report of a result to ``file``, if one is given."""
    if file is None:
        return
    from rankine.reporting.run import report

    report(subject, command=command_line(), **options).save(file)
    print_status(f"wrote {file}")


def save_plot(file: str | None, function: str, result: Any) -> None:
    """Draw a result with the named function of ``rankine.plot``, if a file is given."""
    if file is None:
        return
    from rankine import plot

    plot.save_axes(getattr(plot, function)(result), file)


def summary_table(rows: Sequence[tuple[str, str]]) -> Any:
    """Return a table of names and values without header or border."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table


def print_tables(tables: Sequence[Table], *, latex: bool = False, markdown: bool = False) -> None:
    """Print tables as text, LaTeX or Markdown; wide tables are not cut."""
    if latex:
        sys.stdout.write("\n".join(table.latex() for table in tables))
        return
    if markdown:
        sys.stdout.write("\n".join(table.markdown() for table in tables))
        return
    for table in tables:
        print_uncut(table)
        print_result("")


def print_uncut(table: Any) -> None:
    """Print a table in full width, even if the terminal is narrower."""
    from rich.console import Console

    screen = console()
    # rich shortens cells that do not fit. A line that wraps is better than a figure cut short.
    full_width = Console(width=_UNLIMITED_WIDTH).measure(table).maximum
    screen.width = max(screen.width, full_width)
    screen.print(table)
