"""From SPD's parameters to specs: solvers, samplers, phases."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.losses import pair_loss_spec
from rankine.samplers.draw import pair_sampler
from rankine.solvers.pair_sgd import PairPlan, Phase
from rankine.solvers.pair_steps import (
    PassiveAggressiveStep,
    PerceptronStep,
    RommaStep,
    gradient_step,
)

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.rankers.spd import SPDRanker

__all__ = [
    "SAMPLINGS",
    "SOLVERS",
    "check_spd",
    "make_phases",
    "make_plan",
    "make_sampler",
    "make_step",
]

SOLVERS = (
    "pegasos",
    "sgd_svm",
    "passive_aggressive",
    "romma",
    "logistic",
    "hybrid",
    "perceptron",
    "margin_perceptron",
)
SAMPLINGS = ("query", "uniform", "indexed", "rejection")


def check_spd(ranker: SPDRanker) -> None:
    """Refuse parameters outside their domain, all of them before any work."""
    _one_of("solver", ranker.solver, SOLVERS)
    _one_of("sampling", ranker.sampling, SAMPLINGS)
    _one_of("ties", ranker.ties, ("skip", "zero"))
    _one_of("schedule", ranker.schedule, ("pegasos", "inverse"))
    _one_of("hybrid_second", ranker.hybrid_second, ("pegasos", "sgd_svm"))
    for name in ("l2", "aggressiveness", "schedule_c"):
        value = getattr(ranker, name)
        if not (math.isfinite(value) and value > 0):
            raise ParameterError(
                f"{name}={value!r} must be a positive number", fix=f"Pass {name} > 0"
            )
    if not math.isfinite(ranker.margin) or ranker.margin < 0:
        raise ParameterError(f"margin={ranker.margin!r} must be >= 0", fix="Pass margin >= 0")
    if int(ranker.n_steps) != ranker.n_steps or ranker.n_steps < 1:
        raise ParameterError(
            f"n_steps={ranker.n_steps!r} must be an integer >= 1", fix="Pass n_steps >= 1"
        )
    if ranker.ties == "zero" and ranker.sampling == "indexed":
        raise ParameterError(
            "sampling='indexed' draws two different labels, so ties='zero' has no effect there",
            fix="Use sampling='query', 'uniform' or 'rejection'",
        )
    if ranker.ties == "zero" and ranker.solver in ("romma", "perceptron", "margin_perceptron"):
        raise ParameterError(
            f"solver={ranker.solver!r} has no step for tied pairs",
            fix="Use ties='skip', or a solver with a loss",
        )


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(
            f"{name}={value!r} is unknown", fix=f"Choose one of {', '.join(allowed)}"
        )


def make_step(ranker: SPDRanker, name: str) -> Any:
    """The step spec of a solver."""
    inverse = float(ranker.schedule_c) if ranker.schedule == "inverse" else 0.0
    l2 = float(ranker.l2)
    if name in ("pegasos", "sgd_svm"):
        return gradient_step(
            pair_loss_spec("hinge"), l2, project=name == "pegasos", inverse=inverse
        )
    if name == "logistic":
        return gradient_step(pair_loss_spec("logistic"), l2, project=False, inverse=inverse)
    if name == "passive_aggressive":
        return PassiveAggressiveStep(float(ranker.aggressiveness))
    if name == "romma":
        return RommaStep(1.0 / l2 if ranker.norm_guard else math.inf)
    return PerceptronStep(0.0 if name == "perceptron" else float(ranker.margin))


def make_plan(ranker: SPDRanker) -> PairPlan:
    """What a run of the ranker consists of; hybrid has two steps."""
    matched = math.ceil(1.0 / (ranker.l2 * ranker.aggressiveness))
    average = bool(ranker.average)
    if ranker.solver != "hybrid":
        return PairPlan(make_step(ranker, ranker.solver), matched=matched, average=average)
    first, second = make_step(ranker, "passive_aggressive"), make_step(ranker, ranker.hybrid_second)
    return PairPlan(first, second, ranker.hybrid_steps, matched, average)


def make_phases(ranker: SPDRanker, taken: int, *, warm: bool) -> list[Phase]:
    """The steps after the ``taken`` ones."""
    return make_plan(ranker).phases(int(ranker.n_steps), taken, warm=warm)


def make_sampler(ranker: SPDRanker, data: Dataset, query_weight: NDArray[np.float64]) -> Any:
    """The sampler spec over a dataset."""
    return pair_sampler(
        data,
        query_weight,
        sampling=ranker.sampling,
        ties=ranker.ties == "zero",
        max_trials=int(ranker.max_trials),
    )
