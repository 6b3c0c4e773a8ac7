"""Interleaving: two or more rankers share each list, and clicks show which one users prefer.

Team-draft interleaving (Radlinski, Kurup and Joachims 2008; for more than two rankers, Schuth et
al. 2014): in each round the teams pick in random order, each the best item of its ranking that is
not taken yet. Every item then belongs to a team, which must be logged. A click is a point for the
team of the item; position bias affects all teams alike.

The analysis is per unit (a session, or all sessions of a search): an exact sign test of which team
has more points, without ties, and a bootstrap of the mean difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.checks import check_count, reject_sets
from rankine.core.errors import ParameterError, SchemaError
from rankine.data.query_index import QueryIndex
from rankine.evaluation.significance import (
    bootstrap_means,
    check_confidence,
    check_n_resamples,
    holm,
    percentile_interval,
)
from rankine.evaluation.tables import Table
from rankine.kernels.compile import jit
from rankine.kernels.random import random_below, random_bits, stream_seed
from rankine.logs.clicks import ClickLog, encode, read_clicks, sum_by
from rankine.transforms.clicks import row_positions

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
#: Largest number of sessions to look for: the power of every smaller number is computed.
_MAX_SESSIONS = 1e7
_STREAM = 19  # number of the random stream of drafts
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def team_draft(
    rankings: Sequence[Sequence[Hashable]], length: int, *, key: object, random_state: int = 0
) -> tuple[list[Any], list[int]]:
    """Draft one list for one session; return its items and the number of the team of each.

    Parameters
    ----------
    rankings
        The items in the order of each ranker, best first; rankings may hold different items.
    length
        Number of items; there are fewer if the rankings run out.
    key
        Identifies the session. The same key and ``random_state`` give the same list, so that the
        next page agrees with the first.

    Examples
    --------
    >>> team_draft([["a", "b", "c"], ["b", "d", "a"]], 3, key="session 17")
    (['b', 'a', 'd'], [1, 0, 1])
    """
    if len(rankings) < 2:
        raise ParameterError(
            "a draft needs at least two rankings", fix="Pass both", parameter="rankings"
        )
    check_count("length", length)
    # The kernel drafts numbers: equal items of different rankings get the same one.
    numbers: dict[Hashable, int] = {}
    orders = []
    for ranking in rankings:
        reject_sets(rankings=ranking)
        orders.append(np.array([numbers.setdefault(item, len(numbers)) for item in ranking]))
    if any(len(set(order.tolist())) < len(order) for order in orders):
        raise ParameterError(
            "a ranking contains an item twice", fix="Rank every item once", parameter="rankings"
        )
    width = max(len(order) for order in orders)
    table = np.full((len(orders), width), -1)
    for row, order in zip(table, orders, strict=True):
        row[: len(order)] = order
    # Not hash(key), which differs from process to process for text.
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    seed = stream_seed(random_state, _STREAM, int.from_bytes(digest, "little"))
    size = min(length, len(numbers))
    picked, team = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    count = _draft(table, len(numbers), seed, picked, team)
    items = list(numbers)
    return [items[i] for i in picked[:count].tolist()], team[:count].tolist()


def interleave(
    scores: ArrayLike, queries: QueryIndex, length: int, *, random_state: int = 0
) -> tuple[Ints, Ints, Ints]:
    """Draft lists for many sessions at once.

    Parameters
    ----------
    scores
        Array of one row per ranker and one column per row of the data. Equal scores keep the order
        of the data.
    queries
        The lists; each is drafted once.
    length
        Number of items per list; shorter lists are drafted whole.

    Returns
    -------
    rows, position, team
        Rows of the data in the order shown, list by list; their positions, from 1; the team that
        picked each.
    """
    table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if len(table) < 2 or table.shape[1] != queries.n_rows or not np.isfinite(table).all():
        raise SchemaError(
            f"scores have shape {table.shape} for {queries.n_rows} rows",
            fix="Pass finite scores of every row by at least two rankers",
        )
    check_count("length", length)
    codes = queries.codes
    # Rows by list, then by falling score, then as in the data.
    orders = np.stack([np.lexsort((np.arange(queries.n_rows), -each, codes)) for each in table])
    starts = np.r_[0, np.cumsum(queries.sizes)].astype(np.int64)
    lengths = np.minimum(queries.sizes, length)
    ends = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    rows, team = np.empty(ends[-1], dtype=np.int64), np.empty(ends[-1], dtype=np.int64)
    # row -> its position in grouped order
    grouped = np.empty(queries.n_rows, dtype=np.int64)
    grouped[queries.gather(np.arange(queries.n_rows))] = np.arange(queries.n_rows)
    _draft_all(grouped[orders], starts, ends, stream_seed(random_state, _STREAM), rows, team)
    position = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths) + 1
    return queries.gather(np.arange(queries.n_rows))[rows], position, team


@jit
def _draft(orders: Any, n_items: int, seed: Any, picked: Any, team: Any) -> int:
    """Fill ``picked`` and ``team`` with items and their teams; return the number of items."""
    n_teams, width = orders.shape
    is_taken = np.zeros(n_items, dtype=np.bool_)
    next_rank = np.zeros(n_teams, dtype=np.int64)
    turns = np.arange(n_teams)
    count = 0
    n_draws = 0
    while True:
        previous_count = count
        # Fisher-Yates shuffle of the teams; NumPy's generator does not exist in compiled code.
        for i in range(n_teams - 1, 0, -1):
            j = random_below(seed, n_draws, i + 1)
            n_draws += 1
            turns[i], turns[j] = turns[j], turns[i]
        for t in turns:
            # -1 pads shorter rankings
            while next_rank[t] < width and (
                orders[t, next_rank[t]] < 0 or is_taken[orders[t, next_rank[t]]]
            ):
                next_rank[t] += 1
            if next_rank[t] < width and count < len(picked):
                picked[count] = orders[t, next_rank[t]]
                team[count] = t
                is_taken[picked[count]] = True
                count += 1
        # A round without a pick means that all rankings have run out.
        if count == previous_count or count == len(picked):
            return count


@jit
def _draft_all(orders: Any, starts: Any, ends: Any, seed: Any, rows: Any, team: Any) -> None:
    for q in range(len(starts) - 1):
        first, last = starts[q], starts[q + 1]
        a, b = ends[q], ends[q + 1]
        list_orders = orders[:, first:last] - first
        # A seed of each list, so that it is drafted alike among any other lists.
        _draft(list_orders, last - first, random_bits(seed, q), rows[a:b], team[a:b])
        rows[a:b] += first


@dataclass(frozen=True)
class Preference:
    """Comparison of team ``b`` with team ``a``.

    Attributes
    ----------
    wins, ties, losses
        Units in which b has more points than a, as many, or fewer.
    preference
        wins / (wins + losses); 0.5 if there are none.
    difference, low, high
        Mean points of b minus a per unit, and its bootstrap interval.
    exact, bootstrap
        Two-sided p-values of the sign test of wins and losses, and of the bootstrap of the mean
        difference.
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
    """Result of an interleaved test."""

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
        """Return data for JSON, as ``--json`` prints it."""
        return asdict(self)

    def tables(self) -> list[Table]:
        """Return tables of points by team and of pairs of teams."""
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
        decided = frozenset((r, 7) for r, p in enumerate(self.pairs) if p.verdict != "undecided")
        return [
            Table("Points by team", ("team", "items shown", "points", "share"), points),
            Table(
                title,
                header,
                pairs,
                bold=decided,
                optional=("bootstrap p", "preference", "wins/ties/losses"),
                further_text=("verdict",),
            ),
        ]

    def markdown(self) -> str:
        """Format all tables in Markdown."""
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
    """Analyse which team users prefer.

    Parameters
    ----------
    log
        One row per item shown, with its team, in any form that ``read_clicks`` reads.
    team
        Column with the name of the team that picked the item.
    query, label, position
        Columns of the list, the label (a formula; points are its values) and the position.
    search
        Column of the search. If given, a unit is a search with all its lists, which are not
        independent; otherwise every list is a unit.
    credit
        ``"clicks"``: every click gives its label in points; ``"any"``: one point for a team with a
        click; ``"first"``, ``"last"``: one point for the first or the last click by position.
    confidence
        Confidence level of the intervals; 1 - confidence is the level of the verdict.
    n_resamples, random_state
        Number of bootstrap samples, and their seed.

    Examples
    --------
    >>> log = {"session": np.repeat(np.arange(60), 2), "team": ["old", "new"] * 60,
    ...        "clicked": [0, 1] * 45 + [1, 0] * 15}
    >>> analyse_interleaving(log, position=None).pairs[0].verdict
    'better'
    """
    if credit not in _CREDITS:
        raise ParameterError(
            f"there is no credit {credit!r}", fix=f"Use {', '.join(_CREDITS)}", parameter="credit"
        )
    check_confidence(confidence)
    check_n_resamples(n_resamples)
    clicks = read_clicks(
        log, query=query, label=label, position=position, search=search, columns=(team,)
    )
    codes, names = encode(clicks.columns[team], team)
    if len(names) < 2:
        raise SchemaError(f"there is only one team, {names[0]!r}", fix="Log the team of every row")
    n_teams, n_lists = len(names), int(clicks.lists.max()) + 1
    row_points = _row_points(clicks, codes, n_teams, credit)
    points = sum_by(clicks.lists * n_teams + codes, row_points, n_teams * n_lists)
    points = points.reshape(n_lists, n_teams)
    totals = points.sum(axis=0)
    unit = "query"
    if clicks.search is not None:
        # Lists of one search are not independent: their points are added, and a search counts once.
        unit = "search"
        search_of_list = np.zeros(n_lists, dtype=np.int64)
        search_of_list[clicks.lists] = clicks.search
        points = np.stack([sum_by(search_of_list, column) for column in points.T], axis=1)
    labels = tuple(str(name) for name in names.tolist())
    pairs = _preferences(labels, points, confidence, n_resamples, random_state)
    return Interleaving(
        labels,
        tuple(totals.tolist()),
        tuple(np.bincount(codes, minlength=n_teams).tolist()),
        pairs,
        unit,
        len(points),
        n_lists,
        credit,
        confidence,
        n_resamples,
    )


def _row_points(log: ClickLog, team: Ints, n_teams: int, credit: str) -> Floats:
    """Return the points that each row gives its team."""
    if credit == "clicks":
        return log.label
    rows = np.flatnonzero(log.clicked)
    if credit == "any":
        key = log.lists[rows] * n_teams + team[rows]
    else:
        position = row_positions(log)[rows]
        if credit == "last":
            position = -position
        rows = rows[np.lexsort((position, log.lists[rows]))]
        key = log.lists[rows]
    # np.unique returns the first row of each key, which alone gets the point.
    points = np.zeros(log.n_rows)
    points[rows[np.unique(key, return_index=True)[1]]] = 1.0
    return points


def _preferences(
    names: Sequence[str], points: Floats, confidence: float, n_resamples: int, seed: int
) -> tuple[Preference, ...]:
    index_pairs = list(combinations(range(len(names)), 2))
    differences = np.column_stack([points[:, b] - points[:, a] for a, b in index_pairs])
    means = bootstrap_means(differences, n_resamples, seed)
    wins, losses = (differences > 0).sum(axis=0), (differences < 0).sum(axis=0)
    exact = [sign_test(int(w), int(l)) for w, l in zip(wins, losses, strict=True)]
    preferences = []
    for c, ((a, b), adjusted) in enumerate(zip(index_pairs, holm(exact), strict=True)):
        decided = int(wins[c] + losses[c])
        low, high = percentile_interval(means[:, c], confidence)
        verdict, preference = "undecided", 0.5
        # By the exact test, adjusted for all pairs; the bootstrap only gives the interval.
        if adjusted < 1 - confidence:
            verdict = "better" if wins[c] > losses[c] else "worse"
        if decided:
            preference = float(wins[c] / decided)
        preferences.append(
            Preference(
                names[a],
                names[b],
                int(wins[c]),
                len(differences) - decided,
                int(losses[c]),
                preference,
                float(differences[:, c].mean()),
                low,
                high,
                exact[c],
                bootstrap_p(means[:, c]),
                adjusted,
                verdict,
            )
        )
    return tuple(preferences)


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of equal wins and losses: twice the smaller binomial tail."""
    from scipy.stats import binom

    return float(min(1.0, 2 * binom.cdf(min(wins, losses), wins + losses, 0.5)))


def bootstrap_p(means: Floats) -> float:
    """Return the two-sided p-value of a zero mean from bootstrap means; zeros count half."""
    half_zeros = 0.5 * np.count_nonzero(means == 0)
    tail = min(np.count_nonzero(means < 0), np.count_nonzero(means > 0)) + half_zeros
    # Plus a half: a finite number of samples cannot show a probability of 0.
    return float(min(1.0, 2 * (tail + 0.5) / (len(means) + 1)))


def power(
    n_sessions: ArrayLike, preference: float, *, decided: float = 1.0, level: float = 0.05
) -> Floats:
    """Compute the power of the exact test: the probability that it detects a preference.

    Parameters
    ----------
    n_sessions
        Number of sessions of the test; one value or several.
    preference
        Share of wins of the better ranker among sessions that are not tied, such as 0.55.
    decided
        Share of sessions without a tie.
    level
        Level of the test.

    Examples
    --------
    >>> power([100, 1000], 0.55).round(2).tolist()
    [0.14, 0.88]
    """
    from scipy.stats import binom

    _check_shares(preference=preference, decided=decided, level=level)
    n = np.floor(np.asarray(n_sessions, dtype=np.float64) * decided)
    # The smallest count of wins with P(X >= count) <= level / 2.
    reject = binom.isf(level / 2, n, 0.5) + 1
    return np.asarray(binom.sf(reject - 1, n, preference) + binom.cdf(n - reject, n, preference))


def _check_shares(**shares: float) -> None:
    """Raise for a share that is not between 0 and 1, or an end that makes no test."""
    for name, value in shares.items():
        # A ranker may lose always; but no test has a level, a power or sessions of 0.
        too_low = value < 0 or (value == 0 and name != "preference")
        if too_low or not value <= 1 or (value == 1 and name in ("level", "chance")):
            raise ParameterError(
                f"the share {value} is not between 0 and 1",
                fix="Use a share such as 0.5",
                parameter=name,
            )


def sessions_needed(
    preference: float, *, decided: float = 1.0, level: float = 0.05, chance: float = 0.8
) -> int:
    """Compute the number of sessions with which the exact test has the power ``chance``.

    Examples
    --------
    >>> sessions_needed(0.55)
    820
    """
    from scipy.stats import norm

    if preference == 0.5:
        raise ParameterError(
            "no number of sessions proves that two rankers are equal",
            fix="Use the smallest preference that matters to you, such as 0.52",
            parameter="preference",
        )
    _check_shares(preference=preference, decided=decided, level=level, chance=chance)
    # The normal approximation bounds the numbers to try.
    spread = norm.isf(level / 2) / 2 + norm.isf(1 - chance) * np.sqrt(preference * (1 - preference))
    normal_estimate = (spread / (preference - 0.5)) ** 2
    if normal_estimate > _MAX_SESSIONS:
        raise ParameterError(
            f"{preference} would need about {normal_estimate:.2g} sessions",
            fix="Use a preference further from 0.5",
            parameter="preference",
        )
    n_decided = np.arange(1, int(1.5 * normal_estimate) + 60)
    # The power of a discrete test increases in a zigzag: take the number after the last one with
    # too little power.
    too_few = np.flatnonzero(power(n_decided, preference, level=level) < chance)
    return int(np.ceil((n_decided[too_few[-1]] + 1) / decided))
