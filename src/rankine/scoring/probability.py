"""Compute the probability of an outcome from scores, lists and positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelError
from rankine.core.specs import OutcomeCalibration
from rankine.kernels.compile import REDUCE, jit
from rankine.model import LinearModel

#: Number of cells of the table that leads to the knots around a score.
_CELLS = 512


@jit(fastmath=REDUCE)
def _mean(scores: Any, start: int, stop: int) -> float:
    total = 0.0
    for i in range(start, stop):
        total += scores[i]
    return total / (stop - start)


@jit
def _fill_probabilities(
    scores: Any,
    starts: Any,
    positions: Any,
    knots: Any,
    logits: Any,
    slopes: Any,
    first_knot: Any,
    examination: Any,
    out: Any,
) -> None:
    """Set out[i] to the probability of row i; ``slopes[k]`` is the slope below knot k."""
    last = knots.shape[0] - 1
    cells_per_unit = (first_knot.shape[0] - 1) / (knots[last] - knots[0])
    for q in range(starts.shape[0] - 1):
        if starts[q] == starts[q + 1]:
            continue
        centre = _mean(scores, starts[q], starts[q + 1])
        for i in range(starts[q], starts[q + 1]):
            x = scores[i] - centre
            k = 0
            if x > knots[last]:
                k = last + 1
            elif x > knots[0]:
                k = first_knot[int((x - knots[0]) * cells_per_unit)]
                while knots[k] < x:
                    k += 1
            base = min(k, last)
            logit = logits[base] + slopes[k] * (x - knots[base])
            # Limited so that a remote score does not overflow.
            out[i] = 1.0 / (1.0 + math.exp(-max(logit, -700.0)))
    if examination.shape[0] > 0:
        for i in range(positions.shape[0]):
            out[i] *= examination[min(positions[i], examination.shape[0]) - 1]


class OutcomeProbabilities:
    """The calibration of a model, ready to compute probabilities.

    Examples
    --------
    >>> knots, logits = (-1.0, 1.0), (-2.0, 0.0)
    >>> spec = OutcomeCalibration(outcome="x", scores=knots, logits=logits, tails=(1, 1))
    >>> OutcomeProbabilities(spec)(np.array([3.0, 1.0])).round(3).tolist()
    [0.5, 0.119]
    """

    def __init__(self, calibration: OutcomeCalibration) -> None:
        self.calibration = calibration
        knots, logits = np.array(calibration.scores), np.array(calibration.logits)
        low, high = calibration.tails
        slopes = np.concatenate([[low], np.diff(logits) / np.diff(knots), [high]])
        # The smallest knot that a score of a cell may be below; one cell less, as sums are rounded.
        edges = knots[0] + (knots[-1] - knots[0]) / _CELLS * (np.arange(_CELLS + 1) - 1)
        first_knot = np.searchsorted(knots, edges)
        self._curve = (knots, logits, slopes, first_knot, np.array(calibration.examination))

    def __call__(
        self,
        scores: NDArray[np.float64],
        starts: NDArray[np.int64] | None = None,
        positions: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the probability of each row.

        Parameters
        ----------
        starts
            Starts of consecutive lists, and the end; default: one list.
        positions
            Displayed position of each row, from 1; default: the most examined position for all.
        """
        if starts is None:
            starts = np.array([0, len(scores)])
        if positions is None:
            positions = starts[:0]
        out = np.empty(len(scores))
        knots, logits, slopes, first_knot, examination = self._curve
        _fill_probabilities(
            scores, starts, positions, knots, logits, slopes, first_knot, examination, out
        )
        return out


def outcome_probabilities(model: LinearModel) -> OutcomeProbabilities:
    """Return the probabilities of a model; raise unless it is calibrated."""
    if model.calibration is None:
        raise ModelError(
            "the model has no probabilities: it is not calibrated",
            fix="Run rankine calibrate MODEL LOG --outcome clicked on held-out lists",
        )
    return OutcomeProbabilities(model.calibration)
