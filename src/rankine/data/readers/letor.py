"""Read LETOR / SVMlight text strictly: exact values, or an error with file, line and column.

Text is read in windows of whole lines, in a buffer of limited size; the tokenizer
(``letor_tokens``) appends rows to growing arrays.
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
from rankine.data.readers.letor_tokens import Arrays, Fault, State, TokenRules, nearest, parse_lines
from rankine.data.sources import Source
from rankine.kernels.compile import jit

#: Texts up to this length are fixed-width strings; longer ones have numpy's variable-width type, so
#: that one long text does not make every row as wide.
_MAX_WIDTH = 256


def decode_texts(heap: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[Any]:
    r"""Decode texts as UTF-8; text k is ``heap[ends[k - 1]:ends[k]]``.

    Bytes that are not UTF-8, and control characters, are escaped (``\xff``).
    """
    width, plain = _survey(heap, ends)
    if plain and width <= _MAX_WIDTH:
        out = np.zeros((len(ends), width), dtype=np.uint32)
        _spread(heap, ends, out)
        return out.view(f"U{width}").ravel()
    starts = np.concatenate([[0], ends[:-1]]).tolist()
    data = heap.tobytes()
    spans = zip(starts, ends.tolist(), strict=True)
    decoded = [_decode(data[start:end]) for start, end in spans]
    if max(map(len, decoded)) <= _MAX_WIDTH:
        return np.array(decoded, dtype=np.str_)
    return np.array(decoded, dtype=np.dtypes.StringDType())


def _decode(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return printable(text, len(text))


@jit
def _survey(heap: Any, ends: Any) -> Any:
    """Return the length of the longest text, at least 1, and whether all are printable ASCII."""
    width = 1
    start = 0
    for end in ends:
        width = max(width, end - start)
        start = end
    # One other byte is enough: such texts take the slower way, which escapes.
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
    """Whole lines of a file.

    Attributes
    ----------
    buffer, end
        The lines are ``buffer[:end]``; a line feed is added to a last line without one.
    cut
        Whether the file ends without a line feed.
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
    """Yield windows of whole lines of ``head``, which was read before, and the stream.

    The buffer holds at most a chunk and one line of ``max_line_bytes``; a longer line is refused
    before it is read. ``lines[0]`` is the number of lines parsed so far, for such an error.
    """
    buffer = bytearray(len(head) + 2 * chunk_bytes)
    buffer[: len(head)] = head
    # The first bytes were read to recognise the kind of file; they are parsed like the others.
    pending, stop = 0, len(head)  # bytes of a line that is not complete, and of all
    while True:
        stop += fill(stream, memoryview(buffer)[stop : stop + chunk_bytes])
        if stop == pending:
            if pending:
                yield _last_window(buffer, pending)
            return
        # Bytes before ``pending`` were searched in an earlier turn and hold no line feed.
        last = buffer.rfind(b"\n", pending, stop) + 1
        if last:
            yield Window(_as_array(buffer), last)
            # The beginning of the next line moves to the front.
            buffer[: stop - last] = buffer[last:stop]
            stop -= last
        pending = stop
        if pending > max_line_bytes:
            raise line_length_error(max_line_bytes, int(lines[0]) + 1)
        if pending + chunk_bytes + 2 > len(buffer):
            max_bytes = max_line_bytes + 2 * chunk_bytes + 2
            # A new buffer: the arrays of earlier windows keep the old one from growing.
            buffer = buffer[:pending] + bytearray(min(2 * len(buffer), max_bytes) - pending)


def _last_window(buffer: bytearray, length: int) -> Window:
    """Add a line feed to the last line.

    A blank before it keeps a carriage return from being taken for a part of the line's end.
    """
    line_end = b" \n" if buffer[length - 1] == _CR else b"\n"
    buffer[length : length + len(line_end)] = line_end
    return Window(_as_array(buffer), length + len(line_end), cut=True)


def line_length_error(limit: int, line: int) -> LimitError:
    """Build the error for a line above the limit."""
    return LimitError(
        f"the line is longer than {limit} bytes",
        parameter="max_line_bytes",
        line=line,
        fix="Check that the file is text; raise the limit if it is",
    )


def _as_array(buffer: Any) -> NDArray[np.uint8]:
    return np.frombuffer(buffer, dtype=np.uint8)


#: Arrays with one element per row.
_ROW_COLUMNS = ("indptr", "y", "qid", "lines", "qid_ends", "docid_ends", "starts", "stops")
#: Slabs in which a matrix goes from sparse to dense storage, so that memory is not needed twice.
_SLABS = 64


class Columns:
    """Arrays of the rows read so far, with room for more.

    Room is reserved, not touched: the system gives memory only to the parts that are filled.

    Parameters
    ----------
    state
        Counters that the tokenizer keeps; see ``letor_tokens.State``.
    """

    def __init__(self, options: ReadOptions, state: NDArray[np.int64]) -> None:
        self._options = options
        # One array of counters is shared with the tokenizer, which updates it in compiled code.
        self._state = state
        self._arrays: dict[str, NDArray[Any]] = {}
        self._last_lengths: Counter[str] = Counter()  # before the last reset
        self.reset()

    def reset(self) -> None:
        """Remove all rows; arrays that were returned stay unchanged."""
        self._last_lengths = Counter({name: self._length(name) for name in self._arrays})
        dtypes: dict[str, Any] = {
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
        self._arrays = {name: np.array([0], dtype=dtype) for name, dtype in dtypes.items()}
        # WIDTH, LINE and MISSING are kept, because they count over the whole file.
        for slot in (State.ROWS, State.NNZ, State.IMPLIED, State.QID_BYTES, State.DOCID_BYTES):
            self._state[slot] = 0

    def make_room(self, n_bytes: int, ahead: float = 0.0) -> Arrays:
        """Return the arrays with room for what ``n_bytes`` of text can hold.

        ``ahead`` is the expected final size divided by the size so far, 0 when unknown.
        """
        for name in self._arrays:
            length = self._length(name)
            room = self._max_growth(name, n_bytes) + 2
            # Doubling would reserve up to twice the memory; the size of the file gives a better
            # guess.
            if length + room > len(self._arrays[name]):
                expected = max(int(length * max(1.5, 1.05 * ahead)), self._last_lengths[name])
                self._grow(name, length, expected + room)
        return Arrays(**self._arrays)

    def settle(self) -> None:
        """Drop the indices where all rows are full: the width determines them."""
        state = self._state
        if state[State.NNZ] == state[State.ROWS] * state[State.WIDTH]:
            state[State.IMPLIED] = state[State.NNZ]

    def _length(self, name: str) -> int:
        """Return the number of elements of an array that are in use."""
        state = self._state
        if name == "indptr":
            return int(state[State.ROWS]) + 1
        if name in _ROW_COLUMNS:
            return int(state[State.ROWS])
        if name == "values":
            return int(state[State.NNZ])
        if name == "indices":
            return int(state[State.NNZ] - state[State.IMPLIED])
        return int(state[State.QID_BYTES if name == "qid_heap" else State.DOCID_BYTES])

    def _max_growth(self, name: str, n_bytes: int) -> int:
        """Return the most elements that ``n_bytes`` of text can add: a row takes 2, a value 4."""
        if name in _ROW_COLUMNS:
            return n_bytes // 2
        if name in ("values", "indices"):
            return n_bytes // 4
        return n_bytes

    def _grow(self, name: str, used: int, length: int) -> None:
        old = self._arrays[name]
        limit = self._options.memory_limit
        # Reserved room costs nothing until it is used, so only half-full arrays count.
        if length * old.itemsize > limit and (used * old.itemsize > limit // 2):
            raise LimitError(
                f"the data need more than {limit / 2**30:.1f} GiB",
                parameter="max_memory",
                fix="Stream them with rankine.scan, read them as float32, or raise the limit",
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
        """Return an array with one number per row, without the room behind it."""
        return self._trimmed(name, int(self._state[State.ROWS]))

    def qid(self) -> NDArray[Any]:
        """Return the query ids of the rows."""
        if not self._options.has_query_ids:
            return np.zeros(int(self._state[State.ROWS]), dtype=np.int64)
        if self._options.qid_type == "int":
            return self.column("qid")
        heap = self._arrays["qid_heap"][: self._length("qid_heap")]
        return decode_texts(heap, self.column("qid_ends"))

    def docid(self) -> NDArray[Any] | None:
        """Return the document ids of the rows, or None when no row has one."""
        heap = self._arrays["docid_heap"][: self._length("docid_heap")]
        if len(heap) == 0:
            return None
        return decode_texts(heap, self.column("docid_ends"))

    def matrix(self, n_features: int, dense: bool | None) -> Any:
        """Return the features: CSR, or dense where ``dense`` or at least half of it is stored.

        The result shares memory with the arrays, which are cut for it: call this last.
        """
        n_rows, nnz = int(self._state[State.ROWS]), int(self._state[State.NNZ])
        # A value and its index take 12 bytes in CSR (float32: 8), a dense value 8 (4).
        if dense is None:
            dense = 2 * nnz >= n_rows * n_features
        indptr = self._trimmed("indptr", n_rows + 1)
        if dense and nnz == n_rows * n_features:
            # Every row is full and sorted: the values are the matrix.
            return self._trimmed("values", nnz).reshape(n_rows, n_features)
        self._restore_indices(nnz)
        if dense:
            return self._dense(indptr, n_rows, n_features)
        indices, values = self._trimmed("indices", nnz), self._trimmed("values", nnz)
        return make_csr(values, indices, indptr, (n_rows, n_features))

    def _restore_indices(self, nnz: int) -> None:
        """Fill in the indices that ``settle`` dropped."""
        implied = int(self._state[State.IMPLIED])
        if implied:
            width = self._arrays["indptr"][1]  # of the first row, and of all rows that were full
            stored = self._trimmed("indices", nnz - implied)
            indices = np.empty(nnz, dtype=np.int32)
            indices[:implied].reshape(-1, width)[:] = np.arange(width, dtype=np.int32)
            indices[implied:] = stored
            self._arrays["indices"] = indices

    def _dense(self, indptr: NDArray[np.int64], n_rows: int, n_features: int) -> Any:
        """Move rows to a dense array, from the last to the first, and release memory on the way."""
        dtype = self._arrays["values"].dtype
        if n_rows * n_features * dtype.itemsize > self._options.memory_limit:
            raise LimitError(
                f"{n_rows} x {n_features} numbers do not fit in memory",
                parameter="dense",
                fix="Read the rows as a sparse matrix",
            )
        dense = np.zeros((n_rows, n_features), dtype=dtype)
        # Last rows first: their sparse storage is at the end of the arrays, which can then shrink.
        cuts = np.unique(np.linspace(0, n_rows, _SLABS + 1).astype(np.int64))
        for start, stop in zip(cuts[-2::-1], cuts[:0:-1], strict=True):
            _scatter(indptr, self._arrays["indices"], self._arrays["values"], start, stop, dense)
            self._trimmed("indices", int(indptr[start]))
            self._trimmed("values", int(indptr[start]))
        return dense

    def _trimmed(self, name: str, length: int) -> NDArray[Any]:
        array = self._arrays[name]
        array.resize(length, refcheck=False)  # shrinks in place and gives the rest back
        return array


@jit
def _scatter(indptr: Any, indices: Any, values: Any, start: int, stop: int, out: Any) -> None:
    for i in range(start, stop):
        for k in range(indptr[i], indptr[i + 1]):
            out[i, indices[k]] = values[k]


#: Values after which a block is returned: joining small blocks needs less memory than large ones.
_BLOCK_VALUES = 2**19


def read(source: Source, options: ReadOptions) -> Dataset:
    """Read the whole file."""
    reader = Reader(source, options)
    for _ in reader.windows():
        pass
    return reader.take(last=True)


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Yield blocks of about ``block_rows`` rows or a few megabytes, in file order."""
    reader = Reader(source, options, streaming=True)
    for _ in reader.windows():
        if reader.n_rows >= options.block_rows or reader.n_values >= _BLOCK_VALUES:
            yield reader.take()
    if reader.n_rows or reader.read_counts or reader.narrower:
        yield reader.take(last=True)


def measure(source: Source, options: ReadOptions) -> int:
    """Return the number of features, the largest index of the file, in bounded memory."""
    reader = Reader(source, options, streaming=True)
    for _ in reader.windows():
        reader.drop_rows()
    return reader.width


def feature_names(source: Source, options: ReadOptions) -> None:
    """Return None: text has no place for names."""
    return


def _refuse_columns(options: ReadOptions) -> None:
    """Refuse options that name columns: text has none."""
    defaults = ReadOptions()
    for name in ("label", "query", "docid", "weight", "position", "columns", "features"):
        value = getattr(options, name)
        if value and value != getattr(defaults, name):
            column = value if isinstance(value, str) else value[0]
            raise ParameterError(
                f"{column!r} names a column, and a text file has none",
                parameter=name,
                fix="Leave it out, or convert the file to Parquet",
            )


class Reader:
    """One pass over a file.

    Parameters
    ----------
    streaming
        Whether rows are taken block by block: with their line numbers, CSR unless ``dense`` is set.
    keep_spans
        Whether to record where each row's line is in its window (``take_spans``).
    """

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
        self._hard_spans = np.zeros(64, dtype=np.int64)
        self._reported_missing = 0
        self.read_counts: dict[str, int] = {}
        max_features = options.max_features
        if options.n_features is not None:
            max_features = options.n_features
        self._rules = TokenRules(
            options.base,
            max_features,
            options.max_line_bytes,
            options.has_query_ids,
            options.qid_type == "str",
            keep_spans,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows read and not taken."""
        return int(self._state[State.ROWS])

    @property
    def n_values(self) -> int:
        """Number of values read and not taken."""
        return int(self._state[State.NNZ])

    @property
    def width(self) -> int:
        """Number of features: as declared, or the largest index so far."""
        if self._options.n_features is not None:
            return self._options.n_features
        return int(self._state[State.WIDTH])

    def windows(self) -> Iterator[Window]:
        """Parse window after window, and yield each when it is parsed."""
        options, state = self._options, self._state
        # Blocks are small and their arrays are used again: no guess of the final size is needed.
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
        """Whether the lines read so far have fewer features than declared."""
        return bool(self._state[State.WIDTH] < self.width)

    def take(self, *, last: bool = False) -> Dataset:
        """Take the rows read so far, as a dataset."""
        columns = self._columns
        n_missing = int(self._state[State.MISSING]) - self._reported_missing
        self._reported_missing += n_missing
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
        """Take the rows: where each one's line is in the last window, and its query id."""
        columns = self._columns
        spans = columns.column("starts"), columns.column("stops"), columns.qid()
        columns.reset()
        return spans

    def drop_rows(self) -> None:
        """Drop the rows read so far."""
        self._columns.reset()

    def _parse(self, window: Window, ahead: float) -> None:
        if window.cut:
            self._check_cut()
        state = self._state
        state[State.POS], state[State.END] = 0, window.end
        # Room for the whole window, so that the tokenizer need not check for it.
        arrays = self._columns.make_room(window.end, ahead)
        exact_values = np.zeros(0)
        while True:
            with np.errstate(over="ignore"):
                fault = Fault(
                    parse_lines(
                        window.buffer, self._rules, arrays, state, exact_values, self._hard_spans
                    )
                )
            if fault == Fault.DONE:
                self._columns.settle()
                return
            # The tokenizer stops where its arithmetic cannot round a number: Python's parser does.
            if fault == Fault.UNDECIDED:
                exact_values, fault = self._round_exactly(window)
            if fault != Fault.UNDECIDED:
                self._refuse(fault, window)
                exact_values = exact_values[:0]

    def _round_exactly(self, window: Window) -> tuple[NDArray[np.float64], Fault]:
        """Return the exact hard numbers of the current row, and a fault if one is too large."""
        state = self._state
        count = int(state[State.HARDS])
        # The row holds more such numbers than there was room for: parse it again with more room.
        if 2 * count > len(self._hard_spans):
            self._hard_spans = np.zeros(4 * count, dtype=np.int64)
            return np.zeros(0), Fault.UNDECIDED
        values = np.zeros(count)
        # Labels are always float64, whatever the type of the features.
        label = int(state[State.POS])
        while window.buffer[label] in b" \t":
            label += 1
        for k in range(count):
            start, stop = int(self._hard_spans[2 * k]), int(self._hard_spans[2 * k + 1])
            dtype = "float64" if start == label else self._dtype
            values[k] = nearest(window.buffer[start:stop].tobytes(), dtype)
            if np.isinf(values[k]):
                state[State.FAULT] = start
                return values, Fault.LABEL if start == label else Fault.VALUE
        return values, Fault.UNDECIDED

    def _refuse(self, fault: Fault, window: Window) -> None:
        """Raise the error of a bad line, or skip the line where ``on_bad_row`` is "skip"."""
        state, options = self._state, self._options
        start = int(state[State.POS])
        stop = _line_end(window, start)
        number = int(state[State.LINE]) + 1
        # The length comes first: any other message would quote the line.
        if stop - start > options.max_line_bytes:
            raise line_length_error(options.max_line_bytes, number)
        if options.on_bad_row == "error":
            line = window.buffer[start:stop].tobytes()
            offset = int(state[State.FAULT]) - start
            raise explain(fault, line, offset, options, number)
        self.read_counts["skipped_rows"] = self.read_counts.get("skipped_rows", 0) + 1
        # Continue after the line feed of the skipped line.
        state[State.POS] = stop + 1
        state[State.LINE] += 1

    def _check_cut(self) -> None:
        """Count a last line without a line feed, or refuse it where the options do."""
        self.read_counts["no_final_newline"] = 1
        if self._options.require_final_newline:
            raise ParseError(
                "the file does not end in a line feed: it may have been cut",
                line=int(self._state[State.LINE]) + 1,
                parameter="require_final_newline",
                fix="Fetch it again, or accept such files",
            )


def _line_end(window: Window, start: int) -> int:
    """Return the position of the line feed that ends a line."""
    stop = start
    # A line is rarely longer than this; searching the whole window would cost its length each time.
    step = 4096
    while True:
        line_ends = np.flatnonzero(window.buffer[stop : stop + step] == 10)
        if len(line_ends):
            return stop + int(line_ends[0])
        stop += step
