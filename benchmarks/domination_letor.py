"""Domination rank on LETOR folders, beside published AdaRank and RankBoost, as table 1.1.

    python -m benchmarks.domination_letor OHSUMED_FOLDS MQ2008_FOLDS

Each folder holds Fold1..5/{train,vali,test}.txt. Variants: *base* sees relevant or not,
*multi-valued* the grades, *margin* the grades with a margin proportional to them. Per fold the l1
path is walked from the first model with a weight down to 0.3 % of the largest l1, every step to a
relative duality gap of 1e-3, and the step (for *margin*, also its scale) with the best validation
MAP is tested once. The paper printed mean ranks over eight collections.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks.machine import save
from rankine import DominationRanker
from rankine.evaluation.baselines import PUBLISHED, read_baselines
from rankine.evaluation.letor_folds import LetorFolder
from rankine.metrics import evaluate

SHOWN = ("ndcg@5", "ndcg@10", "p@10", "map")
STEPS, SMALLEST = 12, 0.003
#: Scale of the margin between neighbouring grades, per variant.
MARGINS = {"base": [0.0], "multi-valued": [0.0], "margin": [0.3, 1.0, 3.0]}


def chosen(fold, variant):
    """Weights, setting and validation MAP of the best step."""
    train = fold.train
    if variant == "base":
        train = replace(train, y=np.minimum(train.y, 1.0), query_index=None)
    best = {"validation": -1.0}
    for margin in MARGINS[variant]:
        ranker = DominationRanker(margin=margin or None, tol=1e-3, metric="letor4:map")
        path = ranker.path(train, eval_set=fold.vali, n_steps=STEPS, min_ratio=SMALLEST)
        # The empty model leaves the order of the file, which is no ranking of ours.
        values = np.where(path.nonzeros > 0, path.values, -1.0)
        step = int(np.argmax(values))
        if values[step] > best["validation"]:
            best = {
                "validation": float(values[step]),
                "l1": float(path.l1[step]),
                "l1_max": float(path.l1[0]),
                "margin": margin,
                "nonzeros": int(path.nonzeros[step]),
                "relative_gap": float(path.relative_gap[step]),
                "coef": path.weights[[step]].toarray().ravel(),
            }
    return best


def run(folder):
    """Means over the folds of every variant, and what each fold chose."""
    found = {variant: [] for variant in MARGINS}
    for fold in LetorFolder(folder).folds():
        for variant, folds in found.items():
            begun = time.process_time()
            best = chosen(fold, variant)
            scores = fold.test.X @ best.pop("coef")
            test = {
                name: float(evaluate(f"letor4:{name}", fold.test.y, scores, fold.test.queries))
                for name in SHOWN
            }
            seconds = time.process_time() - begun
            folds.append({"fold": fold.name, **best, "cpu_seconds": seconds, "test": test})
            print(f"{fold.name} {variant} {seconds:.1f} s", file=sys.stderr, flush=True)
    means = {
        variant: {name: float(np.mean([f["test"][name] for f in folds])) for name in SHOWN}
        for variant, folds in found.items()
    }
    return means, found


def main() -> None:
    figures = read_baselines(PUBLISHED)
    table, details = {}, {}
    for folder in sys.argv[1:]:
        name = LetorFolder(folder).name
        means, details[name] = run(folder)
        known = next((v for k, v in figures.items() if name.lower().startswith(k)), {})
        for method in ("AdaRank", "RankBoost"):
            if method in known:
                means[f"{method} (published)"] = {m: known[method][m] for m in SHOWN}
        table[name] = means
        print(name)
        for method, values in means.items():
            print(f"  {method:22s} " + "  ".join(f"{k} {v:.4f}" for k, v in values.items()))
    save("domination_letor", {"table": table, "folds": details})


if __name__ == "__main__":
    main()
