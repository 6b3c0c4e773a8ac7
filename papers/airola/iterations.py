"""Iterations against the number of rows, and against 1 / (lam tol)."""

from __future__ import annotations

import numpy as np
from benchmarks.common.timing import exponent

from papers.airola.utilities import LAM, SEED, TOL, large
from papers.runs import table
from rankine import Dataset, RankSVM

TITLE = "Iterations against rows and against 1 / (lam tol)"
SMOKE = {"largest": 2_000, "rows": 1_000, "lams": [1e-3, 1e-4], "tols": [1e-2]}
QUICK = {"largest": 8_000, "rows": 4_000, "lams": [1e-3, 1e-5], "tols": [1e-2, 1e-3]}
FULL = {
    "largest": 512_000,
    "rows": 32_000,
    "lams": [1e-2, 1e-3, 1e-4, 1e-5, 1e-6],
    "tols": [1e-2, 1e-3, 1e-4],
}


def fit(data, lam, tol):
    """Fit once; return the iterations and the certified gap."""
    ranker = RankSVM(l2=2 * lam, tol=tol, max_iter=5000, n_threads=1).fit(data)
    certificate = ranker.solution_.certificate
    return {"lam": lam, "tol": tol, "iterations": int(ranker.n_iter_), "gap": certificate["gap"]}


def measure(largest, rows, lams, tols):
    task = large(largest, 1_000)
    sizes = [1000 * 2**k for k in range(20) if 1000 * 2**k <= largest]
    by_rows = []
    for m in sizes:
        data = Dataset.from_arrays(task.X[:m], task.y[:m])
        by_rows.append({"rows": m, **fit(data, LAM, TOL)})
        print(by_rows[-1], flush=True)
    data = Dataset.from_arrays(task.X[:rows], task.y[:rows])
    grid = [fit(data, lam, tol) for lam in lams for tol in tols]
    return {
        "seeds": [SEED],
        "repetitions": 1,
        "collection": task.name,
        "by_rows": by_rows,
        "grid": grid,
    }


def markdown(results):
    by_rows, grid = results["by_rows"], results["grid"]
    slope = exponent([1 / (g["lam"] * g["tol"]) for g in grid], [g["iterations"] for g in grid])
    bound = max(g["iterations"] * g["lam"] * g["tol"] for g in grid)
    tols = sorted({g["tol"] for g in grid}, reverse=True)
    cells = {(g["lam"], g["tol"]): str(g["iterations"]) for g in grid}
    lams = sorted({g["lam"] for g in grid}, reverse=True)
    return "\n\n".join([
        (f"Hinge, {results['collection']} utilities; lam = {LAM:g} and tol = {TOL:g} against rows, "
        f"{results['parameters']['rows']:,} rows against lam and tol. Iterations are oracle calls "
        "at new points."),
        table(("rows", "iterations"),
              [[f"{e['rows']:,}", str(e["iterations"])] for e in by_rows]),
        table(("lam", *(f"tol {t:g}" for t in tols)),
              [[f"{lam:g}", *(cells[lam, t] for t in tols)] for lam in lams]),
        ("The theory's bound grows as 1 / (lam tol) and does not depend on the rows. Measured: the "
        f"exponent in 1 / (lam tol) is {slope:.2f}, and iterations never exceed {bound:.2g} / "
        "(lam tol). They do change with the rows, within a factor of "
        f"{max(e['iterations'] for e in by_rows) / min(e['iterations'] for e in by_rows):.1f} "
        "here. Above 32,000 rows, training starts from the solution on a sample, whose iterations "
        "are not in this count."),
    ])  # fmt: skip


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    figure, (left_axes, right) = panels(2, width=4.8)
    by_rows = results["by_rows"]
    line(left_axes, [e["rows"] for e in by_rows], [e["iterations"] for e in by_rows], "iterations",
         COLOURS[0])  # fmt: skip
    axis(left_axes, "rows", "iterations", title=f"lam = {LAM:g}, tol = {TOL:g}", logx=True)
    left_axes.set_ylim(bottom=0)
    for colour, tol in zip(COLOURS, sorted({g["tol"] for g in results["grid"]}), strict=False):
        converged = sorted((g for g in results["grid"] if g["tol"] == tol), key=lambda g: -g["lam"])
        x = np.array([1 / (g["lam"] * tol) for g in converged])
        line(right, x, [g["iterations"] for g in converged], f"tol = {tol:g}", colour)
    title = f"{results['parameters']['rows']:,} rows"
    axis(right, "1 / (lam tol)", "iterations", title=title, logx=True, logy=True)
    label_lines(right)
    return figure
