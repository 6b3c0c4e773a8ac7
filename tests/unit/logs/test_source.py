"""From a Parquet log to a model that scores raw rows."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine import DominationRanker, ElasticRanker, LeastSquaresRanker, LinearModel, Scorer, logs
from rankine.core.errors import (
    FeatureMismatchError,
    FileKindError,
    LimitError,
    ParameterError,
    RankineError,
    SchemaError,
)
from rankine.data.splits import parse_split
from rankine.evaluation.cross_validation import cross_validate
from rankine.logs import read_for, schema
from rankine.logs.source import sample_lists
from rankine.metrics import evaluate
from rankine.rankers.registry import ranker_class
from rankine.transforms import categories
from rankine.transforms.apply import score_dataset

BRANDS = np.array(["acme", "zed", "tyrell", "weyland", "cyberdyne"])
KINDS = np.array(["shoes", "hats", "bags"])


def write_log(path, lists=300, seed=0, outcome=True):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, lists)
    n = sizes.sum()
    brand, kind = rng.integers(0, 5, n), rng.integers(0, 3, n)
    price = np.round(rng.lognormal(3, 1, n), 2)
    utility = np.array([2.0, 1, 0, -1, -2])[brand] + (kind == 1) - 0.5 * np.log(price)
    utility += 0.5 * rng.gumbel(size=n)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    clicked = np.zeros(n, dtype=np.int64)
    for a, b in zip(starts[:-1], starts[1:], strict=True):
        clicked[a + np.argmax(utility[a:b])] = 1
    brand_names = [None if rng.random() < 0.02 else str(BRANDS[b]) for b in brand]
    columns = {
        "session_id": pa.array([f"s{k:06d}" for k in np.repeat(np.arange(lists), sizes)]),
        "price": price,
        "brand": pa.array(brand_names).dictionary_encode(),
        "category": KINDS[kind].tolist(),
        "position": np.concatenate([np.arange(1, s + 1) for s in sizes]),
        "ts": np.repeat(np.arange(lists) + 1_700_000_000, sizes),
    }
    if outcome:
        columns["clicked"] = clicked
        columns["purchased"] = clicked * (rng.random(n) < 0.3)
    pq.write_table(pa.table(columns), path, row_group_size=500)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write_log(path)
    return path


COLUMNS = {
    "query": "session_id",
    "label": "clicked + 4*purchased",
    "categorical": ["brand"],
    "one_hot": ["category"],
    "numeric": ["price"],
    "crosses": ["brand*category"],
    "position": "position",
    "time": "ts",
}


@pytest.fixture(scope="module")
def trained(log):
    parts = logs.scan(log, **COLUMNS).split("time:9/11,1/11,1/11")
    return ElasticRanker(random_state=0, scale="query", metric="mrr").fit(parts["train"]).to_model()


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


def options(**more):
    return {"query": "session_id", "label": "clicked", "categorical": ["brand"], **more}


def test_training_goes_on_with_the_next_log(log, trained, tmp_path):
    write_log(tmp_path / "next.parquet", lists=30, seed=7)
    again = logs.scan(tmp_path / "next.parquet", like=trained)
    assert again.schema == logs.schema_of(trained)
    warm = ElasticRanker(random_state=0, scale="query").fit(again, coef_init=trained)
    assert warm.progressive_ > ElasticRanker(random_state=0, scale="query").fit(again).progressive_
    with pytest.raises(FeatureMismatchError, match="other columns"):
        logs.scan(log, like=trained, numeric=["position"])
    with pytest.raises(FeatureMismatchError, match="other columns"):
        ElasticRanker(scale="query").fit(logs.scan(log, **options()), coef_init=trained)


def test_the_cut_of_the_stream_changes_nothing(log):
    wanted = options(numeric=["price"], binned=["ts"], one_hot=["category"], hash_bits=12)
    models = [
        ElasticRanker(random_state=0, scale="query").fit(logs.scan(log, **wanted, block_rows=rows))
        for rows in (64, 100_000)
    ]
    assert len({ranker.to_model().digest for ranker in models}) == 1


def test_a_sample_of_lists_does_not_keep_the_blocks_it_comes_from(log):
    for block in logs.scan(log, **COLUMNS, block_rows=200):
        units, lists, _ = sample_lists(block, 1, bound=0.02)
        assert lists.n_queries == len(units)
        assert not np.shares_memory(lists.y, block.y)
        assert not np.shares_memory(lists.columns["price"], block.columns["price"])


def test_texts_are_hashed_once_a_dictionary(tmp_path, monkeypatch):
    from rankine.transforms import log_columns

    write_log(tmp_path / "log.parquet", lists=2000)
    looked_up = []

    def places_of(places, values):
        looked_up.append(len(values))
        return categories.places_of(places, values)

    monkeypatch.setattr(log_columns, "places_of", places_of)
    log = logs.scan(tmp_path / "log.parquet", **{**COLUMNS, "crosses": []}, block_rows=100)
    rows = sum(block.n_rows for block in log)
    assert sum(looked_up) < rows / 10


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
        with pytest.raises(ParameterError, match="cannot keep checkpoints"):
            ranker.fit(lists, checkpoint="here")


def test_a_log_goes_where_lists_go(log, tmp_path):
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
    assert parts.encoding.spec == whole.encoding.spec
    ranker = ranker_class(name)(scale="query", random_state=0)
    models = [ranker.fit(source).to_model() for source in (parts, parts)]
    assert models[0].digest == models[1].digest
    assert logs.schema_of(models[0]) == whole.schema
    if name == "ranksvm":
        np.testing.assert_allclose(
            models[0].to_dense(), ranker.fit(whole).to_model().to_dense(), atol=1e-3
        )


def test_partitions_that_are_sent_share_one_encoding(log):
    wanted = {"query": "session_id", "label": "clicked", "categorical": ["brand", "category"]}
    parts = rankine.distributed.scan(logs.scan(log, **wanted), partition_bytes=30_000)
    sent = [pickle.loads(pickle.dumps(piece)) for piece in parts.pieces]  # noqa: S301
    assert len({id(piece.encoding) for piece in sent}) == 1 < len(sent)
    for piece, there in zip(parts.pieces, sent, strict=True):
        assert there.key == piece.key
        assert there.load().fingerprint == piece.load().fingerprint
    other = rankine.distributed.scan(logs.scan(log, **{**wanted, "label": "purchased"}))
    assert pickle.loads(pickle.dumps(other.encoding)) is not sent[0].encoding  # noqa: S301


def test_few_rows_bring_few_texts_with_them(log):
    wanted = {"query": "session_id", "label": "clicked", "categorical": ["brand", "session_id"]}
    data = next(iter(logs.scan(log, **wanted)))
    rows = np.array([0, 5, 17])
    few = data.take(rows)
    coded = few.columns.coded("session_id")
    assert coded is not None
    assert len(coded.texts) <= len(rows)
    for name in ("session_id", "brand"):
        assert few.columns[name].tolist() == data.columns[name][rows].tolist()


def test_models_of_other_columns_are_compared_on_one_log(log, trained, tmp_path):
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


def test_a_model_takes_no_other_features_than_its_own(log, trained):
    same = {name: value for name, value in COLUMNS.items() if name != "time"}
    assert logs.read_for(trained, log, **same).n_features == trained.n_features
    for other in ({"numeric": ["ts"]}, {"hash_bits": 8}, {"one_hot": ["brand"]}):
        with pytest.raises((FeatureMismatchError, ParameterError), match=r"column"):
            logs.read_for(trained, log, **other)
    with pytest.raises(SchemaError, match="no column 'cliqued'"):
        logs.read_for(trained, log, label="cliqued")


def test_a_schema_is_said_once(log, trained, tmp_path):
    proposed, why = logs.propose_schema(log)
    assert proposed.query == "session_id"
    assert proposed.label == "clicked + 4*purchased"
    assert (proposed.numeric, proposed.one_hot) == (("price",), ("brand", "category"))
    assert (proposed.position, proposed.time) == ("position", "ts")
    assert why["brand"] == f"5 values in {pq.read_metadata(log).num_rows:,} rows"
    for said in (proposed, logs.schema_of(trained)):
        file = tmp_path / "schema.toml"
        file.write_text(said.to_toml())
        assert logs.read_schema(file) == said
    moved = schema.LogSchema.make({"binned": ["price"]}, proposed)
    assert (moved.binned, moved.numeric, moved.one_hot) == (("price",), (), proposed.one_hot)
    for text, reason in (
        ("query = 3", "schema"), ("numeric = ['a']", "query"), ("query = 'q'\nx = 1", "fields"),
        ("query = 'q'", "no column"), ("query = 'q'\nnumeric = ['a', 'a']", "once"), ("[", "TOML"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises((SchemaError, ParameterError), match=reason):
            logs.read_schema(file)


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
    assert log.feature_names[:4] == ("size=0", "size=7", "new=true", "new=false")
    np.testing.assert_array_equal(data.X.toarray()[:3].argmax(axis=1), [6, 0, 1])
    np.testing.assert_array_equal(data.X.toarray()[0], [0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(data.y, [1, 0, 0, 1, 0, 0])


def test_a_column_of_whole_numbers_is_a_number_and_a_part_of_a_cross(log, tmp_path):
    wanted = {"query": "session_id", "label": "clicked", "numeric": ["price", "position"]}
    source = logs.scan(log, **wanted, crosses=[("brand", "position")])
    model = ElasticRanker(random_state=0).fit(source).to_model()
    model.save(tmp_path / "both.rankine")
    rows = pq.read_table(log).to_pylist()[:9]
    again = LinearModel.load(tmp_path / "both.rankine")
    assert np.array_equal(Scorer(again).score(rows), Scorer(model).score(rows))


def test_one_hot_has_a_limit(log, monkeypatch):
    wanted = {"query": "session_id", "one_hot": ["category"]}
    assert sorted(logs.scan(log, **wanted).feature_names) == [
        f"category={k}" for k in sorted(KINDS)
    ]
    monkeypatch.setattr(schema, "MAX_VALUES", 2)
    with pytest.raises(LimitError, match="more than 2 values"):
        logs.scan(log, **wanted).load()


def test_a_text_file_is_no_log(tmp_path):
    for name, reason in (("log.parquet", "the content does not"), ("log.txt", "Parquet, Arrow")):
        path = tmp_path / name
        path.write_text("1 qid:1 1:0.5\n")
        with pytest.raises(FileKindError, match=reason):
            ElasticRanker().fit(logs.scan(path, **options()))


@pytest.mark.parametrize(
    "text", ["time:", "9/11,2/11", "time:1", "time:1,0", "time:1,x", "time:1,1/0"]
)
def test_bad_splits(text):
    with pytest.raises(ParameterError, match="split"):
        parse_split(text)


def test_split_shares():
    assert parse_split("time:9/11,1/11,1/11") == pytest.approx((9 / 11, 1 / 11, 1 / 11))


def test_stored_rows_are_made_up_and_reach_every_kind_of_weight(trained, log):
    rows = [probe.raw for probe in trained.probes.rows]
    assert len(rows) == 4
    assert len(set(trained.probes.scores)) > 1
    seen = pq.read_table(log, columns=["price", "brand", "category"]).to_pylist()
    assert not any(row in seen for row in rows)
    named = {name.split("=")[1] for name in trained.weight_names if name.count("=") == 1}
    assert {row["brand"] for row in rows} & named
    assert {row["category"] for row in rows} <= set(KINDS.tolist())
    Scorer(trained).self_test()


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
            "two different",
            "label",
        ),
    ],
    ids=["missing", "renamed", "text", "number", "empty", "one class"],
)
def test_a_bad_day_says_what_to_do(log, trained, tmp_path, change, reason, fix):
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


def test_a_model_of_the_first_version_says_its_schema(trained):
    note = {"query": "session_id", "label": "clicked", "position": None, "missing": "zero"}
    old = replace(trained, parameters={**trained.parameters, "log": note})
    found = logs.schema_of(old)
    assert (found.query, found.label, found.one_hot) == ("session_id", "clicked", ("category",))


def test_features_are_proposed_after_outcomes_and_roles(tmp_path):
    columns = {"clicked": [1, 0], "session_id": [1, 1], "position": [1, 2], "price": [1.5, 2.5]}
    pq.write_table(pa.table({**columns, "brand": ["a", "b"]}), tmp_path / "log.parquet")
    proposed, why = logs.propose_schema(tmp_path / "log.parquet")
    assert (proposed.label, proposed.position) == ("clicked", "position")
    assert proposed.numeric == ("price",)
    assert set(why) == {"price", "brand"}
