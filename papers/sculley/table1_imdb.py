"""Table 1 on real text: the rarer genres of IMDB plots."""

from __future__ import annotations

import sys

import numpy as np
from benchmarks.common.real_data import read_imdb

from papers.sculley import rare

TITLE = "Table 1 on IMDB genres"
SMOKE = {"topics": 1, "most": 0.005, "rows": 5_000, "tune_rows": 2_000}
QUICK = {"topics": 1, "most": 0.005, "rows": 20_000, "tune_rows": 5_000}
FULL = {"topics": 28, "most": 0.05, "rows": 80_000, "tune_rows": 20_000}

SEED = 1


def measure(topics, most, rows, tune_rows):
    """Measure genres of at most a share ``most`` of the plots; the rest is the test part."""
    X, Y, names = read_imdb()
    order = np.random.default_rng(SEED).permutation(X.shape[0])
    train, test = np.sort(order[:rows]), np.sort(order[80_000:])
    genres = np.flatnonzero(Y.mean(axis=0) <= most)[:topics]
    by_genre = {}
    for t in genres:
        print(names[t], file=sys.stderr, flush=True)
        y = np.where(Y[:, t] > 0, 1.0, -1.0)
        by_genre[names[t]] = rare.one_topic(
            (X[train], y[train]), (X[test], y[test]), tune_rows=tune_rows, seed=SEED
        )
    return rare.result(by_genre, SEED, len(train), len(test))


def markdown(results):
    size = results["parameters"]
    return "\n\n".join([
        (f"{len(results['topics'])} genres of at most {size['most']:.1%} of the plots (1,001 "
        f"words, unit length); {results['rows']:,} plots drawn for training, "
        f"{results['test_rows']:,} others for testing; cross-validation on "
        f"{size['tune_rows']:,} training plots."),
        rare.summary_table(results["summary"]),
        rare.outcome(results),
    ])  # fmt: skip
