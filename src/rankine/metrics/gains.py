"""Inputs of metrics and list losses: gains, relevance, discounts and named columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LabelError, ParameterError, SchemaError
from rankine.data.expressions import Expression, parse_expression
from rankine.data.query_index import QueryIndex, id_texts
from rankine.kernels.compile import jit
from rankine.transforms.categories import distinct

#: Flag columns that are used by default, if the data has them.
_DEFAULT_FLAGS = ("displayed", "retrieved")


def _column(name: str, columns: Mapping[str, Any], n_rows: int, use: str) -> NDArray[Any]:
    if name not in columns or columns[name] is None:
        available = ", ".join(sorted(columns)) or "none"
        raise SchemaError(
            f"the metric reads its {use} from this column, which the data lacks",
            fix=f"Pass columns={{{name!r}: ...}} or load that column; the data has: {available}",
            column=name,
        )
    values = np.asarray(columns[name])
    if values.shape != (n_rows,):
        raise SchemaError(
            f"the shape is {values.shape} for {n_rows} rows",
            fix="Pass one value per row",
            column=name,
        )
    return values


def gain_formula(gain: str | None) -> Expression | None:
    """Return a gain as a formula over columns; None if the gain is a function of the label."""
    if gain in (None, "exp", "linear") or re.search(r",|^[\d.]+$", str(gain)):
        return None
    return parse_expression("gain" if gain == "given" else str(gain))


def formula_values(
    formula: Expression, columns: Mapping[str, Any], n_rows: int, use: str
) -> NDArray[np.float64]:
    """Return a formula over columns as finite numbers; ``use`` names its purpose in errors."""
    if formula.is_column:
        return number_column(formula.columns[0], columns, n_rows, use)
    return formula({name: _column(name, columns, n_rows, use) for name in formula.columns})


def group_numbers(name: str, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
    """Return the number of each row's category in a column, from 1; 0 where it is missing."""
    _column(name, columns, n_rows, "groups")
    values, codes = distinct(columns, (name,))
    numbers: dict[Any, int] = {}
    value_numbers = np.zeros(len(values))
    for i, value in enumerate(values):
        if value not in ("", None):
            value_numbers[i] = numbers.setdefault(value, len(numbers) + 1)
    return value_numbers if codes is None else value_numbers[codes]


def number_column(
    name: str, columns: Mapping[str, Any], n_rows: int, use: str
) -> NDArray[np.float64]:
    """Return a column as finite float64 numbers; ``use`` names its purpose in errors."""
    values = _column(name, columns, n_rows, use)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise SchemaError("the column is not numeric", fix="Pass numbers", column=name) from None
    bad_rows = np.flatnonzero(~np.isfinite(numbers))
    if len(bad_rows):
        raise SchemaError(
            f"the value is {numbers[bad_rows[0]]}",
            fix="Pass finite numbers",
            column=name,
            row=int(bad_rows[0]),
        )
    return numbers


def cutoffs(
    cutoff: int | str | None, queries: QueryIndex, columns: Mapping[str, Any]
) -> NDArray[np.int64]:
    """Return the cutoff of each query: all ranks, one number, or a column of numbers.

    A column must be constant within each query.
    """
    if cutoff is None:
        return queries.sizes.astype(np.int64)
    if isinstance(cutoff, int):
        return np.full(queries.n_queries, cutoff, dtype=np.int64)
    values = queries.gather(number_column(cutoff, columns, queries.n_rows, "cutoff"))
    # The first row of each query represents it; all others must agree.
    query_values = values[queries.starts[:-1]]
    deviating = np.flatnonzero(values != np.repeat(query_values, queries.sizes))
    if len(deviating):
        query = queries.ids[np.searchsorted(queries.starts, deviating[0], side="right") - 1]
        raise SchemaError(
            f"the cutoff changes within query {query}",
            fix="Give each query one cutoff",
            column=cutoff,
        )
    invalid = (query_values < 1) | (query_values != np.floor(query_values))
    if invalid.any():
        raise SchemaError(
            f"{query_values[invalid][0]:g} is not a cutoff",
            fix="Use integers from 1",
            column=cutoff,
        )
    return query_values.astype(np.int64)


def flag_column(
    name: str | None, columns: Mapping[str, Any], n_rows: int
) -> NDArray[np.bool_] | None:
    """Return whether each value of a flag column is not 0; None if no column applies."""
    if name in (None, "none") or (name in _DEFAULT_FLAGS and columns.get(name) is None):
        return None
    return number_column(str(name), columns, n_rows, "flags") != 0


def docid_key(columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
    """Return a sort key that orders document ids descending, as trec_eval breaks ties."""
    ids = _column("docid", columns, n_rows, "tie order")
    # Compared as text, as trec_eval compares them.
    _, ascending = np.unique(id_texts(ids), return_inverse=True)
    return -ascending.astype(np.float64)


#: Largest label of exponential gains: 2^label - 1 is an exact 32-bit integer up to here.
MAX_EXP_LABEL = 31

_LINEAR_FIX = "Use linear gain (ndcg@10:gain=linear), or give gains in a column (gain=COLUMN)"
_MAX_LABEL_FIX = "Set the task's highest label, as in err:max_label=5"


def gain_values(
    gain: str,
    y: NDArray[np.float64],
    columns: Mapping[str, Any],
    max_label: int | None = None,
) -> NDArray[np.float64]:
    """Return the gain of each row: exponential, linear, from a table or from a column.

    With ``max_label`` (ERR), exponential gains end at that label and other gains must be
    probabilities. Gains are never negative.
    """
    if gain == "exp" and max_label is None:
        table = np.exp2(np.arange(MAX_EXP_LABEL + 1.0)) - 1.0
        return _look_up_gains(y, table, "exponential gain", _LINEAR_FIX)
    if gain == "exp":
        table = np.exp2(np.arange(max_label + 1.0)) - 1.0  # type: ignore[operator]
        return _look_up_gains(y, table, f"max_label={max_label}", _MAX_LABEL_FIX)
    gains = _explicit_gains(gain, y, columns)
    if max_label is not None and len(gains) and gains.max() > 1:
        raise LabelError(
            f"gain={gain} reaches {gains.max():g}, but the gains of ERR are probabilities",
            fix="Divide the gains by their largest possible value",
        )
    return gains


def _explicit_gains(
    gain: str, y: NDArray[np.float64], columns: Mapping[str, Any]
) -> NDArray[np.float64]:
    formula = gain_formula(gain)
    if formula is not None:
        gains = formula_values(formula, columns, len(y), "gain")
    elif gain == "linear":
        gains = y
    else:
        return _look_up_gains(y, _parse_table(gain), f"the gain table {gain}", _LINEAR_FIX)
    # DCG of negative gains would reward ranking bad rows lower than absent ones.
    if len(gains) and gains.min() < 0:
        row = int(np.argmin(gains))
        raise LabelError(
            f"the gain is {gains[row]:g}, which is negative",
            fix="Shift the labels to start at 0, or use a pairwise metric (pairwise-error, auc)",
            row=row,
        )
    return gains


def relevance(y: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Return 1 for labels of at least the threshold, else 0."""
    return (y >= threshold).astype(np.float64)


def _parse_table(text: str) -> NDArray[np.float64]:
    try:
        table = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise ParameterError(
            f"gain={text} is not a table of numbers", fix="Write gain=0,1,3 for labels 0, 1, 2"
        ) from None
    if not np.isfinite(table).all() or (table < 0).any():
        raise ParameterError(f"gain={text} holds a negative or infinite gain", fix="Use gains >= 0")
    return table


def _look_up_gains(
    y: NDArray[np.float64], table: NDArray[np.float64], name: str, fix: str
) -> NDArray[np.float64]:
    gains = np.empty(len(y))
    row = _look_up(y, table, gains)
    if row >= 0:
        raise LabelError(
            f"the label is {y[row]:g}, but {name} allows the labels 0, 1, ..., {len(table) - 1}",
            fix=fix,
            row=row,
        )
    return gains


@jit
def _look_up(y: Any, table: Any, out: Any) -> int:
    """Set out[i] = table[y[i]]; return the first row whose label is not in the table, or -1."""
    top = table.shape[0] - 1
    for i in range(y.shape[0]):
        # This comparison is false for NaN as well.
        if not 0.0 <= y[i] <= top:
            return i
        label = np.int64(y[i])
        if label != y[i]:
            return i
        out[i] = table[label]
    return -1


def discounts(kind: str, size: int) -> NDArray[np.float64]:
    """Return the discounts of the first ``size`` ranks.

    ``std``: 1/log2(r + 1) (Järvelin and Kekäläinen 2002 as used today; Burges et al. 2005).
    ``paper``: 1/(log2(r) + 1), as printed by Freno et al. 2015, eq. 1.
    ``letor``: 1/max(1, log2 r), the LETOR and MSLR scripts.
    ``none``: 1, for sums of gains such as money.
    """
    if kind == "none":
        return np.ones(size)
    ranks = np.arange(1, size + 1, dtype=np.float64)
    if kind == "std":
        return 1.0 / np.log2(ranks + 1.0)
    if kind == "paper":
        return 1.0 / (np.log2(ranks) + 1.0)
    return 1.0 / np.maximum(1.0, np.log2(ranks))
