"""Rows with known scores, stored in a model so that a server can test itself before it swaps."""

from __future__ import annotations

import msgspec

__all__ = ["MAX_PROBES", "Probe", "Probes"]

MAX_PROBES = 16


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row: positions and values in the model's feature space, or raw columns of a log."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    raw: dict[str, str | int | float | bool | None] | None = None


class Probes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of one list and the scores that the model must give them."""

    rows: tuple[Probe, ...]
    scores: tuple[float, ...]
