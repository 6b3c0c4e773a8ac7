"""Options that say how a search goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

__all__ = ["Search", "read_space"]


def _search(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Search", **settings)


@dataclass(frozen=True)
class Search:
    """Where, how and within which limits to search."""

    folds: Annotated[int | None, _search("--folds", help="Folds by query (default 5).")] = None
    split: Annotated[
        str | None, _search("--split", help="time:0.8,0.2 or time:0.8,0.1,0.1 (test).")
    ] = None
    time_column: Annotated[
        str | None, _search("--time-column", help="Column of times; default: file order.")
    ] = None
    space: Annotated[
        list[str] | None,
        _search("--space", help="Narrow the search: name=low..high[:log] or name=a,b,c."),
    ] = None
    set_: Annotated[list[str] | None, _search("--set", help="Fix a parameter: name=value.")] = None
    max_nonzero: Annotated[int | None, _search("--max-nonzero", help="Most non-zero weights.")] = (
        None
    )
    max_latency: Annotated[
        str | None, _search("--max-latency", help="Longest time to score an item, such as 9us.")
    ] = None
    acquisition: Annotated[str, _search("--acquisition", help="thompson, or ei.")] = "thompson"
    pruner: Annotated[
        str,
        _search(
            "--pruner",
            help="Who gives up trials that cannot win: gain, median, halving, or none.",
        ),
    ] = "gain"
    workers: Annotated[int, _search("--workers", help="Trials at the same time.")] = 1

    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``rankine.tune``."""
        from rankine.cli._settings import parse_settings
        from rankine.scoring.latency import parse_latency

        return {
            "folds": self.folds,
            "split": self.split,
            "time_column": self.time_column,
            "space": read_space(self.space or []),
            "parameters": parse_settings(self.set_ or []),
            "max_nonzero": self.max_nonzero,
            "max_latency": None if self.max_latency is None else parse_latency(self.max_latency),
            "acquisition": self.acquisition,
            "pruner": self.pruner,
            "workers": self.workers,
        }


def read_space(pairs: list[str]) -> dict[str, str]:
    """``["l2=1e-6..1e-2:log"]`` as a mapping."""
    from rankine.core.errors import ParameterError

    space = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise ParameterError(
                f"--space {pair!r} is not name=range", fix="Write --space l2=1e-6..1e-2:log"
            )
        space[name.strip()] = text.strip()
    return space
