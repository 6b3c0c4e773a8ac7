"""From a Parquet log to a model that scores raw rows."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace
from zlib import crc32

import msgspec
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
from rankine.core.specs import Binned, LogColumns, OneHot, RunScores
from rankine.data.expressions import parse_expression
from rankine.data.splits import parse_split, query_units
from rankine.evaluation.cross_validation import cross_validate
from rankine.logs import read_for, schema, source
from rankine.logs.source import _filled, _made_up, sample_lists
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
    sent = [pickle.loads(pickle.dumps(partition)) for partition in parts.partitions]  # noqa: S301
    assert len({id(partition.encoding) for partition in sent}) == 1 < len(sent)
    for partition, there in zip(parts.partitions, sent, strict=True):
        assert there.key == partition.key
        assert there.load().fingerprint == partition.load().fingerprint
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


# ------------------------------------------------------------------ encodings, by hand
def test_hashed_weights_are_named_by_the_first_value_met(log):
    lists = logs.scan(log, **options(numeric=["price"], hash_bits=10), block_rows=100)
    encoding = lists.encoding
    block = next(iter(lists.raw.blocks()))
    used = sorted(set(encoding.encode(block).X.indices.tolist()))
    found = encoding.weight_names(used)
    assert found[0] == "price"
    assert set(found[1:]) == {f"brand={name}" for name in BRANDS}
    encoding.raw = SimpleNamespace(blocks=lambda: stopping(block))
    assert encoding.weight_names(used) == found, "no more is read than is needed"
    encoding.raw = None
    assert encoding.weight_names([used[1], 0]) == [f"hash:{used[1] - 1}", "price"]
    assert encoding.weight_names([1, 2]) == ["hash:0", "hash:1"], "the first hashed places"
    encoding.raw = SimpleNamespace(blocks=stopping)
    assert encoding.weight_names([0]) == ["price"]


def stopping(*blocks):
    yield from blocks
    raise AssertionError("the log was read on")


def test_names_are_known_unless_some_are_hashed(log):
    plain = logs.scan(log, query="session_id", numeric=["price"], one_hot=["category"])
    assert set(plain.feature_names) == {"price", *(f"category={kind}" for kind in KINDS)}
    assert plain.n_features == 4
    hashed = logs.scan(log, **options(hash_bits=5))
    assert (hashed.feature_names, hashed.n_features) == (None, 32)
    keys = {lists.encoding.key for lists in (plain, hashed, logs.scan(log, **options(hash_bits=6)))}
    relabelled = logs.scan(log, **options(hash_bits=5) | {"label": "purchased"})
    unlabelled = logs.scan(log, query="session_id", categorical=["brand"], hash_bits=5)
    assert len(keys | {relabelled.encoding.key, unlabelled.encoding.key}) == 5
    assert (unlabelled.load().y == 0).all()


def test_missing_outcomes_count_as_none():
    for given, expected in (
        (np.array([True, None, False], dtype=object), [True, False, False]),
        (np.array([1.0, np.nan]), [1.0, 0.0]),
        (np.array([3, 0]), [3, 0]),
    ):
        assert _filled(given).tolist() == expected


def test_made_up_rows_are_the_same_in_every_version():
    spec = LogColumns(
        numeric=("a", "b"), one_hot=(OneHot("c", ("x", "y", "z")), OneHot("d", ("x", "y"))),
        hashed=("e", "f"), crosses=(("b", "e"),), binned=(Binned("g", (1.0,)),),
    )  # fmt: skip
    names = ["a", *(f"e=v{k}" for k in range(9)), "f x=1", "ee=no"]
    rows = [_made_up(spec, names, i) for i in range(4)]
    assert [row["a"] for row in rows] == [number / 4 for number in (-8, -1, 6, -4)]
    assert [row["b"] for row in rows] == [-3, 5, -4, 4], "whole numbers in a cross"
    assert [row["g"] for row in rows] == [number / 4 for number in (2, -6, 3, -5)]
    assert [row["c"] for row in rows] == ["x", "y", "z", "x"]
    assert [row["d"] for row in rows] == ["y", "x", "y", "x"]
    assert [row["e"] for row in rows] == ["v0", "v1", "v2", "v3"]
    assert [row["f"] for row in rows] == [f"made up {k}" for k in range(4)]
    assert _made_up(spec, names, 9)["e"] == "v1", "eight of the names are dealt out"
    apart = LogColumns(one_hot=tuple(OneHot(name, ("x", "y", "z")) for name in "abc"))
    assert list(_made_up(apart, (), 1).values()) == ["y", "z", "x"]


# ------------------------------------------------------------------ what a fit remembers
@pytest.mark.parametrize("text_ids", [True, False])
@pytest.mark.parametrize("rows", [20, 150, 10_000])
def test_the_lists_of_the_smallest_hashes_are_remembered(
    log, tmp_path, monkeypatch, text_ids, rows
):
    monkeypatch.setattr(source, "SAMPLE", 5)
    path = log
    if not text_ids:
        table = pq.read_table(log)
        numbers = pa.array([int(text.as_py()[1:]) for text in table["session_id"]])
        path = tmp_path / "numbers.parquet"
        pq.write_table(table.set_column(0, "session_id", numbers), path)
    lists = logs.scan(path, **options(hash_bits=7), block_rows=rows)
    whole = lists.load()
    ids = whole.queries.ids
    plain = np.array([crc32(t.encode()) for t in ids.tolist()]) if text_ids else ids
    wanted = ids[np.argsort(query_units(plain.astype(np.int64), np.uint64(0)))[:5]]
    record = lists.encoding.start_record()
    for _ in range(2):
        for block in lists:
            record.add_block(block)
            assert len(record._units) <= 2 * 5
            assert sum(part.n_queries for part in record._parts) == len(record._units)
    found = record._sample()
    assert found.queries.ids.tolist() == wanted.tolist()
    assert (found.read_counts, found.lines, found.encoding) == ({}, None, None)
    assert np.flatnonzero(record._seen).tolist() == np.unique(whole.X.indices).tolist()
    assert len(record._seen) == 2**7
    assert record._bound == record._units.max() < 0.1
    for query in found.queries.ids:
        mine, all_rows = found.y[found.qid == query], whole.y[whole.qid == query]
        assert mine.tolist() == all_rows.tolist()


def test_lists_are_sorted_out_when_there_are_twice_too_many(log, monkeypatch):
    monkeypatch.setattr(source, "SAMPLE", 3)
    lists = logs.scan(log, query="session_id", numeric=["price"]).load()
    record = logs.scan(log, query="session_id", numeric=["price"]).encoding.start_record()
    held = []
    for query in range(8):
        units, one, places = sample_lists(lists.take_queries(np.array([query])), 1)
        record.add((units, one, places))
        held.append(len(record._units))
    assert held == [1, 2, 3, 4, 5, 6, 3, 4]


def test_lists_above_the_bound_are_left_out(log):
    block = logs.scan(log, query="session_id", numeric=["price"]).load()
    units, lists, places = sample_lists(block, 1)
    assert (np.diff(units) > 0).all()
    assert (len(units), lists.n_queries, places.tolist()) == (300, 300, [])
    below, _, _ = sample_lists(block, 1, bound=units[9])
    assert below.tolist() == units[:10].tolist(), "a list at the bound is below it"
    record = logs.scan(log, query="session_id", numeric=["price"]).encoding.start_record()
    assert len(record._seen) == 1
    assert pickle.loads(pickle.dumps(record)).remaining_blocks is None  # noqa: S301


def test_scores_are_distances_from_the_mean_of_their_list():
    data = rankine.Dataset.from_arrays(np.zeros((5, 1)), np.zeros(5), [1, 2, 1, 3, 2])
    found = source.centred(np.array([1.0, 5.0, 3.0, 9.0, 6.0]), data)
    assert found.tolist() == [-1.0, -0.5, 1.0, 0.0, 0.5]


def test_the_summary_is_of_all_lists(log):
    lists = logs.scan(log, **options(numeric=["price"], hash_bits=6))
    model = ElasticRanker(random_state=0, n_passes=1).fit(lists).to_model()
    summary = model.provenance["log"]
    assert summary["lists"] == 300
    record = lists.encoding.start_record()
    bare = replace(model, transforms=(), provenance={}, probes=None, names=None)
    assert "log" not in record.finish(bare).provenance, "nothing was seen"
    record.remaining_blocks = lists
    assert record.finish(bare).provenance["log"]["lists"] == 300
    assert record.remaining_blocks is None
    plain = LinearModel.from_weights([1.0])
    for without in (plain, replace(model, provenance={})):
        with pytest.raises(ParameterError, match="no summary of a training log"):
            source.monitor_log(without, [])
    assert summary["seen"] != ""
    numbers = logs.scan(log, query="session_id", label="clicked", numeric=["price"])
    model = ElasticRanker(random_state=0, n_passes=1).fit(numbers).to_model()
    assert model.provenance["log"].get("seen", "") == ""


# ------------------------------------------------------------------ how a log is read
def test_given_cuts_stay_with_other_labels(log):
    lists = logs.scan(log, query="session_id", label="clicked", binned=["price"],
                      cuts={"price": [10.0, 20.0]})  # fmt: skip
    other = lists.relabelled(parse_expression("purchased"))
    assert other.encoding.spec == lists.encoding.spec
    assert other.encoding.spec.binned[0].cuts == (10.0, 20.0)
    assert "Log of Scan" in repr(other)


def test_missing_values_are_counted_pass_by_pass(log):
    nulls = pq.read_table(log)["brand"].null_count
    lists = logs.scan(log, **options(), block_rows=100)
    assert lists.nulls is None
    for _ in range(2):
        list(lists)
        assert lists.nulls == nulls > 1


def test_a_log_like_another(log, trained):
    lists = logs.scan(log, query="session_id", label="clicked", one_hot=["category"])
    same = logs.scan(log, like=lists)
    assert (same.schema, same.encoding.spec) == (lists.schema, lists.encoding.spec)
    assert same.encoding.key == lists.encoding.key
    judged = logs.scan(log, like=lists, label="purchased")
    assert judged.load().y.sum() == pq.read_table(log)["purchased"].to_numpy().sum()
    with pytest.raises(ParameterError, match="reads features, not the columns"):
        logs.scan(log, like=LinearModel.from_weights([1.0]))
    with pytest.raises(ParameterError, match="to start from reads features"):
        lists.encoding.check_start(LinearModel.from_weights([1.0]))
    cut = logs.scan(log, query="session_id", binned=["price"], cuts={"price": [5.0]})
    other = logs.scan(log, query="session_id", binned=["price"], cuts={"price": [6.0]})
    model = SimpleNamespace(transforms=(other.encoding.spec,), parameters={})
    with pytest.raises(FeatureMismatchError, match="one-hot values or cuts"):
        cut.encoding.check_start(model)
    cut.encoding.check_start(SimpleNamespace(transforms=(cut.encoding.spec,), parameters={}))


def test_columns_that_are_read(log):
    lists = logs.scan(log, **COLUMNS, item="brand", columns=["purchased"], n_features=7, group=[1])
    wanted = {"brand", "category", "price", "clicked", "purchased", "ts"}
    assert set(lists.raw.options.columns) == wanted
    assert lists.raw.options.position == "position"
    assert (lists.raw.options.n_features, lists.raw.options.group) == (None, None)
    data = lists.load()
    assert data.position.tolist() == pq.read_table(log)["position"].to_pylist()
    assert set(data.columns) == wanted
    ignored = lists.encoding.spec.ignored
    assert ignored == ("clicked", "position", "purchased", "session_id", "ts")
    tables = lists.for_tables
    with pytest.raises(ParameterError, match="tables have no cross"):
        tables()
    plain = logs.scan(log, query="session_id", numeric=["price"], one_hot=["category"]).for_tables()
    assert plain.for_tables().encoding.spec is plain.encoding.spec
    assert plain.encoding.spec.tables
    assert plain.encoding.for_tables(()) is plain.encoding
    assert plain.encoding.spec.ignored == (
        "brand", "clicked", "position", "purchased", "session_id", "ts",
    )  # fmt: skip
    assert set(plain.encoding.spec.one_hot[0].values) == set(KINDS.tolist())


def test_positions_of_a_log_by_another_name(log, tmp_path):
    table = pq.read_table(log)
    places = table["position"].to_pylist()
    plain = {"query": "session_id", "numeric": ["price"]}
    assert logs.scan(log, **plain).load().position.tolist() == places, "called position"
    renamed = tmp_path / "renamed.parquet"
    pq.write_table(table.rename_columns({"position": "shown_at"}), renamed)
    assert logs.scan(renamed, **plain).load().position is None
    lists = logs.scan(renamed, **plain, position="shown_at")
    assert lists.load().position.tolist() == places
    assert list(lists.raw.options.columns) == ["price"]
    both = logs.scan(renamed, **{**plain, "numeric": ["price", "ts"]}, position="shown_at")
    assert list(both.raw.options.columns) == ["price", "ts"]
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


def test_partitions_measure_values_where_they_are(log):
    lists = logs.scan(log, query="session_id", label="clicked", one_hot=["category"])
    lists.raw.blocks = stopping
    parts = lists.to_partitions(partition_bytes=30_000)
    assert parts.encoding.feature_names == tuple(f"category={kind}" for kind in
                                                 dict.fromkeys(pq.read_table(log)["category"]
                                                               .to_pylist()))  # fmt: skip


def test_tables_of_a_log_like_another(log):
    wanted = {"query": "session_id", "numeric": ["price"], "one_hot": ["category"]}
    lists = logs.scan(log, **wanted)
    tables = logs.scan(log, like=lists).for_tables()
    assert tables.encoding.spec.tables
    assert tables.encoding.spec == lists.for_tables().encoding.spec
    assert tables.load().X.shape[1] == 2


# ------------------------------------------------------------------ how a model reads
def test_a_model_of_features_reads_files_of_features(tmp_path):
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


def test_what_was_not_asked_for_may_be_absent(log, trained, tmp_path):
    table = pq.read_table(log)
    bare = tmp_path / "bare.parquet"
    pq.write_table(table.drop(["position", "ts", "purchased"]), bare)
    data = read_for(trained, bare)
    assert (data.y == 0).all(), "a part of the label's columns is not enough"
    assert data.position is None
    clicked = read_for(trained, bare, label="clicked")
    assert clicked.y.sum() == table["clicked"].to_numpy().sum()
    for asked in ({"time": "ts"}, {"columns": ["ts"]}, {"label": "purchased"}):
        with pytest.raises(SchemaError, match=r"no column '(ts|purchased)'"):
            read_for(trained, bare, **asked)
    said = msgspec.structs.replace(logs.schema_of(trained), label=None)
    with pytest.raises(SchemaError, match="no column"):
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


def test_a_label_may_be_all_that_a_log_holds(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"q": [1, 1, 2, 2], "x": [1.0, 2.0, 5.0, 4.0]}), path)
    lists = logs.scan(path, query="q", label="x + 0*q", numeric=["x"])
    model = LeastSquaresRanker(scale="none").fit(lists).to_model()
    assert read_for(model, path).y.tolist() == [1.0, 2.0, 5.0, 4.0]


def test_runs_of_retrievers_are_columns_of_tables(tmp_path):
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
