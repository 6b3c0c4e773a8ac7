"""Click logs of every kind, and labels from clicks over expected clicks, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from error_checks import raises_at, raises_for
from rankine import Dataset, logs
from rankine.core.errors import EmptyDataError, ParameterError, SchemaError
from rankine.logs.clicks import (
    ClickLog,
    CoecLabel,
    coec,
    coec_formula,
    encode,
    expected_clicks,
    position_propensity,
    read_clicks,
    relabelled,
    sum_by,
)
from rankine.logs.simulation import simulate
from rankine.transforms.clicks import row_positions

LOG = {
    "session": [7, 7, 7, 3, 3, 5, 5],
    "clicked": [0, 1, 0, 1, 1, 0, 0],
    "purchased": [0, 1, 0, 0, 1, 0, 0],
    "position": [1, 2, 3, 1, 2, 1, 4],
    "item": ["b", "a", "c", "a", "b", "c", "a"],
    "search": ["x", "x", "x", "y", "y", "x", "x"],
    "device": ["tv", "tv", "tv", "pc", "pc", "tv", "tv"],
}
NAMES = {"item": "item", "search": "search", "columns": ["device"]}


def dataset():
    return Dataset.from_arrays(
        np.zeros((7, 1)), LOG["clicked"], LOG["session"], position=LOG["position"],
        docid=LOG["item"], columns={k: np.array(LOG[k]) for k in ("search", "device", "purchased")},
    )  # fmt: skip


def forms(folder):
    table = pa.table(LOG)
    pq.write_table(table, folder / "log.parquet")
    dictionary = table.set_column(4, "item", pa.chunked_array([
        pa.array(LOG["item"][:3]).dictionary_encode(), pa.array(LOG["item"][3:]).dictionary_encode()
    ]).unify_dictionaries())  # fmt: skip
    blocks = [dataset().take(slice(0, 3)), dataset().take(slice(3, 7))]
    path = folder / "log.parquet"
    return {
        "mapping": LOG, "arrow": table, "coded": dictionary, "pandas": pd.DataFrame(LOG),
        "polars": pl.DataFrame(LOG), "dataset": dataset(), "blocks": blocks, "path": path,
        "text path": str(path), "paths": [Path(path)],
    }  # fmt: skip


def test_a_log_is_the_same_in_every_form(tmp_path):
    for kind, form in forms(tmp_path).items():
        found = read_clicks(form, **NAMES)
        assert found.lists.tolist() == [0, 0, 0, 1, 1, 2, 2], kind
        assert found.label.tolist() == LOG["clicked"], kind
        assert found.position.tolist() == LOG["position"], kind
        assert found.item.tolist() == [0, 1, 2, 1, 0, 2, 1], kind
        assert found.search.tolist() == [0, 0, 0, 1, 1, 0, 0], kind
        assert found.columns["device"].tolist() == LOG["device"], kind
        assert read_clicks(found) is found
        bare = read_clicks(form, position=None)
        assert (bare.position, bare.item, bare.search) == (None, None, None), kind
        with raises_for("position", SchemaError):
            row_positions(bare)
        with raises_for("item"):
            _ = bare.pair
    weighed = {"label": "clicked + 4*purchased", "query": "session"}
    for kind in ("mapping", "arrow", "path"):
        assert read_clicks(forms(tmp_path)[kind], **weighed).label.tolist() == [0, 5, 0, 1, 5, 0, 0]
    data = dataset()
    assert read_clicks(data, label="purchased").label.tolist() == LOG["purchased"]
    less = {k: v for k, v in LOG.items() if k != "device"}
    for without in (
        less,
        pa.table(less),
        replace(data, columns={"search": np.array(LOG["search"])}),
    ):
        with pytest.raises(SchemaError, match="no column 'device'"):
            read_clicks(without, **NAMES)


def test_positions_by_another_name(tmp_path):
    renamed = {"rank" if name == "position" else name: LOG[name] for name in LOG}
    pq.write_table(pa.table(renamed), tmp_path / "log.parquet")
    for form in (renamed, pa.table(renamed), pd.DataFrame(renamed), tmp_path / "log.parquet"):
        assert read_clicks(form, position="rank").position.tolist() == LOG["position"]
        with pytest.raises(SchemaError):
            read_clicks(form)
    assert read_clicks(dataset(), position="rank").position.tolist() == LOG["position"]


def test_a_column_is_preferred_to_a_dataset_field_of_the_same_name():
    data = dataset()
    data = replace(data, columns={**data.columns, "clicked": 1 - data.y, "rank": data.position + 1})
    found = read_clicks(data, position="rank")
    assert found.label.tolist() == [1 - click for click in LOG["clicked"]]
    assert found.position.tolist() == [place + 1 for place in LOG["position"]]
    assert read_clicks(data, label="y").label.tolist() == LOG["clicked"]


def test_a_log_of_one_row_can_be_read():
    one = {name: values[1:2] for name, values in LOG.items()}
    for form in (one, pa.table(one), [dataset().take(slice(1, 2))]):
        found = read_clicks(form, **NAMES)
        assert (found.n_rows, found.position.tolist(), found.label.tolist()) == (1, [2], [1])
        np.testing.assert_allclose(expected_clicks(found), [1.0])
        np.testing.assert_allclose(coec(found, shrinkage=1.0), [1.0])


def test_click_rates_of_positions_shown_once_or_never_are_finite():
    """Position 2 is not in the log, position 3 once."""
    log = read_clicks({"session": [1, 1, 2], "position": [1, 3, 1], "clicked": [1, 1, 0]})
    np.testing.assert_allclose(expected_clicks(log), [0.5, 1.0, 0.5])
    np.testing.assert_allclose(expected_clicks(log, [0.5]), [2 / 3] * 3)


def test_objects_that_are_not_click_logs_are_refused():
    for nothing in ([], {"session": [], "clicked": [], "position": []}):
        with pytest.raises(EmptyDataError):
            read_clicks(nothing)
    rowless = {name: values[:0] for name, values in LOG.items()}
    for frame in (pd.DataFrame(rowless), pl.DataFrame(rowless), pa.table(rowless), rowless,
                  dataset().take(slice(0, 0)), [dataset().take(slice(0, 0))]):  # fmt: skip
        with pytest.raises(EmptyDataError):
            read_clicks(frame)
    for frame in (pd.DataFrame(), pl.DataFrame(), pa.table({}), {}, pd.DataFrame(index=[1, 2])):
        with pytest.raises(SchemaError, match="no column 'session'"):
            read_clicks(frame)
    with raises_for("log", SchemaError):
        read_clicks(3)
    bare = Dataset.from_arrays(np.zeros((2, 1)), [0, 1])
    with pytest.raises(SchemaError):
        read_clicks(bare)
    with pytest.raises(SchemaError):
        read_clicks(replace(dataset(), docid=None), item="item")
    with raises_at(SchemaError, column="clicked"):
        read_clicks(pa.table({**LOG, "clicked": [0, 1, 0, None, 1, 0, 0]}))
    with raises_at(SchemaError, column="item"):
        read_clicks({**LOG, "item": ["b", None, "c", None, "b", "c", "a"]}, item="item")


def test_pairs_are_numbered_and_selected_rows_keep_their_values():
    log = read_clicks(LOG, **NAMES)
    pairs = list(zip(LOG["search"], LOG["item"], strict=True))
    order = list(dict.fromkeys(pairs))
    assert log.pair.tolist() == [order.index(pair) for pair in pairs]
    assert read_clicks(LOG, item="item").pair.tolist() == log.item.tolist()
    part = log.take(np.array([3, 4, 6]))
    assert part.lists.tolist() == [0, 0, 1]
    assert part.label.tolist() == [1, 1, 0]
    assert part.position.tolist() == [1, 2, 4]
    assert (part.item.tolist(), part.search.tolist()) == ([1, 0, 1], [1, 1, 0])
    assert part.columns["device"].tolist() == ["pc", "pc", "tv"]
    assert (part.n_rows, part.clicked.tolist()) == (3, [True, True, False])
    bare = ClickLog(log.lists, log.label, None, None, None, {}).take(np.array([0]))
    assert (bare.position, bare.item, bare.search) == (None, None, None)


def test_values_are_numbered_in_order_of_first_appearance():
    for values in (["b", "a", "b"], np.array([5, 2, 5]), pa.chunked_array([["b"], ["a", "b"]])):
        codes, distinct = encode(values)
        assert codes.tolist() == [0, 1, 0]
        assert codes.dtype == np.int64
        assert len(distinct) == 2
    assert sum_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 4).tolist() == [1, 0, 5, 0]


# ------------------------------------------------------------------ clicks over expected clicks
@pytest.mark.parametrize("propensity", [(), (1.0, 0.5), (1.0, 0.5, 0.25, 0.125)])
@pytest.mark.parametrize("shrinkage", [None, 0.5])
def test_coec_equals_its_formula(propensity, shrinkage):
    log = read_clicks(simulate(400, n_searches=4, exploration=1.0, random_state=0),
                      item="item", search="search")  # fmt: skip
    place, clicked = log.position - 1, log.label > 0
    if propensity:
        look = np.array([propensity[min(k, len(propensity) - 1)] for k in place])
        chance = look * clicked.sum() / look.sum()
    else:
        chance = np.array([clicked[place == k].mean() for k in place])
    np.testing.assert_allclose(expected_clicks(log, propensity), chance, rtol=1e-12)
    C = np.array([clicked[log.pair == p].sum() for p in range(log.pair.max() + 1)])
    E = np.array([chance[log.pair == p].sum() for p in range(log.pair.max() + 1)])
    a = shrinkage or 1 / max(((C - E) ** 2 - E).sum() / (E**2).sum(), 1e-6)
    found = coec(log, propensity, shrinkage=shrinkage)
    np.testing.assert_allclose(found, ((C + a) / (E + a))[log.pair], rtol=1e-12)


def test_pairs_that_differ_no_more_than_by_chance_are_average():
    log = read_clicks({"session": [1, 1, 2, 2], "position": [1, 2, 1, 2], "item": [0, 1, 0, 1],
                       "clicked": [1, 0, 0, 1]}, item="item")  # fmt: skip
    np.testing.assert_allclose(coec(log), 1.0, rtol=1e-12)
    skewed = read_clicks({"session": [1, 1], "position": [1, 2], "item": [0, 1],
                          "clicked": [1, 0]}, item="item")  # fmt: skip
    wanted = [(1 + 1e6) / (0.5 + 1e6), 1e6 / (0.5 + 1e6)]
    np.testing.assert_allclose(coec(skewed, [1.0, 1.0]), wanted, rtol=1e-12)
    for bad in (0.0, -1.0, np.nan):
        with raises_for("shrinkage"):
            coec(log, shrinkage=bad)
    with pytest.raises(SchemaError) as caught:
        coec(read_clicks({**LOG, "clicked": [0] * 7}, item="item"))
    assert caught.value.parameter == "label"


def test_the_formula_is_parsed_from_a_coec_label():
    assert coec_formula(" coec ") == "clicked"
    assert coec_formula("coec(a + (b > 1))") == "a + (b > 1)"
    for other in ("clicked", "coec(a", "coec + 1", "xcoec(a)", "coeca)"):
        assert coec_formula(other) is None


def test_labels_of_pairs_follow_them_everywhere(tmp_path):
    log = simulate(300, n_searches=6, exploration=0.5, random_state=1)
    table = log.to_table(features=True)
    pq.write_table(table, tmp_path / "log.parquet")
    said = {"query": "session", "position": "position", "item": "item", "search": "search"}
    label = CoecLabel(tmp_path / "log.parquet", "clicked", **said)
    wanted = coec(read_clicks(table, item="item", search="search"))
    np.testing.assert_array_equal(label(table.select(["item", "search"]).to_pydict()), wanted)
    other = CoecLabel(tmp_path / "log.parquet", "purchased", **said)
    fair = CoecLabel(tmp_path / "log.parquet", "clicked", [1.0, 0.5], **said)
    assert len({label.text, other.text, fair.text}) == 3
    assert CoecLabel(table, "clicked", **said).text == label.text
    found = logs.scan(tmp_path / "log.parquet", **said, label="coec", numeric=["x1"])
    np.testing.assert_array_equal(found.load().y, wanted)
    np.testing.assert_array_equal(found.relabelled(other).load().y, other(table.to_pydict()))
    stream = rankine.scan(tmp_path / "log.parquet", query="session", label="clicked",
                          features=["x1"], columns=["item", "search"], block_rows=100)  # fmt: skip
    for source in (stream, stream):
        again = relabelled(source, label)
        np.testing.assert_array_equal(np.concatenate([block.y for block in again]), wanted)
        assert (again.n_features, again.feature_names) == (1, stream.feature_names)
    parts = relabelled(stream, label).to_partitions(partition_bytes=4000)
    assert len(parts.partitions) > 1
    np.testing.assert_array_equal(np.concatenate([p.load().y for p in parts.partitions]), wanted)
    data = rankine.load(tmp_path / "log.parquet", query="session", label="clicked",
                        features=["x1"], columns=["item", "search"])  # fmt: skip
    np.testing.assert_array_equal(relabelled(data, label).y, wanted)
    assert relabelled(found, label).is_raw_log
    with pytest.raises(ParameterError) as caught:
        logs.scan(tmp_path / "log.parquet", query="session", label="coec", numeric=["x1"])
    assert caught.value.parameter == "item"


def test_propensities_by_context_are_refused_where_one_list_is_needed():
    assert position_propensity([1, 0.5]).tolist() == [1.0, 0.5]
