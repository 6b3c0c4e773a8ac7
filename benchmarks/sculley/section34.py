"""Section 3.4, things that did not help: perceptrons, ties, cross products, another schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks import letor_protocol as letor
from benchmarks.letor_protocol import Contestant
from rankine import SPDRanker

TITLE = "Section 3.4: things that did not help"
QUICK = {"seeds": [0], "folds": 1}
FULL = {"seeds": [0, 1, 2], "folds": 5}

REFERENCE = "Pegasos"


def cross_products(data):
    """The features and all their products x_i x_j, i <= j."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    first, second = np.triu_indices(X.shape[1])
    wide = np.concatenate([X, X[:, first] * X[:, second]], axis=1)
    return replace(data, X=wide, query_index=data.queries, feature_names=None)


INVERSE = {"schedule_c": [1.0, 100.0, 10_000.0], "l2": [1e-5, 1e-3, 1e-1]}
CONTESTANTS = {
    REFERENCE: Contestant(SPDRanker("pegasos")),
    "perceptron": Contestant(SPDRanker("perceptron"), {}),
    "perceptron with margin": Contestant(
        SPDRanker("margin_perceptron"), {"margin": [0.1, 1.0, 10.0, 100.0]}
    ),
    "perceptron, last iterate": Contestant(SPDRanker("perceptron", average=False), {}),
    "Pegasos with tied pairs": Contestant(SPDRanker("pegasos", ties="zero")),
    "passive-aggressive": Contestant(SPDRanker("passive_aggressive")),
    "passive-aggressive with tied pairs": Contestant(SPDRanker("passive_aggressive", ties="zero")),
    "Pegasos, cross products": Contestant(SPDRanker("pegasos"), prepare=cross_products),
    "SGD-SVM, eta = c/(c+i)": Contestant(SPDRanker("sgd_svm", schedule="inverse"), INVERSE),
}


def measure(seeds, folds):
    return letor.over_folders(CONTESTANTS, REFERENCE, seeds, folds)


def words(results):
    parts = [
        (
            "The protocol of figure 1; differences are to Pegasos. Cross products are all x_i x_j "
            "beside the features; tied pairs have the target 0; c of the inverse schedule and "
            "lam are chosen together."
        )
    ]
    parts += letor.task_tables(results["tasks"], REFERENCE)
    helped = [
        f"{name} on {task} ({method['against_reference']['difference']:+.4f})"
        for task, found in results["tasks"].items()
        for name, method in found["methods"].items()
        if name != REFERENCE and method["against_reference"]["verdict"].startswith("better")
    ]
    if helped:
        parts.append("Proven better than Pegasos, against the paper: " + "; ".join(helped) + ".")
    else:
        parts.append("As in the paper, none is proven better than Pegasos.")
    return "\n\n".join(parts)
