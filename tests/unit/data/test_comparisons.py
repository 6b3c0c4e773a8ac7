"""Comparisons as lists of two rows: which row, label and weight stands where."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from error_checks import raises_at
from rankine import Dataset
from rankine.core.errors import EmptyDataError, SchemaError
from rankine.data.comparisons import read_pairs

ROWS = np.arange(6.0).reshape(3, 2) + 1
OTHERS = -ROWS


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("weight", [None, [4.0, 9.0, 1.0]])
@pytest.mark.parametrize("tie", [None, [False, True, False]])
def test_every_comparison_is_two_rows_and_a_tie_is_four(kind, weight, tie):
    data = Dataset.from_pairs(kind(ROWS), kind(OTHERS), weight=weight, tie=tie)
    pairs = [(k, ROWS[k], OTHERS[k], 1.0) for k in range(3)]
    if tie is not None:
        pairs[1] = (1, ROWS[1], OTHERS[1], 0.5)
        pairs.append((1, OTHERS[1], ROWS[1], 0.5))
    given = [1.0, 1.0, 1.0] if weight is None else weight
    assert sparse.issparse(data.X) == (kind is not np.asarray)
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    assert data.n_queries == len(pairs)
    assert data.docid is None
    for query, (number, better, worse, share) in enumerate(pairs):
        rows = np.flatnonzero(data.qid == query)
        assert sorted(data.y[rows]) == [0.0, 1.0]
        assert X[rows][data.y[rows] == 1].tolist() == [better.tolist()]
        assert X[rows][data.y[rows] == 0].tolist() == [worse.tolist()]
        assert data.columns["comparison"][rows].tolist() == [number, number]
        if weight is None and tie is None:
            assert data.weight is None
        else:
            assert data.weight[rows].prod() == pytest.approx(share * given[number])
            assert data.weight[rows[0]] == data.weight[rows[1]]


def test_items_have_a_feature_each_and_their_style_beside_it():
    style = (ROWS, OTHERS)
    given = {"winner": ["b", "a", "c"], "loser": ["a", "c", "b"], "tie": [0, 0, 1]}
    plain = Dataset.from_pairs(**given)
    assert plain.feature_names == ("a", "b", "c")
    assert plain.docid.tolist() == ["b", "a", "a", "c", "c", "b", "c", "b"]
    one_hot = [[name == item for name in "abc"] for item in plain.docid]
    np.testing.assert_array_equal(plain.X.toarray(), one_hot)
    for names, expected in ((None, ("feature 1", "feature 2")), (["x", "y"], ("x", "y"))):
        data = Dataset.from_pairs(**given, features=style, feature_names=names)
        assert data.feature_names == ("a", "b", "c", *expected)
        beside = [row for k in (0, 1, 2, 2) for row in (ROWS[k], OTHERS[k])]
        np.testing.assert_array_equal(data.X.toarray(), np.hstack([one_hot, beside]))
    assert Dataset.from_pairs(ROWS, OTHERS, feature_names=["x", "y"]).feature_names == ("x", "y")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"winner": ROWS, "loser": OTHERS[:2]}, r"\(3, 2\) and loser \(2, 2\)"),
        ({"winner": ["a", "b", "c"], "loser": OTHERS}, r"\(3,\) and loser \(3, 2\)"),
        ({"winner": ROWS[None], "loser": OTHERS[None]}, r"winner has shape \(1, 3, 2\)"),
        ({"winner": ["a"], "loser": np.array("b")}, r"loser has shape \(\)"),
        ({"winner": ROWS, "loser": OTHERS, "features": (ROWS, ROWS)}, "given although"),
        ({"winner": ROWS, "loser": OTHERS, "tie": [True]}, r"shape \(1,\) for 3"),
        ({"winner": ROWS, "loser": OTHERS, "weight": [1, 2]}, "sample_weight.shape"),
        ({"winner": ["a", "b"], "loser": ["c", "b"]}, "comparison 1 compares b with itself"),
        ({"winner": ["a"], "loser": ["b"], "features": (ROWS, ROWS)}, "values of winners"),
        (
            {"winner": list("abc"), "loser": list("bca"), "features": (ROWS, ROWS[:, :1])},
            "values of winners",
        ),
        (
            {"winner": list("abc"), "loser": list("bca"), "features": (ROWS, ROWS[:2])},
            "values of winners",
        ),
    ],
)
def test_sides_that_do_not_fit(given, reason):
    with pytest.raises(SchemaError, match=reason):
        Dataset.from_pairs(**given)
    with pytest.raises(EmptyDataError):
        Dataset.from_pairs(np.zeros((0, 2)), np.zeros((0, 2)))


FRAME = pd.DataFrame({
    "won": ["b", "a"], "lost": ["a", "c"], "won_x": [1.0, 2.0], "lost_x": [3.0, 4.0],
    "weight": [4.0, 9.0], "judge": ["j", "k"],
})  # fmt: skip


def write(frame, path):
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in frame.to_dict("records")))
    elif path.suffix == ".arrow":
        frame.to_feather(path)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_files_hold_ids_rows_or_both(tmp_path, suffix):
    def read(*columns, names=None):
        path = write(FRAME[list(columns)], tmp_path / f"votes.{suffix}")
        return read_pairs(path, "won", "lost", names)

    both = read(*FRAME)
    assert both.feature_names == ("a", "b", "c", "x")
    np.testing.assert_array_equal(both.X.toarray()[:, 3], [1, 3, 2, 4])
    np.testing.assert_allclose(both.weight, [2, 2, 3, 3])
    items = read("won", "lost", "judge")
    assert (items.feature_names, items.weight) == (("a", "b", "c"), None)
    for columns in (["won_x", "lost_x"], ["won", "won_x", "lost_x"]):
        rows = read(*columns)
        assert (rows.feature_names, rows.docid) == (("x",), None)
        np.testing.assert_array_equal(rows.X.ravel(), [1, 3, 2, 4])
    wide = read("won", "lost", names=["c", "z", "b", "a"])
    assert wide.feature_names == ("c", "z", "b", "a")
    np.testing.assert_array_equal(
        wide.X.toarray(), [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]]
    )
    with pytest.raises(SchemaError):
        read("won", "lost", names=["a"])
    for columns in (["won", "lost", "won_x"], ["won"], ["won", "lost", "lost_x"], ["judge"]):
        with pytest.raises(SchemaError):
            read(*columns)


def test_several_files_are_one_and_others_are_refused(tmp_path):
    paths = [write(FRAME[["won", "lost"]], tmp_path / f"{k}.csv") for k in range(2)]
    assert read_pairs(paths, "won", "lost").n_queries == 4
    (tmp_path / "votes.txt").write_text("a b\n")
    with pytest.raises(SchemaError):
        read_pairs(tmp_path / "votes.txt", "won", "lost")
    (tmp_path / "bad.jsonl").write_text('{"won": 1}\n{"won"\n')
    with pytest.raises(SchemaError) as error:
        read_pairs(tmp_path / "bad.jsonl", "won", "lost")
    assert error.value.file == str(tmp_path / "bad.jsonl")
    silent = write(FRAME.assign(judge=[None, "k"]), tmp_path / "silent.parquet")
    assert read_pairs(silent, "won", "lost").n_queries == 2
    gap = write(FRAME.assign(won=["b", None])[["won", "lost"]], tmp_path / "gap.parquet")
    with raises_at(SchemaError, column="won") as error:
        read_pairs(gap, "won", "lost")
    assert error.value.column == "won"
