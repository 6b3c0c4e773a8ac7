"""Overviews of data files count every row, whatever the size of blocks."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.data import overview as module
from rankine.data.overview import dataset_overview, table_overview
from rankine.data.sources import find_sources


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    price = rng.normal(size=500)
    price[::7] = np.nan
    return {
        "qid": np.repeat(np.arange(50), 10),
        "label": rng.integers(0, 3, 500),
        "price": price,
        "brand": rng.choice(["a", "b", ""], 500),
        "flag": rng.random(500) < 0.5,
        "tags": [[1, 2]] * 500,
    }


def test_a_table_is_counted_over_files_and_row_groups(columns, tmp_path):
    half = {name: values[:250] for name, values in columns.items()}
    rest = {name: values[250:] for name, values in columns.items()}
    pq.write_table(pa.table(half), tmp_path / "1.parquet", row_group_size=30)
    pq.write_table(pa.table(rest), tmp_path / "2.parquet")
    found = table_overview(find_sources(str(tmp_path / "*.parquet")), "qid", "label")
    assert (found.rows, found.lists, found.longest, found.contiguous) == (500, 50, 10, True)
    labels, counts = np.unique(columns["label"], return_counts=True)
    assert found.labels == dict(zip(map(str, labels), counts, strict=True))
    by_name = {column.name: column for column in found.columns}
    price = columns["price"]
    assert by_name["price"].missing == np.isnan(price).sum()
    assert (by_name["price"].low, by_name["price"].high) == (np.nanmin(price), np.nanmax(price))
    assert len(by_name["price"].counts) == len(np.unique(price[~np.isnan(price)]))
    assert by_name["brand"].counts["a"] == (columns["brand"] == "a").sum()
    assert set(by_name["flag"].examples) == {"True", "False"}
    assert by_name["tags"].examples == []
    found.to_dict()


def test_a_column_with_many_values_says_so(columns, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_DISTINCT", 5)
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = table_overview(find_sources(tmp_path / "t.parquet"), None, None)
    assert found.lists is None
    by_name = {column.name: column for column in found.columns}
    assert [len(by_name["price"].counts), by_name["price"].is_complete] == [5, False]
    assert by_name["brand"].is_complete


@pytest.mark.parametrize("block_rows", [10, 1000])
def test_lists_of_a_text_file_are_counted_in_blocks(columns, tmp_path, block_rows):
    X = np.column_stack([columns["label"] * 0.5, np.arange(500.0)])
    data = rankine.Dataset.from_arrays(X, columns["label"], columns["qid"])
    data.save(tmp_path / "d.txt")
    blocks = rankine.scan(tmp_path / "d.txt", block_rows=block_rows)
    found = dataset_overview(blocks)
    assert (found.rows, found.lists, found.longest) == (500, 50, 10)
    assert [column.name for column in found.columns] == ["1", "2"]
    assert (found.columns[1].low, found.columns[1].high) == (0.0, 499.0)
    assert sum(found.labels.values()) == 500


def test_a_column_with_other_types_in_other_files_names_all_of_them(tmp_path):
    for k, prices in enumerate(([1.5, 2.5], ["cheap", "dear"], [3.5, 4.5])):
        pq.write_table(pa.table({"qid": [k, k], "price": prices}), tmp_path / f"{k}.parquet")
    overview = table_overview(find_sources(tmp_path), "qid", None)
    assert [column.type for column in overview.columns] == ["int64", "double or string"]
