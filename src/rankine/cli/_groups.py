"""Groups of options that commands share, and the names of options in errors.

A group is a frozen dataclass whose fields are annotated as typer options. A command takes the group
as one parameter, ``reading: ReadingOptions``. ``expand_groups`` replaces this parameter by the
fields of the group in the signature that typer reads, and builds the group when the command runs.
So each option is declared once.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from rankine.cli._console import print_status
from rankine.core.errors import ParameterError, RankineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Context of the running command, from which reject_options reads what the user has written.
_CONTEXT: ContextVar[typer.Context | None] = ContextVar("_CONTEXT", default=None)
#: Options whose name differs from that of the Python parameter they set.
_OPTION_OF_PARAMETER = {
    "random_state": "seed",
    "eval_set": "valid",
    "coef_init": "warm_start",
    "crosses": "cross",
    "features": "numeric",
    "preference": "detect",
    "chance": "power",
    "goals": "goal",
    "floors": "floor",
    "metrics": "metric",
    "n_points": "points",
}


def option_panel(title: str) -> Any:
    """Return ``typer.Option`` for options that help shows under this title."""
    return partial(typer.Option, rich_help_panel=title)


def expand_groups(
    command: Callable[..., None], common_options: type | None = None
) -> Callable[..., None]:
    """Return the command with the options of its groups in place of the groups.

    Parameters
    ----------
    command
        Function whose parameters are options, arguments and groups.
    common_options
        Group that every command accepts. Building it has the effect (it sets the verbosity); the
        command does not receive it.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        annotation = hints[parameter.name]
        if is_dataclass(annotation) and isinstance(annotation, type):
            groups[parameter.name] = annotation
            parameters += _group_parameters(annotation)
        else:
            parameters.append(_keyword(parameter.name, annotation, parameter.default))
    if common_options is not None:
        parameters += _group_parameters(common_options)
    parameters.append(_keyword("typer_context", typer.Context, inspect.Parameter.empty))

    @wraps(command)
    def run(*, typer_context: typer.Context, **values: Any) -> None:
        if common_options is not None:
            _build_group(common_options, values)
        for name, group in groups.items():
            values[name] = _build_group(group, values)
        token = _CONTEXT.set(typer_context)
        try:
            command(**values)
        except RankineError as error:
            if error.parameter is not None:
                error.parameter = option_of(error.parameter, typer_context)
            raise
        finally:
            _CONTEXT.reset(token)

    # typer must read the signature set below. It would follow __wrapped__ to the original one.
    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def print_at_end(text: Callable[[], str]) -> None:
    """Print a status line when the running command ends, unless it is empty or a repetition."""
    context = _CONTEXT.get()
    if context is None:
        return
    # The context of the command, because a later command of the same process starts with none.
    printed: set[str] = context.meta.setdefault("rankine.printed_at_end", set())

    def print_text() -> None:
        line = text()
        if line and line not in printed:
            printed.add(line)
            print_status(line)

    context.call_on_close(print_text)


def _group_parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_keyword(field.name, hints[field.name], field.default) for field in fields(group)]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def _build_group(group: type, values: dict[str, Any]) -> Any:
    """Build a group from its options, which are removed from ``values``."""
    return group(**{field.name: values.pop(field.name) for field in fields(group)})


def option_names(*groups: type) -> tuple[str, ...]:
    """Return the names of all options of groups."""
    return tuple(field.name for group in groups for field in fields(group))


# -- options in errors --------------------------------------------------------------------------


def option_of(parameter: str, context: typer.Context) -> str:
    """Return how the user of a command sets a Python parameter, for error messages.

    This is the corresponding option or argument, or ``--set NAME`` if the user has written that and
    not the option, or for a parameter of a ranker that has no option. A parameter that the command
    cannot set keeps its Python name.
    """
    is_set = any(text.startswith(f"{parameter}=") for text in context.params.get("set_") or ())
    if is_set and not is_written(parameter):
        return f"--set {parameter}"
    for name in (parameter, _OPTION_OF_PARAMETER.get(parameter)):
        for declared in context.command.params:
            if name is not None and str(declared.name).rstrip("_") == name:
                return display_name(declared)
    if "set_" in context.params and _is_ranker_parameter(context.params.get("ranker"), parameter):
        return f"--set {parameter}"
    return parameter


def display_name(declared: Any) -> str:
    """Return the name of an option or argument as users write it."""
    # --out rather than -o.
    longest = max(declared.opts, key=len)
    if longest.startswith("-"):
        return str(longest)
    return str(declared.metavar or declared.name.upper())


def _is_ranker_parameter(ranker: Any, name: str) -> bool:
    from rankine.rankers.registry import RANKERS, ranker_class

    # Commands such as letor name several rankers, so all of them are tried.
    candidates = [ranker] if ranker in RANKERS else list(RANKERS)
    return any(name in ranker_class(each)().get_params(deep=False) for each in candidates)


def reject_options(names: Iterable[str], reason: str, fix: str = "Leave it out") -> None:
    """Raise an error for the first of these options that the user has written.

    A command calls this for options that it would otherwise ignore.
    """
    context = _CONTEXT.get()
    if context is None:  # called from Python, not by a command
        return
    for name in names:
        if is_written(name):
            raise ParameterError(reason, parameter=name, fix=fix)


def is_written(name: str) -> bool:
    """Return whether the user has written this option, if only with its default value."""
    context = _CONTEXT.get()
    if context is None:  # called from Python, not by a command
        return False
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def require_one_format(**formats: bool) -> None:
    """Raise an error if more than one output format is chosen."""
    selected = [f"--{name}" for name, is_selected in formats.items() if is_selected]
    if len(selected) > 1:
        raise ParameterError(
            f"{', '.join(selected)}: only one output format is possible", fix="Choose one of them"
        )
