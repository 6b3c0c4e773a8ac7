"""Specs that travel inside a model file, as data.

A transform spec is a tagged struct: ``msgspec.to_builtins`` writes it, ``msgspec.convert`` reads
it back strictly. What a spec *does* lives in ``rankine.transforms``; what it *says* lives here, so
that a model can be read without compiling anything. A new spec is one more struct in
``TRANSFORM_SPECS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "TRANSFORM_SPECS",
    "ListRange",
    "LogColumns",
    "OneHot",
    "decode_transforms",
    "encode_transforms",
]

#: Largest hashed space, as a power of two.
MAX_HASH_BITS = 26


class ListRange(
    msgspec.Struct, frozen=True, tag="list_range", tag_field="type", forbid_unknown_fields=True
):
    """Divide each feature by its range (max - min, implicit zeros included) within the list.

    Min-max scaling per list without the subtraction: only differences matter to a ranking, and
    zeros stay zeros. A feature that is constant within the list becomes 0.
    """


class OneHot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A categorical column with a feature for each of its known values."""

    column: str
    values: tuple[str, ...]


class LogColumns(
    msgspec.Struct, frozen=True, tag="log_columns", tag_field="type", forbid_unknown_fields=True
):
    """Raw columns of a log as features.

    Features stand in this order: the numeric columns, the values of the one-hot columns, then
    2^hash_bits places shared by the hashed columns and the crosses (absent when there are none).
    A missing value (null, or empty text) has no feature; a missing number is 0.

    Attributes
    ----------
    numeric
        Columns whose numbers are used as they stand.
    one_hot
        Columns with known values; other values have no feature.
    hashed
        Columns whose values are hashed.
    crosses
        Groups of columns whose values are hashed together.
    hash_bits
        The hashed space has 2^hash_bits places.
    ignored
        Further columns of the log (query, label, position ...), allowed in a row and not read.
    """

    numeric: tuple[str, ...] = ()
    one_hot: tuple[OneHot, ...] = ()
    hashed: tuple[str, ...] = ()
    crosses: tuple[tuple[str, ...], ...] = ()
    hash_bits: int = 20
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a spec that cannot have been written by rankine."""
        if not 1 <= self.hash_bits <= MAX_HASH_BITS:
            raise ValueError(f"hash_bits {self.hash_bits} is not between 1 and {MAX_HASH_BITS}")
        if any(len(set(cross)) < 2 for cross in self.crosses):
            raise ValueError("a cross needs two different columns")
        named = [*self.numeric, *(field.column for field in self.one_hot), *self.hashed]
        if len(set(named)) != len(named) or len(set(self.crosses)) != len(self.crosses):
            raise ValueError("a column has two encodings, or a cross is given twice")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read, each once."""
        crossed = [name for cross in self.crosses for name in cross]
        fields = [field.column for field in self.one_hot]
        return tuple(dict.fromkeys([*self.numeric, *fields, *self.hashed, *crossed]))

    @property
    def hash_start(self) -> int:
        """Index of the first hashed feature."""
        return len(self.numeric) + sum(len(field.values) for field in self.one_hot)

    @property
    def n_features(self) -> int:
        """Size of the feature space."""
        hashed = bool(self.hashed or self.crosses)
        return self.hash_start + (1 << self.hash_bits if hashed else 0)


#: Every transform that a model file may hold.
TRANSFORM_SPECS: tuple[type[msgspec.Struct], ...] = (ListRange, LogColumns)


def encode_transforms(transforms: Sequence[msgspec.Struct]) -> list[Any]:
    """Transform specs as plain data."""
    return [msgspec.to_builtins(spec) for spec in transforms]


def decode_transforms(data: Any) -> tuple[msgspec.Struct, ...]:
    """Transform specs from plain data; ``msgspec.ValidationError`` for anything else."""
    kinds = Union[TRANSFORM_SPECS]  # type: ignore[valid-type]  # noqa: UP007 - a runtime tuple
    return tuple(msgspec.convert(data, type=list[kinds], strict=True))
