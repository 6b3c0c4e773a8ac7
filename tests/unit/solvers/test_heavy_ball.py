"""Momentum descent: its region of stability, and who may end it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from rankine.core.errors import DivergenceError, ParameterError
from rankine.data import Dataset
from rankine.kernels.random import random_unit, stream_seed
from rankine.losses.squared import pair_squares
from rankine.solvers.heavy_ball import (
    lanczos,
    random_direction,
    solve_egdm,
    solve_gdm,
    solve_query_sgd,
)
from rankine.solvers.problem import NormalEquations, RowsProblem


def system(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(80, 5))
    data = Dataset.from_arrays(X, np.round(X @ rng.normal(size=5) / scale), np.repeat(range(8), 10))
    return NormalEquations(RowsProblem.of(data, pair_squares(data)))


@pytest.mark.parametrize("method", ["gdm", "egdm", "sgd"])
def test_a_callback_ends_the_run_at_once(method):
    equations = system()
    spectrum = lanczos(equations.times, 5, 0)
    seen = []

    def stop_at_three(progress):
        seen.append(progress.step)
        return progress.step == 3

    solve = {
        "gdm": partial(solve_gdm, equations, 0.1, spectrum.shifted(0.1)[0]),
        "egdm": partial(solve_egdm, equations, 0.1, spectrum.shifted(0.1)),
        "sgd": partial(solve_query_sgd, equations, 0.1, seed=0),
    }[method]
    solution = solve(tol=1e-14, callbacks=[stop_at_three])
    assert seen == [0, 1, 2, 3][method == "sgd" :]
    assert (solution.stop_reason, solution.n_iter) == ("callback", 3)


def test_steps_outside_the_stable_region_are_refused():
    with pytest.raises(ParameterError, match="diverges"):
        solve_gdm(system(), 0.1, 10.0, eta=100.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_eigenvalue_that_is_far_too_small_ends_in_an_error():
    equations = system()
    largest = lanczos(equations.times, 5, 0).shifted(0.1)[0]
    with pytest.raises(DivergenceError, match="diverged at step"):
        solve_gdm(equations, 0.1, largest / 1000)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_spectrum_beyond_the_numbers_is_an_error():
    with pytest.raises(DivergenceError, match="spectrum"):
        lanczos(system(scale=1e170).times, 5, 0)


def test_passes_that_end_short_of_the_tolerance_say_so():
    solution = solve_query_sgd(system(), 0.1, seed=0, tol=1e-12, n_passes=2)
    assert solution.unfinished
    assert solution.certificate["residual"] > 1e-12


@pytest.mark.parametrize("solve", [solve_gdm, solve_egdm])
def test_residuals_are_relative_to_the_labels(solve):
    """Labels in other units: the same steps, and the same residuals."""
    found = []
    for unit in (1.0, 1024.0):
        equations = system()
        equations.b *= unit
        spectrum = lanczos(equations.times, 5, 0).shifted(0.1)
        spectrum = spectrum[0] if solve is solve_gdm else spectrum
        found.append(solve(equations, 0.1, spectrum, tol=1e-6))
    assert found[0].certificate["residual"] == found[1].certificate["residual"] <= 1e-6
    np.testing.assert_array_equal(1024.0 * found[0].coef, found[1].coef)


def test_labels_that_explain_nothing_need_no_step():
    equations = system()
    equations.b *= 0.0
    solution = solve_gdm(equations, 0.1, lanczos(equations.times, 5, 0).shifted(0.1)[0])
    assert solution.stop_reason == "converged"
    assert not solution.coef.any()


def test_a_random_direction_is_made_of_normal_draws():
    """Box and Muller by the letter, from the same uniform draws."""
    n, seed = 6, 5
    normal = [
        np.sqrt(-2.0 * np.log1p(-random_unit(stream_seed(seed, 0), 2 * k)))
        * np.cos(2.0 * np.pi * random_unit(stream_seed(seed, 0), 2 * k + 1))
        for k in range(n)
    ]
    np.testing.assert_allclose(random_direction(n, seed), normal / np.linalg.norm(normal))
