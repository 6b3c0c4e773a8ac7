"""Raw logs as columns of tables: numbers with their gaps, texts as cells."""

import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from rankine import AdditiveRanker, LinearModel, Scorer, logs
from rankine.cli.train import app
from rankine.core.errors import ExportError, FeatureMismatchError, ParameterError, SchemaError
from rankine.export import export
from rankine.transforms.apply import score_dataset

BRANDS = np.array(["acme", "it's", "zeta", None], dtype=object)
COLUMNS = {"query": "session", "label": "clicked", "numeric": ["price"], "one_hot": ["brand"]}
TOLD = {"smooth": 1.0, "pairs": [("price", "brand")]}


def write(path, n_lists=60, size=8, seed=0):
    rng = np.random.default_rng(seed)
    n = n_lists * size
    price = np.round(rng.normal(size=n), 2)
    brand = rng.integers(0, 4, n)
    good = (price**2 > 0.8) ^ (brand == 1)
    frame = {
        "session": np.repeat(np.arange(n_lists), size),
        "price": [None if gone else x for x, gone in zip(price, rng.random(n) < 0.1, strict=True)],
        "brand": BRANDS[brand],
        "clicked": (rng.random(n) < np.where(good, 0.8, 0.1)).astype(int),
    }
    pq.write_table(pa.table(frame), path)
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return write(tmp_path_factory.mktemp("log") / "log.parquet")


@pytest.fixture(scope="module")
def fitted(stored):
    return AdditiveRanker(**TOLD).fit(logs.scan(stored, **COLUMNS))


ROWS = [
    {"price": 1.5, "brand": "acme"}, {"price": None, "brand": "it's"},
    {"price": 0.1, "brand": None}, {"price": -2.0, "brand": "never seen"},
    {"price": 0.3, "brand": "zeta"},
]  # fmt: skip


def test_texts_and_gaps_have_cells_of_their_own(fitted, stored, tmp_path):
    model = fitted.to_model()
    model.save(tmp_path / "m.rankine")
    scorer = Scorer(LinearModel.load(tmp_path / "m.rankine"))
    scorer.self_test()
    scores = scorer.score(ROWS)
    assert len(set(scores.round(9))) == len(ROWS)
    for i, row in enumerate(ROWS):
        told = scorer.explain(ROWS, i)
        assert told.total == pytest.approx(scores[i], abs=1e-12)
        assert model.explain(row).total == pytest.approx(scores[i], abs=1e-12)
    labels = {term.where for term in scorer.explain(ROWS, 1).contributions}
    assert any("brand = it's" in str(label) for label in labels)
    log = logs.scan(stored, like=model)
    assert fitted.score(log.load()) > 0.75
    with pytest.raises(FeatureMismatchError, match="colour"):
        scorer.score([{"colour": "red"}])
    assert scorer.score([{**ROWS[0], "session": 7}])[0] == scores[0], "the log's own column"


@pytest.mark.parametrize("kind", ["memory", "partitions"])
def test_a_log_gives_the_same_bits_wherever_it_is(fitted, stored, kind):
    log = logs.scan(stored, **COLUMNS)
    other = log.load() if kind == "memory" else log.to_partitions()
    found = AdditiveRanker(**TOLD).fit(other)
    assert found.coef_.tobytes() == fitted.coef_.tobytes()


def test_hashed_columns_are_texts_too_and_crosses_are_pairs(stored):
    told = {**COLUMNS, "one_hot": [], "categorical": ["brand"]}
    found = AdditiveRanker(**TOLD).fit(logs.scan(stored, **told))
    assert found.pairs_ == [("price", "brand")]
    model = found.to_model()
    assert logs.schema_of(model).categorical == ("brand",)
    again = logs.read_for(model, stored)  # said once that brand had two encodings
    wanted = found.predict(logs.scan(stored, **told).load())
    np.testing.assert_array_equal(score_dataset(model, again), wanted)
    with pytest.raises(ParameterError, match="pairs="):
        AdditiveRanker(**TOLD).fit(logs.scan(stored, **COLUMNS, crosses=["brand*clicked"]))


def test_held_out_lists_are_encoded_as_the_training_was(stored, tmp_path):
    log, other = logs.scan(stored, **COLUMNS), write(tmp_path / "v.parquet", 20, seed=1)
    found = AdditiveRanker(pairs=0, reweight=0).fit(log, eval_set=logs.scan(other, **COLUMNS))
    assert found.evals_


def test_a_warm_start_from_yesterdays_log(fitted, stored):
    model = fitted.to_model()
    again = AdditiveRanker(**TOLD, tol=1e-8).fit(logs.scan(stored, like=model), coef_init=model)
    fresh = AdditiveRanker(**TOLD, tol=1e-8).fit(logs.scan(stored, **COLUMNS))
    np.testing.assert_allclose(again.coef_, fresh.coef_, atol=1e-3)


def test_exports_of_texts(fitted):
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
        with pytest.raises(ExportError, match="brand"):
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


def test_cuts_come_from_a_file_where_one_is_given(stored, tmp_path):
    told = {"query": "session", "label": "clicked", "binned": ["price"], "one_hot": ["brand"]}
    (tmp_path / "cuts.json").write_text('{"price": [-0.9, 0.9]}')
    log = logs.scan(stored, **told, cuts=tmp_path / "cuts.json")
    assert [(one.column, one.cuts) for one in log.encoding.spec.binned] == [("price", (-0.9, 0.9))]
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
    ("cuts", "told"),
    [
        ({"brand": [1.0]}, "not binned"),
        ({"price": [2.0, 1.0]}, "increase"),
        ({"price": ["a"]}, "cuts of columns"),
        ("no such file.json", "file of cuts"),
    ],
)
def test_cuts_that_are_none_are_refused(stored, cuts, told):
    with pytest.raises((ParameterError, SchemaError), match=told):
        logs.scan(stored, query="session", binned=["price"], cuts=cuts)
