"""Thompson sampling against random search and Optuna's TPE: 30 trials, 20 seeds.

    python -m benchmarks.tune.samplers [--seeds 20] [--trials 30]

Two objectives. ``toy``: a known function of the paper's space (l1 and l2 on a logarithmic axis;
solver, loss and metric) with noise of 0.005 and optimum 0.33; what counts is the true value of
the setting that a sampler judged best, at the end and as a mean over the trials (the area under its
curve). ``elastic``: the same space, with a real ElasticRanker on
generated lists, judged on held-out ones.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import optuna
from scipy import stats

from benchmarks.common.machine import save
from benchmarks.common.workloads import AS_PRINTED
from rankine import Dataset, ElasticRanker
from rankine.metrics import evaluate
from rankine.tuning import ThompsonSampler

SOLVERS, LOSSES = ("rda", "fobos", "psgd"), ("hinge", "logistic")
METRICS = ("ndcg", "map", "mrr", "recall@10")
SAMPLERS = {
    "thompson": lambda seed: ThompsonSampler(seed=seed),
    "ei": lambda seed: ThompsonSampler(seed=seed, acquisition="ei"),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
}


def suggest(trial):
    """Suggest a point of the space of Freno et al. 2015."""
    return (
        trial.suggest_float("l1_or_theta", 1e-6, 1e-1, log=True),
        trial.suggest_float("l2", 1e-6, 1.0, log=True),
        trial.suggest_categorical("solver", SOLVERS),
        trial.suggest_categorical("loss", LOSSES),
        trial.suggest_categorical("metric", METRICS),
    )


def toy_value(l1, l2, solver, loss, metric):
    """Return the true value, at most 0.33."""
    a, b = SOLVERS.index(solver), LOSSES.index(loss)
    value = -0.05 * (np.log10(l1) + 4) ** 2 - 0.02 * (np.log10(l2) + 2) ** 2
    value += (0.0, 0.15, 0.05)[a] + (0.1, 0.0)[b] + (0.0, 0.02, 0.08, -0.1)[METRICS.index(metric)]
    return value - 0.1 * (a == 1 and b == 1)


def toy(seed):
    """Return a noisy objective and its true value function."""
    noise = np.random.default_rng(seed)
    return lambda trial: toy_value(*suggest(trial)) + 0.005 * noise.normal(), toy_value


def make_lists(seed, n_lists=150):
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random(40) < 0.2, rng.normal(size=40), 0.0)
    X = rng.normal(size=(n_lists * 12, 40)) * (rng.random((n_lists * 12, 40)) < 0.5)
    score = X @ weights + rng.normal(size=len(X))
    y = (score > 1.0).astype(int) + (score > 2.5)
    return Dataset.from_arrays(X, y, np.repeat(np.arange(n_lists), 12))


def elastic(seed):
    """Return an objective that trains ElasticRanker on generated lists."""
    train, valid = make_lists(seed), make_lists(seed, 400).take(slice(150 * 12, None))

    def value(l1, l2, solver, loss, metric):
        strength = {"theta": l1} if solver == "psgd" else {"l1": l1}
        parameters = {"solver": solver, "loss": loss, "objective": metric, "l2": l2, **strength}
        ranker = ElasticRanker(**{**AS_PRINTED, "random_state": 0, **parameters})
        scores = ranker.fit(train).predict(valid)
        return float(evaluate("ndcg@10", valid.y, scores, valid.queries))

    return lambda trial: value(*suggest(trial)), value


def run(problem, sampler, seed, trials):
    """Run a study; return true value of the best setting, mean, and CPU seconds per proposal."""
    objective, value = problem(seed)
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed), direction="maximize")
    spent = 0.0
    for _ in range(trials):
        begun = time.process_time()
        trial = study.ask()
        suggest(trial)
        spent += time.process_time() - begun
        study.tell(trial, objective(trial))
    order = ("l1_or_theta", "l2", "solver", "loss", "metric")
    curve, best = [], -np.inf
    for trial in study.trials:
        if trial.value > best:
            best, true = trial.value, value(*(trial.params[name] for name in order))
        curve.append(true)
    return curve[-1], float(np.mean(curve)), spent / trials


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0, help="for development: not 0 to 19")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--problems", nargs="*", default=["toy", "elastic"])
    options = parser.parse_args(argv)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    results = {
        "seeds": options.seeds,
        "first_seed": options.first_seed,
        "trials": options.trials,
    }
    for name in options.problems:
        runs_by_sampler = {}
        for sampler in SAMPLERS:
            runs = [
                run(globals()[name], sampler, options.first_seed + k, options.trials)
                for k in range(options.seeds)
            ]
            runs_by_sampler[sampler] = np.array(runs)
        results[name] = report(name, runs_by_sampler)
    save("tune", results)


def report(name, found):
    """Return means, and paired tests of Thompson sampling against the other samplers."""
    summary = {}
    for sampler, runs in found.items():
        values = runs[:, 0]
        entry = {
            "mean": values.mean(),
            "sd": values.std(ddof=1) if len(values) > 1 else 0.0,
            "mean_over_trials": runs[:, 1].mean(),
            "cpu_seconds_per_proposal": runs[:, 2].mean(),
        }
        if sampler != "thompson" and "thompson" in found:
            for column, word in enumerate(("", "_over_trials")):
                ours, theirs = found["thompson"][:, column], runs[:, column]
                if np.ptp(ours - theirs) > 0:
                    test = stats.wilcoxon(ours, theirs, alternative="greater")
                    entry[f"thompson_better_p{word}"] = float(test.pvalue)
                    entry[f"thompson_wins{word}"] = int((ours > theirs).sum())
        summary[sampler] = {key: round(float(value), 5) for key, value in entry.items()}
        print(name, sampler, summary[sampler], flush=True)
    return summary


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--seeds", "1", "--trials", "4", "--problems", "toy"])


def quick():
    """Run five seeds."""
    main(["--seeds", "5"])


def full():
    """Run twenty seeds of 30 trials."""
    main([])


if __name__ == "__main__":
    main()
