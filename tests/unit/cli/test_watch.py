"""``rankine watch``: alarms, exit codes, and the same counts as a server's."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rankine
from rankine.cli.main import app, find_commands
from rankine.serve.metrics import _Models
from rankine.serve.registry import Registry, ServedModel
from rankine.transforms.drift import Drift, DriftMonitor, summary_of
from unit.transforms.test_drift import WANTED, write

find_commands()

pytestmark = pytest.mark.cli


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


def test_a_log_like_the_training_log_raises_no_alarm(model, tmp_path):
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
def test_drift_raises_an_alarm_and_exit_code_3(model, tmp_path, change, column, reason):
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


def test_psi_equals_its_formula(model, tmp_path):
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
    assert found[0]["values"] == found[1]["values"] != {}
    assert len(json.dumps(found[0])) < 3000
    assert "s1" not in json.dumps(found[0])


def test_a_model_of_features_has_no_summary(tmp_path):
    rankine.LinearModel.from_weights([1.0], ["price"]).save(tmp_path / "m.rankine")
    path = write(tmp_path / "day.parquet", lists=3)
    done = CliRunner().invoke(app, ["watch", str(tmp_path / "m.rankine"), str(path)])
    assert done.exit_code not in (0, 3)


def test_a_server_and_watch_count_the_same(model, tmp_path):
    path = write(tmp_path / "day.parquet", seed=1, brands="mnop", missing=0.5)
    rows = pq.read_table(path).to_pylist()
    registry = Registry()
    registry.put(ServedModel("shop", model[1]))
    target = registry.find("shop")
    for k in range(200):
        target.__dict__["_list_numbers"] = iter([0])  # every list, not one in 128
        target.monitor_drift(rows[6 * k : 6 * k + 6])
    served = Drift.from_monitor(target.drift_monitor).to_dict()
    assert served["columns"] == watch(model, path)[1]["columns"]
    samples = {
        (sample.name, sample.labels.get("column")): sample.value
        for family in _Models(registry).collect()
        for sample in family.samples
    }
    assert samples["rankine_watched_rows_total", None] == 1200
    assert samples["rankine_column_unseen_total", "brand"] > 1000
    assert samples["rankine_psi", "price"] == pytest.approx(served["columns"]["price"]["psi"])
    assert isinstance(target.drift_monitor, DriftMonitor)
