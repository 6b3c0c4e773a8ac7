"""Made-up raw rows that a model of a log is tested by before it serves.

A model file must not leak a log: no row here was ever seen. Categories are those the file names
anyway, in its one-hot lists and the names of its weights, dealt out so that no row repeats one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from rankine.core.specs import LogColumns
from rankine.data.dataset import Dataset, make_csr, row_scores
from rankine.model.weights import Probe, Probes
from rankine.transforms.log_columns import LogEncoder

__all__ = ["log_probes"]

_ROWS = 4


def log_probes(ranker: Any, spec: LogColumns, names: Sequence[str]) -> Probes:
    """Four rows of one list with their scores.

    Parameters
    ----------
    ranker
        Fitted: its scaling and weights give the scores.
    spec
        Columns of the log.
    names
        Names of the non-zero weights, such as ``brand=acme``.
    """
    rows = [_row(spec, names, i) for i in range(_ROWS)]
    columns = {name: [row[name] for row in rows] for name in spec.columns}
    encoded = LogEncoder(spec).encode(columns, _ROWS)
    X = make_csr(encoded.values, encoded.indices, encoded.indptr, (_ROWS, spec.n_features))
    one_list = Dataset(X, np.zeros(_ROWS), np.zeros(_ROWS, dtype=np.int64))
    scores = row_scores(ranker.scaling_.apply(one_list).X, ranker.coef_)
    return Probes(tuple(Probe(raw=row) for row in rows), tuple(scores.tolist()))


def _row(spec: LogColumns, names: Sequence[str], i: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(spec.columns, f"made up {i}")
    for k, name in enumerate(spec.numeric):
        row[name] = ((7 * i + 5 * k + i * k) % 17 - 8) / 4
    for k, field in enumerate(spec.one_hot):
        row[field.column] = _dealt(field.values, i, k, row[field.column])
    for k, column in enumerate(spec.hashed):
        start = f"{column}="
        known = islice((name for name in names if name.startswith(start)), 2 * _ROWS)
        values = [name.removeprefix(start) for name in known]
        row[column] = _dealt(values, i, k, row[column])
    return row


def _dealt(values: Sequence[str], i: int, k: int, otherwise: str) -> str:
    """The value of row i in the k-th column: neighbouring columns start at different places."""
    return values[(i + k) % len(values)] if values else otherwise
