"""More rows than features: error and time against gamma, and stochastic steps inside one query."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from benchmarks.common.timing import cpu_seconds
from sklearn.exceptions import ConvergenceWarning

from papers.runs import table
from papers.tas.gamma import METHODS, TOL, one_fit, stopped_late
from papers.tas.topic import large_half, largest_eigenvalue, sample, system_of
from rankine import Dataset, LeastSquaresRanker
from rankine.metrics import evaluate

TITLE = "More rows than features: gamma, and stochastic steps"
SMOKE = {"rows": 1_000, "test": 500, "gammas": [1.0], "max_iter": 20, "batch": 250, "n_passes": 1}
QUICK = {"rows": 4_000, "test": 1_000, "gammas": [1.0, 100.0], "max_iter": 100, "batch": 500,
         "n_passes": 2}  # fmt: skip
FULL = {
    "rows": 800_000,
    "test": 20_000,
    "gammas": [0.1, 1.0, 10.0, 100.0, 1e3, 1e4],
    "max_iter": 300,
    "batch": 500,
    "n_passes": 5,
}
SEED = 1


def stochastic(train, test, gamma, batch, n_passes):
    """Train with ``solver="sgd"`` on one query cut at random into lists of ``batch`` rows.

    Residuals are those of the whole query's equations, whatever the solver's own say.
    """
    order = np.random.default_rng(SEED).permutation(train.n_rows)
    qid = np.arange(train.n_rows) // batch
    cut = Dataset.from_arrays(train.X[order], train.y[order], qid)
    ranker = LeastSquaresRanker(
        2 * gamma, normalization="sum", solver="sgd", n_passes=n_passes, tol=TOL, n_threads=1,
        random_state=SEED,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as report:
        warnings.simplefilter("always")
        seconds, ranker = cpu_seconds(lambda: ranker.fit(cut))
    whole = system_of(train)
    residual = np.linalg.norm(whole.times(ranker.coef_, gamma) - whole.b) / np.linalg.norm(whole.b)
    return {
        "seconds": seconds,
        "passes": int(ranker.n_iter_),
        "residual": float(residual),
        "warned": any(issubclass(one.category, ConvergenceWarning) for one in report),
        "test_error": float(evaluate("pairwise-error", test.y, ranker.predict(test))),
    }


def measure(rows, test, gammas, max_iter, batch, n_passes):
    source, X, y = large_half(rows + test)
    train, test_rows = sample(X, y, SEED, rows, test)
    k1 = largest_eigenvalue(system_of(train))
    fits = {name: [] for name in METHODS}
    steps = []
    for gamma in gammas:
        for name, parameters in METHODS.items():
            fits[name].append(one_fit(train, test_rows, gamma, SEED, max_iter, parameters))
        steps.append(stochastic(train, test_rows, gamma, batch, n_passes))
        print(gamma, file=sys.stderr, flush=True)
    return {
        "seeds": [SEED],
        "repetitions": 1,
        "tol": TOL,
        "collection": source,
        "features": X.shape[1],
        "kappa_1": k1,
        "gammas": gammas,
        "methods": fits,
        "sgd": steps,
    }


def markdown(results):
    size, methods = results["parameters"], results["methods"]
    rows = []
    for k, gamma in enumerate(results["gammas"]):
        runs = [sgd[k] for sgd in methods.values()]
        rows.append([
            f"{gamma:g}", f"{(results['kappa_1'] + gamma) / gamma:.3g}",
            *(f"{run['iterations']:.0f}{stopped_late(run)}" for run in runs),
            *(f"{run['seconds']:.3g}" for run in runs),
            *(f"{run['test_error']:.4f}" for run in runs),
        ])  # fmt: skip
    header = ("gamma", "condition", *(f"{n} iterations" for n in methods),
              *(f"{n} s" for n in methods), *(f"{n} error" for n in methods))  # fmt: skip
    steps = [
        [
            f"{gamma:g}", str(sgd["passes"]), f"{sgd['seconds']:.3g}", f"{sgd['residual']:.2g}",
            "yes" if sgd["warned"] else "no", f"{sgd['test_error']:.4f}",
            f"{sgd['test_error'] - exact['test_error']:+.4f}",
        ]
        for gamma, sgd, exact in zip(
            results["gammas"], results["sgd"], methods["CG"], strict=True
        )
    ]  # fmt: skip
    return "\n\n".join([
        (f"{size['rows']:,} {results['collection']} rows of {results['features']:,} features, half "
         f"of them positive, one query, {size['test']:,} test rows (the paper: close to 800,000 "
         "rows of 47,152 features); stop at a relative residual of "
         f"{results['tol']:g} or after {size['max_iter']:,} iterations. The condition takes "
         "kappa_n as 0, which it is where a feature never occurs."),
        table(header, rows),
        ('Stochastic steps, which the paper leaves to the future: `solver="sgd"` on the same rows, '
         f"cut at random into lists of {size['batch']} as batches inside the one query, "
         f"{size['n_passes']} passes. The residual is that of the whole query; *warned* says "
         "whether `fit` warned that it had not converged."),
        table(("gamma", "passes", "CPU s", "residual", "warned", "error", "error - CG's"), steps),
    ])  # fmt: skip


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    figure, axes = panels(3, width=4.0, height=3.1)
    errors_of_cg = [run["test_error"] for run in results["methods"]["CG"]]
    fields = {"test_error": "test error minus CG's", "iterations": "iterations", "seconds": "CPU s"}
    for ax, (field, name) in zip(axes, fields.items(), strict=True):
        for colour, (method, runs) in zip(COLOURS, results["methods"].items(), strict=False):
            values = [run[field] for run in runs]
            if field == "test_error":
                values = np.subtract(values, errors_of_cg)
            line(ax, results["gammas"], values, method, colour)
        if field != "iterations":
            values = [run[field] for run in results["sgd"]]
            if field == "test_error":
                values = np.subtract(values, errors_of_cg)
            line(ax, results["gammas"], values, "sgd", COLOURS[len(results["methods"])])
        axis(ax, "gamma", name, logx=True, logy=field != "test_error")
        label_lines(ax, apart=0.08)
    return figure
