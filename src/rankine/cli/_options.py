"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rankine.cli import _console
from rankine.core.errors import ParameterError

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
Scale = Annotated[
    str,
    typer.Option(help="Scale features by this rule: auto, none, standard, maxabs, query."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed the random number generator.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Set a parameter of the ranker, name=value; repeatable. Lists are a,b, pairs a*b,c*d. "
        "Losses (loss=NAME): {losses}. --ranker NAME --help lists the parameters.",
    ),
]
#: Held-out data of a training.
ValidFile = Annotated[str | None, typer.Option(help="Evaluate on this held-out file.")]
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
    """Parse ``["l2=1e-3", "solver=romma"]`` to a mapping; values are JSON or Python values."""
    from rankine.core.strict_json import parse_value

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
    from dataclasses import fields

    from rankine.rankers.registry import ranker_class

    cls = ranker_class(name)
    defaults = cls().get_params(deep=False)
    types = {field.name: str(field.type) for field in fields(cls)}
    values = {}
    for setting, value in settings.items():
        if setting not in defaults:
            raise ParameterError(
                f"ranker {name!r} has no parameter {setting!r}",
                parameter="set",
                fix=f"Choose among {', '.join(sorted(defaults))}",
            )
        values[setting] = _typed_value(setting, value, types[setting], defaults[setting])
    return cls(**values)


#: Types of values, and an example of each.
_EXAMPLES = {
    "bool": "true",
    "int": "3",
    "float": "0.5",
    "Sequence": "price,brand",
    "Mapping": "price:decreasing,rating:increasing",
}


#: Types that ``parse_settings`` returns.
_SETTING_TYPES = (bool, int, float, str, list, tuple, dict, type(None))


def _typed_value(name: str, value: Any, annotation: str, default: Any) -> Any:
    """Return the value of a parameter, with lists and mappings read from their short forms.

    The short forms are ``a,b`` for a list, ``a*b,c*d`` for pairs and ``a:x,b:y`` for a mapping.
    """
    # "int | Sequence[tuple[Any, Any]] | None" has the types int, Sequence and None.
    types = [part.strip() for part in re.sub(r"\[.*\]", "", annotation).split("|")]
    # Values of other types come from the command itself, such as a loaded propensity.
    if "Any" in types or not isinstance(value, _SETTING_TYPES):
        return value
    # parse_settings reads scale=none as JSON null; a parameter whose default is text keeps "none".
    if value is None and isinstance(default, str):
        return "none"
    if isinstance(value, str) and "str" not in types:
        if "Mapping" in types and ":" in value:
            value = _parse_mapping(value)
        elif "Sequence" in types:
            value = _parse_list(value)
    if not any(_has_type(value, each) for each in types):
        known = [each for each in types if each in _EXAMPLES]
        example = _EXAMPLES[known[-1]] if known else default
        if "tuple" in annotation:
            example = "price*brand,price*rating"
        raise ParameterError(
            f"{value!r} is not a possible value",
            parameter=name,
            fix=f"Write for example --set {name}={example}",
        )
    return value


def _parse_mapping(text: str) -> dict[str, Any]:
    from rankine.core.strict_json import parse_value

    parts = (part.rpartition(":") for part in split_list(text))
    return {key.strip(): parse_value(value.strip()) for key, _, value in parts}


def _parse_list(text: str) -> list[Any]:
    """Parse ``a,b`` to a list, and ``a*b,c*d`` to a list of pairs."""
    from rankine.core.strict_json import parse_value

    parts = []
    for part in split_list(text):
        names = [parse_value(name.strip()) for name in part.split("*")]
        parts.append(names[0] if len(names) == 1 else names)
    return parts


def _has_type(value: Any, name: str) -> bool:
    """Return whether a value has the type of this name."""
    if name == "None":
        return value is None
    if name == "bool":
        return isinstance(value, bool)
    if name in ("int", "float") and not isinstance(value, bool):
        return isinstance(value, int) or (name == "float" and isinstance(value, float))
    if name == "Sequence":
        return isinstance(value, Sequence) and not isinstance(value, str)
    if name == "Mapping":
        return isinstance(value, dict)
    return name == "str" and isinstance(value, str)
