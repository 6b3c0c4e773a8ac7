"""LETOR text: the shortest decimals that read back as the same numbers."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from rankine.core.atomic import atomic_file
from rankine.core.errors import ParameterError, SchemaError
from rankine.data.compression import open_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from rankine.data.dataset import Dataset

__all__ = ["write_blocks"]

#: Rows formatted at a time.
_SLAB_VALUES = 2**18


def write_blocks(
    blocks: Iterable[Dataset],
    path: str | os.PathLike[str],
    *,
    base: int = 1,
    zeros: bool = False,
    group: bool = False,
) -> int:
    """Write blocks as text that appears only when it is complete.

    Parameters
    ----------
    blocks
        Datasets in row order, of any size.
    path
        The file; ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` compress it, ``-`` is standard output.
    base
        First feature index.
    zeros
        Write the zeros of dense rows too.
    group
        Leave out the query ids and write the rows per query to ``PATH.query`` instead.

    Returns
    -------
    int
        Rows written. Weights and positions go to ``PATH.weight`` and ``PATH.position``, one
        number a line, which is where XGBoost and LightGBM look for them.
    """
    if base not in {0, 1}:
        raise ParameterError(f"base={base} is not known", fix="Choose 0 or 1")
    target = os.fspath(path)
    n_rows = 0
    with ExitStack() as files:
        main = files.enter_context(open_target(target))
        side = _SideFiles(target, files)
        sizes = _GroupSizes()
        for block in blocks:
            _check_columns(block)
            for part in _slabs(block):
                main.write(_format(part, base, zeros=zeros, ids=not group))
                side.write(part)
                sizes.add(part.qid)
            n_rows += block.n_rows
        if group:
            side.file("query").write(sizes.lines())
    return n_rows


class _SideFiles:
    """``PATH.weight`` and ``PATH.position``, opened when the first block has such a column."""

    def __init__(self, target: str, files: ExitStack) -> None:
        self._target = target
        self._files = files
        self._open: dict[str, Any] = {}

    def file(self, name: str) -> Any:
        if self._target == "-":
            raise SchemaError(f"{name} needs a file of its own", fix="Write to a file, or drop it")
        if name not in self._open:
            self._open[name] = self._files.enter_context(atomic_file(f"{self._target}.{name}"))
        return self._open[name]

    def write(self, part: Dataset) -> None:
        for name in ("weight", "position"):
            values = getattr(part, name)
            if values is not None:
                self.file(name).write("".join(f"{text}\n" for text in _texts(values)).encode())


class _GroupSizes:
    """Rows per run of equal query ids."""

    def __init__(self) -> None:
        self._last: Any = None
        self._sizes: list[int] = []

    def add(self, qid: NDArray[Any]) -> None:
        for value in qid.tolist():
            if self._sizes and value == self._last:
                self._sizes[-1] += 1
            else:
                self._sizes.append(1)
                self._last = value

    def lines(self) -> bytes:
        return "".join(f"{size}\n" for size in self._sizes).encode()


def _check_columns(block: Dataset) -> None:
    if block.columns:
        raise SchemaError(
            f"text cannot hold the column {next(iter(block.columns))!r}",
            fix="Write Parquet, or drop the column",
        )


def _slabs(block: Dataset) -> Iterator[Dataset]:
    """Parts of at most about 2^18 values (or one row)."""
    per_row = max(1, block.nnz // max(block.n_rows, 1))
    step = max(1, _SLAB_VALUES // per_row)
    for start in range(0, block.n_rows, step):
        yield block.take(slice(start, start + step))


def _format(part: Dataset, base: int, *, zeros: bool, ids: bool) -> bytes:
    """Lines of a slab, formatted column-wise by Arrow."""
    matrix = _as_csr(part.X, zeros=zeros)
    pairs = pc.binary_join_element_wise(
        _strings(matrix.indices.astype(np.int64) + base), _strings(matrix.data), ":"
    )
    features = pa.ListArray.from_arrays(pa.array(matrix.indptr.astype(np.int32)), pairs)
    fields = [_strings(part.y)]
    if ids:
        fields.append(pc.binary_join_element_wise("qid:", _query_ids(part.qid), ""))
    line = pc.binary_join_element_wise(*fields, pc.binary_join(features, " "), " ")
    line = pc.utf8_rtrim(line, " ")
    if part.docid is not None:
        docids = _tokens(part.docid, "document id", empty=True)
        comment = pc.binary_join_element_wise(" #docid = ", docids, "")
        line = pc.binary_join_element_wise(line, pc.if_else(pc.equal(docids, ""), "", comment), "")
    return ("\n".join(line.to_pylist()) + "\n").encode()


def _as_csr(X: Any, *, zeros: bool) -> Any:
    if sparse.issparse(X):
        return X
    if not zeros:
        return sparse.csr_matrix(X)
    n_rows, n_features = X.shape
    indices = np.tile(np.arange(n_features, dtype=np.int32), n_rows)
    return sparse.csr_matrix(
        (X.ravel(), indices, np.arange(n_rows + 1, dtype=np.int64) * n_features), shape=X.shape
    )


def _strings(values: NDArray[Any]) -> Any:
    """Shortest decimal that reads back as the same number, by Arrow's formatter."""
    return pc.cast(pa.array(values), pa.string())


def _texts(values: NDArray[Any]) -> list[str]:
    found: list[str] = _strings(values).to_pylist()
    return found


def _query_ids(qid: NDArray[Any]) -> Any:
    return _strings(qid) if qid.dtype.kind in "iu" else _tokens(qid, "query id", empty=False)


def _tokens(values: NDArray[Any], what: str, *, empty: bool) -> Any:
    """Texts that a reader will see as one token, or an error."""
    found = pa.array(values.tolist(), type=pa.string())
    pattern = r"^[^\s\pC]*$" if empty else r"^[^\s\pC#]+$"
    good = pc.match_substring_regex(found, pattern)
    if not pc.all(good).as_py():
        bad = found[pc.index(good, False).as_py()].as_py()
        raise SchemaError(
            f"{what} {bad!r} cannot be written as text",
            fix="Remove blanks and control characters, or write Parquet",
        )
    return found
