"""Output of commands: results go to stdout or a file, status and progress to stderr."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankine.core.atomic import is_written_directly
from rankine.core.errors import ParameterError
from rankine.core.safe_text import mask_secrets, printable
from rankine.core.stores import check_writable, is_url
from rankine.core.text_table import wrap_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rankine.evaluation.tables import Table

#: Narrowest terminal that tables are laid out for.
_MIN_WIDTH = 20
#: Characters of a progress bar with its time and the space around them.
_BAR_WIDTH = 36
#: Start of the next line of a command.
_CONTINUED = "     "
_STATE = {"verbosity": 0}
#: What Ctrl-C leaves behind, unless a command says otherwise.
NOTHING_KEPT = "no output file was written"
_INTERRUPTION = {"text": NOTHING_KEPT}


def set_verbosity(level: int) -> None:
    """Set how much is printed: -1 is quiet, 0 normal, 1 verbose."""
    _STATE["verbosity"] = level


def verbosity() -> int:
    """Return the level set by ``set_verbosity``."""
    return _STATE["verbosity"]


def set_interruption(text: str) -> None:
    """Set what is printed after Ctrl-C: what was kept, and how to go on."""
    _INTERRUPTION["text"] = text


def print_interruption() -> None:
    """Print on stderr that the command was interrupted, and what was kept."""
    _print_sentence(f"rankine: interrupted: {_INTERRUPTION['text']}")


def terminal_width(*, stderr: bool = False) -> int | None:
    """Return the width of the terminal that stdout (or stderr) writes to, None for a file."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _MIN_WIDTH)


def _shows_bold_type() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") not in (None, "dumb")


def print_status(message: str) -> None:
    """Print a sentence on stderr, unless the command is quiet."""
    if verbosity() >= 0:
        _print_sentence(message)


def print_error(message: str) -> None:
    """Print an error on stderr: one line, which a terminal shows wrapped at spaces."""
    _print_sentence(f"rankine: error: {message}")


def format_warning(message: Any, *_: Any) -> str:
    """Return a warning as one line, without the place in Python that led to it."""
    return _wrapped_sentence(f"rankine: warning: {message}")


def _print_sentence(text: str) -> None:
    sys.stderr.write(_wrapped_sentence(text))


def _wrapped_sentence(text: str) -> str:
    """Return printable lines for stderr, which a terminal shows wrapped at spaces."""
    text = mask_secrets(text)
    safe_text = printable(text, len(text))
    return "".join(f"{line}\n" for line in wrap_text(safe_text, terminal_width(stderr=True)))


def print_result(text: str) -> None:
    """Print text on stdout, wrapped at spaces on a terminal."""
    for line in wrap_text(mask_secrets(text), terminal_width()):
        sys.stdout.write(f"{line}\n")


def print_without_weights(n_nonzero: int, metric: str) -> None:
    """Warn if the best model has no weights; it orders lists at random."""
    if n_nonzero == 0:
        print_result(
            f"The best model has no weights: by {metric} on held-out lists, every model with "
            "weights is worse than a random order. Check the labels, or search other settings."
        )


def print_next_commands(commands: Sequence[Sequence[str]]) -> None:
    """Print commands to try next on stderr, unless the command is quiet.

    A command that is wider than the terminal continues on the next line, ready to be copied.
    """
    if verbosity() < 0 or not commands:
        return
    width = terminal_width(stderr=True)
    sys.stderr.write("\nNext:\n")
    for words in commands:
        line = " "
        for part in _shell_words(words, width):
            # Two characters are left for the sign of continuation.
            if width is not None and len(line) + len(part) + 3 > width and line.strip():
                sys.stderr.write(f"{line} \\\n")
                line = _CONTINUED
            line += f" {part}"
        sys.stderr.write(f"{line}\n")


def shell_text(words: Sequence[str]) -> str:
    """Return a command as a user types it; secrets in its URLs are masked."""
    return " ".join(_shell_words(words))


def _shell_words(words: Sequence[str], width: int | None = None) -> list[str]:
    """Quote the words of a command for a shell, each option with its value if these fit a line."""
    parts: list[str] = []
    for word, previous in zip(words, ["", *words], strict=False):
        quoted = word if word == ">" else shlex.quote(mask_secrets(word))
        is_value = previous.startswith("--") and not word.startswith("-") and word != ">"
        size = len(_CONTINUED) + len(previous) + len(quoted) + 4
        if is_value and (width is None or size <= width):
            parts[-1] += f" {quoted}"
        else:
            parts.append(quoted)
    return parts


def print_json(value: Any) -> None:
    """Print one JSON object on one line of stdout; secrets in the URLs of its files are masked."""
    import msgspec

    if isinstance(value, dict):
        # Only here: texts further inside may be data, such as the names of features.
        value = {k: mask_secrets(v) if isinstance(v, str) else v for k, v in value.items()}
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


@contextmanager
def open_text_output(path: str) -> Iterator[Callable[[str], object]]:
    """Yield a function that writes text to a file, or to stdout for ``-``.

    The file appears under its name only if no error occurs.
    """
    # A pipe gets the text at once; only a file can appear whole or not at all.
    if path == "-":
        yield sys.stdout.write
        sys.stdout.flush()
        return
    from rankine.core.atomic import atomic_file

    with atomic_file(path) as file:
        yield lambda text: file.write(text.encode())


def check_output_paths(**files: str | None) -> None:
    """Raise an error for output files that cannot be written, before any long computation.

    Keywords are names of options; - is stdout. The file of ``plot`` must have the suffix of an
    image format.
    """
    for option, path in files.items():
        if path in (None, "-"):
            continue
        # Training may take hours, so a path that cannot be written is an error before it.
        if is_url(path):
            check_writable(path)
            continue
        if Path(path).is_dir():
            raise ParameterError(f"{path} is a folder", parameter=option, fix="Name a file")
        if Path(path).is_socket():
            raise ParameterError(f"{path} is a socket", parameter=option, fix="Name a file")
        folder = Path(path).absolute().parent
        is_writable = folder.is_dir() and os.access(folder, os.W_OK)
        if not is_writable and not is_written_directly(path):
            raise ParameterError(
                f"{folder} is not a folder that can be written to",
                parameter=option,
                fix="Create the folder, or name another file",
            )
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

    The text holds values between two spaces; those that do not fit the terminal are left out.
    Yield None if the command is quiet or stderr is not a terminal. The bar shows when kernels are
    compiled.
    """
    if not sys.stderr.isatty() or verbosity() < 0:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from rankine.kernels.compile import CLOCK

    # The time that remains is known only where all steps cost about the same.
    time_column = TimeRemainingColumn() if show_remaining else TimeElapsedColumn()
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[status]}", markup=False),
        time_column,
        console=Console(stderr=True, markup=False, highlight=False),
        transient=True,
    )
    # The total is unknown until the first update: the bar only pulses.
    last_status = ""
    task = bar.add_task(title, total=None, status=last_status)

    def update(done: int, total: int | None, text: str) -> None:
        nonlocal last_status
        count = f"{done:,}/{total:,} ({done / total:.0%})" if total else f"{done:,}"
        # Values that do not fit are left out: rich would cut the last number.
        space = bar.console.width - len(title) - _BAR_WIDTH - len(count)
        values = text.split("  ")
        while values and len("  ".join(values)) > space:
            values.pop()
        last_status = "  ".join([count, *values])
        bar.update(task, completed=done, total=total, status=last_status)

    # While kernels are compiled nothing else changes, so this takes the place of the values.
    CLOCK.begin = lambda: bar.update(task, status="compiling, once", refresh=True)
    CLOCK.end = lambda: bar.update(task, status=last_status)
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
    return shell_text(["rankine", *sys.argv[1:]])


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


def print_tables(tables: Sequence[Table], *, latex: bool = False, markdown: bool = False) -> None:
    """Print tables as text, LaTeX or Markdown.

    On a terminal, no line is wider than the terminal. Elsewhere tables have their full width.
    """
    if latex:
        sys.stdout.write("\n".join(table.latex() for table in tables))
        return
    if markdown:
        sys.stdout.write("\n".join(table.markdown() for table in tables))
        return
    for k, table in enumerate(tables):
        if k:
            sys.stdout.write("\n")
        lines = table.lines(terminal_width(), bold=_shows_bold_type())
        sys.stdout.write("\n".join(lines) + "\n")


def print_values(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and their values, one below the other."""
    from rankine.evaluation.tables import Table

    masked = [(name, mask_secrets(text)) for name, text in rows]
    print_tables([Table("", ("", ""), masked, left=2)])
