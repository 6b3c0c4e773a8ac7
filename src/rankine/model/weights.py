"""What every model file is made of: weights, names, rows that test it, and saving.

Weights are made from anything array-like and checked before anybody relies on them. A million names
as Python strings would take several times the file's size; packed (UTF-8 bytes and where each name
ends), they are checked where they lie and become strings when somebody asks. Probes are rows with
known scores, so that a server can test itself before it swaps; they are made up, never taken from
training data: a model file must not leak a log.
"""

from __future__ import annotations

import math
import os
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

#: Positions fit into 32 bits.
MAX_FEATURES = int(np.iinfo(np.int32).max)


def sparse_weights(w: Any) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Size, positions and values of the non-zero weights of an array or sparse row."""
    if hasattr(w, "tocsr"):
        row = w.tocsr() if w.shape[0] == 1 else w.T.tocsr()
        if row.shape[0] != 1:
            raise ModelError(f"weights have shape {w.shape}", fix="Pass one weight per feature")
        dense_positions = np.asarray(row.indices, dtype=np.int64)
        order = np.argsort(dense_positions, kind="stable")
        indices = dense_positions[order]
        values = np.asarray(row.data, dtype=np.float64)[order]
        keep = values != 0
        return int(row.shape[1]), indices[keep], values[keep]
    try:
        dense = np.asarray(w, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"weights are not numbers: {error}", fix="Pass real numbers") from error
    if dense.ndim == 2 and 1 in dense.shape:
        dense = dense.ravel()
    if dense.ndim != 1:
        raise ModelError(f"weights have shape {dense.shape}", fix="Pass one weight per feature")
    indices = np.flatnonzero(dense).astype(np.int64)
    return len(dense), indices, dense[indices]


def check_sparse(
    indices: NDArray[Any], values: NDArray[Any], n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read-only arrays: positions strictly increasing below ``n_features``, finite non-zeros."""
    if not 0 <= n_features <= MAX_FEATURES:
        raise ModelError(
            f"{n_features} features", fix=f"A model holds 0 to {MAX_FEATURES:,} features"
        )
    positions, weights = read_only(indices, np.int64), read_only(values, np.float64)
    if positions.ndim != 1 or positions.shape != weights.shape:
        raise ModelError(
            f"{positions.shape} positions for {weights.shape} weights",
            fix="Give each weight one position",
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
            fix="Train again with a smaller step or scaled features; such a model is never saved",
        )
    if not weights.all():
        raise ModelError("a stored weight is zero", fix="Store non-zero weights only")
    return positions, weights


def read_only(given: Any, dtype: Any) -> NDArray[Any]:
    """A read-only array that shares no writable memory with the caller's."""
    array = np.ascontiguousarray(given, dtype=dtype)
    if not array.flags.writeable:
        return array
    if np.may_share_memory(array, given):
        array = array.copy()
    array.flags.writeable = False
    return array


_CHECK_BLOCK = 4096


class PackedNames:
    """Distinct names in order: their bytes one after the other, and where each ends."""

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
            seen: set[bytes] = set()
            twice = next(part for part in parts if part in seen or seen.add(part))  # type: ignore[func-returns-value]
            raise ParameterError(
                f"{what} {twice.decode()!r} appears twice", fix="Give every one its own name"
            )
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
        """Ends in order, valid UTF-8 within every name, no name twice; in bounded memory."""
        ends, size = self.ends, len(self.text)
        if len(ends) == 0:
            if size:
                raise ModelFormatError("name bytes without names")
            return
        if ends[0] < 0 or int(ends[-1]) != size or (ends[1:] < ends[:-1]).any():
            raise ModelFormatError("ends of names are out of order or out of range")
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
                hashes[first + k] = hash(name)
                begin = end
        hashes.sort()
        if (hashes[1:] == hashes[:-1]).any() and len(set(self.strings)) != len(ends):
            raise ModelFormatError("a name appears twice")


MAX_PROBES = 16
_ROWS = 4
_WEIGHTS = 16


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row: positions and values in the model's feature space, or raw columns of a log."""

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
    """Four made-up rows over at most 16 of the weights, scored in plain Python.

    None for a model without weights or with weights near the largest number, and for transforms
    that this arithmetic does not know.
    """
    if not indices or any(not isinstance(spec, (ListRange, RunScores)) for spec in transforms):
        return None
    step = max(1, len(indices) // _WEIGHTS)
    kept = range(0, len(indices), step)[:_WEIGHTS]
    width = range(len(kept))
    rows = [[((7 * i + 5 * k + i * k) % 17 - 8) / 4 for k in width] for i in range(_ROWS)]
    scaled = [_by_range(rows, k) if transforms else [row[k] for row in rows] for k in width]
    if transforms and isinstance(transforms[0], RunScores):
        starts = np.array([0, _ROWS], dtype=np.int64)
        scaled = run_score_values(transforms[0], np.array(rows), starts).T.tolist()
    terms = [[values[p] * scaled[k][i] for k, p in enumerate(kept)] for i in range(_ROWS)]
    # Weights so large that a sum overflows cannot be tested by one.
    if not math.isfinite(sum(abs(term) for row in terms for term in row)):
        return None
    scores = [math.fsum(row) for row in terms]
    positions = tuple(int(indices[p]) for p in kept)
    return Probes(tuple(Probe(positions, tuple(row)) for row in rows), tuple(scores))


def _by_range(rows: Sequence[Sequence[float]], k: int) -> list[float]:
    column = [row[k] for row in rows]
    span = max(column) - min(column)
    return [x / span if span > 0 else 0.0 for x in column]


class StoredModel:
    """Has one canonical content; what that is, ``rankine.model.store`` knows."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file without trusting it; see ``docs/model-file.md``."""
        from rankine.model.store import load

        return load(path, cls)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the content of a file."""
        from rankine.model.store import decode

        return decode(data, cls)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the whole file this is saved as; equal models have equal digests."""
        return self._encoded()[1]

    def to_bytes(self) -> bytes:
        """Content of the file that ``save`` writes."""
        return b"".join(self._encoded()[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, atomically: a failure or kill leaves the old file as it was."""
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
    """How a model was trained, as its file holds it: specs, text, plain JSON data."""
    told = to_json_value(dict(parameters or {})), to_json_value(dict(provenance or {}))
    return tuple(transforms), None if metric is None else str(metric), *told


def check_base(base: int) -> None:
    """Refuse a first index other than 0 and 1."""
    if base not in (0, 1):
        raise ModelError(f"base is {base}", fix="Features count from 0 or from 1")


def check_names(names: Any, *sizes: int) -> None:
    """Refuse names that are neither one per feature nor one per non-zero weight."""
    if names is not None and len(names) not in sizes:
        raise ModelError(
            f"{len(names)} feature names for {sizes[0]} features",
            fix="Name every feature once" + (", or every non-zero weight" if sizes[1:] else ""),
        )
