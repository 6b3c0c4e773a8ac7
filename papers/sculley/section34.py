"""Section 3.4, things that did not help: perceptrons, ties, cross products, another schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from papers import letor_protocol as letor
from papers.letor_protocol import ScoredSystem
from papers.sculley.figure1 import AS_PRINTED
from rankine import SPDRanker

TITLE = "Section 3.4: things that did not help"
SMOKE = {"seeds": [0], "folds": 1}
QUICK = {"seeds": [0], "folds": 1}
FULL = {"seeds": [0, 1, 2, 3], "folds": 5}

REFERENCE = "Pegasos"


def cross_products(data):
    """Return the features and all their products x_i x_j, i <= j."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    first, second = np.triu_indices(X.shape[1])
    wide = np.concatenate([X, X[:, first] * X[:, second]], axis=1)
    return replace(data, X=wide, query_index=data.queries, feature_names=None)


INVERSE = {"schedule_c": [1.0, 100.0, 10_000.0], "l2": [1e-5, 1e-3, 1e-1]}
MARGINS = {"margin": [0.1, 1.0, 10.0, 100.0]}


def variants(tied, **common):
    """Return the paper's variants and Pegasos, with a common sampler and averaging."""
    return {
        REFERENCE: ScoredSystem(SPDRanker("pegasos", **common)),
        "perceptron": ScoredSystem(SPDRanker("perceptron", **common), {}),
        "perceptron with margin": ScoredSystem(SPDRanker("margin_perceptron", **common), MARGINS),
        "Pegasos with tied pairs": ScoredSystem(SPDRanker("pegasos", ties="zero", **tied)),
        "Pegasos, cross products": ScoredSystem(
            SPDRanker("pegasos", **common), prepare=cross_products
        ),
        "SGD-SVM, eta = c/(c+i)": ScoredSystem(
            SPDRanker("sgd_svm", schedule="inverse", **common), INVERSE
        ),
    }


#: The indexed sampler draws two labels, so that tied pairs are drawn by another one.
KINDS = {
    "as printed": variants({"average": False}, **AS_PRINTED),
    "rankine": variants({}),
}


def measure(seeds, folds):
    results = {
        kind: letor.over_collections(contestants, REFERENCE, seeds, folds)
        for kind, contestants in KINDS.items()
    }
    tasks = {kind: one.pop("tasks") for kind, one in results.items()}
    return {**results["rankine"], "kinds": tasks}


def markdown(results):
    parts = [
        (
            "The protocol of figure 1, as printed (indexed sampler, last iterate) and with our "
            "defaults; differences are to Pegasos of the same kind. Cross products x_i x_j are "
            "added to the features; tied pairs have the target 0 and are drawn as any two rows of "
            "a query, which the printed sampler cannot do; c of the inverse schedule and lam are "
            "chosen together."
        )
    ]
    for kind, tasks in results["kinds"].items():
        parts += [f"*{kind}*", *letor.task_tables(tasks, REFERENCE)]
    return "\n\n".join([*parts, outcome(results)])


def outcome(results):
    """Describe which of the variants helped."""
    helped = [
        f"{name} {kind} on {task} ({paired['difference']:+.4f})"
        for kind, task, name, paired in compared(results)
        if paired["verdict"].startswith("better")
    ]
    if helped:
        return f"Proven better than Pegasos, against the paper: {'; '.join(helped)}."
    return "As in the paper, none is proven better than Pegasos."


def compared(results):
    """List kind, collection, name and paired difference to Pegasos of every variant."""
    for kind, tasks in results["kinds"].items():
        for task, rows in tasks.items():
            for name, method in rows["methods"].items():
                if name != REFERENCE:
                    yield kind, task, name, method["against_reference"]
