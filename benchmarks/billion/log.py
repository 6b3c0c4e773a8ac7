"""A seeded raw log of any length, file by file, whose true weights are known.

Lists of ten impressions: three categorical and three numeric columns, about 16 bytes a row in
Parquet. One impression of a list is clicked, i with probability p_i = exp(u_i) / sum exp(u), where
u is the sum of an effect of each category and of the weighted numbers. Every row is drawn by its
number and the seed alone: file k is the same whoever writes it, and no row comes twice.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankine.kernels.compile import jit
from rankine.kernels.random import random_bits

LIST_ROWS = 10
GROUP_ROWS = 1_000_000
CATEGORICAL = {"brand": 1000, "shop": 5000, "category": 200}
NUMERIC = {"price": -0.8, "rating": 0.6, "age": 0.3}
#: Effects of categories are drawn with this deviation, and spread over all of them.
EFFECT = 0.7


def truth(seed=0):
    """Return the effect of every value of each categorical column."""
    rng = np.random.default_rng(seed)
    return {name: EFFECT * rng.standard_normal(size) for name, size in CATEGORICAL.items()}


@jit
def _draw(first, seed, brand, shop, category, slopes, codes, numbers, chances, clicked):
    """Draw whole lists from row number ``first`` on; write click probabilities to ``chances``."""
    unit = 1.0 / 2.0**53
    effects = (brand, shop, category)
    for i in range(clicked.shape[0]):
        row = first + i
        utility = 0.0
        for j in range(3):
            bits = random_bits(seed, np.int64(8 * row + j))
            u = np.float64(bits >> np.uint64(11)) * unit
            size = effects[j].shape[0]
            code = min(np.int64(size * u * u), size - 1)  # the first values are the frequent ones
            codes[j, i] = code
            utility += effects[j][code]
        for j in range(3):
            bits = random_bits(seed, np.int64(8 * row + 3 + j))
            total = 0.0  # four uniform numbers: nearly normal
            for k in range(4):
                total += np.float64((bits >> np.uint64(16 * k)) & np.uint64(65535))
            x = np.float32((total / 65536.0 - 2.0) * 1.7320508)
            numbers[j, i] = x
            utility += slopes[j] * x
        chances[i] = np.exp(utility)
    for start in range(0, clicked.shape[0], 10):
        total = 0.0
        for i in range(start, start + 10):
            total += chances[i]
        bits = random_bits(seed, np.int64(8 * (first + start) + 6))
        remaining = np.float64(bits >> np.uint64(11)) * unit * total
        clicked_row = start
        for i in range(start, start + 10):
            if remaining >= 0.0:
                clicked_row = i
            remaining -= chances[i]
        for i in range(start, start + 10):
            chances[i] /= total
            clicked[i] = i == clicked_row


def rows(first, count, seed=0):
    """Draw ``count`` rows from number ``first`` on: codes, numbers, click probabilities, clicks."""
    effects = truth(seed)
    codes = np.empty((3, count), dtype=np.int32)
    numbers = np.empty((3, count), dtype=np.float32)
    chances, clicked = np.empty(count), np.empty(count, dtype=np.int8)
    slopes = np.array(list(NUMERIC.values()))
    _draw(first, np.uint64(seed), *effects.values(), slopes, codes, numbers, chances, clicked)
    return codes, numbers, chances, clicked


def table(first, count, seed=0, *, judged=False):
    """Return the rows as an Arrow table; if ``judged``, labels are click probabilities."""
    codes, numbers, chances, clicked = rows(first, count, seed)
    columns = {
        "session": pa.array(np.arange(first, first + count, dtype=np.int64) // LIST_ROWS),
        "clicked": pa.array(chances if judged else clicked),
    }
    for j, (name, size) in enumerate(CATEGORICAL.items()):
        values = pa.array([f"{name}-{k}" for k in range(size)])
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes[j]), values)
    for j, name in enumerate(NUMERIC):
        columns[name] = pa.array(numbers[j])
    return pa.table(columns)


def write(path, first, count, seed=0, *, judged=False):
    """Write rows from number ``first`` on, a million to a row group."""
    parts = range(first, first + count, GROUP_ROWS)
    schema = table(first, LIST_ROWS, seed, judged=judged).schema
    with pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=[*CATEGORICAL, "clicked"],
        column_encoding={"session": "DELTA_BINARY_PACKED"},
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        for start in parts:
            some = min(GROUP_ROWS, first + count - start)
            writer.write_table(table(start, some, seed, judged=judged), row_group_size=GROUP_ROWS)
