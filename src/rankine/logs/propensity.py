"""Position bias: users look at the top of a list more often than at its end.

A click at position k happens with probability theta_k gamma: looked at k, and wanted. Clicks alone
know theta only relative to the first position, which is what is estimated here (theta_1 = 1):

randomised
    Lists in random order: theta_k is the click rate at k over that at 1.
harvest
    Natural changes of rank: the same search-item pair shown at several positions, by several
    rankers or over time. Pair i was shown n_ik times at position k and clicked c_ik times. Given
    its clicks C_i they fall on the positions like n_ik theta_k, whatever its gamma, so theta
    maximises ``sum_i [sum_k c_ik log theta_k - C_i log sum_k n_ik theta_k]``: all pairs of
    positions at once (the interventional sets of Agarwal et al. 2019). It is concave in log theta.
em
    Neither: gamma is a logistic function of the features, or one number per item, and theta and
    gamma maximise the likelihood of all clicks (the regression-EM of Wang et al. 2018; Fisher
    scoring climbs the same likelihood faster).
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
from rankine.logs.clicks import ClickLog, encode, read_clicks, sum_by

__all__ = ["Propensity", "estimate_propensity"]

_METHODS = ("randomised", "harvest", "em")
#: How far a step of regression-EM moves a logit at most: 0.01 becomes 0.07, 0.5 becomes 0.88.
_MOST_LOGITS = 2.0
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Plain(msgspec.Struct):
    """The file: only ``propensity`` is needed, so that a list can be written by hand."""

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
    contexts: dict[str, _Plain] = {}


@dataclass(frozen=True, eq=False)
class Propensity(Sequence[float]):
    """Chance of being looked at by position, relative to position 1; reads like a list of numbers.

    Attributes
    ----------
    values, low, high
        Estimate and bootstrap interval by position; the last holds for all positions beyond it.
    method
        ``"randomised"``, ``"harvest"`` or ``"em"``.
    pairs
        How many groups the estimate stands on: search-item pairs shown at several positions and
        clicked (harvest), items or different feature rows (em), lists (randomised).
    rows, clicks
        Impressions and clicks by position that it stands on.
    unit, n_units
        What the bootstrap draws (``"search"`` or ``"query"``), and how many there are.
    confidence, n_resamples
        Of the intervals.
    context, contexts
        The context column, and the same by value of it. Rankers that learn with these weigh each
        click by its own context.
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

    def __getitem__(self, place: Any) -> Any:
        return self.values[place]

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.array(self.values, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``--json`` prints it and ``save`` writes it."""
        plain = {"propensity": self.values, **vars(self)}
        del plain["values"]
        if self.contexts:
            plain["contexts"] = {name: part.to_dict() for name, part in self.contexts.items()}
        else:
            del plain["context"], plain["contexts"]
        return msgspec.to_builtins(plain, enc_hook=lambda array: array.tolist())

    def save(self, path: str | Path) -> None:
        """Write a JSON file that ``Propensity.load`` and ``rankine train --propensity`` read."""
        from rankine.core.atomic import atomic_file

        with atomic_file(path) as file:
            file.write(msgspec.json.format(msgspec.json.encode(self.to_dict())) + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> Propensity:
        """Read what ``save`` wrote."""
        try:
            return _from_plain(msgspec.json.decode(Path(path).read_bytes(), type=_Plain))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SchemaError(
                f"not a file of propensities: {error}",
                file=str(path),
                fix="Write it with rankine clicks propensity --out",
            ) from error

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.3f}" for value in self.values)
        return f"Propensity([{shown}], method={self.method!r}, pairs={self.pairs})"


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
    """Chance of being looked at, by position, relative to position 1.

    Parameters
    ----------
    log
        Whatever ``read_clicks`` reads: files, tables, mappings of arrays, datasets, simulations.
    method
        ``"randomised"``, ``"harvest"`` or ``"em"``, as above; None harvests where ``item`` is
        named and otherwise asks you to choose, since nothing in a log tells that its order was
        random.
    query, label, position, item, search
        Columns, as for ``read_clicks``. Without ``search`` an item is taken to be wanted equally in
        every list. Of a ``Dataset`` the query, label, position and docid are used.
    features
        Columns of the relevance model of ``"em"``; without them it has one number per item.
    context
        Column (a device, say): an estimate for each of its values too.
    max_position
        Positions beyond it count as this one.
    min_rows
        Impressions that a position needs; the first with fewer ends the estimate.
    falling
        Users look at a lower position no more than at a higher one: pool estimates that say
        otherwise (isotonic regression). False keeps them, for grids and carousels.
    confidence, n_resamples, random_state
        Of the bootstrap over searches (over lists, without ``search``); 0 resamples give none.

    Returns
    -------
    Propensity
        Values with intervals, and how much they stand on.

    Raises
    ------
    OverlapError
        Positions that no search-item pair (no item, for ``"em"``) connects, or without clicks.

    Examples
    --------
    >>> from rankine.logs.simulation import simulate
    >>> log = simulate(20_000, exploration=0.5, random_state=0)
    >>> found = estimate_propensity(log, item="item", search="search", n_resamples=0)
    >>> bool(abs(found.values - log.propensity).max() < 0.1)
    True
    """
    if method is None and item is None:
        raise ParameterError(
            "no method was chosen, and the log's items are not named",
            fix="Name the item column to harvest changes of rank, or say method='randomised' "
            "when the lists were in random order",
        )
    method = method or "harvest"
    if method not in _METHODS:
        raise ParameterError(f"method={method!r} is unknown", fix=f"Use {', '.join(_METHODS)}")
    for name, given, other in (
        ("features", features and method != "em", "em"),
        ("item", item and method == "randomised", "harvest"),
    ):
        if given:
            raise ParameterError(
                f"method={method!r} has no use for {name}",
                fix=f"Leave it out, or say method={other!r}",
            )
    if max_position < 1 or min_rows < 1 or n_resamples < 0 or not 0 < confidence < 1:
        raise ParameterError(
            "max_position and min_rows are positive, n_resamples is not negative and confidence "
            "lies in (0, 1)",
            fix="Use max_position=50, min_rows=100, n_resamples=200, confidence=0.95",
        )
    reject_sets(features=features)
    wanted = (*features, *(() if context is None else (context,)))
    clicks = read_clicks(
        log, query=query, label=label, position=position, item=item, search=search, columns=wanted
    )

    def estimate(part: ClickLog) -> Propensity:
        given = (method, tuple(features), max_position, min_rows, falling, confidence)
        return _estimate(part, *given, n_resamples, random_state)

    whole = estimate(clicks)
    if context is None:
        return whole
    codes, names = encode(clicks.columns[context], context)
    parts = {}
    for code, name in enumerate(names.tolist()):
        try:
            parts[str(name)] = estimate(clicks.take(np.flatnonzero(codes == code)))
        except (OverlapError, SchemaError) as error:
            raise type(error)(f"{context} = {name}: {error.reason}", fix=error.fix) from error
    return replace(whole, context=context, contexts=parts)


@dataclass(frozen=True)
class _Cells:
    """Impressions and clicks, counted by unit of the bootstrap, group and position (from 0)."""

    unit: Ints
    group: Ints
    place: Ints
    shown: Floats
    clicked: Floats
    n_positions: int
    n_groups: int
    n_units: int

    def by_group(self, weight: Floats | None) -> tuple[Ints, Ints, Floats, Floats]:
        """Group, position, impressions and clicks with each unit counted ``weight`` times."""
        key = self.group * self.n_positions + self.place
        size = self.n_groups * self.n_positions
        times = 1.0 if weight is None else weight[self.unit]
        shown = sum_by(key, times * self.shown, size)
        clicked = sum_by(key, times * self.clicked, size)
        kept = np.flatnonzero(shown)
        return kept // self.n_positions, kept % self.n_positions, shown[kept], clicked[kept]


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
    place = np.minimum(log.required_positions(), max_position) - 1
    enough = np.bincount(place, minlength=max_position) >= min_rows
    count = max_position if enough.all() else int(np.argmin(enough))
    if count == 0:
        raise OverlapError(
            f"position 1 has {int((place == 0).sum())} rows, fewer than min_rows={min_rows}",
            fix="Give a longer log, or lower min_rows",
        )
    inside = place < count
    if not inside.all():
        log, place = log.take(np.flatnonzero(inside)), place[inside]
    group, table = _groups(log, method, features)
    cells = _count(log, group, place, count)
    cells, solve = _prepare(cells, method, table)
    raw = solve(None, None)
    seen = sum_by(cells.place, cells.shown, count)
    clicks = sum_by(cells.place, cells.clicked, count)
    values = _relative(raw, clicks, falling)
    draws = np.empty((n_resamples, count))
    for b in range(n_resamples):
        rng = np.random.default_rng([random_state, b])
        weight = np.bincount(rng.integers(0, cells.n_units, cells.n_units), minlength=cells.n_units)
        draws[b] = _relative(solve(weight.astype(np.float64), raw), clicks, falling)
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0) if n_resamples else (values, values)
    pairs = cells.n_groups if method != "randomised" else cells.n_units
    unit = "query" if log.search is None else "search"
    return Propensity(
        values, low, high, method, pairs, seen.astype(np.int64), clicks.astype(np.int64), unit,
        cells.n_units, confidence, n_resamples,
    )  # fmt: skip


def _groups(log: ClickLog, method: str, features: tuple[str, ...]) -> tuple[Ints, Floats | None]:
    """Rows that share a relevance, numbered, and the features of each group."""
    if method == "randomised":
        return np.zeros(log.n_rows, dtype=np.int64), None
    if method == "harvest":
        return log.pair, None
    if features:
        X = np.column_stack([np.asarray(log.columns[name], dtype=np.float64) for name in features])
        if not np.isfinite(X).all():
            raise SchemaError("a feature is not finite", fix="Fill or drop missing values")
        group, first = _equal_rows(X)
        return group, X[first]
    if log.item is None:
        raise ParameterError("'em' needs features or items", fix="Name features= or item=")
    return log.item, None


def _equal_rows(X: Floats) -> tuple[Ints, Ints]:
    """Numbers of the distinct rows, and where each stands first."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)
    mixed = np.zeros(len(X), dtype=np.uint64)
    for j in range(X.shape[1]):
        mixed = (mixed ^ bits[:, j]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    group = encode(mixed)[0]
    first = np.full(int(group.max()) + 1, len(X))
    np.minimum.at(first, group, np.arange(len(X)))
    if (X[first][group] == X).all():
        return group, first
    return np.arange(len(X)), np.arange(len(X))  # two different rows share a number: count each


def _count(log: ClickLog, group: Ints, place: Ints, count: int) -> _Cells:
    unit = log.lists if log.search is None else log.search
    unit = encode(unit)[0]
    group = encode(group)[0]
    n_groups = int(group.max()) + 1
    key, values = encode((unit * n_groups + group) * count + place)
    shown = np.bincount(key).astype(np.float64)
    clicked = sum_by(key, log.clicked)
    values = values.astype(np.int64)
    return _Cells(
        values // count // n_groups, values // count % n_groups, values % count, shown, clicked,
        count, n_groups, int(unit.max()) + 1,
    )  # fmt: skip


def _relative(rate: Floats, clicks: Floats, falling: bool) -> Floats:
    """Rates relative to the first position, never rising where asked."""
    if falling:
        from scipy.optimize import isotonic_regression

        rate = isotonic_regression(rate, weights=np.maximum(clicks, 1), increasing=False).x
    with np.errstate(divide="ignore", invalid="ignore"):
        return rate / rate[0]


Solver = Callable[[Floats | None, Floats | None], Floats]


def _prepare(cells: _Cells, method: str, table: Floats | None) -> tuple[_Cells, Solver]:
    """What an estimate stands on, and theta as a function of unit weights and a start."""
    if method == "harvest":
        kept = _connecting(cells)
        _refuse_unconnected(kept, "search-item pair")
        return kept, lambda weight, start: _harvest(kept, weight, start)
    if method == "em" and table is None:
        _refuse_unconnected(cells, "item")
    else:
        _refuse_without_clicks(cells)
    if method == "em":
        return cells, lambda weight, start: _regression_em(cells, table, weight, start)
    return cells, lambda weight, _: _click_rates(cells, weight)


def _connecting(cells: _Cells) -> _Cells:
    """The cells of groups that were clicked, and shown at two positions or more."""
    group, _, _, clicked = cells.by_group(None)
    places = np.bincount(group, minlength=cells.n_groups)
    clicks = sum_by(group, clicked, cells.n_groups)
    kept = np.flatnonzero(((places > 1) & (clicks > 0))[cells.group])
    if len(kept) == 0:
        raise OverlapError(
            "no search-item pair was shown at two positions and clicked",
            fix="Log some randomised lists, or estimate with method='em'",
        )
    number = encode(cells.group[kept])[0]
    return _Cells(
        cells.unit[kept], number, cells.place[kept], cells.shown[kept], cells.clicked[kept],
        cells.n_positions, int(number.max()) + 1, cells.n_units,
    )  # fmt: skip


def _refuse_without_clicks(cells: _Cells) -> None:
    clicks = sum_by(cells.place, cells.clicked, cells.n_positions)
    if not clicks.all():
        raise OverlapError(
            f"position {int(np.argmin(clicks)) + 1} has 0 clicks",
            fix="Give a longer log, or a smaller max_position",
        )


def _refuse_unconnected(cells: _Cells, what: str) -> None:
    """The likelihood has one finite maximum exactly when its graph of positions is connected.

    An edge goes from k to j where a group that was clicked at k was also shown at j (the condition
    of Ford 1957 for Bradley-Terry models).
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    group, place, _, clicked = cells.by_group(None)
    shape = (cells.n_groups, cells.n_positions)
    at = sparse.csr_array((np.ones(len(group)), (group, place)), shape=shape)
    hit = sparse.csr_array(((clicked > 0).astype(float), (group, place)), shape=shape)
    edges = (hit.T @ at) > 0
    parts, part = connected_components(edges, connection="weak")
    if parts > 1:
        first = (np.flatnonzero(part == part[0]) + 1).tolist()
        others = (np.flatnonzero(part != part[0]) + 1).tolist()
        raise OverlapError(
            f"no {what} with a click was shown both at {_listed(first)} and at {_listed(others)}",
            fix="Log lists whose order changes more, lower max_position, or name features for "
            "method='em'",
        )
    if connected_components(edges, connection="strong")[0] > 1:
        heard = sum_by(place, clicked, cells.n_positions)
        raise OverlapError(
            f"clicks are too few to connect the positions (position {int(np.argmin(heard)) + 1} "
            f"has {int(heard.min())} on a {what} that was shown elsewhere too)",
            fix="Give a longer log, or a smaller max_position",
        )


def _listed(positions: list[int]) -> str:
    shown = ", ".join(map(str, positions[:6])) + (", ..." if len(positions) > 6 else "")
    return f"position{'s' if len(positions) > 1 else ''} {shown}"


def _click_rates(cells: _Cells, weight: Floats | None) -> Floats:
    times = 1.0 if weight is None else weight[cells.unit]
    shown = sum_by(cells.place, times * cells.shown, cells.n_positions)
    clicked = sum_by(cells.place, times * cells.clicked, cells.n_positions)
    return clicked / np.maximum(shown, 1)


def _harvest(cells: _Cells, weight: Floats | None, start: Floats | None) -> Floats:
    """Newton's method with step halving on the concave likelihood in log theta, theta_1 = 1."""
    from scipy import sparse

    group, place, shown, clicked = cells.by_group(weight)
    count = cells.n_positions
    heard = sum_by(place, clicked, count)
    total = sum_by(group, clicked, cells.n_groups)
    log_theta = np.log(_click_rates(cells, None) if start is None else start)
    log_theta -= log_theta[0]

    def value(log_theta: Floats) -> tuple[float, Floats]:
        expected = shown * np.exp(log_theta[place])
        sums = sum_by(group, expected, cells.n_groups)
        live = total > 0
        loss = total[live] @ np.log(sums[live]) - heard @ log_theta
        return float(loss), expected / sums[group]

    loss, share = value(log_theta)
    for _ in range(100):
        flow = total[group] * share
        gradient = (sum_by(place, flow, count) - heard)[1:]
        if np.abs(gradient).max(initial=0.0) <= 1e-9 * total.sum():
            return np.exp(log_theta)
        shares = sparse.csr_array((share, (group, place)), shape=(cells.n_groups, count))
        flows = sparse.csr_array((flow, (group, place)), shape=(cells.n_groups, count))
        curve = np.diag(sum_by(place, flow, count))
        curve = (curve - (shares.T @ flows).toarray())[1:, 1:]
        curve[np.diag_indices_from(curve)] += 1e-12 * total.sum()
        step = np.r_[0.0, np.clip(np.linalg.solve(curve, -gradient), -5, 5)]
        slope = float(gradient @ step[1:])
        length = 1.0
        while True:
            trial, trial_share = value(log_theta + length * step)
            if trial <= loss + 1e-4 * length * slope + 1e-12 * abs(loss):
                break
            length /= 2
        log_theta, loss, share = log_theta + length * step, trial, trial_share
    if weight is None:
        raise DivergenceError(
            "the propensities did not settle in 100 Newton steps", fix="Report this log, please"
        )
    return np.exp(log_theta)  # a resample that lacks the clicks of a position


def _regression_em(
    cells: _Cells, table: Floats | None, weight: Floats | None, start: Floats | None
) -> Floats:
    """Maximum of sum c log(theta gamma) + (n - c) log(1 - theta gamma), lightly penalised.

    theta_k = sigmoid(t_k), theta_1 = 1; gamma = sigmoid(b + a_i) with one a_i per group, or
    sigmoid(b + w.x) of standardised features. Fisher scoring with step halving: the information is
    dense for t, b and w, and diagonal for the a_i, which are eliminated.
    """
    from scipy import sparse
    from scipy.special import expit, logit

    group, place, shown, clicked = cells.by_group(weight)
    missed = shown - clicked
    count, groups = cells.n_positions, cells.n_groups
    design = np.ones((groups, 1))
    if table is not None:
        spread = table.std(axis=0)
        scaled = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        design = np.column_stack([design, scaled])
    n_items = groups if table is None else 0
    ridge = np.r_[np.zeros(count), np.full(design.shape[1] - 1, 1e-3), np.full(n_items, 0.1)]
    rates = _click_rates(cells, None)
    theta = (rates / rates.max() if start is None else start)[1:]
    x = np.zeros(len(ridge))
    x[: count - 1] = logit(np.clip(theta, 0.01, 0.95))
    x[count - 1] = logit(np.clip(rates[0], 0.01, 0.99))
    inner = count - 1 + design.shape[1]

    def value(x: Floats) -> tuple[float, Floats, Floats, Floats]:
        theta = np.r_[1.0, expit(x[: count - 1])]
        raw = design @ x[count - 1 : inner]
        gamma = expit(raw + x[inner:] if n_items else raw)
        chance = np.clip(theta[place] * gamma[group], 1e-300, 1 - 1e-12)
        fit = clicked @ np.log(chance) + missed @ np.log1p(-chance)
        return float(ridge @ (x * x) / 2 - fit), theta, gamma, chance

    loss, theta, gamma, chance = value(x)
    for _ in range(200):
        pull = missed * chance / (1 - chance) - clicked
        by_group = sum_by(group, pull, groups) * (1 - gamma)
        by_place = sum_by(place, pull, count) * (1 - theta)
        parts = [by_place[1:], by_group @ design, *([by_group] if n_items else [])]
        gradient = np.concatenate(parts) + ridge * x
        heat = sparse.csr_array(
            (shown * chance / (1 - chance), (place, group)), shape=(count, groups)
        )
        cross = (heat * (1 - theta)[:, None] * (1 - gamma)).tocsr()[1:]
        own = np.asarray(heat.sum(axis=0)).ravel() * (1 - gamma) ** 2
        both = cross @ design
        dense = np.block([
            [np.diag(np.asarray(heat.sum(axis=1)).ravel()[1:] * (1 - theta[1:]) ** 2), both],
            [both.T, design.T @ (own[:, None] * design)],
        ]) + np.diag(ridge[:inner])  # fmt: skip
        step = _arrow_solve(dense, cross, own, design, ridge[inner:], gradient)
        decrement = float(gradient @ step)
        if decrement <= 1e-9 * max(1.0, abs(loss) * 1e-6):
            return theta
        # A longer step may end where a chance is 1, which no slope leads away from.
        length = min(1.0, _MOST_LOGITS / np.abs(step).max())
        while True:
            trial = value(x - length * step)
            if trial[0] <= loss - 1e-4 * length * decrement + 1e-13 * abs(loss):
                break
            length /= 2
        x -= length * step
        loss, theta, gamma, chance = trial
    if weight is None:
        raise DivergenceError(
            "the likelihood was not climbed to its top in 200 steps",
            fix="Leave out features that are nearly the same",
        )
    return theta


def _arrow_solve(
    dense: Floats, cross: Any, own: Floats, design: Floats, ridge: Floats, gradient: Floats
) -> Floats:
    """Solve with a dense block and, where each group has its own parameter, a diagonal one."""
    inner = len(dense)
    if len(ridge) == 0:
        return np.asarray(np.linalg.solve(_lifted(dense), gradient), dtype=np.float64)
    from scipy import sparse

    edge = sparse.vstack([cross, sparse.csr_array((own[:, None] * design).T)]).tocsr()
    small = edge / (own + ridge)
    reduced = dense - (small @ edge.T).toarray()
    first = np.linalg.solve(_lifted(reduced), gradient[:inner] - small @ gradient[inner:])
    return np.r_[first, (gradient[inner:] - edge.T @ first) / (own + ridge)]


def _lifted(matrix: Floats) -> Floats:
    """A matrix whose flat directions stay solvable."""
    return matrix + np.diag(np.full(len(matrix), 1e-10 * float(np.trace(matrix)) / len(matrix)))


def _from_plain(plain: _Plain) -> Propensity:
    values = np.asarray(plain.propensity, dtype=np.float64)
    if len(values) == 0 or not ((values > 0) & np.isfinite(values)).all():
        raise SchemaError("propensities are positive numbers", fix="Estimate them again")
    given = msgspec.structs.asdict(plain)
    del given["propensity"]
    for name in ("low", "high"):
        given[name] = np.asarray(given[name] or values, dtype=np.float64)
    for name in ("rows", "clicks"):
        given[name] = np.asarray(given[name], dtype=np.int64)
    given["contexts"] = {name: _from_plain(part) for name, part in plain.contexts.items()}
    return Propensity(values, **given)
