"""The test before serving: the rows stored in a model must score as they did when it was saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankine.core.errors import ModelError
from rankine.scoring.lists import Parts

if TYPE_CHECKING:
    from rankine.scoring.scorer import Scorer

__all__ = ["self_test"]

#: Relative to the largest score: sums may be added in another order, nothing more.
_TOLERANCE = 1e-9


def self_test(scorer: Scorer) -> None:
    """Score the model's probes; a model without probes must still score a row of zeros."""
    model = scorer.model
    probes = model.probes
    if probes is None:
        empty = np.zeros(2, dtype=np.int64)
        scorer.score(Parts(empty, empty[:0], np.zeros(0)))
        return
    if probes.rows[0].raw is not None:
        scores = scorer.score([dict(row.raw or {}) for row in probes.rows])
    else:
        ends = np.cumsum([0, *(len(row.indices) for row in probes.rows)])
        indices = np.array([j for row in probes.rows for j in row.indices], dtype=np.int64)
        data = np.array([x for row in probes.rows for x in row.values], dtype=np.float64)
        scores = scorer.score(Parts(ends.astype(np.int64), indices, data))
    stored = np.array(probes.scores)
    gap = float(np.abs(scores - stored).max())
    if not gap <= _TOLERANCE * max(1.0, float(np.abs(stored).max())):
        raise ModelError(
            f"the model's stored rows score up to {gap:.3g} away from their stored scores",
            fix="Save the model again with the version of rankine that serves it",
        )
