"""Weights as a scorer looks them up: one array, or a small hash table in a huge feature space.

The array is faster (one load, no branch); the table's memory follows the model's weights and not
its feature space, so that a server can hold thousands of models over 2^24 hashed features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.dispatch import question

__all__ = ["DenseTable", "HashTable", "Table", "build_table", "slot_of", "weight_of"]

#: Slots per weight: most absent features then meet an empty slot at the first look.
_SLOTS_PER_WEIGHT = 8
_ARRAY_UP_TO = 1 << 21
_EMPTY = np.uint32(0xFFFFFFFF)
#: Knuth's multiplier, 2^32 / golden ratio; features are below 2^31, so products fit 64 bits.
_KNUTH = np.uint64(2654435769)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


class DenseTable(NamedTuple):
    """Slot j holds the weight of feature j."""

    values: NDArray[np.float64]


class HashTable(NamedTuple):
    """Open addressing with linear probing; ``keys`` holds features, empty slots 2^32 - 1."""

    keys: NDArray[np.uint32]
    values: NDArray[np.float64]
    shift: np.uint64


Table = DenseTable | HashTable


@question
def slot_of(table: Table, j: Any) -> Any:
    """Slot of feature j (unsigned), or ``len(table.values)`` where its weight is zero."""


@question
def weight_of(table: Table, j: Any) -> Any:
    """Weight of feature j, zero where it has none."""


@slot_of.answer(DenseTable)
def _dense_slot(table: Any, j: Any) -> Any:
    return j


@slot_of.answer(HashTable)
def _hashed_slot(table: Any, j: Any) -> Any:
    size = np.uint64(table.keys.shape[0])
    slot = ((j * _KNUTH) & _LOW) >> table.shift
    key = table.keys[slot]
    while key != _EMPTY:
        if np.uint64(key) == j:
            return slot
        slot = (slot + _ONE) & (size - _ONE)
        key = table.keys[slot]
    return size


@weight_of.answer(DenseTable)
def _dense_weight(table: Any, j: Any) -> Any:
    return table.values[j]


@weight_of.answer(HashTable)
def _hashed_weight(table: Any, j: Any) -> Any:
    slot = slot_of(table, j)
    return table.values[slot] if slot < np.uint64(table.values.shape[0]) else 0.0


def build_table(
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    n_features: int,
    *,
    small: bool | None = None,
) -> Table:
    """The table of a model.

    ``small`` asks for the hash table (True) or the array (False); None takes the array up to 2^21
    features (16 MB), and wherever the hash table would be no smaller.
    """
    slots = _SLOTS_PER_WEIGHT * max(len(indices), 8)
    if small is None:
        small = n_features > _ARRAY_UP_TO
    if not small or n_features <= 2 * slots:
        dense = np.zeros(n_features)
        dense[indices] = values
        return DenseTable(dense)
    bits = int(slots - 1).bit_length()
    keys = np.full(1 << bits, _EMPTY, dtype=np.uint32)
    held = np.zeros(1 << bits)
    mask, shift = (1 << bits) - 1, 32 - bits
    for j, value in zip(indices.tolist(), values.tolist(), strict=True):
        slot = ((j * 2654435769) & 0xFFFFFFFF) >> shift
        while keys[slot] != _EMPTY:
            slot = (slot + 1) & mask
        keys[slot] = j
        held[slot] = value
    return HashTable(keys, held, np.uint64(shift))
