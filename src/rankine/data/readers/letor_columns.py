"""Growing arrays that the tokenizer appends rows to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LimitError
from rankine.data.concat import make_csr
from rankine.data.readers.letor_codes import State
from rankine.data.readers.letor_tokens import Arrays
from rankine.data.texts import texts
from rankine.kernels.compile import jit

if TYPE_CHECKING:
    from rankine.data.options import ReadOptions

__all__ = ["Columns"]

#: Columns by what they are counted in: rows, stored values, bytes of text.
_ROW_COLUMNS = ("indptr", "y", "qid", "lines", "qid_ends", "docid_ends", "starts", "stops")
#: Slabs in which a matrix goes from sparse to dense storage, so that memory is not needed twice.
_SLABS = 64


class Columns:
    """Rows read so far, and room for more.

    Room is reserved, not touched: the system gives memory only to the parts that are filled.
    """

    def __init__(self, options: ReadOptions, state: NDArray[np.int64], file: str) -> None:
        self._options = options
        self._file = file
        self._state = state
        self._arrays: dict[str, NDArray[Any]] = {}
        self._before: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Forget all rows, but not how much room they took; arrays handed out stay untouched."""
        self._before = {name: self._need(name, 0)[0] for name in self._arrays}
        kinds: dict[str, Any] = {
            "indptr": np.int64,
            "indices": np.int32,
            "values": np.dtype(self._options.dtype),
            "y": np.float64,
            "qid": np.int64,
            "lines": np.int64,
            "qid_ends": np.int64,
            "qid_heap": np.uint8,
            "docid_ends": np.int64,
            "docid_heap": np.uint8,
            "starts": np.int64,
            "stops": np.int64,
        }
        self._arrays = {name: np.zeros(1, dtype=kind) for name, kind in kinds.items()}
        for slot in (State.ROWS, State.NNZ, State.IMPLIED, State.QID_BYTES, State.DOCID_BYTES):
            self._state[slot] = 0
        self._implied_width = 0

    def make_room(self, n_bytes: int, ahead: float = 0.0) -> Arrays:
        """Room for whatever ``n_bytes`` of text can hold: a row takes 2 bytes and a value 4.

        ``ahead`` is the expected final size divided by the size so far, 0 when unknown.
        """
        for name in self._arrays:
            used, worst = self._need(name, n_bytes)
            needed = used + worst + 2
            if needed > len(self._arrays[name]):
                expected = max(int(used * max(1.5, 1.05 * ahead)), self._before.get(name, 0))
                self._grow(name, used, max(needed, expected + worst + 2))
        return Arrays(**self._arrays)

    def settle(self) -> None:
        """Forget the indices of rows that are all full: they can be told from the width."""
        state = self._state
        if state[State.NNZ] and state[State.NNZ] == state[State.ROWS] * state[State.WIDTH]:
            state[State.IMPLIED] = state[State.NNZ]
            self._implied_width = int(state[State.WIDTH])

    def _need(self, name: str, n_bytes: int) -> tuple[int, int]:
        state = self._state
        if name in _ROW_COLUMNS:
            return int(state[State.ROWS]) + (name == "indptr"), n_bytes // 2
        if name == "values":
            return int(state[State.NNZ]), n_bytes // 4
        if name == "indices":
            return int(state[State.NNZ] - state[State.IMPLIED]), n_bytes // 4
        slot = State.QID_BYTES if name == "qid_heap" else State.DOCID_BYTES
        return int(state[slot]), n_bytes

    def _grow(self, name: str, used: int, length: int) -> None:
        old = self._arrays[name]
        limit = self._options.memory_limit
        if length * old.itemsize > limit and (used * old.itemsize > limit // 2):
            raise LimitError(
                f"the data need more than {limit / 2**30:.1f} GiB",
                file=self._file,
                fix="Stream them with rankine.scan, use dtype='float32', or raise max_memory",
            )
        try:
            new = np.empty(length, dtype=old.dtype)
        except MemoryError as error:
            raise LimitError(
                "not enough memory", file=self._file, fix="Stream the data with rankine.scan"
            ) from error
        new[:used] = old[:used]
        self._arrays[name] = new

    def column(self, name: str) -> NDArray[Any]:
        """A column of numbers, one per row, without the room behind it."""
        return self._trimmed(name, int(self._state[State.ROWS]))

    def qid(self) -> NDArray[Any]:
        """Query ids of the rows."""
        if self._options.qid_type == "int" or not self._options.has_query_ids:
            return self.column("qid")
        used = int(self._state[State.QID_BYTES])
        return texts(self._arrays["qid_heap"][:used], self.column("qid_ends"))

    def docid(self) -> NDArray[Any] | None:
        """Document ids of the rows, or None when no row has one."""
        used = int(self._state[State.DOCID_BYTES])
        if used == 0:
            return None
        return texts(self._arrays["docid_heap"][:used], self.column("docid_ends"))

    def matrix(self, n_features: int, dense: bool | None) -> Any:
        """The features: CSR, or dense when asked or when at least half of it is stored.

        Takes the arrays away: call it last.
        """
        n_rows, nnz = int(self._state[State.ROWS]), int(self._state[State.NNZ])
        if dense is None:
            dense = 2 * nnz >= n_rows * n_features
        indptr = self._trimmed("indptr", n_rows + 1)
        indptr[0] = 0
        if dense and nnz == n_rows * n_features:
            # Every row is full and sorted: the values are the matrix.
            return self._trimmed("values", nnz).reshape(n_rows, n_features)
        self._spell_out(nnz)
        if dense:
            return self._dense(indptr, n_rows, n_features)
        indices, values = self._trimmed("indices", nnz), self._trimmed("values", nnz)
        return make_csr(values, indices, indptr, (n_rows, n_features))

    def _spell_out(self, nnz: int) -> None:
        """Write the indices that ``settle`` left out."""
        implied, width = int(self._state[State.IMPLIED]), self._implied_width
        if implied:
            rest = self._trimmed("indices", nnz - implied)
            full = np.empty(nnz, dtype=np.int32)
            full[:implied].reshape(-1, width)[:] = np.arange(width, dtype=np.int32)
            full[implied:] = rest
            self._arrays["indices"] = full

    def _dense(self, indptr: NDArray[np.int64], n_rows: int, n_features: int) -> Any:
        """Move rows to a dense array from the last to the first, giving memory back on the way."""
        dtype = self._arrays["values"].dtype
        if n_rows * n_features * dtype.itemsize > self._options.memory_limit:
            raise LimitError(
                f"{n_rows} x {n_features} numbers do not fit in memory",
                file=self._file,
                fix="Pass dense=False",
            )
        out = np.zeros((n_rows, n_features), dtype=dtype)
        cuts = np.unique(np.linspace(0, n_rows, _SLABS + 1).astype(np.int64))
        for start, stop in zip(cuts[-2::-1], cuts[:0:-1], strict=True):
            _scatter(indptr, self._arrays["indices"], self._arrays["values"], start, stop, out)
            self._trimmed("indices", int(indptr[start]))
            self._trimmed("values", int(indptr[start]))
        return out

    def _trimmed(self, name: str, length: int) -> NDArray[Any]:
        array = self._arrays[name]
        array.resize(length, refcheck=False)  # shrinks in place and gives the rest back
        return array


@jit
def _scatter(indptr: Any, indices: Any, values: Any, start: int, stop: int, out: Any) -> None:
    for i in range(start, stop):
        for k in range(indptr[i], indptr[i + 1]):
            out[i, indices[k]] = values[k]
