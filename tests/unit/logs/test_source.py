"""From a Parquet log to a model that scores raw rows."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from error_checks import raises_at, raises_for
from rankine import (
    AdditiveRanker,
    DominationRanker,
    ElasticRanker,
    LeastSquaresRanker,
    LinearModel,
    Scorer,
    logs,
)
from rankine.cli.train import app
from rankine.core.column_values import category_text
from rankine.core.errors import (
    ExportError,
    FeatureMismatchError,
    FileKindError,
    LimitError,
    ParameterError,
    RankineError,
    SchemaError,
)
from rankine.core.specs import RunScores
from rankine.data.expressions import parse_expression
from rankine.evaluation.cross_validation import cross_validate
from rankine.export import export
from rankine.logs import read_for, schema
from rankine.metrics import evaluate
from rankine.rankers.registry import ranker_class
from rankine.transforms.apply import score_dataset
from reference.raw_logs import BRANDS, COLUMNS, KINDS, options, write_log

# Small logs have columns without any variation.
pytestmark = pytest.mark.filterwarnings("ignore:constant within lists")


def stopping(*blocks):
    yield from blocks
    raise AssertionError("the log was read on")


def test_a_split_trains_on_older_lists(log, trained):
    parts = logs.scan(log, **COLUMNS).split("time:9/11,1/11,1/11")
    held = parts["valid"].load()
    assert (trained.provenance["training"]["queries"], held.n_queries) == (245, 28)
    assert evaluate("mrr", held.y, score_dataset(trained, held), held.qid) > 0.6  # 0.4 by chance
    ranker = ElasticRanker(random_state=0, scale="query", metric="mrr").fit(parts["train"])
    assert ranker.score(parts["valid"]) == ranker.score(held)


def test_names_of_the_surviving_weights(trained):
    weights = dict(zip(trained.weight_names, trained.values.tolist(), strict=True))
    assert weights["brand=acme"] > weights["brand=tyrell"] > weights["brand=cyberdyne"]
    assert weights["price"] < 0
    assert "category=hats" in weights
    assert any(name.startswith("brand=acme x category=") for name in weights)


def test_saved_model_scores_raw_rows(trained, tmp_path):
    trained.save(tmp_path / "m.rankine")
    model = LinearModel.load(tmp_path / "m.rankine")
    fresh = tmp_path / "fresh.parquet"
    write_log(fresh, lists=40, seed=5)
    data = read_for(model, fresh)
    scores = score_dataset(model, data)
    assert evaluate("mrr", data.y, scores, data.qid) > 0.6
    scorer = Scorer(model)
    scorer.self_test()
    rows = pq.read_table(fresh).to_pylist()
    first = [row for row in rows if row["session_id"] == "s000000"]
    np.testing.assert_allclose(scorer.score(first), scores[: len(first)], rtol=1e-12)
    blocks = read_for(model, fresh, stream=True, block_rows=20)
    streamed = np.concatenate([score_dataset(model, block) for block in blocks])
    np.testing.assert_array_equal(streamed, scores)


def test_a_log_without_outcomes_is_scored(trained, tmp_path):
    write_log(tmp_path / "new.parquet", lists=5, outcome=False)
    data = read_for(trained, tmp_path / "new.parquet")
    assert (data.y == 0).all()
    assert np.isfinite(score_dataset(trained, data)).all()


def test_training_continues_with_the_next_log(log, trained, tmp_path):
    write_log(tmp_path / "next.parquet", lists=30, seed=7)
    again = logs.scan(tmp_path / "next.parquet", like=trained)
    assert again.schema == logs.schema_of(trained)
    warm = ElasticRanker(random_state=0, scale="query").fit(again, coef_init=trained)
    assert warm.progressive_ > ElasticRanker(random_state=0, scale="query").fit(again).progressive_
    with raises_for("numeric", FeatureMismatchError):
        logs.scan(log, like=trained, numeric=["position"])
    with raises_for("numeric", FeatureMismatchError):
        ElasticRanker(scale="query").fit(logs.scan(log, **options()), coef_init=trained)


def test_the_size_of_blocks_does_not_change_the_model(log):
    wanted = options(numeric=["price"], binned=["ts"], one_hot=["category"], hash_bits=12)
    models = [
        ElasticRanker(random_state=0, scale="query").fit(logs.scan(log, **wanted, block_rows=rows))
        for rows in (64, 100_000)
    ]
    assert len({ranker.to_model().digest for ranker in models}) == 1


@pytest.mark.parametrize("name", ["spd", "ranksvm", "least-squares", "domination"])
def test_every_ranker_learns_from_a_log(log, name):
    """In memory where it needs all rows; the model scores raw rows."""
    lists = logs.scan(log, **options(numeric=["price"], one_hot=["category"], hash_bits=8))
    ranker = ranker_class(name)(scale="query", random_state=0).fit(lists)
    model = ranker.to_model()
    assert {"price", "category=hats"} <= set(model.weight_names)
    rows = [{"price": 3.0, "brand": "acme"}, {"price": 30.0, "brand": "cyberdyne"}]
    best, worst = Scorer(model).score([{**row, "category": "hats"} for row in rows])
    assert best > worst
    data = lists.load()
    np.testing.assert_array_equal(ranker.predict(data), score_dataset(model, data))
    assert Scorer(model).score(pq.read_table(log).to_pylist()[:4]).shape == (4,)
    if name == "least-squares":
        with raises_for("checkpoint"):
            ranker.fit(lists, checkpoint="here")


def test_logs_are_accepted_wherever_lists_are(log, tmp_path):
    """Folds, tuning, paths of models and partitions take it, and give models of raw rows."""
    lists = logs.scan(log, **options(numeric=["price"], one_hot=["category"], hash_bits=6))
    ranker = LeastSquaresRanker(scale="query")
    assert 0.3 < cross_validate(ranker, lists, cv=2).mean < 1
    found = rankine.tune(lists, ranker=ranker, trials=2, folds=2)
    path = DominationRanker(scale="query").path(lists, n_steps=3)
    for model in (found.model, path.to_model()):
        assert logs.schema_of(model) == lists.schema
        assert len(Scorer(model).required) > 0


@pytest.mark.parametrize("name", ["ranksvm", "elastic"])
def test_partitions_of_a_log_give_the_same_bits_wherever_they_are_read(log, name):
    wanted = options(numeric=["price"], one_hot=["category"], binned=["ts"], hash_bits=6)
    whole = logs.scan(log, **wanted)
    parts = rankine.distributed.scan(logs.scan(log, **wanted), partition_bytes=30_000)
    assert len(parts) > 2
    assert parts.encoding.spec == whole.log_encoding().spec
    ranker = ranker_class(name)(scale="query", random_state=0)
    models = [ranker.fit(source).to_model() for source in (parts, parts)]
    assert models[0].digest == models[1].digest
    assert logs.schema_of(models[0]) == whole.schema
    if name == "ranksvm":
        np.testing.assert_allclose(
            models[0].to_dense(), ranker.fit(whole).to_model().to_dense(), atol=1e-3
        )


def test_selected_rows_keep_only_their_texts(log):
    wanted = {"query": "session_id", "label": "clicked", "categorical": ["brand", "session_id"]}
    data = next(iter(logs.scan(log, **wanted)))
    rows = np.array([0, 5, 17])
    few = data.take(rows)
    coded = few.columns.coded("session_id")
    assert coded is not None
    assert len(coded.texts) <= len(rows)
    for name in ("session_id", "brand"):
        assert few.columns[name].tolist() == data.columns[name][rows].tolist()


def test_models_of_different_columns_can_be_compared_on_one_log(log, trained, tmp_path):
    """Each reads its own columns; the log is read once."""
    other = logs.scan(log, query="session_id", label="clicked", binned=["price"], one_hot=["brand"])
    rival = LeastSquaresRanker(scale="query").fit(other).to_model()
    for name, model in (("a", trained), ("b", rival)):
        model.save(tmp_path / f"{name}.rankine")
    fresh = tmp_path / "fresh.parquet"
    write_log(fresh, lists=40, seed=5)
    systems = [tmp_path / "a.rankine", tmp_path / "b.rankine"]
    found = rankine.compare(systems, fresh, "mrr", n_resamples=100)
    for model, system in zip((trained, rival), found.systems, strict=True):
        alone = logs.read_for(model, fresh, label="clicked + 4*purchased")
        scores = score_dataset(model, alone)
        assert system.mean == pytest.approx(evaluate("mrr", alone.y, scores, alone.qid))


def test_features_that_differ_from_the_models_are_refused(log, trained):
    same = {name: value for name, value in COLUMNS.items() if name != "time"}
    assert logs.read_for(trained, log, **same).n_features == trained.n_features
    for other in ({"numeric": ["ts"]}, {"hash_bits": 8}, {"one_hot": ["brand"]}):
        with pytest.raises((FeatureMismatchError, ParameterError), match=r"column"):
            logs.read_for(trained, log, **other)
    with raises_for("columns", SchemaError):
        logs.read_for(trained, log, label="cliqued")


def test_missing_numbers_are_missing_and_not_zero(tmp_path):
    """Zero has a cell of its own; a missing category has none, not that of 0."""
    columns = {
        "s": [1, 1, 1, 2, 2, 2],
        "price": pa.array([None, 0.0, 5.0, 5.0, None, 0.0]),
        "size": pa.array([None, 0, 7, 7, None, 0]),
        "new": pa.array([None, True, False, True, None, False]),
        "clicked": pa.array([1, 0, None, 1, 0, 0]),
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    wanted = {"query": "s", "label": "clicked", "binned": ["price"], "one_hot": ["size", "new"]}
    log = logs.scan(tmp_path / "log.parquet", **wanted)
    data = log.load()
    assert log.nulls == 7
    assert log.log_encoding().feature_names[:4] == ("size=0", "size=7", "new=true", "new=false")
    np.testing.assert_array_equal(data.X.toarray()[:3].argmax(axis=1), [6, 0, 1])
    np.testing.assert_array_equal(data.X.toarray()[0], [0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(data.y, [1, 0, 0, 1, 0, 0])


def test_a_column_of_whole_numbers_can_be_numeric_and_part_of_a_cross(log, tmp_path):
    wanted = {"query": "session_id", "label": "clicked", "numeric": ["price", "position"]}
    source = logs.scan(log, **wanted, crosses=[("brand", "position")])
    model = ElasticRanker(random_state=0).fit(source).to_model()
    model.save(tmp_path / "both.rankine")
    rows = pq.read_table(log).to_pylist()[:9]
    again = LinearModel.load(tmp_path / "both.rankine")
    assert np.array_equal(Scorer(again).score(rows), Scorer(model).score(rows))


def test_the_number_of_one_hot_values_is_limited(log, monkeypatch):
    wanted = {"query": "session_id", "one_hot": ["category"]}
    assert sorted(logs.scan(log, **wanted).log_encoding().feature_names) == [
        f"category={k}" for k in sorted(KINDS)
    ]
    with raises_for("X"):  # a property reads no file
        logs.scan(log, **wanted).n_features  # noqa: B018
    monkeypatch.setattr(schema, "MAX_VALUES", 2)
    with raises_at(LimitError, column="category"):
        logs.scan(log, **wanted).load()


def test_a_text_file_is_refused_as_a_log(tmp_path):
    for name, error in (("log.parquet", FileKindError), ("log.txt", ParameterError)):
        path = tmp_path / name
        path.write_text("1 qid:1 1:0.5\n")
        with pytest.raises(error):
            ElasticRanker().fit(logs.scan(path, **options()))


@pytest.mark.parametrize(
    ("change", "reason", "fix"),
    [
        (lambda t: t.drop(["price"]), "no column 'price'", "name another column"),
        (lambda t: t.rename_columns({"price": "prize"}), "no column 'price'", "mean 'prize'"),
        (lambda t: t.set_column(1, "price", pa.array(["EUR 1"] * t.num_rows)), "'EUR 1'", "number"),
        (lambda t: t.set_column(2, "brand", pa.array([0.5] * t.num_rows)), "0.5", "as text"),
        (lambda t: t.slice(0, 0), "no rows", "path"),
        (
            lambda t: t.set_column(6, "clicked", pa.array([0] * t.num_rows)),
            "two (different )?labels",
            "label",
        ),
    ],
    ids=["missing", "renamed", "text", "number", "empty", "one class"],
)
def test_errors_about_a_bad_log_say_what_to_do(log, trained, tmp_path, change, reason, fix):
    """The same words from a training that goes on and from a first one."""
    table = pq.read_table(log)
    pq.write_table(
        change(table.set_column(7, "purchased", table["clicked"])), tmp_path / "d.parquet"
    )
    wanted = {**COLUMNS, "label": "clicked"}
    for more, ranker in (
        ({"like": trained, "label": "clicked"}, ElasticRanker(scale="query")),
        (wanted, LeastSquaresRanker(scale="query")),
    ):
        with pytest.raises(RankineError, match=reason) as error:
            ranker.fit(logs.scan(tmp_path / "d.parquet", **more))
        assert fix in error.value.fix
        if reason in ("'EUR 1'", "0.5"):
            assert (error.value.file, error.value.line) == (str(tmp_path / "d.parquet"), 1)


# ------------------------------------------------------------------ how a log is read
def test_fixed_cuts_are_kept_when_labels_change(log):
    lists = logs.scan(log, query="session_id", label="clicked", binned=["price"],
                      cuts={"price": [10.0, 20.0]})  # fmt: skip
    other = lists.relabelled(parse_expression("purchased"))
    assert other.log_encoding().spec == lists.log_encoding().spec
    assert other.log_encoding().spec.binned[0].cuts == (10.0, 20.0)
    assert "Log of Scan" in repr(other)


def test_missing_values_are_counted_pass_by_pass(log):
    nulls = pq.read_table(log)["brand"].null_count
    lists = logs.scan(log, **options(), block_rows=100)
    assert lists.nulls is None
    for _ in range(2):
        list(lists)
        assert lists.nulls == nulls > 1


def test_a_log_is_read_like_another_log(log, trained):
    lists = logs.scan(log, query="session_id", label="clicked", one_hot=["category"])
    same = logs.scan(log, like=lists)
    assert (same.schema, same.log_encoding().spec) == (lists.schema, lists.log_encoding().spec)
    assert same.log_encoding().key == lists.log_encoding().key
    judged = logs.scan(log, like=lists, label="purchased")
    assert judged.load().y.sum() == pq.read_table(log)["purchased"].to_numpy().sum()
    with pytest.raises(ParameterError, match="reads features, not the columns"):
        logs.scan(log, like=LinearModel.from_weights([1.0]))
    with pytest.raises(ParameterError, match="to start from reads features"):
        lists.log_encoding().check_start(LinearModel.from_weights([1.0]))
    cut = logs.scan(log, query="session_id", binned=["price"], cuts={"price": [5.0]})
    other = logs.scan(log, query="session_id", binned=["price"], cuts={"price": [6.0]})
    model = SimpleNamespace(transforms=(other.log_encoding().spec,), parameters={})
    with pytest.raises(FeatureMismatchError):
        cut.log_encoding().check_start(model)
    cut.log_encoding().check_start(
        SimpleNamespace(transforms=(cut.log_encoding().spec,), parameters={})
    )


def test_only_columns_of_the_schema_are_read(log):
    lists = logs.scan(log, **COLUMNS, item="brand", columns=["purchased"], n_features=7, group=[1])
    wanted = {"brand", "category", "price", "clicked", "purchased", "ts"}
    read = lists.raw.options
    assert {*read.columns, *read.categories, *read.numbers} == wanted
    assert lists.raw.options.position == "position"
    assert (lists.raw.options.n_features, lists.raw.options.group) == (None, None)
    data = lists.load()
    assert data.position.tolist() == pq.read_table(log)["position"].to_pylist()
    assert set(data.columns) == wanted
    ignored = lists.log_encoding().spec.ignored
    assert ignored == ("clicked", "position", "purchased", "session_id", "ts")
    tables = lists.for_tables
    with raises_for("crosses"):
        tables()
    plain = logs.scan(log, query="session_id", numeric=["price"], one_hot=["category"]).for_tables()
    assert plain.for_tables().log_encoding().spec is plain.log_encoding().spec
    assert plain.log_encoding().spec.tables
    assert plain.log_encoding().for_tables(()) is plain.log_encoding()
    assert plain.log_encoding().spec.ignored == (
        "brand", "clicked", "position", "purchased", "session_id", "ts",
    )  # fmt: skip
    assert set(plain.log_encoding().spec.one_hot[0].values) == set(KINDS.tolist())


def test_positions_may_have_another_column_name(log, tmp_path):
    table = pq.read_table(log)
    places = table["position"].to_pylist()
    plain = {"query": "session_id", "numeric": ["price"]}
    assert logs.scan(log, **plain).load().position.tolist() == places, "called position"
    renamed = tmp_path / "renamed.parquet"
    pq.write_table(table.rename_columns({"position": "shown_at"}), renamed)
    assert logs.scan(renamed, **plain).load().position is None
    lists = logs.scan(renamed, **plain, position="shown_at")
    assert lists.load().position.tolist() == places
    assert lists.raw.options.numbers == ("price",)
    both = logs.scan(renamed, **{**plain, "numeric": ["price", "ts"]}, position="shown_at")
    assert both.raw.options.numbers == ("price", "ts")
    said = {**plain, "item": "brand", "label": "coec"}
    filled = table.set_column(2, "brand", table["brand"].cast(pa.string()).fill_null("none"))
    named, default = tmp_path / "named.parquet", tmp_path / "default.parquet"
    pq.write_table(filled.rename_columns({"position": "shown_at"}), named)
    pq.write_table(filled, default)
    found = [
        logs.scan(named, **said, position="shown_at"), logs.scan(default, **said),
        logs.scan(default, **said, position="position"),
    ]  # fmt: skip
    labels = [lists.load().y for lists in found]
    assert len(set(labels[0])) == len(BRANDS) + 1
    for other in labels[1:]:
        np.testing.assert_array_equal(other, labels[0])


def test_workers_measure_the_values_of_partitions(log):
    lists = logs.scan(log, query="session_id", label="clicked", one_hot=["category"])
    lists.raw.blocks = stopping
    parts = lists.to_partitions(partition_bytes=30_000)
    assert parts.encoding.feature_names == tuple(f"category={kind}" for kind in
                                                 dict.fromkeys(pq.read_table(log)["category"]
                                                               .to_pylist()))  # fmt: skip


def test_hashed_columns_keep_their_units_with_partitions_too(log):
    hashed = {"categorical": ["category", "brand"], "hash_bits": 1}  # so that values add up to 2
    lists = logs.scan(log, query="session_id", label="clicked", numeric=["price"], **hashed)
    scalings = [
        LeastSquaresRanker(0.1).fit(source).scaling_
        for source in (lists, lists.load(), lists.to_partitions())
    ]
    assert (scalings[0].factors[1:] == 1.0).all()
    for scaling in scalings[1:]:
        np.testing.assert_allclose(scaling.factors, scalings[0].factors)


def test_tables_of_a_log_like_another(log):
    wanted = {"query": "session_id", "numeric": ["price"], "one_hot": ["category"]}
    lists = logs.scan(log, **wanted)
    tables = logs.scan(log, like=lists).for_tables()
    assert tables.log_encoding().spec.tables
    assert tables.log_encoding().spec == lists.for_tables().log_encoding().spec
    assert tables.load().X.shape[1] == 2


# ------------------------------------------------------------------ how a model reads
def test_read_for_reads_files_of_features_for_a_model_of_features(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("1 qid:1 0:2\n0 qid:1 1:3\n")
    model = replace(LinearModel.from_weights([1.0, 2.0, 3.0]), base=0)
    data = read_for(model, path)
    assert data.X.toarray().tolist() == [[2, 0, 0], [0, 3, 0]]
    (block,) = read_for(model, path, stream=True)
    assert block.n_features == 3
    assert read_for(model, path, n_features=5).n_features == 5
    with pytest.raises(ParameterError, match="reads features, not the columns"):
        read_for(model, path, schema=schema.LogSchema("q", numeric=("a",)))
    made = rankine.Dataset.from_arrays(
        np.eye(2), [0, 1], feature_names=["b", "a"], columns={"when": [1, 2]}
    )
    made.save(tmp_path / "x.parquet")
    kept = read_for(LinearModel.from_weights([1.0, 2.0]), tmp_path / "x.parquet", columns=["when"])
    assert (kept.n_features, list(kept.columns)) == (2, ["when"])


def test_columns_that_nobody_requested_may_be_absent(log, trained, tmp_path):
    table = pq.read_table(log)
    bare = tmp_path / "bare.parquet"
    pq.write_table(table.drop(["position", "ts", "purchased"]), bare)
    data = read_for(trained, bare)
    assert (data.y == 0).all(), "a part of the label's columns is not enough"
    assert data.position is None
    clicked = read_for(trained, bare, label="clicked")
    assert clicked.y.sum() == table["clicked"].to_numpy().sum()
    for asked in ({"time": "ts"}, {"columns": ["ts"]}, {"label": "purchased"}):
        with raises_for("columns", SchemaError):
            read_for(trained, bare, **asked)
    said = msgspec.structs.replace(logs.schema_of(trained), label=None)
    with raises_for("columns", SchemaError):
        read_for(trained, bare, schema=said)
    whole = read_for(trained, log, base=0, qid_type="str", columns=["clicked"])
    assert set(whole.columns) >= {"clicked", "ts"}
    assert whole.position is not None
    stream = read_for(trained, log, stream=True, block_rows=50)
    assert len(list(stream)) > 3
    assert stream.schema.label == "clicked + 4*purchased"


def test_models_of_coec_are_judged_by_clicks(log, trained, tmp_path):
    note = {**trained.parameters["log"], "label": "coec(purchased)", "item": "brand"}
    model = replace(trained, parameters={**trained.parameters, "log": note})
    data = read_for(model, log)
    assert data.y.tolist() == pq.read_table(log)["purchased"].to_pylist()
    note["columns"] = ["gone", "clicked"]
    model = replace(trained, parameters={**trained.parameters, "log": note})
    kept = read_for(model, log).columns
    assert "gone" not in kept
    assert "clicked" in kept, "neither a feature nor a part of the label"


def test_a_label_may_be_a_formula_of_a_feature(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"q": [1, 1, 2, 2], "x": [1.0, 2.0, 5.0, 4.0]}), path)
    lists = logs.scan(path, query="q", label="x + 0*q", numeric=["x"])
    model = LeastSquaresRanker(scale="none").fit(lists).to_model()
    assert read_for(model, path).y.tolist() == [1.0, 2.0, 5.0, 4.0]


def test_scores_of_retrievers_are_read_from_columns_of_tables(tmp_path):
    model = LinearModel.from_weights([1.0, 2.0], feature_names=["bm25", "dense"])
    model = replace(model, transforms=(RunScores(),))
    pq.write_table(pa.table({
        "qid": [1, 1], "label": [1, 0], "bm25": pa.array([0.5, None]), "dense": [None, 2.0],
        "when": [3, 4],
    }), tmp_path / "runs.parquet")  # fmt: skip
    for path in (tmp_path / "runs.parquet", [tmp_path / "runs.parquet"]):
        data = read_for(model, path, columns=["when"])
        np.testing.assert_array_equal(data.X, [[0.5, np.nan], [np.nan, 2.0]])
        assert data.feature_names == ("bm25", "dense")
        assert list(data.columns) == ["when"]
    pq.write_table(pa.table({"qid": [1], "label": [1], "f1": [1.0], "f2": [2.0]}),
                   tmp_path / "other.parquet")  # fmt: skip
    other = read_for(model, tmp_path / "other.parquet")
    assert (other.feature_names, other.n_features) == (("f1", "f2"), 2)
    stream = read_for(model, tmp_path / "other.parquet", stream=True)
    assert [block.n_rows for block in stream.blocks()] == [1]
    pq.write_table(pa.table({"bm25": pa.array([0.5, None]), "dense": [1.0, 2.0]}),
                   tmp_path / "bare.parquet")  # fmt: skip
    bare = read_for(model, tmp_path / "bare.parquet", label=None, single_query=True)
    np.testing.assert_array_equal(bare.X, [[0.5, 1.0], [np.nan, 2.0]])
    single = pa.table({"qid": [1], "label": [1], "bm25": np.float32([0.1]), "dense": [2.0]})
    pq.write_table(single.set_column(3, "dense", pa.array(np.float32([2.0]))),
                   tmp_path / "single.parquet")  # fmt: skip
    features = LinearModel.from_weights([1.0, 2.0], feature_names=["bm25", "dense"])
    read = read_for(features, tmp_path / "single.parquet")
    loaded = rankine.load(tmp_path / "single.parquet")
    assert (read.X.dtype, read.columns) == (loaded.X.dtype, {}), "no runs of retrievers"
    unnamed = replace(LinearModel.from_weights([1.0, 2.0]), transforms=(RunScores(),))
    assert read_for(unnamed, tmp_path / "other.parquet").X.tolist() == [[1.0, 2.0]]
    (tmp_path / "x.txt").write_text("1 qid:1 1:1 2:2\n")
    assert read_for(model, tmp_path / "x.txt", dense=True).X.tolist() == [[1.0, 2.0]]


# ------------------------------------------------------------------ logs for rankers of tables
TABLE_BRANDS = np.array(["acme", "it's", "zeta", None], dtype=object)
TABLE_COLUMNS = {"query": "session", "label": "clicked", "numeric": ["price"], "one_hot": ["brand"]}
ADDITIVE = {"smooth": 1.0, "pairs": [("price", "brand")]}


def write_table_log(path, n_lists=60, size=8, seed=0):
    rng = np.random.default_rng(seed)
    n = n_lists * size
    price = np.round(rng.normal(size=n), 2)
    brand = rng.integers(0, 4, n)
    good = (price**2 > 0.8) ^ (brand == 1)
    frame = {
        "session": np.repeat(np.arange(n_lists), size),
        "price": [None if gone else x for x, gone in zip(price, rng.random(n) < 0.1, strict=True)],
        "brand": TABLE_BRANDS[brand],
        "clicked": (rng.random(n) < np.where(good, 0.8, 0.1)).astype(int),
    }
    pq.write_table(pa.table(frame), path)
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return write_table_log(tmp_path_factory.mktemp("log") / "log.parquet")


@pytest.fixture(scope="module")
def fitted(stored):
    return AdditiveRanker(**ADDITIVE).fit(logs.scan(stored, **TABLE_COLUMNS))


ROWS = [
    {"price": 1.5, "brand": "acme"}, {"price": None, "brand": "it's"},
    {"price": 0.1, "brand": None}, {"price": -2.0, "brand": "never seen"},
    {"price": 0.3, "brand": "zeta"},
]  # fmt: skip


def test_texts_and_missing_values_have_separate_cells(fitted, stored, tmp_path):
    model = fitted.to_model()
    model.save(tmp_path / "m.rankine")
    scorer = Scorer(LinearModel.load(tmp_path / "m.rankine"))
    scorer.self_test()
    scores = scorer.score(ROWS)
    assert len(set(scores.round(9))) == len(ROWS)
    for i, row in enumerate(ROWS):
        expected = scorer.explain(ROWS, i)
        assert expected.total == pytest.approx(scores[i], abs=1e-12)
        assert model.explain(row).total == pytest.approx(scores[i], abs=1e-12)
    labels = {term.where for term in scorer.explain(ROWS, 1).contributions}
    assert any("brand = it's" in str(label) for label in labels)
    log = logs.scan(stored, like=model)
    assert fitted.score(log.load()) > 0.75
    with pytest.raises(FeatureMismatchError):
        scorer.score([{"colour": "red"}])
    assert scorer.score([{**ROWS[0], "session": 7}])[0] == scores[0], "the log's own column"


@pytest.mark.parametrize("kind", ["memory", "partitions"])
def test_a_log_gives_the_same_bits_in_memory_streams_and_partitions(fitted, stored, kind):
    log = logs.scan(stored, **TABLE_COLUMNS)
    other = log.load() if kind == "memory" else log.to_partitions()
    found = AdditiveRanker(**ADDITIVE).fit(other)
    assert found.coef_.tobytes() == fitted.coef_.tobytes()


def test_tables_treat_hashed_columns_as_texts_and_refuse_crosses(stored):
    expected = {**TABLE_COLUMNS, "one_hot": [], "categorical": ["brand"]}
    found = AdditiveRanker(**ADDITIVE).fit(logs.scan(stored, **expected))
    assert found.pairs_ == [("price", "brand")]
    model = found.to_model()
    assert logs.schema_of(model).categorical == ("brand",)
    again = logs.read_for(model, stored)  # said once that brand had two encodings
    wanted = found.predict(logs.scan(stored, **expected).load())
    np.testing.assert_array_equal(score_dataset(model, again), wanted)
    with raises_for("crosses"):
        AdditiveRanker(**ADDITIVE).fit(
            logs.scan(stored, **TABLE_COLUMNS, crosses=["brand*clicked"])
        )


def test_held_out_lists_are_encoded_as_the_training_was(stored, tmp_path):
    log, other = (
        logs.scan(stored, **TABLE_COLUMNS),
        write_table_log(tmp_path / "v.parquet", 20, seed=1),
    )
    found = AdditiveRanker(pairs=0, reweight=0).fit(log, eval_set=logs.scan(other, **TABLE_COLUMNS))
    assert found.evals_


def test_a_warm_start_from_yesterdays_log(fitted, stored):
    model = fitted.to_model()
    again = AdditiveRanker(**ADDITIVE, tol=1e-8).fit(logs.scan(stored, like=model), coef_init=model)
    fresh = AdditiveRanker(**ADDITIVE, tol=1e-8).fit(logs.scan(stored, **TABLE_COLUMNS))
    np.testing.assert_allclose(again.coef_, fresh.coef_, atol=1e-3)


def test_models_of_texts_are_exported(fitted):
    model = fitted.to_model()
    expected = Scorer(model).score(ROWS)
    room = {}
    exec(export(model, "python").content, room)  # noqa: S102 - the file under test
    np.testing.assert_allclose(room["scores"](ROWS), expected, atol=1e-12)
    text = export(model, "sql").content.decode().split("\n", 1)[1]
    with sqlite3.connect(":memory:") as table:
        table.execute("CREATE TABLE t (price REAL, brand TEXT)")
        table.executemany("INSERT INTO t VALUES (?, ?)", [list(row.values()) for row in ROWS])
        found = [score for (score,) in table.execute(f"SELECT {text} FROM t")]  # noqa: S608
    np.testing.assert_allclose(found, expected, atol=1e-12)
    for target in ("onnx", "elasticsearch", "solr", "vespa", "xgboost"):
        with pytest.raises(ExportError):
            export(model, target)


def test_the_command_trains_on_a_log(stored, tmp_path):
    out = tmp_path / "m.rankine"
    command = [
        "train", str(stored), "--ranker", "additive", "--query", "session", "--label", "clicked",
        "--numeric", "price", "--one-hot", "brand", "--set", "smooth=1.0", "--set", "pairs=1",
        "--out", str(out),
    ]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert rankine.LinearModel.load(out).bins.names == ("price", "brand")


def test_cuts_are_read_from_a_file(stored, tmp_path):
    expected = {"query": "session", "label": "clicked", "binned": ["price"], "one_hot": ["brand"]}
    (tmp_path / "cuts.json").write_text('{"price": [-0.9, 0.9]}')
    log = logs.scan(stored, **expected, cuts=tmp_path / "cuts.json")
    assert [(one.column, one.cuts) for one in log.log_encoding().spec.binned] == [
        ("price", (-0.9, 0.9))
    ]
    model = rankine.ElasticRanker(random_state=0, n_passes=3).fit(log).to_model()
    low, middle, high = Scorer(model).score([{"price": x} for x in (-2.0, 0.0, 2.0)])
    assert low > middle < high
    command = ["train", str(stored), "--ranker", "elastic", "--query", "session", "--label",
               "clicked", "--binned", "price", "--cuts", str(tmp_path / "cuts.json"), "--out",
               str(tmp_path / "e.rankine")]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    binned = rankine.LinearModel.load(tmp_path / "e.rankine").transforms[0].binned
    assert binned[0].cuts == (-0.9, 0.9)


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        ({"brand": [1.0]}, "not binned"),
        ({"price": [2.0, 1.0]}, "increase"),
        ({"price": ["a"]}, "cuts of columns"),
        ("no such file.json", "file of cuts"),
    ],
)
def test_invalid_cuts_are_refused(stored, cuts, expected):
    with pytest.raises((ParameterError, SchemaError), match=expected):
        logs.scan(stored, query="session", binned=["price"], cuts=cuts)


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        ([5, 7], ["5", "x"], ("5", "7", "x")),
        ([True, False], ["true", "x"], ("true", "false", "x")),
        ([None, None], ["a", "b"], ("a", "b")),
        ([1.0, None], [1, 2], ("1", "2")),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_a_category_may_change_its_type_between_files(tmp_path, first, second, texts, suffix):
    for number, values in enumerate((first, second)):
        table = pa.table({"qid": [number] * 2, "label": [0, 1], "brand": values})
        write_rows(table, tmp_path / f"{number}.{suffix}")
    pattern = str(tmp_path / f"*.{suffix}")
    fields = {"query": "qid", "label": "label", "one_hot": ["brand"], "block_rows": 1}
    if suffix == "csv" and isinstance(first[0], float):
        with pytest.raises(SchemaError) as caught:
            logs.scan(pattern, **fields)
        assert caught.value.column == "brand"
        return
    log = logs.scan(pattern, **fields)
    assert log.log_encoding().spec.one_hot[0].values == texts
    fields = {"query": "qid", "label": "label", "numeric": ["label"], "columns": ["brand"]}
    if first[0] is None or isinstance(first[0], float):
        assert logs.scan(pattern, **fields).load().n_rows == 4
        return
    with pytest.raises(SchemaError) as caught:
        logs.scan(pattern, **fields)
    assert caught.value.file == str(tmp_path / f"1.{suffix}")
    assert str(tmp_path / f"0.{suffix}") in caught.value.reason


def write_rows(table, path):
    """Write rows as Parquet, CSV with empty cells for nulls, or JSON lines."""
    rows = table.to_pylist()
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        cells = [
            [str(x) if isinstance(x, float) else category_text(x) for x in row.values()]
            for row in rows
        ]
        lines = [table.column_names, *cells]
        path.write_text("".join(",".join(line) + "\n" for line in lines))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_frames_and_streams_are_logs(log):
    table = pq.read_table(log)
    expected = logs.scan(log, **COLUMNS)
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    sources = [
        table,
        table.to_pandas(),
        polars.from_arrow(table),
        polars.from_arrow(table).lazy(),
        duckdb.from_arrow(table),
        [table.slice(0, 700), table.slice(700)],
    ]
    for source in sources:
        frame = logs.scan(source, **COLUMNS)
        assert frame.load().fingerprint == expected.load().fingerprint
        parts = frame.split("time:9/11,1/11,1/11")
        assert parts["train"].load().n_rows == expected.split()["train"].load().n_rows
        assert frame.log_encoding().spec == expected.log_encoding().spec
    with pytest.raises(ParameterError, match="not a file"):
        frame.to_partitions()
    with pytest.raises(FileKindError):
        logs.scan(table.to_reader(), **COLUMNS)
    with pytest.raises(ParameterError) as caught:
        logs.scan(table, **COLUMNS, format="csv").load()
    assert caught.value.parameter == "format"


@pytest.mark.parametrize("days", [[8, 9, 10, 11], ["2026-11-08", "2026-11-09", "2026-11-10", None]])
def test_a_time_may_be_a_category_too(days):
    days = [day or "2026-11-11" for day in days]
    table = pa.table({"qid": [1, 2, 3, 4], "label": [0, 1, 0, 1], "day": days})
    log = logs.scan(table, query="qid", label="label", one_hot=["day"], time="day")
    assert [part.load().n_rows for part in log.split("time:0.5,0.5").values()] == [2, 2]


def test_numeric_times_are_seconds_in_every_unit(tmp_path):
    moment = 1_700_000_000_123
    blocks = []
    for unit, factor in (("ms", 1), ("us", 1000), ("ns", 1_000_000)):
        stamps = pa.array([moment * factor, None], pa.timestamp(unit, "Asia/Tokyo"))
        table = pa.table({"qid": [1, 1], "label": [0, 1], "ts": stamps})
        blocks.append(logs.scan(table, query="qid", label="label", numeric=["ts"]).load())
    for block in blocks:
        np.testing.assert_array_equal(block.X.toarray(), [[1_700_000_000.123], [np.nan]])
    model = LinearModel.from_weights([2.0], transforms=(blocks[0].encoding.spec,))
    scores = Scorer(model).score([{"ts": "2023-11-14T22:13:20.123Z"}, {"ts": None}])
    assert scores.tolist() == [2 * 1_700_000_000.123, 0.0]
