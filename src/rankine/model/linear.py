"""The linear model: sparse weights and everything needed to use them rightly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.specs import Bins, MissingValues
from rankine.model.weights import (
    PackedNames,
    Probes,
    StoredModel,
    check_base,
    check_names,
    check_sparse,
    make_probes,
    sparse_weights,
    training_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import msgspec

    from rankine.model.explain import Explanation


@dataclass(frozen=True, eq=False)
class LinearModel(StoredModel):
    """A linear ranking function f(x) = sum_j w_j x_j, frozen.

    Only differences of scores within one list mean anything, so there is no intercept.

    Attributes
    ----------
    n_features
        Size of the feature space.
    indices, values
        Positions (0-based, strictly increasing) and values of the non-zero weights.
    transforms
        What serving must do to a row before the weights (``rankine.core.specs``).
    metric
        Metric the model was trained for, in text form.
    parameters, provenance
        How it was trained: plain JSON data.
    base
        Index of the first feature in text files that go with this model (0 or 1).
    probes
        Rows with their scores, for self-tests before serving.
    names
        Packed names of all features, or of the non-zero weights only; see ``feature_names`` and
        ``weight_names``.
    """

    n_features: int
    indices: NDArray[np.int64]
    values: NDArray[np.float64]
    transforms: tuple[msgspec.Struct, ...] = ()
    metric: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    base: int = 1
    probes: Probes | None = None
    names: PackedNames | None = None

    def __post_init__(self) -> None:
        """Check everything once; arrays become read-only."""
        indices, values = check_sparse(self.indices, self.values, self.n_features)
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "values", values)
        check_base(self.base)
        check_names(self.names, self.n_features, len(indices))

    @classmethod
    def from_weights(
        cls,
        w: Any,
        feature_names: Sequence[str] | None = None,
        *,
        weight_names: Sequence[str] | None = None,
        transforms: Sequence[msgspec.Struct] = (),
        metric: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
        base: int = 1,
        probes: Probes | None = None,
    ) -> LinearModel:
        """Make a model of weights.

        Parameters
        ----------
        w
            Weights: one-dimensional array, or a sparse row.
        feature_names
            One name per feature.
        weight_names
            Instead: one name per non-zero weight, in index order (hashed features).
        transforms, metric, parameters, provenance, base, probes
            See the class; ``parameters`` and ``provenance`` are reduced to plain JSON data, and
            probes are made up where none are given.

        Examples
        --------
        >>> model = LinearModel.from_weights([0.5, 0.0, -2.0], ["bm25", "age", "spam"])
        >>> model.nnz, model.weight_names
        (2, ('bm25', 'spam'))
        """
        n_features, indices, values = sparse_weights(w)
        check_names(feature_names, n_features)
        if probes is None:
            probes = make_probes(indices.tolist(), values.tolist(), transforms)
        chosen = feature_names if feature_names is not None else weight_names
        return cls(
            n_features,
            indices,
            values,
            *training_metadata(transforms, metric, parameters, provenance),
            base,
            probes,
            None if chosen is None else PackedNames.pack(chosen),
        )

    @property
    def nnz(self) -> int:
        """Number of non-zero weights."""
        return len(self.indices)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of all features, or None where only some or none are known."""
        if self.names is None or len(self.names) != self.n_features:
            return None
        return self.names.strings

    @property
    def bins(self) -> Bins | None:
        """The bins of a model of tables; None where weights are those of features."""
        return next((spec for spec in self.transforms if isinstance(spec, Bins)), None)

    @property
    def missing(self) -> MissingValues | None:
        """What stands for missing values of the features; None where they are refused."""
        return next((spec for spec in self.transforms if isinstance(spec, MissingValues)), None)

    @property
    def n_columns(self) -> int:
        """Columns of a row as it comes: features, or the columns that tables are over."""
        return self.n_features if self.bins is None else len(self.bins.cuts)

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the columns of a row as it comes, or None."""
        return self.feature_names if self.bins is None else self.bins.names

    @cached_property
    def weight_names(self) -> tuple[str, ...]:
        """Name of each non-zero weight; ``str(index + base)`` where features have no names."""
        if self.names is None:
            return tuple(str(j) for j in (self.indices + self.base).tolist())
        if len(self.names) == self.n_features:
            strings = self.names.strings
            return tuple(strings[j] for j in self.indices.tolist())
        return self.names.strings

    def to_dense(self) -> NDArray[np.float64]:
        """All weights, zeros included."""
        dense = np.zeros(self.n_features)
        dense[self.indices] = self.values
        return dense

    def renamed(self, feature_names: Sequence[str]) -> LinearModel:
        """The same model with other names, one per feature."""
        check_names(feature_names, self.n_features)
        return replace(self, names=PackedNames.pack(feature_names))

    def compact(self) -> LinearModel:
        """The same function over its non-zero weights alone: column k is ``weight_names[k]``."""
        return replace(
            self,
            n_features=self.nnz,
            indices=np.arange(self.nnz),
            probes=None,
            names=PackedNames.pack(self.weight_names),
        )

    def explain(self, x: Any) -> Explanation:
        """Exact contributions w_j x_j to the score of one row; see ``rankine.model.explain``."""
        from rankine.model.explain import explain

        return explain(self, x)

    def explain_pair(self, a: Any, b: Any) -> Explanation:
        """Exact contributions w_j (a_j - b_j) to "why a above b"."""
        from rankine.model.explain import explain

        return explain(self, a, b)

    def summary(self, top: int = 20) -> dict[str, Any]:
        """What the model is, as plain data: size, heaviest weights, how it was trained."""
        from rankine.model.show import summary

        return summary(self, top)

    def _repr_html_(self) -> str:
        from rankine.model.show import model_html

        return model_html(self)

    def __repr__(self) -> str:
        ranker = self.parameters.get("ranker", "")
        by = f", trained by {ranker}" if ranker else ""
        return f"LinearModel({self.nnz:,} of {self.n_features:,} weights{by})"
