"""Encode the categorical columns of frames that are passed to ``fit``.

Such a frame is read as a raw log, so that models, predictions and exports treat its columns as
those of a log. Columns of numbers are features; each category is a feature, or an entry of a table.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import ParameterError, SchemaError
from rankine.data.frames import category_columns, in_memory, take_qid, to_table
from rankine.data.query_index import QueryIndex

if TYPE_CHECKING:
    from rankine.rankers.inputs import FitArguments


def encode_categories(arguments: FitArguments) -> FitArguments:
    """Return arguments of ``fit`` in which a frame with categories is an encoded dataset."""
    X = in_memory(arguments.X)
    categories = category_columns(X)
    if not categories:
        return arguments
    # Encodings of logs are a layer above. Imported by name, and only for such frames.
    scan = importlib.import_module("rankine.logs.source").scan
    table, roles = _labelled_table(
        X, arguments.y, arguments.qid, arguments.group, arguments.sample_weight
    )
    numeric = [name for name in table.column_names if name not in (*categories, *roles.values())]
    log = scan(table, **roles, numeric=numeric, one_hot=categories)
    return replace(arguments, X=log.load(), y=None, qid=None, group=None, sample_weight=None)


def _labelled_table(
    X: Any, y: Any, qid: Any, group: Any, weight: Any
) -> tuple[Any, dict[str, str]]:
    """Return the rows with labels and query ids as columns, lists together, and their names."""
    import pyarrow as pa

    if y is None:
        raise SchemaError("requires y to be passed, but the target y is None", fix="Pass labels")
    X, frame_qid = take_qid(X)
    table = to_table(X)
    n_rows = table.num_rows
    if group is not None:
        if qid is not None:
            raise SchemaError("both qid and group were given", fix="Pass one of them")
        index = QueryIndex.from_group(group, n_rows)
    else:
        ids = frame_qid if qid is None else qid
        index = QueryIndex.from_qid(np.zeros(n_rows, np.int64) if ids is None else ids, n_rows)
    columns = {"query": index.ids[index.codes], "label": np.asarray(y).ravel()}
    if weight is not None:
        columns["weight"] = np.asarray(weight, dtype=np.float64)
    roles: dict[str, str] = {}
    for role, values in columns.items():
        name = "qid" if role == "query" else role
        while name in table.column_names:
            name += "_"
        if len(values) != n_rows:
            raise ParameterError(
                f"{len(values)} values for {n_rows} rows",
                parameter={"label": "y", "weight": "sample_weight"}.get(role, "qid"),
                fix="Pass one value per row",
            )
        roles[role] = name
        array = pa.array(values.tolist()) if values.dtype.kind in "UTO" else pa.array(values)
        table = table.append_column(name, array)
    # A log has the rows of a list together.
    order = np.argsort(index.codes, kind="stable")
    if (np.diff(order) != 1).any():
        table = table.take(pa.array(order))
    return table, roles
