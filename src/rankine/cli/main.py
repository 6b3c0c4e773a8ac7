"""The door of the command line: the application, its commands, and errors as one line.

Commands attach themselves to ``app``. Their modules import only typer at the top and everything
heavy inside the command, so that ``rankine --help`` stays fast.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from typing import Annotated

import typer

from rankine.cli import _console

__all__ = ["app", "find_commands", "run"]

app = typer.Typer(
    name="rankine",
    help="Large-scale linear learning to rank: train, evaluate, explain and serve linear rankers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from rankine._version import __version__

        typer.echo(f"rankine {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say more; show tracebacks of errors.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only results and errors.")] = False,
) -> None:
    """Large-scale linear learning to rank."""
    _console.set_verbosity(1 if verbose else -1 if quiet else 0)


def find_commands() -> list[str]:
    """Import every command module of this folder; returns their names."""
    import rankine.cli

    names = [
        module.name
        for module in pkgutil.iter_modules(rankine.cli.__path__)
        if not module.name.startswith("_") and module.name != "main"
    ]
    for name in names:
        importlib.import_module(f"rankine.cli.{name}")
    return names


def run() -> None:
    """Run the command line; exit code 2 for bad input, 130 when interrupted."""
    find_commands()
    from rankine.core.errors import RankineError

    try:
        app()
    except RankineError as error:
        _fail(str(error), error)
    except BrokenPipeError:
        # The reader of our output went away (head, less): not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        _console.say_error("interrupted")
        sys.exit(130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", error)
    except MemoryError as error:
        _fail("out of memory: use float32 (--dtype float32) or train on a stream (--stream)", error)


def _fail(message: str, error: BaseException) -> None:
    if _console.verbosity() > 0:
        raise error
    _console.say_error(message)
    sys.exit(2)
