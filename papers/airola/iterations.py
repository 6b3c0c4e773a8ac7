"""Iterations against the number of rows, and against 1 / (lam tol)."""

from __future__ import annotations

import numpy as np
from benchmarks.common.timing import exponent

from papers.airola.utilities import LAM, SEED, TOL, large
from papers.runs import table
from rankine import Dataset, RankSVM
from rankine.losses.active_pairs import HingeRisk
from rankine.losses.pair_queries import PairQueries, query_omega
from rankine.losses.pairwise.hinge import Hinge
from rankine.solvers.bundle import solve_dual

TITLE = "Iterations against rows and against 1 / (lam tol)"
SMOKE = {"largest": 2_000, "rows": 1_000, "lams": [1e-3, 1e-4], "tols": [1e-2]}
QUICK = {"largest": 8_000, "rows": 4_000, "lams": [1e-3, 1e-5], "tols": [1e-2, 1e-3]}
FULL = {
    "largest": 512_000,
    "rows": 32_000,
    "lams": [1e-2, 1e-3, 1e-4, 1e-5, 1e-6],
    "tols": [1e-2, 1e-3, 1e-4],
}
#: The paper's method and ours.
PLAIN, OURS = "cutting planes", "rankine"
MOST = 1_000


def fit(data, lam, tol):
    """Return the iterations of both methods from weights of 0."""
    zeros = np.zeros(data.n_features)
    ranker = RankSVM(l2=2 * lam, tol=tol, max_iter=5000, n_threads=1).fit(data, coef_init=zeros)
    iterations = {OURS: int(ranker.n_iter_), PLAIN: cutting_planes(data, 2 * lam, tol)}
    return {"lam": lam, "tol": tol, "iterations": iterations}


def cutting_planes(data, l2, tol):
    """Return the iterations of the paper's method, which cuts at the minimiser of the model.

    Minimises l2/2 |w|^2 + R(w) without a line search, until the best value is within ``tol`` R(0)
    of the model's minimum; ``MOST`` at most.
    """
    queries = PairQueries.from_dataset(data, np.ones(1))
    omega = query_omega("pair", queries.totals, queries)
    risk = HingeRisk(Hinge(), queries, omega, "tree", 1)
    w, best, alpha = np.zeros(data.n_features), np.inf, np.zeros(0)
    cuts, offsets, gram = [], [], np.zeros((0, 0))
    for iteration in range(1, MOST + 1):
        value, slope = risk.evaluate(data.X @ w)
        best = min(best, 0.5 * l2 * (w @ w) + value)
        cuts.append(data.X.T @ slope)
        offsets.append(value - cuts[-1] @ w)
        if iteration == 1:
            gap = tol * value
        row = np.array([cut @ cuts[-1] for cut in cuts])
        gram = np.block([[gram, row[:-1, None]], [row[None, :]]])
        alpha = np.append(alpha, float(iteration == 1))
        solve_dual(gram, np.array(offsets), l2, alpha, 0.01 * gap)
        w = -(alpha @ np.array(cuts)) / l2
        if best - (alpha @ offsets - 0.5 * l2 * (w @ w)) <= gap:
            return iteration
    return MOST


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


def slope(grid, method):
    """Return the exponent of iterations in 1 / (lam tol)."""
    return exponent(
        [1 / (g["lam"] * g["tol"]) for g in grid], [g["iterations"][method] for g in grid]
    )


def range_over_rows(by_rows, method):
    """Return the most iterations over the fewest, by rows."""
    counts = [entry["iterations"][method] for entry in by_rows]
    return max(counts) / min(counts)


def markdown(results):
    by_rows, grid = results["by_rows"], results["grid"]
    tols = sorted({g["tol"] for g in grid}, reverse=True)
    cells = {
        (g["lam"], g["tol"]): f"{g['iterations'][PLAIN]} / {g['iterations'][OURS]}" for g in grid
    }
    lams = sorted({g["lam"] for g in grid}, reverse=True)
    outcomes = [
        f"{method}: exponent in 1 / (lam tol) {slope(grid, method):.2f}, most over fewest by rows "
        f"{range_over_rows(by_rows, method):.1f}"
        for method in (PLAIN, OURS)
    ]
    return "\n\n".join([
        (f"Hinge, {results['collection']} utilities; lam = {LAM:g} and tol = {TOL:g} against rows, "
        f"{results['parameters']['rows']:,} rows against lam and tol. Every fit starts at weights "
        "of 0, and an iteration is an oracle call at a new point. *Cutting planes* is the paper's "
        "method, which cuts at the minimiser of the model; rankine cuts near the best point found "
        f"by a line search. At most {MOST:,} iterations of the former."),
        table(("rows", PLAIN, OURS),
              [[f"{e['rows']:,}", *(str(e["iterations"][m]) for m in (PLAIN, OURS))]
               for e in by_rows]),
        table((f"lam, {PLAIN} / {OURS}", *(f"tol {t:g}" for t in tols)),
              [[f"{lam:g}", *(cells[lam, t] for t in tols)] for lam in lams]),
        ("The theory's bound grows as 1 / (lam tol) and does not depend on the rows. Measured: "
        + "; ".join(outcomes) + "."),
    ])  # fmt: skip


def draw(results):
    from benchmarks.common.drawing import COLOURS, axis, label_lines, line, panels

    figure, (left_axes, right) = panels(2, width=4.8)
    by_rows, grid = results["by_rows"], results["grid"]
    rows = [e["rows"] for e in by_rows]
    for colour, method in zip(COLOURS, (PLAIN, OURS), strict=False):
        line(left_axes, rows, [e["iterations"][method] for e in by_rows], method, colour)
    axis(left_axes, "rows", "iterations", title=f"lam = {LAM:g}, tol = {TOL:g}", logx=True)
    left_axes.set_ylim(bottom=0)
    tols = sorted({g["tol"] for g in grid}, reverse=True)
    for method, style, first in ((PLAIN, "-", 0), (OURS, "--", len(tols))):
        for colour, tol in zip(COLOURS[first:], tols, strict=False):
            chosen = sorted((g for g in grid if g["tol"] == tol), key=lambda g: -g["lam"])
            x = [1 / (g["lam"] * tol) for g in chosen]
            counts = [g["iterations"][method] for g in chosen]
            line(right, x, counts, f"{method}, {tol:g}", colour, style=style)
    title = f"{results['parameters']['rows']:,} rows; names give tol"
    axis(right, "1 / (lam tol)", "iterations", title=title, logx=True, logy=True)
    label_lines(left_axes)
    label_lines(right)
    return figure
