"""Bad rows of a batch: the first is an error with its place, or all are skipped and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import DataError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Place", "RowFaults"]


class Place(NamedTuple):
    """Where a batch stands in its file."""

    file: str
    first_row: int = 0
    #: Name of the part, such as "row group 3".
    part: str = ""
    part_row: int = 0

    def error(
        self,
        row: int,
        column: str,
        reason: str,
        fix: str,
        kind: type[DataError] = SchemaError,
    ) -> DataError:
        """An error about one row of the batch; ``line`` is the row's number from 1."""
        where = f" ({self.part}, row {self.part_row + row + 1} of it)" if self.part else ""
        return kind(
            f"{reason}{where}",
            fix=fix,
            file=self.file,
            line=self.first_row + row + 1,
            column=column,
        )


class RowFaults:
    """Collects what is wrong with the rows of one batch.

    With ``skip`` a bad row is marked and counted, else the first one is raised.
    """

    def __init__(self, place: Place, n_rows: int, *, skip: bool) -> None:
        self.place = place
        self.skip = skip
        self.n_rows = n_rows
        self.bad: NDArray[np.bool_] | None = None
        self.missing = 0

    def refuse(
        self,
        bad: NDArray[Any],
        column: str,
        reason: str | Callable[[int], str],
        fix: str,
        kind: type[DataError] = SchemaError,
    ) -> None:
        """Refuse the rows where ``bad`` is true."""
        if not bad.any():
            return
        if not self.skip:
            row = int(np.argmax(bad))
            text = reason if isinstance(reason, str) else reason(row)
            raise self.place.error(row, column, text, fix, kind)
        self.bad = bad.copy() if self.bad is None else self.bad | bad

    @property
    def notes(self) -> dict[str, int]:
        """Counters for ``Dataset.notes``."""
        skipped = 0 if self.bad is None else int(self.bad.sum())
        counts = {"skipped_rows": skipped, "missing_values": self.missing}
        return {name: count for name, count in counts.items() if count}
