"""Every batch solver: certified or unfinished, stopped by callbacks, the same from any start."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from resume_points import StateRecorder, same_end

import rankine.solvers
from rankine.data import Dataset
from rankine.losses.domination import DominationOptions, domination_risk
from rankine.losses.least_squares import least_squares_risk
from rankine.losses.pair_queries import pair_risk
from rankine.solvers.heavy_ball import lanczos
from rankine.solvers.newton import CUTS
from rankine.solvers.problem import NormalEquations, Penalty, RowsProblem

FOUND = {
    name: function
    for module in pkgutil.iter_modules(rankine.solvers.__path__, "rankine.solvers.")
    for name, function in inspect.getmembers(
        importlib.import_module(module.name), inspect.isfunction
    )
    if name.startswith("solve_") and function.__module__ == module.name
}
#: Solvers of another form: a problem of pairs, lists or tables, several strengths, or one step.
OTHERS = {"solve_pairs", "solve_shaped", "solve_shifted_cg", "solve_dual"}


def dataset():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.round(X @ [1.0, -1.0, 0.3] + 0.3 * rng.normal(size=90))
    return Dataset.from_arrays(X, y, np.repeat(np.arange(9), 10))


def runs():
    """What each solver is given, ``run(start, tol, callbacks)``, and what certifies it.

    Then the problems that they solve.
    """
    data = dataset()
    hinge, squared = (
        RowsProblem.from_dataset(data, pair_risk(data, None, loss))
        for loss in ("hinge", "squared_hinge")
    )
    equations = NormalEquations(RowsProblem.from_dataset(data, least_squares_risk(data)))
    k1, kn = lanczos(equations.times, 3, 0).shifted(0.1)
    loss = RowsProblem.from_dataset(data, domination_risk(data, DominationOptions()))
    penalty = Penalty(0.1, 0.5)

    def plain(name, *arguments, **options):
        def run(start, tol, callbacks=(), **more):
            given = {"start": start, "tol": tol, "callbacks": callbacks}
            return FOUND[name](*arguments, **given, **options, **more)

        return run

    def quasi_newton(start, tol, callbacks=(), **more):
        begin = np.zeros(3) if start is None else start
        return FOUND["solve_quasi_newton"](
            loss, penalty, begin, at_zero=loss.at_zero, tol=tol, callbacks=callbacks, **more
        )

    solvers = {
        "solve_bundle": (plain("solve_bundle", hinge, 0.1), "relative_gap"),
        "solve_nonsmooth": (plain("solve_nonsmooth", hinge, 0.1), "relative_gap"),
        "solve_smoothed": (plain("solve_smoothed", hinge, 0.1), "relative_gap"),
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
    return solvers, (hinge, squared, equations.problem, loss)


RUNS, PROBLEMS = runs()
#: Solvers with a budget of iterations, all of which can be interrupted.
DETERMINISTIC = [name for name in RUNS if name != "solve_query_sgd"]


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


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_an_impossible_tolerance_is_never_converged(name):
    run, certificate = RUNS[name]
    solution = run(None, 1e-300, ())
    assert solution.stop_reason == "converged" or solution.unfinished
    if solution.stop_reason == "converged":
        assert solution.certificate[certificate] <= 1e-300


@pytest.mark.parametrize("name", RUNS)
def test_a_callback_can_end_the_run(name):
    run, _ = RUNS[name]
    seen = []

    def stop(progress):
        seen.append(progress.coef().copy())
        return True

    solution = run(None, 1e-12, [stop])
    assert solution.stop_reason == "callback"
    assert len(seen) == 1
    assert np.isfinite(solution.coef).all()


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_run_resumed_at_any_iteration_has_the_same_bits(name, monkeypatch):
    run, _ = RUNS[name]

    def marked(marks):
        for problem in PROBLEMS:
            monkeypatch.setattr(problem, "resume_point", marks)
        for holder in (cell.cell_contents for cell in run.__closure__):
            if isinstance(holder, tuple):  # the equations count products over all runs
                for one in holder:
                    if isinstance(one, NormalEquations):
                        one.products = 0
        return run(np.full(3, 0.3), 1e-5)

    first = StateRecorder()
    whole = marked(first)
    assert len(first.kept) > 2
    for place in {0, 1, 2, len(first.kept) // 2, len(first.kept) - 1}:
        again = first.at(place)
        same_end(marked(again), whole)
        assert not again.saved  # every state has been taken up


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_max_iter_ends_the_same_run_earlier(name):
    run, _ = RUNS[name]
    whole = run(None, 1e-4)
    # The last record of these is of the end: a bound more, a width that was not finished.
    more = name in ("solve_quasi_newton", "solve_smoothed")
    for budget in {0, 1, 2, whole.n_iter} if more else {0, 1, whole.n_iter - 1, whole.n_iter}:
        cut = run(None, 1e-4, max_iter=budget)
        assert cut.n_iter == budget
        assert cut.stop_reason == ("converged" if budget == whole.n_iter else "max_iter")
        told = max(0, len(cut.trace) - more)
        assert list(cut.trace[:told]) == list(whole.trace[:told])


@pytest.mark.parametrize("name", ["solve_egdm", "solve_gdm", "solve_newton", "solve_query_sgd"])
def test_a_run_ends_at_the_first_record_that_is_within_the_tolerance(name):
    run, measure = RUNS[name]
    key = "gap" if measure == "relative_gap" else measure
    values = [record[key] for record in run(None, 1e-2 if "sgd" in name else 1e-6).trace]
    lowest = [k for k in range(1, len(values)) if values[k] < min(values[:k])]
    for k in (lowest[0], lowest[len(lowest) // 2]):
        again = run(None, values[k])
        assert again.stop_reason == "converged"
        assert [record[key] for record in again.trace] == values[: k + 1]
        assert again.n_iter == again.trace[-1]["iteration"] == k + ("sgd" in name)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "solve_smoothed"])
def test_callbacks_get_the_values_of_the_trace(name):
    run, measure = RUNS[name]
    told = []
    solution = run(None, 1e-2, [told.append])
    usual = 10_000 if measure == "residual" else 1000
    total = {"solve_nonsmooth": CUTS, "solve_query_sgd": 3000}.get(name, usual)
    records = {record["iteration"]: record for record in solution.trace}
    assert [progress.step for progress in told]
    for progress in told:
        assert progress.total == total
        record = records[progress.step]
        assert {**record, **progress.values} == record
        assert progress.values
    assert [record["iteration"] for record in solution.trace] == sorted(records)
    last = records[solution.n_iter]
    for key in set(last) & {"gap", "residual"}:  # conjugate gradients certify the true residual
        assert last[key] == pytest.approx(solution.certificate[key], rel=1e-6)
    if "lower_bound" in last:
        assert last["gap"] == last["objective"] - last["lower_bound"]
