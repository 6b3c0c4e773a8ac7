"""Runs: determinism, storage, weights, streams, warm starts, early stopping, records."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from slow_pairs import hinge, objective

import rankine
from rankine import SPDRanker
from rankine.core.errors import ParameterError
from rankine.solvers.pair_sgd import Phase, solve_pairs
from rankine.solvers.scaled_vector import average_of, new_vector


@pytest.fixture(scope="module")
def shop():
    from rankine.data.shop import shop_log

    return shop_log(60, random_state=3)


def fit(data, **parameters):
    return SPDRanker(**{"n_steps": 5000, "random_state": 1, **parameters}).fit(data)


def test_same_seed_same_bits_and_another_seed_differs(shop):
    one, two, other = fit(shop), fit(shop), fit(shop, random_state=2)
    assert one.coef_.tobytes() == two.coef_.tobytes()
    assert one.coef_.tobytes() != other.coef_.tobytes()


@pytest.mark.parametrize("solver", ["pegasos", "passive_aggressive", "romma", "logistic"])
def test_dense_and_sparse_rows_agree(shop, solver):
    from dataclasses import replace

    csr = replace(shop, X=sparse.csr_array(shop.X))
    dense = fit(shop, solver=solver, n_steps=500).coef_
    np.testing.assert_allclose(fit(csr, solver=solver, n_steps=500).coef_, dense, rtol=1e-7)


def test_float32_rows_are_used_as_they_stand(shop):
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
    from rankine.rankers.spd_parts import make_sampler, make_step
    from rankine.solvers.pair_sgd import run_phase
    from rankine.solvers.scaled_vector import S

    plan = SPDRanker("pegasos", l2=1e-3)
    sampler = make_sampler(plan, shop, np.ones(shop.n_queries))
    step = make_step(plan, "pegasos")
    w = new_vector(np.zeros(shop.n_features))
    total = np.zeros(shop.n_features)
    for i in range(400):
        run_phase(shop.rows, sampler, Phase(step, 0, 400, 0, 10**9), w, 5, (i, i + 1))
        total += w.c[S] * w.v if i >= 200 else 0
    solved = solve_pairs(
        shop.rows, sampler, [Phase(step, 0, 400, 0, 200)], np.zeros(shop.n_features), 5
    )
    np.testing.assert_allclose(solved.coef, total / 200, rtol=1e-10)
    assert average_of(w) == pytest.approx(w.c[S] * w.v)


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


def test_streams_give_the_same_bits_for_any_block_size(shop):
    class Blocks:
        def __init__(self, rows):
            self.rows = rows

        def __iter__(self):
            return shop.blocks(self.rows)

    def run(rows, sampling):
        ranker = SPDRanker(sampling=sampling, n_steps=4000, random_state=3)
        return ranker.fit_stream(Blocks(rows)).coef_.tobytes()

    for sampling in ("query", "uniform", "indexed"):
        assert len({run(rows, sampling) for rows in (1, 40, 200, 10**6)}) == 1


def test_a_stream_learns_what_memory_learns(shop):
    class Blocks:
        def __iter__(self):
            return shop.blocks(100)

    streamed = SPDRanker(l2=1e-2, n_steps=50_000, n_passes=5, random_state=0).fit_stream(Blocks())
    fitted = SPDRanker(l2=1e-2, n_steps=50_000, random_state=0).fit(shop)
    cosine = (
        streamed.coef_
        @ fitted.coef_
        / np.linalg.norm(streamed.coef_)
        / np.linalg.norm(fitted.coef_)
    )
    assert cosine > 0.95
    with pytest.raises(ParameterError, match="only once"):
        SPDRanker().fit_stream(iter(Blocks()))
    with pytest.raises(ParameterError, match="standard"):
        SPDRanker(scale="standard").fit_stream(Blocks())


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
