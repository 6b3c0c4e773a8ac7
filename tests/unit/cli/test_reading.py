"""Options of reading: files of features, raw logs and comparisons."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli import _console
from rankine.cli._options import make_ranker, parse_settings
from rankine.cli._reading import (
    ClickColumnOptions,
    ModelReadingOptions,
    ReadingOptions,
    SortOptions,
)
from rankine.cli.main import app
from rankine.core.errors import ParameterError
from rankine.core.specs import LogColumns
from rankine.data import Dataset
from rankine.model import LinearModel

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module")
def raw_log(tmp_path_factory):
    """A raw log, a model of it and a model of features."""
    folder = tmp_path_factory.mktemp("raw")
    rng = np.random.default_rng(0)
    columns = {"session": np.repeat(np.arange(40), 5), "day": np.repeat(np.arange(10), 20)}
    columns |= {"price": rng.normal(size=200), "brand": rng.choice(["a", "b"], 200)}
    columns["clicked"] = (columns["price"] > 0.5).astype(int)
    pq.write_table(pa.table(columns), folder / "log.parquet")
    spec = LogColumns(numeric=("price",))
    schema = {"query": "session", "label": "clicked", "numeric": ["price"], "time": "day"}
    raw = LinearModel.from_weights([1.0], transforms=(spec,), parameters={"log": schema})
    raw.save(folder / "raw.rankine")
    LinearModel.from_weights([1.0, 2.0]).save(folder / "flat.rankine")
    (folder / "rows.txt").write_text("1 qid:1 1:1 2:1\n0 qid:1 1:2 2:0\n1 qid:2 1:1 2:2\n")
    return folder


def test_absent_reading_options_are_left_out():
    given = ReadingOptions(columns="day, shop,").options(extra=None)
    assert given["columns"] == ("day", "shop")
    assert given["base"] == 1
    assert "n_features" not in given
    assert "extra" not in given
    assert "base" not in ModelReadingOptions().options()
    assert SortOptions().options()["base"] == 1


@pytest.mark.parametrize(("level", "shown"), [(-1, False), (0, True), (1, True)])
def test_reading_shows_progress_unless_quiet(level, shown):
    _console.set_verbosity(level)
    try:
        assert ReadingOptions().options()["progress"] is shown
    finally:
        _console.set_verbosity(0)


def test_a_schema_or_a_feature_column_makes_a_log_raw():
    assert not ReadingOptions(query="q", label="y", columns="a").raw
    for named in ({"schema": "s.toml"}, {"cross": ["a*b"]}, {"binned": "x"}, {"one_hot": "x"}):
        assert ReadingOptions(**named).raw
    assert ReadingOptions(cross=["a*b", "b*c"]).log_fields()["crosses"] == ("a*b", "b*c")
    assert "crosses" not in ReadingOptions(numeric="x").log_fields()


def test_options_without_effect_are_rejected_by_name(raw_log):
    flat, raw = (LinearModel.load(raw_log / f"{name}.rankine") for name in ("flat", "raw"))
    named = {"query": "session", "label": "clicked", "numeric": "price"}
    for reading, how, parameter in (
        (ReadingOptions(cuts="{}"), {}, "cuts"),
        (ReadingOptions(cuts="{}", binned="price"), {"model": raw}, "cuts"),
        (ModelReadingOptions(numeric="price"), {"model": flat}, None),
        (ReadingOptions(base=0, **named), {}, "base"),
        (ReadingOptions(qid_type="str", **named), {}, "qid_type"),
        (ModelReadingOptions(base=1), {"model": raw}, "base"),
        (ReadingOptions(pairs="a"), {}, "pairs"),
        (ReadingOptions(pairs="a,b,c"), {}, "pairs"),
        (ReadingOptions(pairs="a,b"), {"stream": True}, "pairs"),
        (ReadingOptions(pairs="a,b", numeric="price"), {}, "pairs"),
    ):
        with pytest.raises(ParameterError) as caught:
            reading.open([str(raw_log / "log.parquet")], **how)
        assert caught.value.parameter == parameter
    with pytest.raises(ParameterError) as caught:
        ReadingOptions(hash_bits=5).log_schema()
    assert caught.value.parameter == "hash_bits"
    for model in (None, flat):
        for name in ("hash_bits", "bins"):
            with pytest.raises(ParameterError) as caught:
                ReadingOptions(**{name: 5}).open([str(raw_log / "log.parquet")], model=model)
            assert caught.value.parameter == name
    assert ReadingOptions(hash_bits=5, categorical="brand").log_schema(raw).hash_bits == 5
    assert ReadingOptions(bins=3, binned="stock", query="session").log_schema().bins == 3
    for name, other in (("bins", {"categorical": "brand"}), ("hash_bits", {"binned": "stock"})):
        with pytest.raises(ParameterError, match=name):
            ReadingOptions(**{name: 5}, **other, query="session").log_schema()
    assert ReadingOptions().log_schema() is None
    assert ReadingOptions().log_schema(flat) is None
    for pairs in ("l2", "=3", " =3"):
        with pytest.raises(ParameterError) as caught:
            parse_settings([pairs])
        assert caught.value.parameter == "set"
    assert parse_settings([" l2 = 1e-3 ", "solver=romma", "x=a=b"]) == {
        "l2": 1e-3, "solver": "romma", "x": "a=b",
    }  # fmt: skip
    with pytest.raises(ParameterError, match=r"'lamda'.*Choose among .*l2"):
        make_ranker("ranksvm", {"l2": 1.0, "lamda": 1})
    ranker = make_ranker("spd", {"scale": None, "random_state": None})
    assert (ranker.scale, ranker.random_state) == ("none", None)
    assert make_ranker("spd", {"solver": "romma"}).solver == "romma"


def test_a_log_is_read_to_memory_as_a_stream_and_for_a_model(raw_log):
    paths = [str(raw_log / "log.parquet")]
    named = {"query": "session", "label": "clicked", "numeric": "price"}
    rows = ReadingOptions(**named).open(paths, columns=("brand",))
    assert (rows.n_rows, rows.n_features, "brand" in rows.columns) == (200, 1, True)
    kept = ReadingOptions(columns="day", **named).open(paths, columns=("brand",))
    assert set(kept.columns) == {*rows.columns, "day"}
    stream = ReadingOptions(**named).open(paths, stream=True)
    assert sum(block.n_rows for block in stream) == 200
    raw = LinearModel.load(raw_log / "raw.rankine")
    assert ModelReadingOptions().open(paths, model=raw).n_rows == 200
    newest = ModelReadingOptions(split="time:0.8,0.2").open(paths, model=raw)
    assert (newest.n_rows, newest.n_queries) == (40, 8)
    parts = ReadingOptions(split="time:0.5,0.25,0.25", time="day", **named)
    found = parts.parts(parts.open(paths))
    assert [(name, part.n_queries) for name, part in found.items()] == [
        ("train", 20), ("valid", 10), ("test", 10),
    ]  # fmt: skip
    assert list(ReadingOptions().parts("data")) == ["train"]
    like = ReadingOptions(**named).open_like(paths, stream)
    assert like.n_features == 1


def test_files_of_features_are_read_to_memory_and_as_a_stream(raw_log):
    path = str(raw_log / "rows.txt")
    rows = ReadingOptions(n_features=5).open(path)
    assert (rows.n_rows, rows.n_features) == (3, 5)
    assert sum(block.n_rows for block in ReadingOptions(n_features=2).open(path, stream=True)) == 3
    assert ReadingOptions().open_like(path, rows).n_features == 5
    flat = LinearModel.load(raw_log / "flat.rankine")
    assert ModelReadingOptions().open(path, model=flat).n_features == 2
    table = Dataset.from_arrays(
        np.ones((3, 1)), [1, 0, 1], [1, 1, 2], columns={"day": [1, 2, 3]}, feature_names=["f"]
    )
    table.save(raw_log / "rows.parquet")
    one = LinearModel.from_weights([1.0], ["f"])
    for reading, columns in (
        (ReadingOptions(time="day"), ()),
        (ReadingOptions(columns="day"), ("day",)),
        (ReadingOptions(columns="day", time="day"), ()),
    ):
        found = reading.open(str(raw_log / "rows.parquet"), columns=columns, features=("f",))
        assert list(found.columns) == ["day"]
        model = reading.open(str(raw_log / "rows.parquet"), model=one, columns=columns)
        assert list(model.columns) == ["day"]


def test_the_newest_part_has_the_latest_times(tmp_path):
    """The oldest stand last in these files."""
    columns = {"session": np.repeat(np.arange(10), 2), "day": np.repeat(np.arange(10, 0, -1), 2)}
    columns |= {"price": np.arange(20.0), "clicked": np.tile([0, 1], 10)}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    named = {"query": "session", "label": "clicked", "numeric": "price"}
    split = "time:0.8,0.2"
    raw = ReadingOptions(split=split, time="day", **named)
    assert set(raw.newest(raw.open(str(tmp_path / "log.parquet"))).qid) == {0, 1}
    spec, log = LogColumns(numeric=("price",)), {**named, "numeric": ["price"], "time": "day"}
    model = LinearModel.from_weights([1.0], transforms=(spec,), parameters={"log": log})
    newest = ModelReadingOptions(split=split).open(str(tmp_path / "log.parquet"), model=model)
    assert set(newest.qid) == {0, 1}
    rows = {"qid": "session", "label": "clicked", "f": "price", "day": "day"}
    table = pa.table({name: columns[given] for name, given in rows.items()})
    pq.write_table(table, tmp_path / "rows.parquet")
    for how in ({}, {"model": LinearModel.from_weights([1.0], ["f"])}):
        flat = ReadingOptions(split=split, time="day")
        found = flat.open(str(tmp_path / "rows.parquet"), features=("f",), **how)
        assert set((found if how else flat.newest(found)).qid) == {0, 1}


def test_held_out_rows_have_the_features_of_the_others(tmp_path):
    for name, brands in (("all", ["a", "b", "c", "a"]), ("held", ["b", "b", "b", "b"])):
        columns = {"session": [1, 1, 2, 2], "brand": brands, "clicked": [0, 1, 1, 0]}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    reading = ReadingOptions(query="session", label="clicked", one_hot="brand")
    data = reading.open(str(tmp_path / "all.parquet"))
    held = reading.open_like(str(tmp_path / "held.parquet"), data)
    assert held.feature_names == data.feature_names
    assert data.n_features == 3
    (tmp_path / "all.csv").write_text("better,worse\na,b\nb,c\n")
    (tmp_path / "held.csv").write_text("better,worse\nc,b\n")
    reading = ReadingOptions(pairs="better,worse")
    data = reading.open(str(tmp_path / "all.csv"))
    held = reading.open_like(str(tmp_path / "held.csv"), data)
    assert held.feature_names == data.feature_names == ("a", "b", "c")


def test_files_with_fewer_features_than_the_model_are_reported(raw_log, capsys):
    _console.set_verbosity(0)
    wide = LinearModel.from_weights([1.0, 2.0, 3.0])
    ModelReadingOptions().open([str(raw_log / "rows.txt")], model=wide)
    assert "1 of 1 files have fewer features than the model (3)" in capsys.readouterr().err
    ModelReadingOptions().open(
        [str(raw_log / "rows.txt")], model=LinearModel.from_weights([1.0, 2.0])
    )
    assert "fewer features" not in capsys.readouterr().err


def test_comparisons_are_read_by_the_names_of_their_sides(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("better,worse,better_x,worse_x\na,b,1,2\nb,c,3,1\n")
    data = ReadingOptions(pairs="better,worse").open(str(file))
    assert (data.n_rows, data.n_queries) == (4, 2)
    assert data.feature_names == ("a", "b", "c", "x")
    held = ReadingOptions(pairs="better,worse").open_like(str(file), data)
    assert held.feature_names == data.feature_names
    model = LinearModel.from_weights([1.0, 2.0, 3.0, 0.5], data.feature_names)
    found = ModelReadingOptions(pairs="better,worse").open(str(file), model=model)
    np.testing.assert_array_equal(
        rankine.Scorer(model).score(found.X.tocsr()), [1.5, 3.0, 3.5, 3.5]
    )


def test_click_columns_are_taken_from_the_schema_unless_named(tmp_path):
    schema = tmp_path / "s.toml"
    schema.write_text(
        'query = "list"\nlabel = "bought"\nposition = "place"\nitem = "sku"\nnumeric = ["x"]\n'
    )
    assert ClickColumnOptions().columns(item="i") == {
        "query": "qid", "label": "clicked", "position": "position", "search": None, "item": "i",
    }  # fmt: skip
    found = ClickColumnOptions(label="paid", search="words", schema=str(schema)).columns(item=None)
    assert found == {
        "query": "list", "label": "paid", "position": "place", "search": "words", "item": "sku",
    }  # fmt: skip
    assert ClickColumnOptions(schema=str(schema)).columns(item="i")["item"] == "i"


@pytest.fixture(scope="module")
def hive_log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hive")
    rng = np.random.default_rng(3)
    for day in range(1, 6):
        table = pa.table(
            {
                "session": np.repeat(np.arange(20), 4) + 20 * day,
                "clicked": np.tile([0, 1, 0, 0], 20),
                "price": rng.lognormal(size=80),
                "item": rng.choice(["a", "b", "c"], 80),
            }
        )
        path = folder / f"log/date=2026-11-0{day}/part-0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path, row_group_size=40)
    schema = 'query = "session"\nlabel = "clicked"\nnumeric = ["price"]\ntime = "date"\n'
    (folder / "shop.toml").write_text(schema)
    history = '[history.ctr]\nrate = "clicked"\nby = ["item"]\n'
    (folder / "history.toml").write_text(schema + history)
    call("train", folder / "log", "--schema", folder / "shop.toml", "--ranker", "ranksvm",
         "--out", folder / "model.rankine")  # fmt: skip
    return folder


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code in (0, 3), result.output
    return result.output


@pytest.mark.parametrize(
    "words",
    [
        "train LOG --schema shop.toml --ranker ranksvm --split time:0.5,0.5 --out OUT.rankine",
        "train LOG --schema shop.toml --ranker elastic --stream --out OUT.rankine",
        "tune LOG --schema shop.toml --ranker ranksvm --trials 1 --out OUT.rankine",
        "evaluate model.rankine LOG",
        "compare model.rankine model.rankine LOG",
        "predict model.rankine LOG",
        "report model.rankine LOG --out OUT.html",
        "watch model.rankine LOG",
        "convert LOG OUT.parquet --schema shop.toml",
        "convert LOG OUT.parquet --query session --label clicked --features price",
        "sort LOG OUT.parquet --query session",
        "history build LOG --schema history.toml --out OUT.parquet",
        "inspect LOG",
        "inspect LOG --schema",
    ],
)
def test_where_chooses_rows_and_reports_the_others(hive_log, tmp_path, monkeypatch, words):
    monkeypatch.chdir(hive_log)
    words = words.replace("LOG", "log").replace("OUT", str(tmp_path / "out"))
    output = call(*words.split(), "--where", "date >= 2026-11-03 and price < 1.5")
    if "--schema" in words and "inspect" in words:
        return
    assert "2 files unread" in output
    price = pq.read_table(hive_log / "log")["price"].to_numpy()[160:]
    assert f"--where left out {(price >= 1.5).sum()} rows" in output


def test_where_is_in_the_facts_of_a_training(hive_log, tmp_path):
    out = tmp_path / "model.rankine"
    where = "date >= 2026-11-03"
    call("train", hive_log / "log", "--schema", hive_log / "shop.toml", "--ranker", "ranksvm",
         "--where", where, "--out", out)  # fmt: skip
    assert rankine.LinearModel.load(out).provenance["training"]["where"] == where
