"""Many topics over one matrix."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from rankine import DominationRanker, ModelBundle, domination_path, fit_topics
from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.data.dataset import Dataset

pytestmark = pytest.mark.usefixtures("raw_units")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 15)) * (rng.random((200, 15)) < 0.5)
    Y = (X[:, :4] + 0.3 * rng.normal(size=(200, 4)) > 1).astype(float)
    return X, Y


def test_every_topic_equals_its_own_fit(data):
    X, Y = data
    bundle = fit_topics(X, Y, topics=list("abcd"), n_threads=2)
    for t, name in enumerate("abcd"):
        alone = DominationRanker().fit(X, Y[:, t])
        np.testing.assert_array_equal(bundle[name].to_dense(), alone.coef_)
    assert bundle.provenance["topics"]["a"]["relative_gap"] <= 1e-4


def test_threads_and_storage_change_nothing(data, tmp_path):
    X, Y = data
    bundles = [
        fit_topics(sparse.csr_array(X), Y, n_threads=1),
        fit_topics(sparse.csr_array(X), Y, n_threads=3),
        fit_topics(sparse.csc_array(X), Y, n_threads=2),
    ]
    assert len({bundle.digest for bundle in bundles}) == 1
    bundles[0].save(tmp_path / "topics.rankine")
    assert ModelBundle.load(tmp_path / "topics.rankine").digest == bundles[0].digest


def test_rows_with_missing_labels_are_ignored(data):
    X, Y = data
    known = np.random.default_rng(2).random(Y.shape) < 0.7
    rows = np.flatnonzero(known[:, 1])
    alone = DominationRanker(tol=1e-9).fit(X[rows], Y[rows, 1]).coef_
    dense = fit_topics(X, np.where(known, Y, np.nan), tol=1e-9)["1"].to_dense()
    stored = sparse.coo_array((Y[known], np.nonzero(known)), shape=Y.shape)
    listed = fit_topics(X, stored, tol=1e-9)["1"].to_dense()
    np.testing.assert_allclose(dense, alone, atol=1e-6)
    np.testing.assert_array_equal(listed, dense)


def test_absent_missing_applies_to_held_out_labels(data):
    X, Y = data
    known = np.random.default_rng(2).random(Y.shape) < 0.7
    labels = np.where(known, Y, np.nan)
    held = np.nonzero(known[120:])
    stored = sparse.coo_array((Y[120:][held], held), shape=Y[120:].shape)
    options = {"absent": "missing", "n_steps": 5, "metric": "map"}
    chosen = [
        fit_topics(X[:120], labels[:120], eval_set=(X[120:], one), **options)
        for one in (stored, labels[120:])
    ]
    for name in "01":
        np.testing.assert_array_equal(*(bundle[name].to_dense() for bundle in chosen))


def test_entries_absent_from_an_indicator_matrix_are_label_zero(data):
    X, Y = data
    indicator = sparse.csr_array(Y)
    assert fit_topics(X, indicator).digest == fit_topics(X, Y).digest
    assert fit_topics(X, indicator, absent="zero").digest == fit_topics(X, Y).digest
    with pytest.raises(NoPairsError, match="topic 0"):
        fit_topics(X, indicator, absent="missing")
    mixed = indicator.tolil()
    mixed[0, 0] = 2.0
    with pytest.raises(ParameterError) as caught:
        fit_topics(X, mixed.tocsr())
    assert caught.value.parameter == "absent"


def test_empty_topics_are_named(data):
    X, Y = data
    holed = Y.copy()
    holed[:, 2] = 0.0
    with pytest.raises(NoPairsError, match="topic 2"):
        fit_topics(X, holed)
    bundle = fit_topics(X, holed, skip_empty=True)
    assert bundle.provenance["skipped"] == ["2"]
    assert bundle["2"].nnz == 0
    assert set(bundle.provenance["topics"]) == {"0", "1", "3"}
    assert bundle.provenance["rows"] == 200


def test_l1_per_topic_or_by_held_out_rows(data):
    X, Y = data
    several = fit_topics(X, Y, l1=[1.0, 2.0, 3.0, 4.0])
    found = [several.provenance["topics"][str(t)]["l1"] for t in range(4)]
    assert found == [1.0, 2.0, 3.0, 4.0]
    kept = fit_topics(X, Y, l1=0.0, l2=1.0, eval_set=(X, Y), n_steps=3)
    assert {record["l1"] for record in kept.provenance["topics"].values()} == {0.0}
    one = fit_topics(X, Y[:, 0])
    np.testing.assert_array_equal(one["0"].to_dense(), fit_topics(X, Y)["0"].to_dense())
    chosen = fit_topics(X[:120], Y[:120], eval_set=(X[120:], Y[120:]), n_steps=5, metric="map")
    strengths = {record["l1"] for record in chosen.provenance["topics"].values()}
    assert len(strengths) == 4


def test_progress_and_stopping(data, capsys):
    X, Y = data
    seen = []
    fit_topics(X, Y, n_threads=1, callbacks=[lambda p: seen.append(p.step)], progress=True)
    assert seen == [1, 2, 3, 4]
    short = fit_topics(X, Y, n_threads=1, callbacks=[lambda p: p.step == 2])
    assert sorted(short) == ["0", "1"]


def test_bad_input_is_refused(data):
    X, Y = data
    for labels in (Y[:-1], np.where(Y == 1, np.inf, Y), Y[:, :, None]):
        with pytest.raises(SchemaError) as caught:
            fit_topics(X, labels)
        assert caught.value.parameter == "Y"
    for parameter, value in (
        ("absent", "nothing"),
        ("l1", -1.0),
        ("eval_set", (X[:, :3], Y)),
        ("eval_set", (X, Y[:, :3])),
        ("feature_names", ["a", "b"]),
        ("topics", ["a", "a", "b", "c"]),
        ("topics", ["a", "b", "c"]),
    ):
        with pytest.raises((ParameterError, SchemaError)) as caught:
            fit_topics(X, Y, **{parameter: value})
        assert caught.value.parameter == parameter
    for wrong in ([1.0, 2.0], np.nan, np.inf, [1.0, 1.0, 1.0, -1.0], [[1.0] * 4]):
        with pytest.raises(ParameterError) as caught:
            fit_topics(X, Y, l1=wrong)
        assert caught.value.parameter == "l1"
    with pytest.raises(NoPairsError):
        fit_topics(X, np.zeros((200, 0)))


def test_scale_and_max_nonzero_are_applied(data):
    X, Y = data
    stretched = X * np.geomspace(1, 100, X.shape[1])
    options = {"scale": "maxabs", "max_nonzero": 3, "tol": 1e-3}
    for matrix in (stretched, sparse.csc_array(stretched)):
        bundle = fit_topics(matrix, Y[:, :2], **options)
        for t in range(2):
            alone = DominationRanker(**options).fit(stretched, Y[:, t])
            assert 0 < bundle[str(t)].nnz <= 3
            np.testing.assert_allclose(bundle[str(t)].to_dense(), alone.coef_, rtol=1e-9)


def test_the_empty_model_is_returned_if_no_other_is_within_max_nonzero(data):
    X, Y = data
    twins = np.repeat(X[:, :1], 2, axis=1)
    both = np.hstack([twins, -twins])
    bundle = fit_topics(both, Y[:, :1], max_nonzero=1)
    assert bundle["0"].nnz <= 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("early_stopping", 3), ("warm_start", True), ("propensity", [1.0]), ("position_offset", 2)],
)
def test_parameters_without_effect_are_refused(data, name, value):
    with pytest.raises(ParameterError) as caught:
        fit_topics(*data, **{name: value})
    assert caught.value.parameter == name


def test_topics_that_stop_early_give_one_warning(data):
    with pytest.warns(ConvergenceWarning, match="4 of 4 runs, topic ") as caught:
        fit_topics(*data, max_iter=1, tol=1e-9)
    assert len(caught) == 1


def test_held_out_rows_keep_their_queries(data):
    X, Y = data
    qid, held = np.arange(120) % 6, np.arange(80) % 4
    with pytest.raises(SchemaError) as caught:
        fit_topics(X[:120], Y[:120], qid=qid, eval_set=(X[120:], Y[120:]))
    assert caught.value.parameter == "eval_qid"
    options = {"n_steps": 5, "metric": "map", "tol": 1e-3}
    bundle = fit_topics(
        X[:120], Y[:120, :1], qid=qid, eval_set=(X[120:], Y[120:, :1]), eval_qid=held, **options
    )
    path = domination_path(
        X[:120], Y[:120, 0], qid, eval_set=(X[120:], Y[120:, 0]), eval_qid=held, **options
    )
    chosen = bundle.provenance["topics"]["0"]["l1"]
    assert chosen == path.l1[np.argmax(path.values)]


def test_held_out_rows_choose_by_errors_too_and_only_candidates_count(data):
    X, Y = data
    labels = Y[:, :1].copy()
    labels[120:][::3] = np.nan
    options = {"n_steps": 5, "metric": "pairwise_error", "tol": 1e-3}
    bundle = fit_topics(X[:120], Y[:120, :1], eval_set=(X[120:], labels[120:]), **options)
    known = ~np.isnan(labels[120:, 0])
    path = domination_path(
        X[:120], Y[:120, 0], eval_set=(X[120:][known], Y[120:, 0][known]), **options
    )
    assert bundle.provenance["topics"]["0"]["l1"] == path.l1[np.argmin(path.values)]
    held = Dataset.from_arrays(X[120:], np.zeros(80), np.arange(80) % 4)
    by_list = fit_topics(X[:120], Y[:120, :1], eval_set=(held, Y[120:, :1]), **options)
    same = fit_topics(
        X[:120], Y[:120, :1], eval_set=(X[120:], Y[120:, :1]), eval_qid=held.qid, **options
    )
    assert by_list.digest == same.digest


def test_a_dataset_equals_its_arrays_passed_one_by_one(data):
    X, Y = data
    qid, weight = np.arange(200) % 5, np.linspace(0.5, 2.0, 200)
    names = [f"f{j}" for j in range(15)]
    held = Dataset.from_arrays(X, np.zeros(200), qid, weight=weight, feature_names=names)
    passed = fit_topics(X, Y, qid=qid, sample_weight=weight, feature_names=names)
    assert fit_topics(held, Y).digest == passed.digest
    assert passed.feature_names == tuple(names)
    other = fit_topics(held, Y, qid=np.zeros(200), sample_weight=np.ones(200))
    assert other.digest == fit_topics(X, Y, feature_names=names).digest


@pytest.mark.parametrize(("threads", "pool"), [(1, []), (2, [2]), (9, [4])])
def test_topics_use_at_most_n_threads(data, threads, pool, monkeypatch):
    made = []
    monkeypatch.setattr(
        "rankine.rankers.topics.ThreadPoolExecutor",
        lambda count, **names: made.append(count) or ThreadPoolExecutor(count, **names),
    )
    fit_topics(*data, n_threads=threads, tol=1e-2)
    assert made == pool
    fit_topics(data[0], data[1][:, :1], n_threads=threads, tol=1e-2)
    assert made == pool, "one topic needs no pool"


def test_an_error_in_one_topic_ends_all(data):
    X, Y = data
    holed = Y.copy()
    holed[:, 1] = 0.0
    for threads in (1, 2):
        with pytest.raises(NoPairsError, match="topic 1"):
            fit_topics(X, holed, n_threads=threads)


def test_queries_and_columns_of_a_dataset_are_used(data):
    X, Y = data
    qid = np.arange(200) % 5
    gaps = {"gap": Y[:, 0]}
    held = Dataset.from_arrays(X, Y[:, 0], qid, columns=gaps)
    bundle = fit_topics(held, Y[:, :1], margin="gap")
    alone = DominationRanker(margin="gap").fit(held)
    np.testing.assert_array_equal(bundle["0"].to_dense(), alone.coef_)
