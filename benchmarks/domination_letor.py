"""Domination rank on LETOR folders, beside published AdaRank and RankBoost, as table 1.1.

    python -m benchmarks.domination_letor OHSUMED_FOLDS MQ2008_FOLDS

Each folder holds Fold1..5/{train,vali,test}.txt. Variants: *base* sees relevant or not,
*multi-valued* the grades, *margin* the grades with a margin proportional to them. Everything is
tuned on the validation part by MAP. The paper printed mean ranks over eight collections.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from benchmarks.machine import save
from rankine import DominationRanker
from rankine.evaluation.letor import run_letor

SHOWN = ("ndcg@10", "p@10", "ndcg@5", "map")


class BaseDomination(DominationRanker):
    """Domination rank that is told only whether a document is relevant at all."""

    def fit(self, X, y=None, **keywords):
        """Fit on labels cut at 1."""
        if y is None:
            return super().fit(replace(X, y=np.minimum(X.y, 1.0), query_index=None), **keywords)
        return super().fit(X, np.minimum(y, 1.0), **keywords)


GRIDS = {
    "base": {"l1": [0.3, 1.0, 3.0, 10.0]},
    "multi-valued": {"l1": [0.3, 1.0, 3.0, 10.0]},
    "margin": {"l1": [0.3, 1.0, 3.0, 10.0], "margin_scale": [0.3, 1.0]},
}


def main() -> None:
    rankers = {
        "base": BaseDomination(tol=1e-3),
        "multi-valued": DominationRanker(tol=1e-3),
        "margin": DominationRanker(tol=1e-3, margin=1.0),
    }
    result = run_letor(sys.argv[1:], rankers, metric="map", grids=GRIDS)
    table = {}
    for task in result.tasks:
        table[task.name] = {
            method.name: {name: method.means[name] for name in SHOWN if name in method.means}
            for method in task.methods
        }
        print(task.name)
        for method, means in table[task.name].items():
            print(f"  {method:14s} " + "  ".join(f"{k} {v:.4f}" for k, v in means.items()))
    save("domination_letor", {"table": table})


if __name__ == "__main__":
    main()
