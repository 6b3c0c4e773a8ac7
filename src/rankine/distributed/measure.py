"""The first pass: what every partition holds, and whether each query lies in one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import NoPairsError, QueryOrderError
from rankine.distributed.answer import Answer
from rankine.distributed.tasks import RAW
from rankine.solvers.pair_laplacian import PairLaplacian
from rankine.solvers.pair_queries import PairQueries
from rankine.transforms.scaling import (
    Scaling,
    check_scale,
    column_max_abs,
    column_moments,
    divisors,
    scaling_from,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankine.data.dataset import Dataset
    from rankine.distributed.piece import Piece
    from rankine.distributed.team import Team

__all__ = ["Contents", "Measured", "RawRecipe", "measure", "measure_scaling"]


class Contents(NamedTuple):
    """What one partition holds."""

    rows: int
    queries: int
    queries_used: int
    pairs: int
    first_id: Any
    last_id: Any


@dataclass(frozen=True)
class Measured:
    """What all partitions hold."""

    rows: int
    queries: int
    queries_used: int
    pairs: int


class RawPart:
    """The rows as they are."""

    def __init__(self, data: Dataset, threads: int | None) -> None:
        self.data = data
        self.threads = threads

    def contents(self) -> Contents:
        """Counts, and the smallest and largest query id."""
        data = self.data
        ids = data.queries.ids
        return Contents(
            data.n_rows,
            data.n_queries,
            len(data.labels.usable),
            data.labels.n_pairs,
            ids.min() if ids.dtype.kind in "iu" else min(ids.tolist()),
            ids.max() if ids.dtype.kind in "iu" else max(ids.tolist()),
        )

    def query_ids(self) -> NDArray[Any]:
        """All query ids, each once."""
        return np.unique(self.data.queries.ids)

    def pair_totals(self) -> Answer:
        """What the normalisation of pairwise risks needs to know."""
        return Answer(tuple(PairQueries.build(self.data).totals))

    def laplacian_totals(self, pairs: str) -> Answer:
        """What the normalisation of pairwise least squares needs to know."""
        return Answer(
            tuple(PairLaplacian(PairQueries.build(self.data), pairs, self.threads).totals)
        )

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of the rows gives."""
        return function(self.data, *arguments)

    def label_range(self) -> tuple[float, float, bool]:
        """Smallest and largest label, and whether all are whole numbers."""
        y = self.data.y
        return float(y.min()), float(y.max()), bool((y == np.floor(y)).all())

    def max_abs(self) -> NDArray[np.float64]:
        """Largest magnitude of every column."""
        return column_max_abs(self.data.rows, self.data.n_features)

    def moments(self, factors: NDArray[np.float64], means: NDArray[np.float64]) -> Answer:
        """Sums of x f and of (x f - mean)^2, implicit zeros included."""
        return Answer(column_moments(self.data.rows, self.data.n_rows, factors, means))


class RawRecipe(NamedTuple):
    """Keep the rows as they were read."""

    token: str = RAW

    def build(self, data: Dataset, threads: int | None, number: int) -> RawPart:  # noqa: ARG002
        """The rows."""
        return RawPart(data, threads)


def measure(team: Team, pieces: Sequence[Piece]) -> Measured:
    """Count everything; a query that lies in two partitions is an error."""
    found: list[Contents] = team.each("contents")
    check_queries(team, pieces, found)
    totals = np.array([one[:4] for one in found], dtype=np.int64).sum(axis=0)
    if totals[3] == 0:
        raise NoPairsError(
            "no query of any partition holds two different labels",
            fix="Check labels and query ids; a query needs a better and a worse row",
        )
    return Measured(*(int(total) for total in totals))


def check_queries(team: Team, pieces: Sequence[Piece], found: Sequence[Contents]) -> None:
    """Refuse a query whose rows lie in two partitions, naming it and its files.

    Partitions whose ids do not overlap need no look; of the others all ids are compared.
    """
    order = sorted(range(len(found)), key=lambda k: found[k].first_id)
    reach, overlap = None, False
    for k in order:
        overlap |= reach is not None and found[k].first_id <= reach
        reach = found[k].last_id if reach is None else max(reach, found[k].last_id)
    if not overlap:
        return
    ids = team.each("query_ids")
    everything = np.concatenate(ids)
    owner = np.repeat(np.arange(len(ids)), [len(one) for one in ids])
    ranks = np.argsort(everything, kind="stable")
    twice = np.flatnonzero(everything[ranks[1:]] == everything[ranks[:-1]])
    if len(twice) == 0:
        return
    first, second = ranks[twice[0]], ranks[twice[0] + 1]
    a, b = pieces[owner[first]], pieces[owner[second]]
    where = (a.name, b.name) if a.file == b.file else (a.file, b.file)
    others = f" ({len(twice) - 1} more are split like it)" if len(twice) > 1 else ""
    raise QueryOrderError(
        f"query {everything[first : first + 1].tolist()[0]!r} has rows in {where[0]} and in "
        f"{where[1]}{others}",
        fix="Group the rows by query: rankine.distributed.repartition, or --repartition",
    )


def measure_scaling(kind: str, team: Team, n_features: int, n_rows: int) -> Scaling:
    """The scaling that ``fit_scaling`` would find on all rows, from the sums of partitions."""
    if check_scale(kind) in ("none", "query"):
        return Scaling(kind)
    largest = np.maximum.reduce(team.each("max_abs"))
    if kind == "maxabs":
        return scaling_from(largest)
    factors, means = 1.0 / divisors(largest), np.zeros(n_features)
    for _ in range(2):
        sums, squares = team.total("moments", factors, means)
        means = sums / n_rows
    return scaling_from(largest, np.sqrt(squares / n_rows))
