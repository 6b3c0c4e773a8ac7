"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.core.errors import ParameterError
from rankine.core.strict_json import parse_value

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on one line.")]
AsLatex = Annotated[bool, typer.Option("--latex", help="Print LaTeX tables.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")]
Files = Annotated[list[str], typer.Argument(help="Files or patterns, or - for stdin.")]
Missing = Annotated[
    str,
    typer.Option(
        help="Treat missing values by this rule: auto, error, zero, mean, query_min or indicator."
    ),
]
ModelFile = Annotated[str, typer.Argument(help="Model file.")]
ReportFile = Annotated[
    str | None, typer.Option("--report", help="Also write an HTML report to this file.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed the random number generator.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Set a parameter of the ranker, name=value; repeatable. Losses (loss=NAME): {losses}.",
    ),
]
Topic = Annotated[str | None, typer.Option(help="Use this model of a bundle.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print more, with the traceback of an error."),
]


@dataclass(frozen=True)
class Verbosity:
    """Options of how much is printed, accepted before and after the name of every command."""

    quiet: Quiet = False
    verbose: Verbose = False

    def __post_init__(self) -> None:
        if self.verbose:
            _console.set_verbosity(1)
        elif self.quiet:
            _console.set_verbosity(-1)


def split_list(text: str | None) -> tuple[str, ...]:
    """Split a comma-separated list; None gives no parts."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse ``["l2=1e-3", "solver=romma"]`` to a mapping; values are JSON where possible."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ParameterError(
                f"{pair!r} is not name=value", parameter="set", fix="Write --set l2=1e-3"
            )
        settings[name.strip()] = parse_value(text.strip())
    return settings


def make_ranker(name: str, settings: dict[str, Any]) -> Any:
    """Build a ranker; an error about an unknown parameter lists all parameters."""
    from rankine.rankers.registry import ranker_class

    cls = ranker_class(name)
    defaults = cls().get_params(deep=False)
    for setting in settings:
        if setting not in defaults:
            raise ParameterError(
                f"ranker {name!r} has no parameter {setting!r}",
                parameter="set",
                fix=f"Choose among {', '.join(sorted(defaults))}",
            )
    # parse_settings reads scale=none as JSON null; a parameter whose default is text keeps "none".
    none_texts = {
        setting: "none"
        for setting, value in settings.items()
        if value is None and isinstance(defaults[setting], str)
    }
    return cls(**{**settings, **none_texts})
