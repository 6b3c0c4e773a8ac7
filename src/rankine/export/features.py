"""The features of a model as an export needs them: names, weights as text, raw columns.

Also checks that refuse models whose transforms a target cannot express.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ExportError
from rankine.core.specs import ListRange, LogColumns, MissingValues, RunScores
from rankine.model import LinearModel
from rankine.model.tables import Tables


class WeightTerm(NamedTuple):
    """A feature's name and its weight as the shortest text that reads back as the same number."""

    name: str
    weight: str


class RawFeature(NamedTuple):
    """A feature computed from one raw column.

    ``kind`` is ``"number"`` (the column itself), ``"value"`` (1 if the column equals ``value``),
    ``"cell"`` (1 if low <= column < high; None is no bound) or ``"missing"`` (1 if it is null).
    """

    name: str
    column: str
    kind: Literal["number", "value", "cell", "missing"]
    value: str = ""
    low: float | None = None
    high: float | None = None


def find_log_columns(model: LinearModel) -> LogColumns | None:
    """Return the transform from raw columns to features, or None if rows are features already."""
    return next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)


def scales_lists(model: LinearModel) -> bool:
    """Whether the model divides features by their range within each list."""
    return any(isinstance(spec, ListRange) for spec in model.transforms)


def raw_features(model: LinearModel, target: str) -> list[RawFeature] | None:
    """Return a raw feature for each weight of the model, or None if rows are features already.

    A model of tables has a number for each column.
    """
    log_columns = find_log_columns(model)
    if log_columns is None:
        return None
    if log_columns.tables:
        return [RawFeature(name, name, "number") for name in log_columns.names]
    # Engines have no BLAKE2b. Hashed columns without a weight do no harm.
    if (model.indices >= log_columns.hash_start).any():
        hashed = [*log_columns.hashed, *("*".join(cross) for cross in log_columns.crosses)]
        raise ExportError(
            f"{target} cannot hash column {', '.join(map(repr, hashed))}",
            fix="Train with --one-hot instead of --categorical and without --cross, or serve the "
            "model with rankine serve",
        )
    features = [RawFeature(name, name, "number") for name in log_columns.numeric]
    for encoding in log_columns.one_hot:
        column = encoding.column
        features += [RawFeature(f"{column}={v}", column, "value", v) for v in encoding.values]
    for binned in log_columns.binned:
        # The first and the last cell are open.
        bounds = (None, *binned.cuts, None)
        for k, name in enumerate(binned.names[:-1]):
            features.append(
                RawFeature(name, binned.column, "cell", low=bounds[k], high=bounds[k + 1])
            )
        features.append(RawFeature(binned.names[-1], binned.column, "missing"))
    # Features are numbered in this order: numbers, values, cells.
    return [features[j] for j in model.indices.tolist()]


def require_features(model: LinearModel, target: str, *, raw: bool = False) -> None:
    """Raise unless the target can compute the model's features.

    ``raw``: the target reads raw columns.
    """
    refuse_fusion(model, target)
    for spec in model.transforms:
        if isinstance(spec, (ListRange, MissingValues)) or (raw and isinstance(spec, LogColumns)):
            continue
        raise ExportError(
            f"{target} cannot run the transform {type(spec).__name__}, which computes this "
            "model's features from raw columns",
            fix="Serve the model with rankine serve, or train on features that the engine has",
        )


def refuse_fusion(model: LinearModel, target: str) -> None:
    """Raise for a fusion of retrievers."""
    if any(isinstance(spec, RunScores) for spec in model.transforms):
        raise ExportError(
            f"{target} cannot normalise the scores of retrievers within a list",
            fix="Export the fusion to elasticsearch, opensearch, vespa, solr, python or json",
        )


def require_rule(model: LinearModel, target: str, rules: Sequence[str]) -> None:
    """Raise unless the target can express the model's rule for missing values."""
    spec = model.missing
    if spec is None or spec.rule in rules:
        return
    fix = "Train on data without missing values"
    if rules:
        fix = f"Train with missing={' or '.join(map(repr, rules))}"
    raise ExportError(
        f"{target} cannot express this model's rule for missing values (missing={spec.rule!r})",
        fix=f"{fix}; or use rankine serve, or the python, javascript, java or json export",
    )


def require_linear(
    model: LinearModel, target: str, *, raw: bool = False, rules: Sequence[str] = ()
) -> None:
    """Raise unless the score is a weighted sum of features of one document.

    ``rules`` are the rules for missing values that the target can express.
    """
    require_features(model, target, raw=raw)
    require_rule(model, target, rules)
    if scales_lists(model):
        raise ExportError(
            f"{target} scores one document at a time and cannot scale features within each list",
            fix="Train with scale='standard' or 'maxabs', which are folded into the weights; or "
            "use rankine serve, or the sql, python, javascript, java or json export",
        )


#: Most features of a file that has an entry for each one.
MAX_DENSE_FEATURES = 1 << 22


def dense_weights(model: LinearModel, target: str, dtype: Any) -> NDArray[Any]:
    """Return one weight per feature; a model of few weights among many features is refused."""
    # A hashed model has a million features of which few have a weight.
    if model.n_features > MAX_DENSE_FEATURES:
        raise ExportError(
            f"{target} stores a number for each feature, and this model has "
            f"{model.n_features:,} features; the limit is {MAX_DENSE_FEATURES:,}",
            fix="Export model.compact(), which reads only the features with a weight",
        )
    with np.errstate(over="ignore"):
        weights = model.to_dense().astype(dtype)
    if not np.isfinite(weights).all():
        raise ExportError(
            f"a weight overflows {np.dtype(dtype)} in {target}", fix="Train on scaled features"
        )
    return weights


def named_terms(model: LinearModel, target: str) -> list[WeightTerm]:
    """Return the name and the float64 weight of every non-zero weight."""
    if model.names is None:
        raise ExportError(
            f"{target} needs feature names, and this model has none",
            fix="Pass --feature-names FILE, one name per line",
        )
    return [
        WeightTerm(name, repr(weight))
        for name, weight in zip(model.weight_names, model.values.tolist(), strict=True)
    ]


def float32_terms(model: LinearModel, target: str) -> list[WeightTerm]:
    """Return name and float32 weight, as text, of every weight that is not zero in float32."""
    # A weight that becomes 0 in float32 adds nothing to any score.
    terms = []
    with np.errstate(over="ignore"):
        weights = model.values.astype(np.float32)
    for term, weight in zip(named_terms(model, target), weights, strict=True):
        if not np.isfinite(weight):
            raise ExportError(
                f"{target} computes in float32, where the weight {term.weight} overflows",
                fix="Train on scaled features",
            )
        # Each term costs the engine a look-up for every document.
        if weight != 0:
            terms.append(WeightTerm(term.name, _shortest_text(weight)))
    return terms


def _shortest_text(weight: np.float32) -> str:
    text = str(weight)
    # An engine may parse the text as float64 and round that to float32: double rounding can give
    # another number, in which case all digits are written.
    if np.float32(float(text)) == weight:
        return text
    return repr(float(weight))


def column_names(tables: Tables, target: str) -> tuple[str, ...]:
    """Return the names of the columns of a model of tables, or raise if it has none."""
    if tables.bins.names is None:
        raise ExportError(
            f"{target} identifies columns by name, and this model has no column names",
            fix="Train on data with column names",
        )
    return tables.bins.names
