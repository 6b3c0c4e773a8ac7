"""Types of the columns of CSV and JSON lines follow from their use."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rankine.core.errors import SchemaError
from rankine.data.compression import open_stream
from rankine.data.options import ReadOptions
from rankine.data.readers import text_tables
from rankine.data.sources import find_sources


def read(path, **options):
    reading = ReadOptions.make(label=None, query=None, **options)
    (source,) = find_sources(path)
    with open_stream(source, reading) as stream:
        if path.suffix == ".csv":
            schema, batches = text_tables.read_csv(stream, reading, ",")
        else:
            schema, batches = text_tables.read_json(stream, reading)
        return pa.Table.from_batches(batches, schema)


def test_categories_keep_their_text_and_numbers_are_floats(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("code,price\n007,1\n08,2\n")
    table = read(path, categories=["code"], numbers=["price"])
    assert table["code"].to_pylist() == ["007", "08"]
    assert table["price"].type == pa.float64()
    assert read(path, columns=["code"], features=["price"])["code"].to_pylist() == ["007", "08"]


def test_further_columns_of_plain_integers_are_integers(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("position,price\n1,1\n20,2\n")
    assert read(path, columns=["position"], features=["price"])["position"].type == pa.int64()


def test_a_later_value_of_another_type_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(text_tables, "TEXT_BLOCK", 32)
    path = tmp_path / "log.csv"
    path.write_text("position,price\n" + "1,2\n" * 20 + "x,2\n")
    with pytest.raises(SchemaError) as caught:
        read(path, columns=["position"], features=["price"])
    assert caught.value.column == "position"


def test_texts_that_look_like_times_stay_texts(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"day": "2026-11-01", "price": 1}\n')
    table = read(path, categories=["day"], numbers=["price"])
    assert table["day"].to_pylist() == ["2026-11-01"]
    assert table["price"].type == pa.float64()
