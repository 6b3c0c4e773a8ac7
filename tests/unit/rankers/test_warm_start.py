"""A warm start continues the run of a model, and names the setting that differs."""

from dataclasses import replace

import numpy as np
import pytest

import rankine
from error_checks import raises_for
from rankine import AdditiveRanker, ElasticRanker, LeastSquaresRanker, LinearModel, SPDRanker
from rankine.core.errors import FeatureMismatchError, ModelError, RankineError
from rankine.data.splits import split_in_order
from rankine.logs.simulation import shop_log
from rankine.rankers import elastic

LOG = shop_log(120, random_state=3)


def days(n, log=LOG):
    return split_in_order(log, [1] * n)


def stored(ranker):
    """The model of a ranker as another process reads it."""
    return LinearModel.from_bytes(ranker.to_model().to_bytes())


class Blocks:
    """A stream of given blocks."""

    def __init__(self, *blocks):
        self.blocks, self.n_features = blocks, blocks[0].n_features
        self.feature_names = blocks[0].feature_names

    def __iter__(self):
        return iter(self.blocks)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"adaptive": False},
        {"solver": "fobos", "eta0": 0.1},
        {"solver": "psgd", "eta0": 0.1, "prune_every": 7},
        {"solver": "tgd", "eta0": 0.1},
        {"objective": "pointwise", "position_offset": 3},
        {"max_nonzero": 3},
    ],
    ids=str,
)
def test_a_warm_start_over_days_equals_one_run_over_all(options):
    """With the same scaling and step size, three days are one stream of their lists."""
    make = {"random_state": 0, "scale": "none", "eta0": 0.5, **options}
    whole = ElasticRanker(**make).fit(Blocks(*days(3)))
    ranker = ElasticRanker(**make).fit(Blocks(days(3)[0]))
    for day in days(3)[1:]:
        ranker = ElasticRanker(**make).fit(Blocks(day), coef_init=stored(ranker))
    np.testing.assert_allclose(ranker.coef_, whole.coef_, rtol=1e-12, atol=1e-15)
    assert ranker.n_iter_ == whole.n_iter_
    again = ElasticRanker(**make, warm_start=True)
    for day in days(3):
        again.fit(Blocks(day))
    assert (again.coef_ == ranker.coef_).all()


def test_step_size_and_scaling_come_from_the_model(monkeypatch):
    monkeypatch.setattr(elastic, "MAX_STEP", 5.0)
    first, second = days(2)
    factor = np.ones(LOG.n_features)
    factor[2] = 1000.0
    first = replace(first, X=first.X * factor, query_index=None)
    ranker = ElasticRanker(random_state=0).fit(first)
    # The day after, the column has larger values; its weight keeps its unit.
    second = replace(second, X=second.X * factor * 5.0, query_index=None)
    warm = ElasticRanker(random_state=0).fit(second, coef_init=stored(ranker))
    assert warm.eta0_ == ranker.eta0_ != ElasticRanker(random_state=0).fit(second).eta0_
    assert warm.scaling_.factors[2] == ranker.scaling_.factors[2]
    assert warm.n_iter_ == ranker.n_iter_ + len(second.labels.queries_with_pairs)


@pytest.mark.parametrize("options", [{"solver": "fobos"}, {"eta0": 0.3}, {"scale": "standard"}])
def test_other_steps_start_from_the_weights_alone(options):
    first, second = days(2)
    model = stored(ElasticRanker(random_state=0).fit(first))
    ranker = ElasticRanker(random_state=0, n_passes=1, **options)
    warm = ranker.fit(second, coef_init=model)
    bare = replace(model, state=None)
    alone = ElasticRanker(random_state=0, n_passes=1, **options).fit(second, coef_init=bare)
    assert (warm.coef_ == alone.coef_).all()


def test_early_stopping_before_the_end_stores_no_state():
    first, second = days(2)
    ranker = ElasticRanker(random_state=0, early_stopping=1, eta0=50.0)
    assert ranker.fit(first, eval_set=second).to_model().state is None


def missing_in(column, data, seed):
    X = data.X.copy()
    X[np.random.default_rng(seed).random(data.n_rows) < 0.2, column] = np.nan
    return replace(data, X=X, query_index=None)


def test_weights_of_missing_indicators_continue():
    """Yesterday's column was missing in part, today's is another one: both keep their weight."""
    first, second = days(2)
    options = {"random_state": 0, "missing": "indicator", "n_passes": 1}
    ranker = ElasticRanker(**options).fit(missing_in(4, first, 0))
    model = stored(ranker)
    warm = ElasticRanker(**options).fit(missing_in(1, second, 1), coef_init=model)
    assert warm.scaling_.missing.columns == (1, 4)
    tiny = ElasticRanker(**{**options, "l1": 0.0, "l2": 0.0}).fit(
        missing_in(1, second.take_queries(np.arange(1)), 1), coef_init=model
    )
    weights = dict(zip(tiny.scaling_.missing.columns, tiny.scaling_.missing.values, strict=True))
    assert weights[4] == pytest.approx(model.missing.values[0], rel=0.2)
    # An exact ranker starts from the learned weight too, and its solution is that of today's rows.
    rows = missing_in(4, second, 2)
    exact = LeastSquaresRanker(missing="indicator", l2=0.1).fit(rows)
    warm_exact = LeastSquaresRanker(missing="indicator", l2=0.1).fit(rows, coef_init=stored(exact))
    assert warm_exact.n_iter_ == 0 < exact.n_iter_


def test_a_conflict_names_the_setting():
    first, second = days(2)
    model = stored(ElasticRanker(random_state=0, missing="indicator").fit(first))
    cases = [
        (ElasticRanker(), "missing", "'indicator'"),
        (SPDRanker(missing="indicator", scale="query"), "scale", "'auto'"),
        (AdditiveRanker(), "coef_init", "AdditiveRanker"),
    ]
    for ranker, parameter, expected in cases:
        with pytest.raises(RankineError, match=expected) as caught:
            ranker.fit(second, coef_init=model)
        assert caught.value.parameter == parameter
    tables = stored(AdditiveRanker(pairs=0).fit(first))
    with raises_for("ranker", FeatureMismatchError) as caught:
        ElasticRanker().fit(second, coef_init=tables)
    assert caught.value.parameter == "ranker"


def test_states_from_damaged_files_are_refused():
    first, second = days(2)
    model = ElasticRanker(random_state=0).fit(first).to_model()
    state = model.state
    for change in (
        {"rows": state.rows[::-1]},
        {"rows": state.rows[:-1]},
        {"factors": state.factors * np.nan},
        {"values": state.values[:-1]},
    ):
        with pytest.raises(ModelError):
            replace(state, **change)
    other = replace(model, state=replace(state, clock=state.clock[:2]))
    with pytest.raises(ModelError, match="does not fit"):
        ElasticRanker().fit(second, coef_init=other)
    assert model.compact().state is None


def test_a_day_without_missing_numbers_follows_one_with_them():
    pa = pytest.importorskip("pyarrow")

    def log(price):
        rows = {"session": [1, 1, 2, 2], "clicked": [1, 0, 1, 0], "price": price}
        return rankine.logs.scan(
            pa.table(rows), query="session", label="clicked", numeric=["price"]
        )

    with_missing, without = log([1.0, None, 2.0, None]), log([1.0, 3.0, 2.0, 5.0])
    for first, second, rule in (
        (with_missing, without, "indicator"),
        (without, with_missing, "zero"),
    ):
        for ranker in (ElasticRanker(random_state=0), LeastSquaresRanker(l2=0.1)):
            model = ranker.fit(first).to_model()
            assert ranker.fit(second, coef_init=model).to_model().missing.rule == rule
            ranker.set_params(warm_start=True).fit(first).fit(second)
            assert ranker.scaling_.missing.rule == rule
