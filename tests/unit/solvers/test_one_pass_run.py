"""When a run reports and saves, in which order it learns, and how it judges itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rankine.core.errors import DivergenceError
from rankine.data import Dataset
from rankine.kernels.random import LIST_ORDER, STREAMED_ORDER, permutation, stream_seed
from rankine.losses.list_objectives import parse_objective
from rankine.metrics import evaluate, parse_metric
from rankine.solvers.one_pass import OnePassLearner
from rankine.solvers.one_pass_run import OnePassRun, ProgressiveMetric
from rankine.updates import Rda

SEED = 5


def lists(n, seed=0, d=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n)
    X = rng.normal(size=(sizes.sum(), d))
    return Dataset.from_arrays(X, rng.integers(0, 2, len(X)), np.repeat(np.arange(n), sizes))


def blocks_of(data, size):
    for first in range(0, data.n_queries, size):
        yield data.take_queries(np.arange(first, min(first + size, data.n_queries)))


def learner(batch=1):
    return OnePassLearner(
        Rda(0.5, 0.5, 1e-3, 1e-3), parse_objective("pairwise"), 3, batch_lists=batch, seed=SEED
    )


def new_run(batch=1, metric="recall@1", **options):
    return OnePassRun(learner(batch), ProgressiveMetric(metric), **options)


class Keeps:
    """A checkpointer that only counts."""

    def __init__(self, every):
        self.every, self.steps = every, []
        self.folder = SimpleNamespace(latest_path=lambda: None)

    def next_due(self, step):
        return (step // self.every + 1) * self.every

    def save(self, solver, step, _arrays, facts):
        assert (solver, facts["rows_seen"] > 0) == ("one_pass", True)
        self.steps.append(step)

    def restore(self, _solver):
        return None


def expected_reports(n, batch, n_passes, every):
    """At the first end of a batch from the next multiple of ``every(here)`` on, and of a pass."""
    found, here = [], 0
    for number in range(n_passes):
        start, end = number * n, (number + 1) * n
        while here < end:
            wanted = (here // every(here) + 1) * every(here)
            here = min(end, start + -(-(wanted - start) // batch) * batch)
            found.append(here)
    return found


@pytest.mark.parametrize(
    ("n", "batch", "n_passes"), [(45, 1, 2), (45, 4, 3), (7, 3, 1), (90, 1, 1)]
)
def test_datasets_are_reported_twenty_times_per_pass_in_a_new_order(n, batch, n_passes):
    data, told = lists(n), []
    run = new_run(batch, callbacks=[told.append])
    weight = np.linspace(0.5, 1.5, n)
    assert run.learn_dataset(data, weight, n_passes) == "passes"
    share = {45: 2, 7: 1, 90: 4}[n]
    every = -(-share // batch) * batch
    assert [one.step for one in told] == expected_reports(n, batch, n_passes, lambda _: every)
    assert [one["lists"] for one in run.trace] == [one.step for one in told]
    stages = list(dict.fromkeys(one.stage for one in told))
    names = [f"pass {number} of {n_passes}" for number in range(1, n_passes + 1)]
    assert stages == (["learning"] if n_passes == 1 else names)
    alone = learner(batch)
    for number in range(n_passes):
        stream = (LIST_ORDER, number) if number else (LIST_ORDER,)
        order = permutation(stream_seed(SEED, *stream), n)
        alone.learn(data, order, alone.lists(data, weight))
    np.testing.assert_array_equal(run.coef(), alone.coef())
    assert run.trace[-1]["rows"] == run.rows_seen == n_passes * data.n_rows
    assert run.trace[-1]["progressive_loss"] == alone.mean_loss
    assert told[-1].values["progressive_recall@1"] == run.progressive.value
    np.testing.assert_array_equal(told[-1].coef(), alone.coef())


@pytest.mark.parametrize("size", [230, 37])
@pytest.mark.parametrize("batch", [1, 4])
def test_streams_are_reported_by_tens(size, batch):
    data, told = lists(230), []
    run = new_run(batch, callbacks=[told.append], checkpointer=Keeps(60))
    assert run.learn_stream(lambda: blocks_of(data, size), lambda *_: None, 1) == "passes"

    def every(here):
        return 1 if here < 10 else 5 if here < 100 else 50

    expected = expected_reports(230, batch, 1, every)
    assert [one.step for one in told] == expected
    assert batch > 1 or expected == [*range(1, 11), *range(15, 101, 5), 150, 200, 230]
    assert run.checkpointer.steps == [60, 120, 180, 230]
    assert {one.stage for one in told} == {"learning"}
    alone = learner(batch)
    alone.learn(data)
    np.testing.assert_array_equal(run.coef(), alone.coef())


@pytest.mark.parametrize("batch", [1, 4])
def test_a_shuffled_stream_is_shuffled_buffer_by_buffer(batch):
    data = lists(50)
    run = new_run(batch, shuffle_buffer=10)
    run.learn_stream(lambda: blocks_of(data, 7), lambda *_: None, 2)
    alone, size = learner(batch), -(-10 // batch) * batch
    for number in range(2):
        for first in range(0, 50, size):
            own = np.arange(first, min(first + size, 50))
            seed = stream_seed(SEED, STREAMED_ORDER, number * 50 + first)
            alone.learn(data.take_queries(own), permutation(seed, len(own)))
    np.testing.assert_array_equal(run.coef(), alone.coef())


def test_stream_weights_are_requested_by_the_first_list_number():
    data, asked = lists(30), []

    def weigh(block, first):
        asked.append((first, block.n_queries))
        return np.linspace(0.5, 2.0, 30)[first : first + block.n_queries]

    run = new_run()
    run.learn_stream(lambda: blocks_of(data, 12), weigh, 2)
    assert asked == [(0, 12), (12, 12), (24, 6)] * 2
    alone = learner()
    for _ in range(2):
        alone.learn(data, lists=alone.lists(data, np.linspace(0.5, 2.0, 30)))
    np.testing.assert_array_equal(run.coef(), alone.coef())


@pytest.mark.parametrize(
    ("batch", "buffer", "sizes"),
    [
        (1, 0, [700] * 12 + [600]),
        (3, 0, [4095, 4095, 810]),
        (5000, 0, [5000, 4000]),
        (1, 2000, [2000] * 4 + [1000]),
        (400, 2500, [2800, 2800, 2800, 600]),
    ],
)
def test_blocks_hold_whole_batches(batch, buffer, sizes):
    data = Dataset.from_arrays(np.zeros((9000, 3)), np.zeros(9000), np.arange(9000))
    run = new_run(batch, shuffle_buffer=buffer)
    assert [block.n_queries for block in run._regrouped(blocks_of(data, 700))] == sizes


@pytest.mark.parametrize(("at", "where"), [(10, "block"), (25, "end")])
def test_a_callback_ends_a_run_which_is_saved(at, where):
    data = lists(25)
    run = new_run(callbacks=[lambda one: one.step == at], checkpointer=Keeps(100))
    ends = run.learn_stream(lambda: blocks_of(data, 25), lambda *_: None, 2)
    assert (ends, run.learner.lists_seen, run.checkpointer.steps) == ("callback", at, [at]), where


def test_a_pass_over_few_lists_is_reported_at_its_end():
    """Twice 12 lists: by tens the next report after 10 would be 15."""
    data, told = lists(12), []
    run = new_run(callbacks=[told.append])
    run.learn_stream(lambda: [data], lambda *_: None, 2)
    assert [one.step for one in told] == [*range(1, 11), 12, 15, 20, 24]
    stopped = new_run(callbacks=[lambda one: one.step == 12], checkpointer=Keeps(50))
    assert stopped.learn_stream(lambda: [data], lambda *_: None, 2) == "callback"
    assert stopped.checkpointer.steps == [12]


def test_infinite_weights_are_not_saved():
    run = new_run(checkpointer=Keeps(5))
    run.learn_block(lists(3), np.arange(3))
    run.learner.state[0, 0] = np.inf
    with pytest.raises(DivergenceError, match=f"after {run.learner.steps} steps"):
        run._save()
    run.checkpointer = None
    run._save()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinite_scores_end_the_run():
    run = new_run()
    run.learner.state[:, 0] = 1e300
    data = Dataset.from_arrays(1e300 * np.eye(3), [0, 1, 0])
    with pytest.raises(DivergenceError, match="after 0 steps"):
        run.learn_block(data, np.arange(1))


def test_reports_limit_the_number_of_weights():
    run = new_run(max_nonzero=1)
    run.learn_block(lists(20), np.arange(20))
    assert np.count_nonzero(run.coef()) == 1 < np.count_nonzero(run.learner.coef())


@pytest.mark.parametrize("metric", ["recall@1", "ndcg@3:ties=worst", "map"])
@pytest.mark.parametrize("cut", ["whole", "pieces", "permuted"])
def test_progressive_mean_equals_the_mean_over_lists_in_order(metric, cut):
    data = lists(64, seed=3)
    scores = np.round(np.random.default_rng(1).normal(size=data.n_rows))
    order = np.arange(64)
    if cut == "permuted":
        order = np.random.default_rng(2).permutation(64)
    judged = ProgressiveMetric(metric)
    assert np.isnan(judged.value)
    assert judged.to_records() == []
    if cut == "whole":
        judged.add(data, scores, None)
    else:
        for first, last in ((0, 1), (1, 20), (20, 64)):
            judged.add(data, scores, order[first:last])
    named = parse_metric(metric)
    if named.ties == "file":
        named = named.with_options(ties="expected")
    values = evaluate(named, data.y, scores, data.queries, per_query=True)[order]
    values = values[~np.isnan(values)]
    means = np.cumsum(values) / np.arange(1, len(values) + 1)
    assert judged.value == pytest.approx(means[-1], rel=1e-12)
    assert judged.sums.tolist() == [pytest.approx(values.sum()), len(values)]
    at = [n for n in (10, 15, 20, 30, 50, 70, 100) if n <= len(values)]
    assert [told[0] for told in judged.milestones] == at
    assert [told[1] for told in judged.milestones] == pytest.approx(means[np.array(at) - 1])
    name = f"progressive_{parse_metric(metric)}"
    assert judged.name == name
    story = {**dict(judged.milestones), len(values): judged.value}
    assert judged.to_records() == [{"lists": n, name: mean} for n, mean in story.items()]


def test_many_lists_have_milestones_at_round_numbers():
    n = 1100
    data = Dataset.from_arrays(np.zeros((2 * n, 1)), np.tile([0, 1], n), np.repeat(range(n), 2))
    judged = ProgressiveMetric("recall@1")
    judged.add(data, np.zeros(2 * n), np.arange(10))
    assert judged.milestones == [(10, 0.5)]
    judged.add(data, np.zeros(2 * n), np.arange(10, n))
    tens = [10, 15, 20, 30, 50, 70]
    assert judged.milestones == [(k, 0.5) for k in (*tens, *(10 * t for t in tens), 1000)]


def test_labels_outside_the_metrics_domain_are_not_evaluated():
    data = Dataset.from_arrays(np.zeros((4, 1)), [0, -1, 2, 1], [0, 0, 1, 1])
    judged = ProgressiveMetric("ndcg")
    judged.add(data, np.zeros(4), None)
    assert "label" in judged.label_error
    assert np.isnan(judged.value)
    assert judged.to_records() == []
    judged.sums[:] = 3.0, 4.0
    assert np.isnan(judged.value)
    assert judged.to_records() == []


def test_ungrouped_rows_are_evaluated_by_list():
    data = lists(30, seed=4)
    mixed = data.take(np.random.default_rng(0).permutation(data.n_rows))
    assert mixed.queries.rows is not None
    scores = np.random.default_rng(1).normal(size=mixed.n_rows)
    judged = ProgressiveMetric("map")
    order = np.arange(30)[::-1]
    judged.add(mixed, scores, order)
    values = evaluate("map", mixed.y, scores, mixed.queries, per_query=True)
    assert judged.value == pytest.approx(np.nanmean(values))
