"""Daily warm starts against training on all days, on a stationary log and on one that drifts.

    python -m benchmarks.retrain

Day 1 is trained from nothing, and every later day starts from the model of the day before. Two
questions are asked on the lists of the day after, which no model has seen. How much is lost after
seven warm starts against training on all days at once? On the stationary log, how many daily models
are proven worse than the model of the day before (paired one-sided test at the 5 % level)?
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace

import numpy as np
from scipy import stats

from benchmarks.common.machine import save
from rankine import Dataset, ElasticRanker, SPDRanker
from rankine.data.splits import split_in_order
from rankine.logs.simulation import PositionBased, shop_log, simulate
from rankine.metrics import evaluate

METRIC = "ndcg@10:ties=expected"
#: Lists a day, and lists that models are tested on.
PER_DAY, TEST = 300, 2000
#: Warm starts after which the loss counts.
STARTS = 7
RANKERS = {"elastic": ElasticRanker, "spd": SPDRanker}


def shop(seed):
    """Return eight days of the simulated shop, and test lists of the same shop."""
    log = shop_log((STARTS + 1) * PER_DAY + TEST, random_state=seed)
    *days, test = split_in_order(log, [PER_DAY] * (STARTS + 1) + [TEST])
    return days, [test] * len(days)


def drifting(seed):
    """Return 14 days of a log whose taste changes by half, and the true grades of the days after.

    Items have ten numbers; sessions are shown by a ranker that never changes, with noise.
    """
    n_days = 15
    log = simulate(
        n_days * PER_DAY, users=PositionBased(0.5), drift=0.5, exploration=1.0, n_searches=2000,
        popularity=None, random_state=seed,
    )  # fmt: skip
    days = split_in_order(log.to_dataset(), [1] * n_days)
    grades = np.digitize(log.attraction, np.quantile(log.attraction, (0.5, 0.7, 0.85, 0.95)))
    ends = np.cumsum([day.n_rows for day in days])
    tests = [
        replace(day, y=grades[end - day.n_rows : end].astype(float))
        for day, end in zip(days, ends, strict=True)
    ]
    return list(days[:-1]), tests[1:]


LOGS = {"stationary shop": shop, "drifting log": drifting}


def values(ranker, test):
    """Return the metric of every test list."""
    result = evaluate(METRIC, test.y, ranker.predict(test), test.qid, per_query=True)
    return result[~np.isnan(result)]


def together(days):
    """Return the lists of several days as one set."""
    X = np.concatenate([day.X for day in days])
    qid = np.concatenate([np.asarray(day.qid) for day in days])
    return Dataset.from_arrays(X, np.concatenate([day.y for day in days]), qid)


def follow(make, days, tests):
    """Train day by day; return the test values of each day's model, and of training on all."""
    ranker = make().fit(days[0])
    daily = [values(ranker, tests[0])]
    before = []
    for day, test in zip(days[1:], tests[1:], strict=True):
        before.append(values(ranker, test))
        ranker = make().fit(day, coef_init=ranker.to_model())
        daily.append(values(ranker, test))
    everything = values(make().fit(together(days)), tests[-1])
    return daily, before, everything


def measure(name, log, seeds):
    """Measure a ranker on a log."""
    losses, last_losses, worse, better, n_models = [], [], 0, 0, 0
    for seed in range(seeds):
        days, tests = LOGS[log](seed)

        def make(seed=seed):
            return RANKERS[name](random_state=seed)

        daily, before, everything = follow(make, days[: STARTS + 1], tests[: STARTS + 1])
        losses.append(float(everything.mean() - daily[-1].mean()))
        for today, yesterday in zip(daily[1:], before, strict=True):
            n_models += 1
            worse += stats.ttest_rel(today, yesterday, alternative="less").pvalue < 0.05
            better += stats.ttest_rel(today, yesterday, alternative="greater").pvalue < 0.05
        if len(days) > STARTS + 1:
            daily, _, everything = follow(make, days, tests)
            last_losses.append(float(everything.mean() - daily[-1].mean()))
    result = {
        "loss": float(np.mean(losses)),
        "losses": [round(loss, 4) for loss in losses],
        "models": n_models,
        "worse_than_yesterday": int(worse),
        "better_than_yesterday": int(better),
    }
    if last_losses:
        result["loss_after_all_days"] = float(np.mean(last_losses))
    return result


def main(seeds):
    results = {}
    for log in LOGS:
        for name in RANKERS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.setdefault(log, {})[name] = measure(name, log, seeds)
            print(log, name, results[log][name], flush=True)
    save("retrain", {"metric": METRIC, "lists_a_day": PER_DAY, "seeds": seeds, "logs": results})


def smoke():
    """Run the smallest size, as the tests do."""
    main(1)


def quick():
    """Measure two seeds."""
    main(2)


def full():
    """Measure ten seeds."""
    main(10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    main(parser.parse_args().seeds)
