"""Fusion of retrievers: joining, learning, and each engine's documented arithmetic."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rankine
from rankine import LinearModel, Scorer
from rankine.core.errors import DataError, ExportError, ParameterError, SchemaError
from rankine.core.specs import FUSION_RULES, RunScores
from rankine.evaluation.fusion import fuse, join_runs
from rankine.evaluation.trec import Qrels, Run, evaluate_run, write_qrels, write_run
from rankine.export import ExportOptions, export
from rankine.kernels.run_scores import run_score_values
from rankine.logs.source import read_for
from rankine.metrics import evaluate_on
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


@pytest.fixture(scope="module")
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


def exported(engine, normalization, to=None, **options):
    model = LinearModel.from_weights(
        [0.5, 0.3, 0.2],
        ["bm25", "dense", "fresh"],
        transforms=(RunScores(normalization, engine),),
        parameters={"rrf_weights": [0.2, 0.2, 0.6]},
    )
    return model, export(model, to or engine, ExportOptions(**options))


def read_back(engine, content):
    """Weights and normalisation that an engine reads from an exported file."""
    if engine == "vespa":
        text = content.decode()
        ranks = "reciprocal_rank" in text
        lines = [part for part in text.splitlines() if " * " in part]
        return [float(part.split(" * ")[0]) for part in lines], (
            "reciprocal_rank" if ranks else "min_max"
        )
    body = json.loads(content)
    if engine == "solr":
        terms = body["params"]["q"].split("product(")[1:]
        return [float(term.split(",")[0]) for term in terms], "min_max"
    if engine == "elasticsearch":
        ((kind, inner),) = body["retriever"].items()
        weights = [child["weight"] for child in inner["retrievers"]]
        names = {child.get("normalizer") for child in inner["retrievers"]}
        known = {"minmax": "min_max", "l2_norm": "l2", None: "reciprocal_rank"}
        assert (kind == "rrf") == (names == {None}) == ("rank_constant" in inner)
        return weights, known[names.pop()]
    ((kind, inner),) = body["phase_results_processors"][0].items()
    weights = inner["combination"]["parameters"]["weights"]
    assert sum(weights) == pytest.approx(1)
    if kind == "score-ranker-processor":
        assert inner["combination"]["technique"] == "rrf"
        return weights, "reciprocal_rank"
    assert inner["combination"]["technique"] == "arithmetic_mean"
    return weights, inner["normalization"]["technique"]


@pytest.mark.parametrize(("engine", "normalization"), CASES)
def test_an_export_scores_as_the_model(engine, normalization):
    model, found = exported(engine, normalization)
    weights, read = read_back(engine, found.content)
    assert read == normalization
    assert not found.remark
    module = {}
    exec(exported(engine, normalization, "python")[1].content, module)  # noqa: S102
    for rows in lists(1):
        named = [
            {n: x for n, x in zip(model.feature_names, row, strict=True) if x is not None}
            for row in rows
        ]
        columns = [engine_column(engine, read, c) for c in zip(*rows, strict=True)]
        wanted = np.array(weights) @ np.array(columns)
        scorer = Scorer(model)
        np.testing.assert_allclose(scorer.score(named), wanted, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(module["scores"](named), wanted, rtol=1e-12, atol=1e-15)
        totals = [scorer.explain(named, i).total for i in range(len(named))]
        np.testing.assert_allclose(totals, wanted, rtol=1e-12, atol=1e-15)


def test_other_forms():
    _, found = exported("opensearch", "min_max", "elasticsearch", form="rrf")
    assert read_back("elasticsearch", found.content) == ([0.2, 0.2, 0.6], "reciprocal_rank")
    assert "opensearch" in found.remark
    with pytest.raises(ExportError, match="no normalisation z_score"):
        exported("opensearch", "z_score", "elasticsearch")
    with pytest.raises(ExportError, match="no normalisation reciprocal_rank"):
        exported("solr", "min_max", form="rrf")
    with pytest.raises(ExportError, match="no form 'linear'"):
        exported("opensearch", "reciprocal_rank", form="linear")
    with pytest.raises(ExportError, match="cannot normalise"):
        exported("opensearch", "min_max", "onnx")
    with pytest.raises(ParameterError, match="linear, rrf"):
        exported("opensearch", "min_max", form="tensor")
    document = json.loads(exported("opensearch", "l2", "json")[1].content)
    assert document["transforms"][0]["normalization"] == "l2"


def test_what_an_engine_cannot_fuse_is_refused():
    def fusion(names=("a", "b"), constant=60.0, normalization="reciprocal_rank", **more):
        spec = RunScores(normalization, rank_constant=constant)
        return LinearModel.from_weights([0.5, 0.25], names, transforms=(spec,), **more)

    for constant in (0.0, 0.5, 1.5):
        for target in ("elasticsearch", "opensearch"):
            with pytest.raises(ExportError, match=f"from 1, not {constant:g}"):
                export(fusion(constant=constant), target)
    body = json.loads(export(fusion(constant=1.0), "elasticsearch").content)
    assert body["retriever"]["rrf"]["rank_constant"] == 1
    assert body["retriever"]["rrf"]["rank_window_size"] == 100
    assert "reciprocal_rank(a, 0.5)" in export(fusion(constant=0.5), "vespa").content.decode()
    with pytest.raises(ExportError, match="have no names"):
        export(fusion(names=None), "opensearch")
    with pytest.raises(ExportError, match="has no form 'rrf'"):
        export(fusion(normalization="min_max"), "opensearch", ExportOptions(form="rrf"))
    with pytest.raises(ExportError, match="Vespa rank feature"):
        export(fusion(names=("a b", "c")), "vespa")
    for name in ("a b", "q", "fl", "fq", "rows", "1a"):
        with pytest.raises(ExportError, match="request parameter of Solr"):
            export(fusion(names=(name, "c"), normalization="min_max"), "solr")
    params = json.loads(export(fusion(normalization="min_max"), "solr").content)["params"]
    assert params["a"] == params["b"] == "*:*"
    assert "scale(query($a,0),0,1)" in params["q"]
    made = export(fusion(), "opensearch")
    query = json.loads(made.beside[".query.json"])
    assert [one["match_all"]["_name"] for one in query["query"]["hybrid"]["queries"]] == ["a", "b"]
    assert query["size"] == 100


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
    assert value == pytest.approx(evaluate_on(data, metric="ndcg@10", model=model), abs=1e-12)


def test_held_out_values_are_those_of_the_runs(fused):
    means = {system.name: system.mean for system in fused.systems}
    runs, qrels = made()
    single = [evaluate_run(run, qrels, ["ndcg@10"]).means["ndcg@10"] for run in runs.values()]
    assert means["best single run"] <= max(single) + 1e-12
    assert means["best single run"] == pytest.approx(max(single), abs=0.02)
    fractions = run_score_values(
        RunScores("reciprocal_rank"),
        np.where(fused.data.X.toarray() == 0, np.nan, fused.data.X.toarray()),
        fused.data.queries.starts,
    )
    assert means["RRF(60)"] == pytest.approx(
        evaluate_on(fused.data, metric="ndcg@10", scores=fractions.sum(axis=1))
    )
    assert {pair.b for pair in fused.pairs} == {"fusion"}
    assert fused.to_dict()["verdict"] == fused.verdict
    assert len(fused.tables()) == 3


def test_a_good_run_among_bad_ones_gets_the_weight():
    runs, qrels = made(80, 2)
    rng = np.random.default_rng(0)
    noise = runs["r0"]._replace(score=rng.random(len(runs["r0"].score)))
    found = fuse({"good": runs["r1"], "noise": noise}, qrels, n_resamples=500)
    assert found.weights["good"] > 0.6
    assert "better than equal" in found.verdict


def test_equal_weights_will_do():
    runs, qrels = made(30, 1)
    twin = {"a": runs["r0"], "b": runs["r0"]}
    found = fuse(twin, qrels, n_resamples=500, normalization="min_max")
    assert found.verdict.startswith("equal weights will do")
    assert found.normalization == "min_max"


def test_pruning_changes_no_value(monkeypatch):
    from rankine.evaluation import fusion

    wanted = fuse(*made(seed=3), n_resamples=500).to_dict()
    monkeypatch.setattr(fusion, "_drop_unreachable", lambda *_: None)
    assert fuse(*made(seed=3), n_resamples=500).to_dict() == wanted


@pytest.mark.parametrize("metric", ["map", "mrr", "recall@5", "ndcg@5:ties=expected"])
def test_other_metrics(metric):
    assert fuse(*made(20), metric=metric, n_resamples=200, normalization="min_max").model.metric


def test_frames_are_runs_by_column(fused, tmp_path):
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
    with pytest.raises(SchemaError, match="'label'"):
        rankine.fuse(table.drop_columns(["label"]))


def test_what_cannot_be_fused_is_refused(tmp_path):
    runs, qrels = made(10)
    with pytest.raises(ParameterError, match="1 run"):
        fuse({"a": runs["r0"]}, qrels)
    with pytest.raises(ParameterError, match="engine="):
        fuse(runs, qrels, engine="sphinx")
    with pytest.raises(ParameterError, match="no normalization 'z_score'"):
        fuse(runs, qrels, engine="solr", normalization="z_score")
    with pytest.raises(ParameterError, match="n_folds"):
        fuse(runs, qrels, n_folds=11)
    with pytest.raises(ParameterError, match="without judgements"):
        fuse(runs)
    with pytest.raises(DataError, match="no query in common"):
        join_runs({"a": runs["r0"]}, Qrels(np.array(["z"]), np.array(["1"]), np.array([1.0])))
    with pytest.raises(ValueError, match="no normalisation"):
        RunScores("l2", "vespa")


def test_the_command(tmp_path):
    from rankine.cli.main import app, find_commands

    runs, qrels = made(20)
    for name, found in runs.items():
        write_run(tmp_path / f"{name}.run", found.qid, found.docid, found.score)
    write_qrels(tmp_path / "qrels", *qrels)
    find_commands()
    files = [str(tmp_path / f"{name}.run") for name in runs]

    def call(*words):
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 0, result.output
        return result.stdout

    model, joined = tmp_path / "f.rankine", tmp_path / "joined.parquet"
    options = ("--qrels", tmp_path / "qrels", "--out", model, "--data-out", joined, "--json")
    found = json.loads(call("fuse", *files, *options))
    assert set(found["weights"]) == {"r0", "r1", "r2"}
    call("export", model, "--to", "opensearch", "-o", tmp_path / "p.json")
    call("export", model, "--to", "elasticsearch", "--form", "rrf", "-o", tmp_path / "e.json")
    columns = ("--columns", "retrieved", "--qid-type", "str")
    value = json.loads(call("evaluate", model, joined, "--metric", "ndcg@10", *columns, "--json"))
    data = join_runs(runs, qrels)
    scores = np.full(data.X.shape, np.nan)
    rows = np.repeat(np.arange(data.n_rows), np.diff(data.X.indptr))
    scores[rows, data.X.indices] = data.X.data
    table = {"qid": data.qid, "docid": data.docid, "label": data.y, **dict(zip(runs, scores.T))}  # noqa: B905
    wide = pd.DataFrame({**table, "retrieved": data.columns["retrieved"]})
    wide.to_parquet(tmp_path / "wide.parquet")  # null where a retriever lacks the document
    words = ("evaluate", model, tmp_path / "wide.parquet", "--metric", "ndcg@10", *columns)
    assert json.loads(call(*words, "--json"))["metrics"] == value["metrics"]
    call("report", model, joined, "-o", tmp_path / "page.html", *columns)
    assert "r1" in (tmp_path / "page.html").read_text()


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
