"""``rankine retrain``: publish a model that is not worse, and keep the old one otherwise."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankine import ElasticRanker, LinearModel, RankSVM, logs, shop_log
from rankine.cli.main import app, find_commands
from rankine.logs.simulation import simulate

find_commands()
FEATURES = [f"x{k}" for k in range(1, 5)]
LISTS = 150


def retrain(*words):
    return CliRunner().invoke(app, ["retrain", *map(str, words)])


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Three days of a log, as files."""
    folder = tmp_path_factory.mktemp("days")
    log = simulate(3 * LISTS, n_features=4, exploration=1.0, random_state=5)
    table = log.to_table(features=True)
    day = table["session"].to_numpy() // LISTS
    paths = [folder / f"day{k}.parquet" for k in range(3)]
    for k, path in enumerate(paths):
        pq.write_table(table.filter(pa.array(day == k)), path)
    return paths


@pytest.fixture
def shop(days, tmp_path):
    """The model of the first day, published."""
    path = tmp_path / "models" / "shop.rankine"
    path.parent.mkdir()
    log = logs.scan(days[0], query="session", label="clicked", numeric=FEATURES)
    ElasticRanker(random_state=0).fit(log).to_model().save(path)
    return path


@pytest.mark.cli
def test_the_model_goes_on_day_by_day_and_old_files_are_kept(days, shop):
    digests = [LinearModel.load(shop).digest]
    for day in (*days[1:], days[1]):
        done = retrain(shop, day, "--out", shop, "--keep", 2, "--json")
        assert done.exit_code == 0, done.output
        result = json.loads(done.stdout)
        assert result["published"]
        assert result["live"] == digests[-1]
        assert result["training"]["queries"] == LISTS - LISTS // 5
        assert result["comparison"]["queries"] <= LISTS // 5
        assert result["drift"]["rows"] == LISTS * 10
        digests.append(result["candidate"])
        assert LinearModel.load(shop).digest == digests[-1]
    previous = sorted((shop.parent / "previous").iterdir())
    assert [LinearModel.load(path).digest for path in previous] == digests[-2:-4:-1]
    # The steps of all days: the same run went on.
    assert LinearModel.load(shop).provenance["n_iter"] > 4 * 60


@pytest.mark.cli
def test_a_log_that_changed_keeps_the_model(days, shop, tmp_path):
    table = pq.read_table(days[1])
    moved = table.set_column(
        table.schema.get_field_index("x2"), "x2", pc.add(table["x2"], pa.scalar(2.0))
    )
    path = tmp_path / "moved.parquet"
    pq.write_table(moved, path)
    before = shop.read_bytes()
    done = retrain(shop, path, "--out", shop, "--json")
    result = json.loads(done.stdout)
    assert done.exit_code == 3
    assert not result["published"]
    assert "'x2'" in result["reasons"][0]
    assert "candidate" not in result
    assert shop.read_bytes() == before
    done = retrain(shop, path, "--out", shop, "--max-drift", 99)
    assert done.exit_code == 0
    assert "published" in done.stdout
    assert shop.read_bytes() != before


@pytest.mark.cli
def test_a_worse_model_is_not_published_unless_asked(days, shop, tmp_path):
    """The clicks of the older lists are on the wrong items, those of the newest are right."""
    table = pq.read_table(days[1])
    oldest = table["session"].to_numpy() < LISTS + int(0.8 * LISTS)
    clicked = np.where(oldest, 1 - table["clicked"].to_numpy(), table["clicked"].to_numpy())
    wrong = table.set_column(table.schema.get_field_index("clicked"), "clicked", pa.array(clicked))
    path = tmp_path / "wrong.parquet"
    pq.write_table(wrong, path)
    before = shop.read_bytes()
    done = retrain(shop, path, "--out", shop)
    assert done.exit_code == 3
    assert "proven worse in ndcg@10" in " ".join(done.stdout.split())
    assert shop.read_bytes() == before
    done = retrain(shop, path, "--out", shop, "--publish-if-worse", "--dry-run")
    assert done.exit_code == 0
    assert "not published" in done.stdout
    assert shop.read_bytes() == before
    assert retrain(shop, path, "--out", shop, "--publish-if-worse").exit_code == 0
    assert shop.read_bytes() != before


@pytest.mark.cli
def test_feature_files_and_exact_rankers(tmp_path):
    lists = [replace(shop_log(40, random_state=seed), columns={}) for seed in (0, 1)]
    path, out = tmp_path / "day.txt", tmp_path / "new.rankine"
    lists[1].save(path)
    model = tmp_path / "m.rankine"
    RankSVM(l2=0.5).fit(lists[0].X, lists[0].y, qid=lists[0].qid).to_model().save(model)
    words = [model, path, "--out", out, "--split", "time:0.5,0.5", "--metric", "map"]
    done = retrain(*words, "--json")
    assert done.exit_code in (0, 3), done.output
    result = json.loads(done.stdout)
    assert result["drift"] is None
    assert result["comparison"]["metric"] == "map"
    assert out.exists() == result["published"]
    assert result["training"]["ranker"] == "ranksvm"
    assert result["training"]["queries"] == 20
    if out.exists():
        assert LinearModel.load(out).parameters["l2"] == 0.5


@pytest.mark.cli
def test_errors_say_what_to_do(days, shop, tmp_path):
    bare = tmp_path / "bare.rankine"
    LinearModel.from_weights([1.0, 2.0]).save(bare)
    day = tmp_path / "day.txt"
    day.write_text("".join(f"{k % 2} qid:{k // 4} 1:{k} 2:{k % 3}\n" for k in range(80)))
    for words, reason in (
        ([bare, day], "names no ranker"),
        ([shop, days[1], "--keep", "-1"], "--keep: "),
        ([shop, days[1], "--max-drift", "-1"], "--max-drift: "),
        ([shop, days[1], "--metric", "nonsense"], "nonsense"),
        ([shop, days[1], "--label", "coec(clicked)"], "--label: clicks over expected clicks"),
        ([shop, tmp_path / "none.parquet"], "does not exist"),
    ):
        done = retrain(*words, "--out", tmp_path / "out.rankine")
        assert reason in str(done.exception), words
        assert not (tmp_path / "out.rankine").exists()


@pytest.mark.cli
def test_a_model_in_a_store_is_replaced_there(days, shop):
    filesystem = pytest.importorskip("fsspec").filesystem("memory")
    url = "memory://shop/models/shop.rankine"
    LinearModel.load(shop).save(url)
    before = LinearModel.load(url).digest
    refused = retrain(url, days[1], "--out", url, "--keep", 2)
    assert refused.exception.parameter == "--keep"
    done = retrain(url, days[1], "--out", url, "--json")
    assert done.exit_code == 0, done.output
    assert LinearModel.load(url).digest == json.loads(done.stdout)["candidate"] != before
    filesystem.store.clear()
