"""CPU time that the gain pruner saves, and trials that it prunes wrongly.

    python -m benchmarks.tune.pruning [--seeds 10] [--trials 30]

Generated lists of 12 with 40 features, judged on lists of their own. Every study is searched twice
with the same seed, with ``pruner="gain"`` and ``pruner="none"``. Every trial that was given up is
then trained to its end: it was given up wrongly if it would have been better than the best before
it. CPU time is that of the trials, without the sampler's; compiled code is loaded before.
"""

from __future__ import annotations

import argparse
import time
import warnings
from unittest import mock

import numpy as np

import rankine
import rankine.tuning.run
from benchmarks.common.machine import save
from benchmarks.tune.samplers import make_lists
from rankine.tuning.objective import Objective

RANKERS = ("spd", "ranksvm", "least-squares", "domination", "elastic")
METRIC = "ndcg@10"


def search(ranker, train, held, seed, trials, pruner):
    """Run a search; return it and the CPU seconds of its trials."""
    spent = []

    def timed(objective, trial):
        objective.space.suggest(trial)  # asks the sampler, outside the clock
        begun = time.process_time()
        try:
            return Objective.__call__(objective, trial)
        finally:
            spent.append(time.process_time() - begun)

    with mock.patch.object(
        rankine.tuning.run, "Objective", type("Timed", (Objective,), {"__call__": timed})
    ):
        result = rankine.tune(
            train,
            ranker=ranker,
            valid=held,
            metric=METRIC,
            trials=trials,
            random_state=seed,
            pruner=pruner,
        )
    return result, sum(spent)


def wrongly(found, train, held):
    """Count the pruned trials, and those of them that would have been a new best."""
    pruned = [k for k, r in enumerate(found.trace) if r.state == "pruned"]
    wrong = 0
    for k in pruned:
        record = found.trace[k]
        fitted = type(found.ranker)(**{**found.ranker.get_params(), **record.parameters})
        wrong += fitted.fit(train).score(held) > record.best
    return len(pruned), wrong


def measure(ranker, seeds, trials, lists):
    """Return means over seeds."""
    rows = []
    for seed in range(seeds):
        whole = make_lists(seed, 2 * lists)
        train, valid = whole.take_queries(range(lists)), whole.take_queries(range(lists, 2 * lists))
        if seed == 0:
            search(ranker, train, valid, seed, trials, "none")  # loads compiled code
        plain, slow = search(ranker, train, valid, seed, trials, "none")
        given_up, quick = search(ranker, train, valid, seed, trials, "gain")
        pruned, wrong = wrongly(given_up, train, valid)
        rows.append((plain.best_value, given_up.best_value, slow, quick, pruned, wrong))
    table = np.array(rows)
    pruned = float(table[:, 4].sum())
    return {
        "best_without": table[:, 0].mean(),
        "best_with": table[:, 1].mean(),
        "best_difference_largest": np.abs(table[:, 1] - table[:, 0]).max(),
        "cpu_seconds_without": table[:, 2].sum(),
        "cpu_seconds_with": table[:, 3].sum(),
        "pruned_per_study": table[:, 4].mean(),
        "wrongly_of_pruned": float(table[:, 5].sum() / pruned) if pruned else 0.0,
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--lists", type=int, default=400)
    parser.add_argument("--rankers", nargs="*", default=list(RANKERS))
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    results = {"seeds": options.seeds, "trials": options.trials, "lists": options.lists}
    for ranker in options.rankers:
        result = measure(ranker, options.seeds, options.trials, options.lists)
        results[ranker] = {name: round(float(value), 5) for name, value in result.items()}
        print(ranker, results[ranker], flush=True)
        save("tune_pruning", results)


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--seeds", "1", "--trials", "3", "--lists", "40", "--rankers", "least-squares"])


def quick():
    """Measure two seeds of one ranker."""
    main(["--seeds", "2", "--rankers", "least-squares"])


def full():
    """Measure ten seeds of 30 trials for all rankers."""
    main([])


if __name__ == "__main__":
    main()
