"""Click probabilities on simulated logs, beside LightGBM's ranker with isotonic regression.

    python -m benchmarks.probabilities [--seeds 3]

Models are trained on 10,000 lists, calibrated on 20,000 and evaluated on 10,000 others. LightGBM's
scores are centred in their lists, and its probabilities are scikit-learn's isotonic regression. The
time is that of the probabilities of 100 scores, CPU time, the best of 40 rounds.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.common.machine import save
from benchmarks.scoring.latency import best_of
from rankine import LeastSquaresRanker, RankSVM
from rankine.data import Dataset
from rankine.evaluation.calibration import OutcomeRows, calibrate
from rankine.logs.simulation import simulate
from rankine.metrics.probability import calibration_error, log_loss
from rankine.scoring.probability import OutcomeProbabilities

RANKERS = {
    "LeastSquaresRanker": LeastSquaresRanker(),
    "LeastSquaresRanker, untied": LeastSquaresRanker(pairs="untied"),
    "RankSVM": RankSVM(),
}
LISTS = {"train": 10_000, "calibrate": 20_000, "test": 10_000}


def parts(log, n_lists):
    """Return the datasets of the three parts."""
    X, clicked = log.catalogue.X[log.row], log.clicked.astype(float)
    ends = np.searchsorted(log.session, np.cumsum(list(n_lists.values())))
    datasets = {}
    for name, start, end in zip(n_lists, [0, *ends[:-1]], ends, strict=True):
        rows = slice(start, end)
        columns = {"clicked": clicked[rows], "position": log.position[rows]}
        qid = log.session[rows] + 1000
        datasets[name] = Dataset.from_arrays(
            np.ascontiguousarray(X[rows]), clicked[rows], qid, columns=columns
        )
    return datasets


def centred(scores, data):
    means = np.add.reduceat(scores, data.queries.starts[:-1]) / data.queries.sizes
    return scores - np.repeat(means, data.queries.sizes)


def peer(data):
    """Return the probabilities of LightGBM and isotonic regression; None without LightGBM."""
    try:
        from lightgbm import LGBMRanker
    except ImportError:
        print("lightgbm is not installed: left out")
        return None
    from sklearn.isotonic import IsotonicRegression

    train, fit, test = data["train"], data["calibrate"], data["test"]
    ranker = LGBMRanker(n_estimators=100, verbose=-1, n_jobs=1)
    ranker.fit(train.X, train.y, group=train.queries.sizes)
    curve = IsotonicRegression(out_of_bounds="clip", y_min=1e-6, y_max=1 - 1e-6)
    curve.fit(centred(ranker.predict(fit.X), fit), fit.y)
    return curve.predict(centred(ranker.predict(test.X), test))


def measure(seed, n_lists):
    log = simulate(sum(n_lists.values()), random_state=seed)
    data = parts(log, n_lists)
    test = data["test"]
    results = {}
    for name, ranker in RANKERS.items():
        model = ranker.fit(data["train"]).to_model()
        model = calibrate(model, data["calibrate"], outcome="clicked", position="position")
        rows = OutcomeRows.read(model, test, "clicked", "position")
        probabilities = rows.probabilities(model.calibration)
        results[name] = figures(test.y, probabilities)
        results[name]["changed orders"] = changed_orders(model, rows)
    probabilities = peer(data)
    if probabilities is not None:
        results["LightGBM, isotonic"] = figures(test.y, probabilities)
    return results, model


def figures(outcomes, probabilities):
    return {
        "ece": calibration_error(outcomes, probabilities),
        "log loss": log_loss(outcomes, probabilities),
    }


def changed_orders(model, rows):
    """Count lists whose order by probability at one position is not that of their scores."""
    probabilities = OutcomeProbabilities(model.calibration)(rows.scores, rows.queries.starts)
    count = 0
    for a, b in zip(rows.queries.starts[:-1], rows.queries.starts[1:], strict=True):
        by_score = np.argsort(-rows.scores[a:b], kind="stable")
        count += not np.array_equal(by_score, np.argsort(-probabilities[a:b], kind="stable"))
    return count


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="share of the full size")
    options = parser.parse_args(argv)
    n_lists = {name: int(options.share * count) for name, count in LISTS.items()}
    runs = []
    for seed in range(options.seeds):
        results, model = measure(seed, n_lists)
        runs.append(results)
        for name, values in results.items():
            print(seed, name, {key: round(value, 5) for key, value in values.items()})
    compute = OutcomeProbabilities(model.calibration)
    scores, positions = np.random.default_rng(0).normal(size=100), np.arange(1, 101)
    best = best_of({"probabilities": lambda: compute(scores, None, positions)}, 0.2)
    print(f"100 items: {best['probabilities']:.2f} us")
    save("probabilities", {"lists": n_lists, "runs": runs, "microseconds": best["probabilities"]})


def smoke():
    """Run the smallest size, as the tests do."""
    main(["--seeds", "1", "--share", "0.02"])


def quick():
    """Run a small size."""
    main(["--seeds", "1", "--share", "0.2"])


def full():
    """Run the full size."""
    main([])


if __name__ == "__main__":
    main()
