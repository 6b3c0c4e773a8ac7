"""Everything compiled before the first request."""

from __future__ import annotations

import msgspec
import numpy as np

from rankine.core.specs import ListRange, LogColumns
from rankine.model import LinearModel
from rankine.scoring import Scorer
from rankine.serve.items import CsrList
from rankine.serve.reading import structural_colons
from rankine.serve.uniform import uniform_table

__all__ = ["compile_kernels"]

#: A feature space in which a few weights are kept in a hash table.
_WIDE = 1 + (1 << 12)
_LOG = LogColumns(numeric=("number",), hashed=("text",), hash_bits=12)


def compile_kernels() -> None:
    """Score one row with every kind of weight table, with and without per-list scaling."""
    structural_colons(b'{"a":1}')
    table = uniform_table([msgspec.Raw(b'{"1":1.5}')], 1)
    indptr, indices = np.array([0, 1, 2]), np.array([0, 0])
    rows = CsrList(indptr, indices, np.array([1.0, 2.0]), (2, _WIDE))
    weights = np.zeros(_WIDE)
    weights[0] = 1.0
    scalings: tuple[tuple[ListRange, ...], ...] = ((), (ListRange(),))
    for transforms in scalings:
        model = LinearModel.from_weights(weights, transforms=transforms)
        for small in (False, True):
            scorer = Scorer(model, small=small)
            scorer.rank(rows)
            scorer.rank(table)
            raw = LinearModel.from_weights(weights, transforms=(_LOG, *transforms))
            Scorer(raw, small=small).rank([{"number": 1.0, "text": "a"}])
