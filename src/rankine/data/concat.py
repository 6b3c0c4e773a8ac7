"""Datasets one after the other, as one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.errors import SchemaError
from rankine.data.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["concat"]


def concat(parts: list[Dataset]) -> Dataset:
    """Stack datasets in order; the list is emptied on the way, so that memory is not needed twice.

    Widths may differ when there are no feature names: the result is as wide as the widest. The
    result is CSR if any part is. Docids and weights must be in all parts or in none, except
    that absent docids count as empty.
    """
    if len(parts) == 1:
        return parts.pop()
    names = {part.feature_names for part in parts}
    if len(names) > 1:
        raise SchemaError(
            "files have different feature names", fix="Give every file the same columns"
        )
    for name in ("weight", "position"):
        _all_or_none(name, [getattr(part, name) is not None for part in parts])
    kinds = {part.qid.dtype.kind in "UT" for part in parts}
    if len(kinds) > 1:
        raise SchemaError("some query ids are integers, others strings", fix="Use one kind")
    keys = {frozenset(part.columns) for part in parts}
    if len(keys) > 1:
        raise SchemaError("files have different columns", fix="Give every file the same columns")
    notes: Counter[str] = Counter()
    for part in parts:
        notes.update(part.notes)
    rest = [replace(part, X=None) for part in parts]
    matrix = _stack([parts.pop(0).X for _ in range(len(parts))])
    return Dataset(
        matrix,
        np.concatenate([part.y for part in rest]),
        np.concatenate([part.qid for part in rest]),
        _docids(rest),
        rest[0].feature_names,
        _joined([part.weight for part in rest]),
        _joined([part.position for part in rest]),
        {name: np.concatenate([part.columns[name] for part in rest]) for name in rest[0].columns},
        tuple(dict.fromkeys(name for part in rest for name in part.sources)),
        dict(notes),
        lines=_joined([part.lines for part in rest])
        if all(p.lines is not None for p in rest)
        else None,
    )


def _all_or_none(name: str, present: Sequence[bool]) -> None:
    if any(present) and not all(present):
        raise SchemaError(
            f"some files have {name} and others do not", fix="Give it for all or none"
        )


def _joined(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    found = [part for part in parts if part is not None]
    return np.concatenate(found) if found else None


def _docids(parts: Sequence[Dataset]) -> NDArray[Any] | None:
    if all(part.docid is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(len(p.y), dtype="U1") if p.docid is None else p.docid for p in parts]
    )


def _stack(parts: list[Any]) -> Any:
    """Stack matrices, letting go of each as soon as it is copied."""
    width = max(part.shape[1] for part in parts)
    n_rows = sum(part.shape[0] for part in parts)
    dtype = np.result_type(*(part.dtype for part in parts))
    if not any(sparse.issparse(part) for part in parts):
        out = np.zeros((n_rows, width), dtype=dtype)
        row = 0
        while parts:
            part = parts.pop(0)
            out[row : row + part.shape[0], : part.shape[1]] = part
            row += part.shape[0]
        return out
    compressed = [sparse.csr_matrix(parts.pop(0)) for _ in range(len(parts))]
    return _stack_csr(compressed, n_rows, width, dtype)


def _stack_csr(parts: list[Any], n_rows: int, width: int, dtype: Any) -> Any:
    nnz = sum(part.nnz for part in parts)
    data = np.empty(nnz, dtype=dtype)
    indices = np.empty(nnz, dtype=np.result_type(*(part.indices.dtype for part in parts)))
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    row = used = 0
    while parts:
        part = parts.pop(0)
        data[used : used + part.nnz] = part.data
        indices[used : used + part.nnz] = part.indices
        indptr[row + 1 : row + part.shape[0] + 1] = part.indptr[1:] + np.int64(used)
        row += part.shape[0]
        used += part.nnz
    return make_csr(data, indices, indptr, (n_rows, width))


def make_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    """CSR matrix of checked arrays, without scipy's copies; offsets stay 64-bit when they must."""
    if len(data) < 2**31 and indices.dtype == np.int32:
        indptr = indptr.astype(np.int32)
    else:
        indices = indices.astype(np.int64, copy=False)
    matrix = sparse.csr_matrix(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix
