"""The covariance of a model's weights, and the intervals that follow from it.

The covariance is F F'. F has a row for each weight that has one, and is stored with the model when
the training was asked for intervals. A linear combination d'w of the weights has the standard error
|F'd|; its interval is d'w plus and minus a quantile of Student's t times this error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelError, ModelFormatError, ParameterError
from rankine.model.tables import Tables, find_tables
from rankine.model.weights import read_only

if TYPE_CHECKING:
    from rankine.model.linear import LinearModel

#: How a covariance was estimated.
METHODS = ("sandwich", "bootstrap")
_NORMAL = NormalDist()


class CovarianceRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the document of a model says about its covariance."""

    method: str
    n_queries: int
    degrees: float


@dataclass(frozen=True, eq=False)
class WeightCovariance:
    """The covariance F F' of weights.

    Attributes
    ----------
    rows
        Positions of the weights, strictly increasing. After the weights of the model follow those
        of the indicators of missing values.
    factor
        F: the rows of these weights, one after the other.
    record
        Method, number of queries with pairs, and degrees of freedom of Student's t.
    """

    rows: NDArray[np.int64]
    factor: NDArray[np.float64]
    record: CovarianceRecord

    def __post_init__(self) -> None:
        """Check the arrays, which may come from a damaged or hostile file."""
        object.__setattr__(self, "rows", read_only(self.rows, np.int64))
        object.__setattr__(self, "factor", read_only(self.factor, np.float64))
        rows, record = self.rows, self.record
        if len(rows) and (rows[0] < 0 or not (rows[1:] > rows[:-1]).all()):
            raise ModelFormatError("positions of the covariance are not strictly increasing")
        if (len(rows) and len(self.factor) % len(rows)) or (len(self.factor) and not len(rows)):
            raise ModelFormatError("the covariance has arrays of different lengths")
        if not np.isfinite(self.factor).all():
            raise ModelFormatError("the covariance has numbers that are not finite")
        if record.method not in METHODS or record.n_queries < 2 or not 0.0 < record.degrees < 1e12:
            raise ModelFormatError("the covariance has a malformed record")

    def check_positions(self, n_weights: int) -> None:
        """Raise unless all positions are below the number of weights."""
        if len(self.rows) and self.rows[-1] >= n_weights:
            raise ModelFormatError("the covariance has positions beyond the weights")

    @property
    def matrix(self) -> NDArray[np.float64]:
        """F as a matrix, a row for each of ``rows``."""
        return self.factor.reshape(len(self.rows), -1)

    def standard_errors(self) -> NDArray[np.float64]:
        """Return the standard error of each of ``rows``."""
        return np.sqrt(np.square(self.matrix).sum(axis=1))

    def uncertainty(self, positions: NDArray[np.int64], values: NDArray[np.float64]) -> Uncertainty:
        """Return the uncertainty of the sum of values times the weights at positions."""
        if len(self.rows) == 0:
            return Uncertainty(0.0, self.record.degrees)
        k = np.searchsorted(self.rows, positions)
        k = np.minimum(k, len(self.rows) - 1)
        # A weight without a row, such as that of a constant column, is the same in every training.
        has_row = self.rows[k] == positions
        moved = np.einsum("i,ij->j", values[has_row], self.matrix[k[has_row]])
        return Uncertainty(math.sqrt(float(np.square(moved).sum())), self.record.degrees)

    def quantile(self, level: float) -> float:
        """Return how many standard errors an interval of this level extends to each side."""
        return t_quantile(level, self.record.degrees)

    def band(
        self, start: int, estimates: NDArray[np.float64], level: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return low and high of a band over the weights from position ``start`` on.

        The band contains all of them at once with the probability ``level``. A weight without a
        row is certain.
        """
        first, last = np.searchsorted(self.rows, [start, start + len(estimates)])
        half_widths = np.zeros(len(estimates))
        if first < last:
            errors = np.sqrt(np.square(self.matrix[first:last]).sum(axis=1))
            quantile = self.simultaneous_quantile(slice(first, last), level)
            half_widths[self.rows[first:last] - start] = quantile * errors
        return estimates - half_widths, estimates + half_widths

    def simultaneous_quantile(self, rows: slice, level: float) -> float:
        """Return how many standard errors a band over several of ``rows`` extends to each side.

        The band contains all of these weights at once with the probability ``level``. It is the
        quantile of the largest of their studentised deviations in ``N_DRAWS`` draws from a
        generator with a fixed seed.
        """
        part = self.matrix[rows]
        # Not BLAS: its sums depend on the number of its threads.
        covariance = np.einsum("ik,jk->ij", part, part)
        errors = np.sqrt(np.diag(covariance))
        if len(errors) == 1:
            return self.quantile(level)
        varying = errors > 0.0
        if not varying.any():
            return self.quantile(level)
        errors = errors[varying]
        correlation = covariance[np.ix_(varying, varying)] / np.outer(errors, errors)
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        rng = np.random.default_rng(0)
        normal = rng.standard_normal((N_DRAWS, len(errors)))
        degrees = self.record.degrees
        scale = np.sqrt(rng.chisquare(degrees, N_DRAWS) / degrees)
        largest = np.abs(np.einsum("ik,jk->ij", normal, root)).max(axis=1) / scale
        return float(np.quantile(largest, level))


#: Draws for the quantile of a simultaneous band.
N_DRAWS = 4000


@dataclass(frozen=True)
class Uncertainty:
    """The standard error of a number, and the degrees of freedom of its Student's t."""

    standard_error: float
    degrees: float

    def interval(self, estimate: float, level: float = 0.95) -> tuple[float, float]:
        """Return the interval of a number."""
        half_width = t_quantile(level, self.degrees) * self.standard_error
        return estimate - half_width, estimate + half_width

    def probability_positive(self, estimate: float) -> float:
        """Return how likely the number is above 0, given its estimate."""
        if self.standard_error == 0.0:
            return 0.5 * (1.0 + np.sign(estimate))
        return t_probability(estimate / self.standard_error, self.degrees)


def t_quantile(level: float, degrees: float) -> float:
    """Return the t that |T| does not exceed with the probability ``level``.

    By the expansion around the normal quantile (Abramowitz and Stegun, 26.7.5), which is exact to
    .1 % from 5 degrees of freedom.
    """
    if not 0.0 < level < 1.0:
        raise ParameterError(
            f"{level!r} is not between 0 and 1", parameter="level", fix="Pass for example 0.95"
        )
    z = _NORMAL.inv_cdf(0.5 + 0.5 * level)
    terms = (
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
    )
    return z + sum(term / degrees ** (k + 1) for k, term in enumerate(terms))


def t_probability(t: float, degrees: float) -> float:
    """Return the probability that T is below ``t`` (Abramowitz and Stegun, 26.7.8)."""
    z = t * (1.0 - 0.25 / degrees) / math.sqrt(1.0 + t * t / (2.0 * degrees))
    return _NORMAL.cdf(z)


def interval_table(model: LinearModel, level: float) -> Any:
    """Return the interval of every weight as a pyarrow table, see ``LinearModel.intervals``."""
    import pyarrow as pa

    covariance = require_covariance(model)
    tables = find_tables(model)
    if tables is not None:
        return pa.table(_table_columns(tables, covariance, level))
    missing = model.missing
    names, estimates = [weight_name(model, j) for j in range(model.n_features)], model.to_dense()
    if missing is not None and missing.rule == "indicator":
        names += [f"{weight_name(model, j)} missing" for j in missing.columns]
        estimates = np.concatenate([estimates, missing.values])
    rows = covariance.rows
    half_widths = covariance.quantile(level) * covariance.standard_errors()
    return pa.table(
        {
            "name": [names[j] for j in rows.tolist()],
            "estimate": estimates[rows],
            "low": estimates[rows] - half_widths,
            "high": estimates[rows] + half_widths,
        }
    )


def require_covariance(model: LinearModel) -> WeightCovariance:
    """Return the covariance of a model; raise if it has none."""
    if model.covariance is None:
        raise ModelError(
            "the model was trained without intervals",
            fix="Train with fit(..., intervals=True) or rankine train --intervals",
        )
    return model.covariance


def weight_name(model: LinearModel, j: int) -> str:
    """Return the name of feature j, its number in text files if it has none."""
    names = model.feature_names
    if names is not None:
        return names[j]
    if j in model.indices:
        return model.weight_names[int(np.searchsorted(model.indices, j))]
    return str(j + model.base)


def _table_columns(
    tables: Tables, covariance: WeightCovariance, level: float
) -> dict[str, list[Any]]:
    """Return the columns of ``interval_table`` for a model of tables."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("name", "cell", "estimate", "low", "high", "band_low", "band_high")
    }
    half_widths = covariance.quantile(level) * covariance.standard_errors()

    def add(name: str, cells: list[str], start: int, estimates: NDArray[np.float64]) -> None:
        first, last = np.searchsorted(covariance.rows, [start, start + len(cells)])
        chosen = covariance.rows[first:last] - start
        low, high = covariance.band(start, estimates, level)
        values = estimates[chosen]
        columns["name"] += [name] * len(chosen)
        columns["cell"] += [cells[cell] for cell in chosen.tolist()]
        columns["estimate"] += values.tolist()
        columns["low"] += (values - half_widths[first:last]).tolist()
        columns["high"] += (values + half_widths[first:last]).tolist()
        columns["band_low"] += low[chosen].tolist()
        columns["band_high"] += high[chosen].tolist()

    for term in tables.terms:
        cells = [", ".join(labels) for labels in product(*term.labels)]
        add(tables.name(term), cells, term.start, term.values.ravel())
    for k, j in enumerate(tables.bins.linear):
        position = tables.linear_start + k
        add(tables.column_name(j), [""], position, tables.weights[position : position + 1])
    return columns
