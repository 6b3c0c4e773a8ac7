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

__all__ = ["TRANSFORM_SPECS", "ListRange", "decode_transforms", "encode_transforms"]


class ListRange(
    msgspec.Struct, frozen=True, tag="list_range", tag_field="type", forbid_unknown_fields=True
):
    """Divide each feature by its range (max - min, implicit zeros included) within the list.

    Min-max scaling per list without the subtraction: only differences matter to a ranking, and
    zeros stay zeros. A feature that is constant within the list becomes 0.
    """


#: Every transform that a model file may hold.
TRANSFORM_SPECS: tuple[type[msgspec.Struct], ...] = (ListRange,)


def encode_transforms(transforms: Sequence[msgspec.Struct]) -> list[Any]:
    """Transform specs as plain data."""
    return [msgspec.to_builtins(spec) for spec in transforms]


def decode_transforms(data: Any) -> tuple[msgspec.Struct, ...]:
    """Transform specs from plain data; ``msgspec.ValidationError`` for anything else."""
    kinds = Union[TRANSFORM_SPECS]  # type: ignore[valid-type]  # noqa: UP007 - a runtime tuple
    return tuple(msgspec.convert(data, type=list[kinds], strict=True))
