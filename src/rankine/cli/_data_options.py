"""Options about reading data, shared by every command that reads some."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from rankine.cli import _console

__all__ = ["ModelReading", "Reading", "SortReading", "split_list"]

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
