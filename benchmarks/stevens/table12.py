"""Table 1.2: PAMIR and four variants of domination rank on generated image search."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from benchmarks.domination_reuters import MEASURES
from benchmarks.domination_reuters import measure as judged
from benchmarks.papers import table
from benchmarks.stevens.images import image_query
from benchmarks.timing import median_and_range, spread
from rankine import DominationRanker, SPDRanker
from rankine.data import tiers
from rankine.metrics import evaluate

TITLE = "Table 1.2: image search with noisy click counts"
QUICK = {"seeds": [1], "queries": 3, "sizes": [1150, 400, 400], "steps": 6}
FULL = {"seeds": [1, 2, 3], "queries": 12, "sizes": [2300, 400, 400], "steps": 10}
VARIANTS = ("PAMIR", "base, l2", "base, l1", "multi-valued", "margin")
#: The paper's figures of the same variants.
PAPER = {
    "Avg. Precision": (0.051, 0.050, 0.050, 0.050, 0.050),
    "Precision @ 10": (0.080, 0.073, 0.073, 0.073, 0.073),
    "Domination Error": (0.964, 0.964, 0.963, 0.964, 0.964),
    "All Pairs Error": (0.234, 0.213, 0.237, 0.235, 0.236),
    "% Zero Weights": (3.4, 1.4, 94.3, 93.4, 93.2),
}
NAMES = (*MEASURES, "% Zero Weights")
C_GRID = (1e-4, 1e-3, 1e-2, 1e-1)
L2_SHARES = (0.003, 0.03, 0.3)
SMALLEST = 0.03
#: Margin for each click, and the count that makes an image relevant rather than somewhat so.
SCALES, RELEVANT = (0.01, 0.03, 0.1), 3
STEPS_OF_PAMIR = 100_000


def best_of(candidates, X, y):
    """The weights with the best average precision on the validation images."""
    return max(candidates, key=lambda coef: float(evaluate("map", y, X @ coef)))


def pamir(X, y, seed):
    """Weights of passive-aggressive steps for every C."""
    for C in C_GRID:
        ranker = SPDRanker(
            "passive_aggressive",
            aggressiveness=C,
            n_steps=STEPS_OF_PAMIR,
            average=False,
            random_state=seed,
        )
        yield ranker.fit(X, y).coef_


def ridge(columns, y):
    """Weights of the l2 penalty for every strength."""
    largest = DominationRanker(tol=1.0, n_threads=1).fit(columns, y).l1_max_
    for share in L2_SHARES:
        ranker = DominationRanker(0.0, share * largest, tol=1e-3, max_iter=200, n_threads=1)
        yield ranker.fit(columns, y).coef_


def along_path(columns, y, steps, **options):
    """Weights of the steps of an l1 path that have any."""
    path = DominationRanker(tol=1e-3, n_threads=1, **options).path(
        columns, y, n_steps=steps, min_ratio=SMALLEST
    )
    for step in np.flatnonzero(path.nonzeros):
        yield path.weights[[step]].toarray().ravel()


def with_margins(columns, y, counts, steps):
    """Weights of l1 paths whose margins are scaled differences of click counts."""
    for scale in SCALES:
        yield from along_path(columns, y, steps, margin=counts, margin_scale=scale)


def one_query(seed, number, sizes, steps):
    """Every variant on one query, its parameters chosen on validation images."""
    (Xa, Xb, Xc), counts = image_query(seed, number, sizes)
    ya, yb, yc = ((part > 0).astype(float) for part in counts)
    columns = sparse.csc_matrix(Xa)
    made = {
        "PAMIR": pamir(Xa, ya, seed),
        "base, l2": ridge(columns, ya),
        "base, l1": along_path(columns, ya, steps),
        "multi-valued": along_path(columns, tiers(counts[0], [1, RELEVANT]), steps),
        "margin": with_margins(columns, ya, counts[0], steps),
    }
    found = {"clicked": float(np.mean(np.concatenate([ya, yb, yc])))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for variant, candidates in made.items():
            coef = best_of(candidates, Xb, yb)
            found[variant] = judged(Xc @ coef, yc, coef)
    return found


def measure(seeds, queries, sizes, steps):
    """Means over the queries of each seed."""
    by_seed, clicked = [], []
    for seed in seeds:
        found = [one_query(seed, number, sizes, steps) for number in range(queries)]
        print(f"seed {seed}", file=sys.stderr, flush=True)
        clicked += [one["clicked"] for one in found]
        by_seed.append(
            {
                variant: {name: np.mean([one[variant][name] for one in found]) for name in NAMES}
                for variant in VARIANTS
            }
        )
    return {
        "seeds": seeds,
        "repetitions": len(seeds),
        "queries": queries,
        "sizes": sizes,
        "clicked_percent": 100 * float(np.mean(clicked)),
        "table": {
            v: {name: spread(means[v][name] for means in by_seed) for name in NAMES}
            for v in VARIANTS
        },
    }


def words(results):
    rows = []
    for name in NAMES:
        form = ".1f" if "%" in name else ".3f"
        cells = [results["table"][v][name] for v in VARIANTS]
        rows.append([name.strip(), *(median_and_range(cell, form) for cell in cells)])
        if name in PAPER:
            rows.append([f"{name} (paper)", *(format(value, form) for value in PAPER[name])])
    train, vali, test = results["sizes"]
    how = (
        f"{results['queries']} generated queries a seed, each a ranking task of its own with "
        f"{train:,} training, {vali:,} validation and {test:,} test images of 10,000 features, 2 % "
        f"of them non-zero; {results['clicked_percent']:.1f} % of the images have a click, many by "
        "accident. *PAMIR* is passive-aggressive SPD; *multi-valued* sees no click, fewer than "
        f"{RELEVANT}, {RELEVANT} or more; *margin* asks for a gap proportional to the difference "
        "of clicks. Parameters by average precision on validation images. Median over seeds "
        "(lowest to highest). The generator's levels were set to the paper's while looking at "
        "PAMIR and l1 on the images of seed 1; other seeds were not looked at."
    )
    return "\n\n".join([how, table(["measure", *VARIANTS], rows), _verdict(results["table"])])


def _verdict(found):
    precision = {v: found[v]["Avg. Precision"]["median"] for v in VARIANTS}
    zeros = found["base, l1"]["% Zero Weights"]["median"]
    gap = precision["base, l1"] - precision["PAMIR"]
    extra = max(precision["multi-valued"], precision["margin"]) - precision["base, l1"]
    helped = "do not help" if extra < 0.005 else f"add up to {extra:.3f}"
    why = (
        " Where the paper saw no loss, l1 loses some here: it keeps one of several words that say "
        "the same and few images are clicked; what a little l2 beside it regains is under "
        "*Sparsity against quality*."
        if gap < -0.02
        else ""
    )
    return (
        f"l1 against PAMIR: {gap:+.3f} average precision (paper -0.001), with {zeros:.1f} % of the "
        f"weights zero (paper 94.3 %).{why} Grades and count margins {helped} over l1 alone; in "
        "the paper they did not help. The levels are those of the generator and no target: the "
        "paper's 2.3 million images are not public."
    )
