"""Callbacks, certificates and checks shared by all solvers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from rankine.core.errors import DivergenceError
from rankine.solvers.base import Progress, gap_certificate, notify, report_progress, require_finite


def test_all_callbacks_are_called_and_only_true_stops():
    asked = []

    def answer(value):
        return lambda progress: asked.append(progress.step) or value

    ask = partial(report_progress, stage="x", step=4, total=9, values={}, coef=np.ones(2))
    for given, stops in (
        ([None, 1, "stop", 0.5, [1]], False),
        ([False, np.bool_(False)], False),
        ([True, None], True),
        ([None, np.bool_(True)], True),
    ):
        asked.clear()
        assert ask([answer(value) for value in given]) is stops
        assert asked == [4] * len(given)
    told = []
    progress = Progress("x", 1, None, {"gap": 2.0}, lambda: np.zeros(1))
    assert not notify([told.append], progress)
    assert told == [progress]


def test_not_finite_numbers_name_method_and_step():
    require_finite(np.array([1e308, -1e308]), 3, "descent")
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(DivergenceError, match=r"descent.*step 3"):
            require_finite(np.array([0.0, bad]), 3, "descent")
    proof = gap_certificate(3.0, 2.0, 4.0, cuts=5)
    assert proof == {
        "objective": 3.0, "lower_bound": 2.0, "gap": 1.0, "relative_gap": 0.25, "cuts": 5
    }  # fmt: skip
