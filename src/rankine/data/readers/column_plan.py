"""Which columns of a table are labels, queries, features: decided once per file, from its schema.

Two layouts hold features: one numeric column per feature, or two list columns ``indices`` and
``values`` with one sparse row each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from rankine.core.errors import LimitError, ParameterError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.readers.values import is_list, is_number, is_text, wrap_arrow_errors

#: Names of the two list columns of the sparse layout.
SPARSE = ("indices", "values")

#: Roles whose column may be absent when its name was not chosen by the user.
_OPTIONAL = {"docid": "docid", "weight": "weight", "position": "position"}

#: Key of rankine's own entry in a schema's metadata.
_KEY = b"rankine"


class FileNotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file written by rankine says about itself.

    Features that are not ``named`` have mere numbers as names of their columns;
    ``feature_names`` and ``base`` are those of the sparse layout, ``columns`` are no features.
    """

    n_features: int | None = None
    base: int | None = None
    named: bool = True
    feature_names: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnPlan:
    """Columns by role; ``features`` are one per feature, or the two list columns when ``sparse``.

    ``extra`` are carried into ``Dataset.columns``. ``n_features`` is None when only the rows tell.
    ``dictionaries`` are those of text that were met last, with their texts, by column.
    """

    label: str | None
    query: str | None
    docid: str | None
    weight: str | None
    position: str | None
    extra: tuple[str, ...]
    features: tuple[str, ...]
    sparse: bool
    dtype: np.dtype[Any]
    n_features: int | None
    feature_names: tuple[str, ...] | None
    dictionaries: dict[str, tuple[pa.Array, list[str]]] = field(default_factory=dict, init=False)

    @property
    def columns(self) -> list[str]:
        """Every column that must be read, each once."""
        roles = (self.label, self.query, self.docid, self.weight, self.position)
        named = [name for name in roles if name is not None]
        return list(dict.fromkeys([*named, *self.extra, *self.features]))


def plan_columns(schema: pa.Schema, options: ReadOptions) -> ColumnPlan:
    """Resolve names and types; every mismatch is an error that lists what the file holds."""
    with wrap_arrow_errors("the schema", SchemaError):
        return _plan(schema, options)


def _plan(schema: pa.Schema, options: ReadOptions) -> ColumnPlan:
    _refuse_twins(schema)
    roles = {role: _role(schema, options, role) for role in ("label", "query", *_OPTIONAL)}
    notes = read_notes(schema)
    carried = [name for name in notes.columns if name in schema.names]
    extra = tuple(dict.fromkeys([*options.columns, *carried]))
    for name in extra:
        _require(schema, name, "columns=")
    # A query column stays no feature when group sizes take its place.
    taken = {name for name in (*roles.values(), options.query) if name is not None} | set(extra)
    features, sparse = _features(schema, options, taken)
    if sparse:
        n_features, names = _sparse_width(options, notes)
    else:
        n_features, names = _dense_width(options, notes, features)
    return ColumnPlan(
        **roles,
        extra=extra,
        features=features,
        sparse=sparse,
        dtype=_dtype(schema, features, sparse, options),
        n_features=n_features,
        feature_names=names,
    )


def read_notes(schema: pa.Schema) -> FileNotes:
    """rankine's metadata entry, checked; an empty answer when there is none."""
    raw = (schema.metadata or {}).get(_KEY)
    if raw is None:
        return FileNotes()
    try:
        notes = msgspec.json.decode(raw, type=FileNotes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _damaged(str(error)) from error
    if notes.n_features is not None and notes.n_features < 0:
        raise _damaged("n_features is negative")
    if notes.feature_names is not None and len(notes.feature_names) != notes.n_features:
        raise _damaged(f"{len(notes.feature_names)} names for {notes.n_features} features")
    return notes


def _damaged(why: str) -> SchemaError:
    return SchemaError(
        f"the schema's 'rankine' metadata entry is damaged: {why}",
        fix="Write the file again, or remove that entry",
    )


def write_notes(notes: FileNotes) -> dict[bytes, bytes]:
    """Schema metadata that ``read_notes`` understands."""
    return {_KEY: msgspec.json.encode(notes)}


def _refuse_twins(schema: pa.Schema) -> None:
    if len(set(schema.names)) == len(schema.names):
        return
    twin = next(name for k, name in enumerate(schema.names) if name in schema.names[:k])
    raise SchemaError(f"two columns are called {twin!r}", fix="Rename one of them", column=twin)


def _role(schema: pa.Schema, options: ReadOptions, role: str) -> str | None:
    """The column that plays ``role``; None when there is none and none was asked for."""
    name = getattr(options, role)
    if name is None or (role == "query" and not options.has_query_ids):
        return None
    if name not in schema.names and _OPTIONAL.get(role) == name:
        return None
    _require(schema, name, f"{role}=")
    return str(name)


def _require(schema: pa.Schema, name: str, option: str) -> None:
    if name in schema.names:
        return
    shown = ", ".join(repr(column) for column in schema.names[:12])
    more = f" and {len(schema.names) - 12} more" if len(schema.names) > 12 else ""
    close = get_close_matches(name[:200], schema.names[:10_000], n=1)
    fix = f"Did you mean {close[0]!r}? " if close else ""
    fix += "Add it to the file, or name another column" if option == "columns=" else (
        f"Name the right column with {option}"
    )  # fmt: skip
    if option == "label=" and set(name) & set("+-*/<>()"):
        fix = (
            "A formula is the label of a raw log: name its features too (numeric=, categorical=, "
            "one_hot=)"
        )
    raise SchemaError(f"no column {name!r}; the file holds {shown}{more}", fix=fix, column=name)


def _features(
    schema: pa.Schema, options: ReadOptions, taken: set[str]
) -> tuple[tuple[str, ...], bool]:
    """Feature columns and whether they are the sparse pair."""
    if options.features is not None:
        chosen = tuple(options.features)
        if len(set(chosen)) != len(chosen):
            raise ParameterError("features= names a column twice", fix="Name each column once")
        for name in chosen:
            _require(schema, name, "features=")
    else:
        rest = tuple(name for name in schema.names if name not in taken)
        chosen = SPARSE if _is_pair(schema, SPARSE) and set(SPARSE) <= set(rest) else rest
    if _is_pair(schema, chosen):
        _check_pair(schema, chosen)
        return chosen, True
    for name in chosen:
        _check_feature(schema.field(name))
    return chosen, False


def _is_pair(schema: pa.Schema, names: tuple[str, ...]) -> bool:
    return len(names) == 2 and all(
        name in schema.names and is_list(schema.field(name).type) for name in names
    )


def _check_pair(schema: pa.Schema, pair: tuple[str, ...]) -> None:
    inner = [schema.field(name).type.value_type for name in pair]
    for name, kind, good in (
        (pair[0], inner[0], pt.is_integer(inner[0])),
        (pair[1], inner[1], is_number(inner[1])),
    ):
        if not good:
            raise SchemaError(
                f"column {name!r} holds lists of {kind}",
                fix="Sparse rows need a list of integers and a list of numbers",
                column=name,
            )


def _check_feature(field: pa.Field) -> None:
    if is_number(field.type):
        return
    if pt.is_dictionary(field.type) or is_text(field.type):
        fix = (
            "Choose the numeric columns with features=[...]; carry this one along with "
            "columns=[...] to hash or one-hot it, or leave it out"
        )
    else:
        fix = "Choose the numeric columns with features=[...], or cast this one to float"
    raise SchemaError(
        f"feature column {field.name!r} is of type {field.type}, not a number",
        fix=fix,
        column=field.name,
    )


def _dtype(
    schema: pa.Schema, features: tuple[str, ...], sparse: bool, options: ReadOptions
) -> np.dtype[Any]:
    """float32 when every stored value is float32 (or half), unless the caller chose."""
    if options.dtype is not None:
        return np.dtype(options.dtype)
    kinds = (
        [schema.field(features[1]).type.value_type]
        if sparse
        else [schema.field(name).type for name in features]
    )
    narrow = all(pt.is_float32(kind) or pt.is_float16(kind) for kind in kinds)
    return np.dtype(np.float32 if narrow and kinds else np.float64)


def _dense_width(
    options: ReadOptions, notes: FileNotes, features: tuple[str, ...]
) -> tuple[int, tuple[str, ...] | None]:
    width = len(features)
    if options.n_features is not None and width != options.n_features:
        raise SchemaError(
            f"{width} feature columns where n_features={options.n_features}",
            fix="Choose columns with features=[...] or leave n_features= out",
        )
    # Names that the caller gave are attached by load and scan, to every format alike.
    numbered = not notes.named and notes.n_features == width
    names = None if numbered or options.feature_names is not None else features
    return check_width(width, names, options), names


def _sparse_width(
    options: ReadOptions, notes: FileNotes
) -> tuple[int | None, tuple[str, ...] | None]:
    if notes.base is not None and notes.base != options.base:
        raise SchemaError(
            f"the file says that its indices count from {notes.base}, "
            f"but they were to be read from {options.base}",
            fix=f"Read it with base={notes.base}",
        )
    names = notes.feature_names if options.feature_names is None else None
    width = options.n_features
    if width is None:
        width = len(names) if names is not None else notes.n_features
    if width is None:
        return None, None
    return check_width(width, names, options), names


def check_width(width: int, names: tuple[str, ...] | None, options: ReadOptions) -> int:
    """The width of a matrix, within the limit and with as many names."""
    if not 0 <= width <= options.max_features:
        raise LimitError(
            f"{width} features exceed max_features={options.max_features}",
            fix="Raise max_features if this is meant",
        )
    if names is not None and len(names) != width:
        raise SchemaError(
            f"{len(names)} feature names for {width} features", fix="Give every feature one name"
        )
    return width
