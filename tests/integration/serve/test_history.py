"""A served model computes the history features of an offline pass, fed by events or snapshots."""

from __future__ import annotations

import numpy as np
import pytest

from integration.serve.serve_tools import Server
from rankine import LinearModel, Scorer
from rankine.core.specs import LogColumns, decode_transforms, encode_transforms
from reference.history import history_of, random_log, run_state

OUTCOMES = ("clicked", "bought")


def declare(*arguments, **fields):
    """Declare history features as a model file stores them, with floats only."""
    (history,) = decode_transforms(encode_transforms([history_of(*arguments, **fields)]))
    return history


def history_model(history, seed=0):
    """A model of the history features and of the price."""
    ignored = ("session", "ts", "position", "user", "item", "brand", "weight", "outcome_ts")
    spec = LogColumns(numeric=("price", *history.names), ignored=ignored)
    weights = np.random.default_rng(seed).normal(size=spec.n_features)
    return LinearModel.from_weights(weights, transforms=[spec, history])


def offline_scores(log, history, model):
    features = run_state(log, history)
    columns = {"price": log.price.to_numpy()}
    columns |= {name: features[:, k] for k, name in enumerate(history.names)}
    return Scorer(model).score(columns)


def lists_in(log):
    """Return, for each list, its time, its rows as items, and its events."""
    for session, part in log.groupby("session", sort=False):
        rows = part.astype(object).where(part.notna(), None).to_dict("records")
        items = []
        for i, row in enumerate(rows):
            raw = {k: v for k, v in row.items() if k not in (*OUTCOMES, "user", "session")}
            items.append({"id": i, "raw": raw})
        shown = {
            "type": "shown", "id": f"shown {session}", "list": int(session), "items": items,
            "context": {"user": rows[0]["user"]}, "time": int(part.ts.max()),
        }  # fmt: skip
        events = [shown]
        for i, row in enumerate(rows):
            events.append({
                "type": "outcome", "id": f"outcome {session}/{i}", "list": int(session),
                "item": i, "time": row["outcome_ts"],
                "outcomes": {name: bool(row[name]) for name in OUTCOMES},
            })  # fmt: skip
        request = {"items": items, "context": shown["context"], "time": int(part.ts.min())}
        yield part.index.to_numpy(), request, events


@pytest.fixture
def state_dir(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


def save_history_model(folder, history):
    model = history_model(history)
    path = folder / "shop.rankine"
    model.save(path)
    return model, path


def post(client, events):
    status, reply = client.json("POST", "/v1/events", events)
    assert status == 202, reply
    return reply


def score(client, request):
    status, reply = client.json("POST", "/v1/score", request)
    assert status == 200, reply
    return reply["scores"]


def replay(log, model, history, start, restart_at=()):
    """Rank every list, then post its events; compare the scores with the offline pass."""
    expected = offline_scores(log, history, model)
    client = start()
    for i, (index, request, events) in enumerate(lists_in(log)):
        if i in restart_at:
            client.process.kill()
            client.process.wait()
            client = start()
        assert score(client, request) == expected[index].tolist()
        reply = post(client, events)
        assert (reply["accepted"], reply["late"]) == (len(events), 0)
    return client


def test_a_replayed_log_gives_the_bits_of_the_offline_pass(tmp_path, state_dir):
    """100 lists, with a kill in the middle; ``make test-full`` replays 10,000."""
    _replay_with_kill(tmp_path, state_dir, 100)


@pytest.mark.full
@pytest.mark.timeout(0)
def test_ten_thousand_lists_over_http(tmp_path, state_dir):
    _replay_with_kill(tmp_path, state_dir, 10_000)


def _replay_with_kill(tmp_path, state_dir, n_lists):
    log = random_log(np.random.default_rng(4), n_lists, span=5 * n_lists)
    history = declare(delay=5)
    model, path = save_history_model(tmp_path, history)
    servers = []

    def start():
        servers.append(
            Server(str(path), "--state", str(state_dir), "--snapshot-rows", str(3 * n_lists))
        )
        return servers[-1]

    try:
        client = replay(log, model, history, start, restart_at=(n_lists // 2,))
        status, state = client.json("GET", "/v1/state")
        assert (status, state["mode"], state["parity"]) == (200, "events", True)
        assert set(state["keys"]) == set(history.names)
        assert client.metric("event_rows_total") > 0
    finally:
        for server in servers:
            server.stop()
