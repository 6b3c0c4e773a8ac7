"""Momentum descent: its region of stability, and who may end it."""

from __future__ import annotations

import numpy as np
import pytest

from rankine.core.errors import DivergenceError, ParameterError
from rankine.data import Dataset
from rankine.losses.squared import pair_squares
from rankine.solvers.heavy_ball import lanczos, solve_egdm, solve_gdm, solve_query_sgd
from rankine.solvers.problem import NormalEquations, RowsProblem


def system(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(80, 5))
    data = Dataset.from_arrays(X, np.round(X @ rng.normal(size=5) / scale), np.repeat(range(8), 10))
    return NormalEquations(RowsProblem.of(data, pair_squares(data)))


@pytest.mark.parametrize("method", ["gdm", "egdm"])
def test_a_callback_ends_the_run_at_once(method):
    equations = system()
    spectrum = lanczos(equations.times, 5, 0)
    seen = []

    def stop_at_three(progress):
        seen.append(progress.step)
        return progress.step == 3

    solve, eigenvalues = (
        (solve_gdm, spectrum.shifted(0.1)[0])
        if method == "gdm"
        else (solve_egdm, spectrum.shifted(0.1))
    )
    solution = solve(equations, 0.1, eigenvalues, tol=1e-14, callbacks=[stop_at_three])
    assert seen == [0, 1, 2, 3]
    assert (solution.stop_reason, solution.n_iter) == ("callback", 3)


def test_steps_outside_the_stable_region_are_refused():
    with pytest.raises(ParameterError, match="diverges"):
        solve_gdm(system(), 0.1, 10.0, eta=100.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_spectrum_beyond_the_numbers_is_an_error():
    with pytest.raises(DivergenceError, match="spectrum"):
        lanczos(system(scale=1e170).times, 5, 0)


def test_passes_that_end_short_of_the_tolerance_say_so():
    solution = solve_query_sgd(system(), 0.1, seed=0, tol=1e-12, n_passes=2)
    assert solution.unfinished
    assert solution.certificate["residual"] > 1e-12
