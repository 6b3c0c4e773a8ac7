r"""Preferences: comparisons of two, as lists of two rows.

A comparison that a wins over b is a list with the labels 1 and 0, so that the pair loss of it is
:math:`v\,\ell(\langle w, x_a - x_b\rangle)`. With the logistic loss that is the model of Bradley
and Terry; items without features have one indicator each, whose weight is the item's strength. A
tie counts as half a win for either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankine.core.checks import reject_sets
from rankine.core.errors import EmptyDataError, SchemaError
from rankine.data.dataset import Dataset, check_weight
from rankine.data.sources import Source, find_sources


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
    reject_sets(feature_names=feature_names)
    names = None if feature_names is None else list(feature_names)
    docid = None
    if first.ndim == 1:
        items, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
        _refuse_itself(codes[:n], codes[n:], items)
        docid = items[codes]
        X = sparse.csr_matrix((np.ones(2 * n), (np.arange(2 * n), codes)))
        names = [*map(str, items.tolist()), *(names or [])]
        if features is not None:
            better, worse = (np.atleast_2d(np.asarray(part, np.float64)) for part in features)
            if better.shape != worse.shape or len(better) != n:
                raise SchemaError(
                    "features of the two sides differ in shape, or from the comparisons",
                    fix="Pass (rows of the winners, rows of the losers), one row a comparison",
                )
            if feature_names is None:
                names += [f"feature {j + 1}" for j in range(better.shape[1])]
            style = sparse.csr_matrix(np.vstack([better, worse]))
            X = sparse.hstack([X, style], format="csr")
    else:
        if features is not None:
            raise SchemaError("features beside rows of features", fix="Pass item ids, or rows")
        stack = sparse.vstack if sparse.issparse(first) else np.vstack
        X = stack([first, second])
    order = np.arange(2 * n).reshape(2, n).T.ravel()  # winner, loser, winner, loser ...
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
    return Dataset.from_arrays(
        X[rows],
        label,
        np.repeat(np.arange(len(value)), 2),
        docid=None if docid is None else docid[rows],
        feature_names=names,
        weight=None if weight is None and tie is None else np.repeat(np.sqrt(value), 2),
        columns={"comparison": np.repeat(number, 2)},
    )


def read_pairs(paths: Any, winner: str, loser: str, names: Sequence[str] | None = None) -> Dataset:
    """Comparisons from CSV, JSON lines, Parquet or Arrow files, one a row.

    Parameters
    ----------
    winner, loser
        Columns of item ids. Columns ``winner_x`` and ``loser_x`` are a feature ``x`` of either
        side; without the columns of ids these are all there is.
    names
        The features to give, where others have been learnt from.

    The columns ``tie`` and ``weight`` are read where they exist; any further ones are left alone.
    """
    import pyarrow as pa

    table = pa.concat_tables([_table(source) for source in find_sources(paths)])
    sides = [
        [c for c in table.column_names if c.startswith(f"{side}_")] for side in (winner, loser)
    ]
    shared = [name.removeprefix(f"{winner}_") for name in sides[0]]
    ids = [name in table.column_names for name in (winner, loser)]
    if {f"{loser}_{name}" for name in shared} != set(sides[1]) or not (all(ids) or shared):
        raise SchemaError(
            f"the columns {', '.join(table.column_names)} are no two sides of comparisons",
            fix=f"Give {winner} and {loser}, and each feature twice: {winner}_x and {loser}_x",
        )
    values = {name: _column(table, name) for name in table.column_names
              if name in {winner, loser, "tie", "weight", *sides[0], *sides[1]}}  # fmt: skip
    rows: Any = tuple(
        np.column_stack([values[f"{side}_{name}"] for name in shared]) if shared else None
        for side in (winner, loser)
    )
    data = Dataset.from_pairs(
        *((values[winner], values[loser]) if all(ids) else rows),
        weight=values.get("weight"),
        tie=values.get("tie"),
        features=rows if all(ids) and shared else None,
        feature_names=shared or None,
    )
    return data if names is None else _with_features(data, names)


def _table(source: Source) -> Any:
    import pyarrow as pa
    from pyarrow import csv, feather, json, parquet

    kinds = {".csv": csv.read_csv, ".jsonl": json.read_json, ".ndjson": json.read_json,
             ".parquet": parquet.read_table, ".arrow": feather.read_table}  # fmt: skip
    path = Path(source.name)
    if path.suffix not in kinds:
        raise SchemaError(
            "comparisons are read from .csv, .jsonl, .parquet and .arrow files", file=source.name,
            fix="Write one of these",
        )  # fmt: skip
    try:
        return kinds[path.suffix](path)
    except pa.ArrowInvalid as error:
        raise SchemaError(str(error), file=source.name, fix="Mend the file") from error


def _column(table: Any, name: str) -> NDArray[Any]:
    if table[name].null_count:
        raise SchemaError("a comparison has no value", column=name, fix="Fill or drop it")
    return np.asarray(table[name].to_numpy())


def _with_features(data: Dataset, names: Sequence[str]) -> Dataset:
    place = {name: j for j, name in enumerate(names)}
    own = data.feature_names or ()
    unknown = [name for name in own if name not in place]
    if unknown:
        raise SchemaError(
            f"{', '.join(unknown[:5])} was not there in training", fix="Leave such comparisons out"
        )
    X = sparse.coo_matrix(data.X)
    columns = np.array([place[name] for name in own])[X.col]
    wide = sparse.csr_matrix((X.data, (X.row, columns)), shape=(data.n_rows, len(names)))
    return replace(data, X=wide, feature_names=tuple(names), query_index=data.queries)
