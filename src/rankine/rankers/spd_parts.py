"""From SPD's parameters to specs: solvers, samplers, phases."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.losses import Hinge, Logistic
from rankine.samplers.draw import ExactPairs, LabelPairs, RejectionPairs, TiedPairs
from rankine.samplers.pair_index import build_pair_index
from rankine.solvers.pair_sgd import Phase
from rankine.solvers.pair_steps import (
    GradientStep,
    PassiveAggressiveStep,
    PerceptronStep,
    RommaStep,
)

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.rankers.spd import SPDRanker

__all__ = ["SAMPLINGS", "SOLVERS", "check_spd", "make_phases", "make_sampler", "make_step"]

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
        return GradientStep(Hinge(), l2, name == "pegasos", inverse)
    if name == "logistic":
        return GradientStep(Logistic(), l2, project=False, inverse=inverse)
    if name == "passive_aggressive":
        return PassiveAggressiveStep(float(ranker.aggressiveness))
    if name == "romma":
        return RommaStep(1.0 / l2 if ranker.norm_guard else math.inf)
    return PerceptronStep(0.0 if name == "perceptron" else float(ranker.margin))


def make_phases(ranker: SPDRanker, taken: int, *, warm: bool) -> list[Phase]:
    """The steps after the ``taken`` ones as phases; hybrid has two.

    Weights that come from elsewhere would be erased by the first steps of eta = 1 / (l2 i);
    their counter starts at 1 / (l2 aggressiveness), where the step size is ``aggressiveness``.
    """
    stop = taken + int(ranker.n_steps)
    average_from = taken + int(ranker.n_steps) // 2 if ranker.average else stop
    matched = math.ceil(1.0 / (ranker.l2 * ranker.aggressiveness))
    if ranker.solver != "hybrid":
        shift = matched if warm and taken == 0 else 0
        return [Phase(make_step(ranker, ranker.solver), taken, stop, shift, average_from)]
    switch = ranker.hybrid_steps if ranker.hybrid_steps is not None else int(ranker.n_steps) // 10
    switch = min(max(int(switch), 0), stop)
    second = make_step(ranker, ranker.hybrid_second)
    phases = [Phase(second, max(switch, taken), stop, matched - switch, average_from)]
    if switch > taken:
        phases.insert(
            0, Phase(make_step(ranker, "passive_aggressive"), taken, switch, 0, average_from)
        )
    return [phase for phase in phases if phase.start < phase.stop]


def make_sampler(ranker: SPDRanker, data: Dataset, query_weight: NDArray[np.float64]) -> Any:
    """The sampler spec over a dataset."""
    ties = ranker.ties == "zero"
    if ranker.sampling == "rejection":
        return RejectionPairs(
            data.queries.codes,
            data.y,
            np.zeros(0) if data.weight is None else data.weight / data.weight.max(),
            np.zeros(0) if np.ptp(query_weight) == 0 else query_weight / query_weight.max(),
            ties,
            int(ranker.max_trials),
        )
    index = build_pair_index(data, query_weight, by_pairs=ranker.sampling == "uniform", ties=ties)
    if ranker.sampling == "indexed":
        return LabelPairs(index)
    return TiedPairs(index) if ties else ExactPairs(index)
