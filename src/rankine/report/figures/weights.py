"""The model's weights: the strongest, the columns they come from, how few carry how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.specs import LogColumns

if TYPE_CHECKING:
    from rankine.model import LinearModel

__all__ = ["Group", "Weight", "Weights", "source_of", "weights"]

TOP, TOP_GROUPS, POINTS = 12, 15, 40


@dataclass(frozen=True)
class Weight:
    """A weighted feature; ``effect`` = weight x spread within lists, in units of the score."""

    name: str
    index: int
    weight: float
    effect: float


@dataclass(frozen=True)
class Group:
    """Features of one source column: how many have weights, and the sum of their effects' sizes."""

    column: str
    weights: int
    effect: float
    share: float


@dataclass(frozen=True)
class Weights:
    """What the model knows.

    ``positive`` and ``negative`` are ordered by effect; ``groups`` is empty where every feature is
    its own column; ``concentration`` holds (number of features, share of all effects) along the
    features from strongest to weakest; ``idle`` weights belong to features that never differ
    within a list of this data.
    """

    n_features: int
    nonzero: int
    positive: Sequence[Weight]
    negative: Sequence[Weight]
    groups: Sequence[Group]
    concentration: Sequence[tuple[int, float]]
    idle: int
    for_half: int
    for_most: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def weights(model: LinearModel, effect: NDArray[np.float64], top: int = TOP) -> Weights:
    """Strongest features, groups and concentration by effect (one per weight)."""
    names = model.weight_names
    if model.names is None:
        names = tuple(f"feature {name}" for name in names)
    strong = np.argsort(-np.abs(effect), kind="stable")
    chosen = {sign: [k for k in strong.tolist() if sign * model.values[k] > 0] for sign in (1, -1)}

    def listed(places: list[int]) -> list[Weight]:
        return [
            Weight(names[k], int(model.indices[k]), float(model.values[k]), float(effect[k]))
            for k in places[:top]
        ]

    total = float(np.abs(effect).sum())
    along = np.cumsum(np.abs(effect)[strong]) / total if total > 0 else np.zeros(model.nnz)
    places = _sizes(model.nnz, POINTS)
    return Weights(
        model.n_features,
        model.nnz,
        listed(chosen[1]),
        listed(chosen[-1]),
        _groups(model, effect, total),
        [(k, float(along[k - 1])) for k in places],
        int((effect == 0).sum()),
        int(np.searchsorted(along, 0.5) + 1) if total > 0 else 0,
        int(np.searchsorted(along, 0.9) + 1) if total > 0 else 0,
    )


def _sizes(largest: int, points: int) -> list[int]:
    """Whole numbers from 1 to ``largest``, all of them or evenly spaced by logarithm."""
    if largest == 0:
        return []
    return sorted({*np.geomspace(1, largest, points).round().astype(int).tolist(), largest})


def _groups(model: LinearModel, effect: NDArray[np.float64], total: float) -> list[Group]:
    found: dict[str, list[float]] = {}
    for name, index, size in zip(
        model.weight_names, model.indices.tolist(), np.abs(effect).tolist(), strict=True
    ):
        found.setdefault(source_of(model, name, index), []).append(size)
    if all(len(sizes) == 1 for sizes in found.values()):
        return []
    groups = [
        Group(column, len(sizes), sum(sizes), sum(sizes) / total if total > 0 else 0.0)
        for column, sizes in found.items()
    ]
    return sorted(groups, key=lambda group: -group.effect)[:TOP_GROUPS]


def source_of(model: LinearModel, name: str, index: int) -> str:
    """Column that a feature comes from: ``brand`` of ``brand=acme``; a number stands for itself.

    Crosses keep both columns (``brand x size``); hashed features whose value is unknown are
    ``hashed``.
    """
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if spec is not None:
        if index < len(spec.numeric):
            return spec.numeric[index]
        start = len(spec.numeric)
        for field in spec.one_hot:
            start += len(field.values)
            if index < start:
                return field.column
        if name.startswith("hash:"):
            return "hashed (value unknown)"
    if "=" not in name:
        return name
    return " x ".join(part.partition("=")[0] for part in name.split(" x "))
