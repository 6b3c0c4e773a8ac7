"""A partition as a task: which rows of which file, and how to read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankine.core.errors import ChangedDataError, DataError
from rankine.data.formats import choose_format, reader_of
from rankine.data.open import check_names, read_source
from rankine.data.sources import Source

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.data.options import ReadOptions

__all__ = ["Piece", "file_state"]


@dataclass(frozen=True)
class Piece:
    """Rows of a file, described well enough for any machine that sees the file.

    Attributes
    ----------
    number
        Place among all partitions; sums are taken in this order.
    file
        Path of the file.
    rows
        First row and the row after the last; None for the whole file.
    state
        Size and time of last change of the file when it was cut.
    nbytes
        About the memory it takes.
    options
        How to read.
    feature_names
        Names of the features.
    """

    number: int
    file: str
    rows: tuple[int, int] | None
    state: tuple[int, int]
    nbytes: int
    options: ReadOptions
    feature_names: tuple[str, ...] | None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same rows read in the same way."""
        return self.file, self.rows, self.state, repr(self.options)

    def load(self) -> Dataset:
        """Read the rows; a file that is not what it was when it was cut is an error."""
        if file_state(self.file) != self.state:
            raise ChangedDataError(
                "the file changed since it was cut into partitions",
                file=self.file,
                fix="Scan again once nobody writes to it",
            )
        source = Source(self.file, Path(self.file))
        if self.rows is None:
            data = read_source(source, self.options)
            if data is None:
                raise DataError("no rows", file=self.file, fix="Leave the file out")
        else:
            reader = reader_of(choose_format(source, self.options.format, source.head()))
            data = reader.read(source, self.options, self.rows)
        data = replace(data, sources=(self.file,))
        return check_names(data, self.feature_names) if data.feature_names is None else data

    @property
    def name(self) -> str:
        """The piece in words, for errors."""
        where = "" if self.rows is None else f", rows {self.rows[0] + 1} to {self.rows[1]}"
        return f"partition {self.number} ({self.file}{where})"


def file_state(file: str) -> tuple[int, int]:
    """Size and time of last change; a file that cannot be seen is an error."""
    try:
        seen = Path(file).stat()
    except OSError as error:
        raise DataError(
            f"cannot be opened: {error.strerror}",
            file=file,
            fix="Every worker must see the files under the same path (a shared file system)",
        ) from error
    return seen.st_size, seen.st_mtime_ns
