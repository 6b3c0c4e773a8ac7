"""A day against the training: shares by group, unseen and missing values, scores."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.serve.metrics import _Models
from rankine.serve.registry import Registry, Served
from rankine.transforms.drift import Drift, Watcher, summary_of

find_commands()


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


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    log = rankine.logs.scan(write(folder / "log.parquet"), **WANTED)
    found = rankine.ElasticRanker(random_state=0, scale="query").fit(log).to_model()
    found.save(folder / "model.rankine")
    return folder / "model.rankine", found


def watch(model, path, *words):
    done = CliRunner().invoke(app, ["watch", str(model[0]), str(path), "--json", *words])
    return done.exit_code, json.loads(done.stdout) if done.exit_code in (0, 3) else done


def test_a_day_like_the_training_is_quiet(model, tmp_path):
    code, found = watch(model, write(tmp_path / "day.parquet", seed=1))
    assert (code, found["alarms"]) == (0, [])
    assert found["rows"] == 1200
    assert all(one["psi"] < 0.1 for one in (*found["columns"].values(), found["scores"]))
    assert found["columns"]["brand"]["unseen"] == 0
    assert found["columns"]["price"]["shift"] < 0.1


@pytest.mark.parametrize(
    ("change", "column", "reason"),
    [
        ({"dearer": 3.0}, "price", "PSI"),
        ({"brands": "mnopqrst"}, "brand", "never seen"),
        ({"missing": 0.5}, "price", "missing"),
    ],
)
def test_what_changed_is_told_and_ends_with_3(model, tmp_path, change, column, reason):
    path = write(tmp_path / "day.parquet", seed=1, **change)
    code, found = watch(model, path)
    assert code == 3
    assert any(column in alarm and reason in alarm for alarm in found["alarms"])
    assert not any("shop" in alarm for alarm in found["alarms"])
    report = rankine.report(str(model[0]), str(path))
    assert report.figures["drift"]["alarms"] == found["alarms"]
    assert "Does the log look like the training?" in report.html
    lenient = ["--threshold", "99", "--max-unseen", "1", "--max-missing", "1"]
    assert watch(model, path, *lenient)[0] == 0


def test_psi_is_its_formula(model, tmp_path):
    """By hand, for one column of numbers without missing values."""
    path = write(tmp_path / "day.parquet", seed=2, dearer=1.3)
    before = summary_of(model[1]).columns["price"]
    prices = pq.read_table(path)["price"].to_numpy()
    counts = np.bincount(np.searchsorted(before.cuts, prices, side="right"), minlength=10)
    p, q = counts / len(prices), np.array(before.shares)
    expected = ((p - q) * np.log(p / q)).sum()
    assert watch(model, path)[1]["columns"]["price"]["psi"] == pytest.approx(expected)


def test_the_summary_holds_no_rows_and_does_not_depend_on_the_cut(model, tmp_path):
    path = write(tmp_path / "log.parquet", lists=60)
    log = rankine.logs.scan(path, **WANTED)
    parts = rankine.distributed.scan(rankine.logs.scan(path, **WANTED), partition_bytes=20_000)
    ranker = rankine.RankSVM(scale="query")
    found = [ranker.fit(source).to_model().provenance["log"] for source in (log, parts)]
    assert len(parts) > 1
    assert found[0]["columns"] == found[1]["columns"]
    assert found[0]["seen"] == found[1]["seen"]
    assert len(json.dumps(found[0])) < 3000
    assert "s1" not in json.dumps(found[0])


def test_a_run_that_stops_early_remembers_the_whole_log(tmp_path):
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


def test_a_model_of_features_has_no_summary(tmp_path):
    rankine.LinearModel.from_weights([1.0], ["price"]).save(tmp_path / "m.rankine")
    path = write(tmp_path / "day.parquet", lists=3)
    done = CliRunner().invoke(app, ["watch", str(tmp_path / "m.rankine"), str(path)])
    assert done.exit_code not in (0, 3)


def test_a_server_counts_what_watch_counts(model, tmp_path):
    path = write(tmp_path / "day.parquet", seed=1, brands="mnop", missing=0.5)
    rows = pq.read_table(path).to_pylist()
    registry = Registry()
    registry.put(Served("shop", model[1]))
    target = registry.target("shop")
    for k in range(200):
        target.__dict__["_turns"] = iter([0])  # every list, not one in 128
        target.watch(rows[6 * k : 6 * k + 6])
    served = Drift.of(target.watcher).to_dict()
    assert served["columns"] == watch(model, path)[1]["columns"]
    samples = {
        (sample.name, sample.labels.get("column")): sample.value
        for family in _Models(registry).collect()
        for sample in family.samples
    }
    assert samples["rankine_watched_rows_total", None] == 1200
    assert samples["rankine_column_unseen_total", "brand"] > 1000
    assert samples["rankine_psi", "price"] == pytest.approx(served["columns"]["price"]["psi"])
    assert isinstance(target.watcher, Watcher)
