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
#: Bits of the hashes in a set of values -> the largest number of them.
MAX_SIZES = {28: 1 << 16, 24: 1 << 17, 20: 1 << 20}
#: Largest number of hashes in the sets of all columns.
_MAX_HASHES = 1 << 23

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
    values
        Sets of the values of the whole log by categorical column, packed
        (``rankine.transforms.value_sets``).
    """

    lists: _Count
    rows: _Count
    columns: dict[str, ColumnSummary]
    scores: ColumnSummary
    values: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Check what the types do not express."""
        if self.scores.cuts is None:
            raise ValueError("the scores have no cuts")
        n_hashes = 0
        for text in self.values.values():
            n_hashes += len(unpack_gaps(text)[0]) // 4
            if n_hashes > _MAX_HASHES:
                raise ValueError(f"the sets of values have more than {_MAX_HASHES:,} hashes")


def unpack_gaps(text: str) -> tuple[bytes, int]:
    """Return the gaps between the hashes of a set, of four bytes each, and the bits of a hash.

    The size is limited before anything is decompressed.
    """
    bits_text, _, packed = text.partition(":")
    bits = next((bits for bits in MAX_SIZES if str(bits) == bits_text), None)
    if bits is None:
        raise ValueError("a set of values has no number of bits")
    limit = 4 * MAX_SIZES[bits]
    decompressor = zlib.decompressobj()
    try:
        gaps = decompressor.decompress(base64.b64decode(packed, validate=True), limit + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"a set of values is damaged: {error}") from error
    if len(gaps) > limit or len(gaps) % 4 or not decompressor.eof or decompressor.unused_data:
        raise ValueError("a set of values is cut or too large")
    return gaps, bits
