"""No option without effect: every parameter changes what a ranker learns or says, or is refused.

All parameters are changed in every mode of every ranker (solvers, objectives, losses ...). Where a
change leaves every bit as it was, the ranker must refuse it, or ``WITHOUT_EFFECT`` names the
parameter and the reason.
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import product

import joblib
import numpy as np
import pytest

from contracts.parameter_changes import DATA, VALID, changes_of, fit, make, parameters_of
from rankine.core.errors import ParameterError, RankineError
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.tuning.spaces import Space

# Hundreds of short fits, whose kernels are compiled in a first run.
pytestmark = pytest.mark.timeout(900)
#: Parameters that change no result in any mode.
WITHOUT_EFFECT = {
    "n_threads": "the same bits for any number of threads",
    "oracle": "the same sums by other algorithms, for comparison",
    "max_trials": "a limit, which a draw that finds a pair does not reach",
    "missing": "a rule for missing values, of which complete rows have none",
    "warm_start": "matters in the next fit, see test_warm_starts.py",
}
#: Parameters without effect in some modes.
IN_SOME_MODES = {
    "early_stopping": "a run may end before patience does",
    "max_iter": "a limit, which a run may not reach",
    "max_weight": "an upper bound, which weights may not reach",
    "random_state": "many solvers draw nothing",
    "scale": "rows within [-1, 1] stay as they are, and tables refuse all other values",
    "tol": "a run may end far below it",
    "solver": "may be the one that solver='auto' chooses",
    "adaptive": "False is the default of all solvers but one",
    "curvature": "'paper' is the default of solver='cd_plain'",
    "power": "adaptive steps follow the gradients and not the step number",
}
#: Exact solvers draw nothing.
DETERMINISTIC = ("ranksvm", "least-squares", "domination", "additive")
#: Tables leave columns as they are, and refuse all scalings but the two that do.
UNSCALED = ("additive",)
#: Parameters that matter for streams.
OF_STREAMS = {"spd": ("n_passes", "buffer_rows"), "elastic": ("shuffle_buffer",)}
#: What decides how a ranker works: each is combined with every change of every parameter.
MODES = {
    "spd": ("solver", "sampling", "schedule", "ties"),
    "ranksvm": ("solver", "loss", "normalization", "positive"),
    "least-squares": ("solver", "normalization", "pairs"),
    "domination": ("solver", "normalization", "margin", "max_nonzero"),
    "elastic": ("solver", "loss", "objective", "delta", "adaptive"),
    "additive": ("pairs", "loss", "reweight", "linear"),
}
#: Coarser than in other tests, for speed.
TOLERANCE = {name: {"tol": 3e-4} for name in DETERMINISTIC}


class Blocks:
    """A stream of blocks."""

    n_features = DATA.n_features
    feature_names = DATA.feature_names

    def __iter__(self):
        for first in (0, 10, 20):
            yield DATA.take_queries(np.arange(first, first + 10))


def outcome(name, changes, *, stream=False, **options):
    """Return a digest of what a ranker learns and says, and of its records.

    A setting of a search that tries more or fewer candidates has an effect, whichever is chosen.
    """
    ranker = make(name, **{"random_state": 0, **TOLERANCE.get(name, {}), **changes})
    if stream:
        ranker.fit(Blocks())
    else:
        fit(ranker, **options)
    learned = ranker.predict(DATA).tobytes(), getattr(ranker, "position_offset_", None)
    records = getattr(ranker, "record_", None), len(getattr(ranker, "evals_", ()))
    return joblib.hash((*learned, ranker.score(VALID), *records))


def modes_of(name):
    yield {}
    for mode in MODES[name]:
        yield from changes_of(name, mode)


def compared(name, parameter):
    """Yield modes and values of a parameter that are not refused, and if these have an effect."""
    options = {"stream": parameter in OF_STREAMS.get(name, ())}
    if parameter == "early_stopping":
        options["eval_set"] = VALID
    for mode in modes_of(name):
        for change in changes_of(name, parameter):
            context = {key: value for key, value in {**change, **mode}.items() if key != parameter}
            changed = {**context, parameter: change[parameter]}
            if parameter in mode:
                continue
            with suppress(RankineError):
                before = outcome(name, context, **options)
                yield changed, before != outcome(name, changed, **options)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, p) for name in RANKERS for p in parameters_of(name) if p not in WITHOUT_EFFECT],
)
def test_every_parameter_has_an_effect_or_is_refused(name, parameter):
    results = list(compared(name, parameter))
    if parameter == "random_state" and name in DETERMINISTIC:
        return
    if parameter == "scale" and name in UNSCALED:
        return
    assert any(effect for _, effect in results)
    if parameter not in IN_SOME_MODES:
        assert [changed for changed, effect in results if not effect] == []


@pytest.mark.parametrize("name", RANKERS)
def test_parameters_without_effect_are_refused_and_have_none(name, monkeypatch):
    kind = ranker_class(name)
    for parameter, condition in kind.no_effect_with.items():
        change = changes_of(name, parameter)[0][parameter]
        for values in product(*condition.values()):
            others = dict(zip(condition, values, strict=True))
            context = {**others, parameter: change}
            with pytest.raises(ParameterError, match="no effect with") as error:
                make(name, **context).fit(DATA)
            assert error.value.parameter == parameter
            with monkeypatch.context() as patch:
                patch.setattr(kind, "_check_effects", lambda *_: None)
                try:
                    before, after = (outcome(name, options) for options in (others, context))
                except RankineError:  # refused beside these values for another reason
                    continue
            assert before == after, context


def test_an_option_is_taken_if_one_of_several_conditions_does_not_hold():
    refused = {"solver": "perceptron", "l2": 0.1}
    with pytest.raises(ParameterError) as error:
        make("spd", **refused).fit(DATA)
    assert error.value.parameter == "l2"
    ranker = make("spd", **refused, record_at=[10]).fit(DATA)
    assert len(ranker.record_) > 0


class Draws:
    """A trial that draws at random."""

    def __init__(self, rng):
        self.suggest_categorical = lambda _name, values: rng.choice(values)
        self.suggest_int = lambda _name, low, high, **_: rng.randint(low, high)
        self.suggest_float = lambda _name, low, high, **_: rng.uniform(low, high)


@pytest.mark.parametrize("name", RANKERS)
def test_tuning_searches_no_parameter_without_effect(name):
    space, trial = Space({name: ranker_class(name)()}), Draws(random.Random(0))
    for _ in range(300):
        ranker = space.ranker(space.suggest(trial))
        ranker._check()
        ranker._check_effects()
