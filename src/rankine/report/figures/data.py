"""The data at a glance: queries, labels, lengths, and features that cannot help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.metrics import count_without_value, data_columns

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.report.judged import Judged

__all__ = ["DataSummary", "Histogram", "column_ranges", "data_summary", "lengths", "levels"]

#: Distinct labels shown one by one.
MAX_LEVELS = 12
BINS = 20
#: Names listed of features that cannot help.
NAMED = 20


@dataclass(frozen=True)
class Histogram:
    """Counts between edges, or of named levels."""

    names: Sequence[str]
    edges: Sequence[float]
    counts: Sequence[int]


@dataclass(frozen=True)
class DataSummary:
    """Sizes and oddities of the data that the model was judged on.

    ``without_pairs``: queries whose items all have one label; ``without_value``: queries that the
    headline's metric leaves to its ``no_relevant`` rule; ``zero``: features that are always 0;
    ``constant``: features with one value other than 0; ``flat``: further features that differ
    between lists but never within one.
    """

    rows: int
    queries: int
    n_features: int
    values: int
    storage: str
    labels: Histogram
    lengths: Histogram
    length_quantiles: Sequence[float]
    without_pairs: int
    without_value: int | None
    no_relevant: str | None
    pairs: int
    zero: int
    constant: int
    flat: int
    zero_names: Sequence[str]
    constant_names: Sequence[str]
    flat_names: Sequence[str]
    columns: Sequence[str]
    notes: Mapping[str, int]
    sources: Sequence[str]
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def data_summary(judged: Judged) -> DataSummary:
    """Everything the data section shows."""
    data = judged.data
    low, high = column_ranges(data.X)
    one_value = low == high
    zero = one_value & (low == 0)
    constant = one_value & ~zero
    flat = ~one_value & (judged.spread == 0)
    metric = judged.metric
    missing = None
    if metric is not None:
        columns = data_columns(data)
        missing = count_without_value(metric, data.y, data.queries, columns=columns)
    kind = "sparse" if sparse.issparse(data.X) else "dense"
    named = {
        key: [judged.feature_name(j) for j in np.flatnonzero(mask)[:NAMED].tolist()]
        for key, mask in (("zero", zero), ("constant", constant), ("flat", flat))
    }
    given = [name for name in ("docid", "weight", "position") if getattr(data, name) is not None]
    return DataSummary(
        data.n_rows,
        data.n_queries,
        data.n_features,
        data.nnz,
        f"{kind} {data.X.dtype}",
        levels(data),
        lengths(data),
        np.quantile(data.queries.sizes, [0, 0.25, 0.5, 0.75, 1]).tolist(),
        data.n_queries - len(data.labels.usable),
        missing,
        None if metric is None else metric.no_relevant,
        data.labels.n_pairs,
        int(zero.sum()),
        int(constant.sum()),
        int(flat.sum()),
        named["zero"],
        named["constant"],
        named["flat"],
        [*given, *data.columns],
        dict(data.notes),
        list(data.sources),
        data.fingerprint,
    )


def levels(data: Dataset) -> Histogram:
    """Items of each label; of many labels, in equal intervals."""
    found, counts = np.unique(data.y, return_counts=True)
    if len(found) <= MAX_LEVELS:
        names = [f"{level:g}" for level in found.tolist()]
        return Histogram(names, list(range(len(names) + 1)), counts.tolist())
    counts, edges = np.histogram(data.y, bins=BINS)
    return Histogram([], edges.tolist(), counts.tolist())


def lengths(data: Dataset) -> Histogram:
    """Lists by their number of items."""
    sizes = data.queries.sizes
    low, high = int(sizes.min()), int(sizes.max())
    width = max(1, -(-(high - low + 1) // BINS))
    edges = np.arange(low, high + width + 1, width) - 0.5
    counts, _ = np.histogram(sizes, bins=edges)
    return Histogram([], edges.tolist(), counts.tolist())


def column_ranges(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest value of every column, implicit zeros included."""
    if not sparse.issparse(X):
        return X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    n_rows, n_features = X.shape
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    np.minimum.at(low, X.indices, X.data)
    np.maximum.at(high, X.indices, X.data)
    absent = np.bincount(X.indices, minlength=n_features) < n_rows
    low[absent], high[absent] = np.minimum(low[absent], 0.0), np.maximum(high[absent], 0.0)
    return low, high
