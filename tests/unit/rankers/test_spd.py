"""Runs: determinism, storage, weights, streams, warm starts, early stopping, records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from slow_pairs import hinge, objective

import rankine
from error_checks import raises_for
from rankine import SPDRanker
from rankine.core.errors import DivergenceError, NoPairsError, ParameterError
from rankine.losses.all_pairs import MeanPairLoss, PairMean
from rankine.losses.pairwise.hinge import Hinge
from rankine.rankers.spd import SOLVERS
from rankine.samplers.draw import pair_sampler
from rankine.solvers.pair_sgd import Phase, Span, run_phase, solve_pairs
from rankine.solvers.pair_steps import average_iterate, last_iterate, new_vector

pytestmark = pytest.mark.usefixtures("raw_units")


@pytest.fixture(scope="module")
def shop():
    from rankine import shop_log

    return shop_log(60, random_state=3)


def fit(data, **parameters):
    return SPDRanker(**{"n_steps": 5000, "random_state": 1, **parameters}).fit(data)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1e20, 1e170, 1e300])
def test_columns_of_any_size_are_learnt_from_or_refused(solver, size, tmp_path):
    """Weights as long as the rows are would give infinite scores."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(10), 6)
    X *= size
    data = rankine.Dataset.from_arrays(X, rng.integers(0, 3, 60), qid)
    path = tmp_path / "rows.parquet"
    data.save(path)
    ranker = SPDRanker(solver, n_steps=500, random_state=0)
    runs = {
        "memory": lambda: ranker.fit(data),
        "stream": lambda: ranker.fit(rankine.scan(path)),
        "partitions": lambda: ranker.fit(rankine.distributed.scan(path)),
        "instalment": lambda: clone(ranker).partial_fit(data),
    }
    for name, run in runs.items():
        try:
            fitted = run()
        except DivergenceError:
            assert size > 1e20, name
        else:
            assert np.isfinite(fitted.predict(data)).all(), name


def test_same_seed_same_bits_and_another_seed_differs(shop):
    one, two, other = fit(shop), fit(shop), fit(shop, random_state=2)
    assert one.coef_.tobytes() == two.coef_.tobytes()
    assert one.coef_.tobytes() != other.coef_.tobytes()


@pytest.mark.parametrize("solver", ["pegasos", "passive_aggressive", "romma", "logistic"])
def test_dense_and_sparse_rows_agree(shop, solver):
    csr = replace(shop, X=sparse.csr_array(shop.X))
    dense = fit(shop, solver=solver, n_steps=500).coef_
    np.testing.assert_allclose(fit(csr, solver=solver, n_steps=500).coef_, dense, rtol=1e-7)


def test_float32_rows_are_not_converted(shop):
    X = shop.X.astype(np.float32)
    data = rankine.Dataset.from_arrays(X, shop.y, shop.qid)
    assert data.X is X
    np.testing.assert_allclose(fit(data).coef_, fit(shop).coef_, rtol=1e-3, atol=1e-3)


def test_row_order_of_queries_does_not_matter_to_the_objective(shop):
    """Interleaved queries are grouped once; scores come back in row order."""
    mixed = np.random.default_rng(0).permutation(shop.n_rows)
    data = shop.take(mixed)
    ranker = fit(data, n_steps=50_000, l2=1e-2)
    same = fit(shop, n_steps=50_000, l2=1e-2)
    values = [
        objective(r.coef_, shop.X[:200], shop.y[:200], shop.qid[:200], 1e-2, "query", hinge)
        for r in (ranker, same)
    ]
    assert values[0] == pytest.approx(values[1], rel=0.02)
    np.testing.assert_array_equal(ranker.predict(data), ranker.predict(shop)[mixed])


def test_tail_average_is_the_mean_of_the_second_half(shop):
    """The O(non-zeros) average equals the plain mean of the iterates."""
    sampler = pair_sampler(shop, np.ones(shop.n_queries))
    step = SPDRanker("pegasos", l2=1e-3).plan().first
    w = new_vector(np.zeros(shop.n_features))
    total = np.zeros(shop.n_features)
    for i in range(400):
        run_phase(shop.rows, sampler, Phase(step, 0, 400, 0, 10**9), w, 5, (i, i + 1))
        total += last_iterate(w) if i >= 200 else 0
    spans = [Span(shop.rows, sampler, 400)]
    solved = solve_pairs(spans, [Phase(step, 0, 400, 0, 200)], np.zeros(shop.n_features), 5)
    np.testing.assert_allclose(solved.coef, total / 200, rtol=1e-10)
    assert average_iterate(w) == pytest.approx(last_iterate(w))


def test_a_recorded_run_ends_with_the_same_bits(shop):
    plain = fit(shop)
    recorded = fit(shop, record_at=[1, 10, 100, 4999])
    assert plain.coef_.tobytes() == recorded.coef_.tobytes()
    assert [row["step"] for row in recorded.record_] == [1, 10, 100, 4999]
    steps = [row["objective"] for row in recorded.record_]
    assert steps[-1] < steps[0]


def test_evaluation_set_is_recorded_and_stops_early(shop):
    train = shop.take_queries(np.arange(40))
    valid = shop.take_queries(np.arange(40, 60))
    ranker = SPDRanker(n_steps=200_000, random_state=0, early_stopping=2, record_at=[100_000])
    ranker.fit(train, eval_set=valid)
    assert ranker.solution_.stop_reason == "early_stopping"
    best = max(row["value"] for row in ranker.evals_)
    assert ranker.score(valid) == pytest.approx(best)


def test_a_callback_stops_the_run(shop):
    seen = []

    def stop(progress):
        seen.append(progress.step)
        return len(seen) == 3

    ranker = SPDRanker(n_steps=2000, random_state=0)
    ranker.fit(shop, callbacks=[stop])
    assert ranker.solution_.stop_reason == "callback"
    assert ranker.n_iter_ == seen[-1] == 300


class Blocks:
    """A stream of a dataset, cut into blocks of so many rows."""

    def __init__(self, data, rows=100):
        self.data, self.rows = data, rows
        self.n_features = data.n_features

    def __iter__(self):
        return self.data.blocks(self.rows)


def weighted(data, seed=4):
    """Row weights with zeros, and queries of no weight at all."""
    rng = np.random.default_rng(seed)
    weight = rng.choice([0.0, 0.01, 0.3, 1.0, 2.0], size=data.n_rows)
    weight[np.isin(data.queries.codes, [0, 7, 8, data.n_queries - 1])] = 0.0
    return replace(data, weight=weight)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("sampling", ["query", "uniform", "indexed", "rejection"])
def test_streams_give_the_same_bits_for_any_block_size(shop, sampling, weights):
    data = weighted(shop) if weights else shop
    query_weight = np.linspace(0.0, 2.0, shop.n_queries) if weights else None

    def run(rows):
        ranker = SPDRanker(sampling=sampling, n_steps=4000, n_passes=2, random_state=3)
        return ranker.fit(Blocks(data, rows), query_weight=query_weight).coef_.tobytes()

    assert len({run(rows) for rows in (1, 40, 200, 10**6)}) == 1


@pytest.mark.parametrize("scale", ["none", "standard", "query"])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("sampling", ["query", "uniform", "rejection"])
def test_a_stream_learns_what_memory_learns(shop, sampling, weights, scale):
    data = weighted(shop) if weights else shop
    ranker = SPDRanker(sampling=sampling, l2=1e-2, n_steps=400_000, scale=scale, random_state=0)
    fitted = ranker.fit(data).coef_
    streamed = ranker.set_params(n_passes=20).fit(Blocks(data)).coef_
    cosine = streamed @ fitted / np.linalg.norm(streamed) / np.linalg.norm(fitted)
    assert cosine > 0.97


def test_unequal_weights_decide_in_a_stream_as_in_memory():
    """Many light queries want one thing, few heavy ones the other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    qid = np.repeat(np.arange(80), 5)
    heavy = qid >= 70
    y = np.where(heavy, X[:, 0], -X[:, 0])
    data = rankine.Dataset.from_arrays(X, y, qid, weight=np.where(heavy, 1.0, 0.01))
    for sampling in ("uniform", "rejection"):
        ranker = SPDRanker(sampling=sampling, l2=1e-2, n_steps=20_000, random_state=0)
        in_memory, streamed = ranker.fit(data).coef_[0], ranker.fit(Blocks(data)).coef_[0]
        assert in_memory > 0.3
        assert streamed == pytest.approx(in_memory, rel=0.3)


def test_a_stream_is_measured_and_counted_as_memory_is(shop):
    streamed = SPDRanker(scale="standard", n_steps=100, random_state=0).fit(Blocks(shop, 37))
    fitted = SPDRanker(scale="standard", n_steps=100, random_state=0).fit(shop)
    assert streamed.scaling_.factors.tobytes() == fitted.scaling_.factors.tobytes()
    counts = ("rows", "queries", "queries_used", "pairs")
    assert [streamed.training_[k] for k in counts] == [fitted.training_[k] for k in counts]


def test_unsupported_options_of_streams_are_refused(shop):
    with pytest.raises(ParameterError, match="partial_fit on each block"):
        SPDRanker().fit(iter(Blocks(shop)))
    with pytest.raises(ParameterError) as caught:
        SPDRanker().fit(Blocks(shop), shop.y)
    assert caught.value.parameter == "y"
    nothing = replace(shop, weight=np.zeros(shop.n_rows))
    with pytest.raises(NoPairsError):
        SPDRanker().fit(Blocks(nothing))


@pytest.mark.parametrize("source", [lambda data: data, Blocks])
def test_interrupted_runs_end_with_the_same_bits(shop, source, tmp_path):
    """Checkpoints hold weights, averages, records and what early stopping has seen."""
    train, valid = shop.take_queries(np.arange(40)), shop.take_queries(np.arange(40, 60))

    def run(**options):
        ranker = SPDRanker(n_steps=20_000, early_stopping=9, record_at=[4000], random_state=1)
        return ranker.fit(source(train), eval_set=valid, **options)

    class KilledError(Exception):
        pass

    def kill(progress):
        if progress.step >= 9000:
            raise KilledError

    whole = run()
    with pytest.raises(KilledError):
        run(checkpoint=tmp_path, every=700, callbacks=[kill])
    again = run(checkpoint=tmp_path, every=700, resume=True)
    assert again.coef_.tobytes() == whole.coef_.tobytes()
    assert again.evals_ == whole.evals_
    assert again.record_ == whole.record_
    assert again.to_model().digest == whole.to_model().digest


def test_early_stopping_on_a_stream_does_not_depend_on_its_blocks(shop):
    train, valid = shop.take_queries(np.arange(40)), shop.take_queries(np.arange(40, 60))

    def run(rows):
        ranker = SPDRanker(n_steps=200_000, random_state=0, early_stopping=2)
        return ranker.fit(Blocks(train, rows), eval_set=valid)

    one, other = run(40), run(10**6)
    assert one.solution_.stop_reason == "early_stopping"
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert one.score(valid) == pytest.approx(max(row["value"] for row in one.evals_))


def test_records_of_a_stream_are_those_of_the_whole(shop):
    ranker = SPDRanker(n_steps=2000, record_at=[2000], random_state=0).fit(Blocks(shop, 50))
    scores = ranker.predict(shop)
    mean = MeanPairLoss(Hinge(), PairMean.QUERIES)
    mean.add(shop, scores, np.ones(shop.n_queries))
    penalty = 0.5 * ranker.l2 * (ranker.coef_ @ ranker.coef_)
    assert ranker.record_[0]["objective"] == pytest.approx(mean.value + penalty, rel=1e-12)


def test_coef_init_continues_weights_and_steps_of_a_model(shop):
    first = SPDRanker(l2=1e-3, n_steps=5000, random_state=0).fit(shop)
    again = SPDRanker(l2=1e-3, n_steps=50, average=False, random_state=1)
    assert again.fit(shop, coef_init=first.to_model()).n_iter_ == 5050
    cold = SPDRanker(l2=1e-3, n_steps=50, average=False, random_state=1).fit(shop)
    assert again.score(shop) > cold.score(shop)
    assert again.fit(Blocks(shop), coef_init=first.to_model()).n_iter_ == 5050


def test_partial_fit_continues_the_step_counter(shop):
    ranker = SPDRanker(l2=1e-2, n_steps=3000, random_state=0)
    for block in (shop.take_queries(np.arange(30)), shop.take_queries(np.arange(30, 60))):
        ranker.partial_fit(block)
    assert ranker.n_iter_ == 6000
    assert ranker.score(shop) > 0.5


def test_warm_start_and_coef_init_are_not_erased_by_the_first_steps(shop):
    good = SPDRanker(l2=1e-3, n_steps=100_000, random_state=0).fit(shop)
    warm = SPDRanker(l2=1e-3, n_steps=50, random_state=1, average=False)
    warm.fit(shop, coef_init=good.coef_)
    cold = SPDRanker(l2=1e-3, n_steps=50, random_state=1, average=False).fit(shop)
    assert np.linalg.norm(warm.coef_ - good.coef_) < np.linalg.norm(cold.coef_ - good.coef_)
    again = SPDRanker(l2=1e-3, n_steps=100, random_state=0, warm_start=True).fit(shop)
    assert again.fit(shop).n_iter_ == 200


@pytest.mark.parametrize("scale", ["standard", "maxabs", "query"])
def test_scaling_is_folded_or_carried(shop, scale):
    ranker = fit(shop, scale=scale, n_steps=20_000)
    model = ranker.to_model()
    if scale == "query":
        assert [type(t).__name__ for t in model.transforms] == ["ListRange"]
    else:
        assert not model.transforms
        np.testing.assert_allclose(ranker.predict(shop), shop.X @ model.to_dense())
    from rankine.transforms.apply import score_dataset

    np.testing.assert_allclose(score_dataset(model, shop), ranker.predict(shop), rtol=1e-9)


def test_huge_and_constant_features_stay_finite():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.full(60, 5.0), rng.normal(size=60) * 1e300])
    y = (X[:, 0] > 0).astype(float)
    ranker = SPDRanker(scale="standard", n_steps=2000, random_state=0).fit(X, y)
    assert np.isfinite(ranker.coef_).all()


@pytest.mark.filterwarnings("ignore:scale='none'")
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_huge_column_is_learnt_from_in_memory_streams_and_partitions(kind, tmp_path):
    """Steps along it are 1e150 times the ball: the mean lost its digits where one was counted."""
    rng = np.random.default_rng(77)
    X = rng.normal(size=(60, 5)) * [1.0, 1.0, 1e150, 1.0, 1.0] * (rng.random((60, 5)) < 0.7)
    y, qid = rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)
    data = rankine.Dataset.from_arrays(kind(X), y, qid)
    whole, parts = tmp_path / "whole.parquet", [tmp_path / f"part-{k}.parquet" for k in (0, 1)]
    data.save(whole)
    for k, path in enumerate(parts):
        data.take_queries(np.arange(6 * k, 6 * k + 6)).save(path)
    sources = [data, rankine.scan(whole, block_rows=7), rankine.distributed.scan(parts)]
    for seed in range(5):
        for source in sources:
            coef = fit(source, n_steps=300, l2=3e-3, random_state=seed).coef_
            assert 0 < np.linalg.norm(coef) <= 3e-3**-0.5 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"loss": "cubic"}, "loss"),
        *(({"loss": "hinge", "solver": name}, "loss") for name in
          ("passive_aggressive", "romma", "logistic", "hybrid", "perceptron", "margin_perceptron")),
        *(({"ties": "zero", "solver": name}, "ties") for name in
          ("romma", "perceptron", "margin_perceptron")),
        ({"ties": "zero", "sampling": "indexed"}, "ties"),
        ({"sampling": "reservoir", "n_passes": 2}, "n_passes"),
        ({"sampling": "reservoir"}, "sampling"),
        ({"n_passes": 2}, "n_passes"),
        *(({name: 0}, name) for name in
          ("l2", "aggressiveness", "schedule_c", "n_steps", "max_trials", "buffer_rows",
           "n_passes")),
        ({"margin": -1.0}, "margin"),
        *(({name: "x"}, name) for name in
          ("solver", "sampling", "ties", "schedule", "hybrid_second")),
    ],
    ids=str,
)  # fmt: skip
def test_errors_name_the_parameter(shop, wrong, parameter):
    with pytest.raises(ParameterError) as caught:
        SPDRanker(**wrong).fit(shop)
    assert caught.value.parameter == parameter


def test_parameters_become_steps():
    assert SPDRanker("perceptron", margin=2.0).plan().first.margin == 0.0
    assert SPDRanker("margin_perceptron", margin=2.0).plan().first.margin == 2.0
    assert SPDRanker("romma", l2=0.25).plan().first.max_norm2 == 4.0
    assert SPDRanker("romma", l2=0.25, norm_guard=False).plan().first.max_norm2 == np.inf
    assert SPDRanker("passive_aggressive", aggressiveness=0.5).plan().first.C == 0.5
    hybrid = SPDRanker("hybrid", l2=0.1, aggressiveness=0.03, hybrid_steps=7).plan()
    assert (hybrid.first.C, hybrid.second.l2, hybrid.switch) == (0.03, 0.1, 7)
    assert hybrid.warm_step == 334  # 1 / (0.1 * 0.03), rounded up
    assert SPDRanker(average=False).plan().average is False
    steps = {"aggressiveness": [10.0**k for k in range(-6, 1)]}
    for solver in ("hybrid", "passive_aggressive"):
        assert SPDRanker(solver).letor_grid == steps
    assert SPDRanker("logistic").letor_grid == {"l2": [10.0**k for k in range(-5, 1)]}
    for told, divisor in (
        ({}, "pairs"), ({"ties": "zero"}, "pairs and ties"), ({"sampling": "uniform"}, "nothing"),
        ({"sampling": "rejection", "ties": "zero"}, "nothing"), ({"sampling": "indexed"}, "pairs"),
    ):  # fmt: skip
        assert SPDRanker(**told)._divisor() == divisor


def test_records_of_held_out_lists_and_tied_pairs(shop):
    train, valid = shop.take_queries(np.arange(40)), shop.take_queries(np.arange(40, 60))
    ranker = SPDRanker(n_steps=2000, record_at=[1000, 2000], random_state=0, l2=0.1)
    ranker.fit(train, eval_set=valid)
    penalty = 0.05 * (ranker.coef_ @ ranker.coef_)
    for name, data in (("objective", train), ("eval_objective", valid)):
        mean = MeanPairLoss(Hinge(), PairMean.QUERIES)
        mean.add(data, ranker.predict(data), np.ones(data.n_queries))
        assert ranker.record_[-1][name] == pytest.approx(mean.value + penalty, rel=1e-9)
    assert [row["step"] for row in ranker.record_] == [1000, 2000]
    assert "eval_objective" not in fit(shop, record_at=[10]).record_[0]
    with raises_for("record_at"):
        SPDRanker.capabilities.require("record_at", "partitions", "SPDRanker")


def test_rows_and_pairs_of_a_stream_are_counted_by_query():
    X = np.arange(12.0)[:, None]
    y = [1, 0, 0, 1, 1, 1, 2, 1, 0, 0, 0, 1]
    data = rankine.Dataset.from_arrays(X, y, np.repeat(np.arange(4), 3))
    ranker = SPDRanker(n_steps=100, random_state=0).fit(Blocks(data, 3))
    counts = {"rows": 12, "queries": 4, "queries_used": 3, "pairs": 2 + 0 + 3 + 2}
    assert {name: ranker.training_[name] for name in counts} == counts
    tied = SPDRanker(n_steps=100, random_state=0, ties="zero").fit(Blocks(data, 3))
    assert tied.training_["queries_used"] == 4


def test_partial_fit_averages_from_the_middle_of_the_first_call(shop):
    ranker = SPDRanker(n_steps=400, random_state=0, l2=1e-2)
    parts = [shop.take_queries(np.arange(30)), shop.take_queries(np.arange(30, 60))]
    for part in parts:
        ranker.partial_fit(part)
    step, w = ranker.plan().first, new_vector(np.zeros(shop.n_features))
    total = np.zeros(shop.n_features)
    for k, part in enumerate(parts):
        sampler = pair_sampler(part, np.ones(part.n_queries))
        for i in range(400 * k, 400 * (k + 1)):
            phase = Phase(step, 400 * k, 400 * (k + 1), 0, 10**9)
            run_phase(part.rows, sampler, phase, w, ranker._partial_run.seed, (i, i + 1))
            total += last_iterate(w) if i >= 200 else 0
    np.testing.assert_allclose(ranker.coef_, total / 600, rtol=1e-9)
    last = SPDRanker(n_steps=400, random_state=0, l2=1e-2, average=False)
    for part in parts:
        last.partial_fit(part)
    np.testing.assert_allclose(last.coef_, last_iterate(w), rtol=1e-9)
    fitted = SPDRanker(n_steps=400, random_state=0, l2=1e-2).fit(shop)
    before = fitted.coef_.copy()
    assert fitted.partial_fit(parts[0]).n_iter_ == 800
    assert np.linalg.norm(fitted.coef_ - before) < np.linalg.norm(before)
