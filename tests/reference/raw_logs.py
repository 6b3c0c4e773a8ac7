"""Write a raw log to a Parquet file, and name the options to read it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BRANDS = np.array(["acme", "zed", "tyrell", "weyland", "cyberdyne"])


KINDS = np.array(["shoes", "hats", "bags"])


def write_log(path, lists=300, seed=0, outcome=True):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, lists)
    n = sizes.sum()
    brand, kind = rng.integers(0, 5, n), rng.integers(0, 3, n)
    price = np.round(rng.lognormal(3, 1, n), 2)
    utility = np.array([2.0, 1, 0, -1, -2])[brand] + (kind == 1) - 0.5 * np.log(price)
    utility += 0.5 * rng.gumbel(size=n)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    clicked = np.zeros(n, dtype=np.int64)
    for a, b in zip(starts[:-1], starts[1:], strict=True):
        clicked[a + np.argmax(utility[a:b])] = 1
    brand_names = [None if rng.random() < 0.02 else str(BRANDS[b]) for b in brand]
    columns = {
        "session_id": pa.array([f"s{k:06d}" for k in np.repeat(np.arange(lists), sizes)]),
        "price": price,
        "brand": pa.array(brand_names).dictionary_encode(),
        "category": KINDS[kind].tolist(),
        "position": np.concatenate([np.arange(1, s + 1) for s in sizes]),
        "ts": np.repeat(np.arange(lists) + 1_700_000_000, sizes),
    }
    if outcome:
        columns["clicked"] = clicked
        columns["purchased"] = clicked * (rng.random(n) < 0.3)
    pq.write_table(pa.table(columns), path, row_group_size=500)


COLUMNS = {
    "query": "session_id",
    "label": "clicked + 4*purchased",
    "categorical": ["brand"],
    "one_hot": ["category"],
    "numeric": ["price"],
    "crosses": ["brand*category"],
    "position": "position",
    "time": "ts",
}


def options(**more):
    return {"query": "session_id", "label": "clicked", "categorical": ["brand"], **more}
