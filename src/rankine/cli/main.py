"""The ``rankine`` application: common options, discovery of commands, and errors as one line.

Commands attach themselves to ``app``. Their modules import only typer at the top and everything
heavy inside the command, so that ``rankine --help`` stays fast.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._choices import ListingCommand
from rankine.cli._groups import display_name, expand_groups
from rankine.cli._options import Quiet, Verbose, Verbosity
from rankine.core.errors import ParameterError, RankineError

#: Base class of typer's errors about options and arguments; typer exports only this subclass.
_UsageError: Any = typer.BadParameter.__base__
#: Exit codes for wrong input and for Ctrl+C, as shells use them.
_WRONG_INPUT = 2
_INTERRUPTED = 130


#: Commands by the heading under which help shows them, in the order in which they are needed.
COMMAND_GROUPS = {
    "Learn": ("train", "tune", "path", "pareto", "retrain", "edit", "fuse"),
    "Judge": ("evaluate", "compare", "report", "explain", "strengths", "letor", "interleave"),
    "Use": ("calibrate", "certify", "predict", "serve", "export", "watch"),
    "Data": ("inspect", "convert", "sort", "clicks", "history"),
}
#: Heading of all other commands.
_OTHER_GROUP = "More"


class Commands(typer.Typer):
    """Typer application with option groups and ``--quiet`` and ``--verbose`` on every command."""

    def command(  # type: ignore[override]
        self, name: str | None = None, **options: Any
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Register a function as a command; its docstring is the help."""

        def register(command: Callable[..., None]) -> Callable[..., None]:
            # typer keeps line breaks inside paragraphs, which would show as ragged text.
            paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
            help_text = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
            if self is app:  # the commands of a command are not divided further
                options["rich_help_panel"] = group_of(name or command.__name__)
            add = super(Commands, self).command(name, cls=ListingCommand, help=help_text, **options)
            return add(expand_groups(command, common_options=Verbosity))

        return register


def group_of(command: str) -> str:
    """Return the heading under which help shows a command."""
    for heading, names in COMMAND_GROUPS.items():
        if command in names:
            return heading
    return _OTHER_GROUP


app = Commands(
    name="rankine",
    help="Learning to rank with small models that explain every score: train linear and additive "
    "models on clicks or judgements, then evaluate, explain, export and serve them.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="With --version: print versions and the machine, for a bug report."
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Handle the options before the name of a command."""
    # Tests run several commands in one process, so what the last one set is reset.
    _console.set_verbosity(0)
    _console.set_interruption(_console.NOTHING_KEPT)
    Verbosity(quiet, verbose)
    if json and not version:
        raise _UsageError("write --json after the name of a command, or with --version", context)
    if version:
        _print_version(json=json)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _print_version(*, json: bool) -> None:
    from rankine._version import __version__

    if json:
        _console.print_json(installation_report())
    else:
        typer.echo(f"rankine {__version__}")


def installation_report() -> dict[str, Any]:
    """Return the versions of rankine and its dependencies, and describe the machine."""
    import platform

    import llvmlite.binding

    from rankine._version import __version__
    from rankine.kernels.cache import user_cache

    n_threads, cache = os.cpu_count(), user_cache()
    # A container may use fewer cores than the machine has.
    if hasattr(os, "sched_getaffinity"):
        n_threads = len(os.sched_getaffinity(0))
    return {
        "rankine": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "threads": n_threads,
        "cache": None if cache is None else str(cache),
        "packages": _dependency_versions(),
    }


def _dependency_versions() -> dict[str, str | None]:
    """Return the version of every dependency, extras included; None if it is not installed."""
    import re
    from importlib import metadata

    versions: dict[str, str | None] = {}
    for requirement in metadata.requires("rankine") or []:
        match = re.match(r"[\w.-]+", requirement)
        if match is None or match[0] == "rankine":
            continue
        try:
            versions[match[0]] = metadata.version(match[0])
        except metadata.PackageNotFoundError:
            versions[match[0]] = None
    return dict(sorted(versions.items()))


def find_commands() -> list[str]:
    """Import every command module of this package; return their names."""
    import rankine.cli

    names = [
        module.name
        for module in pkgutil.iter_modules(rankine.cli.__path__)
        if not module.name.startswith("_") and module.name != "main"
    ]
    # Help shows commands in the order in which they are imported.
    order = [name for group in COMMAND_GROUPS.values() for name in group]
    names.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    for name in names:
        importlib.import_module(f"rankine.cli.{name}")
    return names


def run() -> None:
    """Run the command line; exit with 2 for wrong input and with 130 after Ctrl+C."""
    warnings.formatwarning = _console.format_warning  # type: ignore[assignment]
    find_commands()
    try:
        exit_code = app(prog_name="rankine", standalone_mode=False)
    except RankineError as error:
        _exit_with_error(str(error), error)
    except _UsageError as error:
        _exit_with_error(str(_as_parameter_error(error)), error)
    except BrokenPipeError:
        # A reader such as head or less has closed the pipe, which is not an error. Python would
        # fail again when it flushes stdout at exit, so stdout is redirected to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        exit_code = _INTERRUPTED
    except OSError as error:
        message = error.strerror or str(error)
        if error.filename:
            message = f"{error.filename}: {message}"
        _exit_with_error(message, error)
    except MemoryError as error:
        _exit_with_error(
            "out of memory: use float32 (--dtype float32) or train on a stream (--stream)", error
        )
    if exit_code == _INTERRUPTED:
        _console.print_interruption()
    sys.exit(exit_code or 0)


def _as_parameter_error(error: Any) -> ParameterError:
    """Convert an error of typer to one of rankine, so that all errors are printed alike."""
    command = "rankine"
    if error.ctx is not None:
        command = error.ctx.command_path
    fix = f"See {command} --help"
    declared = getattr(error, "param", None)
    if declared is None:
        return ParameterError(_sentence(error.format_message()), fix=fix)
    reason = _sentence(error.message) or "a value is required"
    return ParameterError(reason, parameter=display_name(declared), fix=fix)


def _sentence(text: str) -> str:
    """Return a message on one line, without the final full stop."""
    return " ".join(text.split()).rstrip(".")


def _exit_with_error(message: str, error: BaseException) -> None:
    """Print one line and exit; with ``--verbose``, raise the error with its traceback."""
    if _console.verbosity() > 0:
        raise error
    _console.print_error(message)
    sys.exit(_WRONG_INPUT)
