"""The state of history features on a server: snapshots, logs of events, restarts and failures."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankine
from integration.serve.test_history import (
    declare,
    history_model,
    lists_in,
    offline_scores,
    save_history_model,
)
from rankine import Scorer
from rankine.core.errors import DataError
from rankine.history.state import HistoryState, load_state, save_state
from rankine.serve.app import Service
from rankine.serve.connection import ConnectionPool, Request
from rankine.serve.limits import Limits
from rankine.serve.metrics import Metrics
from rankine.serve.registry import Registry
from rankine.serve.reload import Reloader
from rankine.serve.security import AccessPolicy
from reference.history import random_log
from unit.serve.state_server import JSON, SMALL, StateServer, item_rows, outcome, shown


def replay(server, log, history, restart=None):
    """Replay a log; return the lists with the scores of the offline pass, and the number of all."""
    model = history_model(history)
    expected = offline_scores(log, history, model)
    lists = list(lists_in(log))
    n_equal = 0
    for i, (index, request, events) in enumerate(lists):
        if restart is not None and i == len(lists) // 2:
            server = restart()
        has_equal_scores = server.score(**request) == expected[index].tolist()
        status, reply = server.post(*events)
        is_accepted = (status, reply["accepted"], reply["late"]) == (202, len(events), 0)
        n_equal += has_equal_scores and is_accepted and server.value("event_rows_total") > 0
    return n_equal, len(lists)


@pytest.mark.parametrize("fields", [{}, {"delay": 5.0, "refresh": 50.0}])
def test_a_replayed_log_gives_the_bits_of_the_offline_pass(start, fields):
    """1,000 lists; ``make test-full`` replays 100,000."""
    history = declare(**fields)
    log = random_log(np.random.default_rng(2), 500, span=2000)
    n_equal, n_lists = replay(start(history), log, history, restart=start)
    assert n_equal == n_lists > 100


@pytest.mark.full
@pytest.mark.timeout(0)
def test_a_hundred_thousand_lists(start):
    history = declare(delay=5.0)
    log = random_log(np.random.default_rng(3), 100_000, span=400_000)
    n_equal, n_lists = replay(start(history), log, history, restart=start)
    assert n_equal == n_lists > 10_000


def _replay_nights(start, tmp_path, n_lists, span, night):
    """Rank every list; each midnight, apply the log of the day and load the new snapshot."""
    history = declare(refresh=float(night))
    log = random_log(np.random.default_rng(5), n_lists, span=span)
    server, folder = start(history), tmp_path / "state"
    expected = offline_scores(log, history, history_model(history))
    save_state(HistoryState(history), folder)
    night_of = (log.groupby("session").ts.transform("min") // night).to_numpy()
    n_applied, nights = 0, 0
    for index, request, _ in lists_in(log):
        n_past = int(np.searchsorted(night_of, night_of[index[0]]))
        if n_past > n_applied:
            day = log[n_applied:n_past].reset_index(drop=True)
            rankine.logs.apply_history(folder, day)
            server.reloader.refresh()
            n_applied, nights = n_past, nights + 1
        assert server.score(**request) == expected[index].tolist()
    assert server.value("reloads_total", result="loaded") == nights + 1
    assert server.ask(b"GET", "/v1/state")[1]["mode"] == "snapshots"
    return nights


def test_nightly_snapshots_give_the_bits_of_the_offline_pass(start, tmp_path):
    """With ``refresh`` a batch once a night is enough; ``make test-full`` replays 10,000 lists."""
    assert _replay_nights(start, tmp_path, 300, span=2000, night=400) == 4


@pytest.mark.full
@pytest.mark.timeout(0)
def test_ten_thousand_lists_with_a_snapshot_each_night(start, tmp_path):
    assert _replay_nights(start, tmp_path, 10_000, span=60_000, night=2000) == 29


def test_a_snapshot_of_other_features_is_not_used(start, tmp_path):
    server = start(declare(SMALL))
    save_state(HistoryState(declare()), tmp_path / "state")
    server.reloader.refresh()
    assert server.value("reloads_total", result="refused") == 1
    assert server.score(items=item_rows("a"), context={"user": 1}) == server.score(
        items=item_rows("b"), context={"user": 1}
    )
    # A model with these features takes the state, and the old model goes.
    save_history_model(tmp_path, declare())
    server.reloader.refresh()
    assert server.history.live.history == declare()


def test_a_state_fed_by_events_ignores_snapshots_and_other_models(start, tmp_path):
    server = start(declare(SMALL))
    server.post(shown("L1", 10, "a"))
    save_state(HistoryState(declare(SMALL)), tmp_path / "state")
    server.reloader.refresh()
    assert server.ask(b"GET", "/v1/state")[1]["last_event"] == "1970-01-01T00:00:10+00:00"
    save_history_model(tmp_path, declare())
    server.reloader.refresh()
    assert "fed by events" in server.reloader.registry.current.errors["shop"]


def test_a_model_with_history_features_needs_a_state(tmp_path):
    save_history_model(tmp_path, declare(SMALL))
    reloader = Reloader(tmp_path / "shop.rankine", Registry(), Metrics())
    reloader.refresh()
    assert "--state DIR" in reloader.registry.current.errors["shop"] or reloader.registry.current
    pool = ConnectionPool(Limits(), Metrics())
    service = Service(reloader.registry, pool, AccessPolicy("127.0.0.1"))
    for method, path in ((b"POST", b"/v1/events"), (b"GET", b"/v1/state")):
        reply = service.handle(Request(method, path, JSON, b"{}", close=False), False)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (404, "no-state")


def test_a_trained_model_continues_its_state(tmp_path):
    """Train on the first lists, and serve the others: the history goes on without a gap."""
    table = random_log(np.random.default_rng(6), 200, span=1000).drop(columns="outcome_ts")
    first = table.groupby("session").ts.transform("min")
    paths = [tmp_path / "train.parquet", tmp_path / "test.parquet"]
    parts = [table[first <= 800], table[first > 800].reset_index(drop=True)]
    for path, part in zip(paths, parts, strict=True):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), path)
    log = rankine.logs.scan(
        paths[0], query="session", label="clicked", numeric=["price"], time="ts", history=SMALL
    )
    model = rankine.RankSVM(missing="zero").fit(log).to_model()
    model.save(tmp_path / "shop.rankine")
    save_state(log.history_state(), tmp_path / "state")
    test = rankine.logs.read_for(model, paths[1], stream=True, state=load_state(tmp_path / "state"))
    scorer = Scorer(model, unknown="zero")
    expected = np.concatenate(
        [scorer.score(dict(block.columns.items())) for block in test.raw.blocks()]
    )
    server = StateServer(tmp_path / "shop.rankine", tmp_path / "state")
    try:
        for index, request, events in lists_in(parts[1].assign(outcome_ts=parts[1].ts)):
            assert server.score(**request) == expected[index].tolist()
            assert server.post(*events)[1]["accepted"] == len(events)
        assert server.ask(b"GET", "/v1/state")[1]["parity"] is True
    finally:
        server.close()


def test_keys_beyond_the_limit_go(start, caplog):
    server = start(declare(SMALL), max_keys=10)
    for i in range(40):
        server.post(shown(f"L{i}", 10 + i, f"item{i}"))
        server.score(items=item_rows("a"), time=11 + i)
    state = server.ask(b"GET", "/v1/state")[1]
    assert state["keys"]["ctr"] <= 10
    assert (state["parity"], state["evicted"]["ctr"] >= 30) == (False, True)
    assert server.value("history_evicted_keys_total", feature="ctr") == state["evicted"]["ctr"]
    server.history.tick()
    assert "--max-keys" in caplog.text


def test_snapshots_are_written_and_the_log_starts_again(start, tmp_path):
    server = start(declare(SMALL), snapshot_rows=5)
    for i in range(6):
        server.post(shown(f"L{i}", 10 + i, "a"), outcome(f"L{i}", "a", 10 + i, clicked=1))
    server.score(items=item_rows("a"), time=100)
    server.history.tick()
    server.history._folder._compaction.wait()
    server.history.tick()
    assert server.value("snapshots_total", result="written") == 1
    assert load_state(tmp_path / "state").n_keys == {"ctr": 1, "clicks": 1}
    server.post(shown("L7", 101, "b"))
    again = start()
    assert again.post(shown("L7", 101, "b"))[1]["duplicates"] == 1
    again.score(items=item_rows("b"), time=200)
    assert again.ask(b"GET", "/v1/state")[1]["keys"] == {"ctr": 2, "clicks": 1}


def test_a_full_disk_refuses_events_and_goes_on_ranking(start, monkeypatch):
    server = start(declare(SMALL), always_fsync=True)
    server.post(shown("L1", 1, "a"))

    def fail(*_):
        raise DataError("cannot be written: No space left on device")

    monkeypatch.setattr(server.history._folder, "append", fail)
    status, reply = server.post(shown("L2", 2, "a"))
    assert (status, reply["error"]["code"]) == (503, "storage")
    server.history.submit_recorded([])
    monkeypatch.undo()
    assert server.post(shown("L2", 2, "a"))[1]["accepted"] == 1


def test_events_that_cannot_be_flushed_count_once(start, monkeypatch):
    """What is in the log counts after a restart, so it counts now; the sender sends it again."""
    server = start(declare(SMALL), always_fsync=True)
    server.post(shown("L1", 1, "a"))
    flushes = []

    def sync():
        flushes.append(len(flushes))
        if len(flushes) < 3:
            raise OSError("I/O error")

    monkeypatch.setattr(server.history._folder._log, "sync", sync)
    for status in (503, 503, 202, 202):
        assert server.post(shown("L2", 2, "a"))[0] == status
    assert len(flushes) == 3
    assert server.ask(b"GET", "/v1/state")[1]["lists_waiting"] == 2
    monkeypatch.undo()
    assert start().ask(b"GET", "/v1/state")[1]["lists_waiting"] == 2


@pytest.mark.parametrize("mode", ["events", "snapshots", "empty"])
def test_a_state_whose_change_failed_is_read_again(start, tmp_path, monkeypatch, caplog, mode):
    (tmp_path / "state").mkdir(exist_ok=True)
    if mode == "snapshots":
        save_state(HistoryState(declare(SMALL)), tmp_path / "state")
    server = start(declare(SMALL))
    if mode == "events":
        server.post(shown("L1", 10, "a"), outcome("L1", "a", 11, clicked=1))
    request = {"items": item_rows("a", "b"), "context": {"user": 1}, "time": 20}

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(server.history.live.state, "_run_tables", fail)
    with pytest.raises(MemoryError):
        server.score(**request)
    for status, reply in (server.ask(b"POST", "/v1/rank", request), server.post(shown("L2", 20))):
        assert (status, reply["error"]["code"]) == (503, "state")
    with monkeypatch.context() as patch:
        patch.setattr(HistoryState, "load", fail)
        patch.setattr(HistoryState, "__init__", fail)
        server.history.tick()
    assert "cannot be read again" in caplog.text
    assert server.ask(b"POST", "/v1/rank", request)[0] == 503
    server.history.tick()
    assert server.ask(b"POST", "/v1/rank", request)[0] == 200
    assert server.post(shown("L2", 30, "a"))[1]["accepted"] == 1
    if mode == "events":
        assert server.post(shown("L1", 10, "a"))[1]["duplicates"] == 1
        assert server.ask(b"GET", "/v1/state")[1]["keys"] == {"ctr": 1, "clicks": 1}
