"""What columns are for: said, measured on the first lists, and proposed by their values."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

from error_checks import raises_at
from rankine import Dataset, logs
from rankine.core.errors import (
    FeatureMismatchError,
    FileKindError,
    LimitError,
    ParameterError,
    SchemaError,
)
from rankine.logs import schema
from rankine.logs.schema import LogSchema, check_same_features, locate_row_errors


def blocks(lists=9, size=2, cut=2, **columns):
    """Blocks of a raw log, some lists each."""
    n = lists * size
    made = {"price": np.arange(n, dtype=float), "brand": np.array(list("abc") * n)[:n], **columns}
    whole = Dataset.from_arrays(
        np.zeros((n, 0)), np.zeros(n), np.repeat(np.arange(lists), size), columns=made
    )
    return [whole.take_queries(np.arange(k, min(k + cut, lists))) for k in range(0, lists, cut)]


# ------------------------------------------------------------------ what is said
@pytest.mark.parametrize("bins", [2, 255])
def test_the_limits_of_the_number_of_ranges_are_accepted(bins):
    assert LogSchema("q", numeric=("a",), bins=bins).bins == bins


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"query": "q"}, None),
        ({"query": "q", "numeric": ["a"], "binned": ["a"]}, None),
        ({"query": "q", "numeric": ["a"], "bins": 1}, "bins"),
        ({"query": "q", "numeric": ["a"], "bins": 256}, "bins"),
        ({"query": "q", "numeric": ["a"], "hash_bits": 9}, "hash_bits"),
        ({"numeric": ["a"]}, "query"),
    ],
)
def test_incomplete_or_contradictory_schemas_are_refused(fields, parameter):
    with pytest.raises(ParameterError) as caught:
        LogSchema.make(fields)
    assert caught.value.parameter == parameter


def test_unknown_fields_are_refused():
    with pytest.raises(SchemaError):
        LogSchema.make({"query": "q", "numeric": ["a"], "colour": "red"})


def test_new_fields_override_those_of_the_base_schema():
    before = LogSchema.make({
        "query": "q", "numeric": ["a"], "one_hot": ("b", "c"), "crosses": [("b", "c"), "a * b"],
        "label": "clicked", "columns": ["k"],
    })  # fmt: skip
    assert before.crosses == ("b*c", "a * b")
    assert before.spec().crosses == (("b", "c"), ("a", "b"))
    moved = LogSchema.make({"binned": ["a", "b"], "label": None, "columns": ()}, before)
    assert (moved.numeric, moved.one_hot, moved.binned) == ((), ("c",), ("a", "b"))
    assert (moved.query, moved.label, moved.columns) == ("q", "clicked", ("k",))
    more = LogSchema.make({"query": "r", "one_hot": ["d"]}, before)
    assert (more.query, more.numeric, more.one_hot) == ("r", ("a",), ("d",))
    measured = before.spec([schema.OneHot("b", ("x",))], [], ["z"])
    assert (measured.one_hot[0].values, measured.ignored) == (("x",), ("z",))


def test_features_are_compared_one_by_one():
    own = LogSchema("q", numeric=("a", "b"), one_hot=("c",), crosses=("a*c",))
    check_same_features(LogSchema("r", numeric=("b", "a"), one_hot=("c",), crosses=("a*c",)), own)
    for given, words in (
        ({"numeric": ("a",), "one_hot": ("c",)}, "numeric: is a here and a, b in the model"),
        ({"numeric": ("a", "b")}, "one_hot: is empty here and c in"),
        ({"numeric": ("a", "b"), "one_hot": ("c",), "crosses": ("a*c",), "hash_bits": 3},
         "hash_bits: is 3 here and 20 in the model"),
    ):  # fmt: skip
        with pytest.raises(FeatureMismatchError, match=words):
            check_same_features(LogSchema("q", **given), own)
    plain = LogSchema("q", numeric=("a",))
    with pytest.raises(FeatureMismatchError, match="bins: is 9 here and 32 in mine"):
        check_same_features(LogSchema("q", numeric=("a",), bins=9), plain, "mine")


def test_schemas_and_column_names_are_read_from_files(tmp_path):
    with pytest.raises(SchemaError):
        logs.read_schema(tmp_path / "none.toml")
    with pytest.raises(FileKindError):
        schema.column_names(io.BytesIO(b"PAR1"))
    (tmp_path / "x.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(FileKindError):
        schema.column_names(tmp_path / "x.txt")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert schema.column_names([tmp_path / "x.csv"]) == ["a", "b"]


# ------------------------------------------------------------------ what is measured
def test_values_are_counted_up_to_a_limit(monkeypatch):
    parts = [{"brand": ["a", "b"]}, {"brand": ["b", "c"]}]
    monkeypatch.setattr(schema, "MAX_VALUES", 3)
    (found,) = schema.one_hot_values(parts, ["brand"])
    assert (found.column, found.values) == ("brand", ("a", "b", "c"))
    monkeypatch.setattr(schema, "MAX_VALUES", 2)
    with raises_at(LimitError, column="brand") as error:
        schema.one_hot_values(parts, ["brand"])
    assert error.value.column == "brand"
    for nothing in ([], [{"brand": []}]):
        with raises_at(SchemaError, column="brand"):
            schema.one_hot_values(nothing, ["brand"])


def test_only_the_most_frequent_texts_get_cells(monkeypatch):
    texts = np.array([*"xxxxx", *"yyy", "", "", "", "", *"zz", *"abcd"], dtype=object)
    monkeypatch.setattr(schema, "MAX_CUTS", 3)
    (found,) = schema.frequent_texts(blocks(brand=texts), ["brand"])
    assert found.values == ("x", "y", "z")
    assert schema.frequent_texts([], []) == ()
    monkeypatch.setattr("rankine.data.dataset.first_lists.__defaults__", (4,))
    (found,) = schema.frequent_texts(blocks(brand=texts), ["brand"])
    assert set(found.values) == set(Counter(texts[:8].tolist())) - {""}


def test_cuts_are_measured_for_columns_without_fixed_cuts():
    holes = np.where(np.arange(18) % 3 == 0, np.nan, np.arange(18) % 4)
    found = schema.measure_cuts(blocks(size_cm=holes), ["price", "size_cm"], 2, {"price": [1.5, 2]})
    assert (found[0].column, found[0].cuts) == ("price", (1.5, 2))
    assert found[1].column == "size_cm"
    (cut,) = found[1].cuts
    finite = holes[np.isfinite(holes)]
    assert 0.25 <= (finite <= cut).mean() <= 0.75
    with raises_at(SchemaError, column="size_cm"):
        schema.measure_cuts(blocks(size_cm=np.full(18, np.nan)), ["size_cm"], 2)
    (constant,) = schema.measure_cuts(blocks(size_cm=np.full(18, 7.0)), ["size_cm"], 2)
    assert constant.cuts == ()
    (apart,) = schema.measure_cuts(blocks(size_cm=np.arange(18) % 2 + 5.0), ["size_cm"], 2)
    (cut,) = apart.cuts
    assert 5.0 < cut <= 6.0
    assert schema.measure_cuts(iter([None]), ["price"], 2, {"price": (1.0,)})[0].cuts == (1.0,)
    assert schema.read_cuts(None, []) == {}


def test_errors_of_a_row_name_its_file_and_line():
    (block,) = blocks(cut=9)
    known = Dataset(block.X, block.y, block.qid, sources=("a", "log.csv"), lines=np.arange(18) + 40)
    bare = Dataset(block.X, block.y, block.qid, lines=np.arange(18) + 40)
    error = SchemaError("'x' is no number", fix="Mend it", column="price", row=3)
    with pytest.raises(SchemaError) as found, locate_row_errors(known):
        raise error
    assert (found.value.file, found.value.line, found.value.column) == ("log.csv", 43, "price")
    assert found.value.reason.startswith("'x' is no number; training and serving")
    with pytest.raises(SchemaError) as found, locate_row_errors(bare):
        raise error
    assert (found.value.file, found.value.line) == (None, 43)
    no_row, no_colon = SchemaError("row three: no", fix=""), SchemaError("7", fix="")
    for where, said in ((block, error), (known, no_row), (known, no_colon)):
        with pytest.raises(SchemaError) as found, locate_row_errors(where):
            raise said
        assert found.value is said


# ------------------------------------------------------------------ a first proposal
def proposed(folder, **columns):
    pq.write_table(pa.table(columns), folder / "log.parquet")
    return logs.propose_schema(folder / "log.parquet")


def test_a_schema_is_proposed_from_names_types_and_values(tmp_path):
    n = 200
    rows = np.arange(n)
    found, why = proposed(
        tmp_path,
        qid=rows // 4, rank=rows % 4 + 1, day=rows // 8, sku=[f"s{k}" for k in rows],
        keywords=["boots"] * n, bought=rows % 2, click=rows % 3 == 0, price=rows * 0.5,
        when=pa.array(rows, pa.timestamp("s")), few=[f"v{k % 50}" for k in rows],
        tail=np.exp(rows / 40), in_stock=rows % 3 == 1, shop_id=rows % 7, user=rows // 8,
        user_id=rows // 8 + 10, device=[f"d{k // 4 % 3}" for k in rows],
        flag=[[True, False, None][k % 3] for k in rows],
        more=[f"v{k % 51}" for k in rows], half=[f"v{k % 100}" for k in rows],
        ids=[f"v{k % 101}" for k in rows], one=["v"] * n,
        two=[["v", "w", None][k % 3] for k in rows],
    )  # fmt: skip
    assert (found.query, found.position, found.time) == ("qid", "rank", "day")
    assert (found.item, found.search) == ("sku", "keywords")
    assert found.label == "click + 4*bought"
    assert found.numeric == ("price", "in_stock", "flag")
    assert found.binned == ("tail",)
    assert found.one_hot == ("few", "shop_id", "more", "half", "two")
    assert found.categorical == ()
    assert found.columns == ("user", "user_id", "device")
    assert why["device"].startswith("3 values in 200 rows, constant within lists")
    assert set(why) == {
        *found.numeric, *found.binned, *found.one_hot, *found.columns, "ids", "one",
    }  # fmt: skip
    assert why["ids"] == "101 values in 200 rows: left out"
    assert why["one"] == "1 values in 200 rows: left out"
    assert why["two"] == "2 values in 200 rows"


def test_the_text_of_the_search_is_proposed_if_it_is_the_same_for_a_list(tmp_path):
    columns = {"session_id": [1, 1, 2, 2], "clicked": [0, 1, 1, 0], "price": [1.0, 2.0, 3.0, 4.0]}
    found, _ = proposed(tmp_path, **columns, query=["boots", "boots", "hats", "hats"])
    assert found.search == "query"
    found, _ = proposed(tmp_path, **columns, query=["boots", "red boots", "hats", "hats"])
    assert found.search is None


@pytest.mark.parametrize(
    ("names", "label"),
    [(["clicked"], "clicked"), (["added"], "2*added"), (["purchased"], "4*purchased"),
     (["bought", "added", "label"], "label + 2*added + 4*bought")],
)  # fmt: skip
def test_outcomes_are_weighted_in_the_proposed_label(tmp_path, names, label):
    found, _ = proposed(tmp_path, qid=[1, 1], price=[1.0, 2.0], **{key: [0, 1] for key in names})
    assert (found.label, found.numeric) == (label, ("price",))


def test_a_log_without_outcomes_has_no_label_and_one_without_lists_is_refused(tmp_path):
    found, _ = proposed(tmp_path, query=[1, 1], price=[1.0, 2.0])
    assert (found.label, found.position, found.time, found.item) == (None,) * 4
    with pytest.raises(SchemaError):
        proposed(tmp_path, a=[1], b=[2])


def test_a_proposed_schema_is_written_and_read_back(log, trained, tmp_path):
    proposed, why = logs.propose_schema(log)
    assert proposed.query == "session_id"
    assert proposed.label == "clicked + 4*purchased"
    assert (proposed.binned, proposed.one_hot) == (("price",), ("brand", "category"))
    assert (proposed.position, proposed.time) == ("position", "ts")
    assert why["brand"] == f"5 values in {pq.read_metadata(log).num_rows:,} rows"
    for said in (proposed, logs.schema_of(trained)):
        file = tmp_path / "schema.toml"
        file.write_text(said.to_toml())
        assert logs.read_schema(file) == said
    moved = schema.LogSchema.make({"numeric": ["price"]}, proposed)
    assert (moved.binned, moved.numeric, moved.one_hot) == ((), ("price",), proposed.one_hot)
    for text, reason in (
        ("query = 3", "schema"), ("numeric = ['a']", "query"), ("query = 'q'\nx = 1", "fields"),
        ("query = 'q'", "no column"), ("query = 'q'\nnumeric = ['a', 'a']", "once"), ("[", "TOML"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises((SchemaError, ParameterError), match=reason):
            logs.read_schema(file)


def test_features_are_proposed_after_outcomes_and_roles(tmp_path):
    columns = {"clicked": [1, 0], "session_id": [1, 1], "position": [1, 2], "price": [1.5, 2.5]}
    pq.write_table(pa.table({**columns, "brand": ["a", "b"]}), tmp_path / "log.parquet")
    proposed, why = logs.propose_schema(tmp_path / "log.parquet")
    assert (proposed.label, proposed.position) == ("clicked", "position")
    assert proposed.numeric == ("price",)
    assert set(why) == {"price", "brand"}


def test_history_features_are_proposed_for_a_log_in_order_of_time(tmp_path):
    n = 40
    rows = np.arange(n)
    columns = {
        "session": rows // 4, "ts": 1_700_000_000_000 + rows // 4, "item": rows % 7,
        "user_id": [f"u{k % 3}" for k in rows // 4], "clicked": rows % 2, "price": rows * 1.0,
        "search": ["boots", "shoes"] * (n // 2),
    }  # fmt: skip
    found, _ = proposed(tmp_path, **columns)
    assert set(found.history) == {"item_rate", "user_item_count", "search_item_rate"}
    assert found.time_unit == "ms"
    file = tmp_path / "schema.toml"
    file.write_text(found.to_toml())
    log = logs.scan(tmp_path / "log.parquet", schema=logs.read_schema(file))
    assert "item_rate" in log.load().columns
    assert proposed(tmp_path, **columns | {"ts": columns["ts"][::-1]})[0].history == {}
    assert proposed(tmp_path, **columns | {"clicked": [None] * n})[0].history != {}
    for name in ("ts", "item", "user_id", "clicked"):
        found, _ = proposed(tmp_path, **{k: v for k, v in columns.items() if k != name})
        assert found.history == {}


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_a_schema_is_proposed_for_a_log_with_missing_texts_and_times(tmp_path, form):
    n = 60
    rows = np.arange(n)
    texts = pa.array([None if k % 5 == 0 else f"t{k % 7}" for k in rows])
    minutes = 1_700_000_040 + 60 * (rows // 4)
    clicked = rows % 3 == 0
    table = pa.table({
        "session": [f"s{k}" for k in rows // 4], "ts": pa.array(minutes, pa.timestamp("s")),
        "user": pa.array([f"u{k % 3}" if k % 5 else None for k in rows // 4]), "sku": texts,
        "search": texts, "brand": texts, "empty": pa.nulls(n), "click": clicked.astype(int),
        "outcome_ts": pa.array(minutes + 9, pa.timestamp("s"), mask=~clicked),
    })  # fmt: skip
    path = tmp_path / f"log.{form}"
    if form == "csv":
        csv.write_csv(table, path)
    elif form == "jsonl":
        # As JSON has it: times are texts.
        lines = [json.dumps(row, default=datetime.isoformat) for row in table.to_pylist()]
        path.write_text("\n".join(lines))
    elif form == "arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        pq.write_table(table, path)
    found, _ = logs.propose_schema(path)
    assert (found.one_hot, found.outcome_time) == (("brand",), "outcome_ts")
    names = {"item_rate", "user_item_count", "search_item_rate", "user_brand_count"}
    assert set(found.history) == names
    assert found.history["user_brand_count"].by == ("user", "brand")
    rates = logs.scan(path, schema=found).load().columns["item_rate"]
    # The second list knows three rows that have an item; the third of them was clicked.
    assert rates[:8] == pytest.approx([0, 0, 0, 0, 1 / 3, 1 / 3, 1 / 3, 1 / 3])


def test_the_schema_of_a_model_of_version_0_1_is_read(trained):
    note = {"query": "session_id", "label": "clicked", "position": None, "missing": "zero"}
    old = replace(trained, parameters={**trained.parameters, "log": note})
    found = logs.schema_of(old)
    assert (found.query, found.label, found.one_hot) == ("session_id", "clicked", ("category",))
