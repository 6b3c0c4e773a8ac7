"""Batches are scored as files are: the same bits, lists across batches, and in engines."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine import AdditiveRanker, ElasticRanker, LinearModel, RankSVM, arrow, logs
from rankine.core.errors import ParameterError, QueryOrderError, SchemaError
from rankine.core.specs import ListRange, MissingValues
from rankine.logs import read_for
from rankine.transforms.apply import score_dataset
from reference.raw_logs import options, write_log

pytestmark = pytest.mark.filterwarnings("ignore:constant within lists")
NAMES = ("bm25", "age", "spam")


def rows(n_lists=40, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, n_lists)
    n = int(sizes.sum())
    X = rng.normal(size=(n, 3)).round(2)
    X[rng.random((n, 3)) < 0.1] = np.nan
    return pa.table(
        {
            "search": np.repeat([f"q{k}" for k in rng.permutation(n_lists)], sizes),
            "sku": pa.array([{"shop": "a", "id": i} for i in range(n)]),
            "label": pa.nulls(n, pa.int64()),
            **{name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate(NAMES)},
        }
    )


def model(*transforms):
    return LinearModel.from_weights([1.0, -0.5, 2.0], NAMES, transforms=transforms)


def list_model():
    return model(MissingValues("query_min"), ListRange())


def expected(table, scoring_model, query="search", **more):
    names = [query, *NAMES]
    data = read_for(scoring_model, table.select(names), query=query, label=None, **more)
    scores = score_dataset(scoring_model, data)
    ranks = np.empty(len(scores), dtype=np.int64)
    for q in range(data.n_queries):
        members = data.queries.rows_of(q)
        ranks[members[np.argsort(-scores[members], kind="stable")]] = np.arange(1, len(members) + 1)
    return scores, ranks


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lists_that_continue_in_the_next_batch_are_scored_whole(size):
    table = rows()
    scores, ranks = expected(table, list_model())
    score = arrow.scorer(list_model(), query="search", keep=["sku", "label"])
    batches = [table.schema.empty_table().to_batches(), table.to_batches(max_chunksize=size)]
    result = pa.Table.from_batches(score(batch for part in batches for batch in part))
    assert result.column_names == ["search", "sku", "label", "score", "rank"]
    assert result.schema == score.schema(table.schema)
    assert result["score"].to_numpy().tobytes() == scores.tobytes()
    assert result["rank"].to_pylist() == ranks.tolist()
    assert result.select(["search", "sku", "label"]).equals(
        table.select(["search", "sku", "label"])
    )


def test_rows_without_lists_are_scored_one_by_one():
    table = rows()
    plain = model(MissingValues("zero"))
    score = pickle.loads(pickle.dumps(arrow.scorer(plain)))  # noqa: S301 - our own bytes
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    result = score(shuffled.to_reader(max_chunksize=13)).read_all()
    assert result.column_names == ["score"]
    assert result["score"].to_numpy().tobytes() == expected(shuffled, plain)[0].tobytes()


def test_a_partition_may_be_empty():
    score = arrow.scorer(model(), query="search")
    assert list(score(iter([]))) == []
    empty = rows().schema.empty_table()
    assert score(empty).num_rows == 0
    assert score(empty).schema == score.schema(empty.schema)


def test_models_of_raw_logs_read_raw_columns(tmp_path):
    write_log(tmp_path / "log.parquet")
    log = logs.scan(tmp_path / "log.parquet", **options(numeric=["price"], one_hot=["category"]))
    table = pq.read_table(tmp_path / "log.parquet").drop(["clicked", "purchased"])
    for ranker in (ElasticRanker(random_state=0), AdditiveRanker(pairs=0)):
        fitted = ranker.fit(log).to_model()
        score = arrow.scorer(fitted, keep=["price", "ts"])  # the query column is the model's
        result = pa.Table.from_batches(score(table.to_batches(max_chunksize=50)))
        data = read_for(fitted, tmp_path / "log.parquet")
        assert result["score"].to_numpy().tobytes() == score_dataset(fitted, data).tobytes()
        assert result.column_names == ["session_id", "price", "ts", "score", "rank"]


def test_models_without_names_read_all_other_columns():
    table = rows().select(["search", "label", *NAMES]).rename_columns(["qid", "label", *"abc"])
    unnamed = LinearModel.from_weights([1.0, -0.5, 2.0], transforms=(MissingValues("zero"),))
    scores, _ = expected(rows(), model(MissingValues("zero")))
    assert arrow.scorer(unnamed, query="qid")(table)["score"].to_pylist() == scores.tolist()
    with pytest.raises(SchemaError) as caught:
        arrow.scorer(unnamed, query="qid")(table.append_column("d", table["a"]))
    assert caught.value.parameter == "keep"


def test_sparse_rows_are_two_lists():
    lists = pa.table({"indices": [[1, 3], [2], []], "values": [[1.0, 2.0], [4.0], []]})
    for names in (None, NAMES):
        linear = LinearModel.from_weights([1.0, -0.5, 2.0], names)
        assert arrow.scorer(linear)(lists)["score"].to_pylist() == [5.0, -2.0, 0.0]


def test_wrong_columns_are_errors_before_rows_are_read():
    def broken():
        yield rows().to_batches()[0]
        raise AssertionError("read on")

    for how, parameter in (
        ({"query": "session"}, "query"),
        ({"keep": ["title"]}, "keep"),
        ({"query": "search"}, "features"),
    ):
        scoring = LinearModel.from_weights([1.0], ["title"]) if parameter == "features" else model()
        with pytest.raises(SchemaError) as caught:
            next(arrow.scorer(scoring, **how)(broken()))
        assert caught.value.parameter == parameter
    for keep in (["rank"], ["score"], ["sku", "sku"]):
        with pytest.raises(ParameterError) as refused:
            arrow.scorer(model(), query="search", keep=keep)
        assert refused.value.parameter == "keep"
    with pytest.raises(ParameterError) as refused:
        arrow.scorer(list_model())
    assert refused.value.parameter == "query"


def test_a_list_in_two_places_is_an_error():
    table = rows()
    with pytest.raises(QueryOrderError):
        list(arrow.scorer(list_model(), query="search")([*table.to_batches(), *table.to_batches()]))


def test_batches_of_other_types_are_an_error():
    table = rows()
    position = table.schema.get_field_index("age")
    other = table.set_column(position, "age", table["age"].cast(pa.float32()))
    with pytest.raises(SchemaError):
        list(arrow.scorer(list_model(), query="search")([*table.to_batches(), *other.to_batches()]))


def test_an_error_of_the_engine_is_not_taken_for_a_damaged_file():
    class CancelledError(OSError):
        pass

    def cancelled():
        yield rows().to_batches()[0]
        raise CancelledError

    with pytest.raises(CancelledError):
        list(arrow.scorer(list_model(), query="search")(cancelled()))


def test_polars_and_duckdb_give_the_same_bits():
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table = rows().drop(["sku"])
    score = arrow.scorer(list_model(), query="search", keep=["age"])
    reference = score(table)
    frame = polars.from_arrow(table)
    for scored in (score(frame), score(frame.lazy()), score(table.to_pandas())):
        assert scored["score"].to_numpy().tobytes() == reference["score"].to_numpy().tobytes()
        assert scored["rank"].to_pylist() == reference["rank"].to_pylist()
    with duckdb.connect() as connection:
        connection.register("log", table)
        scored = score(connection.sql("SELECT * FROM log").to_arrow_reader(10))
        cursor = connection.cursor()
        cursor.register("scored", scored)
        best = cursor.execute("SELECT count(*), sum(score) FROM scored WHERE rank = 1")
        n_lists, total = best.fetchone()
    assert n_lists == 40
    best_rows = reference.filter(pa.compute.equal(reference["rank"], 1))
    assert total == pytest.approx(pa.compute.sum(best_rows["score"]).as_py())


@pytest.mark.full
@pytest.mark.timeout(600)  # starting Spark takes most of it
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark_gives_the_same_bits(tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark and Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    table = rows(300).drop(["sku"])
    table = table.append_column("rank_label", pa.array(np.arange(table.num_rows) % 3))
    score = arrow.scorer(list_model(), query="search", keep=["age"])
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    session = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
    try:
        pq.write_table(table, tmp_path / "log.parquet")
        frame = session.read.parquet(str(tmp_path / "log.parquet"))
        grouped = frame.repartition("search").sortWithinPartitions("search")
        schema = "search string, age double, score double, rank int"
        grouped.mapInArrow(score, schema).write.parquet(str(tmp_path / "scores"))
        lists = frame.repartition(3, "search").sortWithinPartitions("search", "bm25", "age", "spam")
        rated = lists.selectExpr("search", "rank_label label", "bm25", "age", "spam")
        rated.write.parquet(str(tmp_path / "train"))
    finally:
        session.stop()
    keys = [("search", "ascending"), ("rank", "ascending")]
    scored, reference = pq.read_table(tmp_path / "scores").sort_by(keys), score(table).sort_by(keys)
    assert scored["score"].to_numpy().tobytes() == reference["score"].to_numpy().tobytes()

    # A folder that Spark wrote trains the model of one file with its rows.
    files = sorted((tmp_path / "train").glob("*.parquet"))
    assert len(files) > 1
    pq.write_table(pa.concat_tables(map(pq.read_table, files)), tmp_path / "one.parquet")
    trained = [
        RankSVM(missing="zero").fit(rankine.load(path, query="search"))
        for path in (tmp_path / "train", tmp_path / "one.parquet")
    ]
    assert trained[0].coef_.tobytes() == trained[1].coef_.tobytes()


def test_the_public_function_is_documented():
    assert rankine.arrow.scorer.__doc__
