"""Data sets in memory: the ``Dataset``, checks of its arrays, and joining of its parts."""

from __future__ import annotations

import os
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankine.core.checks import cell_error
from rankine.core.errors import EmptyDataError, FeatureMismatchError, SchemaError
from rankine.data.compressed import check_sparse
from rankine.data.query_index import LabelIndex, QueryIndex
from rankine.kernels.columns import Columns, CscColumns, columns_of
from rankine.kernels.products import Products
from rankine.kernels.rows import CsrRows, DenseRows, Rows

#: Range of weights above 0: the product of two rows' and a query's weight neither overflows nor
#: loses digits.
LIGHTEST, HEAVIEST = 1e-75, 1e75
#: Lists at the start of a source that scales, cuts and values are measured on.
SAMPLE_LISTS = 10_000
#: NumPy casts these to numbers although they mean something else.
_NOT_NUMBERS = (np.datetime64, np.timedelta64, np.complexfloating)
#: Strings of any length; NumPy's fixed-width type would make every row as wide as the longest.
TEXT = np.dtypes.StringDType()

T = TypeVar("T")


class CodedText(NamedTuple):
    """A column of text: row i holds ``texts[codes[i]]``. Equal dictionaries are one object."""

    codes: NDArray[np.int32]
    texts: Sequence[str]


class NamedColumns(Mapping[str, NDArray[Any]]):
    """Columns by name; text stays coded until its array is requested."""

    def __init__(self, stored: Mapping[str, NDArray[Any] | CodedText]) -> None:
        self._stored = dict(stored)
        self._decoded: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        values = self._stored[name]
        if not isinstance(values, CodedText):
            return values
        if name not in self._decoded:
            texts = np.array(values.texts, dtype=object).astype(TEXT)
            self._decoded[name] = texts[values.codes]
        return self._decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, name: object) -> bool:
        return name in self._stored

    def __repr__(self) -> str:
        return f"columns {', '.join(self._stored)}"

    def coded(self, name: str) -> CodedText | None:
        """Return a column of text without decoding it; None for any other column."""
        values = self._stored[name]
        return values if isinstance(values, CodedText) else None

    def items_as_stored(self) -> Iterator[tuple[str, NDArray[Any] | CodedText]]:
        """Iterate over names and columns, text coded."""
        return iter(self._stored.items())


def take_columns(columns: Mapping[str, NDArray[Any]], rows: Any) -> Mapping[str, NDArray[Any]]:
    """Take rows of columns; text stays coded."""
    if not isinstance(columns, NamedColumns):
        return {name: np.asarray(values)[rows] for name, values in columns.items()}
    selected: dict[str, NDArray[Any] | CodedText] = {}
    for name, values in columns.items_as_stored():
        if isinstance(values, CodedText):
            selected[name] = _take_text(values, rows)
        else:
            selected[name] = values[rows]
    return NamedColumns(selected)


def _take_text(values: CodedText, rows: Any) -> CodedText:
    codes = values.codes[rows]
    # A slice is a view, which keeps its block in memory anyway. Columns that share a dictionary are
    # joined without looking at its texts.
    if isinstance(rows, slice) or 4 * len(codes) >= len(values.texts):
        return values._replace(codes=codes)
    # A few rows must not keep a long dictionary in memory.
    used_codes, codes = np.unique(codes, return_inverse=True)
    return CodedText(codes.astype(np.int32), [values.texts[k] for k in used_codes.tolist()])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples of a ranking problem, in the order they were given.

    Attributes
    ----------
    X
        CSR matrix or C-ordered array, float32 or float64, in the file's row order.
    y
        Labels, larger is better, any finite real numbers (float64).
    qid
        Query id of each row (int64 or strings).
    docid
        Document id of each row, or None.
    feature_names
        One name per column, or None.
    weight, position
        Optional columns: row weights; displayed positions counted from 1.
    columns
        Other named columns (a cutoff per list, margins, prices ...), one value per row.
    sources
        Files that the rows were read from.
    read_counts
        Counts of what the reader changed or skipped (bad rows, missing values ...).
    query_index
        Rows grouped by query, if they were grouped before; see ``queries``.
    lines
        Line of each row in its text file, for errors; only in blocks of a stream.
    encoding
        How the columns of a raw log became features (``rankine.logs.scan``), or None.
    """

    X: Any
    y: NDArray[np.float64]
    qid: NDArray[Any]
    docid: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    weight: NDArray[np.float64] | None = None
    position: NDArray[Any] | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    read_counts: Mapping[str, int] = field(default_factory=dict)
    query_index: QueryIndex | None = None
    lines: NDArray[np.int64] | None = None
    encoding: Any = None

    def __post_init__(self) -> None:
        """Check sizes and weights, and the indices of a sparse ``X``: kernels do not check them."""
        if self.X is None:  # while parts are joined
            return
        object.__setattr__(self, "X", _readable(self.X))
        n_rows = self.X.shape[0]
        object.__setattr__(self, "y", check_labels(self.y, n_rows))
        if self.weight is not None:
            object.__setattr__(self, "weight", _to_real(self.weight, "weights", "Pass numbers"))
        columns = {"qid": self.qid, "docid": self.docid, "weight": self.weight}
        columns |= {"position": self.position, "lines": self.lines}
        for name, values in columns.items():
            if values is not None:
                _check_column(values, n_rows, name)
        if self.weight is not None:
            _check_weight_range(self.weight, "weight")
        if self.query_index is not None and self.query_index.n_rows != n_rows:
            raise SchemaError(
                f"query_index has {self.query_index.n_rows} rows, X {n_rows}",
                fix="Leave it out",
            )

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        docid: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        weight: ArrayLike | None = None,
        position: ArrayLike | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        infinite: bool = False,
    ) -> Dataset:
        """Make a dataset of arrays, sparse matrices or data frames.

        Features of type float32 or float64 are not copied. ``group`` (rows per query, in row
        order) can be passed instead of ``qid``. NaN is a missing value; infinity is refused
        unless ``infinite`` is set.
        """
        from rankine.data.frames import split_frame

        frame = split_frame(X, feature_names)
        matrix = check_matrix(frame.values, frame.names, infinite=infinite)
        n_rows = matrix.shape[0]
        labels = check_labels(y, n_rows)
        if group is None:
            index = QueryIndex.from_qid(frame.qid if qid is None else qid, n_rows)
        elif qid is not None:
            raise SchemaError("both qid and group were given", fix="Pass one of them")
        else:
            index = QueryIndex.from_group(group, n_rows)
        names = None if frame.names is None else tuple(str(name) for name in frame.names)
        if names is not None and len(names) != matrix.shape[1]:
            raise SchemaError(
                f"{len(names)} feature names for {matrix.shape[1]} columns",
                parameter="feature_names",
                fix="Name every column once",
            )
        return cls(
            matrix,
            labels,
            index.ids[index.codes] if n_rows else index.ids,
            None if docid is None else _check_column(docid, n_rows, "docid"),
            names,
            None if weight is None else check_weight(weight, n_rows),
            None if position is None else _check_column(position, n_rows, "position"),
            {name: _check_column(column, n_rows, name) for name, column in (columns or {}).items()},
            query_index=index,
        )

    @classmethod
    def from_pairs(
        cls,
        winner: Any,
        loser: Any,
        *,
        weight: ArrayLike | None = None,
        tie: ArrayLike | None = None,
        features: tuple[Any, Any] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Dataset:
        """Make a dataset of comparisons: arena votes, side-by-side judgements.

        Each is a list of two rows with the labels 1 and 0 (``rankine.data.comparisons``).

        Parameters
        ----------
        winner, loser
            Rows of features, or item ids (then every item has a separate feature).
        weight
            What a comparison counts; learn with ``RankSVM(normalization="pair")``, whose pairs
            weigh this much.
        tie
            True where neither won: half a win for either side.
        features
            With item ids: rows of the winners and rows of the losers (length, style ...).
        feature_names
            Names of the features (with item ids: of ``features``).

        Examples
        --------
        >>> data = Dataset.from_pairs(["a", "a", "b"], ["b", "c", "c"])
        >>> data.n_queries, data.feature_names
        (3, ('a', 'b', 'c'))
        """
        from rankine.data.comparisons import make_pairs

        return make_pairs(winner, loser, weight, tie, features, feature_names)

    @cached_property
    def queries(self) -> QueryIndex:
        """Rows grouped by query."""
        return self.query_index or QueryIndex.from_qid(self.qid, len(self.y))

    @cached_property
    def labels(self) -> LabelIndex:
        """Rows grouped by query and label."""
        return LabelIndex.build(self.queries, self.y)

    @cached_property
    def rows(self) -> Rows:
        """Row storage as the kernels read it."""
        return as_rows(self.X)

    @cached_property
    def complete(self) -> bool:
        """Whether no value is missing (NaN)."""
        values = self.X.data if sparse.issparse(self.X) else self.X
        return all_finite(values) or not np.isnan(values).any()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.queries.n_queries

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self.X.nnz if sparse.issparse(self.X) else self.X.size)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of numbers, ids and names: equal data give equal fingerprints in any format."""
        from rankine.data.fingerprint import fingerprint

        return fingerprint([self])

    @property
    def item_ids(self) -> Any:
        """Id of each row's item: ``docid``, or the item column of a raw log; None without one."""
        if self.docid is not None:
            return self.docid
        return self._log_column("item")

    @property
    def query_texts(self) -> Any:
        """What was searched for, row by row: a column of the text, or None."""
        for name in ("query_text", "query", "text"):
            if name in self.columns:
                return self.columns[name]
        return self._log_column("search")

    def _log_column(self, use: str) -> Any:
        """Return the column that the schema of a raw log names for a use, or None."""
        name = getattr(getattr(self.encoding, "schema", None), use, None)
        return self.columns.get(name) if name is not None else None

    def take(self, rows: NDArray[Any] | slice) -> Dataset:
        """Take rows by number, in the given order; a slice gives views where it can."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            qid=self.qid[rows],
            docid=None if self.docid is None else self.docid[rows],
            weight=None if self.weight is None else self.weight[rows],
            position=None if self.position is None else self.position[rows],
            columns=take_columns(self.columns, rows),
            query_index=None,
            lines=None if self.lines is None else self.lines[rows],
        )

    def take_queries(self, queries: NDArray[Any]) -> Dataset:
        """Take whole queries by their positions in ``queries.ids``."""
        index = self.queries
        numbers = np.asarray(queries, dtype=np.int64)
        # Neighbouring queries of grouped rows are a slice, which copies nothing.
        if index.rows is None and len(numbers) and (np.diff(numbers) == 1).all():
            return self.take(
                slice(int(index.starts[numbers[0]]), int(index.starts[numbers[-1] + 1]))
            )
        return self.take(index.rows_of_queries(numbers))

    def blocks(self, max_rows: int = 65536) -> Iterator[Dataset]:
        """Yield query-aligned parts of at most ``max_rows`` rows, or one longer query."""
        starts = self.queries.starts
        first = 0
        while first < self.n_queries:
            # The last query that still fits; a query longer than a block is a block of its own.
            last = int(np.searchsorted(starts, starts[first] + max_rows, side="right")) - 1
            last = max(last, first + 1)
            yield self.take_queries(np.arange(first, last))
            first = last

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write to a file; the suffix decides the format (see ``rankine.data.save``)."""
        from rankine.data.save import save

        save(self, path, **options)

    def __len__(self) -> int:
        return self.n_rows

    def _repr_html_(self) -> str:
        from rankine.data.html import dataset_html

        return dataset_html(self)

    def __repr__(self) -> str:
        storage = "sparse" if sparse.issparse(self.X) else "dense"
        return (
            f"Dataset({self.n_rows:,} rows x {self.n_features:,} {storage} features, "
            f"{self.n_queries:,} queries)"
        )


def row_slices(data: Dataset, n_values: int) -> Iterator[slice]:
    """Yield slices of the rows in order, each of about ``n_values`` values and at least one row."""
    step = max(1, n_values * data.n_rows // max(data.nnz, 1))
    return (slice(start, start + step) for start in range(0, data.n_rows, step))


def row_scores(X: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute X w, each row summed separately: a score does not depend on the other rows."""
    weights = np.ascontiguousarray(coef, dtype=np.float64)
    if weights.shape != (X.shape[1],):
        raise FeatureMismatchError(
            f"weights of shape {weights.shape} for {X.shape[1]} columns",
            fix="Pass one weight per column",
        )
    return Products(as_rows(X), X.shape[1]).scores(weights)


def as_rows(X: Any) -> Rows:
    """View a matrix as row storage of the kernels; indices are viewed as unsigned, never copied."""
    if not sparse.issparse(X):
        return DenseRows(X)
    if X.format == "csc":
        X = X.tocsr()
    return CsrRows(X.indptr.astype(np.int64, copy=False), _as_unsigned(X.indices), X.data)


def _as_unsigned(indices: NDArray[Any]) -> NDArray[Any]:
    # Unsigned indices save kernels a test for negative ones per access.
    return indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)


def check_matrix(X: Any, names: Sequence[Any] | None = None, *, infinite: bool = False) -> Any:
    """Return features as C-ordered floats or canonical CSR, copied only where necessary.

    NaN is a missing value; infinity is refused unless ``infinite`` is set. Errors name row and
    column, by its name where ``names`` are given.
    """
    if sparse.issparse(X):
        return _check_csr(X, names, infinite=infinite)
    array = np.asarray(X)
    if array.dtype.kind not in "fiub":
        array = _parse_numbers(array, names)
    if array.ndim != 2:
        raise SchemaError(f"X has {array.ndim} dimensions", fix="Pass rows x features")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    array = np.ascontiguousarray(array)
    if not infinite and not all_finite(array) and np.isinf(array).any():
        row, column = np.argwhere(np.isinf(array))[0].tolist()
        raise _infinite_error(row, column, array[row, column], names)
    return array


def _check_csr(X: Any, names: Sequence[Any] | None, *, infinite: bool) -> Any:
    if X.dtype.kind not in "fiub":
        raise _type_error(X.dtype)
    matrix = check_sparse(X).tocsr()
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if not infinite and not all_finite(matrix.data) and np.isinf(matrix.data).any():
        position = int(np.argmax(np.isinf(matrix.data)))
        row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
        raise _infinite_error(row, int(matrix.indices[position]), matrix.data[position], names)
    return matrix


def _parse_numbers(array: NDArray[Any], names: Sequence[Any] | None) -> NDArray[np.float64]:
    """Convert Python objects and digits in text to numbers; refuse times and complex numbers."""
    if array.dtype.kind not in "OUST":
        raise _type_error(array.dtype)
    # The types are few, the cells many.
    doubtful = (*_NOT_NUMBERS, str, bytes)
    has_doubtful = any(issubclass(cell_type, doubtful) for cell_type in set(map(type, array.flat)))
    if not has_doubtful or all(map(_is_number, array.flat)):
        with suppress(TypeError, ValueError, OverflowError):
            return array.astype(np.float64)
    bad_cells = (cell for cell in np.ndenumerate(array) if not _is_number(cell[1]))
    position, value = next(bad_cells, ((), array))
    what = f"is {_shown(value)}, not a number"
    if not isinstance(value, (str, bytes)):
        what += "; argument must be a string or a number"  # scikit-learn's checks look for this
    fix = "Encode it as numbers first, or leave the column out"
    if len(position) == 2:
        raise cell_error(*position, names, what, fix)
    raise SchemaError(f"X {what}", fix=fix)


def _shown(value: Any) -> str:
    """Return a value for a message; NumPy's texts look like Python's."""
    return reprlib.repr(str(value) if isinstance(value, str) else value)


def _is_number(value: Any) -> bool:
    text = str(value, "latin-1") if isinstance(value, bytes) else value
    if isinstance(value, _NOT_NUMBERS):
        return False
    # Python alone reads 1_0 as 10, and digits of other alphabets.
    if isinstance(text, str) and ("_" in text or not text.isascii()):
        return False
    try:
        return isinstance(float(value), float)
    except (TypeError, ValueError, OverflowError):
        return False


def _readable(X: Any) -> Any:
    """Return a matrix that kernels can read: floats in C order, or checked CSR or CSC."""
    if sparse.issparse(X):
        X = check_sparse(X)
    elif isinstance(X, np.ndarray):
        X = np.ascontiguousarray(X)
    if getattr(X, "dtype", None) not in (np.float32, np.float64) or X.ndim != 2:
        return check_matrix(X, infinite=True)
    return X


def _type_error(dtype: Any) -> SchemaError:
    reason = f"X is of type {dtype}, not numbers"
    if dtype.kind == "c":
        reason += "; Complex data not supported"  # scikit-learn's checks look for this
    return SchemaError(reason, fix="Encode it as numbers")


def _infinite_error(row: int, column: int, value: Any, names: Sequence[Any] | None) -> SchemaError:
    fix = "Store finite numbers, and NaN where a value is missing"
    return cell_error(row, column, names, f"is {value}; Input X contains infinity", fix)


def all_finite(values: NDArray[Any]) -> bool:
    """Whether every value is finite."""
    # A finite sum proves finite terms without a temporary array; a sum that overflows does not
    # prove anything.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def check_finite(values: NDArray[Any], name: str) -> None:
    """Refuse NaN and infinity, and name the first one's position."""
    if all_finite(values):
        return
    position = tuple(np.argwhere(~np.isfinite(values))[0])
    indices = ", ".join(str(k) for k in position)
    raise SchemaError(
        f"{name}[{indices}] is {values[position]}; Input {name} contains NaN or infinity",
        fix="Remove or impute such values before training",
    )


def _to_real(values: ArrayLike, name: str, fix: str) -> NDArray[np.float64]:
    """Convert numbers to float64; refuse complex numbers, times and texts."""
    try:
        array = np.asarray(values)
        bad_cells = []
        if array.dtype.kind in "OUST":
            bad_cells = [cell for cell in array.flat if not _is_number(cell)]
        if array.dtype.kind not in "cmM" and not bad_cells:
            return array.astype(np.float64, copy=False)
        why = f"they are of type {array.dtype}"
        if bad_cells:
            why = f"{_shown(bad_cells[0])} is not a number"
    except (TypeError, ValueError, OverflowError) as error:
        why = str(error)
    raise SchemaError(f"{name} are not numeric: {why}", fix=fix)


def check_labels(y: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """Return labels as finite float64, one per row."""
    labels = _to_real(y, "labels", "Pass real numbers, larger is better")
    if labels.shape != (n_rows,):
        raise SchemaError(
            f"y has shape {labels.shape} for {n_rows} rows", fix="Pass one label per row"
        )
    check_finite(labels, "y")
    return np.ascontiguousarray(labels)


def beyond_weights(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which weights are so large or small that their products would be infinite or 0."""
    return (values > HEAVIEST) | ((values > 0) & (values < LIGHTEST))


def check_weight(
    weight: ArrayLike, n_rows: int, name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return weights as float64, one per row, each 0 or between LIGHTEST and HEAVIEST, not all 0.

    scikit-learn's checks look for some of the messages.
    """
    values = _to_real(weight, f"the numbers of {name}", "Pass weights >= 0")
    # scikit-learn passes one number for all rows.
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        item = "query" if name == "query_weight" else "row"
        raise SchemaError(
            f"{name}.shape == {values.shape}, expected {(n_rows,)}",
            fix=f"Pass one weight per {item}",
        )
    _check_weight_range(values, name)
    if n_rows and not (values > 0).any():
        raise SchemaError(
            "Sample weights must contain at least one non-zero number", fix="Pass a positive weight"
        )
    return values


def _check_weight_range(values: NDArray[np.float64], name: str) -> None:
    check_finite(values, name)
    if (values < 0).any():
        raise SchemaError(f"Negative values in data passed to `{name}`", fix="Pass weights >= 0")
    beyond = np.flatnonzero(beyond_weights(values))
    if len(beyond):
        raise SchemaError(
            f"weight {values[beyond[0]]:g} at position {beyond[0]} is not between "
            f"{LIGHTEST:g} and {HEAVIEST:g}",
            fix="Multiply all weights by one number",
        )


def _check_column(values: ArrayLike, n_rows: int, name: str) -> NDArray[Any]:
    column = np.asarray(values)
    if column.shape != (n_rows,):
        raise SchemaError(
            f"{name} has shape {column.shape} for {n_rows} rows", fix="Pass one value per row"
        )
    return column


def require_rows(data: Dataset) -> Dataset:
    """Refuse a dataset without rows."""
    if data.n_rows == 0:
        raise EmptyDataError("the data holds no rows", fix="Check the path and the filters")
    return data


def is_column_storage(X: Any) -> bool:
    """Whether X is a CSC matrix that kernels can use without a copy: canonical and of floats."""
    is_csc = sparse.issparse(X) and X.format == "csc" and X.dtype in (np.float32, np.float64)
    return bool(is_csc and check_sparse(X) is X)


def column_storage(X: Any) -> tuple[Columns, tuple[int, int]]:
    """Return column storage and shape of a matrix: views of a canonical CSC, else a copy."""
    if is_column_storage(X):
        check_finite(X.data, "X")
        indptr = X.indptr.astype(np.int64, copy=False)
        return CscColumns(indptr, _as_unsigned(X.indices), X.data), X.shape
    matrix = check_matrix(X)
    return columns_of(as_rows(matrix), matrix.shape[1]), matrix.shape


def first_lists(
    blocks: Iterable[Dataset], count: int = SAMPLE_LISTS, *, n_rows: int | None = None
) -> Iterator[Dataset]:
    """Yield the first ``count`` lists, however blocks are cut.

    With ``n_rows``, end with the list that reaches this number of rows.
    """
    n_left, n_rows_left = count, n_rows
    for block in blocks:
        n_lists = min(block.n_queries, n_left)
        if n_rows_left is not None:
            reaching = int(np.searchsorted(block.queries.starts[1:], n_rows_left))
            n_lists = min(n_lists, reaching + 1)
            n_rows_left -= block.n_rows
        if n_lists == block.n_queries:
            yield block
        else:
            yield block.take_queries(np.arange(n_lists))
        n_left -= n_lists
        if n_left <= 0 or (n_rows_left is not None and n_rows_left <= 0):
            return


def drain(items: list[T]) -> Iterator[T]:
    """Yield the items of a list from first to last, removing each from the list."""
    while items:
        yield items.pop(0)


def concat(parts: Iterable[Dataset]) -> Dataset:
    """Stack datasets in order.

    Widths may differ if there are no feature names: the result is as wide as the widest part. The
    result is CSR if any part is. Weights and positions must be in all parts or in none; missing
    document ids become empty. Without parts the result has no rows.

    Parameters
    ----------
    parts
        With an iterator that keeps no part (``drain(list)``) each matrix is released as soon as it
        is copied, so that memory is not needed twice.
    """
    remaining = list(parts)
    if not remaining:
        return Dataset(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))
    if len(remaining) == 1:
        return remaining[0]
    _check_compatible(remaining)
    # Only the matrices are large: they are released one by one, the other columns are not.
    read_counts = sum((Counter(part.read_counts) for part in remaining), Counter[str]())
    columns = [replace(part, X=None) for part in remaining]
    matrices = [part.X for part in remaining]
    remaining.clear()
    lines = None
    if all(part.lines is not None for part in columns):
        lines = _join_optional([part.lines for part in columns])
    return Dataset(
        _stack_and_release(matrices),
        np.concatenate([part.y for part in columns]),
        np.concatenate([part.qid for part in columns]),
        _join_docids(columns),
        columns[0].feature_names,
        _join_optional([part.weight for part in columns]),
        _join_optional([part.position for part in columns]),
        _join_columns([part.columns for part in columns]),
        tuple(dict.fromkeys(name for part in columns for name in part.sources)),
        dict(read_counts),
        lines=lines,
        encoding=columns[0].encoding,
    )


def _check_compatible(parts: Sequence[Dataset]) -> None:
    if len({part.feature_names for part in parts}) > 1:
        raise SchemaError(
            "files have different feature names", fix="Give every file the same columns"
        )
    for name in ("weight", "position"):
        if len({getattr(part, name) is None for part in parts}) > 1:
            raise SchemaError(
                f"some files have {name} and others do not", fix="Give it for all or none"
            )
    if len({part.qid.dtype.kind in "UT" for part in parts}) > 1:
        raise SchemaError("some query ids are integers, others strings", fix="Use one type")
    if len({frozenset(part.columns) for part in parts}) > 1:
        raise SchemaError("files have different columns", fix="Give every file the same columns")


def _join_columns(parts: Sequence[Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
    joined: dict[str, NDArray[Any] | CodedText] = {}
    for name in parts[0]:
        coded = [part.coded(name) for part in parts if isinstance(part, NamedColumns)]
        texts = [column for column in coded if column is not None]
        if len(texts) == len(parts):
            joined[name] = _join_texts(texts)
        else:
            joined[name] = _join_values([part[name] for part in parts], name)
    return NamedColumns(joined)


def _join_values(parts: Sequence[NDArray[Any]], name: str) -> NDArray[Any]:
    try:
        return np.concatenate(parts)
    except TypeError as error:  # such as text after integers
        types = " and ".join(dict.fromkeys(str(part.dtype) for part in parts))
        raise SchemaError(
            f"column {name!r} has values of the types {types}",
            fix="Store it with one type in all files",
            column=name,
        ) from error


def _join_texts(parts: Sequence[CodedText]) -> CodedText:
    """Join columns of text; the dictionary holds each distinct text once."""
    texts = parts[0].texts
    if all(part.texts is texts for part in parts):
        return CodedText(np.concatenate([part.codes for part in parts]), texts)
    # Blocks often share one dictionary object, which is then translated once.
    code_of: dict[str, int] = {}
    new_codes: dict[int, NDArray[np.int32]] = {}  # by the identity of a dictionary
    for part in parts:
        if id(part.texts) not in new_codes:
            codes = (code_of.setdefault(text, len(code_of)) for text in part.texts)
            new_codes[id(part.texts)] = np.fromiter(codes, np.int32, len(part.texts))
    joined = np.concatenate([new_codes[id(part.texts)][part.codes] for part in parts])
    return CodedText(joined, list(code_of))


def _join_optional(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


def _join_docids(parts: Sequence[Dataset]) -> NDArray[Any] | None:
    if all(part.docid is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(len(p.y), dtype="U1") if p.docid is None else p.docid for p in parts]
    )


def _stack_and_release(matrices: list[Any]) -> Any:
    """Stack matrices; the list is emptied, so that each is released as soon as it is copied."""
    width = max(matrix.shape[1] for matrix in matrices)
    n_rows = sum(matrix.shape[0] for matrix in matrices)
    dtype = np.result_type(*(matrix.dtype for matrix in matrices))
    if any(sparse.issparse(matrix) for matrix in matrices):
        rows = [sparse.csr_matrix(matrix) for matrix in drain(matrices)]
        return _stack_csr_and_release(rows, (n_rows, width), dtype)
    # Zeros, since narrower parts have no value in the last columns.
    stacked = np.zeros((n_rows, width), dtype=dtype)
    row = 0
    for matrix in drain(matrices):
        stacked[row : row + matrix.shape[0], : matrix.shape[1]] = matrix
        row += matrix.shape[0]
    return stacked


def _stack_csr_and_release(matrices: list[Any], shape: tuple[int, int], dtype: Any) -> Any:
    nnz = sum(matrix.nnz for matrix in matrices)
    data = np.empty(nnz, dtype=dtype)
    indices = np.empty(nnz, dtype=np.result_type(*(matrix.indices.dtype for matrix in matrices)))
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    row = start = 0
    for matrix in drain(matrices):
        stop = start + matrix.nnz
        data[start:stop] = matrix.data
        indices[start:stop] = matrix.indices
        indptr[row + 1 : row + matrix.shape[0] + 1] = matrix.indptr[1:] + np.int64(start)
        row += matrix.shape[0]
        start = stop
    return make_csr(data, indices, indptr, shape)


def make_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    """Build a canonical CSR matrix of checked arrays without scipy's copies and checks.

    Indices and offsets have 32 bits where they can: scipy requires both to be of one type.
    """
    if len(data) < 2**31 and indices.dtype == np.int32:
        indptr = indptr.astype(np.int32)
    else:
        indices = indices.astype(np.int64, copy=False)
    # Attributes are set one by one: the constructor would check and copy all three arrays.
    matrix = sparse.csr_matrix(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    matrix.has_canonical_format = True
    return matrix
