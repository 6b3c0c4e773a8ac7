"""Row storage: the operations on a row of a matrix, for dense and CSR matrices.

Indices are unsigned, because a signed index costs a test for wrap-around at every access in the hot
loop. ``values`` may be float32 or float64; sums are float64. Random rows of a large matrix are not
in the processor's cache, so a loop that has determined its next rows calls ``row_prefetch`` early
and computes meanwhile. Prefetching changes no result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit
from rankine.kernels.dispatch import generic

_LINE = 64  # bytes of a cache line


def prefetch(array: Any, i: int) -> None:
    """Prefetch ``array[i]``, which will be read soon. Does nothing with the JIT off."""


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, i: Any) -> Any:
    signature = types.void(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.gep(view.data, [args[1]])
        raw = builder.bitcast(pointer, cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        name = "llvm.prefetch.p0" if not hasattr(raw.type, "pointee") else "llvm.prefetch.p0i8"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [raw, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


@overload(prefetch, inline="always")  # type: ignore[untyped-decorator]
def _prefetch_overload(array: Any, i: Any) -> Any:
    def fetch(array: Any, i: Any) -> Any:
        _prefetch(array, np.intp(i))

    return fetch


@jit
def prefetch_span(array: Any, start: int, stop: int) -> None:
    """Prefetch ``array[start:stop]``, which will be read soon."""
    step = _LINE // array.itemsize
    for i in range(start, stop, step):
        prefetch(array, i)


class DenseRows(NamedTuple):
    """The rows of a C-ordered matrix."""

    values: NDArray[Any]


class CsrRows(NamedTuple):
    """Compressed sparse rows; the indices of each row are strictly increasing."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]


Rows = DenseRows | CsrRows


def compression_fault(
    indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], width: int
) -> str | None:
    """Return why compressed rows or columns cannot be read, or None.

    Kernels read offsets and indices unchecked. Every compressed matrix from outside passes here.
    """
    if len(indptr) == 0 or indptr[0] < 0 or (indptr[1:] < indptr[:-1]).any():
        return "offsets are out of order"
    start, stop = int(indptr[0]), int(indptr[-1])
    if stop > min(len(indices), len(values)):
        return "offsets exceed the stored values"
    stored = indices[start:stop]
    if len(stored) and not (stored.min() >= 0 and stored.max() < width):
        return "an index is out of range"
    return None


@generic
def n_rows(rows: Rows) -> Any:
    """Count the rows."""


@generic
def row_dot(rows: Rows, i: int, w: NDArray[np.float64]) -> Any:
    """Return <w, x_i>."""


@generic
def row_dot_diff(rows: Rows, a: int, b: int, w: NDArray[np.float64]) -> Any:
    """Return <w, x_a - x_b>."""


@generic
def row_add(rows: Rows, i: int, c: float, w: NDArray[np.float64]) -> None:
    """Add c x_i to w."""


@generic
def row_add_diff(rows: Rows, a: int, b: int, c: float, w: NDArray[np.float64]) -> None:
    """Add c (x_a - x_b) to w."""


@generic
def row_diff_norm2(rows: Rows, a: int, b: int, scratch: NDArray[np.float64]) -> Any:
    """Return |x_a - x_b|^2, summed term by term: no cancellation when the rows are close.

    ``scratch`` contains one zero per feature, before and after the call.
    """


@generic
def row_size(rows: Rows, i: int) -> Any:
    """Return the sum of |x_ij| over j."""


@generic
def row_add_tracked(rows: Rows, i: int, c: float, w: NDArray[np.float64]) -> Any:
    """Add c x_i to w and return the change of |w|^2, so that the norm costs no separate pass."""


@generic
def rows_add_outer(rows: Rows, items: Any, X: Any, Z: Any, out: Any) -> None:
    """Add the lower triangle of the sum of x_i z_i' over the rows ``items`` to ``out``.

    Entries above the diagonal have no meaning. ``X`` holds these rows as a dense matrix, and ``Z``
    the vectors z_i.
    """


@generic
def row_prefetch(rows: Rows, i: int) -> None:
    """Prefetch row i, which will be read soon."""


@jit(fastmath=REDUCE)
def _csr_dot(indices: Any, values: Any, start: int, stop: int, w: Any) -> float:
    total = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        total += values[k] * w[indices[k]]
    return total


@jit(fastmath=REDUCE)
def _dense_dot(values: Any, i: int, w: Any) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        total += values[i, j] * w[j]
    return total


@jit(fastmath=REDUCE)
def _sum_of_magnitudes(values: Any, start: int, stop: int) -> float:
    total = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        total += abs(np.float64(values[k]))
    return total


@jit
def _csr_add(indices: Any, values: Any, start: int, stop: int, c: float, w: Any) -> None:
    for k in range(np.uint64(start), np.uint64(stop)):
        w[indices[k]] += c * values[k]


@jit
def _csr_diff_norm2(indices: Any, values: Any, a: Any, b: Any, scratch: Any) -> float:
    """Return the squared distance of two rows, given as (start, stop)."""
    # Three passes without branches are faster than one merge with branches.
    for k in range(np.uint64(a[0]), np.uint64(a[1])):
        scratch[indices[k]] = values[k]
    total = 0.0
    for k in range(np.uint64(b[0]), np.uint64(b[1])):
        gap = scratch[indices[k]] - values[k]
        total += gap * gap
        scratch[indices[k]] = 0.0
    for k in range(np.uint64(a[0]), np.uint64(a[1])):
        gap = scratch[indices[k]]
        total += gap * gap
        scratch[indices[k]] = 0.0
    return total


@jit(fastmath=REDUCE)
def _csr_add_tracked(indices: Any, values: Any, start: int, stop: int, c: float, w: Any) -> float:
    change = 0.0
    for k in range(np.uint64(start), np.uint64(stop)):
        step = c * values[k]
        old = w[indices[k]]
        w[indices[k]] = old + step
        change += step * (2.0 * old + step)
    return change


@jit(fastmath=REDUCE)
def _dense_add_tracked(values: Any, i: int, c: float, w: Any) -> float:
    change = 0.0
    for j in range(values.shape[1]):
        step = c * values[i, j]
        change += step * (2.0 * w[j] + step)
        w[j] += step
    return change


@jit(fastmath=REDUCE)
def _dense_diff_norm2(values: Any, a: int, b: int) -> float:
    total = 0.0
    for j in range(values.shape[1]):
        gap = np.float64(values[a, j]) - np.float64(values[b, j])
        total += gap * gap
    return total


@n_rows.implementation(DenseRows)
def _dense_n_rows(rows: Any) -> Any:
    return rows.values.shape[0]


@n_rows.implementation(CsrRows)
def _csr_n_rows(rows: Any) -> Any:
    return rows.indptr.shape[0] - 1


@row_dot.implementation(DenseRows)
def _dense_row_dot(rows: Any, i: Any, w: Any) -> Any:
    return _dense_dot(rows.values, i, w)


@row_dot.implementation(CsrRows)
def _csr_row_dot(rows: Any, i: Any, w: Any) -> Any:
    return _csr_dot(rows.indices, rows.values, rows.indptr[i], rows.indptr[i + 1], w)


@row_dot_diff.implementation(DenseRows)
def _dense_row_dot_diff(rows: Any, a: Any, b: Any, w: Any) -> Any:
    return _dense_dot(rows.values, a, w) - _dense_dot(rows.values, b, w)


@row_dot_diff.implementation(CsrRows)
def _csr_row_dot_diff(rows: Any, a: Any, b: Any, w: Any) -> Any:
    plus = _csr_dot(rows.indices, rows.values, rows.indptr[a], rows.indptr[a + 1], w)
    return plus - _csr_dot(rows.indices, rows.values, rows.indptr[b], rows.indptr[b + 1], w)


@row_add.implementation(DenseRows)
def _dense_row_add(rows: Any, i: Any, c: Any, w: Any) -> Any:
    for j in range(rows.values.shape[1]):
        w[j] += c * rows.values[i, j]


@row_add.implementation(CsrRows)
def _csr_row_add(rows: Any, i: Any, c: Any, w: Any) -> Any:
    _csr_add(rows.indices, rows.values, rows.indptr[i], rows.indptr[i + 1], c, w)


@row_add_diff.implementation(DenseRows)
def _dense_row_add_diff(rows: Any, a: Any, b: Any, c: Any, w: Any) -> Any:
    for j in range(rows.values.shape[1]):
        w[j] += c * (np.float64(rows.values[a, j]) - np.float64(rows.values[b, j]))


@row_add_diff.implementation(CsrRows)
def _csr_row_add_diff(rows: Any, a: Any, b: Any, c: Any, w: Any) -> Any:
    _csr_add(rows.indices, rows.values, rows.indptr[a], rows.indptr[a + 1], c, w)
    _csr_add(rows.indices, rows.values, rows.indptr[b], rows.indptr[b + 1], -c, w)


@row_diff_norm2.implementation(DenseRows)
def _dense_row_diff_norm2(rows: Any, a: Any, b: Any, scratch: Any) -> Any:
    return _dense_diff_norm2(rows.values, a, b)


@row_diff_norm2.implementation(CsrRows)
def _csr_row_diff_norm2(rows: Any, a: Any, b: Any, scratch: Any) -> Any:
    first = (rows.indptr[a], rows.indptr[a + 1])
    second = (rows.indptr[b], rows.indptr[b + 1])
    return _csr_diff_norm2(rows.indices, rows.values, first, second, scratch)


@row_size.implementation(DenseRows)
def _dense_row_size(rows: Any, i: Any) -> Any:
    return _sum_of_magnitudes(rows.values[i], 0, rows.values.shape[1])


@row_size.implementation(CsrRows)
def _csr_row_size(rows: Any, i: Any) -> Any:
    return _sum_of_magnitudes(rows.values, rows.indptr[i], rows.indptr[i + 1])


@row_add_tracked.implementation(DenseRows)
def _dense_row_add_tracked(rows: Any, i: Any, c: Any, w: Any) -> Any:
    return _dense_add_tracked(rows.values, i, c, w)


@row_add_tracked.implementation(CsrRows)
def _csr_row_add_tracked(rows: Any, i: Any, c: Any, w: Any) -> Any:
    return _csr_add_tracked(rows.indices, rows.values, rows.indptr[i], rows.indptr[i + 1], c, w)


@jit(fastmath=REDUCE)
def add_outer(X: Any, Z: Any, out: Any) -> None:
    """Add X'Z to ``out``; entries above the diagonal have no meaning."""
    # Blocks of two columns and four rows: entries are loaded and stored once for all of them.
    n_rows, n_columns = X.shape
    whole = n_rows - n_rows % 4
    for j in range(0, n_columns - n_columns % 2, 2):
        first, second = out[j], out[j + 1]
        for i in range(0, whole, 4):
            a, b, c, d = X[i, j], X[i + 1, j], X[i + 2, j], X[i + 3, j]
            e, f, g, h = X[i, j + 1], X[i + 1, j + 1], X[i + 2, j + 1], X[i + 3, j + 1]
            for k in range(j + 2):
                s, t, u, v = Z[i, k], Z[i + 1, k], Z[i + 2, k], Z[i + 3, k]
                first[k] += a * s + b * t + c * u + d * v
                second[k] += e * s + f * t + g * u + h * v
        for i in range(whole, n_rows):
            for k in range(j + 2):
                first[k] += X[i, j] * Z[i, k]
                second[k] += X[i, j + 1] * Z[i, k]
    if n_columns % 2:
        for i in range(n_rows):
            for k in range(n_columns):
                out[n_columns - 1, k] += X[i, n_columns - 1] * Z[i, k]


@rows_add_outer.implementation(DenseRows)
def _dense_rows_add_outer(rows: Any, items: Any, X: Any, Z: Any, out: Any) -> Any:
    add_outer(X, Z, out)


@rows_add_outer.implementation(CsrRows)
def _csr_rows_add_outer(rows: Any, items: Any, X: Any, Z: Any, out: Any) -> Any:
    for i in range(items.shape[0]):
        item = items[i]
        for position in range(np.uint64(rows.indptr[item]), np.uint64(rows.indptr[item + 1])):
            j, value = rows.indices[position], np.float64(rows.values[position])
            for k in range(j + 1):
                out[j, k] += value * Z[i, k]


@row_prefetch.implementation(DenseRows)
def _dense_row_prefetch(rows: Any, i: Any) -> Any:
    flat = rows.values.ravel()
    prefetch_span(flat, i * rows.values.shape[1], (i + 1) * rows.values.shape[1])


@row_prefetch.implementation(CsrRows)
def _csr_row_prefetch(rows: Any, i: Any) -> Any:
    prefetch_span(rows.indices, rows.indptr[i], rows.indptr[i + 1])
    prefetch_span(rows.values, rows.indptr[i], rows.indptr[i + 1])


@jit
def scores_into(
    rows: Rows, start: int, stop: int, w: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Write <w, x_i> to out[i] for start <= i < stop."""
    for i in range(start, stop):
        out[i] = row_dot(rows, i, w)
