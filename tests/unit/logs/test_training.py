"""From a Parquet log to a model that scores raw rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankine import ElasticRanker, LinearModel, Scorer
from rankine.core.errors import FeatureMismatchError, FileKindError, LimitError, ParameterError
from rankine.logs.scan import fit_one_hot, log_spec, read_for, scan_log
from rankine.logs.training import parse_split, train_from_log
from rankine.metrics import evaluate
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


@pytest.fixture(scope="module")
def trained(log):
    ranker = ElasticRanker(random_state=0, scale="query", metric="mrr")
    return train_from_log(
        ranker,
        log,
        query="session_id",
        label="clicked + 4*purchased",
        categorical=["brand"],
        one_hot=["category"],
        numeric=["price"],
        crosses=["brand*category"],
        position="position",
        split="time:9/11,1/11,1/11",
        time_column="ts",
    )


def test_learns_and_measures_on_later_lists(trained):
    assert trained.queries == {"train": 245, "valid": 28, "test": 27}
    assert set(trained.measured) == {"valid", "test"}
    assert trained.measured["valid"] > 0.6  # 0.4 by chance
    assert trained.model.provenance["measured"] == trained.measured


def test_names_of_the_surviving_weights(trained):
    weights = dict(zip(trained.model.weight_names, trained.model.values.tolist(), strict=True))
    assert weights["brand=acme"] > weights["brand=tyrell"] > weights["brand=cyberdyne"]
    assert weights["price"] < 0
    assert "category=hats" in weights
    assert any(name.startswith("brand=acme x category=") for name in weights)


def test_saved_model_scores_raw_rows(trained, tmp_path):
    trained.model.save(tmp_path / "m.rankine")
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
    data = read_for(trained.model, tmp_path / "new.parquet")
    assert (data.y == 0).all()
    assert np.isfinite(score_dataset(trained.model, data)).all()


def options(**more):
    return {"query": "session_id", "label": "clicked", "categorical": ["brand"], **more}


def test_warm_start_continues_on_the_next_log(log, trained, tmp_path):
    write_log(tmp_path / "next.parquet", lists=30, seed=7)
    same = options(one_hot=["category"], numeric=["price"], crosses=["brand*category"])
    ranker = ElasticRanker(random_state=0, scale="query")
    train_from_log(ranker, tmp_path / "next.parquet", warm_start=trained.model, **same)
    cold = ElasticRanker(random_state=0, scale="query")
    train_from_log(cold, tmp_path / "next.parquet", **same)
    assert ranker.progressive_ > cold.progressive_
    with pytest.raises(FeatureMismatchError, match="other columns"):
        train_from_log(ElasticRanker(), log, warm_start=trained.model, **options())


def test_the_cut_of_the_stream_changes_nothing(log):
    spec = log_spec(numeric=["price"], categorical=["brand", "category"], hash_bits=12)
    coefs = [
        ElasticRanker(random_state=0, scale="query")
        .fit(scan_log(log, spec, query="session_id", label="clicked", block_rows=rows))
        .coef_
        for rows in (64, 100_000)
    ]
    np.testing.assert_array_equal(*coefs)


def test_other_rankers_train_on_logs(log):
    from rankine import LeastSquaresRanker

    done = train_from_log(LeastSquaresRanker(scale="query"), log, hash_bits=8, **options())
    assert done.model.nnz > 0
    with pytest.raises(ParameterError, match="cannot keep checkpoints"):
        train_from_log(LeastSquaresRanker(), log, checkpoint="here", **options())


def test_a_ranker_fitted_to_a_log_gives_a_model_of_raw_rows(log, trained):
    """``fit`` takes the log itself; ``train_from_log`` adds the split and the measuring."""
    spec = log_spec(numeric=["price"], categorical=["brand"], hash_bits=8)
    stream = scan_log(log, spec, query="session_id", label="clicked")
    model = ElasticRanker(random_state=0, scale="query").fit(stream).to_model()
    scorer = Scorer(model)
    rows = [{"price": 3.0, "brand": "acme"}, {"price": 30.0, "brand": "cyberdyne"}]
    scores = scorer.score(rows)
    assert scores[0] > scores[1]
    assert model.parameters["log"]["label"] == "clicked"
    assert any(name.startswith("brand=") for name in model.weight_names)


def test_one_hot_has_a_limit(log):
    values = fit_one_hot(log, ["category"], query="session_id")
    assert sorted(values[0].values) == ["bags", "hats", "shoes"]
    with pytest.raises(LimitError, match="more than 2 values"):
        fit_one_hot(log, ["category"], query="session_id", max_values=2)


def test_a_text_file_is_no_log(tmp_path):
    for name, reason in (("log.parquet", "the content does not"), ("log.txt", "Parquet or Arrow")):
        path = tmp_path / name
        path.write_text("1 qid:1 1:0.5\n")
        with pytest.raises(FileKindError, match=reason):
            train_from_log(ElasticRanker(), path, **options())


@pytest.mark.parametrize(
    "text", ["time:", "9/11,2/11", "time:1", "time:1,0", "time:1,x", "time:1,1/0"]
)
def test_bad_splits(text):
    with pytest.raises(ParameterError, match="split"):
        parse_split(text)


def test_split_shares():
    assert parse_split("time:9/11,1/11,1/11") == pytest.approx((9 / 11, 1 / 11, 1 / 11))


def test_stored_rows_are_made_up_and_reach_every_kind_of_weight(trained, log):
    rows = [probe.raw for probe in trained.model.probes.rows]
    assert len(rows) == 4
    assert len(set(trained.model.probes.scores)) > 1
    seen = pq.read_table(log, columns=["price", "brand", "category"]).to_pylist()
    assert not any(row in seen for row in rows)
    named = {name.split("=")[1] for name in trained.model.weight_names if name.count("=") == 1}
    assert {row["brand"] for row in rows} & named
    assert {row["category"] for row in rows} <= set(KINDS.tolist())
    Scorer(trained.model).self_test()
