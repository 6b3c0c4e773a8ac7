"""Every batch solver: certified or unfinished, stopped by callbacks, the same from any start."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import rankine.solvers
from rankine.data import Dataset
from rankine.losses.domination import TaskOptions, domination_risk
from rankine.losses.pair_queries import pair_risk
from rankine.losses.squared import pair_squares
from rankine.solvers.heavy_ball import lanczos
from rankine.solvers.problem import NormalEquations, Penalty, RowsProblem

FOUND = {
    name: function
    for module in pkgutil.iter_modules(rankine.solvers.__path__, "rankine.solvers.")
    for name, function in inspect.getmembers(
        importlib.import_module(module.name), inspect.isfunction
    )
    if name.startswith("solve_") and function.__module__ == module.name
}
#: Solvers of another shape: a problem of pairs or lists, several strengths, or a step of another.
OTHERS = {"solve_pairs", "solve_shifted_cg", "solve_dual"}


def dataset():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.round(X @ [1.0, -1.0, 0.3] + 0.3 * rng.normal(size=90))
    return Dataset.from_arrays(X, y, np.repeat(np.arange(9), 10))


def runs():
    """What each solver is given, ``run(start, tol, callbacks)``, and what certifies it."""
    data = dataset()
    hinge, squared = (
        RowsProblem.of(data, pair_risk(data, None, loss)) for loss in ("hinge", "squared_hinge")
    )
    equations = NormalEquations(RowsProblem.of(data, pair_squares(data)))
    k1, kn = lanczos(equations.times, 3, 0).shifted(0.1)
    loss = RowsProblem.of(data, domination_risk(data, TaskOptions()))
    penalty = Penalty(0.1, 0.5)

    def plain(name, *arguments, **options):
        def run(start, tol, callbacks):
            return FOUND[name](*arguments, start=start, tol=tol, callbacks=callbacks, **options)

        return run

    def quasi_newton(start, tol, callbacks):
        begin = np.zeros(3) if start is None else start
        return FOUND["solve_quasi_newton"](
            loss, penalty, begin, at_zero=loss.at_zero, tol=tol, callbacks=callbacks
        )

    return {
        "solve_bundle": (plain("solve_bundle", hinge, 0.1), "relative_gap"),
        "solve_nonsmooth": (plain("solve_nonsmooth", hinge, 0.1), "relative_gap"),
        "solve_rounded": (plain("solve_rounded", hinge, 0.1), "relative_gap"),
        "solve_newton": (plain("solve_newton", squared, 0.1), "relative_gap"),
        "solve_quasi_newton": (quasi_newton, "relative_gap"),
        "solve_cg": (plain("solve_cg", equations, 0.1), "residual"),
        "solve_egdm": (plain("solve_egdm", equations, 0.1, (k1, kn)), "residual"),
        "solve_gdm": (plain("solve_gdm", equations, 0.1, k1), "residual"),
        "solve_query_sgd": (
            plain("solve_query_sgd", equations, 0.1, seed=0, n_passes=3000),
            "residual",
        ),
    }


RUNS = runs()


def test_every_solver_is_enrolled():
    assert set(FOUND) == set(RUNS) | OTHERS


@pytest.mark.parametrize("name", RUNS)
def test_converged_means_that_the_certificate_holds(name):
    run, certificate = RUNS[name]
    tol = 1e-2 if name == "solve_query_sgd" else 1e-4
    cold = run(None, tol, ())
    warm = run(cold.coef, tol, ())
    for solution in (cold, warm):
        assert solution.stop_reason == "converged"
        assert solution.certificate[certificate] <= tol
        assert solution.objective == pytest.approx(cold.objective, abs=1e-2)


@pytest.mark.parametrize("name", RUNS)
def test_an_impossible_tolerance_is_never_converged(name):
    run, certificate = RUNS[name]
    if name == "solve_query_sgd":
        pytest.skip("3,000 passes would be long")
    solution = run(None, 1e-300, ())
    assert solution.stop_reason == "converged" or solution.unfinished
    if solution.stop_reason == "converged":
        assert solution.certificate[certificate] <= 1e-300


@pytest.mark.parametrize("name", RUNS)
def test_a_callback_may_end_the_run(name):
    run, _ = RUNS[name]
    seen = []

    def stop(progress):
        seen.append(progress.coef().copy())
        return True

    solution = run(None, 1e-12, [stop])
    assert solution.stop_reason == "callback"
    assert len(seen) == 1
    assert np.isfinite(solution.coef).all()
