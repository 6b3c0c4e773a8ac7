r"""Convert comparisons of two items to lists of two rows.

A comparison that a wins over b is a list with the labels 1 and 0, so that its pair loss is
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


def make_pairs(
    winner: Any, loser: Any, weight: Any, tie: Any, features: Any, feature_names: Any
) -> Dataset:
    """Make the dataset of ``Dataset.from_pairs``, which describes the parameters."""
    winners, losers = _check_side(winner, "winner"), _check_side(loser, "loser")
    n_pairs = winners.shape[0]
    if losers.shape[:1] != (n_pairs,) or winners.ndim != losers.ndim:
        raise SchemaError(
            f"winner has shape {winners.shape} and loser {losers.shape}",
            fix="Pass one row, or one item id, per comparison on either side",
        )
    if n_pairs == 0:
        raise EmptyDataError("there are no comparisons", fix="Check the path and the filters")
    reject_sets(feature_names=feature_names)
    names = None if feature_names is None else list(feature_names)
    docid = None
    if winners.ndim == 1:
        items, codes = np.unique(np.concatenate([winners, losers]), return_inverse=True)
        _check_opponents(codes[:n_pairs], codes[n_pairs:], items)
        docid = items[codes]
        X = sparse.csr_matrix((np.ones(2 * n_pairs), (np.arange(2 * n_pairs), codes)))
        names = [*map(str, items.tolist()), *(names or [])]
        if features is not None:
            rows = _stack_features(features, n_pairs)
            if feature_names is None:
                names += [f"feature {j + 1}" for j in range(rows.shape[1])]
            X = sparse.hstack([X, rows], format="csr")
    else:
        if features is not None:
            raise SchemaError(
                "given although winner and loser are rows of features",
                parameter="features",
                fix="Pass item ids, or leave it out",
            )
        stack = sparse.vstack if sparse.issparse(winners) else np.vstack
        X = stack([winners, losers])
    return _to_lists(X, n_pairs, docid, names, weight, tie)


def _check_side(rows: Any, name: str) -> Any:
    side = rows.tocsr() if sparse.issparse(rows) else np.asarray(rows)
    if side.ndim not in (1, 2):
        raise SchemaError(f"{name} has shape {side.shape}", fix="Pass item ids, or rows")
    return side


def _check_opponents(winners: NDArray[Any], losers: NDArray[Any], items: NDArray[Any]) -> None:
    equal = np.flatnonzero(winners == losers)
    if len(equal):
        item = items[winners[equal[0]]]
        raise SchemaError(f"comparison {equal[0]} compares {item} with itself", fix="Leave it out")


def _stack_features(features: tuple[Any, Any], n_pairs: int) -> Any:
    """Stack the winners' rows of features on the losers'."""
    winners, losers = (np.atleast_2d(np.asarray(rows, np.float64)) for rows in features)
    if winners.shape != losers.shape or len(winners) != n_pairs:
        raise SchemaError(
            f"{winners.shape} values of winners and {losers.shape} of losers for {n_pairs} "
            "comparisons",
            parameter="features",
            fix="Pass (rows of the winners, rows of the losers), one row per comparison",
        )
    return sparse.csr_matrix(np.vstack([winners, losers]))


def _to_lists(
    X: Any,
    n_pairs: int,
    docid: NDArray[Any] | None,
    names: list[str] | None,
    weight: ArrayLike | None,
    tie: ArrayLike | None,
) -> Dataset:
    """Make a list of each comparison, given the rows of all winners, then of all losers.

    A tie makes a second list with the labels swapped; each counts half.
    """
    pair_weights = np.ones(n_pairs) if weight is None else check_weight(weight, n_pairs)
    tied = np.zeros(n_pairs, dtype=np.bool_) if tie is None else np.asarray(tie, dtype=np.bool_)
    if tied.shape != (n_pairs,):
        raise SchemaError(
            f"shape {tied.shape} for {n_pairs} comparisons",
            parameter="tie",
            fix="Pass one boolean per comparison",
        )
    ties = np.flatnonzero(tied)
    pair_weights = np.where(tied, 0.5 * pair_weights, pair_weights)
    pair_weights = np.concatenate([pair_weights, pair_weights[ties]])
    numbers = np.concatenate([np.arange(n_pairs), ties])
    rows = np.column_stack([numbers, numbers + n_pairs]).ravel()  # winner, loser, winner, loser ...
    labels = np.concatenate([np.tile([1.0, 0.0], n_pairs), np.tile([0.0, 1.0], len(ties))])
    row_weights = None
    if weight is not None or tie is not None:
        # The weight of a pair is the product of its rows' weights.
        row_weights = np.repeat(np.sqrt(pair_weights), 2)
    return Dataset.from_arrays(
        X[rows],
        labels,
        np.repeat(np.arange(len(numbers)), 2),
        docid=None if docid is None else docid[rows],
        feature_names=names,
        weight=row_weights,
        columns={"comparison": np.repeat(numbers, 2)},
    )


def read_pairs(paths: Any, winner: str, loser: str, names: Sequence[str] | None = None) -> Dataset:
    """Read comparisons from CSV, JSON lines, Parquet or Arrow files, one per row.

    The columns ``tie`` and ``weight`` are read where they exist; other columns are ignored.

    Parameters
    ----------
    winner, loser
        Columns of item ids. Columns ``winner_x`` and ``loser_x`` are a feature ``x`` of either
        side; without the columns of ids these are the only features.
    names
        Names of the result's features, in order, where a model was trained on others.
    """
    import pyarrow as pa

    tables = [_read_table(source) for source in find_sources(paths)]
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            "the files have different columns", fix="Pass files with the same columns"
        ) from error
    prefixes = (f"{winner}_", f"{loser}_")
    columns = [[c for c in table.column_names if c.startswith(prefix)] for prefix in prefixes]
    features = [name.removeprefix(prefixes[0]) for name in columns[0]]
    has_ids = [name in table.column_names for name in (winner, loser)]
    paired = {f"{loser}_{name}" for name in features} == set(columns[1])
    if not paired or not (all(has_ids) or features):
        raise SchemaError(
            f"the columns {', '.join(table.column_names)} are not two sides of comparisons",
            fix=f"Give {winner} and {loser}, and each feature twice: {winner}_x and {loser}_x",
        )
    known_names = {winner, loser, "tie", "weight", *columns[0], *columns[1]}
    values = {name: _to_array(table, name) for name in table.column_names if name in known_names}
    rows: Any = None
    if features:
        rows = tuple(
            np.column_stack([values[f"{prefix}{name}"] for name in features]) for prefix in prefixes
        )
    sides = rows
    if all(has_ids):
        sides = (values[winner], values[loser])
    data = Dataset.from_pairs(
        *sides,
        weight=values.get("weight"),
        tie=values.get("tie"),
        features=rows if all(has_ids) else None,
        feature_names=features or None,
    )
    if names is None:
        return data
    return _select_features(data, names)


def _read_table(source: Source) -> Any:
    import pyarrow as pa
    from pyarrow import csv, feather, json, parquet

    readers = {".csv": csv.read_csv, ".jsonl": json.read_json, ".ndjson": json.read_json,
               ".parquet": parquet.read_table, ".arrow": feather.read_table}  # fmt: skip
    path = Path(source.name)
    if path.suffix not in readers:
        raise SchemaError(
            "comparisons are read from .csv, .jsonl, .parquet and .arrow files",
            file=source.name,
            fix="Convert the file to one of these",
        )
    try:
        return readers[path.suffix](path)
    except pa.ArrowInvalid as error:
        raise SchemaError(str(error), file=source.name, fix="Correct the file") from error


def _to_array(table: Any, name: str) -> NDArray[Any]:
    if table[name].null_count:
        raise SchemaError("a comparison has no value", column=name, fix="Fill or drop it")
    return np.asarray(table[name].to_numpy())


def _select_features(data: Dataset, names: Sequence[str]) -> Dataset:
    """Return the data with the columns ``names``, zero where it does not have them."""
    column_of = {name: j for j, name in enumerate(names)}
    own_names = data.feature_names or ()
    unknown = [name for name in own_names if name not in column_of]
    if unknown:
        raise SchemaError(
            f"the model was trained without the features {', '.join(unknown[:5])}",
            fix="Leave such comparisons out",
        )
    X = sparse.coo_matrix(data.X)
    columns = np.array([column_of[name] for name in own_names])[X.col]
    wide = sparse.csr_matrix((X.data, (X.row, columns)), shape=(data.n_rows, len(names)))
    return replace(data, X=wide, feature_names=tuple(names), query_index=data.queries)
