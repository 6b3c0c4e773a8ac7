"""A seeded shop-search log: queries, products, impressions and clicks, made in memory.

For the demo, the examples and the tests. Shoppers look down the list (the chance that position r
is examined falls like r^-0.7), click what suits them and sometimes buy; what suits them is a
linear function of the features plus taste that no feature shows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankine.data.dataset import Dataset

#: Feature name -> weight in the shoppers' utility (0: noise that a model should ignore).
TRUE_WEIGHTS = {
    "title_match": 1.6,
    "description_match": 0.7,
    "price_log": -0.8,
    "discount": 0.9,
    "rating": 1.1,
    "reviews_log": 0.5,
    "in_stock": 1.2,
    "days_since_launch": -0.4,
    "brand_affinity": 0.8,
    "delivery_days": -0.6,
    "image_count": 0.0,
    "warehouse_id": 0.0,
    "colour_code": 0.0,
    "sku_parity": 0.0,
}
FEATURES = tuple(TRUE_WEIGHTS)

_WORDS = (
    "red",
    "trail",
    "running",
    "wool",
    "kids",
    "travel",
    "espresso",
    "garden",
    "gaming",
    "oak",
)
_THINGS = (
    "shoes",
    "jacket",
    "backpack",
    "machine",
    "chair",
    "lamp",
    "headset",
    "table",
    "socks",
    "mug",
)


def shop_log(n_queries: int = 600, *, random_state: int = 7, list_length: int = 24) -> Dataset:
    """Impression lists with labels 0 (seen or not), 1 (clicked), 2 (bought).

    ``columns["query_text"]`` holds the words of each row's query, ``position`` where the product
    was shown, ``docid`` its name.
    """
    rng = np.random.default_rng(random_state)
    sizes = rng.integers(list_length // 2, list_length + list_length // 2 + 1, n_queries)
    qid = np.repeat(np.arange(1, n_queries + 1), sizes)
    n = len(qid)
    X = _features(rng, n)
    utility = X @ np.array(list(TRUE_WEIGHTS.values())) + rng.gumbel(0, 1.0, n)
    shown = _positions(qid, X[:, 0] + rng.normal(0, 1.0, n))
    threshold = np.quantile(utility, 0.72)
    examined = rng.random(n) < shown**-0.35
    clicked = examined & (utility > threshold)
    bought = clicked & (utility > np.quantile(utility, 0.9)) & (rng.random(n) < 0.6)
    words = _query_words(rng, n_queries)
    products = rng.integers(10_000, 99_999, n)
    return Dataset.from_arrays(
        X,
        clicked.astype(np.float64) + bought,
        qid,
        docid=np.array([f"P{number}" for number in products]),
        feature_names=FEATURES,
        position=shown,
        columns={"query_text": words[qid - 1]},
    )


def _features(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    columns = {
        "title_match": rng.beta(2, 3, n),
        "description_match": rng.beta(2, 4, n),
        "price_log": rng.normal(0, 0.6, n),
        "discount": np.where(rng.random(n) < 0.3, rng.random(n) * 0.6, 0.0),
        "rating": np.clip(rng.normal(0.7, 0.2, n), 0, 1),
        "reviews_log": rng.gamma(2.0, 0.35, n),
        "in_stock": (rng.random(n) < 0.85).astype(float),
        "days_since_launch": rng.gamma(1.5, 0.4, n),
        "brand_affinity": rng.normal(0, 0.5, n),
        "delivery_days": rng.integers(1, 8, n) / 7,
        "image_count": rng.integers(1, 12, n) / 12,
        "warehouse_id": rng.integers(0, 5, n) / 5,
        "colour_code": rng.random(n),
        "sku_parity": rng.integers(0, 2, n).astype(float),
    }
    return np.round(np.column_stack([columns[name] for name in FEATURES]), 5)


def _positions(qid: NDArray[np.int64], old_score: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where the old search engine showed each product: 1 is the top."""
    order = np.lexsort((-old_score, qid))
    starts = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
    rank = np.arange(len(qid)) - np.repeat(starts, np.diff(np.r_[starts, len(qid)])) + 1
    position = np.empty(len(qid), dtype=np.int64)
    position[order] = rank
    return position


def _query_words(rng: np.random.Generator, n_queries: int) -> NDArray[np.str_]:
    first = rng.integers(0, len(_WORDS), n_queries)
    second = rng.integers(0, len(_THINGS), n_queries)
    return np.array([f"{_WORDS[i]} {_THINGS[j]}" for i, j in zip(first, second, strict=True)])
