"""Table 1 on real text: the rare topics of Reuters-21578."""

from __future__ import annotations

import sys

import numpy as np
from benchmarks.common.real_data import read_reuters

from papers.sculley import rare

TITLE = "Table 1 on Reuters-21578"
SMOKE = {"topics": 1, "least": 20, "most": 0.01}
QUICK = {"topics": 2, "least": 20, "most": 0.01}
FULL = {"topics": 40, "least": 20, "most": 0.01}

SEED = 1


def measure(topics, least, most):
    """Measure topics with at least ``least`` positives and at most a share ``most`` of the rows."""
    X, Y, names, train = read_reuters()
    X = X.astype(np.float32)
    inside, after = Y[:train].sum(axis=0), Y[train:].sum(axis=0)
    kept = np.flatnonzero((inside >= least) & (inside <= most * train) & (after >= 5))
    by_topic = {}
    for t in kept[:topics]:
        print(names[t], file=sys.stderr, flush=True)
        y = np.where(Y[:, t] > 0, 1.0, -1.0)
        by_topic[names[t]] = rare.one_topic(
            (X[:train], y[:train]), (X[train:], y[train:]), tune_rows=train, seed=SEED
        )
    return rare.result(by_topic, SEED, train, X.shape[0] - train)


def markdown(results):
    size = results["parameters"]
    return "\n\n".join([
        (f"{len(results['topics'])} topics with {size['least']} positives at least and "
        f"{size['most']:.0%} of the {results['rows']:,} training documents at most; the "
        f"{results['test_rows']:,} documents of the standard test part; parameters by three-fold "
        "cross-validation on the training part."),
        rare.summary_table(results["summary"]),
        rare.outcome(results),
    ])  # fmt: skip
