"""The state gives what the definition says, leaks nothing, and survives a restart."""

from __future__ import annotations

import msgspec
import numpy as np
import pandas as pd
import pytest

from rankine.core.errors import (
    DigestError,
    FeatureMismatchError,
    ModelFormatError,
    ParameterError,
    QueryOrderError,
)
from rankine.history.state import HistoryState, load_state, save_state
from rankine.model.container import pack, unpack
from reference.history import brute_force, history_of, lists_of, random_log, run_state


def _random_case(seed):
    rng = np.random.default_rng(seed)
    delay, refresh = int(rng.choice([0, 7])), int(rng.choice([0, 50]))
    return rng, random_log(rng), history_of(delay=delay, refresh=refresh)


def _check_brute_force(seed):
    _, log, history = _random_case(seed)
    np.testing.assert_allclose(
        run_state(log, history), brute_force(log, history), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(10))
def test_features_follow_their_definition(seed):
    _check_brute_force(seed)


@pytest.mark.full
@pytest.mark.timeout(0)
def test_features_follow_their_definition_on_a_thousand_logs():
    for seed in range(1000):
        _check_brute_force(seed)


def _count_leaks(seed):
    """Change, remove and add lists that a list must not see.

    Return how many lists up to that one were compared, and how many had other features afterwards.
    """
    rng, log, history = _random_case(seed)
    chosen = log.session == rng.choice(log.session)
    by_list = log.groupby("session")
    starts = by_list.ts.transform("min")
    ends = np.maximum(by_list.ts.transform("max"), by_list.outcome_ts.transform("max"))
    known = HistoryState(history).visible_times(ends.to_numpy() * 10**6)
    # Nobody may see these before the chosen list, and it may not either.
    hidden = known >= log.ts[chosen].min() * 10**6
    changed = log.assign(row=np.arange(len(log)))
    rows = hidden & (rng.random(len(log)) < 0.7)
    n_rows = int(rows.sum())
    changed.loc[rows, ["clicked", "bought"]] ^= rng.random((n_rows, 2)) < 0.5
    changed.loc[rows, "outcome_ts"] += rng.integers(0, 30, n_rows)
    changed.loc[rows, "weight"] = rng.random(n_rows)
    other_key = rows & ~chosen & (rng.random(len(log)) < 0.5)
    changed.loc[other_key, "item"] = rng.choice(["a", "b", "c"], int(other_key.sum()))
    added = changed[hidden & (rng.random(len(log)) < 0.3)]
    added = added.assign(session=added.session + 1000, ts=ends[added.index], row=-1)
    removed = changed.session.isin(rng.choice(log.session, 5)) & hidden & ~chosen
    changed.loc[other_key, "row"] = -1
    changed = pd.concat([changed[~removed], added])
    changed["earliest"] = changed.groupby("session").ts.transform("min")
    changed = changed.sort_values(["earliest", "session"], kind="stable", ignore_index=True)
    before, after = run_state(log, history), run_state(changed, history, rng=rng)
    # Rows with their old keys, of lists that are not later.
    compared = (starts <= log.ts[chosen].min()).to_numpy()[changed.row] & (changed.row >= 0)
    row = changed.row[compared]
    differs = ~(
        (after[compared] == before[row]) | (np.isnan(after[compared]) & np.isnan(before[row]))
    )
    sessions = changed.session[compared]
    return sessions.nunique(), sessions[differs.any(axis=1)].nunique()


def test_nothing_that_is_not_known_changes_a_feature():
    counts = np.array([_count_leaks(seed) for seed in range(70)])
    assert counts[:, 0].sum() >= 1000
    assert counts[:, 1].sum() == 0


@pytest.mark.full
@pytest.mark.timeout(0)
def test_nothing_that_is_not_known_changes_a_feature_in_100_000_cases():
    n_cases, n_leaks, seed = 0, 0, 0
    while n_cases < 100_000:
        cases, leaks = _count_leaks(seed)
        n_cases, n_leaks, seed = n_cases + cases, n_leaks + leaks, seed + 1
    assert n_leaks == 0


@pytest.mark.parametrize("seed", range(4))
def test_one_list_at_a_time_gives_the_same_bits(seed, tmp_path):
    """As a server does it: rank a list, then add its outcomes, in any order; and restart."""
    rng, log, history = _random_case(seed)
    expected = run_state(log, history)
    state = HistoryState(history)
    ids, keys, amounts, starts, times, ends = lists_of(log, history, state)
    waiting = []
    for i in range(len(ids)):
        # Outcomes come in any order, but before they are known.
        rng.shuffle(waiting)
        for j in [j for j in waiting if state.visible_times(ends[j]) < times[i]]:
            rows = slice(starts[j], starts[j + 1])
            assert not state.add_list(ids[j], keys[:, rows], amounts[:, rows], ends[j])
            waiting.remove(j)
        rows = slice(starts[i], starts[i + 1])
        actual = state.read_list(times[i], keys[:, rows])
        np.testing.assert_array_equal(actual, expected[rows])
        waiting.append(i)
        if i % 10 == 9:
            save_state(state, tmp_path)
            state = load_state(tmp_path, history)


def test_snapshots_of_equal_states_are_equal_files(tmp_path):
    _, log, history = _random_case(3)
    first, second = HistoryState(history), HistoryState(history)
    run_state(log, history, first)
    run_state(log, history, second)
    first.save(tmp_path / "a", b"more")
    second.copy().save(tmp_path / "b", b"more")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    state, extra = HistoryState.load(tmp_path / "a")
    assert extra == b"more"
    assert state.counts == first.counts
    assert state.clock == first.clock


def test_a_damaged_or_foreign_snapshot_is_refused(tmp_path):
    _, log, history = _random_case(3)
    state = HistoryState(history)
    run_state(log, history, state)
    save_state(state, tmp_path)
    (file,) = tmp_path.iterdir()
    with pytest.raises(FeatureMismatchError):
        load_state(tmp_path, msgspec.structs.replace(history, delay="1h"))
    data = bytearray(file.read_bytes())
    content = unpack(bytes(data))
    for wrong in ({"clock": "noon"}, {"history": [{"type": "unknown"}]}, {"kind": "model"}):
        parts, _ = pack(content.document | wrong, content.tensors)
        file.write_bytes(b"".join(parts))  # with a digest that is right
        with pytest.raises(ModelFormatError):
            load_state(tmp_path)
    data[-20] ^= 1
    file.write_bytes(data)
    with pytest.raises(DigestError):
        load_state(tmp_path)
    file.write_bytes(b"{}")
    with pytest.raises(ModelFormatError):
        load_state(tmp_path)


def test_the_clock_never_goes_back_and_late_lists_are_counted():
    history = history_of({"clicks": {"count": "clicked", "by": "item", "half_life": 10}})
    state = HistoryState(history)
    columns = {"item": ["a"], "clicked": [1]}
    keys, amounts = state.reader.read_keys(columns, 1), state.reader.read_amounts(columns, 1)
    assert not state.add_list(1, keys, amounts, 10 * 10**6)
    assert state.read_list(20 * 10**6, keys)[0, 0] == 0.5
    assert state.read_list(5 * 10**6, keys)[0, 0] == 0.5  # the clock stays at 20
    assert state.add_list(2, keys, amounts, 10 * 10**6)
    assert state.read_list(20 * 10**6, keys)[0, 0] == 1.0
    assert state.counts.late == 1


def test_a_log_is_applied_once():
    _, log, history = _random_case(5)
    state = HistoryState(history)
    run_state(log, history, state)
    ids, _, _, _, times, _ = lists_of(log, history, state)
    with pytest.raises(QueryOrderError):
        state.check_follows(times, ids)
    state.check_follows(times + state.clock + 1, ids)
    with pytest.raises(QueryOrderError):  # the last list once more
        state.check_follows(times[-1:], ids[-1:])
    state.check_follows(times[-1:], ids[-1:] + 1)  # another list of the same time
    with pytest.raises(QueryOrderError):
        state.read_lists(np.array([2, 1]) + state.clock, np.zeros((8, 0), np.int64), np.zeros(3))


def test_tables_grow_and_forget_the_least_recent_keys():
    declarations = {"clicks": {"count": "clicked", "by": "item"}}
    n_rows = 10_000
    columns = {"item": np.arange(n_rows), "clicked": np.ones(n_rows)}
    for max_keys in (None, 1000):
        state = HistoryState(history_of(declarations), max_keys)
        keys, amounts = (
            state.reader.read_keys(columns, n_rows),
            state.reader.read_amounts(columns, n_rows),
        )
        for i in range(0, n_rows, 100):
            rows = slice(i, i + 100)
            state.add_list(i, keys[:, rows], amounts[:, rows], i)
            state.advance(i + 1)
        clicks = state.read_list(n_rows + 1, keys)[:, 0]
        if max_keys is None:
            assert (clicks == 1).all()
            assert state.n_keys == {"clicks": n_rows}
        else:
            assert state.n_keys["clicks"] <= max_keys
            assert (clicks[-900:] == 1).all()
            assert state.tables[0].evicted == n_rows - state.n_keys["clicks"]
    with pytest.raises(ParameterError) as caught:
        HistoryState(history_of(declarations), 0)
    assert caught.value.parameter == "max_keys"


def test_a_table_that_is_too_large_asks_for_max_keys(monkeypatch):
    monkeypatch.setattr("rankine.history.state._MAX_CAPACITY", 1 << 12)
    state = HistoryState(history_of({"clicks": {"count": "clicked", "by": "item"}}))
    columns = {"item": np.arange(10_000), "clicked": np.ones(10_000)}
    state.add_list(
        1, state.reader.read_keys(columns, 10_000), state.reader.read_amounts(columns, 10_000), 1
    )
    with pytest.raises(ParameterError, match="max_keys"):
        state.advance(2)
    assert state.changes.has_failed


def test_dead_keys_leave_the_snapshot():
    declarations = {
        "clicks": {"count": "clicked", "by": "item", "half_life": 1},
        "window": {"count": "clicked", "by": "item", "window": 8},
        "last": {"last": "clicked", "by": "item"},
    }
    state = HistoryState(history_of(declarations))
    columns = {"item": ["a"], "clicked": [1]}
    keys, amounts = state.reader.read_keys(columns, 1), state.reader.read_amounts(columns, 1)
    state.add_list(1, keys, amounts, 0)
    state.advance(2 * 10**6)
    assert state.copy().n_keys == {"clicks": 1, "window": 1, "last": 1}
    state.advance(60 * 10**6)
    assert state.copy().n_keys == {"clicks": 0, "window": 0, "last": 1}
    state.advance(200 * 10**6)
    assert state.copy().n_keys == {"clicks": 0, "window": 0, "last": 0}


def test_one_key_can_be_read():
    _, log, history = _random_case(7)
    state = HistoryState(history)
    run_state(log, history, state)
    values = state.read_key({"item": "a"})
    assert set(values) == {"rate", "rate_over", "rate_examined", "age"}
    overall = state.overall_rates(state.clock)
    assert set(overall) == {"rate", "rate_window", "rate_over", "rate_examined"}
    assert state.read_key({"item": "never seen"})["rate"] == overall["rate"]
