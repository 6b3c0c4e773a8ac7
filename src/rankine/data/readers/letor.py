"""LETOR / SVMlight text, strictly: exact values, or an error with file, line and column.

Text comes in windows of whole lines, in a buffer that no line can blow up; the tokenizer appends
rows to growing arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import LimitError, ParameterError, ParseError
from rankine.core.safe_text import printable
from rankine.data.compression import ByteStream, fill, open_stream, refuse_other_kinds
from rankine.data.dataset import Dataset, make_csr
from rankine.data.options import ReadOptions
from rankine.data.progress import Meter
from rankine.data.readers.letor_errors import explain
from rankine.data.readers.letor_tokens import Arrays, Fault, Rules, State, nearest, parse_lines
from rankine.data.sources import Source
from rankine.kernels.compile import jit

#: Fixed-width strings up to this length; longer ones get numpy's variable-width type, so that one
#: long text does not make every row as wide.
_WIDEST = 256


def texts(heap: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[Any]:
    r"""String k is ``heap[ends[k - 1]:ends[k]]``, decoded as UTF-8.

    Bytes that are not UTF-8, and control characters, are shown escaped (``\xff``).
    """
    width, plain = _survey(heap, ends)
    if plain and width <= _WIDEST:
        out = np.zeros((len(ends), width), dtype=np.uint32)
        _spread(heap, ends, out)
        return out.view(f"U{width}").ravel()
    starts = np.concatenate([[0], ends[:-1]]).tolist()
    data = heap.tobytes()
    decoded = [_decode(data[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)]
    if max(map(len, decoded)) <= _WIDEST:
        return np.array(decoded, dtype=np.str_)
    return np.array(decoded, dtype=np.dtypes.StringDType())


def _decode(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return printable(text, len(text))


@jit
def _survey(heap: Any, ends: Any) -> Any:
    """(length of the longest text, at least 1; whether all bytes are printable ASCII)."""
    width = 1
    start = 0
    for end in ends:
        width = max(width, end - start)
        start = end
    for c in heap:
        if not 32 <= c <= 126:
            return width, False
    return width, True


@jit
def _spread(heap: Any, ends: Any, out: Any) -> None:
    start = 0
    for k in range(ends.shape[0]):
        for j in range(ends[k] - start):
            out[k, j] = heap[start + j]
        start = ends[k]


_CR = 13


@dataclass
class Window:
    """Whole lines ``buffer[:end]``; a last line without a line feed is closed by one.

    ``cut`` says that the file ends without a line feed.
    """

    buffer: NDArray[np.uint8]
    end: int
    cut: bool = False


def line_windows(
    stream: ByteStream,
    head: bytes,
    chunk_bytes: int,
    max_line_bytes: int,
    lines: NDArray[np.int64],
) -> Iterator[Window]:
    """Read windows of whole lines from ``head`` (read already) and the stream.

    The buffer holds at most a chunk and one line of ``max_line_bytes``; a longer line is refused
    before it is read. ``lines[0]``, the lines parsed so far, gives such an error its place.
    """
    store = bytearray(len(head) + 2 * chunk_bytes)
    store[: len(head)] = head
    held, stop = 0, len(head)
    while True:
        stop += fill(stream, memoryview(store)[stop : stop + chunk_bytes])
        if stop == held:
            if held:
                yield _last_window(store, held)
            return
        last = store.rfind(b"\n", held, stop) + 1
        if last:
            yield Window(_array(store), last)
            store[: stop - last] = store[last:stop]
            stop -= last
        held = stop
        if held > max_line_bytes:
            raise long_line(max_line_bytes, int(lines[0]) + 1)
        if held + chunk_bytes + 2 > len(store):
            longest = max_line_bytes + 2 * chunk_bytes + 2
            store = store[:held] + bytearray(min(2 * len(store), longest) - held)


def _last_window(store: bytearray, held: int) -> Window:
    """Close the last line; a blank keeps a carriage return from being taken for its end."""
    closing = b" \n" if store[held - 1] == _CR else b"\n"
    store[held : held + len(closing)] = closing
    return Window(_array(store), held + len(closing), cut=True)


def long_line(limit: int, line: int) -> LimitError:
    """The error for a line above the limit."""
    return LimitError(
        f"the line is longer than {limit} bytes",
        line=line,
        fix="Check that the file is text; raise max_line_bytes if it is",
    )


def _array(store: Any) -> NDArray[np.uint8]:
    return np.frombuffer(store, dtype=np.uint8)


#: Columns by what they are counted in: rows, stored values, bytes of text.
_ROW_COLUMNS = ("indptr", "y", "qid", "lines", "qid_ends", "docid_ends", "starts", "stops")
#: Slabs in which a matrix goes from sparse to dense storage, so that memory is not needed twice.
_SLABS = 64


class Columns:
    """Rows read so far, and room for more.

    Room is reserved, not touched: the system gives memory only to the parts that are filled.
    """

    def __init__(self, options: ReadOptions, state: NDArray[np.int64]) -> None:
        self._options = options
        self._state = state
        self._arrays: dict[str, NDArray[Any]] = {}
        self._before: Counter[str] = Counter()
        self.reset()

    def reset(self) -> None:
        """Forget all rows, but not how much room they took; arrays handed out stay untouched."""
        self._before = Counter({name: self._need(name, 0)[0] for name in self._arrays})
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
        self._arrays = {name: np.array([0], dtype=kind) for name, kind in kinds.items()}
        for slot in (State.ROWS, State.NNZ, State.IMPLIED, State.QID_BYTES, State.DOCID_BYTES):
            self._state[slot] = 0

    def make_room(self, n_bytes: int, ahead: float = 0.0) -> Arrays:
        """Room for whatever ``n_bytes`` of text can hold: a row takes 2 bytes and a value 4.

        ``ahead`` is the expected final size divided by the size so far, 0 when unknown.
        """
        for name in self._arrays:
            used, worst = self._need(name, n_bytes)
            room = worst + 2
            if used + room > len(self._arrays[name]):
                expected = max(int(used * max(1.5, 1.05 * ahead)), self._before[name])
                self._grow(name, used, expected + room)
        return Arrays(**self._arrays)

    def settle(self) -> None:
        """Forget the indices of rows that are all full: they can be told from the width."""
        state = self._state
        if state[State.NNZ] == state[State.ROWS] * state[State.WIDTH]:
            state[State.IMPLIED] = state[State.NNZ]

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
                fix="Stream them with rankine.scan, use dtype='float32', or raise max_memory",
            )
        try:
            new = np.empty(length, dtype=old.dtype)
        except MemoryError as error:
            raise LimitError(
                "not enough memory", fix="Stream the data with rankine.scan"
            ) from error
        new[:used] = old[:used]
        self._arrays[name] = new

    def column(self, name: str) -> NDArray[Any]:
        """A column of numbers, one per row, without the room behind it."""
        return self._trimmed(name, int(self._state[State.ROWS]))

    def qid(self) -> NDArray[Any]:
        """Query ids of the rows."""
        if not self._options.has_query_ids:
            return np.zeros(int(self._state[State.ROWS]), dtype=np.int64)
        if self._options.qid_type == "int":
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
        implied = int(self._state[State.IMPLIED])
        if implied:
            width = self._arrays["indptr"][1]  # that of the first row, and of all others left out
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
                f"{n_rows} x {n_features} numbers do not fit in memory", fix="Pass dense=False"
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


#: Values after which a block is handed on: joining small pieces needs less memory than large ones.
_BLOCK_VALUES = 2**19


def read(source: Source, options: ReadOptions) -> Dataset:
    """The whole file."""
    reader = Reader(source, options)
    for _ in reader.windows():
        pass
    return reader.take(last=True)


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Blocks of at most about ``block_rows`` rows or a few megabytes, in file order."""
    reader = Reader(source, options, streaming=True)
    for _ in reader.windows():
        if reader.n_rows >= options.block_rows or reader.n_values >= _BLOCK_VALUES:
            yield reader.take()
    if reader.n_rows or reader.read_counts or reader.narrower:
        yield reader.take(last=True)


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: the largest index of the file; one pass, bounded memory."""
    reader = Reader(source, options, streaming=True)
    for _ in reader.windows():
        reader.forget()
    return reader.width


def feature_names(source: Source, options: ReadOptions) -> None:
    """Return None: text has no place for names."""
    return


def _refuse_columns(options: ReadOptions) -> None:
    """Text has no columns to be named."""
    usual = ReadOptions()
    for name in ("label", "query", "docid", "weight", "position", "columns", "features"):
        value = getattr(options, name)
        if value and value != getattr(usual, name):
            first = value if isinstance(value, str) else value[0]
            raise ParameterError(
                f"{name}={first!r} names a column, and a text file has none",
                fix="Leave it out, or convert the file to Parquet",
            )


class Reader:
    """One pass over one file: windows of lines, rows appended to columns."""

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        *,
        streaming: bool = False,
        keep_spans: bool = False,
    ) -> None:
        _refuse_columns(options)
        self._source = source
        self._options = options
        self._streaming = streaming
        self._state = np.zeros(len(State), dtype=np.int64)
        self._columns = Columns(options, self._state)
        self._dtype = options.dtype or "float64"
        self._hards = np.zeros(64, dtype=np.int64)
        self._taken_missing = 0
        self.read_counts: dict[str, int] = {}
        self._rules = Rules(
            options.base,
            options.max_features if options.n_features is None else options.n_features,
            options.max_line_bytes,
            options.has_query_ids,
            options.qid_type == "str",
            keep_spans,
        )

    @property
    def n_rows(self) -> int:
        """Rows in the columns."""
        return int(self._state[State.ROWS])

    @property
    def n_values(self) -> int:
        """Values in the columns."""
        return int(self._state[State.NNZ])

    @property
    def width(self) -> int:
        """Number of features seen, or as declared."""
        declared = self._options.n_features
        return int(self._state[State.WIDTH]) if declared is None else declared

    def windows(self) -> Iterator[Window]:
        """Parse window after window, handing each out after it is parsed."""
        options, state = self._options, self._state
        size = None if self._streaming else self._source.size
        lines = state[State.LINE :]
        with (
            self._source.watched(),
            open_stream(self._source, options) as stream,
            Meter(self._source, options) as meter,
        ):
            head = refuse_other_kinds(stream)
            parsed = 0
            for window in line_windows(
                stream,
                head,
                options.chunk_bytes,
                options.max_line_bytes,
                lines,
            ):
                self._parse(window, size / parsed if size and parsed else 0.0)
                parsed = stream.consumed
                meter.update(parsed)
                yield window

    @property
    def narrower(self) -> bool:
        """Whether the lines read so far have fewer features than they may have."""
        return bool(self._state[State.WIDTH] < self.width)

    def take(self, *, last: bool = False) -> Dataset:
        """The rows read so far as a dataset; the columns start anew."""
        columns = self._columns
        n_missing = int(self._state[State.MISSING]) - self._taken_missing
        self._taken_missing += n_missing
        if n_missing:
            self.read_counts["missing_values"] = n_missing
        if last and self.narrower:
            self.read_counts["narrower_files"] = 1
        dense = self._options.dense
        data = Dataset(
            y=columns.column("y"),
            qid=columns.qid(),
            docid=columns.docid(),
            lines=columns.column("lines") if self._streaming else None,
            sources=(self._source.name,),
            read_counts=self.read_counts,
            X=columns.matrix(self.width, bool(dense) if self._streaming else dense),
        )
        self.read_counts = {}
        columns.reset()
        return data

    def take_spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Where each row's line lies in the last window, and its query id; then forget the rows."""
        columns = self._columns
        found = columns.column("starts"), columns.column("stops"), columns.qid()
        columns.reset()
        return found

    def forget(self) -> None:
        """Drop the rows read so far."""
        self._columns.reset()

    def _parse(self, window: Window, ahead: float) -> None:
        if window.cut:
            self._check_cut()
        state = self._state
        state[State.POS], state[State.END] = 0, window.end
        arrays = self._columns.make_room(window.end, ahead)
        decided = np.zeros(0)
        while True:
            with np.errstate(over="ignore"):
                fault = Fault(
                    parse_lines(window.buffer, self._rules, arrays, state, decided, self._hards)
                )
            if fault == Fault.DONE:
                self._columns.settle()
                return
            if fault == Fault.UNDECIDED:
                decided, fault = self._decide(window)
            if fault != Fault.UNDECIDED:
                self._refuse(fault, window)
                decided = decided[:0]

    def _decide(self, window: Window) -> tuple[NDArray[np.float64], Fault]:
        """Exact values of the hard numbers of the row at hand."""
        state = self._state
        count = int(state[State.HARDS])
        if 2 * count > len(self._hards):
            self._hards = np.zeros(4 * count, dtype=np.int64)
            return np.zeros(0), Fault.UNDECIDED
        values = np.zeros(count)
        label = int(state[State.POS])
        while window.buffer[label] in b" \t":
            label += 1
        for k in range(count):
            start, stop = int(self._hards[2 * k]), int(self._hards[2 * k + 1])
            dtype = "float64" if start == label else self._dtype
            values[k] = nearest(window.buffer[start:stop].tobytes(), dtype)
            if np.isinf(values[k]):
                state[State.FAULT] = start
                return values, Fault.LABEL if start == label else Fault.VALUE
        return values, Fault.UNDECIDED

    def _refuse(self, fault: Fault, window: Window) -> None:
        """Raise the error of a bad line, or skip the line when that was asked for."""
        state, options = self._state, self._options
        start = int(state[State.POS])
        stop = _line_end(window, start)
        number = int(state[State.LINE]) + 1
        if stop - start > options.max_line_bytes:
            raise long_line(options.max_line_bytes, number)
        if options.on_bad_row == "error":
            line = window.buffer[start:stop].tobytes()
            offset = int(state[State.FAULT]) - start
            raise explain(fault, line, offset, options, number)
        self.read_counts["skipped_rows"] = self.read_counts.get("skipped_rows", 0) + 1
        state[State.POS] = stop + 1
        state[State.LINE] += 1

    def _check_cut(self) -> None:
        """Note, or refuse, a last line without a line feed."""
        self.read_counts["no_final_newline"] = 1
        if self._options.require_final_newline:
            raise ParseError(
                "the file does not end in a line feed: it may have been cut",
                line=int(self._state[State.LINE]) + 1,
                fix="Fetch it again, or pass require_final_newline=False",
            )


def _line_end(window: Window, start: int) -> int:
    """Position of the line feed that ends the line."""
    stop = start
    step = 4096
    while True:
        line_ends = np.flatnonzero(window.buffer[stop : stop + step] == 10)
        if len(line_ends):
            return stop + int(line_ends[0])
        stop += step
