"""Files are loaded with names, group sizes and weights."""

from __future__ import annotations

import pytest

import rankine
from rankine.core.errors import (
    DataError,
    EmptyDataError,
    ParseError,
    SchemaError,
)

ROW = b"1 qid:%d 1:%d\n"


@pytest.fixture
def folder(tmp_path):
    for k, name in enumerate(("b.txt", "a.txt", "c[1].txt")):
        (tmp_path / name).write_bytes(ROW % (k, k + 1))
    (tmp_path / "d.txt").mkdir()
    return tmp_path


def test_feature_names_from_a_list_or_a_file(folder):
    path, names = folder / "a.txt", folder / "names"
    names.write_text(" price \nsize\n")
    for given in (["price", "size"], names, str(names)):
        data = rankine.load(path, feature_names=given)
        assert data.feature_names == ("price", "size")
        assert data.n_features == 2
        assert rankine.scan(path, feature_names=given).feature_names == ("price", "size")
        assert [b.feature_names for b in rankine.scan(path, feature_names=given)] == [
            ("price", "size")
        ]
    with pytest.raises(SchemaError, match="2 feature names for 3 features"):
        rankine.load(path, feature_names=names, n_features=3)
    for text, reason, line in (("a\n\nb\n", "empty feature name", 2), ("a\nb\na\n", "twice", 3)):
        names.write_text(text)
        with pytest.raises(SchemaError, match=reason) as error:
            rankine.load(path, feature_names=names)
        assert (error.value.file, error.value.line) == (str(names), line)
    with pytest.raises(SchemaError):
        rankine.load(path, feature_names=folder / "none")


def test_empty_files_are_counted_and_named(folder):
    for k in range(5):
        (folder / f"empty{k}.txt").write_bytes(b"# nothing\n")
    data = rankine.load([folder / "a.txt", folder / "empty0.txt", folder / "b.txt"])
    assert (data.n_rows, data.read_counts) == (2, {"empty_files": 1})
    assert data.sources == tuple(str(folder / f"{name}.txt") for name in ("a", "empty0", "b"))
    assert "empty_files" not in rankine.load(folder / "a.txt").read_counts
    empty = [str(folder / f"empty{k}.txt") for k in range(5)]
    with pytest.raises(EmptyDataError) as error:
        rankine.load(empty)
    assert error.value.reason == f"no rows in {', '.join(empty[:3])} and 2 more"
    with pytest.raises(EmptyDataError) as error:
        rankine.load(empty[:3])
    assert error.value.reason == f"no rows in {', '.join(empty[:3])}"


def test_sizes_and_weights_beside_the_rows(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1 1:1\n0 1:2\n2 1:3\n1 1:4\n")
    for name, lines in (
        ("q", "1\n 2 \n1\n"),
        ("q1", "1\n"),
        ("q2", "2\n1"),
        ("w", "1\n.5\n2e-1\n0"),
    ):
        (tmp_path / name).write_text(lines)
    both = [str(tmp_path / "q1"), tmp_path / "q2"]
    for group in ([1, 2, 1], tmp_path / "q", both):
        assert rankine.load(path, group=group).qid.tolist() == [0, 1, 1, 2]
    for weight in ([1, 0.5, 0.2, 0], str(tmp_path / "w")):
        data = rankine.load(path, single_query=True, sample_weight=weight)
        assert data.weight.tolist() == [1.0, 0.5, 0.2, 0.0]
        stream = rankine.scan(path, group=[2, 2], sample_weight=weight, block_rows=1)
        assert [block.weight.tolist() for block in stream] == [[1.0, 0.5], [0.2, 0.0]]
    for weight, reason in (
        ([1] * 3, "3 weights for at least 4 rows"),
        ([1] * 5, "5 weights for 4"),
    ):
        with pytest.raises(SchemaError, match=reason):
            rankine.load(path, single_query=True, sample_weight=weight)
    for group, reason in (
        ([3], "add up to 3 rows but the data has at least 4"), ([5], "5 rows but the data has 4"),
        ([], "add up to 0 rows"), ([0], "add up to 0 rows"),
    ):  # fmt: skip
        with pytest.raises(SchemaError, match=reason):
            rankine.load(path, group=group)
    for text, integer, reason in (
        ("2\n-2\n", True, "b'-2' is not a row count"), ("1\n2.5\n", True, "b'2.5' is not"),
        ("1\nx\n", False, "b'x' is not a weight"), ("1\nnan", False, "b'nan' is not a weight"),
    ):  # fmt: skip
        (tmp_path / "bad").write_text(text)
        name = "group" if integer else "sample_weight"
        given = {name: tmp_path / "bad"} | ({} if integer else {"single_query": True})
        with pytest.raises(ParseError, match=reason) as error:
            rankine.load(path, **given)
        assert (error.value.line, error.value.column) == (2, 1)
    with pytest.raises(DataError, match="cannot be opened"):
        rankine.load(path, group=tmp_path / "none")
