"""Row groups and folders that hold no row of a condition are skipped, and no other."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankine
from rankine.core.errors import EmptyDataError
from rankine.data.expressions import parse_condition
from rankine.data.readers.values import BatchLocation, RowFaults
from rankine.data.where import condition_mask
from unit.data.test_where import DAY

# ------------------------------------------------------------------------ what is not read
COLUMNS = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-3, 3),
        "f": st.none() | st.sampled_from([-1.5, -0.0, 0.0, 2.0, float("nan")]),
        "t": st.none() | st.sampled_from(["", "a", "b", "ab"]),
        "d": st.none() | st.sampled_from([DAY + dt.timedelta(k) for k in range(3)]),
    }
)


TYPES = {"i": pa.int16(), "f": pa.float32(), "t": pa.string(), "d": pa.date32()}


OPERATORS = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


def comparisons():
    number = st.sampled_from(["-2", "0", "1.5", "i", "f", "2*i"])
    numbers = st.tuples(st.sampled_from("if"), OPERATORS, number)
    texts = st.tuples(st.just("t"), st.sampled_from(["==", "!="]), st.sampled_from(["'a'", "'b'"]))
    days = st.tuples(st.just("d"), OPERATORS, st.sampled_from(["2026-11-01", "2026-11-02"]))
    return (numbers | texts | days).map(" ".join)


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        inner.map("not ({})".format),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda parts: "({}) {} ({})".format(*parts)
        ),
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(COLUMNS, min_size=1, max_size=12), text=CONDITIONS, hive=st.sampled_from("itd")
)
def test_skipping_row_groups_and_folders_changes_no_row(tmp_path_factory, rows, text, hive):
    folder = tmp_path_factory.mktemp("log")
    rows.sort(key=lambda row: (row[hive] is None, str(row[hive])))
    table = pa.Table.from_pylist(rows, pa.schema(list(TYPES.items())))
    table = table.append_column("k", pa.array(np.arange(len(rows))))
    pq.write_table(table, folder / "all.parquet", row_group_size=2)
    write_hive(table, folder / "log", hive)
    names = {"label": None, "query": None, "features": (), "numbers": ["k"], "where": text}
    expected = sorted(table["k"].filter(pa.array(mask_of(table, text))).to_pylist())
    for path in (folder / "all.parquet", folder / "log"):
        try:
            data = rankine.load(path, **names)
        except EmptyDataError:
            assert not expected
        else:
            assert sorted(data.columns["k"].tolist()) == expected
            excluded = len(rows) - len(expected)
            assert data.read_counts.get("excluded_rows", 0) <= excluded
            if path.name == "all.parquet":
                assert data.read_counts.get("excluded_rows", 0) == excluded


def mask_of(table, text):
    (batch,) = table.combine_chunks().to_batches()
    faults = RowFaults(BatchLocation("rows"), batch.num_rows, skip=False)
    return condition_mask(parse_condition(text), batch, faults)


def write_hive(table, folder, name):
    for number, value in enumerate(table[name].unique()):
        text = "__HIVE_DEFAULT_PARTITION__" if value.as_py() in (None, "") else value.as_py()
        same = pa.compute.equal(table[name], value)
        if not value.is_valid:
            same = pa.compute.is_null(table[name])
        (folder / f"{name}={text}").mkdir(parents=True, exist_ok=True)
        part = table.filter(same).drop_columns([name])
        pq.write_table(part, folder / f"{name}={text}" / f"{number}.parquet", row_group_size=2)


def test_folders_and_row_groups_without_such_rows_are_not_read(tmp_path):
    for day in ("2026-11-01", "2026-11-02"):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        table = pa.table({"qid": [1, 1, 2, 2], "label": [1, 0, 1, 0], "a": [1.0, 2.0, 3.0, 4.0]})
        pq.write_table(table, tmp_path / f"log/day={day}/0.parquet", row_group_size=2)
    first = tmp_path / "log/day=2026-11-01/0.parquet"
    first.write_bytes(b"PAR1 is not a table")
    second = tmp_path / "log/day=2026-11-02/0.parquet"
    content = bytearray(second.read_bytes())
    content[4:60] = bytes(56)  # pages of the first row group
    second.write_bytes(content)
    data = rankine.load(tmp_path / "log", where="day > 2026-11-01 and a >= 3")
    assert data.X.tolist() == [[3.0], [4.0]]
    assert data.read_counts == {"excluded_rows": 2, "excluded_files": 1}
    assert data.lines.tolist() == [3, 4]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
def test_statistics_of_times_are_in_their_unit(tmp_path, unit, version):
    times = np.arange(8) * 86400 + 1793491200
    table = pa.table({"ts": pa.array(times.astype("M8[s]")).cast(pa.timestamp(unit)), "k": times})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1, version=version)
    names = {"label": None, "query": None, "features": ["k"]}
    data = rankine.load(tmp_path / "a.parquet", where="ts >= 2026-11-07", **names)
    assert data.X[:, 0].tolist() == times[6:].tolist()
