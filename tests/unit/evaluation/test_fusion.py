"""Fusion of retrievers: joining, learning, and each engine's documented arithmetic."""

import numpy as np
import pandas as pd
import pytest

import rankine
from rankine import LinearModel, Scorer
from rankine.core.errors import DataError, ParameterError, SchemaError
from rankine.core.specs import FUSION_RULES, RunScores
from rankine.evaluation.compare import Pair
from rankine.evaluation.fusion import (
    MAX_CANDIDATES,
    _candidates,
    _choose,
    _drop_unreachable,
    _FusionEvaluator,
    _Learnt,
    _verdict,
    blend,
    fuse,
    join_frame,
    join_runs,
)
from rankine.evaluation.trec import Qrels, Run, evaluate_run
from rankine.kernels.random import SPLIT, permutation, resolve_seed, stream_seed
from rankine.kernels.run_scores import run_score_values
from rankine.logs.source import read_for
from rankine.metrics import evaluate, evaluate_on, parse_metric
from rankine.transforms.apply import score_dataset


def made(n_queries=40, n_runs=3, depth=12, seed=0):
    rng = np.random.default_rng(seed)
    grades = (rng.random((n_queries, 30)) < 0.2) * rng.integers(1, 4, (n_queries, 30))
    runs = {}
    for j in range(n_runs):
        scores = 2 + rng.normal(size=grades.shape) * (2 - 0.7 * j) + grades
        best = np.argsort(-scores, axis=1)[:, :depth]
        qid = np.repeat(np.arange(n_queries), depth).astype(str)
        found = np.take_along_axis(scores, best, 1).ravel()
        runs[f"r{j}"] = Run(qid, best.ravel().astype(str), found.round(1), f"r{j}")
    q, d = np.nonzero(grades)
    return runs, Qrels(q.astype(str), d.astype(str), grades[q, d].astype(float))


#: Joined rows are in the order of document ids, by which runs order equal scores.
BY_DOCID = "ndcg@10:ties=file"


def by_row(metric):
    """The metric with ties in the order of joined rows, unless it states another rule."""
    rule = parse_metric(metric)
    return rule if rule.states_ties or rule.ties == "half" else rule.with_options(ties="file")


@pytest.fixture
def fused():
    return fuse(*made(), random_state=1, n_resamples=500)


# -- what engines document ----------------------------------------------------------------------


def engine_column(engine, normalization, column, constant=60):
    """Scores of one run as the engine's documentation has them; None where it is absent."""
    if engine == "vespa":
        column = [0.0 if x is None else x for x in column]
    there = [x for x in column if x is not None]
    if normalization == "reciprocal_rank":
        order = sorted((i for i, x in enumerate(column) if x is not None), key=lambda i: -column[i])
        return [
            1 / (constant + 1 + order.index(i)) if i in order else 0.0 for i in range(len(column))
        ]
    if not there:
        return [0.0] * len(column)
    low, high = min(there), max(there)
    mean = sum(there) / len(there)

    def one(x):
        if normalization == "l2":
            return x / (sum(v * v for v in there) ** 0.5)
        if normalization == "z_score":
            if low == high:
                return 1.0
            deviation = (sum((v - mean) ** 2 for v in there) / (len(there) - 1)) ** 0.5
            return max((x - mean) / deviation, 0.0) or 0.001
        if engine == "solr":  # scale(): over the whole index, where the others score 0
            return (x - min(low, 0)) / (max(high, 0) - min(low, 0))
        if low == high:
            return {"elasticsearch": x, "opensearch": 1.0, "vespa": 0.5}[engine]
        found = (x - low) / (high - low)
        return found or (0.001 if engine == "opensearch" else 0.0)

    return [0.0 if x is None else one(x) for x in column]


def lists(seed=0, n=6):
    rng = np.random.default_rng(seed)
    for size in (1, 2, 5, 9)[:n]:
        scores = rng.integers(1, 30, (size, 3)) / 4
        hidden = rng.random((size, 3)) < 0.3
        yield [[None if h else float(s) for s, h in zip(*row, strict=True)]
               for row in zip(scores, hidden, strict=True)]  # fmt: skip
    yield [[2.0, None, 1.0], [2.0, None, 3.0]]


CASES = [(e, n) for e, rules in FUSION_RULES.items() for n in rules.normalizations]


@pytest.mark.parametrize(("engine", "normalization"), CASES)
def test_scores_are_normalised_as_the_engine_documents(engine, normalization):
    for rows in lists():
        values = np.array([[np.nan if x is None else x for x in row] for row in rows])
        found = run_score_values(RunScores(normalization, engine), values, np.array([0, len(rows)]))
        wanted = [engine_column(engine, normalization, c) for c in zip(*rows, strict=True)]
        np.testing.assert_allclose(found, np.transpose(wanted), rtol=1e-12)


# -- learning -----------------------------------------------------------------------------------


def test_a_fusion_is_a_model(fused, tmp_path):
    assert sum(fused.weights.values()) == pytest.approx(1)
    assert min(fused.weights.values()) >= 0
    fused.model.save(tmp_path / "f.rankine")
    model = LinearModel.load(tmp_path / "f.rankine")
    scorer = Scorer(model)
    scorer.self_test()
    data = fused.data
    scores = score_dataset(model, data)
    np.testing.assert_allclose(scorer.score(data.X, group=data.queries.sizes), scores)
    np.testing.assert_allclose(
        scorer.score(np.where(data.X.toarray() == 0, np.nan, data.X.toarray()),
                     group=data.queries.sizes), scores)  # fmt: skip
    run = Run(data.qid, data.docid, scores, "f")
    kept = data.columns["retrieved"] > 0
    run = Run(data.qid[kept], data.docid[kept], scores[kept], "f")
    _, qrels = made()
    value = evaluate_run(run, qrels, ["ndcg@10"]).means["ndcg@10"]
    assert value == pytest.approx(evaluate_on(data, metric=BY_DOCID, model=model), abs=1e-12)


def test_held_out_values_are_those_of_the_runs(fused):
    means = {system.name: system.mean for system in fused.systems}
    runs, qrels = made()
    alone = {
        f"{name} alone": evaluate_run(run, qrels, ["ndcg@10"]).means["ndcg@10"]
        for name, run in runs.items()
    }
    assert {name: means[name] for name in alone} == pytest.approx(alone)
    (best_run,) = {pair.a for pair in fused.pairs} & set(alone)
    assert best_run == max(alone, key=alone.get)
    assert best_run in fused.verdict
    fractions = run_score_values(
        RunScores("reciprocal_rank"),
        np.where(fused.data.X.toarray() == 0, np.nan, fused.data.X.toarray()),
        fused.data.queries.starts,
    )
    assert means["RRF(60)"] == pytest.approx(
        evaluate_on(fused.data, metric=BY_DOCID, scores=fractions.sum(axis=1))
    )
    assert {pair.b for pair in fused.pairs} == {"fusion"}
    assert fused.to_dict()["verdict"] == fused.verdict
    assert len(fused.tables()) == 3


@pytest.mark.parametrize("metric", ["ndcg@3", "pairwise-error", "ndcg@2:ties=expected"])
def test_every_figure_is_held_out(metric):
    """What is chosen for a fold is the best of the other folds, candidate by candidate."""
    found = fuse(*made(24), metric=metric, n_folds=4, random_state=3, n_resamples=100)
    data, rule = found.data, parse_metric(metric)
    sign = 1.0 if rule.larger_is_better else -1.0
    fold = np.empty(24, dtype=int)
    fold[permutation(stream_seed(resolve_seed(3), SPLIT), 24)] = np.arange(24) % 4
    W = np.array([[a, b, 10 - a - b] for a in range(11) for b in range(11 - a)]) / 10
    stored = np.where(data.X.toarray() == 0, np.nan, data.X.toarray())
    tables, scores = {}, {}

    def values(name, w):
        return evaluate_on(data, metric=by_row(metric), scores=scores[name] @ w, per_query=True)

    for name in ("min_max", "l2", "z_score", "reciprocal_rank"):
        scores[name] = run_score_values(RunScores(name), stored, data.queries.starts)
        tables[name] = np.array([values(name, w) for w in W])

    def held(table):
        out = np.empty(24)
        for k in range(4):
            best = np.argmax(sign * table[:, fold != k].mean(axis=1))
            out[fold == k] = table[best, fold == k]
        return out.mean()

    equal = np.full(3, 1 / 3)
    wanted = {
        "equal weights": values("min_max", equal).mean(),
        "grid of 0.1": held(np.vstack([tables["min_max"], tables["l2"]])),
        "RRF(60)": values("reciprocal_rank", equal).mean(),
        "weighted RRF": held(tables["reciprocal_rank"]),
    }
    means = {system.name: system.mean for system in found.systems}
    fused = means.pop("fusion")
    means = {name: mean for name, mean in means.items() if not name.endswith(" alone")}
    assert means == pytest.approx(wanted)
    searched = {}
    for name, table in tables.items():
        out = np.empty(24)
        for k in range(4):
            w = blend(sign * table[:, fold != k], W)
            out[fold == k] = values(name, w)[fold == k]
        searched[name] = out.mean()
        assert found.choices[name, "search"] == pytest.approx(searched[name])
    (svm,) = [name for name, way in found.choices if way == "ranksvm"]
    assert svm == max(searched, key=lambda name: sign * searched[name])
    assert (found.normalization, found.learner) == max(
        found.choices, key=lambda key: sign * found.choices[key]
    )
    assert abs(fused - means["equal weights"]) == pytest.approx(
        abs(next(p.difference for p in found.pairs if p.a == "equal weights"))
    )
    assert found.model.parameters["rrf_weights"] == pytest.approx(
        blend(sign * tables["reciprocal_rank"], W).tolist()
    )
    if found.learner == "search":
        final = blend(sign * tables[found.normalization], W)
        assert list(found.weights.values()) == pytest.approx(final.tolist())


def test_blend_equals_values_computed_by_hand():
    values = np.array([[0.5, 0.7, 0.9], [0.4, 0.8, 0.6], [0.5, 0.7, 0.9]])
    W = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    short = values[0] - values[1]
    ratio = short.mean() / (short.std() / np.sqrt(3))
    share = np.array([1.0, np.exp(-(ratio**2) / 2), 1.0])
    assert blend(values, W) == pytest.approx(share @ W / share.sum())


def test_candidates_are_multiples_of_a_tenth_or_drawn_at_random():
    two = _candidates(2)
    np.testing.assert_allclose(two[:, 0], np.arange(11) / 10)
    np.testing.assert_allclose(two.sum(axis=1), 1.0)
    assert [len(_candidates(n)) for n in (3, 4)] == [66, 286]
    many = _candidates(5)
    assert len(many) == MAX_CANDIDATES
    assert many[:5].tolist() == np.eye(5).tolist()
    np.testing.assert_allclose(many.sum(axis=1), 1.0)


@pytest.mark.kernels
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_pruning_keeps_documents_that_some_weights_rank_high(k, by_row):
    rng = np.random.default_rng(k)
    for _ in range(30):
        Z = rng.integers(0, 4, (9, 2)) / 4
        marks = np.ones(9)
        marks[rng.integers(0, 9)] = 0.0
        before = marks.copy()
        _drop_unreachable(Z, np.array([0, 4, 9]), k, marks, by_row, 0, 2)
        for a, b in ((0, 4), (4, 9)):
            shown = [i for i in range(a, b) if before[i]]
            for i in shown:
                above = [
                    j for j in shown
                    if j != i
                    and all(x > y or (x == y and j < i and by_row) for x, y in zip(Z[j], Z[i]))  # noqa: B905
                ]  # fmt: skip
                assert marks[i] == (len(above) < k)


def test_weights_of_a_solver_add_up_and_none_are_equal_ones():
    data = fuse(*made(20), n_resamples=100, normalization="min_max").data
    evaluator = _FusionEvaluator(data, parse_metric("ndcg@10"), "opensearch", 60.0)
    grid, every = evaluator.grid("min_max"), np.arange(20)
    weights = evaluator.ranksvm(grid, every)
    assert weights.sum() == pytest.approx(1)
    assert np.ptp(weights) > 0.05
    low = _FusionEvaluator(data, parse_metric("ndcg@10"), "opensearch", 60.0)
    low._labels = 3.0 - low._labels  # every run is wrong
    assert low.ranksvm(grid, every).tolist() == [1 / 3] * 3
    few = evaluator.ranksvm(grid, every[:10])
    assert np.abs(few - weights).max() > 1e-6


def test_small_weights_of_a_solver_are_scaled_too(monkeypatch):
    monkeypatch.setattr("rankine.evaluation.fusion.L2", 1e3)
    evaluator = _FusionEvaluator(join_runs(*made(20)), parse_metric("ndcg@10"), "opensearch", 60.0)
    weights = evaluator.ranksvm(evaluator.grid("min_max"), np.arange(20))
    assert 0 < evaluator._svm.coef_.sum() < 1
    assert weights == pytest.approx(evaluator._svm.coef_ / evaluator._svm.coef_.sum())
    assert np.ptp(weights) > 1e-3


@pytest.mark.parametrize("metric", ["ndcg@2", "p@3", "recall@2", "err@4", "map@3", "mrr@2"])
def test_queries_without_retrieved_documents_count_in_the_values(metric):
    runs, judged = made(6)
    for lost in ("0", "3", "5"):  # the first of them, one between, the last
        runs = {name: Run(*(c[run.qid != lost] for c in run[:3]), run.tag)
                for name, run in runs.items()}  # fmt: skip
    judged = judged._replace(label=np.where(judged.qid == "3", 0.0, judged.label))
    data = join_runs(runs, judged)
    evaluator = _FusionEvaluator(data, parse_metric(metric), "opensearch", 60.0)
    stored = np.where(data.X.toarray() == 0, np.nan, data.X.toarray())
    scores = run_score_values(RunScores("min_max"), stored, data.queries.starts)
    grid = evaluator.grid("min_max")
    for weights, found in zip(grid.candidates, grid.values, strict=True):
        wanted = evaluate_on(data, metric=by_row(metric), scores=scores @ weights, per_query=True)
        np.testing.assert_allclose(found, wanted[evaluator.queries], atol=1e-12)


def test_ranksvm_learns_from_documents_near_the_top_of_some_run():
    data = join_runs(*made(8, depth=30))
    ranks = run_score_values(
        RunScores("reciprocal_rank"), np.where(data.X.toarray() == 0, np.nan, data.X.toarray()),
        data.queries.starts,
    )  # fmt: skip
    best = np.round(1 / np.maximum(ranks.max(axis=1), 1e-9)) - 60
    for metric, depth in (("ndcg@4", 12), ("map", 1e9)):
        evaluator = _FusionEvaluator(data, parse_metric(metric), "opensearch", 60.0)
        there = ranks.max(axis=1) > 0
        assert evaluator._near_top.tolist() == ((best <= depth) & there).tolist()


def pair_of(low, high):
    return Pair("equal weights", "fusion", 0.0, low, high, *[1.0] * 6, 0, 0, 0, False, False, "")


def test_the_verdict_compares_learnt_and_equal_weights():
    larger, smaller = parse_metric("map"), parse_metric("pairwise-error")
    for pair, metric in ((pair_of(-0.1, 0.01), larger), (pair_of(-0.01, 0.1), smaller)):
        assert _verdict([pair], metric, 0.02).startswith("equal weights will do: learnt")
        assert "as far as these queries can tell" in _verdict([pair], metric, 0.01)
    for pair, metric in ((pair_of(0.01, 0.1), larger), (pair_of(-0.1, -0.01), smaller)):
        assert "better than equal" in _verdict([pair], metric, 0.01)
    for pair, metric in ((pair_of(0.0, 0.1), larger), (pair_of(-0.1, 0.0), smaller)):
        assert "as far as these queries can tell" in _verdict([pair], metric, 0.01)


def test_queries_and_judgements_without_a_match_are_counted():
    runs = {
        "a": Run(np.array(["1", "1", "9"]), np.array(["x", "y", "x"]), np.array([2.0, 1, 1]), "a"),
        "b": Run(np.array(["1", "8"]), np.array(["z", "x"]), np.array([3.0, 1.0]), "b"),
    }
    judged = Qrels(np.array(["1", "1", "2", "1"]), np.array(["x", "w", "x", "y"]),
                   np.array([1.0, -2.0, 0.0, -1.0]))  # fmt: skip
    data = join_runs(runs, judged)
    assert data.read_counts == {
        "queries_missing_from_runs": 1,
        "queries_without_judgements": 2,
        "negative_judgements": 2,
    }
    assert data.docid.tolist() == ["z", "y", "x", "w", "x"]  # descending, query by query
    assert data.qid.tolist() == ["1"] * 4 + ["2"]
    assert data.y.tolist() == [0, 0, 1, 0, 0]
    assert data.columns["retrieved"].tolist() == [1, 1, 1, 0, 0]
    assert data.X.toarray().tolist() == [[0, 3], [1, 0], [2, 0], [0, 0], [0, 0]]


def test_one_document_of_one_run_is_enough_in_common():
    one = Run(np.array(["1"]), np.array(["x"]), np.array([2.0]), "a")
    other = Run(np.array(["8", "9"]), np.array(["x", "y"]), np.array([1.0, 2.0]), "b")
    judged = Qrels(np.array(["1"]), np.array(["x"]), np.array([1.0]))
    for runs in ({"a": one, "b": other}, {"b": other, "a": one}):
        data = join_runs(runs, judged)
        assert data.read_counts["queries_missing_from_runs"] == 0
        assert data.read_counts["queries_without_judgements"] == 2
        assert data.X.toarray().sum() == 2.0
    none = Qrels(np.array([], dtype=str), np.array([], dtype=str), np.array([]))
    with pytest.raises(DataError, match="no query in common"):
        join_runs({"a": one, "b": other}, none)


@pytest.mark.parametrize("metric", ["map", "pairwise-error"])
def test_values_of_a_fold_are_of_the_choice_on_the_other_folds(metric):
    rule = parse_metric(metric)
    sign = 1.0 if rule.larger_is_better else -1.0
    # every fold has a choice that is best there and bad elsewhere
    table = np.array([[0.9, 0.8, 0.1, 0.2, 0.3, 0.1], [0.1, 0.3, 0.9, 0.8, 0.2, 0.2],
                      [0.2, 0.1, 0.4, 0.1, 0.9, 0.95]])  # fmt: skip
    fold = np.array([0, 0, 1, 1, 2, 2])
    keys = [("min_max", "search"), ("l2", "search"), ("l2", "ranksvm")]
    learnt = {key: _Learnt(row, np.zeros(2)) for key, row in zip(keys, table, strict=True)}
    chosen, values = _choose(learnt, fold, 3, sign)
    assert chosen == max(keys, key=lambda key: sign * learnt[key].held_out.mean())
    for k in range(3):
        best = max(range(3), key=lambda c, k=k: sign * table[c, fold != k].mean())
        assert values[fold == k].tolist() == table[best, fold == k].tolist()


def test_two_judged_queries_are_fused():
    found = fuse(*made(2), n_folds=2, n_resamples=100, normalization="min_max")
    assert found.data.n_queries == 2


def test_a_judged_query_that_no_run_holds_counts_nothing():
    runs, judged = made(12)
    more = Qrels(*(np.append(column, last) for column, last in zip(judged, ("z", "1", 0.0))))  # noqa: B905
    options = {"normalization": "min_max", "n_resamples": 100}
    means = [fuse(runs, q, **options).systems[1].mean for q in (judged, more)]
    assert means[1] == pytest.approx(means[0] * 12 / 13)


def test_ties_of_rows_without_the_retrieved_column_fall_by_document_id():
    """A frame of one's own: equal scores by descending id, not by row."""
    rng = np.random.default_rng(5)
    scores = rng.integers(1, 3, (40, 2)).astype(float)
    y, qid, docid = rng.integers(0, 3, 40), np.repeat(np.arange(8), 5), rng.permutation(40)
    data = rankine.Dataset.from_arrays(scores, y, qid, docid=docid.astype(str))
    found = fuse(data, metric="ndcg@2", n_resamples=100, normalization="min_max")
    assert list(found.weights) == ["1", "2"]  # columns without names are numbered
    means = {system.name: system.mean for system in found.systems}
    each = run_score_values(RunScores("min_max"), scores, data.queries.starts).sum(axis=1)
    columns = {"docid": docid.astype(str)}
    assert means["equal weights"] == pytest.approx(
        evaluate("ndcg@2:ties=docid", y, each, qid, columns=columns)
    )
    assert means["equal weights"] != pytest.approx(evaluate("ndcg@2", y, each, qid))
    free = fuse(data, metric="ndcg@2:ties=expected", n_resamples=100, normalization="min_max")
    assert free.systems[1].mean == pytest.approx(evaluate("ndcg@2:ties=expected", y, each, qid))


def test_a_good_run_among_bad_ones_gets_the_weight():
    runs, qrels = made(80, 2)
    rng = np.random.default_rng(0)
    noise = runs["r0"]._replace(score=rng.random(len(runs["r0"].score)))
    found = fuse({"good": runs["r1"], "noise": noise}, qrels, n_resamples=500)
    assert found.weights["good"] > 0.6
    assert "better than equal" in found.verdict


def test_equal_weights_are_recommended_for_equal_runs():
    runs, qrels = made(30, 1)
    twin = {"a": runs["r0"], "b": runs["r0"]}
    found = fuse(twin, qrels, n_resamples=500, normalization="min_max")
    assert found.verdict.startswith("equal weights will do")
    assert found.normalization == "min_max"


@pytest.mark.parametrize("metric", ["ndcg@10", "ndcg@3:ties=expected"])
def test_pruning_changes_no_value(monkeypatch, metric):
    from rankine.evaluation import fusion

    wanted = fuse(*made(seed=3), metric=metric, n_resamples=500).to_dict()
    monkeypatch.setattr(fusion, "_drop_unreachable", lambda *_: None)
    assert fuse(*made(seed=3), metric=metric, n_resamples=500).to_dict() == wanted


@pytest.mark.parametrize("metric", ["map", "mrr", "recall@5", "ndcg@5:ties=expected"])
def test_any_metric_can_be_maximised(metric):
    found = fuse(*made(20), metric=metric, n_resamples=200, normalization="min_max")
    assert found.model.metric == metric
    data = found.data
    stored = np.where(data.X.toarray() == 0, np.nan, data.X.toarray())
    scores = run_score_values(RunScores("min_max"), stored, data.queries.starts).sum(axis=1)
    equal = next(system.mean for system in found.systems if system.name == "equal weights")
    assert equal == pytest.approx(evaluate_on(data, metric=by_row(metric), scores=scores))


def test_each_score_column_of_a_frame_is_a_run(fused, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    data = fused.data
    dense = np.where(data.X.toarray() == 0, np.nan, data.X.toarray())
    columns = {name: dense[:, j] for j, name in enumerate(data.feature_names)}
    nulls = {k: [None if np.isnan(x) else x for x in v] for k, v in columns.items()}
    table = pa.table({"qid": data.qid, "docid": data.docid, "label": data.y, **nulls})
    pyarrow.parquet.write_table(table, tmp_path / "s.parquet")
    again = rankine.fuse(tmp_path / "s.parquet", random_state=1, n_resamples=500)
    assert again.weights == fused.weights
    listed = rankine.fuse([tmp_path / "s.parquet"], random_state=1, n_resamples=500)
    assert listed.weights == fused.weights
    with pytest.raises(SchemaError, match="'label'"):
        rankine.fuse(table.drop_columns(["label"]))
    words = table.append_column("title", pa.array(["x"] * len(table)))
    with pytest.raises(SchemaError, match="'title' is not numeric"):
        join_frame(words)
    _, judged = made()
    apart = join_frame(table.drop_columns(["label"]), judged)
    assert apart.y.tolist() == data.y.tolist()


def test_runs_that_cannot_be_fused_are_refused(tmp_path):
    runs, qrels = made(10)
    with pytest.raises(ParameterError) as caught:
        fuse({"a": runs["r0"]}, qrels)
    assert caught.value.parameter == "runs"
    with pytest.raises(ParameterError) as caught:
        fuse(runs, qrels, engine="sphinx")
    assert caught.value.parameter == "engine"
    with pytest.raises(ParameterError) as caught:
        fuse(runs, qrels, engine="solr", normalization="z_score")
    assert caught.value.parameter == "normalization"
    for n_folds in (1, 11):
        with pytest.raises(ParameterError) as caught:
            fuse(runs, qrels, n_folds=n_folds)
        assert caught.value.parameter == "n_folds"
    quick = {"n_resamples": 100, "normalization": "min_max"}
    for n_folds in (2, 10):
        assert len(fuse(runs, qrels, n_folds=n_folds, **quick).choices) == 2
    with pytest.raises(ParameterError, match="two runs are called 'r0'"):
        fuse([runs["r0"], runs["r0"]], qrels)
    assert set(fuse([runs["r0"], runs["r1"]], qrels, **quick).weights) == {"r0", "r1"}
    with pytest.raises(DataError, match="defined for 1 queries"):
        one = Qrels(*(
            np.append(column[qrels.qid == "3"], last)
            for column, last in zip(qrels, ("4", "1", 0.0), strict=True)
        ))  # fmt: skip
        fuse(runs, one, metric="ndcg@3:no_relevant=skip", n_folds=2)
    with pytest.raises(ParameterError) as caught:
        fuse(runs)
    assert caught.value.parameter == "qrels"
    with pytest.raises(DataError, match="no query in common"):
        join_runs({"a": runs["r0"]}, Qrels(np.array(["z"]), np.array(["1"]), np.array([1.0])))
    with pytest.raises(ValueError, match="no normalisation"):
        RunScores("l2", "vespa")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_tables_hold_nulls_where_a_retriever_returned_nothing(fused, tmp_path, suffix):
    model = fused.model
    values = np.array([[1.0, np.nan, 2.0], [np.nan, 3.0, 0.0], [0.5, 4.0, np.nan]])
    table = pd.DataFrame(values, columns=list(model.feature_names)).iloc[:, ::-1]
    table.insert(0, "qid", [1, 1, 2])
    table.insert(1, "label", [1.0, 0.0, 1.0])
    table.insert(2, "price", [9.0, 8.0, 7.0])
    path = tmp_path / f"joined.{suffix}"
    getattr(table, f"to_{suffix}")(path, index=False)
    found = read_for(model, path)
    assert found.feature_names == model.feature_names
    np.testing.assert_array_equal(found.X, values)
