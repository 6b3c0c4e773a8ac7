"""One call of ``fit`` on partitions, ready for a solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.distributed.journal import Journal
from rankine.distributed.measure import Measured, RawRecipe, measure_scaling
from rankine.distributed.oracles import TeamEquations, TeamOracle
from rankine.distributed.pair_parts import RiskRecipe, SquaresRecipe
from rankine.rankers.plain import plain_parameters
from rankine.solvers.pair_laplacian import LaplacianTotals
from rankine.solvers.pair_queries import PairTotals, risk_at_zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.data.dataset import Dataset
    from rankine.distributed.dataset import PartitionedDataset
    from rankine.distributed.tasks import Recipe
    from rankine.distributed.team import Team
    from rankine.rankers.base import BaseRanker
    from rankine.solvers.base import Callback, Solution
    from rankine.transforms.scaling import Scaling

__all__ = ["PartsJob"]


@dataclass(frozen=True, eq=False)
class PartsJob:
    """Like ``Job``, with partitions instead of rows in memory.

    Attributes
    ----------
    data
        The partitions, unscaled.
    measured
        What they hold.
    scaling
        Measured on all of them.
    journal
        Checkpoints, or None.
    coef_init, valid, callbacks, seed
        As in ``Job``.
    """

    data: PartitionedDataset
    measured: Measured
    scaling: Scaling
    journal: Journal | None
    seed: int
    coef_init: NDArray[np.float64] | None = None
    valid: Dataset | None = None
    callbacks: Sequence[Callback] = ()

    @classmethod
    def start(cls, ranker: BaseRanker, data: PartitionedDataset, seed: int) -> PartsJob:
        """Read all partitions once; recorded answers are of the same ranker and data only."""
        measured = data.measure()
        journal = None
        if data.checkpoint is not None:
            facts = {
                "ranker": ranker._system,
                "parameters": _recorded(ranker),
                "data": data.fingerprint,
            }
            journal = Journal(data.checkpoint, facts, resume=data.resume)
            seed = journal.remember("seed", seed)
        raw = data.team(RawRecipe(), journal)
        scaling = measure_scaling(ranker.scale, raw, data.n_features, measured.rows)
        return cls(data, measured, scaling, journal, seed)

    def ready(
        self,
        coef_init: NDArray[np.float64] | None,
        valid: Dataset | None,
        callbacks: Sequence[Callback],
    ) -> PartsJob:
        """The job with its start, evaluation data and callbacks."""
        return replace(self, coef_init=coef_init, valid=valid, callbacks=callbacks)

    def solve(self, ranker: BaseRanker) -> Solution:
        """Train; what was answered is on disk at the end, however it ends."""
        try:
            return ranker._solve_parts(self)
        finally:
            if self.journal is not None:
                self.journal.flush()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.data.n_features

    def team(self, recipe: Recipe) -> Team:
        """All partitions, prepared by a recipe."""
        return self.data.team(recipe, self.journal)

    def risk_oracle(self, loss: str, normalization: str, oracle: str) -> TeamOracle:
        """The pairwise risk of all partitions."""
        weight, pair_weight, count = self.team(RawRecipe()).total("pair_totals")
        totals = PairTotals(float(weight), float(pair_weight), int(count))
        recipe = RiskRecipe(loss, normalization, oracle, totals, self.scaling)
        at_zero = risk_at_zero(normalization, totals)
        return TeamOracle(self.team(recipe), self.n_features, at_zero)

    def equations(self, normalization: str, pairs: str) -> TeamEquations:
        """The linear system of all partitions."""
        weight, pair_weight, count = self.team(RawRecipe()).total("laplacian_totals", pairs)
        totals = LaplacianTotals(float(weight), float(pair_weight), int(count))
        recipe = SquaresRecipe(normalization, pairs, totals, self.scaling)
        return TeamEquations(self.team(recipe), self.n_features)

    def facts(self) -> dict[str, Any]:
        """What a model remembers about its training data."""
        return {
            "rows": self.measured.rows,
            "queries": self.measured.queries,
            "queries_used": self.measured.queries_used,
            "pairs": self.measured.pairs,
            "sources": list(self.data.sources),
            "partitions": self.data.n_partitions,
        }


def _recorded(ranker: BaseRanker) -> dict[str, Any]:
    """Parameters that decide the answers; threads do not, and the seed is recorded by itself."""
    parameters = plain_parameters(ranker)
    for name in ("random_state", "warm_start", "n_threads"):
        parameters.pop(name, None)
    return parameters
