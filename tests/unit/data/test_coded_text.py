"""Columns of text stay codes from the file to the features; as arrays they are what they were."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.errors import LimitError
from rankine.data.dataset import TEXT, NamedColumns, concat
from rankine.data.readers import columns as reader

TEXTS = np.array(["acme", "zed", "", "ß", "a longer name than the others"], dtype=object)


def column(rng, n, kind):
    """Texts with nulls as an Arrow array of some kind, and what they are as plain text."""
    known = [None if rng.random() < 0.1 else TEXTS[k] for k in rng.integers(0, len(TEXTS), n)]
    plain = ["" if text is None else text for text in known]
    array = pa.array(known, pa.string())
    if kind == "dictionary":
        array = array.dictionary_encode()
    elif kind == "null in the dictionary":
        array = array.dictionary_encode("encode")
    elif kind == "twins in a long dictionary":
        codes = [
            None if t is None else list(TEXTS).index(t) + 5 * (k % 9) for k, t in enumerate(known)
        ]
        texts = pa.array([*np.tile(TEXTS, 9), *(f"unused {k}" for k in range(500))], pa.string())
        array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), texts)
    elif kind != "string":
        array = array.cast(kind)
    return array, plain, known.count(None)


#: Those that Parquet can hold, too.
KINDS = ("string", "large_string", "dictionary", "twins in a long dictionary", "string_view")


@pytest.mark.parametrize(
    ("form", "kind"),
    [("arrow", "null in the dictionary"), *product(("parquet", "arrow"), KINDS)],
)
def test_arrays_are_the_texts_and_missing_ones_are_counted(tmp_path, kind, form):
    array, plain, missing = column(np.random.default_rng(3), 200, kind)
    table = pa.table({"qid": np.arange(200) // 7, "x": np.ones(200), "text": array})
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=61)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, 61)
    options = {"label": "x", "features": ["x"], "columns": ["text"]}
    data = rankine.load(path, **options)
    assert data.columns["text"].dtype == TEXT
    assert data.columns["text"].tolist() == plain
    assert data.read_counts.get("missing_values", 0) == missing
    blocks = list(rankine.scan(path, block_rows=23, **options))
    assert [text for block in blocks for text in block.columns["text"].tolist()] == plain
    assert sum(block.read_counts.get("missing_values", 0) for block in blocks) == missing


def coded(path, **options):
    log = rankine.scan(path, label="x", features=["x"], columns=["text"], **options)
    return [block.columns for block in log]


def test_a_dictionary_that_comes_again_is_one_object(tmp_path):
    texts = pa.array(np.tile(TEXTS, 40)).dictionary_encode()
    table = pa.table({"qid": np.arange(200) // 2, "x": np.ones(200), "text": texts})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=50)
    found = [columns.coded("text") for columns in coded(tmp_path / "rows.parquet", block_rows=20)]
    assert len(found) == 10
    assert all(one.texts is found[0].texts for one in found)


def test_rows_are_taken_and_joined_without_decoding(monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.choice(TEXTS, n).astype(object) for n in (7, 0, 12)]
    parts = [
        rankine.Dataset(
            np.zeros((len(texts), 1)), np.zeros(len(texts)), np.zeros(len(texts), dtype=np.int64),
            columns=NamedColumns({"text": as_codes(rng, texts), "n": np.arange(len(texts))}),
        )
        for texts in arrays
    ]  # fmt: skip
    monkeypatch.setattr("rankine.data.dataset.TEXT", None)  # what is decoded is of this type
    rows = rng.permutation(19)[:11]
    taken = pickle.loads(pickle.dumps(concat(list(parts)).take(rows)))  # noqa: S301
    monkeypatch.undo()
    assert taken.columns["text"].tolist() == np.concatenate(arrays)[rows].tolist()
    assert (
        taken.columns["n"].tolist() == np.concatenate([np.arange(7), np.arange(12)])[rows].tolist()
    )
    assert "text" in taken.columns
    assert "other" not in taken.columns


def as_codes(rng, texts):
    """Texts as codes of a dictionary in an order of its own."""
    from rankine.data.dataset import CodedText

    known = rng.permutation(TEXTS).tolist()
    return CodedText(np.array([known.index(t) for t in texts], dtype=np.int32), known)


def test_few_bytes_that_stand_for_many_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_TEXT_BYTES", 5000)
    texts = pa.array(["x" * 100] * 60).dictionary_encode()
    table = pa.table({"qid": np.arange(60), "x": np.ones(60), "text": texts})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(LimitError, match="expands to 6000 bytes"):
        coded(tmp_path / "rows.parquet")
    assert len(coded(tmp_path / "rows.parquet", block_rows=30)) == 2
