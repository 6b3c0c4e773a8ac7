"""``SPDRanker`` and ``ElasticRanker`` on partitions: passes and means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankine.core.errors import NoPairsError, ParameterError
from rankine.distributed.measure import RawRecipe
from rankine.rankers.averaging import PassRecipe, pair_shares
from rankine.rankers.checks import count_passes
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

#: Passes where none are asked for: the mean of weights that saw a part of the data each needs more
#: than one to come near a pass over all of it.
PASSES = 10


def solve_spd_parts(ranker: SPDRanker, job: PartsJob) -> Solution:
    """``n_steps`` steps in all, a partition's share of them by its examples."""
    check_spd(ranker)
    if ranker.record_at:
        raise ParameterError("record_at needs the rows in memory", fix="Leave it out")
    found = job.team(RawRecipe()).each("apply", pair_shares, ranker.sampling, ranker.ties)
    total = float(sum(found))
    if total <= 0:
        raise NoPairsError("no query holds two different labels", fix="Check the labels")
    n_passes = count_passes(ranker.n_passes, PASSES)
    team = _team(ranker, job, n_passes, total)
    warm = job.coef_init is not None
    w = np.zeros(job.n_features) if job.coef_init is None else job.coef_init
    mean, counted, reason = np.zeros(job.n_features), 0.0, "max_iter"
    done = 0
    for number in range(n_passes):
        w, averaged = team.total("learn", w, number, warm)
        # The part of this pass that lies in the second half of the run.
        part = min(1.0, max(0.0, number + 1 - n_passes / 2)) if ranker.average else 0.0
        mean, counted = mean + part * averaged, counted + part
        current = mean / counted if counted else w
        require_finite(current, number, "stochastic pairwise descent")
        done = int(ranker.n_steps) * (number + 1) // n_passes
        stop = report(job.callbacks, "passes", number + 1, n_passes, {}, current)
        if stop and number + 1 < n_passes:
            reason = "callback"
            break
    ranker.record_ = []
    return Solution(current, float("nan"), {"passes": float(number + 1)}, done, (), reason)


def solve_elastic_parts(ranker: ElasticRanker, job: PartsJob) -> Solution:
    """Passes over every partition, lists in a new seeded order each time."""
    n_passes = count_passes(ranker.n_passes, PASSES)
    team = _team(ranker, job, n_passes, float(job.measured.queries))
    warm = job.coef_init is not None
    w = np.zeros(job.n_features) if job.coef_init is None else job.coef_init
    ranker._new_learner(job.n_features, job.seed, job.coef_init)  # refuses bad parameters here
    progressive, tally, unfit = Progressive(ranker.metric), np.zeros(2), 0.0
    trace: list[dict[str, float]] = []
    reason = "passes"
    for number in range(n_passes):
        w, sums, losses, strange = team.total("learn", w, number, warm)
        require_finite(w, number, "one-pass learning")
        progressive.sums += sums
        tally, unfit = tally + losses, unfit + strange
        values = {"progressive_loss": float(tally[0] / tally[1]) if tally[1] else float("nan")}
        if not unfit:
            values[progressive.name] = progressive.value
        trace.append({"pass": number + 1, **values})
        stop = report(job.callbacks, "passes", number + 1, n_passes, values, w)
        if stop and number + 1 < n_passes:
            reason = "callback"
            break
    ranker.progressive_ = float("nan") if unfit else progressive.value
    steps = (number + 1) * -(-job.measured.queries // int(ranker.batch_lists))
    kept = w if ranker.max_nonzero is None else _largest(w, int(ranker.max_nonzero))
    return Solution(kept, float("nan"), {**values, "passes": number + 1.0}, steps, trace, reason)


def _team(ranker: Any, job: PartsJob, n_passes: int, total: float) -> Team:
    parameters = {**ranker.get_params(deep=False), "random_state": None, "warm_start": False}
    recipe = PassRecipe(ranker._system, parameters, n_passes, job.seed, total, job.scaling)
    return job.team(recipe)


def _largest(w: Any, count: int) -> Any:
    """At most ``count`` weights, the largest."""
    out = np.zeros_like(w)
    kept = np.argsort(-np.abs(w), kind="stable")[:count]
    out[kept] = w[kept]
    return out
