"""Proposed schemas beside schemas made by hand, on four generated logs.

    python -m benchmarks.elastic.proposals

The schemas by hand use what is known of the generators: which columns matter, and on which scale.
``propose_schema`` reads the first rows only. Both train the default ``ElasticRanker``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rankine
from benchmarks.common.machine import add
from benchmarks.common.raw_logs import LOGS
from rankine.logs import LogSchema, propose_schema
from rankine.logs.simulation import market_log

SEEDS = 5
BY_HAND = {
    "grocery": {
        "query": "session", "label": "clicked", "item": "item",
        "numeric": ["share_of_orders", "mean_place_in_basket", "discount", "item_reorder_rate"],
        "binned": ["times_bought", "days_since_last", "price", "item_orders", "seconds_since_view"],
        "categorical": ["item", "subclass"],
    },
    "hotels": {
        "query": "session", "label": "clicked", "item": "item",
        "numeric": ["stars", "review_score", "location_score", "promoted"],
        "binned": ["price", "distance_m", "rival1_difference", "rival2_difference",
                   "rival3_difference"],
        "categorical": ["item", "subclass"],
    },
    "feed": {
        "query": "session", "label": "clicked", "item": "item",
        "numeric": ["click_rate", "followed", "similarity"],
        "binned": ["age_seconds", "views", "length", "seconds_since_read"],
        "categorical": ["item", "subclass"],
    },
    "market": {
        "query": "session", "label": "clicked + 4*purchased", "item": "product_id", "time": "ts",
        "position": "position", "numeric": ["price", "rating"], "one_hot": ["brand"],
        "crosses": ["user_id*brand"],
        "history": {
            "item_rate": {"rate": "clicked", "by": ["product_id"], "half_life": "10d"},
            "user_item_count": {
                "count": "clicked", "by": ["user_id", "product_id"], "half_life": "30d", "log": True
            },
        },
    },
}  # fmt: skip


def _write(name, seed, rows, folder):
    """Write the training and the test part of a log; return their paths."""
    if name == "market":
        columns = market_log(rows // 10, random_state=seed)
        columns.pop("relevance")
        table = pa.table({**columns, "brand": [f"b{k}" for k in columns["brand"]]})
        cut = int(rows * 0.8) // 10 * 10
        parts = {"all": table, "train": table.slice(0, cut)}
    else:
        parts = {part: LOGS[name](rows, part) for part in ("train", "test")}
    for part, table in parts.items():
        pq.write_table(table, folder / f"{part}.parquet")


def _value(schema, name, folder):
    """Return NDCG@10 on the test lists."""
    if name == "market":
        parts = rankine.logs.scan(folder / "all.parquet", schema=schema).split("time:0.8,0.2")
        train, test = parts["train"], parts["valid"] if "valid" in parts else parts["test"]
    else:
        train = rankine.logs.scan(folder / "train.parquet", schema=schema)
        test = rankine.logs.scan(folder / "test.parquet", like=train)
    ranker = rankine.ElasticRanker(random_state=0, metric="ndcg@10").fit(train)
    return float(ranker.score(test.load()))


def measure(name, rows, seeds):
    """Return the mean NDCG@10 of both schemas; seeds change the log where it has one."""
    values = []
    for seed in range(seeds if name == "market" else 1):
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            _write(name, seed, rows, folder)
            proposed, _ = propose_schema(folder / "train.parquet")
            by_hand = LogSchema.make(BY_HAND[name])
            values.append([_value(schema, name, folder) for schema in (proposed, by_hand)])
    proposed, by_hand = np.mean(values, axis=0).round(4).tolist()
    result = {"log": name, "rows": rows, "proposed": proposed, "by_hand": by_hand}
    print(result, flush=True)
    return result


def smoke():
    """Run the smallest size, as the tests do."""
    add("elastic", "proposals", [measure("market", 3_000, 1)])


def quick():
    """Measure 30,000 rows of each log."""
    add("elastic", "proposals", [measure(name, 30_000, 1) for name in BY_HAND])


def full():
    """Measure 200,000 rows of each log, and five seeds of the market with 50,000."""
    rows = {"market": 50_000}
    add("elastic", "proposals", [measure(name, rows.get(name, 200_000), SEEDS) for name in BY_HAND])


if __name__ == "__main__":
    full()
