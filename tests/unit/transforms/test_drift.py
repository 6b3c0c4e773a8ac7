"""A day against the training: shares by group, unseen and missing values, scores."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from rankine.core.errors import ModelError
from rankine.core.specs import Binned, LogColumns, OneHot
from rankine.transforms.categories import HashedFeatures
from rankine.transforms.drift import Drift, DriftMonitor, summarise, summary_of
from rankine.transforms.value_sets import ValueHasher, ValueSet


def write(path, lists=200, seed=0, brands="abcdefgh", dearer=1.0, missing=0.0):
    rng = np.random.default_rng(seed)
    n = lists * 6
    price = dearer * rng.lognormal(2, 0.5, n)
    brand = rng.choice(list(brands), n)
    utility = (brand == "a") * 2.0 - 0.05 * price + rng.gumbel(size=n)
    clicked = (utility.reshape(lists, 6) == utility.reshape(lists, 6).max(axis=1)[:, None]).ravel()
    price = [None if rng.random() < missing else p for p in price.tolist()]
    columns = {
        "session": np.repeat([f"s{k}" for k in range(lists)], 6),
        "price": pa.array(price, pa.float64()),
        "brand": brand,
        "shop": rng.choice(["north", "south"], n),
        "clicked": clicked,
    }
    pq.write_table(pa.table(columns), path, row_group_size=100)
    return path


WANTED = {"query": "session", "label": "clicked", "numeric": ["price"], "one_hot": ["shop"],
          "categorical": ["brand"], "hash_bits": 12}  # fmt: skip


def test_the_summary_covers_the_whole_log_when_a_run_stops_early(tmp_path):
    path = write(tmp_path / "log.parquet", lists=60)
    found = []
    for rows in (36, 100_000):
        log = rankine.logs.scan(path, **WANTED, block_rows=rows)
        ranker = rankine.ElasticRanker(random_state=0, scale="query")
        ranker.fit(log, callbacks=[lambda _: True])
        copied = pickle.loads(pickle.dumps(ranker))  # noqa: S301
        found.append(copied.to_model().provenance["log"]["rows"])
        found.append(ranker.to_model().provenance["log"]["columns"])
    assert found[1] == found[3]
    assert found[0] <= found[2] == 360


SPEC = LogColumns(numeric=("price",), one_hot=(OneHot("shop", ("north", "south")),),
                  hashed=("brand",), hash_bits=5, binned=(Binned("age", (1.0,)),))  # fmt: skip


def group(name, value):
    return HashedFeatures((name,), 4, 0)[value]


#: A value of each column that falls into the first group.
FIRST = {
    name: next(f"v{k}" for k in range(999) if group(name, f"v{k}") == 0)
    for name in ("brand", "shop")
}


def summary_by_hand(prices, brands, shops):
    """What ``summarise`` tells of plain lists."""
    known = np.sort([p for p in prices if p is not None and np.isfinite(p)])
    tenths = [known[max(int(np.ceil(k / 10 * len(known))), 1) - 1] for k in range(1, 10)]
    cuts = sorted(set(tenths))
    places = [sum(cut <= p for cut in cuts) for p in known]
    shares = tuple(round(places.count(k) / len(known), 6) for k in range(len(cuts) + 1))
    found = {"price": (round(1 - len(known) / len(prices), 6), shares, tuple(cuts))}
    for name, values in (("brand", brands), ("shop", shops)):
        groups = [group(name, v) for v in values if v]
        shares = tuple(round(groups.count(k) / max(len(groups), 1), 6) for k in range(16))
        found[name] = (round(1 - len(groups) / len(values), 6), shares, None)
    return found


def made(seed=0, n=40):
    rng = np.random.default_rng(seed)
    prices = [None if rng.random() < 0.2 else float(p) for p in rng.integers(1, 30, n)]
    brands = rng.choice(["", FIRST["brand"], "zed", "nadir", "omega"], n).tolist()
    shops = rng.choice(["north", "south", FIRST["shop"]], n).tolist()
    ages = rng.integers(0, 5, n).tolist()
    return {"price": prices, "brand": brands, "shop": shops, "age": ages}, rng.normal(size=n)


def seen_of(brands):
    values = ValueSet()
    values.add(ValueHasher("brand").hash_distinct({"brand": brands}))
    return {"brand": values}


def test_a_summary_is_shares_of_rows():
    columns, scores = made()
    found = summarise(SPEC, columns, scores, 7, seen_of(columns["brand"]))
    told = {name: (one.missing, one.shares, one.cuts) for name, one in found.columns.items()}
    age = told.pop("age")
    assert told == summary_by_hand(columns["price"], columns["brand"], columns["shop"])
    assert age == summary_by_hand(columns["age"], [""], [""])["price"]
    assert (found.lists, found.rows) == (7, 40)
    assert (found.scores.missing, sum(found.scores.shares)) == (0.0, pytest.approx(1.0))
    empty = {"price": [None], "brand": [""], "shop": [], "age": [1]}
    nothing = summarise(SPEC, empty, np.zeros(0), 0, {})
    assert nothing.values == {}
    assert (nothing.columns["price"].missing, nothing.columns["price"].shares) == (1.0, (1.0,))
    assert (nothing.columns["brand"].missing, nothing.columns["shop"].missing) == (1.0, 1.0)
    assert sum(nothing.columns["brand"].shares) == 0.0


def psi(now, then):
    return sum(
        (max(p, 1e-4) - max(q, 1e-4)) * np.log(max(p, 1e-4) / max(q, 1e-4))
        for p, q in zip(now, then, strict=True)
    )


def test_drift_equals_its_definition_for_any_split_of_the_rows():
    before, scores = made()
    summary = summarise(SPEC, before, scores, 7, seen_of(before["brand"]))
    today, now = made(seed=1, n=60)
    today["brand"] = ["new" if b == "zed" else b for b in today["brand"]]
    drift_monitor = DriftMonitor(summary, SPEC)
    for a, b in ((0, 25), (25, 60)):
        drift_monitor.add({k: v[a:b] for k, v in today.items()}, b - a, now[a:b])
    assert drift_monitor.rows == 60
    found = {one.column: one for one in drift_monitor.drift()}
    for name in ("price", "brand", "shop", "age", ""):
        then = summary.scores if name == "" else summary.columns[name]
        values = now.tolist() if name == "" else today[name]
        known = [v for v in values if v is not None and v != ""]
        share = 1 - len(known) / 60
        if then.cuts is None:
            places = [group(name, v) for v in known]
        else:
            places = [sum(cut <= v for cut in then.cuts) for v in known]
        counts = np.array([places.count(k) for k in range(len(then.shares))])
        inner = counts / len(known)
        expected = psi(
            [*(inner * (1 - share)), share],
            [*(np.array(then.shares) * (1 - then.missing)), then.missing],
        )
        one = found[name]
        assert one.psi == pytest.approx(expected)
        assert (one.missing, one.missing_before) == (pytest.approx(share), then.missing)
        if then.cuts is None:
            assert one.shift is None
        else:
            ends = np.abs(np.cumsum(inner) - np.cumsum(then.shares))
            assert (one.shift, one.unseen) == (pytest.approx(ends.max()), None)
    shops = today["shop"]
    assert found["shop"].unseen == pytest.approx(shops.count(FIRST["shop"]) / 60)
    brands = [b for b in today["brand"] if b]
    assert found["brand"].unseen == pytest.approx(brands.count("new") / len(brands))
    missing = {name: sum(v is None or v == "" for v in today[name]) for name in today}
    counters = drift_monitor.counters()
    assert {name: one[0] for name, one in counters.items()} == missing
    assert {name: one[1] for name, one in counters.items()} == {
        "price": 0, "age": 0, "brand": brands.count("new"), "shop": shops.count(FIRST["shop"]),
    }  # fmt: skip
    drift_monitor.add({"price": [1.0, 2.0]}, 2, np.zeros(2))
    absent = {name: one[0] - missing[name] for name, one in drift_monitor.counters().items()}
    assert absent == {"price": 0, "brand": 2, "shop": 2, "age": 2}


def test_a_log_of_one_row_is_summarised():
    row = {"price": [2.0], "brand": ["zed"], "shop": ["north"], "age": [1]}
    alone = summarise(SPEC, row, np.zeros(1), 1, seen_of(["zed"]))
    for one in (*alone.columns.values(), alone.scores):
        assert (one.missing, sum(one.shares)) == (0.0, 1.0)
    same, other, gone = (DriftMonitor(alone, SPEC) for _ in range(3))
    same.add(row, 1, np.zeros(1))
    for one in same.drift():
        assert (one.psi, one.missing, one.shift or 0.0) == (0.0, 0.0, 0.0)
    other.add({**row, "shop": [FIRST["shop"]], "brand": ["new"]}, 1, np.zeros(1))
    unseen = {one.column: one.unseen for one in other.drift()}
    assert unseen == {"price": None, "age": None, "brand": 1.0, "shop": 1.0, "": None}
    gone.add({**row, "price": [None], "brand": [""]}, 1, np.zeros(1))
    assert [one.missing for one in gone.drift() if one.column in ("price", "brand")] == [1.0, 1.0]


def test_a_monitor_with_no_rows_or_only_new_values():
    before, scores = made()
    summary = summarise(SPEC, before, scores, 7, seen_of(before["brand"]))
    empty = {one.column: one for one in DriftMonitor(summary, SPEC).drift()}
    assert (empty["price"].missing, empty["shop"].unseen) == (0.0, 0.0)
    new = DriftMonitor(summary, SPEC)
    new.add({"brand": ["new"] * 3}, 3, np.zeros(3))
    assert {one.column: one.unseen for one in new.drift()}["brand"] == 1.0
    for share, told in ((0.85, True), (0.95, False)):  # too few hashes are free to tell
        seen = {"brand": ValueSet(np.arange(int(share * 2**20)), 20)}
        full = DriftMonitor(summarise(SPEC, before, scores, 7, seen), SPEC)
        full.add({"brand": ["new"]}, 1, np.zeros(1))
        assert ({one.column: one.unseen for one in full.drift()}["brand"] is not None) == told
    unknown = DriftMonitor(summarise(SPEC, before, scores, 7, {}), SPEC)
    unknown.add({"brand": ["new"]}, 1, np.zeros(1))
    assert {one.column: one.unseen for one in unknown.drift()}["brand"] is None


def test_alarms_are_raised_above_their_limits_and_not_at_them():
    before, scores = made()
    summary = summarise(SPEC, before, scores, 7, seen_of(before["brand"]))
    drift_monitor = DriftMonitor(summary, SPEC)
    today, now = made(seed=2)
    today["price"] = [None] * 30 + today["price"][:10]
    drift_monitor.add({**today, "shop": [FIRST["shop"]] * 40}, 40, now + 3)
    columns = {one.column: one for one in drift_monitor.drift()}
    price, shop = columns["price"], columns["shop"]
    loose = {"threshold": 99.0, "max_unseen": 1.0, "max_missing": 1.0}
    assert Drift.from_monitor(drift_monitor, **loose).alarms == []
    rise = price.missing - price.missing_before
    for option, value, column in (
        ("max_missing", rise, "price"),
        ("max_unseen", 1.0, "shop"),
        ("threshold", max(one.psi for one in columns.values()), ""),
    ):
        assert Drift.from_monitor(drift_monitor, **{**loose, option: value}).alarms == []
        (alarm,) = Drift.from_monitor(
            drift_monitor, **{**loose, option: np.nextafter(value, 0)}
        ).alarms
        assert alarm.startswith(f"column {column!r}: " if column else "")
    found = Drift.from_monitor(drift_monitor)
    assert any(alarm.startswith("the scores: PSI") for alarm in found.alarms)
    shares = f"{price.missing:.0%} missing, {price.missing_before:.0%} in training"
    assert f"column 'price': {shares}" in found.alarms
    cells = {row[0]: row for row in found.cells()}
    assert cells["shop"][2:] == ("100.0%", "", f"{shop.missing:.1%}", f"{shop.missing_before:.1%}")
    assert cells["(scores)"][1] == f"{columns[''].psi:.3f}"
    assert cells["price"][2:4] == ("", f"{price.shift:.3f}")
    told = found.to_dict()
    assert set(told["columns"]["price"]) == {"psi", "missing", "missing_before", "unseen", "shift"}


def test_a_damaged_summary_is_refused():
    with pytest.raises(ModelError, match="provenance in the model cannot be read"):
        rankine.LinearModel.from_weights([1.0], provenance={"log": {"lists": "many"}})
    assert summary_of(rankine.LinearModel.from_weights([1.0])) is None
