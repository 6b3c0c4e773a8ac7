"""Rows with known scores, stored in a model so that a server can test itself before it swaps.

The rows are made up, never taken from training data: a model file must not leak a log.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from rankine.core.specs import ListRange

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MAX_PROBES", "Probe", "Probes", "make_probes"]

MAX_PROBES = 16
_ROWS = 4
_WEIGHTS = 16


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row: positions and values in the model's feature space, or raw columns of a log."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    raw: dict[str, str | int | float | bool | None] | None = None


class Probes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of one list and the scores that the model must give them."""

    rows: tuple[Probe, ...]
    scores: tuple[float, ...]


def make_probes(
    indices: Sequence[int], values: Sequence[float], transforms: Sequence[Any]
) -> Probes | None:
    """Four made-up rows over at most 16 of the weights, scored in plain Python.

    None for a model without weights or with weights near the largest number, and for transforms
    that this arithmetic does not know.
    """
    if not indices or any(not isinstance(spec, ListRange) for spec in transforms):
        return None
    step = max(1, len(indices) // _WEIGHTS)
    kept = range(0, len(indices), step)[:_WEIGHTS]
    width = range(len(kept))
    rows = [[((7 * i + 5 * k + i * k) % 17 - 8) / 4 for k in width] for i in range(_ROWS)]
    scaled = [_by_range(rows, k) if transforms else [row[k] for row in rows] for k in width]
    terms = [[values[p] * scaled[k][i] for k, p in enumerate(kept)] for i in range(_ROWS)]
    # Weights so large that a sum overflows cannot be tested by one.
    if not math.isfinite(sum(abs(term) for row in terms for term in row)):
        return None
    scores = [math.fsum(row) for row in terms]
    positions = tuple(int(indices[p]) for p in kept)
    return Probes(tuple(Probe(positions, tuple(row)) for row in rows), tuple(scores))


def _by_range(rows: Sequence[Sequence[float]], k: int) -> list[float]:
    column = [row[k] for row in rows]
    span = max(column) - min(column)
    return [x / span if span > 0 else 0.0 for x in column]
