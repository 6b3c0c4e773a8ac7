"""Compare the weights of two trainings: which effects changed beyond noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankine.core.errors import ModelError
from rankine.evaluation.significance import holm
from rankine.model import LinearModel
from rankine.model.covariance import require_covariance, t_probability, t_quantile

#: Parameters that decide the unit of the weights.
_UNITS = ("ranker", "loss", "normalization")


def compare_weights(old: LinearModel, new: LinearModel, level: float = 0.95) -> Any:
    """Return the change of every weight with its interval, as a pyarrow table.

    Columns are ``name`` (and ``cell`` for models of tables), ``old``, ``new``, ``change``, ``low``,
    ``high``, ``p`` and ``changed``. ``p`` is adjusted for the number of weights by Holm's method,
    and ``changed`` is p < 1 - ``level``. Weights and cells that only one of the models has are left
    out. Both trainings are taken as independent: if they share queries, intervals are too wide.

    Parameters
    ----------
    old, new
        Models that were trained with intervals, by the same ranker and loss.
    level
        Level of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import RankSVM
    >>> from rankine.evaluation.weight_changes import compare_weights
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(1200, 2)), np.repeat(np.arange(120), 10)
    >>> models = []
    >>> for weight in (1.0, 0.2):
    ...     y = X @ [1.0, weight] + rng.normal(size=1200) > 0
    ...     models.append(RankSVM(loss="logistic").fit(X, y, qid=qid, intervals=True).to_model())
    >>> compare_weights(*models)["changed"].to_pylist()
    [False, True]
    """
    import pyarrow as pa

    for name in _UNITS:
        values = [model.parameters.get(name) for model in (old, new)]
        if values[0] != values[1]:
            raise ModelError(
                f"{name} is {values[0]!r} in one training and {values[1]!r} in the other, so "
                "weights have different units",
                fix="Compare models of the same ranker and loss",
            )
    first, second = _rows_by_weight(old, level), _rows_by_weight(new, level)
    keys = [key for key in first if key in second]
    degrees = [require_covariance(model).record.degrees for model in (old, new)]
    quantiles = [t_quantile(level, each) for each in degrees]
    estimates = np.array([[rows[key]["estimate"] for key in keys] for rows in (first, second)])
    highs = np.array([[rows[key]["high"] for key in keys] for rows in (first, second)])
    variances = np.square((highs - estimates) / np.array(quantiles)[:, None])
    change, variance = estimates[1] - estimates[0], variances.sum(axis=0)
    errors = np.sqrt(variance)
    # Welch and Satterthwaite.
    parts = np.square(variances) / np.array(degrees)[:, None]
    n_degrees = np.square(variance) / parts.sum(axis=0)
    half = np.array([t_quantile(level, each) for each in n_degrees]) * errors
    p = [
        2.0 * t_probability(-abs(value) / error, each)
        for value, error, each in zip(change, errors, n_degrees, strict=True)
    ]
    adjusted = holm(p)
    columns: dict[str, Any] = {"name": [key[0] for key in keys]}
    if old.bins is not None:
        columns["cell"] = [key[1] for key in keys]
    columns |= {
        "old": estimates[0],
        "new": estimates[1],
        "change": change,
        "low": change - half,
        "high": change + half,
        "p": adjusted,
        "changed": np.asarray(adjusted) < 1.0 - level,
    }
    return pa.table(columns)


def _rows_by_weight(model: LinearModel, level: float) -> dict[tuple[str, str], dict[str, Any]]:
    rows = model.intervals(level).to_pylist()
    return {(row["name"], row.get("cell", "")): row for row in rows}
