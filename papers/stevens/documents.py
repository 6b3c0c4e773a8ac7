"""Topics of documents as ranking tasks, by the protocol of the paper's RCV1 experiments.

Half of the documents train, a quarter chooses the parameters by average precision, a quarter tests;
every topic is one ranking task over the whole collection; topics with too few positives in a part
are left out and counted. Every method has the same number of candidates. The grids were settled on
the split of seed 0, which is therefore not among those reported.
"""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from rankine import DominationRanker, SPDRanker
from rankine.metrics import evaluate

MEASURES = {
    "Avg. Precision": "map",
    "Precision @ 10": "p@10",
    "Domination Error": "domination-error:ties=strict",
    "  ties as errors": "domination-error",
    "All Pairs Error": "pairwise-error",
    "ROC area": "roc_area",
}
ZEROS = "% Zero Weights"
#: The paper's own figures on RCV1: PAMIR, domination rank.
PAPER = {
    "Avg. Precision": (0.705, 0.670),
    "Precision @ 10": (0.915, 0.918),
    "Domination Error": (0.974, 0.976),
    "All Pairs Error": (0.014, 0.024),
    ZEROS: (78.1, 98.8),
}
CANDIDATES = 15
#: Candidates of passive-aggressive.
C_GRID = np.geomspace(1e-5, 10.0, CANDIDATES).tolist()
#: Candidates of domination rank: l2 as shares of a topic's largest l1, for each as many steps of l1
#: as make the candidates of all methods equal.
KINDS = {"domination, l1": (0.0,), "domination, l1 + l2": (0.0003, 0.003, 0.03)}
PA = "PA"
SMALLEST = 0.003
#: Positives that a topic must have in every part.
LEAST_POSITIVES = 5
TOL = 1e-3


def judged(scores, y, coef):
    """Compute every measure of some weights on test documents."""
    values = {name: float(evaluate(metric, y, scores)) for name, metric in MEASURES.items()}
    return {**values, ZEROS: 100.0 * float(np.mean(coef == 0))}


def passive_aggressive(train, valid, seed, grid=C_GRID):
    """Weights of the C with the best average precision on the validation part."""
    best, best_weights = -1.0, None
    for C in grid:
        ranker = SPDRanker("passive_aggressive", aggressiveness=C, random_state=seed, average=False)
        ranker.fit(*train)
        value = float(evaluate("map", valid[1], valid[0] @ ranker.coef_))
        if value > best:
            best, best_weights = value, ranker.coef_
    return best_weights


def largest_l1(train):
    """Return the smallest l1 for which all weights are 0."""
    return DominationRanker(tol=1.0, n_threads=1).fit(*train).l1_max_


def domination(train, valid, shares, largest):
    """Weights and (l1, l2) of the model with the best average precision on the validation part."""
    best, best_weights = -1.0, None
    for share in shares:
        ranker = DominationRanker(l2=share * largest, tol=TOL, metric="map", n_threads=1)
        # The first step is the largest l1, whose model is empty.
        steps = CANDIDATES // len(shares) + 1
        path = ranker.path(*train, eval_set=valid, n_steps=steps, min_ratio=SMALLEST)
        step = 1 + int(np.argmax(path.values[1:]))
        if path.values[step] > best:
            best = float(path.values[step])
            best_weights = (
                path.weights[[step]].toarray().ravel(),
                float(path.l1[step]),
                share * largest,
            )
    return best_weights


def training_time(train, l1, l2, **options):
    """Measure one fit to the common relative gap, conversion to columns included."""
    ranker = DominationRanker(l1, l2, **{"tol": TOL, "n_threads": 1, **options})
    begun = time.process_time()
    ranker.fit(*train)
    return time.process_time() - begun, ranker


def split(X, Y, names, seed, topics=None):
    """Split the documents; return parts, labels, names of topics, and how many are dropped."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    parts = [np.sort(p) for p in np.split(order, [len(order) // 2, 3 * len(order) // 4])]
    counts = np.array([Y[part].sum(axis=0, dtype=np.int64) for part in parts]).min(axis=0)
    topic_columns = np.flatnonzero(counts >= LEAST_POSITIVES)
    left_out = len(names) - len(topic_columns)
    if topics is not None:
        topic_columns = np.sort(
            topic_columns[np.argsort(-Y[:, topic_columns].sum(axis=0, dtype=np.int64))][:topics]
        )
    # By columns, which domination rank uses as they stand.
    matrices = [sparse.csc_matrix(X[part]) for part in parts]
    labels = [Y[np.ix_(part, topic_columns)].astype(float) for part in parts]
    return matrices, labels, [names[t] for t in topic_columns], left_out


def one_topic(parts, labels, seed):
    """Measure every method on one topic of one split."""
    (Xa, Xb, Xc), (ya, yb, yc) = parts, labels
    valid = sparse.csr_matrix(Xb), yb
    dense = passive_aggressive((sparse.csr_matrix(Xa), ya), valid, seed)
    largest = largest_l1((Xa, ya))
    by_method = {
        "positives": [int(y.sum()) for y in labels],
        PA: {"test": judged(Xc @ dense, yc, dense)},
    }
    for kind, shares in KINDS.items():
        coef, l1, l2 = domination((Xa, ya), valid, shares, largest)
        by_method[kind] = {
            "l1_share": l1 / largest,
            "l2_share": l2 / largest,
            "test": judged(Xc @ coef, yc, coef),
        }
    return by_method
