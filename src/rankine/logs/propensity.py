"""Estimate position bias: users examine the top of a list more often than its end.

A click at position k happens with probability theta_k gamma: the item is examined (theta_k) and
wanted (gamma). Clicks determine theta only up to a factor, so theta_1 = 1. There are three methods:

randomised
    For lists in random order: theta_k is the click rate at position k divided by the rate at 1.
harvest
    For natural changes of rank: the same search-item pair shown at several positions, by several
    rankers or over time. Pair i was shown n_ik times at position k and clicked c_ik times. Given
    its C_i clicks, they are distributed over the positions in proportion to n_ik theta_k, for any
    gamma, so theta maximises ``sum_i [sum_k c_ik log theta_k - C_i log sum_k n_ik theta_k]``: all
    pairs of positions at once (the interventional sets of Agarwal et al. 2019). It is concave in
    log theta.
em
    For logs with neither: gamma is a logistic function of the features, or one number per item,
    and theta and gamma maximise the likelihood of all clicks (the regression-EM of Wang et al.
    2018; Fisher scoring maximises the same likelihood faster).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import DivergenceError, OverlapError, ParameterError, SchemaError
from rankine.core.stores import read_bytes
from rankine.kernels.random import numpy_generator
from rankine.logs.clicks import ClickLog, encode, read_clicks, sum_by
from rankine.transforms.clicks import row_positions

__all__ = ["Propensity", "estimate_propensity"]

_METHODS = ("randomised", "harvest", "em")
#: Maximum change of a logit in a step of regression-EM: 0.01 becomes 0.07, 0.5 becomes 0.88.
_MAX_LOGIT_STEP = 2.0
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _PropensityFile(msgspec.Struct):
    """The file: only ``propensity`` is required, so that a list can be written by hand."""

    propensity: list[float]
    low: list[float] = []
    high: list[float] = []
    method: str = "given"
    pairs: int = 0
    rows: list[int] = []
    clicks: list[int] = []
    unit: str = "query"
    n_units: int = 0
    confidence: float = 0.95
    n_resamples: int = 0
    context: str = ""
    contexts: dict[str, _PropensityFile] = {}


@dataclass(frozen=True, eq=False)
class Propensity(Sequence[float]):
    """Examination probability by position, relative to position 1; a sequence of numbers.

    Attributes
    ----------
    values, low, high
        Estimate and bootstrap interval by position; the last applies to all later positions.
    method
        ``"randomised"``, ``"harvest"`` or ``"em"``.
    pairs
        Number of groups that the estimate is based on: search-item pairs shown at several positions
        and clicked (harvest), items or different feature rows (em), lists (randomised).
    rows, clicks
        Impressions and clicks at each position that the estimate is based on.
    unit, n_units
        What the bootstrap draws (``"search"`` or ``"query"``), and how many there are.
    confidence, n_resamples
        Confidence level of the intervals, and number of bootstrap resamples.
    context, contexts
        The context column, and an estimate for each of its values. Rankers that are trained with
        these weight each click by the estimate for the context of its row.
    """

    values: Floats
    low: Floats
    high: Floats
    method: str
    pairs: int
    rows: Ints
    clicks: Ints
    unit: str
    n_units: int
    confidence: float
    n_resamples: int
    context: str = ""
    contexts: Mapping[str, Propensity] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.array(self.values, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values, as ``--json`` prints and ``save`` writes them."""
        fields = {"propensity": self.values, **vars(self)}
        del fields["values"]
        if self.contexts:
            fields["contexts"] = {name: part.to_dict() for name, part in self.contexts.items()}
        else:
            del fields["context"], fields["contexts"]
        return msgspec.to_builtins(fields, enc_hook=lambda array: array.tolist())

    def save(self, path: str | Path) -> None:
        """Write a JSON file that ``Propensity.load`` and ``rankine train --propensity`` read."""
        from rankine.core.atomic import atomic_file

        with atomic_file(path) as file:
            file.write(msgspec.json.format(msgspec.json.encode(self.to_dict())) + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> Propensity:
        """Read a file that ``save`` wrote."""
        try:
            return _from_file(msgspec.json.decode(read_bytes(path), type=_PropensityFile))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SchemaError(
                f"not a file of propensities: {error}",
                file=str(path),
                fix="Write one with Propensity.save or rankine clicks propensity --out",
            ) from error

    def __repr__(self) -> str:
        values = ", ".join(f"{value:.3f}" for value in self.values)
        return f"Propensity([{values}], method={self.method!r}, pairs={self.pairs})"


def estimate_propensity(
    log: Any,
    *,
    method: str | None = None,
    query: str = "session",
    label: str = "clicked",
    position: str = "position",
    item: str | None = None,
    search: str | None = None,
    features: Sequence[str] = (),
    context: str | None = None,
    max_position: int = 50,
    min_rows: int = 100,
    falling: bool = True,
    confidence: float = 0.95,
    n_resamples: int = 200,
    random_state: int = 0,
) -> Propensity:
    """Estimate the examination probability by position, relative to position 1.

    Parameters
    ----------
    log
        Any log that ``read_clicks`` reads: files, tables, mappings of arrays, datasets ...
    method
        ``"randomised"`` (lists in random order), ``"harvest"`` (the same item shown at several
        positions) or ``"em"`` (a model of relevance). None is ``"harvest"`` if ``item`` is named
        and an error otherwise, since a log does not show whether its order was random.
    query, label, position, item, search
        Columns, as for ``read_clicks``. Without ``search`` an item is assumed to be wanted equally
        in every list.
    features
        Columns of the relevance model of ``"em"``; without them it has one number per item.
    context
        Column such as the device; an estimate for each of its values is added.
    max_position
        Last position to estimate; later positions are counted as this one.
    min_rows
        Minimum number of impressions at a position. The estimate ends before the first position
        with fewer.
    falling
        Assume that users examine a lower position at most as often as a higher one, and pool
        estimates that contradict it (isotonic regression). Use False for grids and carousels.
    confidence, n_resamples, random_state
        Settings of the bootstrap over searches (over lists without ``search``); 0 resamples give
        no intervals.

    Returns
    -------
    Propensity
        Values with intervals, and the amount of data behind them.

    Raises
    ------
    OverlapError
        If no search-item pair (no item, for ``"em"``) connects two positions, or a position has no
        clicks.

    Examples
    --------
    >>> from rankine.logs.simulation import simulate
    >>> log = simulate(20_000, exploration=0.5, random_state=0)
    >>> propensity = estimate_propensity(log, item="item", search="search", n_resamples=0)
    >>> bool(abs(propensity.values - log.propensity).max() < 0.1)
    True
    """
    if method is None:
        if item is None:
            raise ParameterError(
                "the default method, harvest, needs an item column",
                parameter="method",
                fix="Pass the item column, or choose 'randomised' if lists were in random order",
            )
        method = "harvest"
    _check_arguments(method, item, features, max_position, min_rows, confidence, n_resamples)
    columns = tuple(features)
    if context is not None:
        columns = (*columns, context)
    clicks = read_clicks(
        log, query=query, label=label, position=position, item=item, search=search, columns=columns
    )
    settings = (method, tuple(features), max_position, min_rows, falling, confidence, n_resamples)
    overall = _estimate(clicks, *settings, random_state)
    if context is None:
        return overall
    codes, names = encode(clicks.columns[context], context)
    parts = {}
    for code, name in enumerate(names.tolist()):
        try:
            part = clicks.take(np.flatnonzero(codes == code))
            parts[str(name)] = _estimate(part, *settings, random_state)
        except (OverlapError, SchemaError) as error:
            raise type(error)(
                f"{context} = {name}: {error.reason}", parameter=error.parameter, fix=error.fix
            ) from error
    return replace(overall, context=context, contexts=parts)


def _check_arguments(
    method: str,
    item: str | None,
    features: Sequence[str],
    max_position: int,
    min_rows: int,
    confidence: float,
    n_resamples: int,
) -> None:
    if method not in _METHODS:
        raise ParameterError(
            f"{method!r} is unknown", parameter="method", fix=f"Use {', '.join(_METHODS)}"
        )
    reject_sets(features=features)
    for name, unused, better_method in (
        ("features", features and method != "em", "em"),
        ("item", item and method == "randomised", "harvest"),
    ):
        if unused:
            raise ParameterError(
                f"method {method!r} does not use it",
                parameter=name,
                fix=f"Leave it out, or set method to {better_method!r}",
            )
    for name, valid, default in (
        ("max_position", max_position >= 1, 50),
        ("min_rows", min_rows >= 1, 100),
        ("n_resamples", n_resamples >= 0, 200),
        ("confidence", 0 < confidence < 1, 0.95),
    ):
        if not valid:
            raise ParameterError(
                "is out of range", parameter=name, fix=f"Use for example {default}"
            )


@dataclass(frozen=True)
class _Cells:
    """Impressions and clicks, counted by unit of the bootstrap, group and position (from 0)."""

    unit: Ints
    group: Ints
    position: Ints
    impressions: Floats
    clicks: Floats
    n_positions: int
    n_groups: int
    n_units: int

    def by_group(self, weight: Floats | None) -> tuple[Ints, Ints, Floats, Floats]:
        """Sum by group and position, with each unit counted ``weight`` times.

        Returns group, position, impressions and clicks.
        """
        key = self.group * self.n_positions + self.position
        size = self.n_groups * self.n_positions
        impressions, clicks = self.totals_by(key, size, weight)
        cells = np.flatnonzero(impressions)
        group, position = np.divmod(cells, self.n_positions)
        return group, position, impressions[cells], clicks[cells]

    def totals_by(self, key: Ints, size: int, weight: Floats | None) -> tuple[Floats, Floats]:
        """Sum impressions and clicks of cells by key, with each unit counted ``weight`` times."""
        impressions, clicks = self.impressions, self.clicks
        if weight is not None:
            impressions, clicks = weight[self.unit] * impressions, weight[self.unit] * clicks
        return sum_by(key, impressions, size), sum_by(key, clicks, size)


def _estimate(
    log: ClickLog,
    method: str,
    features: tuple[str, ...],
    max_position: int,
    min_rows: int,
    falling: bool,
    confidence: float,
    n_resamples: int,
    random_state: int,
) -> Propensity:
    positions = row_positions(log)
    max_position = min(max_position, int(positions.max(initial=1)))
    position = np.minimum(positions, max_position) - 1
    enough = np.bincount(position, minlength=max_position) >= min_rows
    n_positions = max_position
    if not enough.all():
        n_positions = int(np.argmin(enough))
    if n_positions == 0:
        raise OverlapError(
            f"position 1 has only {int((position == 0).sum())} rows, and {min_rows} are required",
            parameter="min_rows",
            fix="Use a longer log, or a smaller number",
        )
    inside = position < n_positions
    if not inside.all():
        log, position = log.take(np.flatnonzero(inside)), position[inside]
    group, group_features = _groups(log, method, features)
    cells = _count(log, group, position, n_positions)
    cells, solve = _prepare(cells, method, group_features)
    theta = solve(None, None)
    impressions, clicks = cells.totals_by(cells.position, n_positions, None)
    values = _relative(theta, clicks, falling)
    low = high = values
    if n_resamples:
        # Each resample has a separate generator, so the first ones do not depend on their number.
        draws = np.empty((n_resamples, n_positions))
        for b in range(n_resamples):
            rng = numpy_generator(random_state, b)
            units = rng.integers(0, cells.n_units, cells.n_units)
            weight = np.bincount(units, minlength=cells.n_units).astype(np.float64)
            draws[b] = _relative(solve(weight, theta), clicks, falling)
        tail = (1 - confidence) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    n_pairs = cells.n_groups
    if method == "randomised":
        n_pairs = cells.n_units
    unit = "search"
    if log.search is None:
        unit = "query"
    return Propensity(
        values,
        low,
        high,
        method,
        pairs=n_pairs,
        rows=impressions.astype(np.int64),
        clicks=clicks.astype(np.int64),
        unit=unit,
        n_units=cells.n_units,
        confidence=confidence,
        n_resamples=n_resamples,
    )


def _groups(log: ClickLog, method: str, features: tuple[str, ...]) -> tuple[Ints, Floats | None]:
    """Number the rows that share a relevance, and return the features of each group."""
    if method == "randomised":
        return np.zeros(log.n_rows, dtype=np.int64), None
    if method == "harvest":
        return log.pair, None
    if features:
        X = np.column_stack([np.asarray(log.columns[name], dtype=np.float64) for name in features])
        if not np.isfinite(X).all():
            raise SchemaError(
                "a value is not finite", parameter="features", fix="Fill or drop missing values"
            )
        group, first = _equal_rows(X)
        return group, X[first]
    if log.item is None:
        raise ParameterError(
            "'em' needs features or items",
            parameter="method",
            fix="Set features to the columns of the relevance model, or item to the items' column",
        )
    return log.item, None


def _equal_rows(X: Floats) -> tuple[Ints, Ints]:
    """Number the distinct rows, and find the first row of each."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # -0 becomes 0
    hashes = np.zeros(len(X), dtype=np.uint64)
    for j in range(X.shape[1]):
        hashes = (hashes ^ bits[:, j]) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    group = encode(hashes)[0]
    first = np.full(int(group.max()) + 1, len(X))
    np.minimum.at(first, group, np.arange(len(X)))
    if (X[first][group] == X).all():
        return group, first
    # Two different rows have the same hash (practically never): treat every row as a group.
    return np.arange(len(X)), np.arange(len(X))


def _count(log: ClickLog, group: Ints, position: Ints, n_positions: int) -> _Cells:
    # The bootstrap draws whole searches: the lists of one search are not independent.
    units = log.search
    if units is None:
        units = log.lists
    unit = encode(units)[0]
    group = encode(group)[0]
    n_groups = int(group.max()) + 1
    cell, key = encode((unit * n_groups + group) * n_positions + position)
    key = key.astype(np.int64)
    return _Cells(
        unit=key // n_positions // n_groups,
        group=key // n_positions % n_groups,
        position=key % n_positions,
        impressions=np.bincount(cell).astype(np.float64),
        clicks=sum_by(cell, log.clicked),
        n_positions=n_positions,
        n_groups=n_groups,
        n_units=int(unit.max()) + 1,
    )


def _relative(rate: Floats, clicks: Floats, falling: bool) -> Floats:
    """Divide rates by the first one, after isotonic regression if ``falling``."""
    if falling:
        # Weighted by clicks, because rates of positions with few clicks are the least certain.
        from scipy.optimize import isotonic_regression

        rate = isotonic_regression(rate, weights=np.maximum(clicks, 1), increasing=False).x
    with np.errstate(divide="ignore", invalid="ignore"):
        return rate / rate[0]


Solver = Callable[[Floats | None, Floats | None], Floats]


def _prepare(cells: _Cells, method: str, group_features: Floats | None) -> tuple[_Cells, Solver]:
    """Return the cells that a method uses, and its solver.

    The solver computes theta from weights of the units (None: 1 each) and a start for theta.
    """
    if method == "harvest":
        connecting = _connecting(cells)
        _check_connected(connecting, "search-item pair")
        return connecting, lambda weight, start: _harvest(connecting, weight, start)
    if method == "em" and group_features is None:
        _check_connected(cells, "item")
    else:
        _check_clicks(cells)
    if method == "em":
        return cells, lambda weight, start: _regression_em(cells, group_features, weight, start)
    return cells, lambda weight, _: _click_rates(cells, weight)


def _connecting(cells: _Cells) -> _Cells:
    """Select the cells of groups that were clicked, and shown at two positions or more."""
    group, _, _, clicks = cells.by_group(None)
    n_positions = np.bincount(group, minlength=cells.n_groups)
    group_clicks = sum_by(group, clicks, cells.n_groups)
    selected = np.flatnonzero(((n_positions > 1) & (group_clicks > 0))[cells.group])
    if len(selected) == 0:
        raise OverlapError(
            "no search-item pair was shown at two positions and clicked",
            parameter="method",
            fix="Log some randomised lists, or set method to 'em'",
        )
    group = encode(cells.group[selected])[0]
    return replace(
        cells,
        unit=cells.unit[selected],
        group=group,
        position=cells.position[selected],
        impressions=cells.impressions[selected],
        clicks=cells.clicks[selected],
        n_groups=int(group.max()) + 1,
    )


def _check_clicks(cells: _Cells) -> None:
    """Raise if a position has no clicks."""
    clicks = sum_by(cells.position, cells.clicks, cells.n_positions)
    if not clicks.all():
        raise OverlapError(
            f"position {int(np.argmin(clicks)) + 1} has 0 clicks",
            parameter="max_position",
            fix="Use a longer log, or a smaller number",
        )


def _check_connected(cells: _Cells, what: str) -> None:
    """Raise unless the graph of positions is connected, so that the likelihood has one maximum.

    An edge goes from k to j where a group that was clicked at k was also shown at j (the condition
    of Ford 1957 for Bradley-Terry models).
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    group, position, _, clicks = cells.by_group(None)
    shape = (cells.n_groups, cells.n_positions)
    shown_at = sparse.csr_array((np.ones(len(group)), (group, position)), shape=shape)
    clicked_at = sparse.csr_array(((clicks > 0).astype(float), (group, position)), shape=shape)
    edges = (clicked_at.T @ shown_at) > 0
    n_components, component = connected_components(edges, connection="weak")
    if n_components > 1:
        first = (np.flatnonzero(component == component[0]) + 1).tolist()
        separate = (np.flatnonzero(component != component[0]) + 1).tolist()
        raise OverlapError(
            f"no {what} with a click was shown both at {_list_positions(first)} and at "
            f"{_list_positions(separate)}",
            parameter="method",
            fix="Log lists whose order changes more, set max_position to a smaller number, or set "
            "method to 'em' and name features",
        )
    if connected_components(edges, connection="strong")[0] > 1:
        clicks_at = sum_by(position, clicks, cells.n_positions)
        raise OverlapError(
            "clicks are too few to connect the positions "
            f"(position {int(np.argmin(clicks_at)) + 1} has {int(clicks_at.min())} "
            f"on a {what} that was also shown at another position)",
            parameter="max_position",
            fix="Use a longer log, or a smaller number",
        )


def _list_positions(positions: list[int]) -> str:
    if len(positions) == 1:
        return f"position {positions[0]}"
    parts = [*map(str, positions[:6])]
    if len(positions) > 6:
        parts.append("...")
    return f"positions {', '.join(parts)}"


def _click_rates(cells: _Cells, weight: Floats | None) -> Floats:
    impressions, clicks = cells.totals_by(cells.position, cells.n_positions, weight)
    return clicks / np.maximum(impressions, 1)


def _harvest(cells: _Cells, weight: Floats | None, start: Floats | None) -> Floats:
    """Maximise the likelihood, concave in log theta (theta_1 = 1), by damped Newton steps."""
    from scipy import sparse

    group, position, impressions, clicks = cells.by_group(weight)
    count = cells.n_positions
    clicks_at = sum_by(position, clicks, count)
    clicks_of = sum_by(group, clicks, cells.n_groups)
    if start is None:
        start = _click_rates(cells, None)
    # The likelihood depends only on ratios of theta, so theta_1 stays 1 and only the others move.
    log_theta = np.log(start)
    log_theta -= log_theta[0]

    def value(log_theta: Floats) -> tuple[float, Floats]:
        """Return the loss, and the share of each cell in the expected clicks of its group."""
        expected = impressions * np.exp(log_theta[position])
        sums = sum_by(group, expected, cells.n_groups)
        is_clicked = clicks_of > 0
        loss = clicks_of[is_clicked] @ np.log(sums[is_clicked]) - clicks_at @ log_theta
        return float(loss), expected / sums[group]

    loss, share = value(log_theta)
    for _ in range(100):
        flow = clicks_of[group] * share
        gradient = (sum_by(position, flow, count) - clicks_at)[1:]
        if np.abs(gradient).max(initial=0.0) <= 1e-9 * clicks_of.sum():
            return np.exp(log_theta)
        shares = sparse.csr_array((share, (group, position)), shape=(cells.n_groups, count))
        flows = sparse.csr_array((flow, (group, position)), shape=(cells.n_groups, count))
        # The Hessian of sum_i C_i log sum_k n_ik theta_k: covariances of the clicked positions.
        hessian = np.diag(sum_by(position, flow, count))
        hessian = (hessian - (shares.T @ flows).toarray())[1:, 1:]
        # The Hessian of a resample may be singular.
        hessian[np.diag_indices_from(hessian)] += 1e-12 * clicks_of.sum()
        # Far from the maximum an unlimited step may overflow in exp.
        step = np.r_[0.0, np.clip(np.linalg.solve(hessian, -gradient), -5, 5)]
        slope = float(gradient @ step[1:])
        # Halve the step until the loss decreases enough (Armijo); the last term allows rounding.
        length = 1.0
        while True:
            trial, trial_share = value(log_theta + length * step)
            if trial <= loss + 1e-4 * length * slope + 1e-12 * abs(loss):
                break
            length /= 2
        log_theta, loss, share = log_theta + length * step, trial, trial_share
    # A resample without clicks at some position has no maximum: return its last iterate.
    if weight is None:
        raise DivergenceError(
            "the propensities did not converge in 100 Newton steps",
            fix="Please report this as a bug, with a part of the log",
        )
    return np.exp(log_theta)


def _regression_em(
    cells: _Cells, group_features: Floats | None, weight: Floats | None, start: Floats | None
) -> Floats:
    """Maximise sum c log(theta gamma) + (n - c) log(1 - theta gamma), with a small penalty.

    theta_k = sigmoid(t_k), theta_1 = 1; gamma = sigmoid(b + a_i) with one a_i per group, or
    sigmoid(b + w.x) of standardised features. Fisher scoring with step halving: the information is
    dense for t, b and w, and diagonal for the a_i, which are eliminated.
    """
    from scipy import sparse
    from scipy.special import expit, logit

    group, position, impressions, clicks = cells.by_group(weight)
    skips = impressions - clicks
    count, n_groups = cells.n_positions, cells.n_groups
    design, n_items = np.ones((n_groups, 1)), n_groups
    if group_features is not None:
        n_items = 0
        spread = group_features.std(axis=0)
        centred = group_features - group_features.mean(axis=0)
        design = np.column_stack([design, centred / np.where(spread > 0, spread, 1.0)])
    # No penalty on positions and the intercept, a small one on features, a larger one on items,
    # whose parameters would be infinite where all or none of the few impressions are clicked.
    ridge = np.r_[np.zeros(count), np.full(design.shape[1] - 1, 1e-3), np.full(n_items, 0.1)]
    rates = _click_rates(cells, None)
    if start is None:
        start = rates / rates.max()
    # x holds t_2 .. t_count, then b and w, then the a_i.
    x = np.zeros(len(ridge))
    x[: count - 1] = logit(np.clip(start[1:], 0.01, 0.95))
    x[count - 1] = logit(np.clip(rates[0], 0.01, 0.99))
    n_dense = count - 1 + design.shape[1]

    def value(x: Floats) -> tuple[float, Floats, Floats, Floats]:
        """Return the loss, theta, gamma, and the click probability of each cell."""
        theta = np.r_[1.0, expit(x[: count - 1])]
        logits = design @ x[count - 1 : n_dense]
        if n_items:
            logits = logits + x[n_dense:]
        gamma = expit(logits)
        # Clipped, so that no logarithm is infinite.
        chance = np.clip(theta[position] * gamma[group], 1e-300, 1 - 1e-12)
        fit = clicks @ np.log(chance) + skips @ np.log1p(-chance)
        return float(ridge @ (x * x) / 2 - fit), theta, gamma, chance

    loss, theta, gamma, chance = value(x)
    for _ in range(200):
        # Derivative of the loss by log theta and by log gamma of each cell.
        slope = skips * chance / (1 - chance) - clicks
        by_group = sum_by(group, slope, n_groups) * (1 - gamma)
        by_position = sum_by(position, slope, count) * (1 - theta)
        parts = [by_position[1:], by_group @ design]
        if n_items:
            parts.append(by_group)
        gradient = np.concatenate(parts) + ridge * x
        information = sparse.csr_array(
            (impressions * chance / (1 - chance), (position, group)), shape=(count, n_groups)
        )
        cross = (information * (1 - theta)[:, None] * (1 - gamma)).tocsr()[1:]
        diagonal = np.asarray(information.sum(axis=0)).ravel() * (1 - gamma) ** 2
        both = cross @ design
        of_theta = np.asarray(information.sum(axis=1)).ravel()[1:] * (1 - theta[1:]) ** 2
        dense = np.block([
            [np.diag(of_theta), both],
            [both.T, design.T @ (diagonal[:, None] * design)],
        ]) + np.diag(ridge[:n_dense])  # fmt: skip
        step = _arrow_solve(dense, cross, diagonal, design, ridge[n_dense:], gradient)
        decrement = float(gradient @ step)
        # The Newton decrement bounds what further steps can gain.
        if decrement <= 1e-9 * max(1.0, abs(loss) * 1e-6):
            return theta
        # A longer step may reach a probability of 1, where every gradient is 0.
        length = min(1.0, _MAX_LOGIT_STEP / np.abs(step).max())
        while True:
            trial = value(x - length * step)
            if trial[0] <= loss - 1e-4 * length * decrement + 1e-13 * abs(loss):
                break
            length /= 2
        x -= length * step
        loss, theta, gamma, chance = trial
    if weight is None:
        raise DivergenceError(
            "EM did not converge in 200 steps", fix="Leave out features that are nearly the same"
        )
    return theta


def _arrow_solve(
    dense: Floats, cross: Any, diagonal: Floats, design: Floats, ridge: Floats, gradient: Floats
) -> Floats:
    """Solve for a step with a dense block and, if each group has a parameter, a diagonal block."""
    n_dense = len(dense)
    if len(ridge) == 0:
        return np.asarray(np.linalg.solve(_regularise(dense), gradient), dtype=np.float64)
    from scipy import sparse

    edge = sparse.vstack([cross, sparse.csr_array((diagonal[:, None] * design).T)]).tocsr()
    # Schur complement: eliminate the diagonal block, of one entry per group.
    scaled = edge / (diagonal + ridge)
    reduced = dense - (scaled @ edge.T).toarray()
    first = np.linalg.solve(_regularise(reduced), gradient[:n_dense] - scaled @ gradient[n_dense:])
    return np.r_[first, (gradient[n_dense:] - edge.T @ first) / (diagonal + ridge)]


def _regularise(matrix: Floats) -> Floats:
    """Add a little to the diagonal, so that flat directions can be solved."""
    return matrix + np.diag(np.full(len(matrix), 1e-10 * float(np.trace(matrix)) / len(matrix)))


def _from_file(file: _PropensityFile) -> Propensity:
    values = np.asarray(file.propensity, dtype=np.float64)
    if len(values) == 0 or not ((values > 0) & np.isfinite(values)).all():
        raise SchemaError(
            "propensities must be positive numbers",
            parameter="propensity",
            fix="Estimate them again",
        )
    fields = msgspec.structs.asdict(file)
    del fields["propensity"]
    for name in ("low", "high"):
        fields[name] = np.asarray(fields[name] or values, dtype=np.float64)
    for name in ("rows", "clicks"):
        fields[name] = np.asarray(fields[name], dtype=np.int64)
    fields["contexts"] = {name: _from_file(part) for name, part in file.contexts.items()}
    return Propensity(values, **fields)
