"""Options about reading data, shared by every command that reads some."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = [
    "Base",
    "Columns",
    "Dtype",
    "FeatureNames",
    "Format",
    "Group",
    "Label",
    "Missing",
    "ModelBase",
    "NFeatures",
    "OnBadRow",
    "QidType",
    "Query",
    "SingleQuery",
    "read_options",
]

_PANEL = "Reading"


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, **settings)


Format = Annotated[
    str | None, _option("--format", help="letor, parquet, arrow or npz; default: by content.")
]
NFeatures = Annotated[
    int | None, _option("--n-features", help="Number of features; default: the largest index.")
]
Base = Annotated[int, _option("--base", help="First feature index of text files: 1 or 0.")]
ModelBase = Annotated[
    int | None, _option("--base", help="First feature index of text files; default: the model's.")
]
QidType = Annotated[str, _option("--qid-type", help="int or str: how text query ids are read.")]
Missing = Annotated[str, _option("--missing", help="error, or zero: NULL and NaN become 0.")]
OnBadRow = Annotated[str, _option("--on-bad-row", help="error, or skip (skips are counted).")]
FeatureNames = Annotated[
    str | None, _option("--feature-names", help="File with one feature name a line.")
]
Dtype = Annotated[
    str | None,
    _option("--dtype", help="float64 or float32 storage; default: as stored, text as float64."),
]
Label = Annotated[str, _option("--label", help="Label column of Parquet and Arrow files.")]
Query = Annotated[str, _option("--query", help="Query column of such files.")]
Columns = Annotated[
    str | None, _option("--columns", help="Further columns to keep, comma-separated.")
]
Group = Annotated[
    str | None, _option("--group", help="File of group sizes for text without query ids.")
]
SingleQuery = Annotated[
    bool, _option("--single-query", help="Text without query ids is one query.")
]


def read_options(**given: Any) -> dict[str, Any]:
    """Keyword arguments of ``rankine.load`` from command-line values; None means unset."""
    options = {name: value for name, value in given.items() if value is not None}
    if "columns" in options:
        options["columns"] = tuple(part for part in options["columns"].split(",") if part)
    return options
