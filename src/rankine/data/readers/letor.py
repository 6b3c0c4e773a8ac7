"""LETOR / SVMlight text, strictly: exact values, or an error with file, line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import ParseError
from rankine.data.compression import open_stream
from rankine.data.dataset import Dataset
from rankine.data.kinds import refuse_other_kinds
from rankine.data.progress import Meter
from rankine.data.readers.letor_chunks import Window, line_windows, long_line
from rankine.data.readers.letor_codes import Fault, State
from rankine.data.readers.letor_columns import Columns
from rankine.data.readers.letor_errors import explain
from rankine.data.readers.letor_rounding import nearest
from rankine.data.readers.letor_tokens import Rules, parse_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rankine.data.options import ReadOptions
    from rankine.data.sources import Source

__all__ = ["measure", "read", "read_blocks"]

#: Values after which a block is handed on: joining small pieces needs less memory than large ones.
_BLOCK_VALUES = 2**19


def read(source: Source, options: ReadOptions) -> Dataset:
    """The whole file."""
    reader = Reader(source, options)
    for _ in reader.windows():
        pass
    return reader.take()


def read_blocks(source: Source, options: ReadOptions) -> Iterator[Dataset]:
    """Blocks of at most about ``block_rows`` rows or a few megabytes, in file order."""
    reader = Reader(source, options, streaming=True)
    for _ in reader.windows():
        if reader.n_rows >= options.block_rows or reader.n_values >= _BLOCK_VALUES:
            yield reader.take()
    if reader.n_rows or reader.notes:
        yield reader.take()


def measure(source: Source, options: ReadOptions) -> int:
    """Number of features: the largest index of the file; one pass, bounded memory."""
    reader = Reader(source, options, streaming=True)
    for _ in reader.windows():
        reader.forget()
    return reader.width


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
        self._source = source
        self._options = options
        self._streaming = streaming
        self._state = np.zeros(len(State), dtype=np.int64)
        self._columns = Columns(options, self._state, source.name)
        self._dtype = options.dtype or "float64"
        self._hards = np.zeros(64, dtype=np.int64)
        self._taken_missing = 0
        self.notes: dict[str, int] = {}
        self._rules = Rules(
            options.base,
            options.max_features if options.n_features is None else options.n_features,
            options.max_line_bytes,
            options.has_query_ids,
            options.qid_type == "str",
            options.missing == "zero",
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
        lines = state[State.LINE : State.LINE + 1]
        with (
            self._source.watched(),
            open_stream(self._source, options) as stream,
            Meter(self._source, options) as meter,
        ):
            head = refuse_other_kinds(stream, self._source.name)
            parsed = 0
            for window in line_windows(
                stream,
                head,
                options.chunk_bytes,
                options.max_line_bytes,
                lines,
                self._source.name,
            ):
                self._parse(window, size / parsed if size and parsed else 0.0)
                parsed = stream.consumed
                meter.update(parsed)
                yield window

    def take(self) -> Dataset:
        """The rows read so far as a dataset; the columns start anew."""
        columns = self._columns
        n_missing = int(self._state[State.MISSING]) - self._taken_missing
        self._taken_missing += n_missing
        if n_missing:
            self.notes["missing_values"] = n_missing
        dense = self._options.dense
        data = Dataset(
            y=columns.column("y"),
            qid=columns.qid(),
            docid=columns.docid(),
            lines=columns.column("lines") if self._streaming else None,
            sources=(self._source.name,),
            notes=self.notes,
            X=columns.matrix(self.width, bool(dense) if self._streaming else dense),
        )
        self.notes = {}
        columns.reset()
        return data

    def lines(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
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
        given = np.zeros(0)
        while True:
            with np.errstate(over="ignore"):
                fault = Fault(
                    parse_lines(window.buffer, self._rules, arrays, state, given, self._hards)
                )
            if fault == Fault.DONE:
                self._columns.settle()
                return
            if fault == Fault.UNDECIDED:
                given, fault = self._decide(window)
            if fault != Fault.UNDECIDED:
                self._refuse(fault, window)
                given = given[:0]

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
            raise long_line(options.max_line_bytes, self._source.name, number)
        if options.on_bad_row == "error":
            line = window.buffer[start:stop].tobytes()
            offset = int(state[State.FAULT]) - start
            raise explain(fault, line, offset, options, file=self._source.name, number=number)
        self.notes["skipped_rows"] = self.notes.get("skipped_rows", 0) + 1
        state[State.POS] = stop + 1
        state[State.LINE] += 1

    def _check_cut(self) -> None:
        """Note, or refuse, a last line without a line feed."""
        self.notes["no_final_newline"] = 1
        if self._options.require_final_newline:
            raise ParseError(
                "the file does not end in a line feed: it may have been cut",
                file=self._source.name,
                line=int(self._state[State.LINE]) + 1,
                fix="Fetch it again, or pass require_final_newline=False",
            )


def _line_end(window: Window, start: int) -> int:
    """Position of the line feed that ends the line."""
    stop = start
    step = 4096
    while True:
        found = np.flatnonzero(window.buffer[stop : stop + step] == 10)
        if len(found):
            return stop + int(found[0])
        stop += step
