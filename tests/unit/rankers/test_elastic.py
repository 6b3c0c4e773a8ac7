"""ElasticRanker: training in memory, in instalments and from streams."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rankine
import rankine.distributed
from error_checks import raises_for
from rankine import Dataset, ElasticRanker
from rankine.core.errors import (
    CheckpointError,
    DivergenceError,
    NoPairsError,
    ParameterError,
    SchemaError,
)
from rankine.data.dataset import concat
from rankine.rankers import elastic
from rankine.solvers.checkpoint import CheckpointFolder
from rankine.solvers.one_pass import OnePassLearner

pytestmark = pytest.mark.usefixtures("raw_units")


def shop(seed=0, lists=200, d=8, columns=()):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, lists)
    qid = np.repeat(np.arange(lists), sizes)
    X = rng.normal(size=(len(qid), d))
    utility = X @ np.linspace(2, -1, d) + rng.gumbel(size=len(qid))
    y = np.zeros(len(qid))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for a, b in zip(starts[:-1], starts[1:], strict=True):
        y[a + np.argmax(utility[a:b])] = 1
    extra = {name: np.repeat(rng.integers(1, 4, lists), sizes) for name in columns}
    return Dataset.from_arrays(X, y, qid, columns=extra)


class Blocks:
    """A stream of blocks of given numbers of lists."""

    def __init__(self, data, *sizes):
        self.data, self.sizes = data, sizes
        self.n_features = data.n_features

    def __iter__(self):
        first = k = 0
        while first < self.data.n_queries:
            last = min(first + self.sizes[k % len(self.sizes)], self.data.n_queries)
            yield self.data.take_queries(np.arange(first, last))
            first, k = last, k + 1


@pytest.mark.parametrize("solver", ["rda", "fobos"])
def test_learns_the_ranking(solver):
    data, held_out = shop(), shop(1)
    ranker = ElasticRanker(solver=solver, random_state=0, metric="recall@1").fit(data)
    assert ranker.score(held_out) > 0.6  # 0.18 by chance, 0.75 for the true weights
    assert ranker.n_iter_ == 200
    assert 0.4 < ranker.progressive_ < 0.9


def test_fit_is_one_pass_in_a_seeded_random_order():
    data = shop()
    ranker = ElasticRanker(random_state=0, solver="fobos").fit(data)
    again = ElasticRanker(random_state=0, solver="fobos").fit(data)
    other = ElasticRanker(random_state=1, solver="fobos").fit(data)
    np.testing.assert_array_equal(ranker.coef_, again.coef_)
    assert (ranker.coef_ != other.coef_).all()
    assert ranker._run.learner.lists_seen == data.n_queries


@pytest.mark.parametrize("options", [{}, {"batch_lists": 3}, {"shuffle_buffer": 32}])
def test_results_do_not_depend_on_the_blocks_of_a_stream(options):
    data = shop()
    runs = [
        ElasticRanker(random_state=0, **options).fit(Blocks(data, *sizes))
        for sizes in ((200,), (7, 1, 30), (64,))
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.coef_, runs[0].coef_)
        assert run.progressive_ == runs[0].progressive_
    assert runs[0].training_["rows"] == data.n_rows


def test_a_stream_keeps_the_order_of_the_file():
    data = shop()
    stream = ElasticRanker(eta0=0.1, random_state=0).fit(Blocks(data, 50))
    pieces = ElasticRanker(eta0=0.1, random_state=0)
    for block in Blocks(data, 30):
        pieces.partial_fit(block)
    np.testing.assert_array_equal(stream.coef_, pieces.coef_)
    shuffled = ElasticRanker(eta0=0.1, random_state=0, shuffle_buffer=50).fit(Blocks(data, 50))
    assert (shuffled.coef_ != stream.coef_).any()


def test_two_passes_equal_one_pass_over_the_file_twice():
    data = shop(lists=60)
    twice = ElasticRanker(random_state=0, n_passes=2).fit(Blocks(data, 25))
    parts = [data, Dataset(data.X, data.y, data.qid + 1000)]
    joined = ElasticRanker(random_state=0).fit(Blocks(concat(parts), 31))
    np.testing.assert_array_equal(twice.coef_, joined.coef_)
    assert twice.n_iter_ == 120


def test_passes_over_rows_in_memory_are_counted():
    data = shop(lists=60)
    few, one, three = (ElasticRanker(random_state=0, n_passes=n).fit(data) for n in (None, 1, 3))
    assert few.n_iter_ == 20 * one.n_iter_  # min(20, ceil(4000 / 60))
    assert three.n_iter_ == 3 * one.n_iter_
    assert three.solution_.stop_reason == "passes"


def test_partial_fit_takes_arrays_and_checks_their_width():
    data = shop(lists=20)
    ranker = ElasticRanker(random_state=0).partial_fit(data.X, data.y, qid=data.qid)
    assert ranker.n_features_in_ == 8
    with pytest.raises(ValueError, match="features"):
        ranker.partial_fit(data.X[:, :5], data.y, qid=data.qid)


def test_progressive_validation_scores_lists_before_learning():
    data = shop(lists=50)
    seen = []
    ranker = ElasticRanker(random_state=0, metric="mrr")
    ranker.fit(Blocks(data, 10), callbacks=[lambda p: seen.append((p.step, dict(p.values)))])
    assert [step for step, _ in seen] == [*range(1, 11), *range(15, 51, 5)]
    used = ranker._run.learner
    learner = OnePassLearner(used.optimizer, used.objective, 8, seed=used.seed)
    scores = learner.learn(data)
    from rankine.metrics import evaluate

    expected = evaluate("mrr:ties=expected", data.y, scores, data.qid)
    assert ranker.progressive_ == pytest.approx(expected, abs=1e-12)
    assert ranker.solution_.trace[-1]["progressive_mrr"] == ranker.progressive_
    model = ranker.to_model()
    assert model.provenance["certificate"]["progressive_mrr"] == ranker.progressive_


def test_a_callback_stops_the_stream():
    ranker = ElasticRanker(random_state=0)
    ranker.fit(Blocks(shop(), 20), callbacks=[lambda p: p.step >= 60])
    assert ranker._run.learner.lists_seen == 60
    assert ranker.solution_.stop_reason == "callback"


def test_early_stopping_keeps_the_best_weights():
    data, valid = shop(), shop(1)
    ranker = ElasticRanker(random_state=0, early_stopping=2, eta0=50.0)
    ranker.fit(Blocks(data, 10), eval_set=valid)
    best = max(entry["value"] for entry in ranker.evals_)
    assert ranker.score(valid) == pytest.approx(best)
    assert ranker._run.learner.lists_seen < 200


def test_a_cutoff_column_equals_the_same_constant_cutoff():
    data = shop(columns=("shown",))
    same = replace(data, columns={"shown": np.full(data.n_rows, 2)})
    by_column = ElasticRanker(objective="recall@shown", random_state=0).fit(same)
    by_number = ElasticRanker(objective="recall@2", random_state=0).fit(same)
    mixed = ElasticRanker(objective="recall@shown", random_state=0).fit(data)
    np.testing.assert_array_equal(by_column.coef_, by_number.coef_)
    assert (mixed.coef_ != by_number.coef_).any()
    with pytest.raises(SchemaError) as caught:
        ElasticRanker(objective="recall@slots").fit(data)
    assert caught.value.column == "slots"
    uneven = replace(data, columns={"shown": np.arange(data.n_rows) + 1})
    with pytest.raises(SchemaError) as caught:
        ElasticRanker(objective="ndcg@shown").fit(uneven)
    assert caught.value.column == "shown"


def test_items_that_were_not_displayed_form_no_pair():
    data = shop()
    shown = np.ones(data.n_rows)
    shown[data.queries.starts[:-1]] = 0
    masked = ElasticRanker(objective="recall@2", random_state=0)
    masked.fit(replace(data, columns={"displayed": shown}))
    other = data.X.copy()
    other[shown == 0] *= -1
    flipped = ElasticRanker(objective="recall@2", random_state=0).fit(data)
    assert (masked.coef_ != flipped.coef_).any()
    alone = replace(data, columns={"displayed": np.zeros(data.n_rows)})
    with pytest.raises(NoPairsError, match="'recall'"):
        ElasticRanker(objective="recall@2", random_state=0).fit(alone)


def test_warm_start_continues_from_the_weights():
    data = shop()
    ranker = ElasticRanker(random_state=0, warm_start=True).fit(data)
    first = ranker.coef_.copy()
    ranker.fit(shop(1))
    fresh = ElasticRanker(random_state=0).fit(shop(1))
    truth = np.linspace(2, -1, 8)
    angle = lambda w: w @ truth / np.linalg.norm(w) / np.linalg.norm(truth)  # noqa: E731
    assert angle(ranker.coef_) > max(angle(first), angle(fresh.coef_))
    handed = ElasticRanker(random_state=0, solver="fobos", eta0=1e-9)
    handed.fit(shop(1), coef_init=first)
    np.testing.assert_allclose(handed.coef_, first, rtol=1e-6)


def test_coef_init_continues_the_step_sizes_of_a_model():
    """The next list moves weights by eta_0 / sqrt(t) times a gradient of its own."""
    first = ElasticRanker(random_state=0, solver="fobos", eta0=1.0, l1=0.0, l2=0.0).fit(
        shop(lists=99)
    )
    one = shop(2, lists=1)
    moved = []
    for start in (first.to_model(), first.coef_):
        ranker = ElasticRanker(random_state=0, solver="fobos", eta0=1.0, l1=0.0, l2=0.0)
        moved.append(ranker.fit(one, coef_init=start).coef_ - first.coef_)
    np.testing.assert_allclose(moved[1], 10 * moved[0], rtol=1e-9)


def test_max_nonzero_bounds_the_weights():
    data = shop(d=20)
    ranker = ElasticRanker(random_state=0, max_nonzero=3).fit(data)
    assert np.count_nonzero(ranker.coef_) <= 3
    assert ranker.score(shop(1, d=20)) > 0.6


def test_graded_and_negative_labels():
    data = shop()
    ElasticRanker(objective="dcg", random_state=0).fit(data.X, data.y - 3, qid=data.qid)
    with raises_for("objective"):
        ElasticRanker(random_state=0).fit(data.X, data.y * 100, qid=data.qid)
    linear = ElasticRanker(objective="ndcg:gain=linear", random_state=0)
    assert linear.fit(data.X, data.y * 100, qid=data.qid).score(data) > 0.6


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"solver": "adam"}, "solver"),
        ({"objective": "err"}, "objective"),
        ({"objective": "nonsense"}, "objective"),
        ({"objective": "map@5"}, "objective"),
        ({"loss": "cubic"}, "loss"),
        ({"delta": "one"}, "delta"),
        ({"eta0": 0}, "eta0"),
        ({"l1": -1.0}, "l1"),
        ({"prune_every": 0}, "prune_every"),
        ({"theta": -1.0}, "theta"),
        ({"batch_lists": 0}, "batch_lists"),
        ({"max_nonzero": 0}, "max_nonzero"),
        ({"margin": -1.0}, "margin"),
        ({"solver": "fobos", "adaptive": True}, "adaptive"),
    ],
)
def test_errors_name_the_parameter(options, parameter):
    with pytest.raises(ParameterError) as caught:
        ElasticRanker(**options).fit(shop(lists=5))
    assert caught.value.parameter == parameter


def test_a_stream_has_the_scale_of_its_rows_in_memory():
    data = shop()
    streamed = ElasticRanker(scale="standard", random_state=0).fit(Blocks(data, 7, 31))
    fitted = ElasticRanker(scale="standard", random_state=0).fit(data)
    assert streamed.scaling_.factors.tobytes() == fitted.scaling_.factors.tobytes()


def test_a_stream_that_can_be_read_once_refuses_further_readings():
    class Once(Blocks):
        """An iterator that knows its width."""

        def __next__(self):
            raise StopIteration

    once = Once(shop(lists=5), 5)
    ElasticRanker(random_state=0).fit(once)
    for options in ({"scale": "standard"}, {"n_passes": 2}):
        with pytest.raises(ParameterError, match="only once"):
            ElasticRanker(**options).fit(once)
    with pytest.raises(ParameterError) as caught:
        ElasticRanker(n_passes=0).fit(Blocks(shop(lists=5), 5))
    assert caught.value.parameter == "n_passes"


def test_query_weights_in_a_stream_are_those_of_memory():
    data = shop(lists=60)
    weight = np.linspace(0.0, 2.0, 60)
    by_id = dict(zip(data.queries.ids.tolist(), weight.tolist(), strict=True))
    runs = [
        ElasticRanker(random_state=0, batch_lists=4).fit(Blocks(data, *sizes), query_weight=given)
        for sizes, given in (((60,), weight), ((7, 13), weight), ((5,), by_id))
    ]
    for run in runs:
        np.testing.assert_array_equal(run.coef_, runs[0].coef_)
    unweighted = ElasticRanker(random_state=0, batch_lists=4).fit(Blocks(data, 60))
    assert (unweighted.coef_ != runs[0].coef_).any()
    with raises_for("query_weight", SchemaError):
        ElasticRanker().fit(Blocks(data, 10), query_weight=weight[:50])


def one_step(data, query_weight=None, **how):
    """Weights after the first list, which is minus its gradient times the step."""
    told = {"objective": "pairwise", "solver": "fobos", "l1": 0.0, "l2": 0.0, "eta0": 0.1} | how
    return ElasticRanker(**told, random_state=0).fit(data, query_weight=query_weight).coef_


def test_row_and_query_weights_of_a_list():
    """A list of weight v steps v times as far; a row of weight 2 is the row twice, among pairs."""
    data = shop(lists=1)
    np.testing.assert_allclose(one_step(data, query_weight=[3.0]), 3 * one_step(data), rtol=1e-12)
    heavy = np.where(np.arange(data.n_rows) == 1, 2.0, 1.0)
    twice = data.take(np.r_[np.arange(data.n_rows), 1])
    both = (replace(data, weight=heavy), twice)
    np.testing.assert_allclose(*(one_step(one) for one in both), rtol=1e-12)
    # Pointwise the list is divided by its rows, whatever they weigh.
    more = [twice.n_rows / data.n_rows]
    steps = one_step(both[0], objective="pointwise"), one_step(twice, more, objective="pointwise")
    np.testing.assert_allclose(*steps, rtol=1e-12)
    # A repeated row moves the ranks of its list, and adaptive steps square the part of each row.
    for how in ({"objective": "ndcg"}, {"solver": "rda", "adaptive": True}):
        weighted, repeated = (one_step(one, **how) for one in both)
        assert np.abs(weighted - repeated).max() > 1e-3 * np.abs(weighted).max()


def test_early_stopping_on_a_stream_does_not_depend_on_its_blocks():
    data, valid = shop(), shop(1)
    runs = [
        ElasticRanker(random_state=0, early_stopping=3, eta0=20.0, max_nonzero=3).fit(
            Blocks(data, *sizes), eval_set=valid
        )
        for sizes in ((200,), (7, 1, 40))
    ]
    assert runs[0].solution_.stop_reason == "early_stopping"
    np.testing.assert_array_equal(runs[0].coef_, runs[1].coef_)
    assert runs[0].evals_ == runs[1].evals_
    assert np.count_nonzero(runs[0].coef_) <= 3
    assert runs[0].score(valid) == pytest.approx(max(row["value"] for row in runs[0].evals_))


@pytest.mark.parametrize("stream", [False, True])
def test_a_pointwise_objective_needs_two_classes(stream):
    data = shop(lists=20)
    for labels in (data.y - 2, data.y + 1):
        one = replace(data, y=labels)
        with pytest.raises(NoPairsError):
            ElasticRanker(objective="pointwise").fit(Blocks(one, 7) if stream else one)
        regression = ElasticRanker(objective="pointwise", loss="squared", random_state=0)
        assert regression.fit(Blocks(one, 7) if stream else one).coef_.any()


def test_no_pairs_is_an_error():
    data = Dataset.from_arrays(np.ones((4, 2)), [1, 1, 0, 0], [1, 1, 2, 2])
    with pytest.raises(NoPairsError):
        ElasticRanker().fit(data)
    with pytest.raises(NoPairsError):
        ElasticRanker().fit(Blocks(data, 1))


def test_labels_that_an_objective_cannot_distinguish_are_an_error_for_every_source(tmp_path):
    """All labels above 0 are relevant to map; in memory and partitions this gave no weights."""
    data = replace(shop(lists=20), y=shop(lists=20).y + 1)
    data.save(tmp_path / "a.parquet")
    for given in (data, Blocks(data, 7), rankine.distributed.scan(tmp_path / "a.parquet")):
        with pytest.raises(NoPairsError, match="'map'"):
            ElasticRanker(objective="map").fit(given)
        assert ElasticRanker(random_state=0).fit(given).coef_.any()


def test_list_scaling_works_in_streams():
    data = shop()
    factors = np.repeat(10.0 ** (np.arange(200) % 5), data.queries.sizes)
    stretched = replace(data, X=data.X * factors[:, None])
    plain = ElasticRanker(scale="query", random_state=0).fit(Blocks(data, 30))
    scaled = ElasticRanker(scale="query", random_state=0).fit(Blocks(stretched, 30))
    np.testing.assert_allclose(plain.coef_, scaled.coef_, rtol=1e-9)


def test_the_default_step_size_gives_first_scores_of_a_fixed_spread(monkeypatch):
    """With a tiny step, a pass over the lists in order gives the weights of the formula."""
    data = shop(lists=60)
    told = {"objective": "pairwise", "loss": "hinge", "adaptive": True, "random_state": 0}
    assert ElasticRanker(**told).fit(data).eta0_ == elastic.MAX_STEP == 0.5
    monkeypatch.setattr(elastic, "MAX_STEP", 5.0)
    ranker = ElasticRanker(**told).fit(data)
    still = ElasticRanker(**{**told, "eta0": 1e-9, "l1": 0.0, "l2": 0.0}).partial_fit(data)
    scores = still.predict(data) / 1e-9
    spread = np.sqrt(np.mean([scores[data.qid == q].var() for q in range(data.n_queries)]))
    assert ranker.eta0_ == pytest.approx(8 / spread, rel=1e-6)
    assert ranker.solution_.certificate["eta0"] == ranker.eta0_
    assert ElasticRanker(adaptive=True, eta0=0.3).fit(data).eta0_ == 0.3
    assert ElasticRanker(adaptive=True).fit(shop(lists=20)).eta0_ == 0.2
    n_used = len(data.labels.queries_with_pairs)
    for enough, usual in ((n_used, False), (n_used + 1, True)):
        monkeypatch.setattr(elastic, "MIN_LISTS_FOR_STEP", enough)
        assert (ElasticRanker(adaptive=True).fit(data).eta0_ == 0.2) == usual


def test_a_stream_of_one_list_is_learned_from():
    data = shop(lists=1)
    streamed = ElasticRanker(random_state=0).fit(Blocks(data, 1))
    assert streamed.coef_.any()
    assert streamed.training_["queries_used"] == 1


def test_the_step_size_does_not_depend_on_seed_cut_or_source():
    data = shop(lists=60)
    found = {
        ElasticRanker(adaptive=True, random_state=seed).fit(given).eta0_
        for seed, given in enumerate((data, data, Blocks(data, 7), Blocks(data, 11, 2)))
    }
    found.add(ElasticRanker(adaptive=True).partial_fit(data).eta0_)
    assert len(found) == 1
    once = iter(Blocks(data, 9))

    class Once:
        """An iterator that knows its width."""

        n_features = data.n_features

        def __iter__(self):
            return self

        def __next__(self):
            return next(once)

    ranker = ElasticRanker(adaptive=True).fit(Once())
    assert found == {ranker.eta0_}
    assert ranker.n_iter_ == data.n_queries


@pytest.mark.filterwarnings("ignore:scale='none'", "ignore::RuntimeWarning")
def test_an_overflowing_sum_of_squared_gradients_is_an_error_for_every_source(tmp_path):
    """Squares of gradients overflow: every weight would be 0, with nothing to tell it by."""
    rng = np.random.default_rng(0)
    X, y = 1e160 * rng.normal(size=(30, 3)), rng.integers(0, 2, 30)
    data = Dataset.from_arrays(X, y, np.repeat(np.arange(6), 5))
    data.save(tmp_path / "rows.parquet")
    ranker = ElasticRanker(adaptive=True, eta0=1.0, scale="none", random_state=0)
    sources = [
        data,
        rankine.scan(tmp_path / "rows.parquet", dense=True),
        rankine.distributed.scan(tmp_path / "rows.parquet", dense=True),
    ]
    for learn in (*(partial(ranker.fit, s) for s in sources), partial(ranker.partial_fit, data)):
        with pytest.raises(DivergenceError):
            learn()


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "lists.txt"
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for q in range(400):
            for _ in range(int(rng.integers(2, 6))):
                x = " ".join(f"{j}:{v:.3f}" for j, v in enumerate(rng.normal(size=6), 1))
                file.write(f"{int(rng.integers(0, 3))} qid:{q} {x}\n")
    return rankine.scan(path, n_features=6, block_rows=150)


class KilledError(Exception):
    """Stands for a kill."""


def stop_at(lists):
    def callback(progress):
        if progress.step >= lists:
            raise KilledError

    return callback


OPTIONS = [
    {"solver": "rda"},
    {"solver": "psgd", "batch_lists": 3},
    {"solver": "rda", "shuffle_buffer": 64},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "batches", "shuffled"])
def test_a_resumed_run_equals_an_uninterrupted_one(stream, tmp_path, options):
    def ranker():
        return ElasticRanker(n_passes=2, random_state=3, **options)

    whole = ranker().fit(stream)
    for at in (100, 390, 600):
        folder = tmp_path / f"at-{at}"
        with pytest.raises(KilledError):
            ranker().fit(stream, checkpoint=folder, every=47, callbacks=[stop_at(at)])
        assert 0 < CheckpointFolder(folder, 1).latest().step < 800
        again = ranker().fit(stream, checkpoint=folder, every=47, resume=True)
        np.testing.assert_array_equal(again.coef_, whole.coef_)
        assert again.n_iter_ == whole.n_iter_
        assert again.progressive_ == whole.progressive_
        assert again.training_["rows"] == whole.training_["rows"]
        assert again.to_model().digest == whole.to_model().digest


def test_checkpoints_do_not_change_the_result(stream, tmp_path):
    plain = ElasticRanker(random_state=0).fit(stream)
    kept = ElasticRanker(random_state=0).fit(stream, checkpoint=tmp_path, every=13)
    np.testing.assert_array_equal(plain.coef_, kept.coef_)
    assert CheckpointFolder(tmp_path, 13).latest().step == 400


def test_resuming_a_finished_run_changes_nothing(stream, tmp_path):
    done = ElasticRanker(random_state=0).fit(stream, checkpoint=tmp_path, every=100)
    again = ElasticRanker().fit(stream, checkpoint=tmp_path, every=100, resume=True)
    np.testing.assert_array_equal(done.coef_, again.coef_)


def test_resuming_with_other_parameters_is_refused(stream, tmp_path):
    ElasticRanker(random_state=0).fit(stream, checkpoint=tmp_path, every=100)
    with pytest.raises(CheckpointError):
        ElasticRanker(l1=0.5).fit(stream, checkpoint=tmp_path, resume=True)
    with pytest.raises(CheckpointError):
        ElasticRanker(n_passes=3).fit(stream, checkpoint=tmp_path, resume=True)
    with pytest.raises(CheckpointError):
        ElasticRanker().fit(stream, resume=True)


class Exploding:
    """Blocks whose features suddenly become enormous."""

    n_features = 1

    def __iter__(self):
        for k in range(8):
            size = 1.0 if k < 5 else 1e200
            X = np.array([[size], [-size]] * 10)
            yield Dataset.from_arrays(X, [1.0, 0.0] * 10, np.repeat(np.arange(10), 2) + 10 * k)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_names_the_last_good_checkpoint(tmp_path):
    ranker = ElasticRanker(
        solver="fobos", eta0=1e150, objective="pairwise", scale="none", random_state=0
    )
    with pytest.raises(DivergenceError, match=r"last good checkpoint is .*step-0*50") as caught:
        ranker.fit(Exploding(), checkpoint=tmp_path, every=10)
    assert "Lower eta0" in str(caught.value)
    saved = CheckpointFolder(tmp_path, 10).latest()
    assert np.isfinite(saved.arrays["state"]).all()


SCRIPT = """
import sys, time
import rankine
path, folder = sys.argv[1:]
scan = rankine.scan(path, n_features=6, block_rows=150)
slow = lambda progress: time.sleep(0.05)
ranker = rankine.ElasticRanker(
    n_passes=20, random_state=3, adaptive=False, l1=1e-3, l2=1e-3, scale="none"
)
ranker.fit(scan, checkpoint=folder, every=29, callbacks=[slow])
"""


@pytest.mark.reliability
def test_a_killed_process_resumes(stream, tmp_path):
    (path,) = stream.sources
    command = [sys.executable, "-c", SCRIPT, path, str(tmp_path)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while len(CheckpointFolder(tmp_path, 29).paths()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    step = CheckpointFolder(tmp_path, 29).latest().step
    assert 0 < step < 8000
    whole = ElasticRanker(n_passes=20, random_state=3).fit(stream)
    again = ElasticRanker(n_passes=20, random_state=3)
    again.fit(stream, checkpoint=tmp_path, every=29, resume=True)
    np.testing.assert_array_equal(again.coef_, whole.coef_)


def raw_columns(lists=60):
    """Rows whose columns are of very different sizes."""
    data = shop(lists=lists)
    return replace(data, X=data.X * 10.0 ** np.arange(-2, 6), query_index=None)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "hinge"])
@pytest.mark.parametrize("solver", ["fobos", "tgd", "psgd"])
def test_measured_steps_do_not_diverge_on_columns_of_any_size(solver, loss):
    """The first step changes the scores of one list by 1, and those of the others by less."""
    data = raw_columns()
    told = {"solver": solver, "loss": loss, "scale": "none", "objective": "pairwise"}
    ranker = ElasticRanker(**told, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(data)
        tenth = ElasticRanker(**told, step_factor=0.1).fit(data)
    assert tenth.eta0_ == pytest.approx(0.1 * ranker.eta0_)
    moved = []
    for query in range(20):
        one = data.take_queries(np.array([query]))
        step = ElasticRanker(**told, eta0=ranker.eta0_, n_passes=1, l1=0.0, l2=0.0, theta=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            moved.append(np.ptp(step.fit(one).predict(one)))
    assert 0.02 < max(moved) < 1.0 + 1e-9


def test_a_diverged_run_raises_and_a_run_above_zero_weights_warns():
    data = shop(lists=120)
    told = {"solver": "tgd", "objective": "pointwise", "loss": "squared", "random_state": 0}
    with pytest.raises(DivergenceError) as caught:
        ElasticRanker(**told, eta0=3.0, l2=0.0, power=0.0, scale="none").fit(data)
    assert "Lower eta0" in str(caught.value)
    with pytest.raises(DivergenceError):
        ElasticRanker(**told, eta0=3.0, power=0.0, scale="none").partial_fit(data)
    noise = replace(data, y=np.random.default_rng(0).permutation(data.y), query_index=None)
    steps = ElasticRanker(solver="fobos", eta0=1.0, power=0.0, l1=0.0, random_state=0, n_passes=1)
    with pytest.warns(ConvergenceWarning, match=r"the loss of the last lists is [1-9]"):
        steps.fit(noise)
    half = ElasticRanker(eta0=0.1, step_factor=0.5, random_state=0).fit(data)
    assert (half.coef_ == ElasticRanker(eta0=0.05, random_state=0).fit(data).coef_).all()


def test_the_margin_has_no_effect_on_linear_regression():
    ranker = ElasticRanker(objective="pointwise", loss="squared", margin=0.5)
    with pytest.raises(ParameterError) as caught:
        ranker.fit(shop())
    assert caught.value.parameter == "margin"
    weights = [
        ElasticRanker(objective="pairwise", loss="squared", margin=margin, n_passes=1, eta0=0.01)
        .fit(shop())
        .coef_
        for margin in (1.0, 0.5)
    ]
    assert (weights[0] != weights[1]).any()
