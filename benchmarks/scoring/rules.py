"""What rules add to a ranking: quotas, a pin, a boost and a filter; and diversity by vectors.

    python -m benchmarks.scoring.rules [--seconds 0.2]

``Scorer.rank`` ranks lists of dense rows with and without rules, whose columns are lists of Python
values, as a server has them. A time is the difference of the CPU times of both, the best of 40
rounds that take turns, one thread.
"""

from __future__ import annotations

import argparse
from itertools import cycle

import numpy as np

from benchmarks.common.machine import save
from benchmarks.scoring.latency import best_of
from rankine import LinearModel, Rules, Scorer

LISTS, FEATURES, DIMENSIONS = 50, 10, 64
QUOTAS = Rules(
    {
        "at_most": [
            {"column": "brand", "count": 2, "first": 10},
            {"column": "category", "count": 4, "first": 10},
        ],
        "filter": [{"where": "stock == 0"}],
        "pin": [{"where": "sku == 'P17'", "position": 3}],
        "boost": [{"where": "price < 0.2", "amount": 0.2}],
    }
)
EXPOSURE = Rules(
    {
        "at_least": [{"where": "stock > 8", "count": 3, "first": 10}],
        "spread": [{"column": "brand"}],
    }
)
MMR = Rules({"diversify": [{"vectors": "embedding", "weight": 0.3}]})
CATEGORIES = Rules({"diversify": [{"by": "category", "weight": 0.3}]})


def columns(rng, size):
    return {
        "sku": [f"P{i}" for i in rng.permutation(size)],
        "brand": [f"brand-{i}" for i in rng.integers(0, 20, size)],
        "category": [f"category-{i}" for i in rng.integers(0, 8, size)],
        "price": rng.random(size).tolist(),
        "stock": rng.integers(0, 10, size).tolist(),
        "embedding": rng.normal(size=(size, DIMENSIONS)),
    }


def added(size, rules, seconds):
    """Return the microseconds that rules add to the ranking of a list."""
    rng = np.random.default_rng(size)
    scorer = Scorer(LinearModel.from_weights(rng.normal(size=FEATURES)))
    lists = [(rng.normal(size=(size, FEATURES)), columns(rng, size)) for _ in range(LISTS)]
    plain, ruled = cycle(lists), cycle(lists)

    def rank_with_rules():
        rows, item_columns = next(ruled)
        scorer.rank(rows, rules=rules, columns=item_columns)

    rank_with_rules()
    methods = {"plain": lambda: scorer.rank(next(plain)[0]), "ruled": rank_with_rules}
    best = best_of(methods, seconds)
    return best["ruled"] - best["plain"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args(argv)
    microseconds = {}
    for size in (100, 500):
        for name, rules in (
            ("two quotas, pin, boost, filter", QUOTAS),
            ("at least, spread", EXPOSURE),
            ("MMR by category", CATEGORIES),
            ("MMR, 64 dimensions", MMR),
        ):
            key = f"{name}, {size}"
            microseconds[key] = added(size, rules, options.seconds)
            print(f"{key:40} {microseconds[key]:9.1f} us")
    save("rules", {"lists": LISTS, "dimensions": DIMENSIONS, "microseconds": microseconds})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--seconds", "0.001"])


def quick():
    """Run a small size."""
    main(["--seconds", "0.02"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
