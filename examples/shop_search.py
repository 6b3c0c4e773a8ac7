"""Shop search from a Parquet log: train on the older searches, evaluate on the newer ones.

    python examples/shop_search.py            # a log of 4,000 searches
    python examples/shop_search.py --small    # seconds

A shop has a log with a row for every product that was shown and what the shopper did with it. This
script makes such a log, trains on its older part in one pass, compares the model with the order
that the shop displayed, and writes a report that opens in any browser.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rankine

BRANDS = ["acme", "blue peak", "corso", "delta", "everest", "no name"]
CATEGORIES = ["shoes", "jackets", "tents", "lamps"]
#: How much shoppers like a brand, and a brand in a category: one may be liked for its shoes only.
BRAND_TASTE = {"acme": 0.8, "everest": 0.4, "no name": -0.9}
CROSS_TASTE = {("blue peak", "tents"): 1.5, ("corso", "shoes"): 1.2, ("acme", "lamps"): -1.2}


def make_log(searches: int, seed: int = 1) -> pa.Table:
    """Make a log as a shop would write it, oldest search first."""
    rng = np.random.default_rng(seed)
    shown = 20
    n = searches * shown
    brand = rng.choice(BRANDS, n)
    # All products of one search come from one category.
    category = np.repeat(rng.choice(CATEGORIES, searches), shown)
    text_match = np.round(rng.beta(2, 3, n), 3)
    price = np.round(np.exp(rng.normal(3.4, 0.5, n)), 2)
    rating = np.round(np.clip(rng.normal(3.9, 0.6, n), 1, 5), 1)
    taste = np.array([BRAND_TASTE.get(b, 0.0) for b in brand])
    taste += [CROSS_TASTE.get(pair, 0.0) for pair in zip(brand, category, strict=True)]
    utility = 2.5 * text_match - 0.02 * price + 0.8 * rating + taste + rng.gumbel(0, 0.7, n)
    # The old engine sorts by text match, and shoppers examine the top of the list more often.
    old = (text_match + rng.normal(0, 0.4, n)).reshape(searches, shown)
    position = np.argsort(np.argsort(-old, axis=1), axis=1).ravel() + 1
    examined = rng.random(n) < position**-0.15
    clicked = examined & (utility > np.quantile(utility, 0.8))
    purchased = clicked & (rng.random(n) < 0.3)
    return pa.table(
        {
            "search_id": np.repeat(np.arange(searches), shown),
            "product_id": rng.integers(10_000, 99_999, n),
            "ts": np.repeat(np.arange(searches) * 30, shown),
            "position": position,
            "text_match": text_match,
            "price": price,
            "rating": rating,
            "brand": brand,
            "category": category,
            "clicked": clicked.astype(np.int8),
            "purchased": purchased.astype(np.int8),
        }
    )


def main() -> None:
    """Make the log, train, compare, explain, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a log of 500 searches")
    parser.add_argument("--out", type=Path, default=Path("shop-search"), help="folder to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    # 1. Write the log. The newest tenth goes to a separate file for the evaluation.
    table = make_log(500 if options.small else 4000)
    cut = int(table.num_rows * 0.9) // 20 * 20
    log, tomorrow = options.out / "log.parquet", options.out / "tomorrow.parquet"
    pq.write_table(table.slice(0, cut), log)
    pq.write_table(table.slice(cut), tomorrow)

    # 2. Train in one pass. Brands are hashed; a purchase (also a click) counts as five clicks.
    ranker = rankine.ElasticRanker(
        adaptive=True, eta0=0.2, l1=1e-4, l2=0, scale="query", metric="ndcg@10", random_state=0
    )
    lists = rankine.logs.scan(
        log,
        query="search_id",
        label="clicked + 4*purchased",
        numeric=["text_match", "price", "rating"],
        categorical=["brand"],
        crosses=["brand*category"],
        hash_bits=16,
    )
    model = ranker.fit(lists).to_model()
    model.save(options.out / "model.rankine")
    print(f"model: {model.nnz} weights in {options.out / 'model.rankine'}")

    # 3. Compare with the displayed order, query by query, on lists that the model has not seen.
    unseen = rankine.logs.read_for(model, tomorrow)
    as_shown = -pq.read_table(tomorrow)["position"].to_numpy().astype(float)
    result = rankine.compare({"as shown": as_shown, "model": model}, unseen, "ndcg@10")
    for system in result.systems:
        print(f"  {system.name:9} ndcg@10 {system.mean:.3f} [{system.low:.3f}, {system.high:.3f}]")
    print(f"  the model is {result.pairs[0].verdict}")

    # 4. Show what the model has learned. Hashed brands and crosses have names, too.
    print("what counts most:")
    for weight in model.summary(8)["top_weights"]:
        print(f"  {weight['weight']:+.2f}  {weight['name']}")

    # 5. Write a report for colleagues.
    page = rankine.report(model, unseen, title="Shop search: tomorrow's lists")
    page.save(options.out / "report.html")
    print(f"report: {options.out / 'report.html'}")


if __name__ == "__main__":
    main()
