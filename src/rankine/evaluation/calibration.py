"""Fit the probability of an outcome, such as a click, to the scores of a model.

An outcome at position k of a list happens with probability theta_k g(s - m), m the mean score of
the list: the item is examined (theta_k) and wanted (g, increasing in the score). Both maximise the
likelihood of a table of score bins and positions, in turns; g is isotonic over the bins and becomes
a strictly increasing curve through the means of its steps (centred isotonic regression, Oron and
Flournoy 2017), so that the order of a list stays that of its scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError, ParameterError, SchemaError
from rankine.core.specs import MAX_POSITIONS, OutcomeCalibration
from rankine.core.user_warnings import warn_user
from rankine.data.dataset import Dataset
from rankine.data.expressions import parse_expression
from rankine.data.list_ids import known_share
from rankine.data.query_index import QueryIndex
from rankine.metrics.gains import formula_values
from rankine.model import LinearModel
from rankine.scoring.probability import OutcomeProbabilities
from rankine.transforms.apply import score_dataset
from rankine.transforms.clicks import check_positions

#: Bins by rows, and further ones by outcomes, which are rare and have large scores.
_BINS = 64
#: Later positions are counted as the last one with this number of rows.
_MIN_ROWS = 100
#: A larger share of training lists is an error.
_MAX_TRAINING_SHARE = 0.01
_MAX_ROUNDS, _TOLERANCE = 500, 1e-7
_HALVINGS = 45
_SMALLEST_STEP = 1e-6
_FEW_OUTCOMES = 100
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def calibrate(
    model: LinearModel, data: Dataset, *, outcome: str, position: str | None = None
) -> LinearModel:
    """Return the model with the probability of an outcome, fitted on held-out lists.

    Parameters
    ----------
    model
        Any model; its scores do not change.
    data
        Lists that the model was not trained on, with the columns of the outcome and position.
    outcome
        Column of 0 and 1, or a formula with these values, such as ``clicked`` or
        ``purchased > 0``.
    position
        Column of the displayed positions, from 1. The probability then falls by the examination
        probability of the position. None: it depends on the score alone.

    Examples
    --------
    >>> from rankine.data import Dataset
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(4000, 1)), np.repeat(np.arange(400), 10)
    >>> clicked = (rng.random(4000) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    >>> data = Dataset.from_arrays(X, clicked, qid, columns={"clicked": clicked})
    >>> model = calibrate(LinearModel.from_weights([1.0]), data, outcome="clicked")
    >>> found = OutcomeProbabilities(model.calibration)(np.array([1.0, -1.0]))
    >>> bool(abs(found[0] - 1 / (1 + np.exp(-1.0))) < 0.1)  # the truth
    True
    """
    check_held_out(model, data)
    rows = OutcomeRows.read(model, data, outcome, position)
    return replace(model, calibration=rows.fit())


def check_held_out(model: LinearModel, data: Dataset) -> None:
    """Raise if the model was trained on some of the lists; warn if this cannot be known."""
    packed = model.provenance.get("lists")
    share = None
    if packed is not None:
        share = known_share(str(packed), data.queries.ids)
    if share is not None and share > _MAX_TRAINING_SHARE:
        raise ParameterError(
            f"the model was trained on {share:.0%} of the lists, whose scores are too good",
            parameter="log",
            fix="Use lists that were held out, for example the newest part: --split time:9/10,1/10",
        )
    training = model.provenance.get("training")
    sources = training.get("sources") if isinstance(training, dict) else None
    if share is None and isinstance(sources, list) and set(sources) & set(data.sources):
        warn_user(
            "the model was trained on lists of the same file, and they cannot be told apart; "
            "calibrate on lists that were held out"
        )


class OutcomeRows:
    """Scores, outcomes and positions of rows in grouped order."""

    def __init__(
        self,
        scores: Floats,
        outcomes: Floats,
        queries: QueryIndex,
        positions: Ints | None,
        outcome: str,
        position: str | None,
    ) -> None:
        self.scores, self.outcomes = scores, outcomes
        self.queries, self.positions = queries, positions
        self.outcome, self.position = outcome, position
        total = float(outcomes.sum())
        if total in (0.0, len(outcomes)):
            raise NoPairsError(
                f"{outcome} is the same for all {len(outcomes):,} rows",
                fix="Check the column, or use a log with more outcomes",
            )
        if min(total, len(outcomes) - total) < _FEW_OUTCOMES:
            warn_user(f"there are only {int(total)} outcomes; use a longer log")

    @classmethod
    def read(
        cls, model: LinearModel, data: Dataset, outcome: str, position: str | None
    ) -> OutcomeRows:
        """Score data, and read the columns of the outcome and the position."""
        index = data.queries
        values = read_outcome(data, outcome)
        positions = None
        if position is not None:
            if position not in data.columns:
                raise SchemaError(
                    f"there is no column {position!r}",
                    parameter="position",
                    fix="Name the column of displayed positions, and keep it when reading",
                )
            positions = index.gather(check_positions(data.columns[position]))
        scores = index.gather(score_dataset(model, data))
        return cls(scores, index.gather(values), index, positions, outcome, position)

    def fit(self) -> OutcomeCalibration:
        """Fit the curve and the examination probabilities."""
        sizes = self.queries.sizes
        means = np.add.reduceat(self.scores, self.queries.starts[:-1]) / sizes
        centred = self.scores - np.repeat(means, sizes)
        place, n_positions = np.zeros(len(centred), dtype=np.int64), 1
        if self.positions is not None:
            n_positions = _count_positions(self.positions, self.outcomes)
            place = np.minimum(self.positions, n_positions) - 1
        bins = np.searchsorted(_edges(centred, self.outcomes), centred, side="right")
        bins = np.unique(bins, return_inverse=True)[1]  # no empty ones
        n_bins = int(bins.max()) + 1
        cells = bins * n_positions + place
        shape = (n_bins, n_positions)
        rows = np.bincount(cells, np.ones(len(cells)), n_bins * n_positions).reshape(shape)
        hits = np.bincount(cells, self.outcomes, n_bins * n_positions).reshape(shape)
        wanted, examined = _fit_table(rows - hits, hits)
        bin_rows = rows.sum(axis=1)
        centres = np.bincount(bins, centred, n_bins) / bin_rows
        knots, logits, slope = _curve(centres, wanted, bin_rows)
        return OutcomeCalibration(
            outcome=self.outcome,
            position=self.position,
            scores=tuple(knots.tolist()),
            logits=tuple(logits.tolist()),
            tails=(slope, slope),
            examination=() if self.positions is None else tuple(examined.tolist()),
            n_lists=self.queries.n_queries,
            n_rows=len(centred),
            n_outcomes=int(self.outcomes.sum()),
        )

    def take(self, queries: Ints) -> OutcomeRows:
        """Return the rows of some queries."""
        rows = np.concatenate([np.arange(*self.queries.starts[q : q + 2]) for q in queries])
        starts = np.concatenate([[0], np.cumsum(self.queries.sizes[queries])]).astype(np.int64)
        index = QueryIndex(self.queries.ids[queries], starts)
        positions = None if self.positions is None else self.positions[rows]
        outcomes = self.outcomes[rows]
        return OutcomeRows(
            self.scores[rows], outcomes, index, positions, self.outcome, self.position
        )

    def probabilities(self, calibration: OutcomeCalibration) -> Floats:
        """Return the probability of every row."""
        compute = OutcomeProbabilities(calibration)
        return compute(self.scores, self.queries.starts, self.positions)

    def held_out_probabilities(self) -> tuple[Floats, Floats]:
        """Return outcomes and probabilities, fitted on the other half of the lists."""
        order = np.random.default_rng(0).permutation(self.queries.n_queries)
        halves = [np.sort(order[0::2]), np.sort(order[1::2])]
        outcomes, probabilities = [], []
        for train, test in (halves, halves[::-1]):
            part = self.take(test)
            outcomes.append(part.outcomes)
            probabilities.append(part.probabilities(self.take(train).fit()))
        return np.concatenate(outcomes), np.concatenate(probabilities)


def read_outcome(data: Dataset, outcome: str) -> Floats:
    """Return the values of a column or formula, which must be 0 or 1, in row order."""
    formula = parse_expression(outcome)
    missing = [name for name in formula.columns if name not in data.columns]
    if missing:
        raise SchemaError(
            f"there is no column {missing[0]!r}",
            parameter="outcome",
            fix="Name a column of the log, and keep it when reading",
        )
    values = formula_values(formula, data.columns, data.n_rows, "outcome")
    other = np.flatnonzero((values != 0) & (values != 1))
    if len(other):
        raise SchemaError(
            f"{outcome} is {values[other[0]]:g} at row {other[0]}, not 0 or 1",
            parameter="outcome",
            fix=f"Compare it: '{outcome} > 0'",
        )
    return values


def _count_positions(positions: Ints, outcomes: Floats) -> int:
    """Return the number of first positions with enough rows and some outcome each."""
    last = int(min(positions.max(), MAX_POSITIONS))
    rows = np.bincount(positions, minlength=last + 1)[1 : last + 1]
    hits = np.bincount(positions, outcomes, last + 1)[1 : last + 1]
    short = np.flatnonzero((rows < _MIN_ROWS) | (hits == 0))
    return max(int(short[0]) if len(short) else last, 1)


def _edges(centred: Floats, outcomes: Floats) -> Floats:
    """Return the limits of bins: quantiles of all rows, and of those with the outcome."""
    shares = np.arange(1, _BINS) / _BINS
    by_rows = np.quantile(centred, shares)
    by_outcomes = np.quantile(centred[outcomes > 0], shares)
    return np.unique(np.concatenate([by_rows, by_outcomes]))


def _fit_table(misses: Any, hits: Any) -> tuple[Floats, Floats]:
    """Maximise the likelihood of a table of bins and positions: return g by bin, theta.

    theta is relative to the largest. Each factor in turn is the root of a falling derivative,
    found by bisection; half an outcome and its share of misses keep the factors inside (0, 1).
    """
    rate = hits.sum() / (hits.sum() + misses.sum())
    prior_hits, prior_misses = 0.5, 0.5 * (1.0 - rate) / rate
    examined = np.ones(hits.shape[1])
    wanted = np.full(len(hits), rate)
    for _ in range(_MAX_ROUNDS):
        before = wanted * examined.max()
        wanted = _solve(hits, misses, examined, prior_hits, prior_misses)
        exposure = ((hits + misses) * examined).sum(axis=1)
        wanted = _isotonic(wanted, exposure)
        # Bins that were pooled have the best common value, which their mean only approximates.
        first = np.flatnonzero(np.append(True, np.diff(wanted) > 0))
        block_hits, block_misses = np.add.reduceat(hits, first), np.add.reduceat(misses, first)
        levels = _solve(block_hits, block_misses, examined, prior_hits, prior_misses)
        wanted = _isotonic(np.repeat(levels, np.diff(np.append(first, len(hits)))), exposure)
        if len(examined) == 1:
            break
        # The prior of a position: as much examined as the first.
        limit = min(1.0 / wanted.max(), 1e6) * (1.0 - 1e-9)
        extra = np.vstack([hits, np.full(len(examined), 0.5)])
        extra_misses = np.vstack([misses, np.full(len(examined), prior_misses)])
        examined = _solve(extra.T, extra_misses.T, np.append(wanted, rate), 0.0, 0.0, limit)
        wanted = np.minimum(wanted * examined.max(), 1.0 - 1e-9)
        examined /= examined.max()
        if np.abs(wanted - before).max() < _TOLERANCE:
            break
    return wanted, examined


def _solve(
    hits: Floats,
    misses: Floats,
    factors: Floats,
    prior_hits: float,
    prior_misses: float,
    limit: float = 1.0,
) -> Floats:
    """Return for every row of a table the x in (0, limit) of maximal likelihood.

    The derivative is sum_k hits_k / x - misses_k factor_k / (1 - factor_k x).
    """
    low, high = np.zeros(len(hits)), np.full(len(hits), limit)
    total = hits.sum(axis=1) + prior_hits
    for _ in range(_HALVINGS):
        x = 0.5 * (low + high)
        cost = (misses * factors / np.maximum(1.0 - factors * x[:, None], 1e-12)).sum(axis=1)
        cost += prior_misses / np.maximum(1.0 - x, 1e-12)
        is_low = total > cost * x
        low, high = np.where(is_low, x, low), np.where(is_low, high, x)
    return 0.5 * (low + high)


def _isotonic(values: Floats, weights: Floats) -> Floats:
    # SciPy takes long to import, and predictions do not need it.
    from scipy.optimize import isotonic_regression

    fitted: Floats = isotonic_regression(values, weights=weights).x
    return fitted


def _curve(centres: Floats, wanted: Floats, rows: Floats) -> tuple[Floats, Floats, float]:
    """Return the knots and logits of a strictly increasing curve, and the slope of its ends."""
    # Differences of rounding are no steps: two scores between them would get equal probabilities.
    is_step = np.diff(wanted) > _SMALLEST_STEP * wanted[1:]
    steps = np.concatenate([[0], np.cumsum(is_step)])
    step_rows = np.bincount(steps, rows)
    knots = np.bincount(steps, centres * rows) / step_rows
    levels = wanted[np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1])]
    logits = np.log(levels / (1.0 - levels))
    all_logits = np.log(wanted / (1.0 - wanted))
    mean = np.average(centres, weights=rows)
    spread = float(np.average((centres - mean) ** 2, weights=rows))
    slope = 0.0
    if spread > 0:
        slope = float(np.average((centres - mean) * all_logits, weights=rows)) / spread
    # Scores that say nothing about the outcome still keep their order.
    slope = max(slope, 1e-6 / max(np.sqrt(spread), 1e-300))
    is_new = np.append(True, (np.diff(knots) > 0) & (np.diff(logits) > 0))
    knots, logits = knots[is_new], logits[is_new]
    if len(knots) == 1:
        warn_user("the outcome does not rise with the score: all probabilities are nearly equal")
        width = np.sqrt(spread) or 1.0
        knots = knots + width * np.array([-1.0, 1.0])
        logits = logits + slope * width * np.array([-1.0, 1.0])
    return knots, logits, slope
