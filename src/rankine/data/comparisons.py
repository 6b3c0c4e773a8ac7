r"""Preferences: comparisons of two, as lists of two rows.

A comparison that a wins over b is a list with the labels 1 and 0, so that the pair loss of it is
:math:`v\,\ell(\langle w, x_a - x_b\rangle)`. With the logistic loss that is the model of Bradley
and Terry; items without features have one indicator each, whose weight is the item's strength. A
tie counts as half a win for either side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankine.core.errors import EmptyDataError, SchemaError
from rankine.data.dataset import Dataset, check_weight


def pairs_dataset(
    winner: Any, loser: Any, weight: Any, tie: Any, features: Any, feature_names: Any
) -> Dataset:
    """See ``Dataset.from_pairs``."""
    first, second = _side(winner, "winner"), _side(loser, "loser")
    n = first.shape[0]
    if second.shape[:1] != (n,) or first.ndim != second.ndim:
        raise SchemaError(
            f"winner has shape {first.shape} and loser {second.shape}",
            fix="Pass one row, or one item id, per comparison on either side",
        )
    if n == 0:
        raise EmptyDataError("there are no comparisons", fix="Check the path and the filters")
    names = None if feature_names is None else list(feature_names)
    if first.ndim == 1:
        items, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
        _refuse_itself(codes[:n], codes[n:], items)
        X = sparse.csr_matrix((np.ones(2 * n), (np.arange(2 * n), codes)))
        names = [*map(str, items.tolist()), *(names or [])]
        if features is not None:
            style = [np.atleast_2d(np.asarray(part, dtype=np.float64)) for part in features]
            if any(part.shape[0] != n or part.shape != style[0].shape for part in style):
                raise SchemaError(
                    "features of the two sides differ in shape, or from the comparisons",
                    fix="Pass (rows of the winners, rows of the losers), one row a comparison",
                )
            if feature_names is None:
                names += [f"feature {j + 1}" for j in range(style[0].shape[1])]
            X = sparse.hstack([X, sparse.csr_matrix(np.vstack(style))], format="csr")
    else:
        if features is not None:
            raise SchemaError("features beside rows of features", fix="Pass item ids, or rows")
        items, codes = np.empty(0), np.empty(0, dtype=np.int64)
        stack = sparse.vstack if sparse.issparse(first) else np.vstack
        X = stack([first, second])
    order = np.arange(2 * n).reshape(2, n).T.ravel()  # winner, loser, winner, loser ...
    docid = items[codes][order] if len(items) else None
    return _doubled(X, order, n, docid, names, weight, tie)


def _side(rows: Any, name: str) -> Any:
    found = rows.tocsr() if sparse.issparse(rows) else np.asarray(rows)
    if found.ndim not in (1, 2):
        raise SchemaError(f"{name} has shape {found.shape}", fix="Pass item ids, or rows")
    return found


def _refuse_itself(a: NDArray[Any], b: NDArray[Any], items: NDArray[Any]) -> None:
    same = np.flatnonzero(a == b)
    if len(same):
        raise SchemaError(
            f"comparison {same[0]} sets {items[a[same[0]]]} against itself", fix="Leave it out"
        )


def _doubled(
    X: Any,
    order: NDArray[np.int64],
    n: int,
    docid: NDArray[Any] | None,
    names: list[str] | None,
    weight: ArrayLike | None,
    tie: ArrayLike | None,
) -> Dataset:
    """Two rows a comparison; a tie a second time the other way round, each at half its weight."""
    value = np.ones(n) if weight is None else check_weight(weight, n)
    label = np.tile([1.0, 0.0], n)
    number = np.arange(n)
    tied = np.zeros(n, dtype=np.bool_) if tie is None else np.asarray(tie, dtype=np.bool_)
    if tied.shape != (n,):
        raise SchemaError(f"tie has shape {tied.shape}", fix="Pass one mark per comparison")
    again = np.flatnonzero(tied)
    value = np.where(tied, 0.5 * value, value)
    rows = np.concatenate([order, order.reshape(n, 2)[again].ravel()])
    label = np.concatenate([label, np.tile([0.0, 1.0], len(again))])
    number = np.concatenate([number, number[again]])
    value = np.concatenate([value, value[again]])
    ids = None if docid is None else np.concatenate([docid, docid.reshape(n, 2)[again].ravel()])
    return Dataset.from_arrays(
        X[rows],
        label,
        np.repeat(np.arange(len(value)), 2),
        docid=ids,
        feature_names=names,
        weight=None if weight is None and tie is None else np.repeat(np.sqrt(value), 2),
        columns={"comparison": np.repeat(number, 2)},
    )
