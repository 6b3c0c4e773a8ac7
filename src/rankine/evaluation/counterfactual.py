"""Judging a new ranker on the log of the old one, before any user sees it.

The value of a ranker is the expected reward (clicks, say) per list. The old ranker's log says what
happened under the old order; each impression counts with a weight w that makes it speak for the
new one. With rewards r, lists l and n of them:

ips
    ``V = 1/n sum w r`` (inverse propensity score).
snips
    ``V = sum w r / sum w e``, times the mean of its expectation: self-normalised. It is steadier,
    and slightly biased.
dr
    ``V = 1/n sum_l [direct_l + sum w (r - predicted)]``: doubly robust. A model of clicks predicts
    the value, and the weighted log corrects it. It is right when either the weights or the model
    are, and less noisy when both are near.

The weights follow from what a click depends on:

position_based
    P(click) = theta_k gamma(item): w = theta at the new position over theta at the old one, and
    e = theta_k. It needs the propensities of positions, not those of the old ranker.
independent
    P(click) depends on the item and its position in any way, not on the other items: w is the
    chance that the new ranker shows the item at this position over the chance that the old one
    did, and e = 1 (the item-position estimator of Li et al. 2018; independent IPS). It needs an
    old ranker that varied its order.

Intervals are normal, from the variation between lists. A log that says too little about the new
ranker is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.errors import OverlapError, ParameterError, SchemaError
from rankine.evaluation.tables import Table
from rankine.logs.clicks import (
    ClickLog,
    encode,
    expected_clicks,
    position_propensity,
    read_clicks,
    sum_by,
)

__all__ = ["Counterfactual", "Estimate", "counterfactual", "value_estimates"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Estimate:
    """A value per list with its standard error and interval."""

    name: str
    value: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Counterfactual:
    """What the log says about a new ranker.

    Attributes
    ----------
    old
        Value of the ranker that made the log: its mean reward per list.
    estimates
        Values of the new one: ``ips``, ``snips`` and, with a model of clicks, ``dr``.
    lists, rows
        Size of the log.
    effective_rows
        ``(sum w)^2 / sum w^2``: as many equally weighted rows say as much.
    overlap
        Share of what the new ranker would show that the log can speak for, near 1 when all is well.
    max_weight, clipped
        Weights above ``max_weight`` were cut to it, and the share of rows where that happened.
    confidence
        Of the intervals.
    """

    old: Estimate
    estimates: tuple[Estimate, ...]
    lists: int
    rows: int
    effective_rows: float
    overlap: float
    max_weight: float | None
    clipped: float
    confidence: float

    def __getitem__(self, name: str) -> Estimate:
        return next(found for found in self.estimates if found.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``--json`` prints it."""
        return asdict(self)

    def tables(self) -> list[Table]:
        """The estimates, and how much they stand on."""
        width = f"{self.confidence:.0%} interval"
        rows = [
            (e.name, f"{e.value:.4f}", f"[{e.low:.4f}, {e.high:.4f}]")
            for e in (self.old, *self.estimates)
        ]
        facts = [
            ("lists", f"{self.lists:,}"),
            ("rows", f"{self.rows:,}"),
            ("effective rows", f"{self.effective_rows:,.0f}"),
            ("overlap", f"{self.overlap:.3f}"),
            ("clipped rows", f"{self.clipped:.2%}"),
        ]
        return [
            Table("Reward per list", ("estimate", "value", width), rows),
            Table("What it stands on", ("", ""), facts),
        ]


def counterfactual(
    log: Any,
    scores: ArrayLike | str,
    *,
    model: str = "position_based",
    propensity: Sequence[float] = (),
    logged: str | None = None,
    k: int | None = None,
    query: str = "session",
    label: str = "clicked",
    position: str = "position",
    item: str | None = None,
    search: str | None = None,
    max_weight: float | None = None,
    min_effective: float = 100.0,
    min_overlap: float = 0.5,
    confidence: float = 0.95,
) -> Counterfactual:
    """Value of ordering every logged list by other scores.

    Parameters
    ----------
    log
        Whatever ``rankine.logs.clicks.read_clicks`` reads.
    scores
        The new ranker's score of every row of the log, or the column that holds it. It orders the
        rows that the list has; equal scores keep the old order.
    model
        ``"position_based"`` or ``"independent"``, see above.
    propensity
        Of the position-based model, from ``rankine.estimate_propensity``.
    logged
        Column with the probability that the old ranker showed the row at its position, for the
        independent model. Without it the chances are counted: how often the same search showed
        the item at the position, by the old and by the new order (``search`` and ``item`` needed).
    k
        Only the first k positions of the new order count; None counts all.
    query, label, position, item, search
        Columns. With ``item`` the doubly robust estimate is made: its model of clicks has one
        relevance per search-item pair, estimated on the other half of the lists.
    max_weight
        Cut larger weights to it: less noise, some bias.
    min_effective, min_overlap
        Refuse logs with fewer effective rows or less overlap.
    confidence
        Of the intervals.

    Examples
    --------
    >>> from rankine.logs.simulation import simulate
    >>> log = simulate(5000, rankers="random", random_state=0)
    >>> found = counterfactual(log, log.attraction, propensity=log.propensity, item="item")
    >>> found.old.value < found["dr"].value
    True
    """
    extra = [name for name in (logged, scores) if isinstance(name, str)]
    clicks = read_clicks(
        log, query=query, label=label, position=position, item=item, search=search, columns=extra
    )
    values = clicks.columns[scores] if isinstance(scores, str) else np.asarray(scores)
    if values.shape != (clicks.n_rows,):
        raise SchemaError(
            f"{values.shape} scores for {clicks.n_rows} rows", fix="Give one score per row"
        )
    old = clicks.required_positions() - 1
    new = _new_positions(clicks, np.asarray(values, dtype=np.float64))
    counts = np.ones(clicks.n_rows) if k is None else (new < k).astype(np.float64)
    if logged is not None:
        if model != "independent":
            raise ParameterError(
                "logged probabilities belong to the independent model",
                fix="Set model='independent'",
            )
        sums = _logged(clicks, logged, old, new, counts, max_weight)
    else:
        at_old, at_new, cells = _exposure(clicks, model, propensity, old, new)
        sums = _counted(clicks, cells, at_old, counts * at_new, max_weight)
    robust = None
    if item is not None:
        at = propensity if model == "position_based" else ()
        predicted, direct = _predict(clicks, at, old, new, counts)
        fault = sums.weight * (clicks.label - predicted)
        robust = direct + sum_by(clicks.lists, fault)
    before = sum_by(clicks.lists, clicks.label * (k is None or old < k))
    return _summary(
        replace(sums, robust=robust, before=before), max_weight, min_effective, min_overlap,
        confidence,
    )  # fmt: skip


def value_estimates(
    reward: ArrayLike,
    weight: ArrayLike,
    lists: ArrayLike | None = None,
    *,
    control: ArrayLike = 1.0,
    expected: ArrayLike | None = None,
    predicted: ArrayLike | None = None,
    direct: ArrayLike | None = None,
    max_weight: float | None = None,
    min_effective: float = 100.0,
    min_overlap: float = 0.5,
    confidence: float = 0.95,
) -> Counterfactual:
    """The three estimates from weights that are known, as in a bandit's log.

    Parameters
    ----------
    reward, weight
        Of every row: what was won, and the chance under the new ranker over that under the old.
    lists
        Number of the list of each row, from 0; None makes every row a list.
    control, expected
        e of each row, and the expectation of ``sum w e`` of each list (default: its rows' sum of
        e).
    predicted, direct
        Of a model of clicks: the reward of each row, and the value of the new ranker on each list.
        Both or neither.
    max_weight, min_effective, min_overlap, confidence
        As for ``counterfactual``.

    Examples
    --------
    >>> found = value_estimates([1, 0, 0, 1], [2, 0.5, 1, 0.5], min_effective=1)
    >>> found["ips"].value, found["snips"].value
    (0.625, 0.625)
    """
    r, w = np.asarray(reward, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    if r.shape != w.shape or r.ndim != 1 or not (np.isfinite(w) & np.isfinite(r) & (w >= 0)).all():
        raise SchemaError(
            "rewards and weights are finite numbers, one per row, and weights are not negative",
            fix="Check for old probabilities of 0",
        )
    if (predicted is None) != (direct is None):
        raise ParameterError("predicted and direct belong together", fix="Give both or neither")
    owner = np.arange(len(r)) if lists is None else np.asarray(lists, dtype=np.int64)
    e = np.broadcast_to(np.asarray(control, dtype=np.float64), r.shape)
    w, clipped = _clip(w, max_weight, np.arange(len(w)))

    def per_list(values: Floats) -> Floats:
        return sum_by(owner, values)

    hope = per_list(e) if expected is None else np.asarray(expected, dtype=np.float64)
    robust = None
    if predicted is not None and direct is not None:
        fault = w * (r - np.asarray(predicted, dtype=np.float64))
        robust = np.asarray(direct, dtype=np.float64) + per_list(fault)
    sums = _Sums(w, per_list(w * r), per_list(w * e), hope, per_list(r), robust, clipped)
    return _summary(sums, max_weight, min_effective, min_overlap, confidence)


@dataclass(frozen=True)
class _Sums:
    """What the estimates are made of: the weight of each row; the rest is per list."""

    weight: Floats
    won: Floats  # weighted reward
    held: Floats  # weighted control
    hope: Floats  # what ``held`` is expected to be
    before: Floats  # reward of the old order
    robust: Floats | None
    clipped: float


def _summary(
    sums: _Sums, max_weight: float | None, min_effective: float, min_overlap: float,
    confidence: float,
) -> Counterfactual:  # fmt: skip
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence={confidence} is not in (0, 1)", fix="Use 0.95, say")
    w, won, held, hope = sums.weight, sums.won, sums.held, sums.hope
    effective = float(w.sum() ** 2 / (w @ w)) if w.any() else 0.0
    overlap = float(held.sum() / hope.sum()) if hope.sum() > 0 else 0.0
    _refuse(effective, min_effective, overlap, min_overlap)
    ratio = won.sum() / held.sum()
    # the ratio of two means, linearised (delta method)
    spread = ratio * hope.mean() + (won - ratio * held) * (hope.mean() / held.mean())
    values = {"ips": won, "snips": spread}
    if sums.robust is not None:
        values["dr"] = sums.robust
    return Counterfactual(
        _estimate("old", sums.before, confidence),
        tuple(_estimate(name, each, confidence) for name, each in values.items()),
        len(won),
        len(w),
        effective,
        overlap,
        max_weight,
        sums.clipped,
        confidence,
    )


def _estimate(name: str, values: Floats, confidence: float) -> Estimate:
    """Mean of one value per list, with a normal interval."""
    from scipy.stats import norm

    mean = float(values.mean())
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")
    reach = float(norm.ppf((1 + confidence) / 2)) * error
    return Estimate(name, mean, error, mean - reach, mean + reach)


def _refuse(effective: float, least: float, overlap: float, least_overlap: float) -> None:
    if overlap < least_overlap:
        raise OverlapError(
            f"the log can speak for {overlap:.0%} of what the new ranker would show, less than "
            f"min_overlap={least_overlap:g}",
            fix="Log an order that varies more, judge a nearer ranker, or interleave",
        )
    if effective < least:
        raise OverlapError(
            f"the weighted log says as much as {effective:.1f} rows, fewer than "
            f"min_effective={least:g}",
            fix="Give a longer log, set max_weight, or interleave",
        )


def _new_positions(log: ClickLog, scores: Floats) -> Ints:
    """Rank of every row in its list by falling score, from 0; ties keep the old order."""
    order = np.lexsort((log.required_positions(), -scores, log.lists))
    starts = np.r_[0, np.cumsum(np.bincount(log.lists))]
    new = np.empty(log.n_rows, dtype=np.int64)
    new[order] = np.arange(log.n_rows) - starts[log.lists[order]]
    return new


def _exposure(
    log: ClickLog, model: str, propensity: Sequence[float], old: Ints, new: Ints
) -> tuple[Floats, Floats, tuple[Ints, Ints]]:
    """How much each row is seen in the old and in the new order, and what it is pooled with.

    The last two number the cells that a row belongs to in the old and in the new order; rows of a
    cell have the same reward per exposure.
    """
    pooled = log.search is not None and log.item is not None
    if model == "position_based":
        theta = position_propensity(propensity)
        if theta.ndim != 1 or len(theta) == 0 or not (theta > 0).all():
            raise ParameterError(
                "the position-based model needs the propensity of each position",
                fix="Pass propensity=rankine.estimate_propensity(...)",
            )
        cell = log.pair if pooled else np.arange(log.n_rows)
        at_old, at_new = (theta[np.minimum(place, len(theta) - 1)] for place in (old, new))
        return at_old, at_new, (cell, cell)
    if model != "independent":
        raise ParameterError(f"model={model!r} is unknown", fix="Use position_based or independent")
    if not pooled:
        raise ParameterError(
            "the independent model needs the old ranker's probabilities",
            fix="Name their column (logged=), or search= and item= to count them in the log",
        )
    ones = np.ones(log.n_rows)
    places = int(max(old.max(), new.max())) + 1
    cells, _ = encode(np.r_[log.pair * places + old, log.pair * places + new])
    return ones, ones, (cells[: log.n_rows], cells[log.n_rows :])


def _counted(
    log: ClickLog,
    cells: tuple[Ints, Ints],
    at_old: Floats,
    at_new: Floats,
    max_weight: float | None,
) -> _Sums:
    """Weights by counting: exposure of a cell in the new order over that in the old one.

    Summed over all lists the share of a list is ``w r``. It is written as its expectation given
    the mean reward of each cell, plus a residual: its variation between lists is then that of an
    estimate with counted weights (the variation of ``w r`` itself would be too large).
    """
    was, would = cells
    size = int(max(was.max(), would.max())) + 1
    before = sum_by(was, at_old, size)
    after = sum_by(would, at_new, size)
    known = before > 0
    whole = np.divide(after, before, out=np.zeros(size), where=known)
    cut, clipped = _clip(whole, max_weight, was)
    kept = np.divide(cut, whole, out=np.zeros(size), where=whole > 0)
    mean = sum_by(was, log.label, size)
    mean = np.divide(mean, before, out=np.zeros(size), where=known)
    seen = at_new * kept[would]
    times = np.bincount(was, minlength=size)
    # a mean of n rows takes one of n freedoms from their residuals
    freed = np.sqrt(times / np.maximum(times - 1, 1))
    share = seen * mean[would] + (cut * freed)[was] * (log.label - at_old * mean[was])
    won, held, hope = (sum_by(log.lists, each) for each in (share, seen, at_new))
    return _Sums(cut[was], won, held, hope, won, None, clipped)


def _logged(
    log: ClickLog,
    column: str,
    old: Ints,
    new: Ints,
    counts: Floats,
    max_weight: float | None,
) -> _Sums:
    """Weights by the probabilities that the old ranker logged."""
    chance = np.asarray(log.columns[column], dtype=np.float64)
    if not ((chance > 0) & (chance <= 1)).all():
        raise SchemaError("logged probabilities lie in (0, 1]", fix="Check the column")
    every = np.arange(log.n_rows)
    weight, clipped = _clip(counts * (new == old) / chance, max_weight, every)
    won, held, hope = (sum_by(log.lists, each) for each in (weight * log.label, weight, counts))
    return _Sums(weight, won, held, hope, won, None, clipped)


def _clip(weight: Floats, max_weight: float | None, rows: Ints) -> tuple[Floats, float]:
    """Weights cut to ``max_weight``, and the share of the rows that lost something."""
    if max_weight is None:
        return weight, 0.0
    if not max_weight > 0:
        raise ParameterError(f"max_weight={max_weight} is not positive", fix="Use 10.0, say")
    return np.minimum(weight, max_weight), float((weight[rows] > max_weight).mean())


def _predict(
    log: ClickLog, propensity: Sequence[float], old: Ints, new: Ints, counted: Floats
) -> tuple[Floats, Floats]:
    """Reward of each row where it stood, and of each list in the new order.

    ``e_k (C + 1) / (E + 1)``: the chance of a click on an average item at the position, times
    clicks over expected clicks of the pair, both from the lists of the other half.
    """
    mean = expected_clicks(log, propensity)
    by_place = sum_by(old, mean) / np.maximum(np.bincount(old), 1)
    half = log.lists % 2
    key = 2 * log.pair + half
    size = 2 * (int(log.pair.max()) + 1)
    worth = log.label.sum() / mean.sum()
    clicks = sum_by(key, log.label, size) / worth
    expected = sum_by(key, mean, size)
    other = key ^ 1
    relevance = worth * (clicks[other] + 1) / (expected[other] + 1)
    after = counted * by_place[np.minimum(new, len(by_place) - 1)] * relevance
    return mean * relevance, sum_by(log.lists, after)
