"""Warm = fresh: whatever parameter changes, a warm start obeys it or refuses by name.

For every parameter of every ranker a fit with other values of it starts from the last fit
(``warm_start``) and from its model (``coef_init``). The result must be what a fresh fit with these
values guarantees: the certified optimum of the new problem, constraints, cells, sizes.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import numpy as np
import pytest

from contracts.parameter_changes import (
    CHANGES,
    DATA,
    EXACT,
    SHARED,
    changes_of,
    fit,
    make,
    parameters_of,
)
from rankine import Scorer
from rankine.core.errors import RankineError
from rankine.rankers.registry import RANKERS

# Kernels are compiled for every setting in a first run.
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("name", RANKERS)
def test_every_parameter_is_changed(name):
    untested = set(parameters_of(name)) - {*CHANGES[name], *SHARED}
    assert untested == set()
    for parameter in parameters_of(name):
        start = make(name)
        for changes in changes_of(name, parameter):
            other = make(name, **changes)
            assert not np.array_equal(getattr(other, parameter), getattr(start, parameter))


@cache
def first_fit(name):
    return fit(make(name))


@pytest.mark.parametrize("way", ["warm_start", "coef_init"])
@pytest.mark.parametrize(
    ("name", "parameter"), [(name, p) for name in RANKERS for p in parameters_of(name)]
)
def test_a_warm_start_obeys_a_changed_parameter_or_refuses_it(name, parameter, way):
    for changes in changes_of(name, parameter):
        try:
            if way == "warm_start":
                warm = deepcopy(first_fit(name)).set_params(**{"warm_start": True, **changes})
                fit(warm)
            else:
                warm = fit(make(name, **changes), coef_init=first_fit(name).to_model())
        except RankineError as error:
            require_named(error, {parameter, *changes})
            continue
        kept = kept_by_tables(warm)
        if kept:
            # It ends the search for strengths: there is none with those of the start.
            kept["early_stopping"] = None
        fresh = fit(make(name, **{**changes, **kept}))
        guarantee(name, warm, fresh)
        if name == "additive":
            require_given(warm, changes)


def require_named(error, names):
    """Check that an error names one of the parameters."""
    words = f"{error.parameter or ''} {error}"
    if not any(name in words for name in names):
        raise AssertionError(words) from error


def kept_by_tables(warm):
    """Return what a warm start of tables keeps unless it is given: pairs and strengths."""
    if warm.system != "additive":
        return {}
    strengths = {"smooth": warm.strengths_.smooth, "anchor": warm.strengths_.anchor}
    if warm.pairs_:
        strengths["pair_smooth"] = warm.strengths_.pair_smooth
    return {"pairs": warm.pairs_, **strengths}


def require_given(warm, changes):
    """Check that strengths and pairs that are given replace those of the start."""
    for strength in ("smooth", "pair_smooth", "anchor"):
        if changes.get(strength) is not None:
            assert getattr(warm.strengths_, strength) == changes[strength]
    pairs = changes.get("pairs", 2)
    assert len(warm.pairs_) <= (pairs if isinstance(pairs, int) else len(pairs))


def guarantee(name, warm, fresh):
    """Check what a fresh fit with these parameters guarantees."""
    assert np.shape(warm.coef_) == np.shape(fresh.coef_)
    if (
        name in EXACT
        and fresh.early_stopping is None
        and fresh.solution_.stop_reason not in ("passes", "max_iter")
    ):
        # The same optimum, to the gap that both certify.
        tol = 40 * max(warm.tol, 1e-9)
        objective = pytest.approx(fresh.solution_.objective, rel=tol, abs=tol)
        assert warm.solution_.objective == objective
    if name == "ranksvm" and warm.positive:
        assert (warm.coef_ >= 0).all()
    if getattr(warm, "max_nonzero", None) is not None:
        assert np.count_nonzero(warm.coef_) <= warm.max_nonzero
    if name == "additive":
        assert (warm.bins_, warm.grids_) == (fresh.bins_, fresh.grids_)
        for column, shape in (warm.shapes or {}).items():
            sign = {"increasing": 1.0, "decreasing": -1.0}.get(shape, 0.0)
            assert (sign * steps_of(warm, column) >= 0.0).all()
    if name == "spd":
        assert warm.n_iter_ >= fresh.n_steps


def steps_of(ranker, column):
    """Return differences of scores when one column rises and the others stay as they are."""
    values = np.linspace(DATA.X[:, column].min() - 1, DATA.X[:, column].max() + 1, 60)
    steps, scorer = [], Scorer(ranker.to_model())
    for row in DATA.X[:10]:
        rows = np.tile(row, (len(values), 1))
        rows[:, column] = values
        steps.append(np.diff(scorer.score(rows)))
    return np.concatenate(steps)
