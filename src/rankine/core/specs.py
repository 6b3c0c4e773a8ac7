"""Specs that travel inside a model file, as data.

A transform spec is a tagged struct: ``msgspec.to_builtins`` writes it, ``msgspec.convert`` reads
it back strictly. What a spec *does* lives in ``rankine.transforms``; what it *says* lives here, so
that a model can be read without compiling anything.
"""

from __future__ import annotations

import msgspec

__all__ = ["ListRange"]


class ListRange(msgspec.Struct, frozen=True, tag="list_range", tag_field="type"):
    """Divide each feature by its range (max - min, implicit zeros included) within the list.

    Min-max scaling per list without the subtraction: only differences matter to a ranking, and
    zeros stay zeros. A feature that is constant within the list becomes 0.
    """
