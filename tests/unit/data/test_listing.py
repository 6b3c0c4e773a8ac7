"""Folders, patterns on any filesystem, and the Hive columns of paths."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import rankine
from rankine.core.errors import DataError, EmptyDataError, FileKindError, SchemaError
from rankine.core.stores import Store
from rankine.data.listing import hive_values, match_pattern
from rankine.data.sources import Source, find_sources

TABLE = pa.table({"qid": [1, 1], "label": [1, 0], "a": [0.5, 1.5]})


def write(path: Path, table: pa.Table = TABLE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


@pytest.fixture
def log(tmp_path):
    for number, day in enumerate(("9", "10", "11")):
        table = TABLE.set_column(0, "qid", pa.array([number, number]))
        write(tmp_path / f"log/day={day}/shop=a%20b/part-0.parquet", table)
    (tmp_path / "log/_SUCCESS").touch()
    (tmp_path / "log/day=9/.part-0.crc").touch()
    (tmp_path / "log/_temporary").mkdir()
    write(tmp_path / "log/_temporary/part-1.parquet")
    return tmp_path / "log"


@pytest.mark.parametrize(
    "pattern", ["", "/day=*", "/*", "/day=*/shop=*/*.parquet", "/**/*.parquet"]
)
def test_folders_give_their_tables_in_order_of_hive_columns(log, pattern):
    sources = [s for s in find_sources(f"{log}{pattern}") if "_temporary" not in s.name]
    assert [source.partition["day"].as_py() for source in sources] == [9, 10, 11]
    assert {source.partition["shop"].as_py() for source in sources} == {"a b"}


def test_hive_columns_are_columns_but_no_features(log):
    data = rankine.load(log, columns=["day", "shop"])
    assert data.columns["day"].tolist() == [9, 9, 10, 10, 11, 11]
    assert data.columns["shop"].tolist() == ["a b"] * 6
    assert rankine.load(log).feature_names == ("a",)
    assert rankine.load(log, features=["a", "day"]).X[:, 1].tolist() == [9, 9, 10, 10, 11, 11]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["01", "12"], [1, 12]),
        (["007", "12"], ["007", "12"]),
        (["1", "__HIVE_DEFAULT_PARTITION__"], [1, None]),
        (["2026-11-01"], [dt.date(2026, 11, 1)]),
        (["2026-11-01", "2026-02-31"], ["2026-11-01", "2026-02-31"]),
        (["2026-11-01 10%3A30"], [dt.datetime.fromisoformat("2026-11-01 10:30")]),
        (["1", "x"], ["1", "x"]),
    ],
)
def test_hive_columns_have_one_type(tmp_path, texts, values):
    paths = [tmp_path / f"x={text}" / "a.parquet" for text in texts]
    for path in paths:
        write(path)
    assert [source.partition["x"].as_py() for source in find_sources(paths)] == values


def test_hive_values_are_decoded():
    assert hive_values("a/b=/c%2Fd=e=f/x=y") == {"b": None, "c/d": "e=f"}


def test_a_file_may_hold_its_hive_column_with_the_same_values(tmp_path):
    write(tmp_path / "a=1/x.parquet", TABLE.set_column(2, "a", pa.array([1.0, 1.0])))
    assert rankine.load(tmp_path, columns=["a"]).columns["a"].tolist() == [1, 1]
    write(tmp_path / "a=2/x.parquet", TABLE.set_column(2, "a", pa.array([2.0, 1.0])))
    with pytest.raises(SchemaError) as error:
        rankine.load(tmp_path, columns=["a"])
    assert error.value.file == str(tmp_path / "a=2/x.parquet")
    assert error.value.line == 2


def test_files_with_different_hive_columns_are_refused(tmp_path):
    write(tmp_path / "a=1/x.parquet")
    write(tmp_path / "x.parquet")
    with pytest.raises(SchemaError) as error:
        rankine.load(tmp_path)
    assert {error.value.file, error.value.column} == {str(tmp_path / "x.parquet"), "a"}
    assert str(tmp_path / "a=1/x.parquet") in error.value.reason


def test_a_folder_holds_tables_alone(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmptyDataError) as error:
        find_sources(tmp_path / "empty")
    assert error.value.file == str(tmp_path / "empty")
    # A folder of text: the error shows the pattern that reads it.
    for name in ("README.txt", "S1.txt.xz", "S2.txt.xz"):
        (tmp_path / "empty" / name).touch()
    with pytest.raises(EmptyDataError) as error:
        find_sources(tmp_path / "empty")
    assert str(tmp_path / "empty" / "*.txt.xz") in error.value.fix
    for file in (tmp_path / "empty").iterdir():
        file.unlink()
    write(tmp_path / "x.parquet")
    (tmp_path / "x.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(FileKindError) as error:
        find_sources(tmp_path)
    assert error.value.file == str(tmp_path / "x.txt")


def test_files_that_appear_later_are_not_read(log):
    stream = rankine.scan(log)
    write(log / "day=12/shop=a%20b/part-0.parquet")
    assert sum(block.n_rows for block in stream) == 6


def test_a_half_written_file_is_named_before_training(log):
    path = log / "day=10/shop=a%20b/part-0.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError) as error:
        rankine.scan(log)
    assert error.value.file == str(path)


# ------------------------------------------------------------------------ other filesystems
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("log/*/part-?.parquet", ["log/a=1/part-0.parquet", "log/a=2/part-0.parquet"]),
        ("log/a=[2-9]", ["log/a=2"]),
        ("**/*.parquet", ["log/a=1/part-0.parquet", "log/a=2/part-0.parquet", "x.parquet"]),
        (
            "log/**",
            ["log", "log/a=1", "log/a=1/part-0.parquet", "log/a=2", "log/a=2/part-0.parquet"],
        ),
        ("none/*", []),
    ],
)
def test_patterns_match_as_a_shell_does(tmp_path, pattern, names):
    for name in ("log/a=1/part-0.parquet", "log/a=2/part-0.parquet", "x.parquet", "log/.x.parquet"):
        write(tmp_path / name)
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    assert [name for name in match_pattern(filesystem, pattern) if name != "log"] == [
        name for name in names if name != "log"
    ]


def test_a_file_of_another_filesystem_is_read_and_watched(tmp_path):
    write(tmp_path / "x.parquet")
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    store = Store(filesystem, "store://", (Store, ()))
    source = Source("store://x.parquet", filesystem=store, remote_path="x.parquet")
    assert rankine.load(source).fingerprint == rankine.load(tmp_path / "x.parquet").fingerprint
    write(tmp_path / "x.parquet", TABLE.slice(1))
    with pytest.raises(DataError) as error:
        rankine.load(source)
    assert error.value.file == "store://x.parquet"
