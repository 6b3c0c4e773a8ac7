"""What metrics and list losses read of the data: gains, relevance, discounts, named columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LabelError, ParameterError, SchemaError
from rankine.data.query_index import QueryIndex
from rankine.kernels.compile import jit

#: Columns of marks that are honoured when the data has them.
_USUAL = ("displayed", "retrieved")


def _column(name: str, columns: Mapping[str, Any], n_rows: int, use: str) -> NDArray[Any]:
    if name not in columns or columns[name] is None:
        have = ", ".join(sorted(columns)) or "none"
        raise SchemaError(
            f"the metric takes its {use} from column {name!r}, which the data lacks",
            fix=f"Pass columns={{{name!r}: ...}} or load that column; the data has: {have}",
        )
    values = np.asarray(columns[name])
    if values.shape != (n_rows,):
        raise SchemaError(
            f"column {name!r} has shape {values.shape} for {n_rows} rows",
            fix="Pass one value per row",
        )
    return values


def number_column(
    name: str, columns: Mapping[str, Any], n_rows: int, use: str
) -> NDArray[np.float64]:
    """A column of finite numbers."""
    values = _column(name, columns, n_rows, use)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise SchemaError(f"column {name!r} is not numeric", fix="Pass numbers") from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise SchemaError(
            f"column {name!r} holds {numbers[bad[0]]} at row {bad[0]}", fix="Pass finite numbers"
        )
    return numbers


def cutoffs(
    cutoff: int | str | None, queries: QueryIndex, columns: Mapping[str, Any]
) -> NDArray[np.int64]:
    """Ranks that count, per query; a column must be constant within each query."""
    if cutoff is None:
        return queries.sizes.astype(np.int64)
    if isinstance(cutoff, int):
        return np.full(queries.n_queries, cutoff, dtype=np.int64)
    values = queries.gather(number_column(cutoff, columns, queries.n_rows, "cutoff"))
    first = values[queries.starts[:-1]]
    changed = np.flatnonzero(values != np.repeat(first, queries.sizes))
    if len(changed):
        query = queries.ids[np.searchsorted(queries.starts, changed[0], side="right") - 1]
        raise SchemaError(
            f"column {cutoff!r} changes within query {query}", fix="Give each query one cutoff"
        )
    if (first < 1).any() or (first != np.floor(first)).any():
        worst = first[(first < 1) | (first != np.floor(first))][0]
        raise SchemaError(
            f"column {cutoff!r} holds {worst:g}, which is no cutoff", fix="Use integers from 1"
        )
    return first.astype(np.int64)


def marks(name: str | None, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.bool_] | None:
    """True where a column of marks is not 0; None when nothing is marked."""
    if name in (None, "none") or (name in _USUAL and columns.get(name) is None):
        return None
    return number_column(str(name), columns, n_rows, "marks") != 0


def docid_key(columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
    """Rank of each document id in descending order (as trec_eval breaks ties)."""
    ids = _column("docid", columns, n_rows, "order of ties")
    _, ascending = np.unique(ids.astype(str), return_inverse=True)
    return -ascending.astype(np.float64)


#: 2^label - 1 is exact, and useful, up to here.
MAX_EXP_LABEL = 31

_LINEAR = "use linear gain (ndcg@10:gain=linear), or give gains in a column (gain=COLUMN)"

_MAX = "set the task's highest label, as in err:max_label=5"


def gain_values(
    gain: str,
    y: NDArray[np.float64],
    columns: Mapping[str, Any],
    max_label: int | None = None,
) -> NDArray[np.float64]:
    """Gains of labels: exp, linear, a table, or a column; never negative.

    With ``max_label`` (ERR) exponential gains end there, and other gains are probabilities.
    """
    if gain == "exp":
        top = MAX_EXP_LABEL if max_label is None else max_label
        what = "exponential gain" if max_label is None else f"max_label={max_label}"
        return _by_table(y, np.exp2(np.arange(top + 1.0)) - 1.0, what)
    values = _other_gains(gain, y, columns)
    if max_label is not None and len(values) and values.max() > 1:
        raise LabelError(
            f"gain={gain} reaches {values.max():g}, but here gains are probabilities",
            fix="Divide them by their largest possible value",
        )
    return values


def _other_gains(
    gain: str, y: NDArray[np.float64], columns: Mapping[str, Any]
) -> NDArray[np.float64]:
    if gain == "linear":
        values = y
    elif "," in gain or re.fullmatch(r"[\d.]+", gain):
        return _by_table(y, _table(gain), f"the gain table {gain}")
    else:
        values = number_column("gain" if gain == "given" else gain, columns, len(y), "gain")
    if len(values) and values.min() < 0:
        row = int(np.argmin(values))
        raise LabelError(
            f"row {row} has gain {values[row]:g}, which is negative",
            fix="Shift the labels to start at 0, or use a pairwise metric (pairwise-error, auc)",
        )
    return values


def relevance(y: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """1 where the label reaches the threshold, else 0."""
    return (y >= threshold).astype(np.float64)


def _table(text: str) -> NDArray[np.float64]:
    try:
        table = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise ParameterError(
            f"gain={text} is not a table of numbers", fix="Write gain=0,1,3 for labels 0, 1, 2"
        ) from None
    if not np.isfinite(table).all() or (table < 0).any():
        raise ParameterError(f"gain={text} holds a negative or infinite gain", fix="Use gains >= 0")
    return table


def _by_table(y: NDArray[np.float64], table: NDArray[np.float64], what: str) -> NDArray[np.float64]:
    out = np.empty(len(y))
    bad = _look_up(y, table, out)
    if bad >= 0:
        raise LabelError(
            f"row {bad} has label {y[bad]:g}, but {what} takes the labels 0, 1, ..., "
            f"{len(table) - 1}",
            fix=_MAX if what.startswith("max_label") else _LINEAR,
        )
    return out


@jit
def _look_up(y: Any, table: Any, out: Any) -> int:
    """out[i] = table[y[i]]; the first row whose label is not in the table, or -1."""
    top = table.shape[0] - 1
    for i in range(y.shape[0]):
        if not 0.0 <= y[i] <= top:
            return i
        label = np.int64(y[i])
        if label != y[i]:
            return i
        out[i] = table[label]
    return -1


def discounts(kind: str, size: int) -> NDArray[np.float64]:
    """The first ``size`` discounts.

    ``std``: 1/log2(r + 1) (Järvelin and Kekäläinen 2002 as used today; Burges et al. 2005).
    ``paper``: 1/(log2(r) + 1), as printed by Freno et al. 2015, eq. 1.
    ``letor``: 1/max(1, log2 r), the LETOR and MSLR scripts.
    """
    ranks = np.arange(1, size + 1, dtype=np.float64)
    if kind == "std":
        return 1.0 / np.log2(ranks + 1.0)
    if kind == "paper":
        return 1.0 / (np.log2(ranks) + 1.0)
    return 1.0 / np.maximum(1.0, np.log2(ranks))
