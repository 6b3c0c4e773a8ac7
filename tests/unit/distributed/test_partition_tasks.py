"""Training on partitions without a cluster: optimum of the whole, checkpoints, refusals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed_data import table
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import rankine
import rankine.distributed as rd
from error_checks import raises_for
from rankine import DominationRanker, ElasticRanker, LeastSquaresRanker, RankSVM, SPDRanker
from rankine.core.errors import (
    CheckpointError,
    DivergenceError,
    NoPairsError,
    ParameterError,
    QueryOrderError,
)
from rankine.distributed.partition_tasks import (
    ListPassTask,
    PairPassTask,
    PartitionColumnStatistics,
    RawRowsTask,
    _keep_largest,
    averaged_fraction,
    pair_examples,
)
from rankine.kernels.random import LIST_ORDER, PARTITION, permutation, stream_seed
from rankine.solvers.one_pass_run import OnePassRun, ProgressiveMetric
from rankine.transforms.scaling import Scaling

BATCH = [
    RankSVM(l2=2e-2, tol=1e-5),
    RankSVM(l2=2e-2, tol=1e-7, loss="squared_hinge", scale="standard"),
    RankSVM(l2=[2e-1, 2e-2], loss="squared_hinge", positive=True, normalization="pair", tol=1e-7),
    LeastSquaresRanker(2e-2, tol=1e-9, scale="maxabs"),
    LeastSquaresRanker([2e-1, 2e-2], tol=1e-9, pairs="untied"),
    LeastSquaresRanker(2e-2, solver="egdm", tol=1e-9, scale="query", random_state=0),
    DominationRanker(tol=1e-9, scale="none"),
    DominationRanker(l1=0.5, l2=1.0, margin=0.3, normalization="query", tol=1e-9, scale="none"),
    DominationRanker(l1=1.0, margin_table=np.tril(np.full((4, 4), 0.5), -1), tol=1e-8),
]


@pytest.fixture(scope="module")
def parts(files):
    return rd.scan(files, partition_bytes=20_000)


@pytest.fixture(scope="module")
def whole(files):
    return rankine.load(files)


@pytest.mark.parametrize("ranker", BATCH, ids=[str(k) for k in range(len(BATCH))])
def test_partitions_have_the_optimum_of_the_whole(ranker, parts, whole):
    split, together = clone(ranker).fit(parts), clone(ranker).fit(whole)
    assert split.solution_.stop_reason in ("converged", "precision")
    assert split.solution_.objective == pytest.approx(together.solution_.objective, rel=1e-6)
    np.testing.assert_allclose(
        split.coef_, together.coef_, atol=1e-3 if "SVM" in str(ranker) else 1e-5
    )
    times = dict.fromkeys(("seconds", "compile_seconds"), 0)
    facts, others = ({**one.training_, **times} for one in (split, together))
    assert facts.pop("partitions") == parts.n_partitions > 5
    others.pop("lists")  # ids that count from 0 say nothing, and partitions keep none
    for name in facts.keys() & {"l1", "l2", "C"}:
        assert facts.pop(name) == pytest.approx(others.pop(name), rel=1e-12)
    assert facts == {**others, "sources": list(parts.sources)}


@pytest.mark.parametrize(
    "ranker",
    [
        SPDRanker(n_steps=60_000, l2=1e-3, random_state=3),
        SPDRanker(n_steps=60_000, sampling="uniform", solver="hybrid", random_state=3),
        ElasticRanker(l1=1e-4, l2=1e-4, random_state=3, scale="standard"),
        ElasticRanker(solver="fobos", eta0=0.1, max_nonzero=3, random_state=3, batch_lists=2),
    ],
    ids=["spd", "spd-hybrid", "rda", "fobos"],
)
def test_averaged_passes_rank_like_one_pass_and_repeat(ranker, parts, whole):
    split, again = clone(ranker).fit(parts), clone(ranker).fit(parts)
    together = clone(ranker).fit(whole)
    np.testing.assert_array_equal(split.coef_, again.coef_)
    assert split.score(whole) > together.score(whole) - 0.02
    assert split.solution_.certificate["passes"] == 10
    assert not (clone(ranker).set_params(random_state=4).fit(parts).coef_ == split.coef_).all()


@pytest.mark.parametrize("n_passes", [1, 2, 3, 7, 10])
def test_the_second_half_of_the_passes_is_averaged(n_passes):
    parts = [averaged_fraction(number, n_passes) for number in range(n_passes)]
    assert sum(parts) == n_passes / 2
    starts = np.arange(n_passes)
    inside = np.clip(starts + 1 - n_passes / 2, 0, 1)
    assert parts == inside.tolist()


def test_the_model_records_that_it_was_trained_on_partitions(parts):
    model = LeastSquaresRanker().fit(parts).to_model()
    assert model.provenance["training"]["partitions"] == parts.n_partitions
    assert model.feature_names is not None


def test_early_stopping_and_evaluation_work_as_in_memory(parts, whole):
    seen = []
    ranker = RankSVM(l2=2e-2, tol=1e-9, early_stopping=2)
    ranker.fit(parts, eval_set=whole, callbacks=[lambda p: seen.append(p.values["gap"])])
    assert ranker.solution_.stop_reason == "early_stopping"
    assert len(ranker.evals_) == len(seen)
    best = max(entry["value"] for entry in ranker.evals_)
    assert ranker.score(whole) == pytest.approx(best)


def test_a_warm_start_and_a_start_are_used(parts):
    first = RankSVM(l2=2e-2, loss="squared_hinge", tol=1e-8).fit(parts)
    again = RankSVM(l2=2e-2, loss="squared_hinge", tol=1e-8).fit(parts, coef_init=first.coef_)
    assert again.n_iter_ == 0 < first.n_iter_


RESUMED = {"hinge": BATCH[0], "newton": BATCH[1], "egdm": BATCH[5], "domination": BATCH[6]}


@pytest.mark.parametrize(
    "ranker", [*RESUMED.values(), SPDRanker(n_steps=9_000)], ids=[*RESUMED, "spd"]
)
def test_an_interrupted_run_resumes_to_the_same_bits(ranker, files, tmp_path):
    """Stopped anywhere, even within a line search; an unseeded run keeps the seed it drew."""

    class LostError(Exception):
        pass

    ranker = clone(ranker)
    folder = tmp_path / "kept"
    data = rd.scan(files, partition_bytes=20_000)
    asked = count_rounds(data, stop_at=6, error=LostError)
    with pytest.raises(LostError):
        clone(ranker).fit(data, checkpoint=folder)
    assert asked() == 6
    resumed = rd.scan(files, partition_bytes=20_000)
    asked = count_rounds(resumed)
    first = clone(ranker).fit(resumed, checkpoint=folder, resume=True)
    new_rounds = asked()
    # Everything is recorded now: the same model without asking anyone.
    replayed = rd.scan(files, partition_bytes=20_000)
    asked = count_rounds(replayed)
    second = clone(ranker).fit(replayed, checkpoint=folder, resume=True)
    assert new_rounds > 0 == asked()
    np.testing.assert_array_equal(first.coef_, second.coef_)
    if ranker.random_state is not None or "SPD" not in str(ranker):
        whole_run = clone(ranker).fit(rd.scan(files, partition_bytes=20_000))
        np.testing.assert_array_equal(first.coef_, whole_run.coef_)


def count_rounds(data, stop_at=None, error=None):
    """Count sums asked of the partitions; fail at one of them."""
    runner, count = data.runner, [0]
    total = runner.total

    def counted(*arguments):
        if count[0] == stop_at:
            raise error
        count[0] += 1
        return total(*arguments)

    runner.total = counted
    return lambda: count[0]


def test_a_checkpoint_of_another_run_is_refused(files, tmp_path):
    def fit(ranker, partition_bytes=64 * 2**20, **options):
        data = rd.scan(files, partition_bytes=partition_bytes)
        ranker.fit(data, checkpoint=tmp_path / "c", **options)

    with pytest.raises(CheckpointError):
        fit(LeastSquaresRanker(), resume=True)
    fit(LeastSquaresRanker())
    with pytest.raises(CheckpointError):
        fit(LeastSquaresRanker())
    with pytest.raises(CheckpointError):
        fit(LeastSquaresRanker(l2=1.0), resume=True)
    with pytest.raises(CheckpointError):
        fit(LeastSquaresRanker(), resume=True, partition_bytes=5_000)
    with pytest.raises(CheckpointError):
        fit(LeastSquaresRanker(), resume=True, coef_init=np.ones(6))


@pytest.mark.parametrize(
    ("ranker", "parameter"),
    [
        (LeastSquaresRanker(solver="sgd"), "solver"),
        (LeastSquaresRanker(solver="egdm", curvature="online"), "curvature"),
        (DominationRanker(max_nonzero=2), "max_nonzero"),
        (DominationRanker(solver="cd_plain"), "solver"),
        (DominationRanker(margin=lambda y: y), "margin"),
        (DominationRanker(margin_table=np.zeros((3, 3))), "margin_table"),
        (SPDRanker(record_at=[5]), "record_at"),
        (SPDRanker(sampling="reservoir"), "sampling"),
        (RankSVM(scale="strange"), "scale"),
    ],
    ids=["sgd", "online", "nonzero", "plain", "function", "table", "record", "sample", "scale"],
)
def test_rankers_that_need_rows_in_memory_are_refused(ranker, parameter, parts):
    with raises_for(parameter):
        ranker.fit(parts)


@pytest.mark.parametrize("name", ["y", "qid", "sample_weight"])
def test_separate_labels_are_refused_with_partitions(name, parts):
    with pytest.raises(ParameterError, match=f"{name}: streams and partitions include"):
        RankSVM().fit(parts, **{name: [1.0]})


def test_data_without_pairs_is_refused(tmp_path):
    data = rankine.Dataset.from_arrays(np.eye(4), np.ones(4), [1, 1, 2, 2])
    data.save(tmp_path / "a.parquet")
    with pytest.raises(NoPairsError):
        RankSVM().fit(rd.scan(tmp_path / "a.parquet"))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_pointwise_losses_need_no_pairs(tmp_path, loss):
    """Lists of one label each: memory, streams and partitions find the same direction."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), np.repeat(rng.integers(0, 2, 100), 4)
    X[:, 0] += y
    rankine.Dataset.from_arrays(X, y, np.repeat(np.arange(100), 4)).save(tmp_path / "a.parquet")
    for read in (rankine.load, rankine.scan, rd.scan):
        ranker = ElasticRanker(objective="pointwise", loss=loss, random_state=0)
        weights = ranker.fit(read(tmp_path / "a.parquet")).coef_
        assert weights[0] > 4 * abs(weights[1])


@pytest.mark.parametrize(
    "ranker", [SPDRanker(), RankSVM(), LeastSquaresRanker(), DominationRanker(l1=0.1)]
)
def test_pairs_of_weight_0_do_not_count(ranker, tmp_path):
    y, qid, weight = [1.0, 0.0, 3.0, 3.0], [1, 1, 2, 2], [1.0, 0.0, 2.0, 2.0]
    data = rankine.Dataset.from_arrays(np.eye(4), y, qid, weight=weight)
    data.save(tmp_path / "a.parquet")
    for source in (data, rd.scan(tmp_path / "a.parquet")):
        with pytest.raises(NoPairsError):
            clone(ranker).fit(source)


@pytest.mark.parametrize("shift", [-2.0, 1.0])
def test_one_class_is_no_pointwise_problem(shift, tmp_path):
    data = rankine.Dataset.from_arrays(np.eye(4), np.array([1, 0, 1, 0]) + shift, [1, 1, 2, 2])
    data.save(tmp_path / "a.parquet")
    parts = rd.scan(tmp_path / "a.parquet")
    with pytest.raises(NoPairsError):
        ElasticRanker(objective="pointwise").fit(parts)
    regression = ElasticRanker(objective="pointwise", loss="squared", random_state=0)
    assert regression.fit(parts).coef_.any()
    told = [set(record) for record in regression.solution_.trace]
    if shift < 0:  # no gains of negative labels
        assert np.isnan(regression.progressive_)
        assert told == [{"pass", "progressive_loss"}] * 10
    else:
        assert 0.0 < regression.progressive_ <= 1.0
        assert all(len(names) == 3 for names in told)


@pytest.mark.parametrize("ranker", BATCH, ids=[str(k) for k in range(len(BATCH))])
def test_a_partition_without_pairs_changes_nothing(ranker, tmp_path):
    """Found by the agreement suite: an IndexError in a squared hinge."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    qid, y = np.repeat(np.arange(10), 3), rng.integers(0, 3, 30).astype(float)
    y[:12] = 1.0
    whole = rankine.Dataset.from_arrays(X, y, qid)
    for k, rows in enumerate((slice(0, 12), slice(12, 30))):
        whole.take(rows).save(tmp_path / f"{k}.parquet")
    split = clone(ranker).fit(rd.scan(str(tmp_path / "*.parquet")))
    together = clone(ranker).fit(whole)
    assert split.solution_.objective == pytest.approx(together.solution_.objective, rel=1e-5)


@pytest.mark.parametrize(("stop", "reason"), [(1, "callback"), (2, "callback"), (3, "passes")])
def test_a_callback_ends_the_passes(parts, stop, reason):
    """Not the last one, which ends by itself; 150 lists, four a step."""
    lists = ElasticRanker(n_passes=3, batch_lists=4, random_state=0)
    pairs = SPDRanker(n_passes=3, n_steps=900, random_state=0)
    for ranker, steps in ((lists, 38), (pairs, 300)):
        seen = []
        ranker.fit(
            parts, callbacks=[lambda told, seen=seen: seen.append(told) or len(seen) >= stop]
        )
        assert [(told.step, told.total) for told in seen] == [(k + 1, 3) for k in range(stop)]
        assert ranker.solution_.stop_reason == reason
        assert (ranker.solution_.certificate["passes"], ranker.n_iter_) == (stop, stop * steps)
        np.testing.assert_array_equal(seen[-1].coef(), ranker.solution_.coef)
    assert [record["pass"] for record in lists.solution_.trace] == [k + 1 for k in range(stop)]


def test_one_query_is_enough_for_pairs(tmp_path):
    rankine.Dataset.from_arrays(np.eye(4), [0, 1, 2, 3], [7] * 4).save(tmp_path / "a.parquet")
    ranker = SPDRanker(n_steps=200, scale="none", random_state=0)
    ranker.fit(rd.scan(tmp_path / "a.parquet"))
    assert (np.diff(ranker.coef_) > 0).all()


def test_every_partition_has_a_separate_random_stream(whole):
    pairs = PairPassTask(
        SPDRanker().plan(), 9, 2, "query", False, 100, 3, Scaling("none"), total=300.0
    )
    ranker = ElasticRanker()
    options = (ranker._update_options(0.1), ranker._objective(), 4, "ndcg@10", 3, 300)
    lists = ListPassTask("rda", *options, Scaling("none"))
    for task in (pairs, lists):
        found = [task.build(whole, 1, number).seed for number in range(3)]
        assert found == [stream_seed(3, PARTITION + number) for number in range(3)]


def test_passes_without_a_step_leave_the_weights(parts):
    start = np.arange(1.0, 7.0)
    ranker = SPDRanker(n_steps=1, n_passes=3, scale="none", random_state=0)
    ranker.fit(parts, coef_init=start)
    np.testing.assert_allclose(ranker.coef_, start, rtol=1e-12)
    assert (ranker.solution_.certificate["passes"], ranker.n_iter_) == (3.0, 1)


@pytest.mark.parametrize("solver", ["pegasos", "hybrid"])
@pytest.mark.parametrize("warm", [False, True])
def test_the_passes_of_one_partition_are_one_run(whole, solver, warm):
    plan = SPDRanker(solver=solver, l2=1e-2).plan()

    def learned(n_passes):
        task = PairPassTask(plan, 400, n_passes, "query", False, 100, 3, Scaling("none"))
        total = pair_examples(whole, "query", False)
        part = task._replace(total=total).build(whole, 1, 0)
        w, mean, counted = np.full(6, 0.1 * warm), np.zeros(6), 0.0
        for number in range(n_passes):
            w, average = part.learn(w, number, warm)
            share = averaged_fraction(number, n_passes)
            mean, counted = mean + share * average, counted + share
        return w, mean / counted

    (last, mean), (once, average) = learned(4), learned(1)
    np.testing.assert_allclose(last, once, rtol=1e-9)
    np.testing.assert_allclose(mean, average, rtol=1e-9)


def test_a_partitions_share_is_its_share_of_the_examples(whole):
    task = PairPassTask(
        SPDRanker().plan(), 1000, 2, "query", False, 100, 3, Scaling("none"), total=300.0
    )
    part = task.build(whole, 1, 0)
    usable = len(whole.labels.queries_with_pairs)
    assert pair_examples(whole, "query", False) == usable
    assert (part.share, part.steps) == (usable / 300.0, int(1000 * usable / 300.0))
    w, average = part.learn(np.zeros(6), 0, False)
    alone = task._replace(total=float(usable), n_steps=part.steps).build(whole, 1, 0)
    expected = alone.learn(np.zeros(6), 0, False)
    np.testing.assert_allclose(w, part.share * expected[0])
    np.testing.assert_allclose(average, part.share * expected[1])
    tokens = {
        changed.token
        for changed in (
            task,
            task._replace(total=1.0),
            task._replace(seed=4),
            task._replace(scaling=Scaling("none", np.ones(6))),
            task._replace(scaling=Scaling("none", positions=2)),
            task._replace(n_steps=5),
        )
    }
    assert len(tokens) == 6


@pytest.mark.parametrize("tied", [False, True])
def test_a_later_pass_over_lists_continues_where_the_last_one_stopped(whole, tied):
    """Equal rows have equal scores, whose order is drawn by the number of the list."""
    if tied:
        X = np.sign(whole.X) * (np.arange(6) < 2)
        whole = rankine.Dataset.from_arrays(X, whole.y, whole.qid)
    ranker = ElasticRanker(solver="fobos", eta0=0.1, adaptive=False, batch_lists=4)
    task = ListPassTask(
        "fobos", ranker._update_options(0.1), ranker._objective(), 4, "ndcg@10", 3, 300,
        Scaling("none"),
    )  # fmt: skip
    part = task.build(whole, 1, 0)
    share = whole.n_queries / 300
    first, sums, tally, unfit = part.learn(np.zeros(6), 0, False)
    second = part.learn(first / share, 1, False)[0] / share
    seed = int(stream_seed(3, PARTITION))
    learner = task.learner(6, seed, None)
    run = OnePassRun(learner, ProgressiveMetric("ndcg@10"))
    for number, found in ((0, first / share), (1, second)):
        order = permutation(stream_seed(seed, LIST_ORDER, number), whole.n_queries)
        run.learn_block(whole, order)
        np.testing.assert_allclose(found, learner.coef(), rtol=1e-9)
        if number == 0:
            np.testing.assert_allclose(sums, run.progressive.sums)
            np.testing.assert_allclose(tally, learner.tally)
            assert unfit == 0.0
    warm = part.learn(np.ones(6), 0, True)[0]
    cold = part.learn(np.ones(6), 0, False)[0]
    assert not np.allclose(warm, cold)
    np.testing.assert_allclose(cold, first)


def test_passes_over_lists_report_the_means_of_all_lists_so_far(files):
    parts, answers = rd.scan(files, partition_bytes=20_000), []
    total = parts.runner.total
    parts.runner.total = lambda *asked: answers.append(total(*asked)) or answers[-1]
    ranker = ElasticRanker(n_passes=3, random_state=0, scale="none").fit(parts)
    passes = answers[-3:]
    values = np.cumsum([answer[1] for answer in passes], axis=0)
    losses = np.cumsum([answer[2] for answer in passes], axis=0)
    name = next(iter(ranker.solution_.trace[0].keys() - {"pass", "progressive_loss"}))
    assert name.startswith("progressive_ndcg")
    assert list(ranker.solution_.trace) == [
        {"pass": k + 1, "progressive_loss": loss[0] / loss[1], name: value[0] / value[1]}
        for k, (value, loss) in enumerate(zip(values, losses, strict=True))
    ]
    assert 0.0 < losses[-1][0] / losses[-1][1] != 1.0
    assert ranker.progressive_ == ranker.solution_.certificate[name]
    assert ranker.solution_.certificate["passes"] == 3.0


def test_passes_that_diverge_raise_and_passes_above_zero_weights_warn(parts, tmp_path):
    settings = {"power": 0.0, "scale": "none", "random_state": 0, "n_passes": 1}
    linear = {"solver": "tgd", "objective": "pointwise", "loss": "squared", "l2": 0.0}
    with pytest.raises(DivergenceError):
        ElasticRanker(eta0=3.0, **linear, **settings).fit(parts)
    rows = table(120, 0)
    labels = np.random.default_rng(0).permutation(rows["label"].to_numpy())
    noise = rows.set_column(0, "label", pa.array(labels))
    pq.write_table(noise, tmp_path / "noise.parquet")
    with pytest.warns(ConvergenceWarning):
        ElasticRanker(solver="fobos", eta0=1.0, l1=0.0, **settings).fit(
            rd.scan(tmp_path / "noise.parquet")
        )


def test_filled_columns_are_measured_on_the_same_lists():
    spec = object()
    columns = PartitionColumnStatistics("pool", 5, (3, 0), None)
    assert columns.selection == (5, (3, 0), None)
    filled = columns.without_missing(spec)
    assert (filled.pool, filled.selection) == ("pool", (5, (3, 0), spec))


def test_the_largest_weights_are_kept():
    w = np.array([1.0, -3.0, 2.0, -2.0, 0.5])
    assert _keep_largest(w, 2).tolist() == [0.0, -3.0, 2.0, 0.0, 0.0]
    assert _keep_largest(w, 0).tolist() == [0.0] * 5
    assert _keep_largest(w, 9).tolist() == w.tolist()


def test_a_partition_may_have_another_number_in_another_scan(files):
    """What was kept for the third partition of three was given to the first of one."""
    parts = rd.scan(files)
    parts.measure()
    last = rd.scan(parts.sources[-1])
    found, alone = (RankSVM(l2=2e-2).fit(one) for one in (last, rankine.load(parts.sources[-1])))
    np.testing.assert_allclose(found.coef_, alone.coef_, atol=1e-3)


def test_the_label_range_of_a_partition(tmp_path):
    for name, y in (("a", [0.0, 2.0, 1.0]), ("b", [-1.0, 0.5, 1.0])):
        data = rankine.Dataset.from_arrays(np.eye(3), y, [ord(name)] * 3)
        data.save(tmp_path / f"{name}.parquet")
    parts = rd.scan(str(tmp_path / "*.parquet"))
    assert parts.worker_pool(RawRowsTask()).each("label_range") == [
        (0.0, 2.0, True),
        (-1.0, 1.0, False),
    ]
    assert parts.each(lambda data, k: data.n_rows + k, 4) == [7, 7]
    table = np.tril(np.full((3, 3), 0.5), -1)
    for name, size, good in (("a", 3, True), ("a", 2, False), ("b", 3, False)):
        one = rd.scan(tmp_path / f"{name}.parquet")
        ranker = DominationRanker(l1=0.1, margin_table=table[:size, :size], scale="none")
        if good:
            ranker.fit(one)
        else:
            with pytest.raises(ParameterError, match=f"integers 0 to {size - 1}"):
                ranker.fit(one)


# ------------------------------------------------------------------ the first pass
def test_counts_and_the_first_lists_of_every_partition(files, monkeypatch):
    monkeypatch.setattr("rankine.distributed.partition_tasks.SAMPLE_LISTS", 70)
    parts = rd.scan(files)
    whole, found = rankine.load(files), parts.measure()
    assert (found.rows, found.queries) == (whole.n_rows, 150)
    assert (found.queries_used, found.pairs) == (
        len(whole.labels.queries_with_pairs),
        whole.labels.n_pairs,
    )
    assert found.sample == (50, 20, 0)


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("others", [1, 2])
def test_queries_in_two_partitions_are_counted(tmp_path, text_ids, others):
    for k, first in enumerate((0, 9, 5 + others)):
        rows = table(5, k, first_query=first, text_ids=text_ids)
        pq.write_table(rows, tmp_path / f"{k}.parquet")
    with pytest.raises(QueryOrderError) as caught:
        rd.scan(f"{tmp_path}/*.parquet").measure()
    named = "'q00009'" if text_ids else "9"
    assert caught.value.reason == (
        f"query {named} has rows in {tmp_path}/1.parquet and in {tmp_path}/2.parquet "
        f"({others} more are split like it)"
    )
    (tmp_path / "1.parquet").unlink()
    assert rd.scan(f"{tmp_path}/*.parquet").measure().queries == 10
    pq.write_table(table(1, 8, first_query=4, text_ids=text_ids), tmp_path / "3.parquet")
    with pytest.raises(
        QueryOrderError, match=r"query .*4'? has rows .*and in .*3.parquet "
    ) as caught:
        rd.scan(f"{tmp_path}/*.parquet").measure()
    assert "more are split" not in str(caught.value)


def test_a_query_split_over_files_is_named_with_its_files(tmp_path):
    for k in range(2):
        pq.write_table(table(5, k, first_query=4 * k), tmp_path / f"{k}.parquet")
    parts = rd.scan(f"{tmp_path}/*.parquet")
    with pytest.raises(QueryOrderError, match=r"query 4 has rows in .*0\.parquet and in .*1\.parq"):
        parts.measure()


def test_a_query_that_reappears_later_in_a_file_is_named(tmp_path):
    rows = pa.concat_tables([table(9, 0, text_ids=True), table(1, 1, text_ids=True)])
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=8)
    with pytest.raises(QueryOrderError, match=r"query 'q00000' .* partition 0 .* partition "):
        rd.scan(tmp_path / "a.parquet", partition_bytes=2_000).measure()


def test_overlapping_ids_that_are_all_different_are_accepted(tmp_path):
    for k in range(2):
        rows = table(6, k)
        qid = np.asarray(rows["qid"]) * 2 + k
        pq.write_table(rows.set_column(1, "qid", pa.array(qid)), tmp_path / f"{k}.parquet")
    assert rd.scan(f"{tmp_path}/*.parquet").measure().queries == 12
