"""Error, iterations, time and condition number against gamma, for eGDM, GDM and CG."""

from __future__ import annotations

import sys
import warnings

from benchmarks.common.timing import cpu_seconds, exponent, spread
from sklearn.exceptions import ConvergenceWarning

from papers.runs import table
from papers.tas.topic import half_topics, largest_eigenvalue, sample, system_of
from rankine import LeastSquaresRanker
from rankine.metrics import evaluate

TITLE = "Error, iterations and time against gamma"
SMOKE = {"rows": 200, "test": 500, "seeds": [0, 1], "gammas": [1.0], "max_iter": 50}
QUICK = {
    "rows": 500, "test": 2_000, "seeds": [0, 1], "gammas": [1e-2, 1.0, 1e2], "max_iter": 500,
}  # fmt: skip
FULL = {
    "rows": 2_500,
    "test": 5_000,
    "seeds": list(range(10)),
    "gammas": [10.0**k for k in range(-4, 5)],
    "max_iter": 2_000,
}

TOL = 1e-4
#: The paper does not say which momentum its GDM has.
MOMENTA = (0.0, 0.5, 0.9)
GDM = tuple(f"GDM {momentum:g}" for momentum in MOMENTA)
METHODS = {
    "eGDM": {"solver": "egdm"},
    **{n: {"solver": "gdm", "momentum": m} for n, m in zip(GDM, MOMENTA, strict=True)},
    "CG": {"solver": "cg"},
}


def one_fit(train, test, gamma, seed, max_iter, parameters):
    """Return seconds, iterations, residual and test error of one solver."""
    ranker = LeastSquaresRanker(
        2 * gamma, normalization="sum", tol=TOL, max_iter=max_iter, random_state=seed, n_threads=1,
        **parameters,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted below
        seconds, ranker = cpu_seconds(lambda: ranker.fit(train))
    residual = ranker.solution_.certificate["residual"]
    return {
        "seconds": seconds,
        "iterations": float(ranker.n_iter_),
        "residual": float(residual),
        "converged": float(residual <= TOL),
        "test_error": float(evaluate("pairwise-error", test.y, ranker.predict(test))),
    }


def stopped_late(run):
    """Mark the iterations of a run that did not converge."""
    return "" if run["converged"] else " (stopped)"


def measure(rows, test, seeds, gammas, max_iter):
    topics = {
        source: one_topic(data, rows, test, seeds, gammas, max_iter)
        for source, data in half_topics().items()
    }
    return {"seeds": seeds, "repetitions": len(seeds), "tol": TOL, "topics": topics}


def one_topic(data, rows, test, seeds, gammas, max_iter):
    """Return spreads over seeds of every solver at every gamma."""
    runs = {name: {gamma: [] for gamma in gammas} for name in METHODS}
    conditions = {gamma: [] for gamma in gammas}
    for seed in seeds:
        train, test_rows = sample(*data, seed, rows, test)
        k1 = largest_eigenvalue(system_of(train))
        for gamma in gammas:
            conditions[gamma].append((k1 + gamma) / gamma)
            for name, solver_result in METHODS.items():
                by_solver = one_fit(train, test_rows, gamma, seed, max_iter, solver_result)
                runs[name][gamma].append(by_solver)
        print(seed, file=sys.stderr, flush=True)
    return {
        "gammas": gammas,
        "condition": [spread(conditions[gamma]) for gamma in gammas],
        "methods": {
            name: {
                field: [spread(run[field] for run in by_gamma[gamma]) for gamma in gammas]
                for field in by_gamma[gammas[0]][0]
            }
            for name, by_gamma in runs.items()
        },
    }


def markdown(results):
    size = results["parameters"]
    parts = [
        (
            f"{size['rows']:,} rows a seed, half of them positive, and {size['test']:,} test rows; "
            f"stop at a relative residual of {results['tol']:g} or after {size['max_iter']:,} "
            "iterations; *GDM 0.5* has momentum 0.5, and eta = 1 / kappa_1 (the paper does not "
            "state its momentum). Medians over "
            f"{results['repetitions']} draws of rows and starts; the error is pairwise, on test "
            "rows. kappa_n = 0, because features are more than rows: the paper has more rows than "
            "features, as the next section does."
        )
    ]
    for source, topic_result in results["topics"].items():
        parts += [f"**{source}**", gamma_table(topic_result), outcome(topic_result)]
    return "\n\n".join(parts)


def gamma_table(found):
    """Return a table with one row per gamma."""
    methods, rows = found["methods"], []
    for k, gamma in enumerate(found["gammas"]):
        cells = [f"{gamma:g}", f"{found['condition'][k]['median']:.3g}"]
        for solver_result in methods.values():
            stopped = "" if solver_result["converged"][k]["low"] == 1 else " (stopped)"
            cells.append(f"{solver_result['iterations'][k]['median']:.0f}{stopped}")
        cells += [
            f"{1e3 * solver_result['seconds'][k]['median']:.3g}"
            for solver_result in methods.values()
        ]
        cells += [
            f"{solver_result['test_error'][k]['median']:.4f}" for solver_result in methods.values()
        ]
        rows.append(cells)
    header = (
        "gamma", "condition", *(f"{n} iterations" for n in methods), *(f"{n} ms" for n in methods),
        *(f"{n} error" for n in methods),
    )  # fmt: skip
    return table(header, rows)


def outcome(found):
    """Check the paper's statements."""
    methods = found["methods"]
    conditions = [c["median"] for c in found["condition"]]
    middle = [c["median"] for c in methods["eGDM"]["iterations"]]
    steep = [k for k, c in enumerate(conditions) if c > 10 and
             methods["eGDM"]["converged"][k]["low"] == 1]  # fmt: skip
    sentences = []
    if len(steep) > 1:
        slope = exponent([conditions[k] for k in steep], [middle[k] for k in steep])
        sentences.append(
            f"eGDM's iterations grow as the condition number to the power {slope:.2f} (theory: "
            "1/2); the paper calls it unaffected"
        )
    last = len(conditions) - 1
    ends = [f"{methods[n]['iterations'][last]['median']:.0f} ({n})" for n in GDM]
    sentences.append(
        f"at the largest gamma eGDM takes {middle[last]:.0f} iterations and GDM " + ", ".join(ends)
    )
    for name in GDM:
        converged = [k for k in range(len(conditions)) if methods[name]["converged"][k]["low"] == 1]
        ratios = [methods[name]["iterations"][k]["median"] / max(middle[k], 1) for k in converged]
        if ratios:
            sentences.append(
                f"where {name} converges ({len(converged)} of {len(conditions)} gammas) it needs "
                f"{min(ratios):.1f} to {max(ratios):.1f} times the iterations of eGDM"
            )
    late = [f"{found['gammas'][k]:g}" for k in range(len(conditions))
            if methods["eGDM"]["converged"][k]["low"] < 1]  # fmt: skip
    if late:
        sentences.append(
            f"eGDM does not converge in time at gamma = {', '.join(late)}: its momentum is so "
            "close to 1 there that the error first grows for about sqrt(condition) steps before it "
            "falls, and the best point so far (an error of 0.5 is that of the start) is returned"
        )
    cg = [
        middle[k] / max(methods["CG"]["iterations"][k]["median"], 1) for k in range(len(conditions))
    ]
    sentences.append(f"CG needs {min(cg):.1f} to {max(cg):.1f} times fewer iterations than eGDM")
    return (
        "; ".join(sentences) + ". All solvers that converge give the same test error, as they must."
    )


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    topics = results["topics"]
    figure, axes = panels(2, 2 * len(topics), width=5.0, height=3.0)
    fields = {
        "test_error": ("test pairwise error minus CG's", False),
        "iterations": ("iterations", True),
        "seconds": ("CPU seconds", True),
    }
    for row, (source, topic_result) in enumerate(topics.items()):
        here, gammas = axes[4 * row : 4 * row + 4], topic_result["gammas"]
        methods = topic_result["methods"]
        for ax, (field, (name, log)) in zip(here, fields.items(), strict=False):
            for colour, (method, solver_result) in zip(COLOURS, methods.items(), strict=False):
                values = solver_result[field]
                if field == "test_error":
                    values = above_cg(values, methods["CG"][field])
                line(ax, gammas, values, method, colour)
            axis(ax, "gamma", name, title=source, logx=True, logy=log)
            label_lines(ax, apart=0.08)
        line(here[3], gammas, topic_result["condition"], "condition number", "black")
        axis(here[3], "gamma", "condition number", title=source, logx=True, logy=True)
    return figure


def above_cg(values, values_of_cg):
    """Return differences of medians: the errors of converged solvers are one line."""
    return [v["median"] - c["median"] for v, c in zip(values, values_of_cg, strict=True)]
