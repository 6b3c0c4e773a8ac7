"""Long runs of the printed algorithm on small topics: whether it reaches the optimum."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from benchmarks.common.real_data import read_reuters
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from papers.runs import table
from papers.stevens.documents import TOL, largest_l1, training_time

TITLE = "Long runs of the printed algorithm"
SMOKE = {"topics": 1, "documents": 100, "sweeps": 50}
QUICK = {"topics": 2, "documents": 300, "sweeps": 1_000}
FULL = {"topics": 8, "documents": 500, "sweeps": 20_000}
SEED = 1
#: Strengths as shares of the largest l1.
L1_SHARE, L2_SHARE = 0.03, 0.003
PENALTIES = {"with l1": L1_SHARE, "without l1": 0.0}
#: Relevant documents at most: a share of the documents.
MOST_RELEVANT = 0.1


def small_topics(topics, documents):
    """Yield name, rows and labels of topics with few documents, and the words that occur there."""
    X, Y, names, _ = read_reuters()
    rng = np.random.default_rng(SEED)
    most_frequent = np.argsort(-Y.sum(axis=0, dtype=np.int64), kind="stable")[:topics]
    for topic in most_frequent:
        relevant, others = np.flatnonzero(Y[:, topic] > 0), np.flatnonzero(Y[:, topic] == 0)
        count = min(len(relevant), int(MOST_RELEVANT * documents))
        rows = np.sort(np.concatenate([
            rng.permutation(relevant)[:count], rng.permutation(others)[: documents - count],
        ]))  # fmt: skip
        part = sparse.csc_matrix(X[rows])
        part = part[:, np.flatnonzero(np.diff(part.indptr))]
        yield names[topic], part, Y[rows, topic].astype(float)


def measure(topics, documents, sweeps):
    """Run the printed algorithm on every topic, with l1 and without."""
    runs = []
    for name, X, y in small_topics(topics, documents):
        largest = largest_l1((X, y))
        for penalty, share in PENALTIES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                seconds, ranker = training_time(
                    (X, y), share * largest, L2_SHARE * largest, solver="cd_plain", max_iter=sweeps
                )
            runs.append({
                "topic": name,
                "penalty": penalty,
                "words": X.shape[1],
                "sweeps": int(ranker.n_iter_),
                "seconds": seconds,
                "relative_gap": float(ranker.solution_.certificate["relative_gap"]),
                "converged": ranker.solution_.stop_reason == "converged",
            })  # fmt: skip
            print(runs[-1], file=sys.stderr, flush=True)
    return {"seeds": [SEED], "repetitions": 1, "runs": runs}


def markdown(results):
    size, runs = results["parameters"], results["runs"]
    rows = [
        [run["topic"], run["penalty"], f"{run['sweeps']:,}", f"{run['seconds']:.1f}",
         f"{run['relative_gap']:.1e}", "yes" if run["converged"] else "no"]
        for run in runs
    ]  # fmt: skip
    reached = sum(run["converged"] for run in runs)
    return "\n\n".join([
        (f'The paper\'s figure 1.1 (`solver="cd_plain"`) on {size["documents"]} documents of each '
        f"of the most frequent topics of Reuters-21578, a tenth of them relevant at most, with "
        f"l2 at {L2_SHARE:g} of the largest l1 and l1 at {L1_SHARE:g} of it or 0, until a relative "
        f"duality gap of {TOL:g} or {size['sweeps']:,} sweeps."),
        table(("topic", "penalty", "sweeps", "CPU s", "relative gap", "converged"), rows, left=2),
        f"The certified gap is reached in {reached} of {len(runs)} runs.",
    ])  # fmt: skip
