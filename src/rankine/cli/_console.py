"""Where words go: results to stdout or a file, remarks and progress to stderr."""

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

_STATE = {"verbosity": 0}


def set_verbosity(level: int) -> None:
    """-1 quiet, 0 normal, 1 verbose."""
    _STATE["verbosity"] = level


def verbosity() -> int:
    """The chosen level."""
    return _STATE["verbosity"]


def console(*, stderr: bool = False) -> Console:
    """A rich console on stdout or stderr; markup is off, so that names stay what they are."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False)


def print_status(message: str) -> None:
    """A remark on stderr, unless quiet."""
    if verbosity() >= 0:
        sys.stderr.write(f"{printable(message, len(message))}\n")


def print_error(message: str) -> None:
    """One line on stderr, always."""
    sys.stderr.write(f"rankine: error: {printable(message, len(message))}\n")


def print_result(renderable: Any) -> None:
    """A table or text on stdout."""
    # Plain text is left as it is: a command that wraps cannot be copied.
    console().print(renderable, soft_wrap=isinstance(renderable, str))


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


@contextmanager
def open_text_output(path: str) -> Iterator[Callable[[str], object]]:
    """A function that writes text; a file appears under its name only when all went well."""
    if path == "-":
        yield sys.stdout.write
        sys.stdout.flush()
        return
    from rankine.core.atomic import atomic_file

    with atomic_file(path) as file:
        yield lambda text: file.write(text.encode())


def check_output_paths(**files: str | None) -> None:
    """Refuse files that could not be written, before long work; ``plot`` must be a picture."""
    for name, path in files.items():
        if path is None:
            continue
        option = f"--{name.replace('_', '-')} {path}"
        folder = Path(path).absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ParameterError(
                f"{option}: there is no folder {folder} that can be written to",
                fix="Make the folder, or name another file",
            )
        if Path(path).is_dir():
            raise ParameterError(f"{option} is a folder", fix="Name a file")
        if name == "plot":
            from rankine.plot import check_plot_file

            check_plot_file(path)


@contextmanager
def progress_bar(
    title: str, *, remaining: bool = False
) -> Iterator[Callable[[int, int | None, str], None] | None]:
    """A function of done, total and a text that moves a bar on stderr; None without a terminal."""
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

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[shown]}", markup=False),
        TimeRemainingColumn() if remaining else TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
    )
    task = bar.add_task(title, total=None, shown="")

    def move(done: int, total: int | None, text: str) -> None:
        counted = f"{done:,}" + (f"/{total:,}" if total else "")
        bar.update(task, completed=done, total=total, shown=f"{counted}  {text}")

    def tell(words: str) -> Callable[[], None]:
        return lambda: bar.update(task, description=words)

    CLOCK.begin, CLOCK.end = tell(f"{title} (compiling, once)"), tell(title)
    try:
        with bar:
            yield move
    finally:
        CLOCK.begin = CLOCK.end = None


@contextmanager
def training_progress(title: str) -> Iterator[list[Any]]:
    """Callbacks of a fit that draw a bar; none without a terminal."""
    with progress_bar(title) as move:

        def update(progress: Any) -> None:
            assert move is not None  # noqa: S101 - narrows the type
            numbers = (f"{name} {value:.4g}" for name, value in progress.values.items())
            move(progress.step, progress.total, "  ".join(numbers))

        yield [] if move is None else [update]


def command_line() -> str:
    """The command that is running, to be copied."""
    return shlex.join(["rankine", *sys.argv[1:]])


def save_report(file: str | None, subject: Any, **options: Any) -> None:
    """Write the report of a finished result, if a file is named, and say so."""
    if file is None:
        return
    from rankine.reporting.run import report

    report(subject, command=command_line(), **options).save(file)
    print_status(f"wrote {file}")


def print_tables(tables: Sequence[Table], *, latex: bool = False, markdown: bool = False) -> None:
    """Print tables in the chosen form; a wide table is never cut."""
    if latex or markdown:
        texts = [table.latex() if latex else table.markdown() for table in tables]
        sys.stdout.write("\n".join(texts))
        return
    from rich.console import Console

    usual, wide = console(), Console(width=10_000)
    width = usual.width
    for table in tables:
        # rich squeezes what does not fit; a cut figure is worse than a long line
        usual.width = max(width, wide.measure(table).maximum)
        usual.print(table)
        usual.print()
