"""Random logs of lists, and history features computed from them by brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd

from rankine.core.specs import History, HistoryFeature
from rankine.history.declarations import parse_duration, read_declarations
from rankine.history.rows import hash_values
from rankine.history.state import HistoryState

#: One of each kind, with and without fading.
DECLARATIONS = {
    "count": {"count": "clicked + 4*bought", "by": "user"},
    "count_log": {"count": "clicked", "by": ["user", "brand"], "half_life": 50, "log": True},
    "count_window": {"count": "clicked", "by": ["user", "item"], "window": 40, "buckets": 4},
    "rate": {"rate": "clicked", "by": "item", "half_life": 30, "prior": 5},
    "rate_window": {"rate": "clicked", "by": "brand", "window": 80, "prior": 0.5},
    "rate_over": {"rate": "clicked", "over": "weight + 0.5", "by": "item", "prior": 0},
    "rate_examined": {"rate": "clicked", "over": "examination", "by": "item", "half_life": 90},
    "mean": {"mean": "price", "weight": "bought", "by": "user", "half_life": 60},
    "mean_plain": {"mean": "price", "by": ["brand", "item"]},
    "mean_window": {"mean": "price", "weight": "clicked", "by": "brand", "window": 64},
    "last": {"last": "clicked", "by": ["user", "item"]},
    "age": {"age": True, "by": "item"},
}


def history_of(declarations=None, **fields) -> History:
    """Build the spec of declarations."""
    features = read_declarations(DECLARATIONS if declarations is None else declarations)
    fields = {"forget": 150, "propensity": (1.0, 0.5, 0.25)} | fields
    return History(
        tuple(features), tuple(features.values()), "session", "ts",
        outcome_time="outcome_ts", position="position", **fields,
    )  # fmt: skip


def random_log(rng: np.random.Generator, n_lists: int = 30, span: int = 200) -> pd.DataFrame:
    """Draw a log with equal times, overlapping lists, late outcomes and missing values."""
    sizes = rng.integers(1, 6, n_lists)
    lists = np.repeat(np.arange(n_lists), sizes)
    n_rows = len(lists)
    start = np.sort(rng.integers(0, span, n_lists))
    spread = rng.choice([0, 1, 20])
    frame = pd.DataFrame({
        "session": rng.permutation(n_lists)[lists],
        "ts": start[lists] + rng.integers(0, spread + 1, n_rows),
        "position": np.concatenate([np.arange(size) + 1 for size in sizes]),
        "user": rng.integers(0, 4, n_lists)[lists],
        "item": rng.choice(["a", "b", "c", ""], n_rows),
        "brand": rng.choice([1.0, 2.0, np.nan], n_rows),
        "price": rng.choice([1.5, 2.25, 9.0, np.nan], n_rows),
        "weight": rng.random(n_rows).round(2),
        "clicked": rng.random(n_rows) < 0.4,
    })  # fmt: skip
    frame["bought"] = frame.clicked & (rng.random(n_rows) < 0.5)
    frame["outcome_ts"] = frame.ts + rng.integers(0, spread + 1, n_rows)
    # The first row of a list is not always its earliest, but lists come in order of time.
    earliest = frame.groupby("session").ts.transform("min")
    order = np.lexsort((lists, earliest))
    return frame.iloc[order].reset_index(drop=True)


def brute_force(log: pd.DataFrame, history: History) -> np.ndarray:
    """Compute the features of all rows from their definition."""
    by_list = log.groupby("session")
    latest = np.maximum(by_list.ts.transform("max"), by_list.outcome_ts.transform("max"))
    past = Past(
        history,
        log.assign(
            rows=1.0,
            examination=np.array(history.propensity)[np.minimum(log.position, 3) - 1],
            item=log["item"].replace("", None),
        ),
        by_list.ts.transform("min").to_numpy() * 10**6,
        latest.to_numpy() * 10**6,
    )
    return np.array([past.values(feature) for feature in history.features]).T


class Past:
    """The rows of a log with the times that decide which of them a row may see."""

    def __init__(self, history: History, log: pd.DataFrame, t: np.ndarray, end: np.ndarray):
        self.history, self.log, self.t, self.end = history, log, t, end
        refresh = parse_duration(history.refresh, "") or 1
        self.known = -(-(end + parse_duration(history.delay, "")) // refresh) * refresh

    def values(self, feature: HistoryFeature) -> list[float]:
        """Compute one feature of all rows."""
        keys = self.log[list(feature.by)]
        is_null = keys.isna().any(axis=1).to_numpy()
        codes = keys.groupby(list(feature.by)).ngroup().to_numpy()
        get_value = getattr(self, f"_{feature.kind}")(feature)
        values = []
        for row in range(len(self.log)):
            shown = (self.known < self.t[row]) & ~is_null
            same = None if is_null[row] else shown & (codes == codes[row])
            value = math.nan
            # A row without a key has the overall rate.
            if same is not None or feature.kind == "rate":
                value = get_value(same, shown, self.t[row])
            values.append(math.copysign(math.log1p(abs(value)), value) if feature.log else value)
        return values

    def _sum(self, feature, rows, t, amounts):
        """Sum amounts of some rows as seen at a time."""
        ends = self.end[rows]
        factor = 1.0
        if feature.half_life is not None:
            factor = 2.0 ** (-(t - ends) / parse_duration(feature.half_life, ""))
        if feature.window is not None:
            bucket = parse_duration(feature.window, "") // feature.buckets
            factor = t // bucket - ends // bucket < feature.buckets
        total = float((amounts[rows] * factor).sum())
        return 0.0 if abs(total) < 1e-9 else total

    def _count(self, feature):
        amounts = self.log.eval(feature.count).to_numpy()
        return lambda same, shown, t: self._sum(feature, same, t, amounts)

    def _rate(self, feature):
        amounts = self.log.eval(feature.rate).to_numpy()
        over = self.log.eval(feature.over).to_numpy()

        def rate(same, shown, t):
            m = self._sum(feature, shown, t, over)
            if m:
                m = self._sum(feature, shown, t, amounts) / m
            if same is None:
                return m
            denominator = self._sum(feature, same, t, over) + feature.prior
            if not denominator:
                return math.nan
            return (self._sum(feature, same, t, amounts) + feature.prior * m) / denominator

        return rate

    def _mean(self, feature):
        given = self.log[feature.mean].notna().to_numpy()
        weights = self.log.eval(feature.weight or "rows").to_numpy() * given
        products = np.nan_to_num(self.log[feature.mean].to_numpy()) * weights

        def mean(same, shown, t):
            total = self._sum(feature, same, t, weights)
            return self._sum(feature, same, t, products) / total if total else math.nan

        return mean

    def _last(self, feature):
        positive = self.log.eval(feature.last).to_numpy() > 0
        forget = parse_duration(self.history.forget, "")

        def last(same, shown, t):
            ends = self.end[same & positive]
            recent = len(ends) and t - ends.max() <= forget
            return (t - ends.max()) / 3.6e9 if recent else math.nan

        return last

    def _age(self, feature):
        forget = parse_duration(self.history.forget, "")

        def age(same, shown, t):
            ends = np.sort(self.end[same])
            if not len(ends) or t - ends[-1] > forget:
                return math.nan
            # A key that was absent for longer than ``forget`` starts again.
            first = ends[np.append(True, np.diff(ends) > forget)][-1]
            return (t - first) / 3.6e9

        return age


def lists_of(log: pd.DataFrame, history: History, state: HistoryState):
    """Return a log as arguments of ``HistoryState.add_lists`` and times."""
    columns = {name: log[name].to_numpy() for name in log}
    session = log.session.to_numpy()
    starts = np.append(np.flatnonzero(np.append(True, np.diff(session) != 0)), len(session))
    times = np.minimum.reduceat(log.ts.to_numpy(), starts[:-1]) * 10**6
    latest = np.maximum(log.ts, log.outcome_ts).to_numpy()
    ends = np.maximum.reduceat(latest, starts[:-1]) * 10**6
    ids = hash_values(session[starts[:-1]], "session").view(np.int64)
    keys = state.reader.read_keys(columns, len(log))
    return ids, keys, state.reader.read_amounts(columns, len(log)), starts, times, ends


def run_state(
    log: pd.DataFrame,
    history: History,
    state: HistoryState | None = None,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Compute the features of a log in one piece; with ``rng`` in pieces, as files and blocks."""
    state = state or HistoryState(history)
    ids, keys, amounts, starts, times, ends = lists_of(log, history, state)
    cuts = [0, len(ids)]
    if rng is not None:
        cuts = sorted({*cuts, *rng.integers(0, len(ids), 3).tolist()})
    values = []
    for first, last in itertools.pairwise(cuts):
        rows = slice(starts[first], starts[last])
        piece = starts[first : last + 1] - starts[first]
        state.add_lists(ids[first:last], keys[:, rows], amounts[:, rows], piece, ends[first:last])
        values.append(state.read_lists(times[first:last], keys[:, rows], piece, ids[first:last]))
    return np.concatenate(values)
