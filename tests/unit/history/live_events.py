"""Histories and events for tests of the state that is fed live."""

from __future__ import annotations

from rankine.history.live import Outcome, Shown
from reference.history import history_of

TTL = 86400 * 10**6
OUTCOMES = ("clicked", "bought")


def split_events(log, history):
    """Return each list as its time, its columns, its rows in the log, and its events."""
    lists = []
    for session, part in log.groupby("session", sort=False):
        rows = part.astype(object).where(part.notna(), None).to_dict("records")
        end = int(part.ts.max()) * 10**6
        shown_rows = [{k: v for k, v in row.items() if k not in OUTCOMES} for row in rows]
        items = list(range(len(rows)))
        events = [Shown(f"s{session}", int(session), end, items, shown_rows)]
        for i, row in enumerate(rows):
            time = max(int(row["outcome_ts"]) * 10**6, end)
            values = {name: row[name] for name in OUTCOMES}
            events.append(Outcome(f"o{session}/{i}", int(session), time, i, values))
        lists.append((int(part.ts.min()) * 10**6, shown_rows, part.index.to_numpy(), events))
    return lists


def read_rows(live, time, rows):
    columns = {name: [row.get(name) for row in rows] for name in live.state.reader.key_columns}
    return live.read(time, live.state.reader.read_keys(columns, len(rows)))


def small_history(**fields):
    features = {
        "ctr": {"rate": "clicked", "by": "item", "prior": 0},
        "clicks": {"count": "clicked", "by": "item"},
        "coec": {"rate": "clicked", "over": "examination", "by": "item", "prior": 0},
        "last": {"last": "clicked", "by": "item"},
    }
    return history_of(features, **fields)


def shown(name, time, *items):
    return Shown(f"event {name}", name, time, list(items), [{"item": item} for item in items])
