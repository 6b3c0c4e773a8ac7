"""How often the gain pruner gives up a winner: learning curves of real data, replayed.

    RANKINE_DATA=... python -m benchmarks.tune.replay [--settings 40] [--orders 40]

Every ranker is trained to its end with 40 random settings of its search space on fold 1 of MQ2008
and OHSUMED, and judged on the validation part at reports 4, 8, 16 ... (as ``rankine tune`` does).
The curves are then replayed in 40 random orders, 30 settings each, through ``GainPruner``: a
setting was given up wrongly if its end is better than the best before it. ``work`` is the share of
reports that were still computed; ``loss`` what the best value of a study lost.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import optuna

from benchmarks.common.machine import save
from rankine.core.errors import RankineError
from rankine.data.dataset import row_scores
from rankine.evaluation.letor import LetorFolder
from rankine.metrics import evaluate_on, parse_metric
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.transforms.scaling import fit_scaling
from rankine.tuning import GainPruner
from rankine.tuning.objective import FIRST_REPORT
from rankine.tuning.spaces import Space

FOLDERS = ("mq2008", "ohsumed_letor3_querylevelnorm")
METRIC = parse_metric("ndcg@10")
TRIALS = 30


def curves(name, fold, settings):
    """Train random settings; return (value by report, final value, number of reports) of each."""
    space = Space({name: ranker_class(name)(random_state=0, metric=str(METRIC))})
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    learning_curves = []
    for _ in range(settings):
        ranker = space.ranker(space.suggest(study.ask()))
        scaling = fit_scaling(ranker.scale, fold.train)
        values_by_report, count = {}, [0]

        def watch(progress, values=values_by_report, count=count, scaling=scaling):
            count[0] += 1
            if count[0] >= FIRST_REPORT and count[0] & (count[0] - 1) == 0:
                scores = row_scores(fold.vali.X, scaling.fold(progress.coef()))
                values[count[0]] = evaluate_on(fold.vali, scores=scores, metric=METRIC)

        try:
            ranker.fit(fold.train, callbacks=[watch])
        except RankineError:
            continue
        learning_curves.append(
            (values_by_report, evaluate_on(fold.vali, model=ranker, metric=METRIC), count[0])
        )
    return learning_curves


def replay(found, order):
    """Replay curves in an order; return work done, loss of the best value, and pruned trials."""
    study = optuna.create_study(direction="maximize", pruner=GainPruner())
    reports_done = total = pruned = wrong = 0
    best = best_of_all = -np.inf
    for k in order:
        values_by_report, end, reports = found[k]
        trial = study.ask()
        at = next(
            (c for c in sorted(values_by_report) if _hopeless(trial, values_by_report[c], c)), None
        )
        total += reports
        best_of_all = max(best_of_all, end)
        if at is None:
            reports_done += reports
            best = max(best, end)
            study.tell(trial, end)
        else:
            reports_done += at
            pruned += 1
            wrong += end > best
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    return reports_done / max(total, 1), best_of_all - best, pruned, wrong


def _hopeless(trial, value, step):
    trial.report(value, step)
    return trial.should_prune()


def summarise(found, orders):
    """Return means over random orders."""
    rows = [
        replay(found, np.random.default_rng(seed).permutation(len(found))[:TRIALS])
        for seed in range(orders)
    ]
    work, loss, pruned, wrong = np.array(rows, dtype=float).T
    return {
        "work": work.mean(),
        "loss": loss.mean(),
        "largest_loss": loss.max(),
        "pruned_of_30": pruned.mean(),
        "wrongly_of_pruned": wrong.sum() / max(pruned.sum(), 1.0),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=40)
    parser.add_argument("--orders", type=int, default=40)
    parser.add_argument("--rankers", nargs="*", default=list(RANKERS))
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if "RANKINE_DATA" not in os.environ:
        raise SystemExit("set RANKINE_DATA to the folder of MQ2008 and OHSUMED")
    results = {"settings": options.settings, "orders": options.orders}
    for folder in FOLDERS:
        fold = next(iter(LetorFolder(Path(os.environ["RANKINE_DATA"]) / folder).folds()))
        for ranker in options.rankers:
            figures = summarise(curves(ranker, fold, options.settings), options.orders)
            rounded = {name: round(float(value), 5) for name, value in figures.items()}
            results.setdefault(folder, {})[ranker] = rounded
            print(folder, ranker, rounded, flush=True)
    save("tune_replay", results)


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--settings", "2", "--orders", "1", "--rankers", "least-squares"])


def quick():
    """Measure one ranker; needs RANKINE_DATA."""
    main(["--rankers", "least-squares"])


def full():
    """Measure all rankers; needs RANKINE_DATA."""
    main([])


if __name__ == "__main__":
    main()
