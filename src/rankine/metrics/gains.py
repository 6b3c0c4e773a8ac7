"""What stands in a ranked list: the gain of each label, or whether it is relevant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LabelError, ParameterError
from rankine.kernels.compile import jit
from rankine.metrics.columns import number_column

__all__ = ["MAX_EXP_LABEL", "gain_values", "relevance"]

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
