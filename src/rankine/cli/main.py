"""The door of the command line: the application, its commands, and errors as one line.

Commands attach themselves to ``app``. Their modules import only typer at the top and everything
heavy inside the command, so that ``rankine --help`` stays fast.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.cli._options import Quiet, Verbose, Verbosity, expand_groups

Command = Callable[..., None]
#: How a command gets what Python gets by a function.
_SOURCES = {
    "rankine.load(...)": "without --stream, --dask and --checkpoint",
    "rankine.scan(...)": "--stream",
    "rankine.distributed.scan(...)": "--dask",
}
#: What scipy and scikit-learn import, for half of a command's start, and hardly ever use.
_HARDLY_USED = (
    *("pandas", "scipy.stats", "numpy.f2py"),
    *("narwhals", "narwhals.stable", "narwhals.stable.v2"),
)


class Commands(typer.Typer):
    """Commands whose groups of options are expand_groups, and that all take ``-q`` and ``-v``."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Command], Command]:  # type: ignore[override]
        """As typer's own."""
        register = super().command(name, **options)
        return lambda command: register(expand_groups(command, beside=Verbosity))


app = Commands(
    name="rankine",
    help="Large-scale linear learning to rank: train, evaluate, explain and serve linear rankers.",
    no_args_is_help=True,
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
        bool, typer.Option("--json", help="With --version: all that a bug report should hold.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Large-scale linear learning to rank."""
    _console.set_verbosity(0)
    Verbosity(quiet, verbose)
    if json and not version:
        raise typer.BadParameter("--json stands after the command, or beside --version")
    if version:
        from rankine._version import __version__

        if json:
            _console.print_json(about())
        else:
            typer.echo(f"rankine {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def about() -> dict[str, Any]:
    """Versions of everything rankine stands on, and the machine."""
    import platform
    import re
    from importlib import metadata

    import llvmlite.binding

    from rankine._version import __version__
    from rankine.kernels.cache import user_cache

    packages: dict[str, str | None] = {}
    for line in metadata.requires("rankine") or []:
        found = re.match(r"[\w.-]+", line)
        if found is None or found[0] == "rankine":
            continue
        try:
            packages[found[0]] = metadata.version(found[0])
        except metadata.PackageNotFoundError:
            packages[found[0]] = None
    return {
        "rankine": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "threads": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "cache": str(user_cache()),
        "packages": dict(sorted(packages.items())),
    }


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


class _Later(ModuleType):
    """A module that is imported once something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        found = importlib.import_module(self.__name__)
        self.__dict__.update(vars(found))
        return getattr(found, name)


class _LaterFinder:
    """Finds modules as ever, and puts their first import off."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._left = set(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self._left:
            return None
        self._left.remove(name)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = self  # type: ignore[assignment]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty module, as ever."""

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Later


def import_later(names: tuple[str, ...] = _HARDLY_USED) -> None:
    """Import these modules when something of them is used, in this process."""
    sys.meta_path.insert(0, _LaterFinder(names))


def run() -> None:
    """Run the command line; exit code 2 for bad input, 130 when interrupted."""
    import_later()
    find_commands()
    from rankine.core.errors import RankineError

    try:
        app()
    except RankineError as error:
        error.reason, error.fix = as_options(error.reason), as_options(error.fix)
        _fail(str(error), error)
    except BrokenPipeError:
        # The reader of our output went away (head, less): not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        _console.print_error("interrupted")
        sys.exit(130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", error)
    except MemoryError as error:
        _fail("out of memory: use float32 (--dtype float32) or train on a stream (--stream)", error)


def as_options(message: str) -> str:
    """Python's ``missing='zero'`` as ``--missing zero``, where the command has that option.

    "Train with ..." speaks of the options of ``train``, whatever the command.
    What is no option of its own but may be ``--set`` becomes ``--set sampling=query``; the name of
    a ranker's class becomes ``--ranker`` and its own. ``query=`` and ``columns=[...]`` lose their
    signs only.
    """
    import re

    from rankine.rankers.registry import RANKERS, ranker_class

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    words = ["train"] if message.startswith("Train ") else sys.argv[1:]
    options: set[str] = set()
    for word in words:  # a command, and one of its own where it is a group
        if word in commands:
            options = {o for p in commands[word].params for o in p.opts}
            commands = getattr(commands[word], "commands", {})

    def spell(found: re.Match[str]) -> str:
        name, quoted, more, bare, listed = found.groups()
        # A command has no list of features, but names those of a log.
        option = "--" + ("numeric" if name == "features" else name).replace("_", "-")
        if option in options:
            value = "..." if listed else quoted or bare
            return f"{option} {value}{more or ''}".replace("'", "") if value else option
        return f"--set {name}={quoted}{more}" if quoted and "--set" in options else found[0]

    if "--base" in options and "--n-features" not in options:
        # The width is the model's, which no option can change.
        message = re.sub(r"\bn_features=(\d+)", r"the model has \1", message)
        if "n_features=" in message or "with the model has" in message:
            message = "Use the model of such files, or check --base"
    if "--stream" in options:
        for source, how in _SOURCES.items():
            message = message.replace(source, how)
    word = r"""['"]([\w.:@+-]+)['"]((?:,? (?:or )?'\w+')*)"""
    message = re.sub(
        rf"\b([a-z]\w*)=(?:{word}|([\w.:@+-]+)|(\[\.\.\.\])|(?![\w=]))", spell, message
    )
    if "--ranker" in options:
        for name in RANKERS:
            message = re.sub(rf"\b{ranker_class(name).__name__}\b", f"--ranker {name}", message)
    return message


def _fail(message: str, error: BaseException) -> None:
    if _console.verbosity() > 0:
        raise error
    _console.print_error(message)
    sys.exit(2)
