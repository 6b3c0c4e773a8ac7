"""Estimate the value of a new ranker from the log of an old one, before any user sees it.

The value of a ranker is the expected reward (such as clicks) per list. The log shows rewards under
the old order; each impression gets a weight w that corrects for the difference to the new order.
With rewards r, lists l and their number n:

ips
    ``V = 1/n sum w r`` (inverse propensity scoring).
snips
    ``V = sum w r / sum w e``, times the mean of its expectation: self-normalised. It varies less
    and has a small bias.
dr
    ``V = 1/n sum_l [direct_l + sum w (r - predicted)]``: doubly robust. A click model predicts the
    value, and the weighted log corrects it. The estimate is consistent if either the weights or the
    model are right, and has less variance if both are nearly right.

The weights follow from a model of clicks:

position_based
    P(click) = theta_k gamma(item): w is theta at the new position divided by theta at the old one,
    and e = theta_k. It needs the propensities of positions, but not the old ranker.
independent
    P(click) depends on the item and its position in any way, but not on the other items: w is the
    probability that the new ranker shows the item at this position divided by the probability under
    the old one, and e = 1 (the item-position estimator of Li et al. 2018; independent IPS). It
    needs an old ranker that varied its order.

Intervals are normal approximations from the variation between lists. A log that says too little
about the new ranker is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.errors import OverlapError, ParameterError, SchemaError
from rankine.evaluation.significance import check_confidence
from rankine.evaluation.tables import Table
from rankine.logs.clicks import (
    ClickLog,
    encode,
    expected_clicks,
    position_propensity,
    read_clicks,
    sum_by,
)
from rankine.transforms.clicks import row_positions

__all__ = ["Counterfactual", "Estimate", "counterfactual", "value_estimates"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Estimate:
    """A mean reward per list with its standard error and interval."""

    name: str
    value: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Counterfactual:
    """Estimates of the value of a new ranker from the log of an old one.

    Attributes
    ----------
    old
        Value of the ranker that made the log: its mean reward per list.
    estimates
        Values of the new ranker: ``ips``, ``snips`` and, with a click model, ``dr``.
    lists, rows
        Number of lists and rows of the log.
    effective_rows
        Effective sample size ``(sum w)^2 / sum w^2``.
    overlap
        Share of the new ranker's impressions that the log covers, ideally near 1.
    max_weight, clipped
        Weights were limited to ``max_weight``; share of the rows where this happened.
    confidence
        Confidence level of the intervals.
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
        return next(estimate for estimate in self.estimates if estimate.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return data for JSON, as ``--json`` prints it."""
        return asdict(self)

    def tables(self) -> list[Table]:
        """Return tables of the estimates and of their basis."""
        interval = f"{self.confidence:.0%} interval"
        rows = [
            (e.name, f"{e.value:.4f}", f"[{e.low:.4f}, {e.high:.4f}]")
            for e in (self.old, *self.estimates)
        ]
        basis = [
            ("lists", f"{self.lists:,}"),
            ("rows", f"{self.rows:,}"),
            ("effective rows", f"{self.effective_rows:,.0f}"),
            ("overlap", f"{self.overlap:.3f}"),
            ("clipped rows", f"{self.clipped:.2%}"),
        ]
        return [
            Table("Reward per list", ("estimate", "value", interval), rows),
            Table("Basis of the estimates", ("", ""), basis),
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
    """Estimate the value of ordering every logged list by other scores.

    Parameters
    ----------
    log
        A click log in any form that ``rankine.logs.clicks.read_clicks`` reads.
    scores
        The new ranker's score of every row of the log, or the name of a column. Rows of a list are
        ordered by it; equal scores keep the old order.
    model
        ``"position_based"`` or ``"independent"``; see the module.
    propensity
        Propensities of the position-based model, from ``rankine.estimate_propensity``.
    logged
        Column with the probability that the old ranker showed the row at its position, for the
        independent model. Without it, probabilities are the frequencies with which the same search
        showed the item at the position in the old and in the new order (needs ``search`` and
        ``item``).
    k
        Number of positions of the new order that count; None: all.
    query, label, position, item, search
        Columns of the log. With ``item`` the doubly robust estimate is computed: its click model
        has one relevance per search-item pair, estimated on the other half of the lists.
    max_weight
        Limit of the weights: reduces variance, adds some bias.
    min_effective, min_overlap
        Smallest effective sample size and overlap; logs below are refused.
    confidence
        Confidence level of the intervals.

    Examples
    --------
    >>> from rankine.logs.simulation import simulate
    >>> log = simulate(5000, rankers="random", random_state=0)
    >>> result = counterfactual(log, log.attraction, propensity=log.propensity, item="item")
    >>> result.old.value < result["dr"].value
    True
    """
    extra = [name for name in (logged, scores) if isinstance(name, str)]
    clicks = read_clicks(
        log, query=query, label=label, position=position, item=item, search=search, columns=extra
    )
    values = clicks.columns[scores] if isinstance(scores, str) else np.asarray(scores)
    if values.shape != (clicks.n_rows,):
        raise SchemaError(
            f"shape {values.shape} does not match the {clicks.n_rows} rows of the log",
            fix="Pass one score per row",
            parameter="scores",
        )
    old = row_positions(clicks) - 1
    new = _new_positions(clicks, np.asarray(values, dtype=np.float64))
    counted, old_counted = np.ones(clicks.n_rows), np.ones(clicks.n_rows)
    if k is not None:
        counted, old_counted = (new < k).astype(np.float64), (old < k).astype(np.float64)
    if logged is not None:
        if model != "independent":
            raise ParameterError(
                "logged probabilities are used by the independent model only",
                fix="Set model to 'independent'",
                parameter="logged",
            )
        sums = _sums_from_probabilities(clicks, logged, old, new, counted, max_weight)
    else:
        exposure = _exposure(clicks, model, propensity, old, new)
        sums = _sums_from_exposure(clicks, exposure, counted, max_weight)
    robust = None
    if item is not None:
        if model != "position_based":
            propensity = ()  # estimated from the log
        predicted, direct = _predict(clicks, propensity, old, new, counted)
        # The model predicts the new order; weighted errors of the log correct what it gets wrong.
        residual = sums.weight * (clicks.label - predicted)
        robust = direct + sum_by(clicks.lists, residual)
    old_reward = sum_by(clicks.lists, clicks.label * old_counted)
    sums = replace(sums, robust=robust, old_reward=old_reward)
    return _estimate_all(sums, max_weight, min_effective, min_overlap, confidence)


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
    """Estimate from given weights, as in the log of a bandit.

    Parameters
    ----------
    reward, weight
        Reward of each row, and its probability under the new ranker divided by that under the old.
    lists
        Number of the list of each row, from 0; None: every row is a list.
    control, expected
        e of each row, and the expectation of ``sum w e`` of each list (default: sum of e over its
        rows).
    predicted, direct
        Predictions of a click model: the reward of each row, and the value of the new ranker on
        each list. Pass both or neither.
    max_weight, min_effective, min_overlap, confidence
        See ``counterfactual``.

    Examples
    --------
    >>> result = value_estimates([1, 0, 0, 1], [2, 0.5, 1, 0.5], min_effective=1)
    >>> result["ips"].value, result["snips"].value
    (0.625, 0.625)
    """
    r, w = np.asarray(reward, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    if r.shape != w.shape or r.ndim != 1 or not (np.isfinite(w) & np.isfinite(r) & (w >= 0)).all():
        raise SchemaError(
            "rewards and weights must be finite numbers, one per row, and weights not negative",
            fix="Check for old probabilities of 0",
        )
    if (predicted is None) != (direct is None):
        raise ParameterError("predicted and direct are needed together", fix="Pass both or neither")
    list_numbers = np.arange(len(r))
    if lists is not None:
        list_numbers = np.asarray(lists, dtype=np.int64)
    e = np.broadcast_to(np.asarray(control, dtype=np.float64), r.shape)
    w, clipped = _clip(w, max_weight, np.arange(len(w)))

    def per_list(values: Floats) -> Floats:
        return sum_by(list_numbers, values)

    if expected is None:
        expected_control = per_list(e)
    else:
        expected_control = np.asarray(expected, dtype=np.float64)
    robust = None
    if predicted is not None and direct is not None:
        residual = w * (r - np.asarray(predicted, dtype=np.float64))
        robust = np.asarray(direct, dtype=np.float64) + per_list(residual)
    sums = _ListSums(
        w, per_list(w * r), per_list(w * e), expected_control, per_list(r), robust, clipped
    )
    return _estimate_all(sums, max_weight, min_effective, min_overlap, confidence)


@dataclass(frozen=True)
class _ListSums:
    """Sums per list from which the estimates are computed.

    Attributes
    ----------
    weight
        Weight of each row.
    reward, control
        Weighted sums of rewards and of e.
    expected_control
        Expectation of ``control``.
    old_reward
        Reward of the old order.
    robust
        Terms of the doubly robust estimate.
    clipped
        Share of the rows whose weight was limited.
    """

    weight: Floats
    reward: Floats
    control: Floats
    expected_control: Floats
    old_reward: Floats
    robust: Floats | None
    clipped: float


def _estimate_all(
    sums: _ListSums, max_weight: float | None, min_effective: float, min_overlap: float,
    confidence: float,
) -> Counterfactual:  # fmt: skip
    check_confidence(confidence)
    w, reward, control, expected = sums.weight, sums.reward, sums.control, sums.expected_control
    effective = overlap = 0.0
    if w.any():
        effective = float(w.sum() ** 2 / (w @ w))
    if expected.sum() > 0:
        overlap = float(control.sum() / expected.sum())
    # Before any division: a log without overlap has sums of 0.
    _check_overlap(effective, min_effective, overlap, min_overlap)
    ratio = reward.sum() / control.sum()
    # The ratio of two means, linearised (delta method).
    residual = reward - ratio * control
    linearised = ratio * expected.mean() + residual * (expected.mean() / control.mean())
    values = {"ips": reward, "snips": linearised}
    if sums.robust is not None:
        values["dr"] = sums.robust
    return Counterfactual(
        _estimate("old", sums.old_reward, confidence),
        tuple(_estimate(name, each, confidence) for name, each in values.items()),
        len(reward),
        len(w),
        effective,
        overlap,
        max_weight,
        sums.clipped,
        confidence,
    )


def _estimate(name: str, values: Floats, confidence: float) -> Estimate:
    """Return the mean of one value per list with a normal interval."""
    from scipy.stats import norm

    mean = float(values.mean())
    error = float("inf")
    if len(values) > 1:
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
    half_width = float(norm.ppf((1 + confidence) / 2)) * error
    return Estimate(name, mean, error, mean - half_width, mean + half_width)


def _check_overlap(
    effective: float, min_effective: float, overlap: float, min_overlap: float
) -> None:
    if overlap < min_overlap:
        raise OverlapError(
            f"the log covers {overlap:.0%} of what the new ranker would show, less than "
            f"{min_overlap:.0%}",
            fix="Log an order that varies more, evaluate a more similar ranker, or interleave",
            parameter="min_overlap",
        )
    if effective < min_effective:
        raise OverlapError(
            f"the weighted log has an effective size of {effective:.1f} rows, less than "
            f"{min_effective:g}",
            fix="Use a longer log, limit the weights by max_weight, or interleave",
            parameter="min_effective",
        )


def _new_positions(log: ClickLog, scores: Floats) -> Ints:
    """Return the rank of every row in its list by descending score, from 0; ties keep order."""
    # By list, then by falling score, then by the old position.
    order = np.lexsort((row_positions(log), -scores, log.lists))
    starts = np.r_[0, np.cumsum(np.bincount(log.lists))]
    new = np.empty(log.n_rows, dtype=np.int64)
    new[order] = np.arange(log.n_rows) - starts[log.lists[order]]
    return new


class _Exposure(NamedTuple):
    """Exposure of each row in the old and in the new order, and the cells that pool rows.

    The rows of a cell have the same expected reward per exposure.
    """

    old: Floats
    new: Floats
    old_cell: Ints
    new_cell: Ints


def _exposure(
    log: ClickLog, model: str, propensity: Sequence[float], old: Ints, new: Ints
) -> _Exposure:
    has_pairs = log.search is not None and log.item is not None
    if model == "position_based":
        theta = position_propensity(propensity)
        if theta.ndim != 1 or len(theta) == 0 or not (theta > 0).all():
            raise ParameterError(
                "the position-based model needs the propensity of each position",
                fix="Pass the file of rankine clicks propensity, or estimate_propensity(log)",
                parameter="propensity",
            )
        # Without search and item nothing says which rows show the same pair: no rows are pooled.
        cell = log.pair if has_pairs else np.arange(log.n_rows)
        last = len(theta) - 1  # positions below have the propensity of the last one
        return _Exposure(theta[np.minimum(old, last)], theta[np.minimum(new, last)], cell, cell)
    if model != "independent":
        raise ParameterError(
            f"there is no model {model!r}",
            fix="Use position_based or independent",
            parameter="model",
        )
    if not has_pairs:
        raise ParameterError(
            "the independent model needs the old ranker's probabilities",
            fix="Name their column (logged), or search and item to count them in the log",
            parameter="model",
        )
    # A cell is a pair at a position: the probability of a click may depend on both in any way.
    ones = np.ones(log.n_rows)
    n_positions = int(max(old.max(), new.max())) + 1
    cells, _ = encode(np.r_[log.pair * n_positions + old, log.pair * n_positions + new])
    return _Exposure(ones, ones, cells[: log.n_rows], cells[log.n_rows :])


def _sums_from_exposure(
    log: ClickLog, exposure: _Exposure, counted: Floats, max_weight: float | None
) -> _ListSums:
    """Compute weights by counting: exposure of a cell in the new order divided by the old one.

    Summed over all lists, the share of a list is ``w r``. It is written as its expectation given
    the mean reward of each cell, plus a residual. Its variation between lists is then that of an
    estimate with counted weights; the variation of ``w r`` itself would be too large.
    """
    old_cell, new_cell = exposure.old_cell, exposure.new_cell
    new_exposure = counted * exposure.new
    size = int(max(old_cell.max(), new_cell.max())) + 1
    old_total = sum_by(old_cell, exposure.old, size)
    new_total = sum_by(new_cell, new_exposure, size)
    covered = old_total > 0
    full_weight = np.divide(new_total, old_total, out=np.zeros(size), where=covered)
    weight, clipped = _clip(full_weight, max_weight, old_cell)
    # Clipping lowers rewards and e alike, so that the self-normalised estimate stays right.
    remaining = np.divide(weight, full_weight, out=np.zeros(size), where=full_weight > 0)
    mean = sum_by(old_cell, log.label, size)
    mean = np.divide(mean, old_total, out=np.zeros(size), where=covered)
    covered_exposure = new_exposure * remaining[new_cell]
    n_rows = np.bincount(old_cell, minlength=size)
    # The mean of n rows takes one of n degrees of freedom from their residuals.
    inflation = np.sqrt(n_rows / np.maximum(n_rows - 1, 1))
    residual = (weight * inflation)[old_cell] * (log.label - exposure.old * mean[old_cell])
    share = covered_exposure * mean[new_cell] + residual
    reward, control, expected = (
        sum_by(log.lists, each) for each in (share, covered_exposure, new_exposure)
    )
    return _ListSums(weight[old_cell], reward, control, expected, reward, None, clipped)


def _sums_from_probabilities(
    log: ClickLog,
    column: str,
    old: Ints,
    new: Ints,
    counted: Floats,
    max_weight: float | None,
) -> _ListSums:
    """Compute weights from the probabilities that the old ranker logged."""
    probability = np.asarray(log.columns[column], dtype=np.float64)
    if not ((probability > 0) & (probability <= 1)).all():
        raise SchemaError(
            f"column {column!r} has logged probabilities outside (0, 1]", fix="Check the column"
        )
    rows = np.arange(log.n_rows)
    weight, clipped = _clip(counted * (new == old) / probability, max_weight, rows)
    reward, control, expected = (
        sum_by(log.lists, each) for each in (weight * log.label, weight, counted)
    )
    return _ListSums(weight, reward, control, expected, reward, None, clipped)


def _clip(weight: Floats, max_weight: float | None, rows: Ints) -> tuple[Floats, float]:
    """Limit weights to ``max_weight``; return them and the share of the rows that changed."""
    if max_weight is None:
        return weight, 0.0
    if not max_weight > 0:
        raise ParameterError(
            f"{max_weight} is not positive", fix="Use 10.0", parameter="max_weight"
        )
    return np.minimum(weight, max_weight), float((weight[rows] > max_weight).mean())


def _predict(
    log: ClickLog, propensity: Sequence[float], old: Ints, new: Ints, counted: Floats
) -> tuple[Floats, Floats]:
    """Predict the reward of each row at its old position, and of each list in the new order.

    The prediction is ``e_k (C + 1) / (E + 1)``: the probability of a click on an average item at
    the position, times clicks divided by expected clicks of the search-item pair.
    """
    mean = expected_clicks(log, propensity)
    by_position = sum_by(old, mean) / np.maximum(np.bincount(old), 1)
    # Pairs are counted on the other half of the lists, so that no list predicts its own rewards.
    half = log.lists % 2
    key = 2 * log.pair + half
    size = 2 * (int(log.pair.max()) + 1)
    reward_per_click = log.label.sum() / mean.sum()
    clicks = sum_by(key, log.label, size) / reward_per_click
    expected = sum_by(key, mean, size)
    other_half = key ^ 1
    # One click more on both sides: a pair without clicks is not certain to get none.
    relevance = reward_per_click * (clicks[other_half] + 1) / (expected[other_half] + 1)
    new_rewards = counted * by_position[np.minimum(new, len(by_position) - 1)] * relevance
    return mean * relevance, sum_by(log.lists, new_rewards)
