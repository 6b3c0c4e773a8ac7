"""Raw rows to a ranking: 100 candidates with three categorical and three numeric columns.

    python -m benchmarks.scoring.raw_rows [--seconds 0.2]

Ours is ``Scorer.rank`` on a list of dictionaries, at 2^20 and 2^26 hashed features, unscaled and
scaled within the list, with 100,000 weights; "new values" ranks lists whose categories were never
seen before, so that each has to be hashed. Beside it: the same vectors by scikit-learn's
FeatureHasher, a product and a sort; and Vowpal Wabbit's Python call, one prediction a row, where it
is installed. Times are CPU time, the best of 40 rounds, methods taking turns, one thread.
"""

from __future__ import annotations

import argparse
from itertools import count, cycle

import numpy as np

from benchmarks.common.machine import save
from benchmarks.scoring.latency import best_of
from rankine import LinearModel, Scorer
from rankine.core.specs import ListRange, LogColumns

CANDIDATES, LISTS, WEIGHTS = 100, 50, 100_000
NUMERIC, CATEGORICAL = ("price", "age", "ctr"), {"brand": 2_000, "category": 100, "seller": 20_000}


def rows(rng, suffix=""):
    numbers = rng.normal(size=(CANDIDATES, len(NUMERIC))).tolist()
    candidates = [dict(zip(NUMERIC, row, strict=True)) for row in numbers]
    for name, size in CATEGORICAL.items():
        for row, value in zip(candidates, rng.integers(0, size, CANDIDATES).tolist(), strict=True):
            row[name] = f"{name}-{value}{suffix}"
    return candidates


def scorer(bits, scaling, rng):
    spec = LogColumns(numeric=NUMERIC, hashed=tuple(CATEGORICAL), hash_bits=bits)
    drawn = rng.integers(len(NUMERIC), spec.n_features, WEIGHTS)
    indices = np.unique([*range(len(NUMERIC)), *drawn])
    values = rng.normal(size=len(indices))
    return Scorer(LinearModel(spec.n_features, indices, values, transforms=(spec, *scaling)))


def ranking(one, lists):
    """Rank the next list at each call."""
    turn = cycle(lists)
    return lambda: one.rank(next(turn))


def ranking_new(one, rng):
    """Rank lists whose categories are new at each call; making them is not timed."""
    numbers = count()
    lists = iter([rows(rng, f"-{next(numbers)}") for _ in range(4_000)])
    return lambda: one.rank(next(lists))


def hashing_methods(lists, rng):
    from sklearn.feature_extraction import FeatureHasher

    hasher, w = FeatureHasher(1 << 20, input_type="dict"), rng.normal(size=1 << 20)
    turn = cycle(lists)
    return {"FeatureHasher, product, sort": lambda: np.argsort(-(hasher.transform(next(turn)) @ w))}


def vowpal_methods(lists):
    try:
        import vowpalwabbit
    except ImportError:
        print("vowpalwabbit is not installed: left out")
        return {}
    model = vowpalwabbit.Workspace("--quiet -b 20")
    turn = cycle(lists)

    def line(row):
        numbers = " ".join(f"{name}:{row[name]}" for name in NUMERIC)
        return f"|n {numbers} |c " + " ".join(f"{name}={row[name]}" for name in CATEGORICAL)

    for row in lists[0]:
        model.learn("1 " + line(row))
    return {
        "Vowpal Wabbit, a call a row": lambda: np.argsort(
            [-model.predict(line(row)) for row in next(turn)]
        )
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args(argv)
    rng = np.random.default_rng(3)
    lists = [rows(rng) for _ in range(LISTS)]
    methods = {}
    for bits in (20, 26):
        for name, scaling in (("", ()), (", scaled", (ListRange(),))):
            raw_scorer = scorer(bits, scaling, rng)
            methods[f"rankine 2^{bits}{name}"] = ranking(raw_scorer, lists)
            for candidates in lists:
                raw_scorer.rank(candidates)
    methods |= hashing_methods(lists, rng) | vowpal_methods(lists)
    best = best_of(methods, options.seconds)
    # In a turn of its own: its lists are used up.
    best |= best_of({"rankine 2^20, new values": ranking_new(raw_scorer, rng)}, options.seconds)
    for name, value in best.items():
        print(f"{name:32} {value:9.1f} us")
    save("raw_scoring", {"candidates": CANDIDATES, "microseconds": best})


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
