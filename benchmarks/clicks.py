"""Accuracy of the click tools on simulated logs, where the truth is known.

    python -m benchmarks.clicks [--share 0.1] [--only propensity,learning]

- propensity: mean error by position of each method, for four kinds of users;
- coverage: how often 95 % intervals of counterfactual estimates hold the true value;
- interleaving: how often equal rankers are told apart at the level 5 %, and the power for others;
- learning: NDCG@10 of true grades on new searches, by what was learnt from clicks; LightGBM's
  position option and XGBoost's lambdarank_unbiased stand beside it where they are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from benchmarks.common.machine import add
from rankine import AdditiveRanker, Dataset, LeastSquaresRanker, RankSVM, estimate_propensity
from rankine.evaluation.counterfactual import counterfactual
from rankine.evaluation.interleave import interleave, power
from rankine.evaluation.significance import bootstrap_means
from rankine.logs.clicks import coec, read_clicks
from rankine.logs.simulation import Cascade, DependentClick, PositionBased, TrustBias, simulate
from rankine.metrics import evaluate

USERS = {
    "position based": PositionBased(1.0),
    "position based, mild": PositionBased(0.5),
    "cascade": Cascade(),
    "dependent click": DependentClick(),
    "trust bias": TrustBias(),
}
FEATURES = [f"x{j + 1}" for j in range(10)]
PAIRS = {"item": "item", "search": "search"}


def propensity(share):
    """Measure the error of estimated examination probabilities at positions 2 to 10."""
    sessions = int(200_000 * share)
    results = {}
    for users, model in USERS.items():
        options = {"users": model, "random_state": 0}
        moving = simulate(sessions, exploration=0.5, **options)
        rankers = {"a": lambda X: X[:, 0], "b": lambda X: X[:, 1], "c": lambda X: X[:, 2]}
        several = simulate(sessions, rankers=rankers, **options)
        fixed = simulate(sessions, n_searches=5000, **options)
        shuffled = simulate(sessions, rankers="random", **options)
        tasks = {
            "harvest, noisy order": (moving, PAIRS),
            "harvest, three rankers": (several, PAIRS),
            "regression-EM, fixed order": (
                fixed.to_table(features=True), {"method": "em", "features": FEATURES}
            ),
            "randomised lists": (shuffled, {"method": "randomised"}),
        }  # fmt: skip
        truths = [moving, several, fixed, shuffled]
        results[users] = {"sessions": sessions}
        for (name, (log, how)), truth in zip(tasks.items(), truths, strict=True):
            estimate = estimate_propensity(log, n_resamples=0, **how)
            gap = np.abs(estimate.values - truth.propensity)[1:]
            results[users][name] = {
                "mean_error": float(gap.mean()),
                "largest_error": float(gap.max()),
                "estimate": estimate.values.round(4).tolist(),
                "truth": truth.propensity.round(4).tolist(),
                "groups": estimate.pairs,
            }
            print(users, name, round(float(gap.mean()), 4), flush=True)
    return results


def coverage(share):
    """Measure how often 95 % intervals of counterfactual estimates contain the true value."""
    searches, items, sessions, times = 40, 6, 2000, max(20, int(1000 * share))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(searches * items, 3))
    catalogue = Dataset.from_arrays(X, np.zeros(len(X)), np.repeat(np.arange(searches), items))
    taste, old, new = X @ [1, -1, 0.5], X @ [1, 0, 0], X @ [1, -1, 0]
    user = PositionBased(1.0)
    standard = (taste - taste.mean()) / taste.std()
    attraction = (1 / (1 + np.exp(1.5 - 1.5 * standard))).reshape(searches, items)
    order = np.argsort(-new.reshape(searches, items), axis=1)
    truth = (
        (np.take_along_axis(attraction, order, 1) * user.examination_probabilities(items))
        .sum(axis=1)
        .mean()
    )
    models = {
        "position_based": {"propensity": user.examination_probabilities(items)},
        "independent": {"model": "independent"},
    }
    results = {}
    for name, how in models.items():
        hits: dict = {}
        for seed in range(times):
            log = simulate(
                sessions, users=user, rankers=old, catalogue=catalogue, taste=taste,
                exploration=1.0, list_length=items, random_state=seed,
            )  # fmt: skip
            result = counterfactual(log, new[log.row], **how, **PAIRS)
            for e in result.estimates:
                hits.setdefault(e.name, []).append((e.low <= truth <= e.high, e.value))
        results[name] = {
            kind: {
                "coverage": float(np.mean([hit for hit, _ in values])),
                "bias": float(np.mean([value for _, value in values]) - truth),
                "spread": float(np.std([value for _, value in values])),
            }
            for kind, values in hits.items()
        }
        print(name, results[name], flush=True)
    return {"simulations": times, "sessions": sessions, "truth": float(truth), **results}


def shared_gaps(sessions, seed, advantage):
    """Simulate team-draft sessions of two noisy rankers; return clicks of b minus clicks of a.

    Both see the taste through noise of their own, new in every session; ``advantage`` takes some
    of the noise away from b.
    """
    rng = np.random.default_rng(seed)
    items, length = 10, 10
    taste = rng.normal(size=sessions * items)
    noise = rng.normal(size=(2, sessions * items)) * [[1.0], [1.0 - advantage]]
    data = Dataset.from_arrays(
        taste.reshape(-1, 1), np.zeros(len(taste)), np.repeat(np.arange(sessions), items)
    )
    rows, _, team = interleave(taste + noise, data.queries, length, random_state=seed)
    attraction = 1 / (1 + np.exp(1.5 - 1.5 * taste[rows])).reshape(sessions, length)
    _, clicked = PositionBased(1.0).read(attraction, rng)
    return (clicked * np.where(team.reshape(sessions, length) == 1, 1, -1)).sum(axis=1)


def p_values(gaps, seed):
    """Compute the exact and the bootstrap p-value as ``analyse_interleaving`` does."""
    from rankine.evaluation.interleave import bootstrap_p, sign_test

    means = bootstrap_means(gaps[:, None].astype(float), 1000, seed)
    return sign_test(int((gaps > 0).sum()), int((gaps < 0).sum())), bootstrap_p(means[:, 0])


def interleaving(share):
    """Measure how often two equal rankers, and two different ones, are told apart at level 5 %."""
    sessions, times = 200, max(100, int(10_000 * share))
    batch = 100
    exact, bootstrap = [], []
    for first in range(0, times, batch):
        gaps = shared_gaps(sessions * batch, 1000 + first, 0.0).reshape(batch, sessions)
        for b, each in enumerate(gaps):
            exact_p, two = p_values(each, first + b)
            exact.append(exact_p <= 0.05)
            bootstrap.append(two <= 0.05)
    results = {
        "simulations": times,
        "sessions": sessions,
        "exact": float(np.mean(exact)),
        "bootstrap": float(np.mean(bootstrap)),
    }
    print(results, flush=True)
    gaps = shared_gaps(200_000, 7, 0.5)
    decided = float((gaps != 0).mean())
    preference = float((gaps > 0).sum() / (gaps != 0).sum())
    results["better"] = {"preference": preference, "decided": decided, "curve": []}
    for n in (50, 100, 200, 400, 800, 1600):
        runs = gaps[: n * min(200, len(gaps) // n)].reshape(-1, n)
        pairs = [p_values(each, seed) for seed, each in enumerate(runs)]
        rejected = np.mean(np.array(pairs) <= 0.05, axis=0)
        planned = float(power(n, preference, decided=decided))
        results["better"]["curve"].append(
            {
                "sessions": n,
                "planned": planned,
                "exact": float(rejected[0]),
                "bootstrap": float(rejected[1]),
            }
        )
        print(results["better"]["curve"][-1], flush=True)
    return results


def learning_world(users, taste, sessions, seed):
    """Generate a log of 400 searches, and 100 validation and 200 test searches with true grades."""
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(14_000, 10)), np.repeat(np.arange(700), 20)
    weights = rng.normal(size=10)
    worth = X @ weights
    if taste == "curved":
        steps, bumps = np.where(X[:, 0] > 0.5, 1.5, 0.0), 1.5 * np.abs(X[:, 1]) - np.abs(X[:, 2])
        worth = steps + bumps + X[:, 3] * X[:, 4] + X[:, 5]
    old = X @ (weights / np.linalg.norm(weights) + 0.4 * rng.normal(size=10))
    log_rows = slice(0, 8000)
    log = simulate(
        sessions,
        users=users,
        catalogue=Dataset.from_arrays(X[log_rows], np.zeros(8000), qid[log_rows]),
        taste=worth[log_rows],
        rankers=old[log_rows],
        exploration=0.5,
        random_state=seed,
    )
    grades = np.searchsorted(np.quantile(worth, [0.5, 0.7, 0.85, 0.95]), worth, "right")
    parts = (slice(8000, 10_000), slice(10_000, 14_000))
    return log, *(Dataset.from_arrays(X[p], grades[p].astype(float), qid[p]) for p in parts)


def learnt(log):
    """Train every method on the clicks; map its name to a scoring function per setting."""
    data = log.to_dataset()
    propensities = estimate_propensity(log, n_resamples=0, **PAIRS)
    counted = replace(data, y=coec(read_clicks(log, **PAIRS), propensities))
    svm = partial(RankSVM, loss="squared_hinge", scale="standard")
    pairs = [partial(svm, l2, normalization="pair") for l2 in (1e-4, 1e-2)]
    pairs.append(partial(svm, 1e-4, normalization="query"))
    squares = [partial(LeastSquaresRanker, l2=l2) for l2 in (1e-4, 1e-2, 1.0)]
    tables = [partial(AdditiveRanker, smooth=s, pairs=10) for s in (1.0, 30.0, 1000.0)]
    methods = {
        "clicks as they are": (pairs, {}, data),
        "inverse propensity": (pairs, {"propensity": propensities}, data),
        "position offset": (squares, {"position_offset": 10}, data),
        "clicks over expected clicks": (squares, {}, counted),
        "additive, inverse propensity": (tables, {"propensity": propensities}, data),
    }
    return {
        name: [make(**options).fit(rows).predict for make in makes]
        for name, (makes, options, rows) in methods.items()
    }


def peers(log):
    """Train LightGBM and XGBoost on the clicks; map their names to scoring functions."""
    import lightgbm
    import xgboost

    data = log.to_dataset()
    sizes = data.queries.sizes
    models = {"LightGBM position": [], "XGBoost unbiased": []}
    for trees, rate, leaves in ((100, 0.1, 31), (200, 0.05, 15), (100, 0.05, 7)):
        rows = lightgbm.Dataset(data.X, data.y, group=sizes, position=data.position)
        how = {"objective": "lambdarank", "learning_rate": rate, "num_leaves": leaves}
        quiet = {"verbose": -1, "num_threads": 1, "seed": 0}
        model = lightgbm.train(how | quiet, rows, trees)
        models["LightGBM position"].append(model.predict)
    for trees, rate, depth in ((100, 0.1, 6), (200, 0.05, 4), (100, 0.1, 3)):
        rows = xgboost.DMatrix(data.X, data.y, nthread=1)
        rows.set_group(sizes)
        how = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "max_depth": depth}
        how |= {"lambdarank_pair_method": "topk", "eta": rate, "nthread": 1, "seed": 0}
        model = xgboost.train(how, rows, trees)
        models["XGBoost unbiased"].append(partial(xgboost_scores, model))
    return models


def xgboost_scores(model, X):
    import xgboost

    return model.predict(xgboost.DMatrix(X))


def learning(share):
    """Measure NDCG@10 of true grades on new searches; validation searches choose the setting.

    Every way has three settings; the seeds were not used before the settings were written down.
    """
    # With fewer sessions the last positions of a ranking get no click at all, and their
    # examination probabilities cannot be estimated.
    sessions = max(1500, int(4000 * share))
    seeds = (2026, 2027) if share == 1 else (2026,)
    results = {"sessions": sessions, "seeds": len(seeds), "linear": {}, "curved": {}}
    with_peers = importlib.util.find_spec("lightgbm") and importlib.util.find_spec("xgboost")
    for taste, users, seed in product(
        ("linear", "curved"), ("position based", "cascade", "dependent click", "trust bias"), seeds
    ):
        log, valid, test = learning_world(USERS[users], taste, sessions, seed)
        methods = learnt(log) | (peers(log) if with_peers else {})
        values = results[taste].setdefault(users, {})
        for name, settings in methods.items():
            judged = [
                [evaluate("ndcg@10", part.y, scores(part.X), part.qid) for part in (valid, test)]
                for scores in settings
            ]
            best = int(np.argmax([chosen for chosen, _ in judged]))
            values.setdefault(name, []).append({"setting": best, "test": float(judged[best][1])})
        print(
            taste, users, seed, {n: round(v[-1]["test"], 4) for n, v in values.items()}, flush=True
        )
    return results


PARTS = {
    "propensity": propensity,
    "coverage": coverage,
    "interleaving": interleaving,
    "learning": learning,
}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, comma-separated")
    options = parser.parse_args(arguments)
    for part in options.only.split(","):
        add("clicks", part, PARTS[part](options.share))


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--share", "0.002"])


def quick():
    """Run a twentieth of the sessions and simulations."""
    main(["--share", "0.05"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
