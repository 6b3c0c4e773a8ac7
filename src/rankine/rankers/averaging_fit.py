"""``SPDRanker`` and ``ElasticRanker`` on partitions: rounds of passes and means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import NoPairsError, ParameterError
from rankine.distributed.measure import RawRecipe
from rankine.rankers.averaging import PassRecipe, pair_shares
from rankine.rankers.spd_parts import check_spd
from rankine.solvers.base import Solution, require_finite
from rankine.solvers.progressive import Progressive
from rankine.solvers.report import report

if TYPE_CHECKING:
    from rankine.distributed.team import Team
    from rankine.rankers.elastic import ElasticRanker
    from rankine.rankers.parts_job import PartsJob
    from rankine.rankers.spd import SPDRanker

__all__ = ["solve_elastic_parts", "solve_spd_parts"]


def solve_spd_parts(ranker: SPDRanker, job: PartsJob) -> Solution:
    """``n_iter`` steps in all, a partition's share of them by its examples."""
    check_spd(ranker)
    if ranker.record_at:
        raise ParameterError("record_at needs the rows in memory", fix="Leave it out")
    found = job.team(RawRecipe()).each("apply", pair_shares, ranker.sampling, ranker.ties)
    total = float(sum(found))
    if total <= 0:
        raise NoPairsError("no query holds two different labels", fix="Check the labels")
    team = _team(ranker, job, total)
    warm = job.coef_init is not None
    w = np.zeros(job.n_features) if job.coef_init is None else job.coef_init
    rounds = job.data.rounds
    mean, counted, reason = np.zeros(job.n_features), 0.0, "max_iter"
    done = 0
    for number in range(rounds):
        w, averaged = team.total("learn", w, number, warm)
        # The part of this round that lies in the second half of the run.
        part = min(1.0, max(0.0, number + 1 - rounds / 2)) if ranker.average else 0.0
        mean, counted = mean + part * averaged, counted + part
        current = mean / counted if counted else w
        require_finite(current, number, "stochastic pairwise descent")
        done = int(ranker.n_iter) * (number + 1) // rounds
        if report(job.callbacks, "rounds", number + 1, rounds, {}, current) and number + 1 < rounds:
            reason = "callback"
            break
    ranker.record_ = []
    return Solution(current, float("nan"), {"rounds": float(number + 1)}, done, (), reason)


def solve_elastic_parts(ranker: ElasticRanker, job: PartsJob) -> Solution:
    """A pass over every partition a round, lists in a new seeded order each time."""
    team = _team(ranker, job, float(job.measured.queries))
    warm = job.coef_init is not None
    w = np.zeros(job.n_features) if job.coef_init is None else job.coef_init
    ranker._new_learner(job.n_features, job.seed, job.coef_init)  # refuses bad parameters here
    progressive, tally, unfit = Progressive(ranker.metric), np.zeros(2), 0.0
    trace: list[dict[str, float]] = []
    rounds, reason = job.data.rounds, "passes"
    for number in range(rounds):
        w, sums, losses, strange = team.total("learn", w, number, warm)
        require_finite(w, number, "one-pass learning")
        progressive.sums += sums
        tally, unfit = tally + losses, unfit + strange
        values = {"progressive_loss": float(tally[0] / tally[1]) if tally[1] else float("nan")}
        if not unfit:
            values[progressive.name] = progressive.value
        trace.append({"round": number + 1, **values})
        if report(job.callbacks, "rounds", number + 1, rounds, values, w) and number + 1 < rounds:
            reason = "callback"
            break
    ranker.progressive_ = float("nan") if unfit else progressive.value
    steps = (number + 1) * -(-job.measured.queries // int(ranker.batch_lists))
    kept = w if ranker.n_nonzero is None else _largest(w, int(ranker.n_nonzero))
    return Solution(kept, float("nan"), {**values, "rounds": number + 1.0}, steps, trace, reason)


def _team(ranker: Any, job: PartsJob, total: float) -> Team:
    parameters = {**ranker.get_params(deep=False), "random_state": None, "warm_start": False}
    recipe = PassRecipe(ranker._system, parameters, job.data.rounds, job.seed, total, job.scaling)
    return job.team(recipe)


def _largest(w: Any, count: int) -> Any:
    """At most ``count`` weights, the largest."""
    out = np.zeros_like(w)
    kept = np.argsort(-np.abs(w), kind="stable")[:count]
    out[kept] = w[kept]
    return out
