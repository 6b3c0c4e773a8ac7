"""Bundles: many models over one feature space in one file, such as one per topic or shop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ModelError, ParameterError
from rankine.model.checks import check_parts
from rankine.model.linear import LinearModel
from rankine.model.weights import (
    PackedNames,
    StoredModel,
    check_base,
    check_names,
    check_sparse,
    read_only,
    sparse_weights,
    training_metadata,
)

if TYPE_CHECKING:
    import msgspec


@dataclass(frozen=True, eq=False)
class ModelBundle(StoredModel, Mapping[str, LinearModel]):
    """A mapping from topics to models with the same features; one file, one digest.

    ``bundle["topic"]`` is a ``LinearModel`` that shares the memory of the bundle.

    Attributes
    ----------
    topics
        Packed names of the topics.
    n_features
        Size of the shared feature space.
    starts
        Topic number ``t`` has the weights ``starts[t]:starts[t + 1]``.
    indices, weights
        Positions and values of the non-zero weights, topic after topic.
    transforms, metric, parameters, provenance, base, names
        Shared by all topics; see ``LinearModel``.
    """

    topics: PackedNames
    n_features: int
    starts: NDArray[np.int64]
    indices: NDArray[np.int64]
    weights: NDArray[np.float64]
    transforms: tuple[msgspec.Struct, ...] = ()
    metric: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    base: int = 1
    names: PackedNames | None = None

    def __post_init__(self) -> None:
        starts = np.ascontiguousarray(self.starts, dtype=np.int64)
        if (
            starts.shape != (len(self.topics) + 1,)
            or starts[0] != 0
            or int(starts[-1]) != len(self.indices)
            or (starts[1:] < starts[:-1]).any()
        ):
            raise ModelError(
                "the starts of topics are out of order or out of range",
                fix="Pass one increasing start per topic, from 0 to the number of weights",
            )
        check_base(self.base)
        check_names(self.names, self.n_features)
        check_parts(self.transforms, self.n_features, self.parameters, self.provenance)
        indices, values = read_only(self.indices, np.int64), read_only(self.weights, np.float64)
        # Positions increase within each topic only, so each is checked by itself.
        for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            check_sparse(indices[a:b], values[a:b], self.n_features)
        object.__setattr__(self, "starts", read_only(starts, np.int64))
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "weights", values)

    @classmethod
    def from_weights(
        cls,
        weights: Mapping[str, Any],
        feature_names: Sequence[str] | None = None,
        *,
        transforms: Sequence[msgspec.Struct] = (),
        metric: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
        base: int = 1,
    ) -> ModelBundle:
        """Build a bundle from one weight vector (array or sparse row) per topic.

        Examples
        --------
        >>> bundle = ModelBundle.from_weights({"earn": [1.0, 0.0], "grain": [0.0, 2.0]})
        >>> bundle["grain"].indices.tolist()
        [1]
        """
        rows = [sparse_weights(w) for w in weights.values()]
        sizes = {row[0] for row in rows}
        if len(sizes) != 1:
            raise ModelError(
                f"the weights of {len(rows)} topics have sizes {sorted(sizes)}",
                fix="Pass at least one topic, all with the same features",
            )
        return cls(
            PackedNames.pack(weights, "topic"),
            sizes.pop(),
            np.cumsum([0, *(len(indices) for _, indices, _ in rows)]),
            np.concatenate([row[1] for row in rows]),
            np.concatenate([row[2] for row in rows]),
            *training_metadata(transforms, metric, parameters, provenance),
            base,
            None if feature_names is None else PackedNames.pack(feature_names),
        )

    def __getitem__(self, topic: str) -> LinearModel:
        # A KeyError for unknown topics, as in every mapping.
        t = self.topics.positions[topic]
        a, b = int(self.starts[t]), int(self.starts[t + 1])
        return LinearModel(
            self.n_features,
            self.indices[a:b],
            self.weights[a:b],
            self.transforms,
            self.metric,
            {**self.parameters, "topic": topic},
            self.provenance,
            self.base,
            None,
            self.names,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics.strings)

    def __len__(self) -> int:
        return len(self.topics)

    @property
    def nnz(self) -> int:
        """Number of non-zero weights of all topics."""
        return len(self.indices)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of all features, or None."""
        return None if self.names is None else self.names.strings

    def summary(self, top: int = 20) -> dict[str, Any]:
        """Return the size of the bundle and of its first topics, as plain data."""
        from rankine.model.show import bundle_summary

        return bundle_summary(self, top)

    def _repr_html_(self) -> str:
        from rankine.model.show import bundle_html

        return bundle_html(self)

    def __repr__(self) -> str:
        return (
            f"ModelBundle({len(self):,} models of {self.n_features:,} features, "
            f"{self.nnz:,} weights)"
        )


def select_model(model: LinearModel | ModelBundle, topic: str | None) -> LinearModel:
    """Return a model, or the named model of a bundle."""
    if isinstance(model, LinearModel):
        if topic is not None:
            raise ParameterError(
                "this is a single model, not a bundle", fix="Leave it out", parameter="topic"
            )
        return model
    if topic is None or topic not in model:
        reason = f"the bundle has no topic {topic!r}"
        if topic is None:
            reason = f"this is a bundle of {len(model)} models"
        raise ParameterError(
            reason, fix="Name one of its topics; rankine inspect lists them", parameter="topic"
        )
    return model[topic]
