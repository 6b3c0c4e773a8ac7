"""Divide data into training and held-out parts, by query or by time, never cutting a query."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankine.core.errors import FeatureMismatchError, ParameterError
from rankine.data.dataset import Dataset, concat
from rankine.data.splits import named_parts, query_folds


@dataclass(frozen=True, eq=False)
class Folds:
    """The data of a search: (training, held out) ``pairs``, one for each fit of a trial.

    The best setting is fitted on ``whole`` in the end. ``test`` is held out from the search and
    used once, at the end. ``text`` describes the division.
    """

    pairs: Sequence[tuple[Dataset, Dataset]]
    whole: Dataset
    test: Dataset | None
    text: str


def make_folds(
    data: Dataset,
    valid: Dataset | None,
    folds: int | None,
    split: str | None,
    time_column: str | None,
    seed: int,
) -> Folds:
    """Divide the data: by ``valid`` if given, else by time if ``split``, else in folds."""
    if valid is not None:
        if split is not None or folds is not None:
            raise ParameterError(
                "cannot be combined with folds or a split by time",
                fix="Give either a validation set, folds or a split by time",
                parameter="valid",
            )
        if data.n_features != valid.n_features:
            raise FeatureMismatchError(
                f"the validation set has {valid.n_features} features, the training data "
                f"{data.n_features}",
                fix="Read both with the same n_features",
            )
        return Folds([(data, valid)], data, None, "validation set")
    if split is not None:
        if folds is not None:
            raise ParameterError(
                "cannot be combined with a split by time",
                fix="Give either folds or a split by time",
                parameter="folds",
            )
        parts = named_parts(data, split, time_column)
        train, held_out = parts["train"], parts["valid"]
        text = f"{split} {time_column or ''}".strip()
        return Folds([(train, held_out)], concat([train, held_out]), parts.get("test"), text)
    n_folds = 5 if folds is None else folds
    return Folds(list(query_folds(data, n_folds, seed)), data, None, f"{n_folds} folds")


def data_digest(data: Dataset) -> str:
    """Return a fingerprint of the rows, their weights and their further columns."""
    digest = hashlib.sha256(data.fingerprint.encode())
    extra: dict[str, Any] = {"weight": data.weight, "position": data.position, **data.columns}
    for name, values in sorted(extra.items()):
        if values is None:
            continue
        column = np.asarray(values)
        digest.update(name.encode())
        if column.dtype.kind in "OUST":
            # Arrays of objects and texts have no stable bytes.
            digest.update(repr(column.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
