"""Stochastic rankers on partitions: a pass over each, then the mean of their weights.

This is another algorithm than a pass over all the data. In pass r every partition i starts from
the same weights w, learns from its own rows alone, and

    w  <-  sum_i (examples of i / all examples)  w_i

The result depends on the partitions, on the number of passes and on the seed, and on nothing else.
(McDonald, Hall and Mann 2010, iterative parameter mixing; Zinkevich et al. 2010.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.distributed.answer import Answer
from rankine.distributed.pair_parts import scaling_token
from rankine.distributed.token import token_of
from rankine.kernels.random import permutation, stream_seed
from rankine.rankers.registry import ranker_class
from rankine.rankers.spd_parts import make_phases, make_sampler
from rankine.rankers.spd_stream import query_shares
from rankine.solvers.one_pass_run import OnePassRun
from rankine.solvers.pair_sgd import run_phase
from rankine.solvers.progressive import Progressive
from rankine.solvers.scaled_vector import S, average_of, new_vector

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.transforms.scaling import Scaling

__all__ = ["PassRecipe", "list_shares", "pair_shares"]

#: Streams of draws of the partitions lie beyond those of a single run.
_STREAM = 1000


def pair_shares(data: Dataset, sampling: str, ties: str) -> float:
    """Examples of a partition for SPD: queries or pairs, as ``sampling`` counts."""
    return float(query_shares(data, sampling, ties=ties == "zero").sum())


def list_shares(data: Dataset) -> float:
    """Examples of a partition for ElasticRank: lists."""
    return float(data.n_queries)


class PassRecipe(NamedTuple):
    """Passes of one ranker over partitions.

    Attributes
    ----------
    system
        Name of the ranker.
    parameters
        Its parameters.
    n_passes
        Passes in all.
    seed
        Root of the streams of all partitions.
    total
        Examples of all partitions.
    scaling
        Measured on all of them.
    """

    system: str
    parameters: dict[str, Any]
    n_passes: int
    seed: int
    total: float
    scaling: Scaling

    @property
    def token(self) -> str:
        """Digest of everything above."""
        return token_of("pass", *self[:5], scaling_token(self.scaling))

    def build(self, data: Dataset, threads: int | None, number: int) -> _SPDPart | _ElasticPart:  # noqa: ARG002
        """The partition; its stream of draws is that of its number."""
        scaled = self.scaling.apply(data)
        seed = int(stream_seed(self.seed, _STREAM + number))
        kind = _SPDPart if self.system == "spd" else _ElasticPart
        return kind(scaled, self, seed)


class _SPDPart:
    """A partition's share of the steps of ``SPDRanker``."""

    def __init__(self, data: Dataset, recipe: PassRecipe, seed: int) -> None:
        ranker: Any = ranker_class("spd")(**recipe.parameters)
        self.rows, self.n_features, self.seed = data.rows, data.n_features, seed
        self.share = pair_shares(data, ranker.sampling, ranker.ties) / recipe.total
        self.steps = int(ranker.n_steps * self.share)
        self.n_passes = recipe.n_passes
        if self.steps:
            ranker.n_steps = self.steps
            self.ranker = ranker
            self.sampler = make_sampler(ranker, data, np.ones(data.n_queries))

    def learn(self, w: NDArray[np.float64], number: int, warm: bool) -> Answer:
        """Shares of the last iterate and of the mean of the counted ones."""
        first = self.steps * number // self.n_passes
        last = self.steps * (number + 1) // self.n_passes
        if first == last:
            return Answer((self.share * w, self.share * w))
        vector = new_vector(w)
        for phase in make_phases(self.ranker, 0, warm=warm):
            begin, end = max(first, phase.start), min(last, phase.stop)
            if begin < end:
                run_phase(self.rows, self.sampler, phase, vector, self.seed, (begin, end))
        return Answer((self.share * (vector.c[S] * vector.v), self.share * average_of(vector)))


class _ElasticPart:
    """Passes of ``ElasticRanker`` over the lists of a partition."""

    def __init__(self, data: Dataset, recipe: PassRecipe, seed: int) -> None:
        self.ranker: Any = ranker_class("elastic")(**recipe.parameters)
        self.data, self.seed = data, seed
        self.share = list_shares(data) / recipe.total

    def learn(self, w: NDArray[np.float64], number: int, warm: bool) -> Answer:
        """Share of the weights; sums of the progressive metric and loss; lists it cannot judge."""
        data = self.data
        steps = number * -(-data.n_queries // int(self.ranker.batch_lists))
        start = w if warm or number else None
        learner = self.ranker._new_learner(data.n_features, self.seed, start, steps)
        learner.lists_seen = number * data.n_queries
        run = OnePassRun(learner, Progressive(self.ranker.metric))
        run.learn_block(data, permutation(stream_seed(self.seed, 1, number), data.n_queries))
        unfit = float(run.progressive.unfit is not None)
        return Answer((self.share * learner.coef(), run.progressive.sums, learner.tally, unfit))
