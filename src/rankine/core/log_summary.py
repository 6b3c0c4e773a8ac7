"""The summary of a training log that a model file contains: shares, never rows.

It is defined here, and computed and compared in ``rankine.transforms.drift``, so that a model file
can be checked without compiling anything.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Annotated

import msgspec

from rankine.core.specs import check_cuts

#: Groups of a category, as a power of two.
GROUP_BITS = 4
#: Maximum number of slots that hashed values are recorded in, as a power of two.
SEEN_BITS = 18

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class ColumnSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Share of a column's rows with missing values, and the shares of groups among the others.

    ``cuts`` are the upper ends of the groups of numbers; None for categories.
    """

    missing: _Share
    shares: tuple[_Share, ...]
    cuts: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check the number of groups, which sizes the counters of a monitor."""
        n_groups = 1 << GROUP_BITS
        if self.cuts is not None:
            check_cuts(self.cuts)
            n_groups = len(self.cuts) + 1
        if len(self.shares) != n_groups:
            raise ValueError(f"a column has {len(self.shares)} shares for {n_groups} groups")


class LogSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Summary of a training log.

    Attributes
    ----------
    lists, rows
        Number of sampled lists (selected by a hash of their ids) and of their rows.
    columns
        Summaries by name.
    scores
        Distances of scores from the mean of their list.
    seen
        Slots of the hashed space that some row of the whole log used: packed bits, compressed.
    """

    lists: _Count
    rows: _Count
    columns: dict[str, ColumnSummary]
    scores: ColumnSummary
    seen: str = ""

    def __post_init__(self) -> None:
        """Check what the types do not say."""
        if self.scores.cuts is None:
            raise ValueError("the scores have no cuts")
        size = len(unpack_slots(self.seen))
        # Slots are found by a mask, so their number is a power of two.
        if size & (size - 1):
            raise ValueError(f"{8 * size} slots of hashed values are no power of two")


def pack_slots(packed: bytes) -> str:
    """Compress the bits of the used slots to text; empty if there are none."""
    if not any(packed):
        return ""
    return base64.b64encode(zlib.compress(packed, 9)).decode("ascii")


def unpack_slots(text: str) -> bytes:
    """Return the bits of the used slots. The size is limited before anything is decompressed."""
    if not text:
        return b""
    limit = (1 << SEEN_BITS) // 8
    decompressor = zlib.decompressobj()
    try:
        packed = decompressor.decompress(base64.b64decode(text, validate=True), limit + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the slots of hashed values are damaged: {error}") from error
    if len(packed) > limit or not decompressor.eof or decompressor.unused_data:
        raise ValueError("the slots of hashed values are cut or too many")
    return packed
