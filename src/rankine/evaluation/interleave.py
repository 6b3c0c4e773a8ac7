"""Interleaving: two or more rankers share each list, and clicks say who is preferred.

Team-draft (Radlinski, Kurup and Joachims 2008; for more than two, Schuth et al. 2014): in each
round the teams pick in a random order, each the best item of its ranking that is not yet taken.
Every item so belongs to a team, which must be logged. A click is a point for its team; position
bias hits all teams alike.

Analysis is by unit (a session, or all sessions of a search): the exact sign test on who has more
points, ties left out, and a bootstrap of the mean difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import ParameterError, SchemaError
from rankine.data.query_index import QueryIndex
from rankine.evaluation.significance import bootstrap_means, holm, percentile_interval
from rankine.evaluation.tables import Table
from rankine.kernels.compile import jit
from rankine.kernels.random import random_below, random_bits, stream_seed
from rankine.logs.clicks import ClickLog, encode, read_clicks, sum_by

__all__ = [
    "Interleaving",
    "Preference",
    "analyse_interleaving",
    "interleave",
    "power",
    "sessions_needed",
    "team_draft",
]

_CREDITS = ("clicks", "any", "first", "last")
_STREAM = 19
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def team_draft(
    rankings: Sequence[Sequence[Hashable]], length: int, *, key: object, random_state: int = 0
) -> tuple[list[Any], list[int]]:
    """One list for one session: its items, and the number of the team that each belongs to.

    Parameters
    ----------
    rankings
        The items as each ranker orders them, best first; they need not hold the same items.
    length
        Items wanted; fewer where the rankings run out.
    key
        The session. The same key and ``random_state`` give the same list, so that the next page
        agrees with the first.

    Examples
    --------
    >>> team_draft([["a", "b", "c"], ["b", "d", "a"]], 3, key="session 17")
    (['b', 'a', 'd'], [1, 0, 1])
    """
    if len(rankings) < 2 or length < 1:
        raise ParameterError("a draft needs two rankings and a length", fix="Give both")
    for each in rankings:
        reject_sets(rankings=each)
    number: dict[Hashable, int] = {}
    orders = [np.array([number.setdefault(i, len(number)) for i in each]) for each in rankings]
    if any(len(set(order.tolist())) < len(order) for order in orders):
        raise ParameterError("a ranking names an item twice", fix="Rank every item once")
    width = max(len(order) for order in orders)
    table = np.full((len(orders), width), -1)
    for row, order in zip(table, orders, strict=True):
        row[: len(order)] = order
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    seed = stream_seed(random_state, _STREAM, int.from_bytes(digest, "little"))
    picked, team = np.empty(length, dtype=np.int64), np.empty(length, dtype=np.int64)
    count = _draft(table, len(number), seed, picked, team)
    items = list(number)
    return [items[i] for i in picked[:count].tolist()], team[:count].tolist()


def interleave(
    scores: ArrayLike, queries: QueryIndex, length: int, *, random_state: int = 0
) -> tuple[Ints, Ints, Ints]:
    """Team-draft lists for many sessions at once.

    Parameters
    ----------
    scores
        One row per ranker, one column per row of the data. Equal scores keep the order of the data.
    queries
        The lists; each is drafted once.
    length
        Items per list; all, where a list is shorter.

    Returns
    -------
    rows, position, team
        Rows of the data as they are shown, list by list; positions from 1; who picked each.
    """
    table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if len(table) < 2 or table.shape[1] != queries.n_rows or not np.isfinite(table).all():
        raise SchemaError(
            f"scores of shape {table.shape} for {queries.n_rows} rows",
            fix="Give finite scores of every row by two rankers or more",
        )
    if length < 1:
        raise ParameterError(f"length={length} is not positive", fix="Use 10, say")
    codes = queries.codes
    orders = np.stack([np.lexsort((np.arange(queries.n_rows), -each, codes)) for each in table])
    starts = np.r_[0, np.cumsum(queries.sizes)].astype(np.int64)
    kept = np.minimum(queries.sizes, length)
    ends = np.r_[0, np.cumsum(kept)].astype(np.int64)
    rows, team = np.empty(ends[-1], dtype=np.int64), np.empty(ends[-1], dtype=np.int64)
    local = np.empty(queries.n_rows, dtype=np.int64)
    local[queries.gather(np.arange(queries.n_rows))] = np.arange(queries.n_rows)
    _draft_all(local[orders], starts, ends, stream_seed(random_state, _STREAM), rows, team)
    position = np.arange(ends[-1]) - np.repeat(ends[:-1], kept) + 1
    return queries.gather(np.arange(queries.n_rows))[rows], position, team


@jit
def _draft(orders: Any, n_items: int, seed: Any, picked: Any, team: Any) -> int:
    """Fill ``picked`` and ``team``; returns how many items there were."""
    teams, width = orders.shape
    taken = np.zeros(n_items, dtype=np.bool_)
    next_of = np.zeros(teams, dtype=np.int64)
    turn = np.arange(teams)
    count = 0
    draw = 0
    while True:
        before = count
        for i in range(teams - 1, 0, -1):
            j = random_below(seed, draw, i + 1)
            draw += 1
            turn[i], turn[j] = turn[j], turn[i]
        for t in turn:
            while next_of[t] < width and (
                orders[t, next_of[t]] < 0 or taken[orders[t, next_of[t]]]
            ):
                next_of[t] += 1
            if next_of[t] < width and count < len(picked):
                picked[count] = orders[t, next_of[t]]
                team[count] = t
                taken[picked[count]] = True
                count += 1
        if count == before or count == len(picked):
            return count


@jit
def _draft_all(orders: Any, starts: Any, ends: Any, seed: Any, rows: Any, team: Any) -> None:
    for q in range(len(starts) - 1):
        first, last = starts[q], starts[q + 1]
        a, b = ends[q], ends[q + 1]
        own = orders[:, first:last] - first
        _draft(own, last - first, random_bits(seed, q), rows[a:b], team[a:b])
        rows[a:b] += first


@dataclass(frozen=True)
class Preference:
    """Team ``b`` against team ``a``.

    Attributes
    ----------
    wins, ties, losses
        Units where b has more points than a, as many, or fewer.
    preference
        wins / (wins + losses); 0.5 without any.
    difference, low, high
        Mean points of b minus a per unit, and its bootstrap interval.
    exact, bootstrap
        Two-sided p-values: sign test on wins and losses; bootstrap of the mean difference.
    exact_holm
        ``exact``, adjusted for all pairs of teams.
    verdict
        ``"better"``, ``"worse"`` or ``"undecided"`` for b, by ``exact_holm``.
    """

    a: str
    b: str
    wins: int
    ties: int
    losses: int
    preference: float
    difference: float
    low: float
    high: float
    exact: float
    bootstrap: float
    exact_holm: float
    verdict: str


@dataclass(frozen=True)
class Interleaving:
    """The outcome of an interleaved test."""

    teams: tuple[str, ...]
    points: tuple[float, ...]
    shown: tuple[int, ...]
    pairs: tuple[Preference, ...]
    unit: str
    n_units: int
    lists: int
    credit: str
    confidence: float
    n_resamples: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``--json`` prints it."""
        return asdict(self)

    def tables(self) -> list[Table]:
        """Points by team, pairs of teams, and what a decision would take."""
        total = sum(self.points) or 1.0
        points = [
            (name, f"{shown:,}", f"{won:,.0f}", f"{won / total:.1%}")
            for name, shown, won in zip(self.teams, self.shown, self.points, strict=True)
        ]
        pairs = [
            (
                f"{p.b} - {p.a}",
                f"{p.wins}/{p.ties}/{p.losses}",
                f"{p.preference:.3f}",
                f"{p.difference:+.4f}",
                f"[{p.low:+.4f}, {p.high:+.4f}]",
                f"{p.exact:.4f}",
                f"{p.bootstrap:.4f}",
                p.verdict,
            )
            for p in self.pairs
        ]
        header = (
            "pair", "wins/ties/losses", "preference", "points", f"{self.confidence:.0%} interval",
            "exact p", "bootstrap p", "verdict",
        )  # fmt: skip
        title = f"{self.n_units:,} units ({self.unit}), {self.lists:,} lists, credit: {self.credit}"
        return [
            Table("Points by team", ("team", "items shown", "points", "share"), points),
            Table(title, header, pairs, bold=frozenset(
                (r, 7) for r, p in enumerate(self.pairs) if p.verdict != "undecided"
            )),
        ]  # fmt: skip

    def markdown(self) -> str:
        """All tables in Markdown."""
        return "\n".join(table.markdown() for table in self.tables())


def analyse_interleaving(
    log: Any,
    *,
    team: str = "team",
    query: str = "session",
    label: str = "clicked",
    position: str | None = "position",
    search: str | None = None,
    credit: str = "clicks",
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    random_state: int = 0,
) -> Interleaving:
    """Which team users prefer.

    Parameters
    ----------
    log
        One row per item shown, as ``read_clicks`` reads it, with the team of each.
    team
        Column with the name of the team that picked the item.
    query, label, position
        Columns of the list, the label (a formula; points are its values) and the position.
    search
        Column of what was searched for. With it a unit is a search with all its lists, since lists
        of one search are alike; without it every list is a unit.
    credit
        ``"clicks"``: every click gives its label in points; ``"any"``: one point for a team with a
        click; ``"first"``, ``"last"``: one point for the first or the last click by position.
    confidence, n_resamples, random_state
        Of intervals and bootstrap; 1 - confidence is the level of the verdict.

    Examples
    --------
    >>> log = {"session": np.repeat(np.arange(60), 2), "team": ["old", "new"] * 60,
    ...        "clicked": [0, 1] * 45 + [1, 0] * 15}
    >>> analyse_interleaving(log, position=None).pairs[0].verdict
    'better'
    """
    if credit not in _CREDITS:
        raise ParameterError(f"credit={credit!r} is unknown", fix=f"Use {', '.join(_CREDITS)}")
    if not 0 < confidence < 1 or n_resamples < 100:
        raise ParameterError(
            f"confidence={confidence}, n_resamples={n_resamples}", fix="Use 0.95 and 10000"
        )
    clicks = read_clicks(
        log, query=query, label=label, position=position, search=search, columns=(team,)
    )
    codes, names = encode(clicks.columns[team], team)
    if len(names) < 2:
        raise SchemaError(f"there is one team only: {names[0]!r}", fix="Log the team of every row")
    n = len(names)
    points = sum_by(
        clicks.lists * n + codes,
        _points(clicks, codes, n, credit),
        n * (int(clicks.lists.max()) + 1),
    ).reshape(-1, n)
    totals = points.sum(axis=0)
    if clicks.search is not None:
        first = np.zeros(len(points), dtype=np.int64)
        first[clicks.lists] = clicks.search
        points = np.stack([sum_by(first, column) for column in points.T], axis=1)
    labels = tuple(str(name) for name in names.tolist())
    pairs = _preferences(labels, points, confidence, n_resamples, random_state)
    return Interleaving(
        labels,
        tuple(totals.tolist()),
        tuple(np.bincount(codes, minlength=n).tolist()),
        pairs,
        "query" if search is None else "search",
        len(points),
        int(clicks.lists.max()) + 1,
        credit,
        confidence,
        n_resamples,
    )


def _points(log: ClickLog, team: Ints, teams: int, credit: str) -> Floats:
    """Points of each row."""
    if credit == "clicks":
        return log.label
    rows = np.flatnonzero(log.clicked)
    if credit == "any":
        key = log.lists[rows] * teams + team[rows]
    else:
        place = log.required_positions()[rows]
        rows = rows[np.lexsort((place if credit == "first" else -place, log.lists[rows]))]
        key = log.lists[rows]
    points = np.zeros(log.n_rows)
    points[rows[np.unique(key, return_index=True)[1]]] = 1.0
    return points


def _preferences(
    names: Sequence[str], points: Floats, confidence: float, n_resamples: int, seed: int
) -> tuple[Preference, ...]:
    places = list(combinations(range(len(names)), 2))
    gaps = np.column_stack([points[:, b] - points[:, a] for a, b in places])
    means = bootstrap_means(gaps, n_resamples, seed)
    wins, losses = (gaps > 0).sum(axis=0), (gaps < 0).sum(axis=0)
    exact = [sign_test(int(w), int(l)) for w, l in zip(wins, losses, strict=True)]
    found = []
    for c, ((a, b), adjusted) in enumerate(zip(places, holm(exact), strict=True)):
        decided = int(wins[c] + losses[c])
        low, high = percentile_interval(means[:, c], confidence)
        better = "better" if wins[c] > losses[c] else "worse"
        found.append(
            Preference(
                names[a],
                names[b],
                int(wins[c]),
                len(gaps) - decided,
                int(losses[c]),
                float(wins[c] / decided) if decided else 0.5,
                float(gaps[:, c].mean()),
                low,
                high,
                exact[c],
                bootstrap_p(means[:, c]),
                adjusted,
                better if adjusted < 1 - confidence else "undecided",
            )
        )
    return tuple(found)


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p-value of as many wins as losses: twice the smaller binomial tail."""
    from scipy.stats import binom

    return float(min(1.0, 2 * binom.cdf(min(wins, losses), wins + losses, 0.5)))


def bootstrap_p(means: Floats) -> float:
    """Two-sided p-value of a zero mean from bootstrap means; those equal to 0 count half."""
    zero = 0.5 * np.count_nonzero(means == 0)
    tail = min(np.count_nonzero(means < 0), np.count_nonzero(means > 0)) + zero
    return float(min(1.0, 2 * (tail + 0.5) / (len(means) + 1)))


def power(
    n_sessions: ArrayLike, preference: float, *, decided: float = 1.0, level: float = 0.05
) -> Floats:
    """Chance that the exact test notices a preference.

    Parameters
    ----------
    n_sessions
        Sessions of the test; one value or several.
    preference
        Share of wins of the better ranker among sessions that are not tied, such as 0.55.
    decided
        Share of sessions without a tie.
    level
        Of the test.

    Examples
    --------
    >>> power([100, 1000], 0.55).round(2).tolist()
    [0.14, 0.88]
    """
    from scipy.stats import binom

    if not 0 <= preference <= 1 or not 0 < decided <= 1 or not 0 < level < 1:
        raise ParameterError(
            f"preference={preference}, decided={decided}, level={level} are not shares",
            fix="Use 0.55, 0.5 and 0.05, say",
        )
    n = np.floor(np.asarray(n_sessions, dtype=np.float64) * decided)
    reject = binom.isf(level / 2, n, 0.5) + 1  # the least count with P(X >= count) <= level / 2
    return np.asarray(binom.sf(reject - 1, n, preference) + binom.cdf(n - reject, n, preference))


def sessions_needed(
    preference: float, *, decided: float = 1.0, level: float = 0.05, chance: float = 0.8
) -> int:
    """Sessions that the exact test needs to notice a preference with the given chance.

    Examples
    --------
    >>> sessions_needed(0.55)
    820
    """
    from scipy.stats import norm

    if preference == 0.5 or not 0 < chance < 1:
        raise ParameterError(
            "no number of sessions shows that two rankers are the same",
            fix="Name the smallest preference that matters to you, such as 0.52",
        )
    spread = norm.isf(level / 2) / 2 + norm.isf(1 - chance) * np.sqrt(preference * (1 - preference))
    about = (spread / (preference - 0.5)) ** 2
    decided_lists = np.arange(1, int(1.5 * about) + 60)
    # the power of a discrete test rises in a zigzag: from here on it stays above
    short = np.flatnonzero(power(decided_lists, preference, level=level) < chance)
    return int(np.ceil((decided_lists[short[-1]] + 1) / decided))
