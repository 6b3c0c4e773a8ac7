"""Fit the probability of an outcome, such as a click, to the scores of a model.

The outcome of an item with score s at position k has the probability theta_k g(s - m), where m is
the mean score of the list: the user examines the position (theta_k) and is attracted by the item
(g, which rises with the score), as in the position-based click model. Rows are counted in a table
of score bins and positions, and theta and g maximise its likelihood in turns. g is isotonic over
the bins. Centred isotonic regression (Oron and Flournoy 2017) then replaces its steps by a curve
through their means, which rises strictly, so that probabilities order a list as its scores do.
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

#: Number of bins with equal numbers of rows, and of further bins with equal numbers of outcomes:
#: outcomes are rare and have large scores, where bins of rows alone would be too wide.
_BINS = 64
#: The first position with fewer rows than this, and all after it, count as the position before.
_MIN_ROWS = 100
#: Largest share of lists that the model may have been trained on.
_MAX_TRAINING_SHARE = 0.01
#: Fitting ends after this number of rounds, or when no g changes by more than the tolerance.
_MAX_ROUNDS, _TOLERANCE = 500, 1e-7
#: Bisections of an interval of length 1: 2^-45 is far below the tolerance.
_HALVINGS = 45
#: Smallest relative difference of two steps of g; smaller ones are rounding errors.
_SMALLEST_STEP = 1e-6
#: With fewer outcomes, or fewer rows without one, the user is warned.
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
    >>> probabilities = OutcomeProbabilities(model.calibration)(np.array([1.0, -1.0]))
    >>> bool(abs(probabilities[0] - 1 / (1 + np.exp(-1.0))) < 0.1)  # the true probability
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
    """Scores, outcomes and positions of rows, the rows of each list one after another."""

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
        n_with, n_without = int(total), len(outcomes) - int(total)
        if min(n_with, n_without) < _FEW_OUTCOMES:
            rarer = f"{n_with} outcomes"
            if n_without < n_with:
                rarer = f"{n_without} rows without the outcome"
            warn_user(f"there are only {rarer}; use a longer log")

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
        position_index, n_positions = np.zeros(len(centred), dtype=np.int64), 1
        if self.positions is not None:
            n_positions = _count_positions(self.positions, self.outcomes)
            position_index = np.minimum(self.positions, n_positions) - 1
        bins = np.searchsorted(_bin_limits(centred, self.outcomes), centred, side="right")
        bins = np.unique(bins, return_inverse=True)[1]  # numbers them again without empty ones
        n_bins = int(bins.max()) + 1
        cells = bins * n_positions + position_index
        shape = (n_bins, n_positions)
        rows = np.bincount(cells, np.ones(len(cells)), n_bins * n_positions).reshape(shape)
        hits = np.bincount(cells, self.outcomes, n_bins * n_positions).reshape(shape)
        attraction, examination = _fit_table(hits, rows - hits)
        bin_rows = rows.sum(axis=1)
        centres = np.bincount(bins, centred, n_bins) / bin_rows
        knots, logits, slope = _fit_curve(centres, attraction, bin_rows)
        return OutcomeCalibration(
            outcome=self.outcome,
            position=self.position,
            scores=tuple(knots.tolist()),
            logits=tuple(logits.tolist()),
            tails=(slope, slope),
            examination=() if self.positions is None else tuple(examination.tolist()),
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
    last = min(int(positions.max()), MAX_POSITIONS)
    rows = np.bincount(positions, minlength=last + 1)[1 : last + 1]
    hits = np.bincount(positions, outcomes, last + 1)[1 : last + 1]
    too_few = np.flatnonzero((rows < _MIN_ROWS) | (hits == 0))
    if len(too_few):
        last = int(too_few[0])
    return max(last, 1)


def _bin_limits(centred: Floats, outcomes: Floats) -> Floats:
    """Return the limits of bins: quantiles of all rows, and of those with the outcome."""
    shares = np.arange(1, _BINS) / _BINS
    by_rows = np.quantile(centred, shares)
    by_outcomes = np.quantile(centred[outcomes > 0], shares)
    return np.unique(np.concatenate([by_rows, by_outcomes]))


def _fit_table(hits: Any, misses: Any) -> tuple[Floats, Floats]:
    """Return the g of every bin and the theta of every position of maximal likelihood.

    ``hits`` and ``misses`` count the rows with and without the outcome, by bin and position. The
    largest theta is 1. g is fitted for fixed theta and theta for fixed g until g stays as it is.
    Half a row with the outcome, and its share of rows without, are added to every bin and position:
    they keep all factors inside (0, 1).
    """
    rate = hits.sum() / (hits.sum() + misses.sum())
    prior_hits, prior_misses = 0.5, 0.5 * (1.0 - rate) / rate
    examination = np.ones(hits.shape[1])
    attraction = np.full(len(hits), rate)
    for _ in range(_MAX_ROUNDS):
        before = attraction * examination.max()
        attraction = _maximise_rows(hits, misses, examination, prior_hits, prior_misses)
        exposure = ((hits + misses) * examination).sum(axis=1)
        attraction = _isotonic(attraction, exposure)
        # Isotonic regression gives pooled bins their mean. The likelihood has its maximum at
        # another value where theta differs between positions, so every pool is solved again.
        first = np.flatnonzero(np.append(True, np.diff(attraction) > 0))
        pool_hits, pool_misses = np.add.reduceat(hits, first), np.add.reduceat(misses, first)
        levels = _maximise_rows(pool_hits, pool_misses, examination, prior_hits, prior_misses)
        n_pooled = np.diff(np.append(first, len(hits)))
        attraction = _isotonic(np.repeat(levels, n_pooled), exposure)
        if len(examination) == 1:
            break
        # theta may exceed 1 here and is divided by its maximum below; theta g stays below 1.
        limit = min(1.0 / attraction.max(), 1e6) * (1.0 - 1e-9)
        # The prior of a position is a further bin of average attraction: with theta = 1 it has the
        # outcomes that are expected.
        hits_and_prior = np.vstack([hits, np.full(len(examination), prior_hits)])
        misses_and_prior = np.vstack([misses, np.full(len(examination), prior_misses)])
        factors = np.append(attraction, rate)
        examination = _maximise_rows(hits_and_prior.T, misses_and_prior.T, factors, limit=limit)
        attraction = np.minimum(attraction * examination.max(), 1.0 - 1e-9)
        examination /= examination.max()
        if np.abs(attraction - before).max() < _TOLERANCE:
            break
    return attraction, examination


def _maximise_rows(
    hits: Floats,
    misses: Floats,
    factors: Floats,
    prior_hits: float = 0.0,
    prior_misses: float = 0.0,
    limit: float = 1.0,
) -> Floats:
    """Return for every row of a table the x in (0, limit) of maximal likelihood.

    Cell k of a row has the outcome with probability x factor_k. The derivative of the log
    likelihood, sum_k hits_k / x - misses_k factor_k / (1 - factor_k x), falls with x: bisection.
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


def _fit_curve(centres: Floats, attraction: Floats, rows: Floats) -> tuple[Floats, Floats, float]:
    """Return knots and logits of a strictly rising curve through g, and the slope beyond its ends.

    ``centres`` are the mean scores of the bins. Bins with the same g are one knot, at their mean.
    """
    # Two steps that differ by a rounding error are one: scores between them would get probabilities
    # that are equal in floating point.
    is_step = np.diff(attraction) > _SMALLEST_STEP * attraction[1:]
    steps = np.concatenate([[0], np.cumsum(is_step)])
    step_rows = np.bincount(steps, rows)
    knots = np.bincount(steps, centres * rows) / step_rows
    levels = attraction[np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1])]
    logits = np.log(levels / (1.0 - levels))
    # Beyond the first and last knot there is no data; the curve continues as straight as a line
    # that is fitted to all bins.
    bin_logits = np.log(attraction / (1.0 - attraction))
    mean = np.average(centres, weights=rows)
    variance = float(np.average((centres - mean) ** 2, weights=rows))
    slope = 0.0
    if variance > 0:
        slope = float(np.average((centres - mean) * bin_logits, weights=rows)) / variance
    # Scores that tell nothing about the outcome still keep their order.
    slope = max(slope, 1e-6 / max(np.sqrt(variance), 1e-300))
    rises = np.append(True, (np.diff(knots) > 0) & (np.diff(logits) > 0))
    knots, logits = knots[rises], logits[rises]
    if len(knots) == 1:
        warn_user("the outcome does not rise with the score: all probabilities are nearly equal")
        width = np.sqrt(variance) or 1.0
        knots = knots + width * np.array([-1.0, 1.0])
        logits = logits + slope * width * np.array([-1.0, 1.0])
    return knots, logits, slope
