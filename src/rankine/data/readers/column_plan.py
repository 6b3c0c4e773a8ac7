"""Decide from a table's schema which columns are labels, queries and features.

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

#: Roles whose column may be absent, unless the user chose another name for it.
_OPTIONAL = ("docid", "weight", "position")

#: Key of rankine's own entry in a schema's metadata.
_METADATA_KEY = b"rankine"


class FileMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Metadata that rankine's writers store in a file.

    Attributes
    ----------
    n_features
        Number of features.
    base
        First index of the sparse layout.
    named
        Whether the features have names; otherwise their columns are only numbered.
    feature_names
        Names of the features of the sparse layout, if they have any.
    columns
        Further columns, which are no features.
    """

    n_features: int | None = None
    base: int | None = None
    named: bool = True
    feature_names: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnPlan:
    """Columns of a table by role.

    Attributes
    ----------
    label, query, docid, weight, position
        Names of columns, or None.
    extra
        Further columns, for ``Dataset.columns``.
    categories, numbers
        Those among them that are read as text, and as float64.
    features, sparse
        One column per feature, or the two list columns of the ``sparse`` layout.
    dtype
        Type of the feature matrix.
    n_features
        Width of the feature matrix; None if only the rows can give it.
    feature_names
        Names of the features, or None.
    dictionaries
        The last dictionary of each column of text, with its texts.
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
    categories: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    dictionaries: dict[str, tuple[pa.Array, list[str]]] = field(default_factory=dict, init=False)

    @property
    def columns(self) -> list[str]:
        """Every column that must be read, once each."""
        roles = (self.label, self.query, self.docid, self.weight, self.position)
        names = [name for name in roles if name is not None]
        return list(dict.fromkeys([*names, *self.extra, *self.features]))


def plan_columns(
    schema: pa.Schema, options: ReadOptions, hive_columns: tuple[str, ...] = ()
) -> ColumnPlan:
    """Resolve names and types of columns; errors list the columns of the file.

    Hive columns, which have one value in a file, are features only if the options name them.
    """
    with wrap_arrow_errors("the schema", SchemaError):
        return _plan(schema, options, hive_columns)


def _plan(schema: pa.Schema, options: ReadOptions, hive_columns: tuple[str, ...]) -> ColumnPlan:
    _check_distinct(schema)
    roles = {role: _role(schema, options, role) for role in ("label", "query", *_OPTIONAL)}
    metadata = read_metadata(schema)
    # rankine's own files say which columns are no features.
    stored_extra = [name for name in metadata.columns if name in schema.names]
    named_extra = (*options.columns, *options.categories, *options.numbers)
    extra = tuple(dict.fromkeys([*named_extra, *stored_extra]))
    for name in extra:
        require_column(schema, name, "columns")
    # The query column is not a feature even where group sizes replace it.
    not_features = {*roles.values(), options.query, *extra, *hive_columns}
    features, sparse = _choose_features(schema, options, not_features)
    if sparse:
        n_features, names = _sparse_width(options, metadata)
    else:
        n_features, names = _dense_width(options, metadata, features)
    return ColumnPlan(
        **roles,
        extra=extra,
        features=features,
        sparse=sparse,
        dtype=_dtype(schema, features, sparse, options),
        n_features=n_features,
        feature_names=names,
        categories=frozenset(options.categories),
        numbers=frozenset(options.numbers),
    )


def read_metadata(schema: pa.Schema) -> FileMetadata:
    """Return rankine's metadata of a file, checked, or the defaults if there are no metadata."""
    raw = (schema.metadata or {}).get(_METADATA_KEY)
    if raw is None:
        return FileMetadata()
    try:
        metadata = msgspec.json.decode(raw, type=FileMetadata)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _damaged(str(error)) from error
    n_features, names = metadata.n_features, metadata.feature_names
    if n_features is not None and n_features < 0:
        raise _damaged("n_features is negative")
    if names is not None and len(names) != n_features:
        raise _damaged(f"{len(names)} names for {n_features} features")
    return metadata


def _damaged(why: str) -> SchemaError:
    return SchemaError(
        f"the schema's 'rankine' metadata entry is damaged: {why}",
        fix="Write the file again, or remove that entry",
    )


def encode_metadata(metadata: FileMetadata) -> dict[bytes, bytes]:
    """Return schema metadata that ``read_metadata`` reads."""
    return {_METADATA_KEY: msgspec.json.encode(metadata)}


def _check_distinct(schema: pa.Schema) -> None:
    if len(set(schema.names)) == len(schema.names):
        return
    name = next(name for k, name in enumerate(schema.names) if name in schema.names[:k])
    raise SchemaError(f"two columns are called {name!r}", fix="Rename one of them", column=name)


def _role(schema: pa.Schema, options: ReadOptions, role: str) -> str | None:
    """Return the column of a role; None if the column is optional and absent."""
    name = getattr(options, role)
    if name is None or (role == "query" and not options.has_query_ids):
        return None
    # A column called docid, weight or position has that role; another name must exist.
    if name not in schema.names and role in _OPTIONAL and name == role:
        return None
    require_column(schema, name, role)
    return str(name)


def require_column(schema: pa.Schema, name: str, parameter: str) -> None:
    """Refuse a missing column that ``parameter`` names."""
    if name in schema.names:
        return
    columns = ", ".join(repr(column) for column in schema.names[:12])
    if len(schema.names) > 12:
        columns += f" and {len(schema.names) - 12} more"
    fix = "Name the right column"
    if parameter == "columns":
        fix = "Add it to the file, or name another column"
    # Bounded, since comparing names takes the product of their lengths.
    close = get_close_matches(name[:200], schema.names[:10_000], n=1)
    if close:
        fix = f"Did you mean {close[0]!r}? {fix}"
    if parameter == "label" and set(name) & set("+-*/<>()"):
        fix = (
            "Only a raw log has a formula as its label: name its features too, with numeric, "
            "categorical or one_hot"
        )
    raise SchemaError(
        f"no column {name!r}; the file holds {columns}",
        parameter=parameter,
        fix=fix,
        column=name,
    )


def _choose_features(
    schema: pa.Schema, options: ReadOptions, not_features: set[str | None]
) -> tuple[tuple[str, ...], bool]:
    """Return the feature columns, and whether they are the two lists of the sparse layout."""
    if options.features is not None:
        names = tuple(options.features)
        if len(set(names)) != len(names):
            raise ParameterError(
                "a column is named twice", parameter="features", fix="Name each column once"
            )
        for name in names:
            require_column(schema, name, "features")
    else:
        names = tuple(name for name in schema.names if name not in not_features)
        if _are_lists(schema, SPARSE) and set(SPARSE) <= set(names):
            names = SPARSE
    if _are_lists(schema, names):
        _check_lists(schema, names)
        return names, True
    for name in names:
        _check_feature(schema.field(name))
    return names, False


def _are_lists(schema: pa.Schema, names: tuple[str, ...]) -> bool:
    return len(names) == 2 and all(
        name in schema.names and is_list(schema.field(name).type) for name in names
    )


def _check_lists(schema: pa.Schema, names: tuple[str, ...]) -> None:
    for name, is_valid in zip(names, (pt.is_integer, is_number), strict=True):
        item_type = schema.field(name).type.value_type
        if not is_valid(item_type):
            raise SchemaError(
                f"column {name!r} holds lists of {item_type}",
                fix="Sparse rows need a list of integers and a list of numbers",
                column=name,
            )


def _check_feature(field: pa.Field) -> None:
    if is_number(field.type):
        return
    if pt.is_dictionary(field.type) or is_text(field.type):
        fix = (
            "Set features to the numeric columns; add this one to columns to hash or one-hot it, "
            "or leave it out"
        )
    else:
        fix = "Set features to the numeric columns, or cast this one to float"
    raise SchemaError(
        f"feature column {field.name!r} is of type {field.type}, not a number",
        fix=fix,
        column=field.name,
    )


def _dtype(
    schema: pa.Schema, features: tuple[str, ...], sparse: bool, options: ReadOptions
) -> np.dtype[Any]:
    """Return the type of the matrix: float32 if all stored values are, unless the caller chose."""
    if options.dtype is not None:
        return np.dtype(options.dtype)
    if sparse:
        types = [schema.field(features[1]).type.value_type]
    else:
        types = [schema.field(name).type for name in features]
    # float32 stays float32, which halves the memory and changes no value.
    if types and all(pt.is_float32(t) or pt.is_float16(t) for t in types):
        return np.dtype(np.float32)
    return np.dtype(np.float64)


def _dense_width(
    options: ReadOptions, metadata: FileMetadata, features: tuple[str, ...]
) -> tuple[int, tuple[str, ...] | None]:
    width = len(features)
    if options.n_features is not None and width != options.n_features:
        raise SchemaError(
            f"{width} feature columns, not {options.n_features}",
            parameter="n_features",
            fix="Set features to the columns to use, or leave it out",
        )
    # Names that the caller gave are attached by load and scan, to every format alike.
    numbered = not metadata.named and metadata.n_features == width
    names = None if numbered or options.feature_names is not None else features
    return _check_width(width, names, options), names


def _sparse_width(
    options: ReadOptions, metadata: FileMetadata
) -> tuple[int | None, tuple[str, ...] | None]:
    if metadata.base is not None and metadata.base != options.base:
        raise SchemaError(
            f"{options.base}, but the metadata of the file state that its indices count from "
            f"{metadata.base}",
            parameter="base",
            fix=f"Pass {metadata.base}",
        )
    names = metadata.feature_names if options.feature_names is None else None
    # What the caller states comes first, then what the file states; else the rows are measured.
    width = options.n_features
    if width is None:
        width = metadata.n_features if names is None else len(names)
    if width is None:
        return None, None
    return _check_width(width, names, options), names


def _check_width(width: int, names: tuple[str, ...] | None, options: ReadOptions) -> int:
    """Return the width of a matrix; refuse one above the limit or unlike the number of names."""
    if not 0 <= width <= options.max_features:
        raise LimitError(
            f"the file has {width} features, more than {options.max_features}",
            parameter="max_features",
            fix="Raise the limit if this is meant",
        )
    if names is not None and len(names) != width:
        raise SchemaError(
            f"{len(names)} feature names for {width} features", fix="Give every feature one name"
        )
    return width
