"""Parts that all model files share: weights, packed names, probes, and loading and saving.

Weights come from any array-like and are checked once. Names are stored packed, as UTF-8 bytes and
the end of each name, because a million Python strings would take several times the size of the
file. They are checked in this form and decoded on first use. Probes are rows with stored scores, by
which a server tests itself before it replaces a model. They are generated, never taken from
training data: a model file must not leak a log.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import reject_sets
from rankine.core.errors import ModelError, ModelFormatError, ParameterError
from rankine.core.specs import ListRange, RunScores
from rankine.core.strict_json import to_json_value
from rankine.kernels.run_scores import run_score_values

#: Positions of features are 32-bit integers.
MAX_FEATURES = int(np.iinfo(np.int32).max)


def sparse_weights(w: Any) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Return size, positions and values of the non-zero weights of an array or sparse row."""
    if hasattr(w, "tocsr"):
        # Both a row and a column of weights are accepted.
        row = w.tocsr() if w.shape[0] == 1 else w.T.tocsr()
        if row.shape[0] != 1:
            raise ModelError(f"weights have shape {w.shape}", fix="Pass one weight per feature")
        stored = np.asarray(row.indices, dtype=np.int64)
        # SciPy does not promise sorted indices.
        order = np.argsort(stored, kind="stable")
        values = np.asarray(row.data, dtype=np.float64)[order]
        nonzero = values != 0
        return int(row.shape[1]), stored[order][nonzero], values[nonzero]
    try:
        dense = np.asarray(w, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"weights are not numbers: {error}", fix="Pass real numbers") from error
    if dense.ndim == 2 and 1 in dense.shape:
        dense = dense.ravel()
    if dense.ndim != 1:
        raise ModelError(f"weights have shape {dense.shape}", fix="Pass one weight per feature")
    # Zeros are not stored: the file and every score depend only on the other weights.
    indices = np.flatnonzero(dense).astype(np.int64)
    return len(dense), indices, dense[indices]


def check_sparse(
    indices: NDArray[Any], values: NDArray[Any], n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Check weights and return them as read-only arrays.

    Positions must increase strictly and be below ``n_features``; values must be finite and not 0.
    """
    if not 0 <= n_features <= MAX_FEATURES:
        raise ModelError(
            f"the model has {n_features} features",
            fix=f"Use 0 to {MAX_FEATURES:,} features",
        )
    positions, weights = read_only(indices, np.int64), read_only(values, np.float64)
    if positions.ndim != 1 or positions.shape != weights.shape:
        raise ModelError(
            f"positions of shape {positions.shape} for weights of shape {weights.shape}",
            fix="Pass one position per weight",
        )
    if len(positions) and (
        positions[0] < 0
        or positions[-1] >= n_features
        or not (positions[1:] > positions[:-1]).all()
    ):
        raise ModelError(
            "positions of weights are not strictly increasing within the features",
            fix="Sort the positions, each once, below n_features",
        )
    if not np.isfinite(weights).all():
        k = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ModelError(
            f"the weight at position {positions[k]} is {weights[k]}",
            fix="Train again with a smaller step or scaled features",
        )
    # A zero would make two files of one model, with two digests.
    if not weights.all():
        raise ModelError("a stored weight is zero", fix="Store non-zero weights only")
    return positions, weights


def read_only(values: Any, dtype: Any) -> NDArray[Any]:
    """Return a read-only array that shares no writable memory with ``values``."""
    # Views of a file are read-only already and are not copied.
    array = np.ascontiguousarray(values, dtype=dtype)
    if not array.flags.writeable:
        return array
    if np.may_share_memory(array, values):
        array = array.copy()
    array.flags.writeable = False
    return array


#: Number of names that are checked at a time, so that memory stays bounded.
_CHECK_BLOCK = 4096


class PackedNames:
    """Distinct names in order, stored as their concatenated bytes and the end of each name."""

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.text = text
        self.ends = ends
        self._check()

    @classmethod
    def pack(cls, names: Iterable[str], what: str = "feature name") -> PackedNames:
        """Pack strings; they must be distinct and valid Unicode."""
        reject_sets(**{f"{what}s": names})
        try:
            parts = [str(name).encode("utf-8") for name in names]
        except UnicodeEncodeError as error:
            raise ParameterError(
                f"a {what} is not valid Unicode: {error.object!r}", fix="Rename it"
            ) from error
        if len(set(parts)) != len(parts):
            duplicate = Counter(parts).most_common(1)[0][0]
            raise ParameterError(f"{what} {duplicate.decode()!r} appears twice", fix="Rename one")
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return cls(np.frombuffer(b"".join(parts), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """All names as strings."""
        data, starts = self.text.tobytes(), [0, *self.ends.tolist()]
        return tuple(data[a:b].decode() for a, b in zip(starts[:-1], starts[1:], strict=True))

    @cached_property
    def positions(self) -> dict[str, int]:
        """Name -> position."""
        return {name: k for k, name in enumerate(self.strings)}

    def _check(self) -> None:
        """Check in bounded memory that ends increase, names are UTF-8, and no name repeats."""
        ends, size = self.ends, len(self.text)
        if len(ends) == 0:
            if size:
                raise ModelFormatError("there are bytes of names, but no names")
            return
        if ends[0] < 0 or int(ends[-1]) != size or (ends[1:] < ends[:-1]).any():
            raise ModelFormatError("ends of names are out of order or out of range")
        # A file may come from anywhere, and hold a million names of any length.
        hashes = np.empty(len(ends), dtype=np.int64)
        for first in range(0, len(ends), _CHECK_BLOCK):
            block = ends[first : first + _CHECK_BLOCK]
            start = int(ends[first - 1]) if first else 0
            data = self.text[start : int(block[-1])].tobytes()
            begin = 0
            for k, end in enumerate((block - start).tolist()):
                name = data[begin:end]
                try:
                    name.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise ModelFormatError(f"name {first + k} is not UTF-8") from error
                # Hashes take 8 bytes a name; a set of the names would take much more.
                hashes[first + k] = hash(name)
                begin = end
        # Equal hashes are rare: only then are all names decoded and compared.
        hashes.sort()
        if (hashes[1:] == hashes[:-1]).any() and len(set(self.strings)) != len(ends):
            raise ModelFormatError("a name appears twice")


#: Largest number of probes that a file may hold.
MAX_PROBES = 16
# Size of the generated probes: rows, and weights that they touch.
_N_ROWS = 4
_MAX_WEIGHTS = 16


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row: positions and values of features, or raw columns of a log."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    raw: dict[str, str | int | float | bool | None] | None = None


class Probes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of one list and the scores that the model must give them."""

    rows: tuple[Probe, ...]
    scores: tuple[float, ...]


def make_probes(
    indices: Sequence[int], values: Sequence[float], transforms: Sequence[Any]
) -> Probes | None:
    """Generate four rows over at most 16 of the weights and score them in plain Python.

    Return None for a model without weights, for weights near the largest float, and for transforms
    that are not computed here.
    """
    if not indices or any(not isinstance(spec, (ListRange, RunScores)) for spec in transforms):
        return None
    # Spread over all weights, so that a change in any part of the file is likely to show.
    step = max(1, len(indices) // _MAX_WEIGHTS)
    touched = range(0, len(indices), step)[:_MAX_WEIGHTS]
    columns = range(len(touched))
    # Quarters from -2 to 2: products and sums of them are exact for most weights.
    rows = [[((7 * i + 5 * k + i * k) % 17 - 8) / 4 for k in columns] for i in range(_N_ROWS)]
    if transforms and isinstance(transforms[0], RunScores):
        starts = np.array([0, _N_ROWS], dtype=np.int64)
        features = run_score_values(transforms[0], np.array(rows), starts).T.tolist()
    elif transforms:
        features = [_divide_by_range([row[k] for row in rows]) for k in columns]
    else:
        features = [[row[k] for row in rows] for k in columns]
    terms = [[values[p] * features[k][i] for k, p in enumerate(touched)] for i in range(_N_ROWS)]
    # A sum that overflows cannot be compared with a score.
    if not math.isfinite(sum(abs(term) for row in terms for term in row)):
        return None
    # Without rounding, so that the test does not depend on the order of a kernel's sum.
    scores = [math.fsum(row) for row in terms]
    positions = tuple(int(indices[p]) for p in touched)
    return Probes(tuple(Probe(positions, tuple(row)) for row in rows), tuple(scores))


def _divide_by_range(column: Sequence[float]) -> list[float]:
    span = max(column) - min(column)
    return [x / span if span > 0 else 0.0 for x in column]


class StoredModel:
    """Base of models that are saved to one file; ``rankine.model.store`` defines its content."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check a model file; see ``docs/model-file.md``."""
        from rankine.model.store import load

        return load(path, cls)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read and check the content of a model file."""
        from rankine.model.store import decode

        return decode(data, cls)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file that ``save`` writes; equal models have equal digests."""
        return self._encoded()[1]

    def to_bytes(self) -> bytes:
        """Return the content of the file that ``save`` writes."""
        return b"".join(self._encoded()[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file atomically: a failure leaves the old file unchanged."""
        from rankine.model.store import save

        save(self, path)  # type: ignore[arg-type]

    def _encoded(self) -> tuple[list[Any], str]:
        from rankine.model.store import encode

        return encode(self)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def training_metadata(
    transforms: Sequence[msgspec.Struct],
    metric: Any,
    parameters: Mapping[str, Any] | None,
    provenance: Mapping[str, Any] | None,
) -> tuple[tuple[msgspec.Struct, ...], str | None, Any, Any]:
    """Convert transforms, metric, parameters and provenance to what a model file stores."""
    return (
        tuple(transforms),
        None if metric is None else str(metric),
        to_json_value(dict(parameters or {})),
        to_json_value(dict(provenance or {})),
    )


def check_base(base: int) -> None:
    """Raise unless the index of the first feature is 0 or 1."""
    if base not in (0, 1):
        raise ModelError(
            f"base is {base}", fix="Number features from 0 or from 1", parameter="base"
        )


def check_names(names: Any, *sizes: int) -> None:
    """Raise unless the number of names is one of ``sizes``: features, or non-zero weights."""
    if names is not None and len(names) not in sizes:
        raise ModelError(
            f"{len(names)} feature names for {sizes[0]} features",
            fix="Name every feature once" + (", or every non-zero weight" if sizes[1:] else ""),
        )
