"""Options that several commands share, alone and in groups.

A group is a frozen dataclass whose fields are annotated as typer options. A command takes it as one
parameter, ``reading: Reading``; ``spread`` puts its fields in the parameter's place for typer and
gathers their values again when the command runs. So an option is declared once, and a command
reads as what it does.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rankine.cli import _console
from rankine.core.errors import ParameterError
from rankine.core.strict_json import read_value

if TYPE_CHECKING:
    from collections.abc import Callable

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on one line.")]
AsLatex = Annotated[bool, typer.Option("--latex", help="LaTeX tables.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Markdown tables.")]
Files = Annotated[list[str], typer.Argument(help="Files, patterns, or - for stdin.")]
ModelFile = Annotated[str, typer.Argument(help="Model file.")]
ReportFile = Annotated[
    str | None, typer.Option("--report", help="Also write an HTML page about the result.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all randomness.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Parameter name=value, repeatable.")
]


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its groups in place of the groups."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            parameters += _options_of(kind)
        else:
            parameters.append(_keyword(parameter.name, kind, parameter.default))

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            own = {field.name: given.pop(field.name) for field in fields(kind)}
            given[name] = kind(**own)
        command(**given)

    # typer reads the signature; it must not look through to the command's own.
    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_keyword(field.name, hints[field.name], field.default) for field in fields(group)]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


_PANEL = "Reading"


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, **settings)


_Format = Annotated[
    str | None, _option("--format", help="letor, parquet, arrow or npz; default: by content.")
]
_QidType = Annotated[str, _option("--qid-type", help="int or str: how text query ids are read.")]
_Base = Annotated[int, _option("--base", help="First feature index of text files: 1 or 0.")]
_Missing = Annotated[str, _option("--missing", help="error, or zero: NULL and NaN become 0.")]
_OnBadRow = Annotated[str, _option("--on-bad-row", help="error, or skip (skips are counted).")]
_Label = Annotated[str, _option("--label", help="Label column of Parquet and Arrow files.")]
_Query = Annotated[str, _option("--query", help="Query column of such files.")]
_Columns = Annotated[
    str | None, _option("--columns", help="Further columns to keep, comma-separated.")
]


def split_list(text: str | None) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


class _Group:
    """What every group of reading options can do."""

    def options(self, **more: Any) -> dict[str, Any]:
        """Keyword arguments of ``rankine.load``; an option that is not given is left out."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        found = {name: value for name, value in {**given, **more}.items() if value is not None}
        if "columns" in found:
            found["columns"] = split_list(found["columns"])
        return {"progress": _console.verbosity() >= 0, **found}


@dataclass(frozen=True)
class ModelReading(_Group):
    """Data for a model that exists: it knows its features."""

    format: _Format = None
    base: Annotated[
        int | None,
        _option("--base", help="First feature index of text files; default: the model's."),
    ] = None
    qid_type: _QidType = "int"
    missing: _Missing = "error"
    feature_names: Annotated[
        str | None, _option("--feature-names", help="File with one feature name a line.")
    ] = None
    label: _Label = "label"
    query: _Query = "qid"
    columns: _Columns = None
    group: Annotated[
        str | None, _option("--group", help="File of group sizes for text without query ids.")
    ] = None
    single_query: Annotated[
        bool, _option("--single-query", help="Text without query ids is one query.")
    ] = False


@dataclass(frozen=True)
class Reading(ModelReading):
    """Data for training, comparing or converting: its width is its own."""

    base: _Base = 1
    n_features: Annotated[
        int | None, _option("--n-features", help="Number of features; default: the largest index.")
    ] = None
    on_bad_row: _OnBadRow = "error"
    dtype: Annotated[
        str | None,
        _option("--dtype", help="float64 or float32 storage; default: as stored, text as float64."),
    ] = None


@dataclass(frozen=True)
class SortReading(_Group):
    """Data to be rewritten row by row."""

    qid_type: _QidType = "int"
    base: _Base = 1
    missing: _Missing = "error"
    on_bad_row: _OnBadRow = "error"
    label: _Label = "label"
    query: _Query = "qid"
    columns: _Columns = None


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``["l2=1e-3", "solver=romma"]`` as a mapping; values are JSON where they can be."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"--set {pair!r} is not name=value", fix="Write --set l2=1e-3")
        settings[name.strip()] = read_value(text.strip())
    return settings


def make_ranker(name: str, settings: dict[str, Any]) -> Any:
    """A ranker with parameters; an unknown parameter is an error that lists the known ones."""
    from rankine.rankers.registry import ranker_class

    kind = ranker_class(name)
    known = kind().get_params(deep=False)
    for setting in settings:
        if setting not in known:
            raise ParameterError(
                f"ranker {name!r} has no parameter {setting!r}",
                fix=f"Choose among {', '.join(sorted(known))}",
            )
    # A word such as scale=none is the word where the parameter is a word.
    words = {n: "none" for n, v in settings.items() if v is None and isinstance(known[n], str)}
    return kind(**{**settings, **words})


def _dask(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Partitions and clusters", **settings)


@dataclass(frozen=True)
class Cluster:
    """Where partitions are worked on, and how they are cut."""

    dask: Annotated[
        str | None,
        _dask(
            "--dask",
            help="Train on partitions: tcp://host:8786, tls://..., local:N for N processes, "
            "or here for one partition after the other without Dask.",
        ),
    ] = None
    repartition: Annotated[
        bool, _dask("--repartition", help="First group the rows by query, into a new file.")
    ] = False
    repartition_to: Annotated[
        str | None,
        _dask("--repartition-to", help="Folder of that file; default: rankine-partitions/ here."),
    ] = None
    partition_mb: Annotated[
        int, _dask("--partition-mb", help="About the memory of a partition.")
    ] = 64
    timeout: Annotated[
        float, _dask("--timeout", help="Seconds without a finished task that are an error.")
    ] = 600.0

    def check(self, *, raw_log: bool, stream: bool) -> None:
        """Refuse what does not go together."""
        if self.dask is None:
            if self.repartition or self.repartition_to is not None:
                raise ParameterError(
                    "--repartition belongs to --dask", fix="Add --dask, or use rankine sort"
                )
            return
        if raw_log:
            raise ParameterError(
                "--dask trains on columns of numbers; raw logs are encoded on one machine",
                fix="Leave out --dask and use --ranker elastic, or store encoded features",
            )
        if stream:
            raise ParameterError("--stream and --dask are two ways", fix="Leave one of them out")
