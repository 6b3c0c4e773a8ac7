"""Encodings of raw logs, and the sample of a log that a model is remembered by."""

from __future__ import annotations

import pickle
from dataclasses import replace
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine import ElasticRanker, LinearModel, Scorer, logs
from rankine.core.errors import (
    ParameterError,
)
from rankine.core.specs import Binned, LogColumns, OneHot
from rankine.data.splits import query_units
from rankine.logs import encoding as encoding_module
from rankine.logs.encoding import _fill_label, invent_row, sample_lists
from rankine.transforms import categories
from reference.raw_logs import COLUMNS, KINDS, options, write_log


def test_a_sample_of_lists_does_not_keep_the_blocks_it_comes_from(log):
    for block in logs.scan(log, **COLUMNS, block_rows=200):
        units, lists, _ = sample_lists(block, (), hash_bound=0.02)
        assert lists.n_queries == len(units)
        assert not np.shares_memory(lists.y, block.y)
        assert not np.shares_memory(lists.columns["price"], block.columns["price"])


def test_texts_of_a_dictionary_are_hashed_once(tmp_path, monkeypatch):
    from rankine.transforms import log_columns

    write_log(tmp_path / "log.parquet", lists=2000)
    looked_up = []

    def feature_indices(places, values):
        looked_up.append(len(values))
        return categories.feature_indices(places, values)

    monkeypatch.setattr(log_columns, "feature_indices", feature_indices)
    log = logs.scan(tmp_path / "log.parquet", **{**COLUMNS, "crosses": []}, block_rows=100)
    rows = sum(block.n_rows for block in log)
    assert sum(looked_up) < rows / 10


def test_partitions_that_are_sent_share_one_encoding(log):
    wanted = {"query": "session_id", "label": "clicked", "categorical": ["brand", "category"]}
    parts = rankine.distributed.scan(logs.scan(log, **wanted), partition_bytes=30_000)
    sent = [pickle.loads(pickle.dumps(partition)) for partition in parts.partitions]  # noqa: S301
    assert len({id(partition.encoding) for partition in sent}) == 1 < len(sent)
    for partition, there in zip(parts.partitions, sent, strict=True):
        assert there.key == partition.key
        assert there.load().fingerprint == partition.load().fingerprint
    other = rankine.distributed.scan(logs.scan(log, **{**wanted, "label": "purchased"}))
    assert pickle.loads(pickle.dumps(other.encoding)) is not sent[0].encoding  # noqa: S301


def test_probe_rows_are_invented_and_use_every_kind_of_weight(trained, log):
    rows = [probe.raw for probe in trained.probes.rows]
    assert len(rows) == 4
    assert len(set(trained.probes.scores)) > 1
    seen = pq.read_table(log, columns=["price", "brand", "category"]).to_pylist()
    assert not any(row in seen for row in rows)
    named = {name.split("=")[1] for name in trained.weight_names if name.count("=") == 1}
    assert {row["brand"] for row in rows} & named
    assert {row["category"] for row in rows} <= set(KINDS.tolist())
    Scorer(trained).self_test()


def test_names_of_hashed_weights_depend_on_neither_order_nor_blocks(log):
    wanted = options(numeric=["price"], hash_bits=4)
    few = logs.scan(log, **wanted, block_rows=50)
    many = logs.scan(log, **wanted)
    models = [rankine.ElasticRanker(random_state=0).fit(part).to_model() for part in (few, many)]
    assert models[0].weight_names == models[1].weight_names
    assert models[0].digest == models[1].digest
    encoding = many.log_encoding()
    indices = models[0].indices.tolist()
    # Partitions and pickled rankers have no names: the log is read again.
    assert tuple(encoding._weight_names(indices, None)) == models[0].weight_names
    encoding.raw = None
    assert encoding._weight_names([1, 0], None) == ["hash:0", "price"]


def test_a_fit_reads_a_log_once(log, monkeypatch):
    lists = logs.scan(log, **options(numeric=["price"]))
    readings = []
    read = type(lists.raw).blocks

    def counted(scan, *rows):
        readings.append(1)
        yield from read(scan, *rows)

    monkeypatch.setattr(type(lists.raw), "blocks", counted)
    rankine.ElasticRanker(random_state=0).fit(lists).to_model()
    assert len(readings) == 1


def test_features_have_names_unless_some_are_hashed(log):
    plain = logs.scan(log, query="session_id", numeric=["price"], one_hot=["category"])
    plain.log_encoding()  # collects the values of one-hot columns
    assert set(plain.feature_names) == {"price", *(f"category={kind}" for kind in KINDS)}
    assert plain.n_features == 4
    hashed = logs.scan(log, **options(hash_bits=5))
    hashed.log_encoding()
    assert (hashed.feature_names, hashed.n_features) == (None, 32)
    keys = {
        lists.log_encoding().key
        for lists in (plain, hashed, logs.scan(log, **options(hash_bits=6)))
    }
    relabelled = logs.scan(log, **options(hash_bits=5) | {"label": "purchased"})
    unlabelled = logs.scan(log, query="session_id", categorical=["brand"], hash_bits=5)
    assert len(keys | {relabelled.log_encoding().key, unlabelled.log_encoding().key}) == 5
    assert (unlabelled.load().y == 0).all()


def test_missing_values_in_labels_count_as_zero():
    for given, expected in (
        (np.array([True, None, False], dtype=object), [True, False, False]),
        (np.array([1.0, np.nan]), [1.0, 0.0]),
        (np.array([3, 0]), [3, 0]),
    ):
        assert _fill_label(given).tolist() == expected


def test_invented_rows_are_the_same_in_every_version():
    spec = LogColumns(
        numeric=("a", "b"), one_hot=(OneHot("c", ("x", "y", "z")), OneHot("d", ("x", "y"))),
        hashed=("e", "f"), crosses=(("b", "e"),), binned=(Binned("g", (1.0,)),),
    )  # fmt: skip
    names = ["a", *(f"e=v{k}" for k in range(9)), "f x=1", "ee=no"]
    rows = [invent_row(spec, names, i) for i in range(4)]
    assert [row["a"] for row in rows] == [number / 4 for number in (-8, -1, 6, -4)]
    assert [row["b"] for row in rows] == [-3, 5, -4, 4], "whole numbers in a cross"
    assert [row["g"] for row in rows] == [number / 4 for number in (2, -6, 3, -5)]
    assert [row["c"] for row in rows] == ["x", "y", "z", "x"]
    assert [row["d"] for row in rows] == ["y", "x", "y", "x"]
    assert [row["e"] for row in rows] == ["v0", "v1", "v2", "v3"]
    assert [row["f"] for row in rows] == [f"made up {k}" for k in range(4)]
    assert invent_row(spec, names, 9)["e"] == "v1", "eight of the names are dealt out"
    apart = LogColumns(one_hot=tuple(OneHot(name, ("x", "y", "z")) for name in "abc"))
    assert list(invent_row(apart, (), 1).values()) == ["y", "z", "x"]


@pytest.mark.parametrize("text_ids", [True, False])
@pytest.mark.parametrize("rows", [20, 150, 10_000])
def test_the_sample_holds_the_lists_with_the_smallest_hashes(
    log, tmp_path, monkeypatch, text_ids, rows
):
    monkeypatch.setattr(encoding_module, "SAMPLE_LISTS", 5)
    path = log
    if not text_ids:
        table = pq.read_table(log)
        numbers = pa.array([int(text.as_py()[1:]) for text in table["session_id"]])
        path = tmp_path / "numbers.parquet"
        pq.write_table(table.set_column(0, "session_id", numbers), path)
    lists = logs.scan(path, **options(hash_bits=7), block_rows=rows)
    whole = lists.load()
    ids = whole.queries.ids
    plain = np.array([crc32(t.encode()) for t in ids.tolist()]) if text_ids else ids
    wanted = ids[np.argsort(query_units(plain.astype(np.int64), np.uint64(0)))[:5]]
    record = lists.log_encoding().start_record()
    for _ in range(2):
        for block in lists:
            record.add_block(block)
            assert len(record._list_hashes) <= 2 * 5
            assert sum(part.n_queries for part in record._samples) == len(record._list_hashes)
    found = record._reduce_sample()
    assert found.queries.ids.tolist() == wanted.tolist()
    assert (found.read_counts, found.lines, found.encoding) == ({}, None, None)
    for hasher in record._hashers:
        expected = hasher.hash_distinct(whole.columns)
        assert record._values[hasher.column].hashes.tolist() == expected.tolist()
    assert record._hash_bound == record._list_hashes.max() < 0.1
    for query in found.queries.ids:
        mine, all_rows = found.y[found.qid == query], whole.y[whole.qid == query]
        assert mine.tolist() == all_rows.tolist()


def test_the_sample_is_reduced_when_it_is_twice_too_large(log, monkeypatch):
    monkeypatch.setattr(encoding_module, "SAMPLE_LISTS", 3)
    lists = logs.scan(log, query="session_id", numeric=["price"]).load()
    record = logs.scan(log, query="session_id", numeric=["price"]).log_encoding().start_record()
    held = []
    for query in range(8):
        units, one, places = sample_lists(lists.take_queries(np.array([query])), ())
        record.add((units, one, places))
        held.append(len(record._list_hashes))
    assert held == [1, 2, 3, 4, 5, 6, 3, 4]


def test_lists_above_the_bound_are_left_out(log):
    block = logs.scan(log, query="session_id", numeric=["price"]).load()
    units, lists, values = sample_lists(block, ())
    assert (np.diff(units) > 0).all()
    assert (len(units), lists.n_queries, values) == (300, 300, {})
    below, _, _ = sample_lists(block, (), hash_bound=units[9])
    assert below.tolist() == units[:10].tolist(), "a list at the bound is below it"
    record = logs.scan(log, query="session_id", numeric=["price"]).log_encoding().start_record()
    assert record._values == {}
    assert pickle.loads(pickle.dumps(record)).remaining_blocks is None  # noqa: S301


def test_scores_are_distances_from_the_mean_of_their_list():
    data = rankine.Dataset.from_arrays(np.zeros((5, 1)), np.zeros(5), [1, 2, 1, 3, 2])
    found = encoding_module.centre_by_list(np.array([1.0, 5.0, 3.0, 9.0, 6.0]), data)
    assert found.tolist() == [-1.0, -0.5, 1.0, 0.0, 0.5]


def test_the_summary_describes_all_lists(log):
    lists = logs.scan(log, **options(numeric=["price"], hash_bits=6))
    model = ElasticRanker(random_state=0, n_passes=1).fit(lists).to_model()
    summary = model.provenance["log"]
    assert summary["lists"] == 300
    record = lists.log_encoding().start_record()
    bare = replace(model, transforms=(), provenance={}, probes=None, names=None)
    assert "log" not in record.finish(bare).provenance, "nothing was seen"
    record.remaining_blocks = lists
    assert record.finish(bare).provenance["log"]["lists"] == 300
    assert record.remaining_blocks is None
    plain = LinearModel.from_weights([1.0])
    for without in (plain, replace(model, provenance={})):
        with pytest.raises(ParameterError, match="no summary of its training data"):
            encoding_module.monitor_log(without, [])
    assert summary["values"] != {}
    numbers = logs.scan(log, query="session_id", label="clicked", numeric=["price"])
    model = ElasticRanker(random_state=0, n_passes=1).fit(numbers).to_model()
    assert model.provenance["log"].get("values", {}) == {}
