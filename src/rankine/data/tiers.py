"""Graded feedback from counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankine.core.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["tiers"]


def tiers(
    counts: ArrayLike,
    cuts: Sequence[float] | None = None,
    *,
    quantiles: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Turn counts (clicks, purchases, views) into grades 0, 1, 2, ...

    The grade of a count c is the number of cuts that it reaches::

        grade(c) = #{k : c >= cuts[k]}

    With ``quantiles`` the first cut is just above zero and the others are quantiles of the
    positive counts, so that rows without any feedback have grade 0 and the quantiles divide the
    rest. Equal quantiles (many rows with the same count) are merged: no grade stays empty.

    Parameters
    ----------
    counts
        Finite numbers >= 0.
    cuts
        Increasing numbers > 0.
    quantiles
        Increasing numbers in (0, 1).

    Returns
    -------
    ndarray of float64
        Labels for ``Dataset.from_arrays``.

    Examples
    --------
    >>> tiers([0, 1, 2, 5, 40], cuts=[1, 5, 20])
    array([0., 1., 1., 2., 3.])
    >>> tiers([0, 0, 1, 1, 2, 9], quantiles=[0.5, 0.9])
    array([0., 0., 1., 1., 2., 2.])
    """
    values = np.asarray(counts, dtype=np.float64)
    if values.ndim != 1:
        raise SchemaError(f"counts have {values.ndim} dimensions", fix="Pass one count per row")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise SchemaError(f"counts[{row}] is {values[row]}", fix="Pass finite counts >= 0")
    if (cuts is None) == (quantiles is None):
        raise ParameterError("give either cuts or quantiles", fix="Pass one of them")
    thresholds = _increasing("cuts", cuts) if cuts is not None else _quantiles(values, quantiles)
    return np.searchsorted(thresholds, values, side="right").astype(np.float64)


def _increasing(name: str, numbers: Any) -> NDArray[np.float64]:
    found = np.asarray(numbers, dtype=np.float64)
    good = found.ndim == 1 and len(found) > 0 and bool(np.isfinite(found).all())
    if not good or (found <= 0).any() or (np.diff(found) <= 0).any():
        raise ParameterError(
            f"{name}={numbers!r} are not increasing positive numbers", fix=f"Sort the {name}"
        )
    return found


def _quantiles(values: NDArray[np.float64], quantiles: Any) -> NDArray[np.float64]:
    """Smallest positive count, then the first counts above each quantile."""
    shares = _increasing("quantiles", quantiles)
    if shares[-1] >= 1:
        raise ParameterError(f"quantiles={quantiles!r} reach 1", fix="Pass numbers below 1")
    positive = np.unique(values[values > 0])
    if len(positive) == 0:
        return np.zeros(0) + np.inf
    below = np.quantile(values[values > 0], shares, method="inverted_cdf")
    above = np.searchsorted(positive, below, side="right")
    return np.unique(np.append(positive[0], positive[above[above < len(positive)]]))
