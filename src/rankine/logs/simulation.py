"""Simulate click logs together with the true relevance of their items.

A catalogue contains the items of every search. Each item has features and an attraction: the
probability that a user who examines the item wants it, sigmoid(base + strength u), where u is the
standardised taste (a function of the features). In each session a ranker orders the items of one
search, and a user examines and clicks them as the user model describes. Use it to test a pipeline:
estimate, train and evaluate on the log, then compare the results with the truth.

All random draws follow from ``random_state``: the same arguments give the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_count
from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset, row_scores
from rankine.kernels.random import numpy_generator
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

#: Entries of the matrices that are drawn at the same time.
_CHUNK = 4_000_000
#: Shares of the catalogue with true grade 0, 1, ... 4.
_GRADES = (0.5, 0.2, 0.15, 0.1, 0.05)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Whether each item was examined, and whether it was clicked: rows are sessions, columns positions.
Read = tuple[NDArray[np.bool_], NDArray[np.bool_]]


class User(Protocol):
    """How a user reads a list."""

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Draw which items are examined and which are clicked."""


class PositionBased(NamedTuple):
    """Examines position k with probability ``k^-eta``, independently of the other items.

    P(click at k) = P(k is examined) attraction. ``examination`` (one probability per position)
    replaces the power; its last value applies to all later positions.
    """

    eta: float = 1.0
    examination: tuple[float, ...] = ()

    def examination_probabilities(self, length: int) -> Floats:
        """Return P(k is examined) for k = 1 .. length."""
        if not self.examination:
            return np.arange(1.0, length + 1) ** np.float64(-self.eta)
        # Beyond the last position that was measured, users look as rarely as there.
        probabilities = np.asarray(self.examination, dtype=np.float64)
        return probabilities[np.minimum(np.arange(length), len(probabilities) - 1)]

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Draw examined items independently, then clicks on them."""
        probabilities = self.examination_probabilities(attraction.shape[1])
        examined = rng.random(attraction.shape) < probabilities
        return examined, examined & (rng.random(attraction.shape) < attraction)


class Cascade(NamedTuple):
    """Reads from the top and stops at the first click (Craswell et al. 2008).

    After an item without a click the user continues with probability ``patience``.
    """

    patience: float = 1.0

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Draw examined items from the top, with at most one click."""
        return _read_down(attraction, rng, after_click=0.0, after_skip=self.patience)


class DependentClick(NamedTuple):
    """Reads from the top; after a click at position k continues with ``go_on k^-fade``.

    Without a click the user always continues (Guo, Liu and Wang 2009).
    """

    go_on: float = 0.8
    fade: float = 0.5

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Draw examined items from the top, with any number of clicks."""
        k = np.arange(1, attraction.shape[1] + 1)
        return _read_down(attraction, rng, after_click=self.go_on * k**-self.fade, after_skip=1)


class TrustBias(NamedTuple):
    """Examines by position, and trusts the top of the list (Agarwal et al. 2019).

    A user who examines a wanted item at position k clicks with probability ``clear``, and an
    unwanted one with ``fooled / k``. So P(click) = P(k is examined)
    (fooled/k + attraction (clear - fooled/k)): no position-based model fits it.
    """

    eta: float = 1.0
    clear: float = 0.98
    fooled: float = 0.3

    def read(self, attraction: Floats, rng: np.random.Generator) -> Read:
        """Draw clicks on wanted items, and some on unwanted ones at the top."""
        examined, _ = PositionBased(self.eta).read(attraction, rng)
        is_wanted = rng.random(attraction.shape) < attraction
        fooled = self.fooled / np.arange(1, attraction.shape[1] + 1)
        click_probability = np.where(is_wanted, self.clear, fooled)
        return examined, examined & (rng.random(attraction.shape) < click_probability)


def _read_down(
    attraction: Floats, rng: np.random.Generator, after_click: Any, after_skip: Any
) -> Read:
    """Draw for users who read from the top until they stop."""
    n_sessions, length = attraction.shape
    is_wanted = rng.random(attraction.shape) < attraction
    continues = np.where(is_wanted, after_click, after_skip) > rng.random(attraction.shape)
    examined = np.ones((n_sessions, length), dtype=bool)
    # An item is examined if the user went on after each item above it.
    examined[:, 1:] = np.logical_and.accumulate(continues[:, :-1], axis=1)
    return examined, examined & is_wanted


_USERS: dict[str, Any] = {
    "position_based": PositionBased,
    "cascade": Cascade,
    "dependent_click": DependentClick,
    "trust_bias": TrustBias,
}


@dataclass(frozen=True, eq=False)
class SimulatedLog:
    """Impressions with clicks, and the truth about them.

    Attributes
    ----------
    catalogue
        Features of every item of every search; its labels are the true grades 0 to 4 by attraction
        (at the end of the log, where taste drifts).
    session, row, position, ranker
        For each impression: number of the session; row of the catalogue; displayed position, from
        1; number of the ranker that ordered the list, an index into ``ranker_names``.
    clicked, purchased
        What the user did.
    attraction, examined
        The truth about each impression: probability that it is wanted, and whether it was examined.
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
        """Share of impressions that were examined, by position, relative to the first one."""
        n_shown = np.bincount(self.position)[1:]
        rate = sum_by(self.position, self.examined)[1:] / n_shown
        return rate / rate[0]

    def to_table(self, *, features: bool = False, truth: bool = False) -> Any:
        """Convert to a pyarrow table, as a shop would have logged it.

        Columns ``session``, ``search``, ``item``, ``ranker``, ``position``, ``clicked``,
        ``purchased``; with ``features`` also the features of the items; with ``truth`` also
        ``attraction`` and ``examined``.
        """
        import pyarrow as pa

        items = self.catalogue
        docids = self._docids()
        if docids is None:
            docids = self.row
        columns: dict[str, Any] = {
            "session": self.session,
            "search": np.asarray(items.qid)[self.row],
            "item": docids,
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
        """Convert to lists for training, with labels ``clicked + purchase * purchased``."""
        items = self.catalogue
        return Dataset.from_arrays(
            items.X[self.row],
            self.clicked + purchase * self.purchased,
            self.session,
            docid=self._docids(),
            feature_names=items.feature_names,
            position=self.position,
            columns={"search": np.asarray(items.qid)[self.row], "item": self.row},
        )

    def _docids(self) -> NDArray[Any] | None:
        """Return the document id of each impression."""
        if self.catalogue.docid is None:
            return None
        return np.asarray(self.catalogue.docid)[self.row]


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
        Number of lists to show.
    users
        ``"position_based"``, ``"cascade"``, ``"dependent_click"``, ``"trust_bias"``, or one of
        their classes with other parameters, or an object with the same ``read``.
    rankers
        What orders the lists: a function of the features, a ``LinearModel`` or an object with
        ``predict``, an array of scores of the catalogue's rows, ``"random"`` (a new random order
        in each session), or a mapping of names to several of these, from which each session draws
        one. None is a linear ranker whose scores are half taste, half noise.
    catalogue
        Items with features, one query per search; None makes ``n_searches`` searches of
        ``n_items`` items with ``n_features`` standard normal features each.
    list_length
        Maximum number of positions; a search with fewer items has a shorter list.
    taste
        ``"linear"``, ``"curved"`` (steps, bumps and products, which no linear model fits), a
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
        Share of the taste that has changed at the end of the log, from 0 to 1; it grows evenly
        from session to session. Rankers stay the same.
    purchase
        A click ends in a purchase with probability ``purchase * attraction``.
    random_state
        Seed.

    Returns
    -------
    SimulatedLog
        The log, the catalogue with true grades, and which items were examined.

    Examples
    --------
    >>> from rankine.logs.simulation import simulate
    >>> log = simulate(1000, users="cascade", random_state=1)
    >>> log.to_table().column_names
    ['session', 'search', 'item', 'ranker', 'position', 'clicked', 'purchased']
    >>> bool(log.clicked[log.session == 0].sum() <= 1)
    True
    """
    _check_arguments(n_sessions, list_length, drift, purchase, exploration)
    user = _make_user(users)
    # Separate generators: other users must not change the catalogue, for example.
    catalogue_rng, taste_rng, session_rng = (
        numpy_generator(random_state, part) for part in range(3)
    )
    if catalogue is None:
        catalogue = _make_catalogue(catalogue_rng, n_searches, n_items, n_features)
    first_taste, last_taste = _make_tastes(taste_rng, catalogue.X, taste, drift)
    scores = _ranker_scores(rankers, catalogue, first_taste, taste_rng)
    search_rows = _rows_by_search(catalogue)
    searches = _draw_searches(session_rng, n_sessions, len(search_rows), popularity)
    ranker_numbers = session_rng.integers(0, len(scores), n_sessions)
    score_table = np.stack(list(scores.values()))
    # Sessions are drawn in chunks, to bound the memory of the matrices of candidates.
    chunk_sessions = max(1, _CHUNK // search_rows.shape[1])
    chunks = []
    for start in range(0, n_sessions, chunk_sessions):
        sessions = np.arange(start, min(start + chunk_sessions, n_sessions))
        candidates = search_rows[searches[sessions]]
        ranked = _rank_items(
            session_rng, score_table, ranker_numbers[sessions], candidates, exploration
        )
        rows = ranked[:, :list_length]
        age = (sessions / max(n_sessions - 1, 1))[:, None]
        tastes = first_taste[rows] + age * (last_taste - first_taste)[rows]
        # Padding of short lists has no attraction, so it is never clicked.
        attraction = np.where(rows < 0, 0.0, 1 / (1 + np.exp(-base - strength * tastes)))
        examined, clicked = user.read(attraction, session_rng)
        purchased = clicked & (session_rng.random(clicked.shape) < purchase * attraction)
        present = rows >= 0
        k, positions = np.nonzero(present)
        chunks.append(
            (sessions[k], rows[present], positions + 1, ranker_numbers[sessions][k],
             clicked[present], purchased[present], attraction[present], examined[present])
        )  # fmt: skip
    session, row, position, ranker, clicked, purchased, attraction, examined = (
        np.concatenate(column) for column in zip(*chunks, strict=True)
    )
    # Grades are shares of the catalogue by final taste: a log with drift is graded by its end.
    bounds = np.quantile(last_taste, np.cumsum(_GRADES)[:-1])
    graded = Dataset.from_arrays(
        catalogue.X,
        np.searchsorted(bounds, last_taste, "right").astype(np.float64),
        catalogue.qid,
        docid=catalogue.docid,
        feature_names=catalogue.feature_names,
    )
    return SimulatedLog(
        graded, session, row, position, ranker, tuple(scores), clicked, purchased, attraction,
        examined,
    )  # fmt: skip


def _check_arguments(
    n_sessions: int,
    list_length: int,
    drift: float,
    purchase: float,
    exploration: float,
) -> None:
    for name, count in (("n_sessions", n_sessions), ("list_length", list_length)):
        if count < 1:
            raise ParameterError(f"{count} is not positive", parameter=name, fix="Use at least 1")
    for name, share in (("drift", drift), ("purchase", purchase)):
        if not 0 <= share <= 1:
            raise ParameterError(
                f"{share} is not in [0, 1]", parameter=name, fix="Use a number from 0 to 1"
            )
    if not exploration >= 0:
        raise ParameterError(
            f"{exploration} is negative", parameter="exploration", fix="Use 0 for none"
        )


def _make_user(users: Any) -> User:
    if not isinstance(users, str):
        if not hasattr(users, "read"):
            raise ParameterError(
                f"{users!r} is not a user model: it has no method read",
                parameter="users",
                fix="Pass PositionBased(), or another object with read(attraction, rng)",
            )
        return users
    if users not in _USERS:
        raise ParameterError(
            f"{users!r} is unknown", parameter="users", fix=f"Use one of {', '.join(_USERS)}"
        )
    return _USERS[users]()


def _make_catalogue(
    rng: np.random.Generator, n_searches: int, n_items: int, n_features: int
) -> Dataset:
    X = rng.standard_normal((n_searches * n_items, n_features))
    return Dataset.from_arrays(X, np.zeros(len(X)), np.repeat(np.arange(n_searches), n_items))


def _make_tastes(
    rng: np.random.Generator, X: Any, taste: Any, drift: float
) -> tuple[Floats, Floats]:
    """Return the standardised taste at the beginning and at the end of the log."""
    makers = {"linear": _linear, "curved": _curved}
    if isinstance(taste, str):
        if taste not in makers:
            raise ParameterError(
                f"{taste!r} is unknown", parameter="taste", fix="Use linear or curved"
            )
        # Two draws: the taste moves from one to the other.
        first, target = (_standardise(makers[taste](rng, X)) for _ in range(2))
    else:
        if callable(taste):
            taste = taste(X)
        first = _standardise(taste)
        target = _standardise(_linear(rng, X))
    if len(first) != X.shape[0]:
        raise ParameterError(
            f"{len(first)} values for {X.shape[0]} rows of the catalogue",
            parameter="taste",
            fix="Pass one value per row",
        )
    return first, _standardise((1 - drift) * first + drift * target)


def _linear(rng: np.random.Generator, X: Any) -> Floats:
    return row_scores(X, rng.standard_normal(X.shape[1]))


def _curved(rng: np.random.Generator, X: Any) -> Floats:
    """Combine steps, bumps and products of features."""
    weights = rng.standard_normal(X.shape[1])
    shape_of_column = np.arange(X.shape[1]) % 3
    dense = np.asarray(X)
    bumps = np.where(shape_of_column == 1, np.abs(dense), dense)
    values = np.where(shape_of_column == 0, dense > 0.5, bumps)
    products = shape_of_column == 2
    values[:, products] *= np.roll(dense, 1, axis=1)[:, products]
    return values @ weights


def _standardise(values: Any) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    spread = values.std() or 1.0  # constant values become 0
    return (values - values.mean()) / spread


def _ranker_scores(
    rankers: Any, items: Dataset, taste: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """Compute the standardised scores of the catalogue by each ranker; NaN for a random order."""
    if rankers is None:
        rankers = {"old": taste + _standardise(_linear(rng, items.X))}
    if not isinstance(rankers, Mapping):
        rankers = {"ranker": rankers}
    if not rankers:
        raise ParameterError(
            "there is no ranker", parameter="rankers", fix="Name one, or leave it out"
        )
    return {str(name): _score(ranker, items) for name, ranker in rankers.items()}


def _score(ranker: Any, items: Dataset) -> Floats:
    if isinstance(ranker, str):
        if ranker != "random":
            raise ParameterError(
                f"{ranker!r} is unknown", parameter="rankers", fix="Use random, or a model"
            )
        return np.full(items.n_rows, np.nan)
    if hasattr(ranker, "to_dense"):
        scores = row_scores(items.X, ranker.to_dense())
    elif hasattr(ranker, "predict"):
        scores = ranker.predict(items.X)
    elif callable(ranker):
        scores = ranker(items.X)
    else:
        scores = ranker
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (items.n_rows,):
        raise ParameterError(
            f"a ranker gives scores of shape {scores.shape} for {items.n_rows} items",
            parameter="rankers",
            fix="Pass one score per row of the catalogue",
        )
    return _standardise(scores)


def _rows_by_search(items: Dataset) -> Ints:
    """Return the rows of the catalogue for each search, padded with -1."""
    queries = items.queries
    # A rectangular table, so that all sessions of a chunk are ranked at once.
    sizes = queries.sizes
    rows = np.full((queries.n_queries, int(sizes.max())), -1)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = queries.gather(np.arange(items.n_rows))
    return rows


def _draw_searches(
    rng: np.random.Generator, n_sessions: int, n_searches: int, popularity: float | None
) -> Ints:
    # Every search in turn, so that each is shown equally often.
    if popularity is None:
        return np.arange(n_sessions) % n_searches
    weights = np.arange(1, n_searches + 1) ** -float(popularity)
    bounds = np.cumsum(weights) / weights.sum()
    return np.searchsorted(bounds[:-1], rng.random(n_sessions), "right")


def _rank_items(
    rng: np.random.Generator,
    scores: Floats,
    ranker_numbers: Ints,
    rows: Ints,
    exploration: float,
) -> Ints:
    """Sort the items of each session by the scores of its ranker; padding (-1) is last."""
    keys = scores[ranker_numbers[:, None], rows]
    # Sorting by scores with Gumbel noise draws from a softmax of the scores.
    if exploration > 0:
        keys = keys + exploration * rng.gumbel(size=keys.shape)
    # NaN marks the ranker that orders each session at random.
    random_order = np.isnan(keys[:, 0])
    if random_order.any():
        keys[random_order] = rng.random((int(random_order.sum()), keys.shape[1]))
    # Padding is sorted to the end of the list.
    keys[rows < 0] = -np.inf
    return np.take_along_axis(rows, np.argsort(-keys, axis=1, kind="stable"), axis=1)


#: Features of the products of a shop, and their weights in the taste of its users; features of
#: weight 0 are noise.
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
_ADJECTIVES = np.array(
    ["red", "trail", "running", "wool", "kids", "travel", "espresso", "garden", "gaming", "oak"]
)
_PRODUCTS = np.array(
    ["shoes", "jacket", "backpack", "machine", "chair", "lamp", "headset", "table", "socks", "mug"]
)


def shop_log(n_queries: int = 600, *, random_state: int = 7, list_length: int = 24) -> Dataset:
    """Simulate a shop's search log: every search once, with labels 0, 1 (clicked), 2 (bought).

    Taste is a linear function of the features plus noise, the ranker of the log uses only the match
    with the title, and users examine position k with probability k^-0.35. Lists contain 0.5 to 1.5
    times ``list_length`` products. ``columns["query_text"]`` is the text of each row's query,
    ``position`` the position of the product, ``docid`` its name. The columns ``clicked`` and
    ``purchased`` are 0 or 1; ``margin`` is what a sale earns, a share of the price after discount.
    """
    check_count("n_queries", n_queries)
    check_count("list_length", list_length)
    rng = numpy_generator(random_state)
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
    adjectives, products = rng.choice(_ADJECTIVES, n_queries), rng.choice(_PRODUCTS, n_queries)
    texts = np.array([f"{a} {b}" for a, b in zip(adjectives, products, strict=True)])
    data = log.to_dataset(purchase=1.0)
    columns = {"query_text": texts[log.session], **_shop_outcomes(data)}
    return replace(data, qid=log.session + 1, columns=columns, query_index=None)


def _shop_outcomes(data: Dataset) -> dict[str, Floats]:
    """Return clicks, purchases and the margin of each product."""
    features = dict(zip(SHOP, data.X.T, strict=True))
    price = 20.0 * np.exp(features["price_log"]) * (1.0 - features["discount"])
    return {
        "clicked": (data.y > 0).astype(np.float64),
        "purchased": (data.y > 1).astype(np.float64),
        "margin": np.round(0.3 * price, 2),
    }


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


def market_log(
    n_lists: int = 2000,
    *,
    n_items: int = 300,
    list_length: int = 10,
    drift: float = 1.0,
    new_items: float = 0.5,
    random_state: int = 0,
) -> dict[str, NDArray[Any]]:
    """Simulate 60 days of a shop whose items become popular, lose their appeal and are replaced.

    The appeal of an item is a linear function of price and rating, a fashion that no column shows
    and that changes with time, and the taste of the user for its brand. Lists show items that have
    been launched, ordered by the columns and noise; users examine position k with probability
    k^-0.5. Clicks reveal fashion and taste: history features can learn them, columns cannot.

    Parameters
    ----------
    n_lists, n_items, list_length
        Lists in order of time, items in all, and items in a list.
    drift
        Standard deviation of the fashion of an item; it changes by about half in 20 days.
    new_items
        Share of the items that are launched during the 60 days.
    random_state
        Seed.

    Returns
    -------
    dict
        Columns of a log, and ``relevance``, the true grade from 0 to 4 of the item at that time.
    """
    rng = numpy_generator(random_state)
    n_days, n_users, n_brands = 60, 200, 12
    price, rating = rng.normal(size=(2, n_items))
    brand = rng.integers(0, n_brands, n_items)
    taste = rng.normal(0, 0.7, (n_users, n_brands))
    launched = np.where(rng.random(n_items) < new_items, rng.random(n_items) * n_days, 0.0)
    # Fashion is an autoregressive process of days, with stationary deviation ``drift``.
    fading = 0.5 ** (1 / 20)
    fashion = np.empty((n_days, n_items))
    fashion[0] = rng.normal(0, drift, n_items)
    for day in range(1, n_days):
        noise = rng.normal(0, drift, n_items)
        fashion[day] = fading * fashion[day - 1] + np.sqrt(1 - fading**2) * noise
    times = np.sort(rng.random(n_lists)) * n_days
    users = rng.integers(0, n_users, n_lists)
    items = np.empty((n_lists, list_length), dtype=np.int64)
    appeal = np.empty((n_lists, list_length))
    for i, (time, user) in enumerate(zip(times.tolist(), users.tolist(), strict=True)):
        candidates = rng.choice(np.flatnonzero(launched <= time), list_length, replace=False)
        shown = 0.5 * rating[candidates] - 0.5 * price[candidates] + rng.normal(size=list_length)
        items[i] = candidates[np.argsort(-shown)]
        appeal[i] = 0.5 * (rating - price)[items[i]] + fashion[int(time)][items[i]]
        appeal[i] += taste[user][brand[items[i]]]
    attraction = 1 / (1 + np.exp(1.5 - appeal))
    positions = np.arange(1, list_length + 1)
    clicked = rng.random(items.shape) < attraction * positions**-0.5
    purchased = clicked & (rng.random(items.shape) < 0.5 * attraction)
    grades = np.digitize(appeal, np.quantile(appeal, (0.5, 0.7, 0.85, 0.95)))
    flat = items.ravel()
    return {
        "session": np.repeat(np.arange(n_lists), list_length),
        "ts": np.repeat(1_750_000_000 + (times * 86400).astype(np.int64), list_length),
        "user_id": np.repeat(users, list_length),
        "product_id": flat,
        "brand": brand[flat],
        "position": np.tile(positions, n_lists),
        "price": np.round(price[flat], 4),
        "rating": np.round(rating[flat], 4),
        "clicked": clicked.ravel().astype(np.int64),
        "purchased": purchased.ravel().astype(np.int64),
        "relevance": grades.ravel(),
    }
