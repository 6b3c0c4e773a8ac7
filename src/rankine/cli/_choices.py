"""Fill the names of rankers, metrics, losses and export targets into the help of options.

The help of an option may contain a placeholder such as ``{metrics}``. It is replaced by the names
in the registry, so that a new metric appears in the help without an edit here. The registries are
imported only when help is shown, because they load NumPy and Numba.
"""

from __future__ import annotations

import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def _rankers() -> Iterable[str]:
    from rankine.rankers.registry import RANKERS

    return RANKERS


def _metrics() -> Iterable[str]:
    from rankine.metrics.metric import DEFINITIONS

    return DEFINITIONS


def _losses() -> Iterable[str]:
    from rankine.losses import pair_loss_names

    return pair_loss_names()


def _targets() -> Iterable[str]:
    from rankine.export import targets

    return targets()


#: A full stop before a new sentence; those of "1, 2, ..." and "Lee et al. 2014" are none.
_SENTENCE_END = re.compile(r"(?<=[^.]\.)\s(?=[A-Z\"`])")
#: Width of the terminal from which on help has panels.
_PANEL_WIDTH = 80

_LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "{rankers}": _rankers,
    "{metrics}": _metrics,
    "{losses}": _losses,
    "{targets}": _targets,
}


class ListingCommand(TyperCommand):
    """Command whose help lists registered names, and with ``--ranker`` the parameters of a ranker.

    Help is shown before the other options are read, so their text is kept for it.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of the command."""
        ctx.meta["args"] = list(args)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fill the placeholders, then write the help."""
        fill_lists(self)
        if shutil.get_terminal_size().columns < _PANEL_WIDTH:
            # The panels cut words that are wider than a column; plain help wraps all text.
            self.rich_markup_mode = None
            self.epilog = re.sub(r"\[/?bold\]", "", self.epilog or "")
        super().format_help(ctx, formatter)
        if any(parameter.name == "set_" for parameter in self.params):
            sys.stdout.write(formatter.getvalue())
            formatter.buffer.clear()
            print_parameters(_option_value(ctx.meta["args"], "--ranker"))


def _option_value(args: Sequence[str], option: str) -> str | None:
    """Return the value of an option in a list of arguments."""
    for k, argument in enumerate(args):
        if argument == option:
            return args[k + 1] if k + 1 < len(args) else None
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def print_parameters(ranker: str | None) -> None:
    """Print the parameters of a ranker with defaults and meaning."""
    from rankine.cli._console import print_tables
    from rankine.evaluation.tables import Table
    from rankine.rankers.registry import RANKERS, ranker_class

    if ranker not in RANKERS:
        return
    cls = ranker_class(ranker)
    meanings = parameter_meanings(cls)
    rows = [
        (name, str(default), meanings.get(name, ""))
        for name, default in cls().get_params(deep=False).items()
    ]
    header = ("parameter", "default", "meaning")
    print_tables([Table(f"Parameters of --ranker {ranker} (--set name=value)", header, rows, 3)])


def parameter_meanings(cls: type) -> dict[str, str]:
    """Return the first sentence about each parameter in the docstrings of a class and its bases."""
    import inspect

    meanings: dict[str, str] = {}
    for base in cls.__mro__:
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("Parameters\n----------\n")
        for paragraph in re.split(r"\n(?=\S)", section.partition("\n\nAttributes\n")[0]):
            head, _, text = paragraph.partition("\n")
            sentence = _SENTENCE_END.split(" ".join(text.split()))[0]
            if "``BaseRanker``" in sentence:  # the docstring of this base says it
                continue
            for name in filter(None, head.split(",")):
                meanings.setdefault(name.strip(), sentence.replace("``", "").rstrip("."))
    return meanings


def fill_lists(command: Any) -> None:
    """Replace placeholders in the help of a command's options with the registered names."""
    for parameter in command.params:
        text = getattr(parameter, "help", None) or ""
        for placeholder, list_names in _LISTS.items():
            if placeholder in text:
                text = text.replace(placeholder, ", ".join(sorted(list_names())))
                parameter.help = text
