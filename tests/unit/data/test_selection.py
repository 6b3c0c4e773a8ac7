"""The files of a data set that are read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.data.options import ReadOptions
from rankine.data.selection import select_sources
from rankine.data.sources import find_sources


def test_a_condition_needs_tables_with_its_columns(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(ParameterError) as error:
        rankine.load(tmp_path / "a.txt", where="b > 3")
    assert error.value.parameter == "where"
    table = pa.table({"qid": [1], "label": [1], "a": [1.0]})
    with pytest.raises(SchemaError) as error:
        rankine.load(table, where="b > 3")
    assert error.value.parameter == "where"
    with pytest.raises(EmptyDataError) as error:
        rankine.load(table, where="a > 3")
    assert error.value.parameter == "where"
    with pytest.raises(ParameterError):
        rankine.load(table, where="a > 3", group=[1])


def test_files_without_such_rows_are_counted_and_not_chosen(tmp_path):
    for day in ("2026-11-01", "2026-11-02", "2026-11-03"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"a": [1.0]}), tmp_path / f"day={day}" / "0.parquet")
    sources = find_sources(tmp_path)
    selection = select_sources(sources, ReadOptions.make(where="day >= 2026-11-02"))
    assert selection.sources == sources[1:]
    assert selection.n_excluded == 1
    with pytest.raises(EmptyDataError) as caught:
        select_sources(sources, ReadOptions.make(where="day > 2026-11-03"))
    assert caught.value.parameter == "where"


def test_columns_of_several_types_get_one(tmp_path):
    for number, kind in enumerate((pa.int32(), pa.float64())):
        table = pa.table({"label": [1, 0], "qid": [1, 1], "a": pa.array([1, 2], kind)})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    chosen, n_excluded = select_sources(find_sources(tmp_path), ReadOptions.make())
    assert len(chosen) == 2
    assert n_excluded == 0
    assert rankine.load(tmp_path).X.dtype == "float64"
