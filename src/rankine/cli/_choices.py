"""Fill the names of rankers, metrics, losses and export targets into the help of options.

The help of an option may contain a placeholder such as ``{metrics}``. It is replaced by the names
in the registry, so that a new metric appears in the help without an edit here. The registries are
imported only when help is shown, because they load NumPy and Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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


_LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "{rankers}": _rankers,
    "{metrics}": _metrics,
    "{losses}": _losses,
    "{targets}": _targets,
}


class ListingCommand(TyperCommand):
    """Command whose help lists registered names."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fill the placeholders, then write the help."""
        fill_lists(self)
        super().format_help(ctx, formatter)


def fill_lists(command: Any) -> None:
    """Replace placeholders in the help of a command's options with the registered names."""
    for parameter in command.params:
        text = getattr(parameter, "help", None) or ""
        for placeholder, list_names in _LISTS.items():
            if placeholder in text:
                text = text.replace(placeholder, ", ".join(sorted(list_names())))
                parameter.help = text
