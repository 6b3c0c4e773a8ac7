"""How a scorer turns raw columns of a log into a model's features.

A transform spec that reads raw columns (one-hot, hashing, crosses, numeric columns) registers a
function that builds its encoder; the scorer asks for the encoder once per model, reads
``required`` and calls ``encode`` for every list. Specs without an encoder, such as ``ListRange``,
act on features and are the scorer's own business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import msgspec

    from rankine.kernels.rows import CsrRows

__all__ = ["ColumnEncoder", "FeatureSpace", "encoder_for", "register_encoder"]


class FeatureSpace(NamedTuple):
    """What an encoder may know of the model: its size, its weights, its names."""

    n_features: int
    indices: NDArray[np.int64]
    feature_names: tuple[str, ...] | None


class ColumnEncoder(Protocol):
    """Raw columns in, rows of features out."""

    #: Raw columns that the model's non-zero weights read.
    required: tuple[str, ...]
    #: All raw columns that the model knows; a request with any other column is a mistake.
    known: frozenset[str]

    def encode(self, columns: Mapping[str, Sequence[Any]], n_rows: int) -> CsrRows:
        """Rows over the model's features; absent columns count as missing values."""


E = TypeVar("E", bound="Callable[..., ColumnEncoder]")
_BUILDERS: dict[type, Callable[[Any, FeatureSpace], ColumnEncoder]] = {}


def register_encoder(spec_type: type) -> Callable[[E], E]:
    """Decorate the function ``(spec, space) -> ColumnEncoder`` of a spec type."""

    def register(builder: E) -> E:
        _BUILDERS[spec_type] = builder
        return builder

    return register


def encoder_for(transforms: Sequence[msgspec.Struct], space: FeatureSpace) -> ColumnEncoder | None:
    """The encoder of a model's transforms; None where its rows are features already."""
    import rankine.transforms.log_columns  # noqa: F401 - registers its encoder

    for spec in transforms:
        if type(spec) in _BUILDERS:
            return _BUILDERS[type(spec)](spec, space)
    return None
