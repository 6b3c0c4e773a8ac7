"""Click logs whose truth is known: ``rankine.logs.simulate(...)``.

A catalogue holds the items of every search, each with features and an attraction: the chance that
a user who looks at it wants it, sigmoid(base + strength u) where u is the standardised taste. In
each session a ranker orders the items of one search, a user reads the list and clicks as the user
model says. Use it to test a pipeline: estimate, train and judge on the log, then look at the truth.

Every draw follows from ``random_state``: the same arguments give the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset, row_scores
from rankine.logs.clicks import sum_by

__all__ = [
    "Cascade",
    "DependentClick",
    "PositionBased",
    "SimulatedLog",
    "TrustBias",
    "shop_log",
    "simulate",
]

#: Entries of the matrices that are drawn at once.
_CHUNK = 4_000_000
#: Shares of the catalogue with true grade 0, 1, ... 4.
_GRADES = (0.5, 0.2, 0.15, 0.1, 0.05)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: What was looked at and what was clicked: rows are sessions, columns positions.
Read = tuple[NDArray[np.bool_], NDArray[np.bool_]]


class User(Protocol):
    """How a user reads a list."""

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """What was looked at and what was clicked."""


class PositionBased(NamedTuple):
    """Looks at position k with probability ``k^-eta``, whatever else is shown.

    P(click at k) = P(look at k) attraction. ``examination`` (one chance per position) replaces the
    power; the last value holds for all positions beyond it.
    """

    eta: float = 1.0
    examination: tuple[float, ...] = ()

    def chances(self, length: int) -> Floats:
        """P(look at k) for k = 1 .. length."""
        if not self.examination:
            return np.arange(1.0, length + 1) ** np.float64(-self.eta)
        given = np.asarray(self.examination, dtype=np.float64)
        return given[np.minimum(np.arange(length), len(given) - 1)]

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Independent looks, then independent clicks."""
        looked = rng.random(attraction.shape) < self.chances(attraction.shape[1])
        return looked, looked & (rng.random(attraction.shape) < attraction)


class Cascade(NamedTuple):
    """Reads from the top, stops at the first click (Craswell et al. 2008).

    After an item without a click the user goes on with probability ``patience``.
    """

    patience: float = 1.0

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """One click at most."""
        return _read_down(attraction, rng, after_click=0.0, after_skip=self.patience)


class DependentClick(NamedTuple):
    """Reads from the top; after a click at position k goes on with ``go_on k^-fade``.

    Without a click the user always goes on (Guo, Liu and Wang 2009).
    """

    go_on: float = 0.8
    fade: float = 0.5

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Several clicks are possible."""
        place = np.arange(1, attraction.shape[1] + 1)
        return _read_down(attraction, rng, after_click=self.go_on * place**-self.fade, after_skip=1)


class TrustBias(NamedTuple):
    """Position-based looks, and trust in the top of the list (Agarwal et al. 2019).

    Who looks at a wanted item at position k clicks with ``clear``; an unwanted item is clicked with
    ``fooled / k``. So P(click) = P(look at k) (fooled/k + attraction (clear - fooled/k)): no
    position-based model fits it.
    """

    eta: float = 1.0
    clear: float = 0.98
    fooled: float = 0.3

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Clicks on what is wanted, and some on what stands high."""
        looked, _ = PositionBased(self.eta).read(attraction, rng)
        wanted = rng.random(attraction.shape) < attraction
        fooled = self.fooled / np.arange(1, attraction.shape[1] + 1)
        chance = np.where(wanted, self.clear, fooled)
        return looked, looked & (rng.random(attraction.shape) < chance)


def _read_down(
    attraction: Floats, rng: np.random.Generator, after_click: Any, after_skip: Any
) -> Read:
    """Users who read from the top until they stop."""
    sessions, length = attraction.shape
    wanted = rng.random(attraction.shape) < attraction
    goes_on = np.where(wanted, after_click, after_skip) > rng.random(attraction.shape)
    looked = np.ones((sessions, length), dtype=bool)
    looked[:, 1:] = np.logical_and.accumulate(goes_on[:, :-1], axis=1)
    return looked, looked & wanted


_USERS: dict[str, Any] = {
    "position_based": PositionBased,
    "cascade": Cascade,
    "dependent_click": DependentClick,
    "trust_bias": TrustBias,
}


@dataclass(frozen=True, eq=False)
class SimulatedLog:
    """Impressions with clicks, and the truth beside them.

    Attributes
    ----------
    catalogue
        Features of every item of every search; its labels are the true grades 0 to 4 by attraction
        (at the end of the log, where taste drifts).
    session, row, position, ranker
        Per impression: number of the session; row of the catalogue; where it was shown, from 1;
        number of the ranker that made the list, of ``ranker_names``.
    clicked, purchased
        What the user did.
    attraction, examined
        The truth of each impression: how much it is wanted, and whether it was looked at.
    """

    catalogue: Dataset
    session: Ints
    row: Ints
    position: Ints
    ranker: Ints
    ranker_names: tuple[str, ...]
    clicked: NDArray[np.bool_]
    purchased: NDArray[np.bool_]
    attraction: Floats
    examined: NDArray[np.bool_]

    @cached_property
    def propensity(self) -> Floats:
        """Share of impressions looked at, by position, relative to the first: what happened."""
        shown = np.bincount(self.position)[1:]
        looked = sum_by(self.position, self.examined)[1:]
        rate = looked / shown
        return rate / rate[0]

    def to_table(self, *, features: bool = False, truth: bool = False) -> Any:
        """A pyarrow table, as a shop would have logged it.

        Columns ``session``, ``search``, ``item``, ``ranker``, ``position``, ``clicked``,
        ``purchased``; with ``features`` those of the items; with ``truth`` also ``attraction`` and
        ``examined``.
        """
        import pyarrow as pa

        items = self.catalogue
        columns: dict[str, Any] = {
            "session": self.session,
            "search": np.asarray(items.qid)[self.row],
            "item": np.arange(items.n_rows)[self.row]
            if items.docid is None
            else np.asarray(items.docid)[self.row],
            "ranker": pa.DictionaryArray.from_arrays(
                self.ranker.astype(np.int32), list(self.ranker_names)
            ),
            "position": self.position,
            "clicked": self.clicked.astype(np.int8),
            "purchased": self.purchased.astype(np.int8),
        }
        if features:
            names = items.feature_names or [f"x{j + 1}" for j in range(items.n_features)]
            columns |= {name: items.X[self.row, j] for j, name in enumerate(names)}
        if truth:
            columns |= {"attraction": self.attraction, "examined": self.examined}
        return pa.table(columns)

    def to_dataset(self, *, purchase: float = 0.0) -> Dataset:
        """Training data: one list a session, labels ``clicked + purchase * purchased``."""
        items = self.catalogue
        return Dataset.from_arrays(
            items.X[self.row],
            self.clicked + purchase * self.purchased,
            self.session,
            docid=None if items.docid is None else np.asarray(items.docid)[self.row],
            feature_names=items.feature_names,
            position=self.position,
            columns={"search": np.asarray(items.qid)[self.row], "item": self.row},
        )


def simulate(
    n_sessions: int = 10_000,
    *,
    users: str | User = "position_based",
    rankers: Any = None,
    catalogue: Dataset | None = None,
    n_searches: int = 200,
    n_items: int = 20,
    n_features: int = 10,
    list_length: int = 10,
    taste: str | Callable[[Any], Any] | Floats = "linear",
    base: float = -1.5,
    strength: float = 1.5,
    exploration: float = 0.0,
    popularity: float | None = 0.0,
    drift: float = 0.0,
    purchase: float = 0.3,
    random_state: int = 0,
) -> SimulatedLog:
    """Simulate a click log.

    Parameters
    ----------
    n_sessions
        Lists that are shown.
    users
        ``"position_based"``, ``"cascade"``, ``"dependent_click"``, ``"trust_bias"``, or one of
        their classes with other parameters, or anything with the same ``read``.
    rankers
        What orders the lists: a function of the features, a ``LinearModel`` or anything with
        ``predict``, an array of scores of the catalogue's rows, ``"random"`` (a new random order
        in each session), or a mapping of names to several of these; each session draws one. None:
        a linear ranker that knows the taste about half.
    catalogue
        Items with features, one query per search; None makes ``n_searches`` searches of
        ``n_items`` items with ``n_features`` standard normal features each.
    list_length
        Positions shown; shorter where a search has fewer items.
    taste
        ``"linear"``, ``"curved"`` (steps, bumps and products, out of a linear model's reach), a
        function of the features, or an array with the taste for each row of the catalogue.
    base, strength
        Attraction is sigmoid(base + strength * standardised taste).
    exploration
        Scale of the Gumbel noise added to the standardised scores in every session: 0 shows a
        search always in the same order, larger values move items up and down.
    popularity
        Searches are drawn with probability proportional to rank^-popularity; None takes every
        search in turn.
    drift
        Share of the taste that is another one at the end of the log, from 0 to 1; it grows evenly
        from session to session. Rankers do not follow.
    purchase
        A click ends in a purchase with probability ``purchase * attraction``.
    random_state
        Seed.

    Returns
    -------
    SimulatedLog
        The log, the catalogue with true grades, and what users looked at.

    Examples
    --------
    >>> from rankine.logs.simulation import simulate
    >>> log = simulate(1000, users="cascade", random_state=1)
    >>> log.to_table().column_names
    ['session', 'search', 'item', 'ranker', 'position', 'clicked', 'purchased']
    >>> bool(log.clicked[log.session == 0].sum() <= 1)
    True
    """
    seed: Any = random_state
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ParameterError(f"random_state={random_state!r} is no seed", fix="Use 0, say")
    if n_sessions < 1 or list_length < 1:
        raise ParameterError(
            f"n_sessions={n_sessions}, list_length={list_length} are not both positive",
            fix="Simulate one session of one item at least",
        )
    for name, value in (("drift", drift), ("purchase", purchase)):
        if not 0 <= value <= 1:
            raise ParameterError(f"{name}={value} is not in [0, 1]", fix="Use a share")
    if not exploration >= 0:
        raise ParameterError(f"exploration={exploration} is negative", fix="Use 0 for none")
    user = _user(users)
    make, mind, work = (np.random.default_rng([random_state, part]) for part in range(3))
    items = _catalogue(make, n_searches, n_items, n_features) if catalogue is None else catalogue
    first, last = _tastes(mind, items.X, taste, drift)
    scores = _ranker_scores(rankers, items, first, mind)
    places = _places(items)
    searches = _searches(work, n_sessions, len(places), popularity)
    chosen = work.integers(0, len(scores), n_sessions)
    table = np.stack(list(scores.values()))
    step = max(1, _CHUNK // places.shape[1])
    parts = []
    for start in range(0, n_sessions, step):
        sessions = np.arange(start, min(start + step, n_sessions))
        rows = places[searches[sessions]]
        shown = _shown(work, table, chosen[sessions], rows, exploration)[:, :list_length]
        age = (sessions / max(n_sessions - 1, 1))[:, None]
        likes = first[shown] + age * (last - first)[shown]
        attraction = np.where(shown < 0, 0.0, 1 / (1 + np.exp(-base - strength * likes)))
        looked, clicked = user.read(attraction, work)
        bought = clicked & (work.random(clicked.shape) < purchase * attraction)
        real = shown >= 0
        who, where = np.nonzero(real)
        parts.append(
            (sessions[who], shown[real], where + 1, chosen[sessions][who], clicked[real],
             bought[real], attraction[real], looked[real])
        )  # fmt: skip
    session, row, position, ranker, clicks, buys, wanted, seen = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    bounds = np.quantile(last, np.cumsum(_GRADES)[:-1])
    grades = np.searchsorted(bounds, last, "right").astype(np.float64)
    judged = Dataset.from_arrays(
        items.X, grades, items.qid, docid=items.docid, feature_names=items.feature_names
    )
    return SimulatedLog(
        judged, session, row, position, ranker, tuple(scores), clicks, buys, wanted, seen
    )


def _user(users: Any) -> User:
    if not isinstance(users, str):
        if not hasattr(users, "read"):
            raise ParameterError(
                f"{users!r} cannot read a list", fix="Pass PositionBased() or another user model"
            )
        return users
    if users not in _USERS:
        raise ParameterError(f"users={users!r} is unknown", fix=f"Use one of {', '.join(_USERS)}")
    return _USERS[users]()


def _catalogue(rng: np.random.Generator, n_searches: int, n_items: int, n_features: int) -> Dataset:
    X = rng.standard_normal((n_searches * n_items, n_features))
    return Dataset.from_arrays(X, np.zeros(len(X)), np.repeat(np.arange(n_searches), n_items))


def _tastes(rng: np.random.Generator, X: Any, taste: Any, drift: float) -> tuple[Floats, Floats]:
    """Standardised taste at the beginning and at the end of the log."""
    kinds = {"linear": _linear, "curved": _curved}
    if isinstance(taste, str):
        if taste not in kinds:
            raise ParameterError(f"taste={taste!r} is unknown", fix="Use linear or curved")
        first, other = (_standard(kinds[taste](rng, X)) for _ in range(2))
    else:
        first = _standard(taste(X) if callable(taste) else taste)
        other = _standard(_linear(rng, X))
    if len(first) != X.shape[0]:
        raise ParameterError(
            f"{len(first)} tastes for {X.shape[0]} rows of the catalogue", fix="Give one per row"
        )
    return first, _standard((1 - drift) * first + drift * other)


def _linear(rng: np.random.Generator, X: Any) -> Floats:
    return row_scores(X, rng.standard_normal(X.shape[1]))


def _curved(rng: np.random.Generator, X: Any) -> Floats:
    """Steps, bumps and products of single features."""
    weights = rng.standard_normal(X.shape[1])
    kind = np.arange(X.shape[1]) % 3
    dense = np.asarray(X)
    shapes = np.where(kind == 0, dense > 0.5, np.where(kind == 1, np.abs(dense), dense))
    shapes[:, kind == 2] *= np.roll(dense, 1, axis=1)[:, kind == 2]
    return shapes @ weights


def _standard(values: Any) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    spread = values.std()
    return (values - values.mean()) / (spread if spread > 0 else 1.0)


def _ranker_scores(
    rankers: Any, items: Dataset, taste: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """Standardised scores of the catalogue by each ranker; NaN for a random order."""
    if rankers is None:
        rankers = {"old": taste + _standard(_linear(rng, items.X))}
    named = rankers if isinstance(rankers, Mapping) else {"ranker": rankers}
    if not named:
        raise ParameterError("there is no ranker", fix="Name one, or leave rankers out")
    return {str(name): _scores(ranker, items) for name, ranker in named.items()}


def _scores(ranker: Any, items: Dataset) -> Floats:
    if isinstance(ranker, str):
        if ranker != "random":
            raise ParameterError(f"rankers={ranker!r} is unknown", fix="Use random, or a model")
        return np.full(items.n_rows, np.nan)
    if hasattr(ranker, "to_dense"):
        found = row_scores(items.X, ranker.to_dense())
    elif hasattr(ranker, "predict"):
        found = ranker.predict(items.X)
    else:
        found = ranker(items.X) if callable(ranker) else ranker
    found = np.asarray(found, dtype=np.float64)
    if found.shape != (items.n_rows,):
        raise ParameterError(
            f"a ranker gives scores of shape {found.shape} for {items.n_rows} items",
            fix="Give one score per row of the catalogue",
        )
    return _standard(found)


def _places(items: Dataset) -> Ints:
    """Rows of the catalogue by search, filled up with -1."""
    queries = items.queries
    sizes = queries.sizes
    places = np.full((queries.n_queries, int(sizes.max())), -1)
    places[np.arange(places.shape[1]) < sizes[:, None]] = queries.gather(np.arange(items.n_rows))
    return places


def _searches(
    rng: np.random.Generator, n_sessions: int, n_searches: int, popularity: float | None
) -> Ints:
    if popularity is None:
        return np.arange(n_sessions) % n_searches
    weight = np.arange(1, n_searches + 1) ** -float(popularity)
    bounds = np.cumsum(weight) / weight.sum()
    return np.searchsorted(bounds[:-1], rng.random(n_sessions), "right")


def _shown(
    rng: np.random.Generator,
    scores: Floats,
    ranker: Ints,
    rows: Ints,
    exploration: float,
) -> Ints:
    """Rows of the catalogue in the order in which each session shows them; -1 where none is."""
    key = scores[ranker[:, None], rows]
    if exploration > 0:
        key = key + exploration * rng.gumbel(size=key.shape)
    shuffled = np.isnan(key[:, 0])
    if shuffled.any():
        key[shuffled] = rng.random((int(shuffled.sum()), key.shape[1]))
    key[rows < 0] = -np.inf
    return np.take_along_axis(rows, np.argsort(-key, axis=1, kind="stable"), axis=1)


#: A shop's features with their weights in the shoppers' taste (0: noise to be ignored).
SHOP = {
    "title_match": 1.6,
    "description_match": 0.7,
    "price_log": -0.8,
    "discount": 0.9,
    "rating": 1.1,
    "reviews_log": 0.5,
    "in_stock": 1.2,
    "days_since_launch": -0.4,
    "brand_affinity": 0.8,
    "delivery_days": -0.6,
    "image_count": 0.0,
    "warehouse_id": 0.0,
    "colour_code": 0.0,
    "sku_parity": 0.0,
}
_WORDS = np.array(
    ["red", "trail", "running", "wool", "kids", "travel", "espresso", "garden", "gaming", "oak"]
)
_THINGS = np.array(
    ["shoes", "jacket", "backpack", "machine", "chair", "lamp", "headset", "table", "socks", "mug"]
)


def shop_log(n_queries: int = 600, *, random_state: int = 7, list_length: int = 24) -> Dataset:
    """A shop's search log: every search once, with labels 0, 1 (clicked) and 2 (bought).

    Taste is a linear function of the features plus what no feature shows, the old engine knows the
    title alone, and shoppers look at position k with probability k^-0.35. Lists hold half to one
    and a half of ``list_length`` products. ``columns["query_text"]`` holds the words of each row's
    query, ``position`` where the product was shown, ``docid`` its name.
    """
    rng = np.random.default_rng(random_state)
    sizes = rng.integers(list_length // 2, list_length + list_length // 2 + 1, n_queries)
    n = int(sizes.sum())
    X = _shop_features(rng, n)
    catalogue = Dataset.from_arrays(
        X,
        np.zeros(n),
        np.repeat(np.arange(1, n_queries + 1), sizes),
        docid=np.array([f"P{number}" for number in rng.integers(10_000, 99_999, n)]),
        feature_names=tuple(SHOP),
    )
    log = simulate(
        n_queries,
        users=PositionBased(0.35),
        catalogue=catalogue,
        taste=X @ np.array(list(SHOP.values())) + rng.gumbel(0, 0.5, n),
        rankers=X[:, 0] + rng.standard_normal(n),
        list_length=int(sizes.max()),
        base=-1.5,
        strength=2.5,
        popularity=None,
        purchase=0.7,
        random_state=random_state,
    )
    words = [f"{a} {b}" for a, b in zip(
        rng.choice(_WORDS, n_queries), rng.choice(_THINGS, n_queries), strict=True
    )]  # fmt: skip
    data = log.to_dataset(purchase=1.0)
    text = np.array(words)[log.session]
    return replace(data, qid=log.session + 1, columns={"query_text": text}, query_index=None)


def _shop_features(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    columns = {
        "title_match": rng.beta(2, 3, n),
        "description_match": rng.beta(2, 4, n),
        "price_log": rng.normal(0, 0.6, n),
        "discount": np.where(rng.random(n) < 0.3, rng.random(n) * 0.6, 0.0),
        "rating": np.clip(rng.normal(0.7, 0.2, n), 0, 1),
        "reviews_log": rng.gamma(2.0, 0.35, n),
        "in_stock": (rng.random(n) < 0.85).astype(float),
        "days_since_launch": rng.gamma(1.5, 0.4, n),
        "brand_affinity": rng.normal(0, 0.5, n),
        "delivery_days": rng.integers(1, 8, n) / 7,
        "image_count": rng.integers(1, 12, n) / 12,
        "warehouse_id": rng.integers(0, 5, n) / 5,
        "colour_code": rng.random(n),
        "sku_parity": rng.integers(0, 2, n).astype(float),
    }
    return np.round(np.column_stack([columns[name] for name in SHOP]), 5)
