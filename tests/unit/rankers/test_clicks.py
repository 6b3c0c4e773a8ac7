"""Every ranker learns from clicks, from every source: inverse weights and offsets of positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import rankine
import rankine.distributed
import rankine.distributed as rd
from error_checks import raises_for
from rankine import Dataset, DominationRanker, ElasticRanker, LeastSquaresRanker, RankSVM, SPDRanker
from rankine.core.errors import ParameterError, SchemaError
from rankine.logs.simulation import simulate
from rankine.rankers.clicks import PositionCorrection, QueryDivisor
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.rankers.sources import (
    MemorySource,
)
from rankine.transforms.clicks import add_position_columns, apply_position_weights

pytestmark = pytest.mark.usefixtures("raw_units")

LOOKS = (1.0, 0.5, 0.25)
#: Settings under which the weights of propensity are plain row weights.
PLAIN = {
    "spd": {"n_steps": 2000, "sampling": "uniform"},
    "ranksvm": {"normalization": "pair"},
    "least-squares": {"normalization": "pair"},
    "domination": {"l1": 1.0},
    "elastic": {"l1": 0.0, "objective": "pairwise"},
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same clicks as rows, as a stream and as partitions; and corrected by hand."""
    folder = tmp_path_factory.mktemp("clicks")
    data = simulate(150, exploration=0.5, random_state=0).to_dataset()
    found = {}
    for name, rows in {
        "given": data,
        "by hand": add_position_columns(apply_position_weights(data, (1.0, 2.0, 4.0)), 4),
    }.items():
        halves = np.array_split(np.arange(rows.n_queries), 2)
        paths = [str(folder / f"{name} {k}.parquet") for k in range(2)]
        for path, half in zip(paths, halves, strict=True):
            rows.take_queries(half).save(path)
        read = {"position": "position", **({"weight": "weight"} if name == "by hand" else {})}
        found[name] = {
            "memory": rankine.load(paths, **read),
            "stream": rankine.scan(paths, block_rows=100, **read),
            "partitions": rd.scan(paths, **read),
        }
    return found


@pytest.mark.parametrize("kind", ["memory", "stream", "partitions"])
@pytest.mark.parametrize("name", [name for name in RANKERS if name in PLAIN])
def test_click_correction_equals_explicit_weights(sources, name, kind):
    make = ranker_class(name)
    if kind not in make.capabilities.fit:
        return
    options = {**PLAIN[name], "random_state": 0}
    by_hand = make(**options).fit(sources["by hand"][kind])
    ranker = make(**options, propensity=LOOKS, position_offset=4).fit(sources["given"][kind])
    data = sources["given"]["memory"]
    n = data.n_features
    np.testing.assert_allclose(ranker.coef_, by_hand.coef_[:n], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        ranker.position_offset_, np.r_[0.0, by_hand.coef_[n:]], rtol=1e-9, atol=1e-12
    )
    model = ranker.to_model()
    assert model.n_features == n
    assert not any("position" in label for label in model.weight_names)
    np.testing.assert_allclose(ranker.predict(data), data.X @ ranker.coef_)
    assert model.parameters["propensity"] == list(LOOKS)


def pair_objective(data, weight, coef):
    """Mean over queries of the squared hinge, divided by pairs without propensities."""
    total, queries = 0.0, 0
    for q in range(data.n_queries):
        rows = data.queries.rows_of(q)
        i, j = np.nonzero(data.y[rows][:, None] > data.y[rows][None, :])
        if len(i):
            scores = data.X[rows] @ coef
            loss = np.maximum(0, 1 - scores[i] + scores[j]) ** 2
            total += (weight[rows][i] * weight[rows][j] * loss).sum() / len(i)
            queries += (weight[rows][i] * weight[rows][j]).sum() / len(i)
    return total / queries


def test_a_list_with_one_click_keeps_its_weight(sources):
    data = sources["given"]["memory"]
    weight = apply_position_weights(data, (1.0, 2.0, 4.0)).weight
    l2 = 0.1
    ranker = RankSVM(loss="squared_hinge", l2=l2, propensity=LOOKS, tol=1e-9).fit(data)

    def objective(coef):
        return pair_objective(data, weight, coef) + l2 / 2 * coef @ coef

    assert objective(ranker.coef_) == pytest.approx(ranker.solution_.objective, rel=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):
        away = ranker.coef_ + 0.01 * rng.normal(size=data.n_features)
        assert objective(away) >= objective(ranker.coef_)


@pytest.mark.parametrize("normalization", ["query", "sum"])
def test_least_squares_does_not_divide_position_weights_out(sources, normalization):
    """With two rows a list the loss is (difference)^2, times the weight: no division is left."""
    rng = np.random.default_rng(1)
    X, position = rng.normal(size=(80, 3)), np.tile([1, 2], 40)
    y = np.where(rng.random(40)[:, None] < 0.5, [[1.0, 0.0]], [[0.0, 1.0]]).ravel()
    data = rankine.Dataset.from_arrays(X, y, np.repeat(np.arange(40), 2), position=position)
    options = {"normalization": normalization, "tol": 1e-12, "l2": 1e-9}
    ranker = LeastSquaresRanker(propensity=[1.0, 0.2], **options).fit(data)
    weight = np.where(y[1::2] > 0, 5.0, 1.0)
    same = LeastSquaresRanker(**options).fit(data, query_weight=weight)
    np.testing.assert_allclose(ranker.coef_, same.coef_, rtol=1e-6)


@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_position_weights_raise_the_probability_to_draw_a_query(sources, kind):
    data = sources["given"]["memory"]
    weighed, clicks = apply_position_weights(data, (1.0, 2.0, 4.0)), (data.y > 0).astype(float)
    mass = [
        np.array(
            [
                (w[rows] * clicks[rows]).sum() * (w[rows] * (1 - clicks[rows])).sum()
                for rows in map(data.queries.rows_of, range(data.n_queries))
            ]
        )
        for w in (weighed.weight, np.ones(data.n_rows))
    ]
    factor = np.divide(*mass, out=np.ones(data.n_queries), where=mass[1] > 0)
    options = {"n_steps": 2000, "random_state": 0}
    ranker = SPDRanker(**options, propensity=LOOKS).fit(sources["given"][kind])
    same = SPDRanker(**options).fit(weighed, query_weight=factor)
    if kind == "stream":
        rows = SPDRanker(**options, propensity=LOOKS).fit(data)
        assert ranker.score(data) == pytest.approx(rows.score(data), abs=0.05)
    else:
        np.testing.assert_allclose(ranker.coef_, same.coef_, rtol=1e-9)


def test_offsets_work_with_evaluation_warm_starts_and_partial_fit(sources):
    data = sources["given"]["memory"]
    ranker = ElasticRanker(position_offset=3, early_stopping=2, random_state=0, scale="standard")
    ranker.fit(data, eval_set=replace(data, position=None))
    again = ElasticRanker(position_offset=3, random_state=0).fit(data, coef_init=ranker.to_model())
    assert len(again.coef_) == data.n_features
    again.partial_fit(data)
    assert len(again.position_offset_) == 3
    recorded = SPDRanker(n_steps=200, record_at=[100], position_offset=3, random_state=0)
    recorded.fit(data, eval_set=data)
    assert len(recorded.coef_) == data.n_features


def test_parameters_without_effect_are_refused(sources):
    parts, data = sources["given"]["partitions"], sources["given"]["memory"]
    with raises_for("propensity"):
        RankSVM(propensity=LOOKS).fit(parts)
    with pytest.raises(ParameterError) as caught:
        DominationRanker(normalization="query", propensity=LOOKS).fit(data)
    assert caught.value.parameter == "normalization"
    with pytest.raises(ParameterError) as caught:
        RankSVM(propensity=[2.0]).fit(data)
    assert caught.value.parameter == "propensity"
    with pytest.raises(ParameterError) as caught:
        ElasticRanker(position_offset=3).path(data)
    assert caught.value.parameter == "position_offset"
    with raises_for("position", SchemaError):
        RankSVM(propensity=LOOKS).fit(replace(data, position=None))


def shown(n_lists=12, size=5, seed=0) -> Dataset:
    rng = np.random.default_rng(seed)
    n = n_lists * size
    return Dataset.from_arrays(
        rng.normal(size=(n, 2)),
        rng.integers(0, 3, n),
        np.repeat(np.arange(n_lists), size),
        position=np.tile(np.arange(1, size + 1), n_lists),
        weight=rng.uniform(0.5, 2, n),
    )


def divisor(kind: str, y: np.ndarray, w: np.ndarray) -> float:
    """What a query's loss is divided by, written out."""
    n = range(len(y))
    pairs = [(i, j) for i in n for j in n if i < j]
    if kind == "pairs":
        return sum(w[i] * w[j] for i, j in pairs if y[i] != y[j])
    if kind == "pairs and ties":
        return sum(w[i] * w[j] for i, j in pairs)
    if kind == "gains":
        return sum(w * (2.0 ** (y - y.min()) - 1))
    return sum(w) ** 2 if kind == "squared rows" else sum(w)


@pytest.mark.parametrize("kind", [kind for kind in QueryDivisor if kind != QueryDivisor.NOTHING])
def test_inverse_weights_are_not_divided_out(kind):
    data, inverse = shown(), (1.0, 2.0, 4.0)
    light = replace(data, weight=0.02 * data.weight)
    source = MemorySource(data, None, PositionCorrection(inverse, 0, kind))
    lightly = MemorySource(light, None, PositionCorrection(inverse, 0, kind)).query_weight
    np.testing.assert_allclose(lightly, source.query_weight, rtol=1e-9)
    looks = np.where(data.y > 0, np.array(inverse)[np.minimum(data.position, 3) - 1], 1.0)
    for q in range(12):
        rows = data.qid == q
        y, w = data.y[rows], data.weight[rows]
        before = divisor(kind, y, w)
        expected = divisor(kind, y, w * looks[rows]) / before if before else 1.0
        assert source.query_weight[q] == pytest.approx(expected)
    assert (PositionCorrection((), 0, kind).query_factors(data) == 1.0).all()
    assert (PositionCorrection(inverse).query_factors(data) == 1.0).all()
    assert [PositionCorrection((), k).n_columns for k in (0, 2, 5)] == [0, 1, 4]
