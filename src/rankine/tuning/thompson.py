"""Bayesian optimisation as an Optuna sampler: Gaussian process and Thompson sampling.

Settings are encoded as points of a unit cube. Numbers go to [0, 1] on a linear or logarithmic axis.
One of n categories becomes a corner of a simplex whose corners are 1 apart (one-hot / sqrt 2), so
that a category weighs as much as the whole range of a number. A parameter that a setting does not
use gets the middle of its range.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial
from threadpoolctl import ThreadpoolController

from rankine.core.checks import check_choice, check_count
from rankine.core.errors import ParameterError
from rankine.tuning import import_optuna
from rankine.tuning.gaussian_process import ACQUISITIONS, choose, fit_process

Setting = Mapping[str, Any]
#: Function from a setting to the names of the parameters that it uses.
Active = Callable[[Setting], Collection[str]]

#: Standard deviation of a step near the incumbent, as a share of the range.
LOCAL_STEP = 0.1
#: Probability that a category is drawn again near the incumbent.
LOCAL_REDRAW = 0.2


class Encoding:
    """Draws, perturbs and encodes settings of a space of Optuna distributions by name."""

    def __init__(self, space: Mapping[str, BaseDistribution], active: Active | None = None) -> None:
        self.space = dict(space)
        self._active = active
        widths = [len(_choices(dist) or "1") for dist in self.space.values()]
        self.groups = np.repeat(np.arange(len(widths)), widths)

    def random(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw a uniform setting (uniform in the logarithm on logarithmic axes)."""
        return {name: self._draw(dist, rng) for name, dist in self.space.items()}

    def near(self, setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
        """Draw a setting close to another; parameters that the other lacks are drawn uniformly."""
        neighbour = {}
        for name, dist in self.space.items():
            categorical = _choices(dist) is not None
            # The order of random draws is part of the results for a seed.
            if name not in setting or (categorical and rng.random() < LOCAL_REDRAW):
                neighbour[name] = self._draw(dist, rng)
            elif categorical:
                neighbour[name] = setting[name]
            else:
                x = _to_unit(dist, setting[name]) + LOCAL_STEP * rng.standard_normal()
                neighbour[name] = _from_unit(dist, float(np.clip(x, 0.0, 1.0)))
        return neighbour

    def points(self, settings: Sequence[Setting]) -> NDArray[np.float64]:
        """Encode settings, one row each."""
        rows = [self._point(setting) for setting in settings]
        return np.array(rows, dtype=np.float64).reshape(len(settings), len(self.groups))

    def _point(self, setting: Setting) -> NDArray[np.float64]:
        active = self.space if self._active is None else self._active(setting)
        coordinates: list[float] = []
        for name, dist in self.space.items():
            options = _choices(dist)
            in_use = name in setting and name in active
            if options is None:
                coordinates.append(_to_unit(dist, setting[name]) if in_use else 0.5)
            else:
                one_hot = np.zeros(len(options))
                if in_use and setting[name] in options:
                    one_hot[options.index(setting[name])] = np.sqrt(0.5)
                coordinates += one_hot.tolist()
        return np.array(coordinates)

    @staticmethod
    def _draw(dist: Any, rng: np.random.Generator) -> Any:
        options = _choices(dist)
        if options is not None:
            return options[int(rng.integers(len(options)))]
        return _from_unit(dist, float(rng.random()))


def _choices(dist: Any) -> tuple[Any, ...] | None:
    return getattr(dist, "choices", None)


def _axis(dist: Any) -> tuple[float, float]:
    """Return the ends of the axis; an integer covers half a unit on either side."""
    pad = 0.0
    if isinstance(dist.low, int):
        pad = 0.5 * dist.step
    low, high = dist.low - pad, dist.high + pad
    if dist.log:
        return float(np.log(low)), float(np.log(high))
    return low, high


def _to_unit(dist: Any, value: float) -> float:
    low, high = _axis(dist)
    if high <= low:
        return 0.5
    if dist.log:
        value = float(np.log(value))
    return (float(value) - low) / (high - low)


def _from_unit(dist: Any, x: float) -> Any:
    low, high = _axis(dist)
    value = low + x * (high - low)
    if dist.log:
        value = float(np.exp(value))
    if dist.step is not None:
        value = dist.low + round((value - dist.low) / dist.step) * dist.step
    value = min(max(value, dist.low), dist.high)
    if isinstance(dist.low, int):
        return round(value)
    return float(value)


optuna = import_optuna()
_Sampler: Any = optuna.samplers.BaseSampler
_LIBRARIES = ThreadpoolController()

#: User attribute of a pruned trial: the value that the sampler learns from it.
PARTIAL_VALUE = "rankine:value"
_CONSTRAINTS = "constraints"


class ThompsonSampler(_Sampler):
    """Optuna sampler: Gaussian process with Matern-5/2 kernel and Thompson sampling.

    The next trial is the maximum of one draw from the posterior. Parameters are numbers (on a
    linear or logarithmic axis), integers and categories; each has a length scale, fitted by
    empirical Bayes. Failed trials and trials without a finite value count as one standard deviation
    below the worst trial, pruned trials with their last report, running trials with the mean that
    the process predicts. Each constraint (``trial.set_constraint``) has a separate process. A
    trial's proposal depends on the seed, its number and the trials before it. A trial that repeats
    one whose worker died has that one's number, and later trials are numbered as if it had not been
    repeated: a resumed study continues like an uninterrupted one.

    Parameters
    ----------
    seed
        Any integer; None draws one.
    acquisition
        ``"thompson"`` or ``"ei"`` (expected improvement).
    n_startup_trials
        Number of random trials before the first fit.
    n_candidates, n_local
        Number of random candidates, and of perturbations of the best trial, among which the next
        trial is chosen.
    search_space
        The whole search space. None: the parameters that all trials so far have in common; other
        parameters are drawn at random.
    active
        Function from a setting to the names of the parameters that it uses, for spaces with
        conditions.

    References
    ----------
    Freno, Saveski, Jenatton, Archambeau, One-pass ranking models for low-latency product
    recommendations, KDD 2015, section 6. Snoek, Larochelle, Adams, Practical Bayesian
    optimization of machine learning algorithms, NIPS 2012.

    Examples
    --------
    >>> import optuna
    >>> from rankine.tuning import ThompsonSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=ThompsonSampler(seed=0))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2, n_trials=15)
    >>> abs(study.best_params["x"] - 0.3) < 0.05
    True
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        acquisition: str = "thompson",
        n_startup_trials: int = 6,
        n_candidates: int = 400,
        n_local: int = 100,
        search_space: Mapping[str, BaseDistribution] | None = None,
        active: Active | None = None,
    ) -> None:
        check_choice("acquisition", acquisition, ACQUISITIONS)
        if n_local < 0:
            raise ParameterError("must be at least 0", fix="Use 100", parameter="n_local")
        self.acquisition = acquisition
        self.n_startup_trials = check_count("n_startup_trials", n_startup_trials)
        self.n_candidates = check_count("n_candidates", n_candidates)
        self.n_local = n_local
        self._seed = secrets.randbits(63) if seed is None else abs(int(seed))
        self._space = None if search_space is None else dict(search_space)
        self._active = active
        self._common = optuna.search_space.IntersectionSearchSpace(include_pruned=True)

    def reseed_rng(self) -> None:
        """Keep the seed: every trial has a separate random stream, also in parallel workers."""

    def infer_relative_search_space(
        self,
        study: Study,
        trial: FrozenTrial,  # noqa: ARG002 - Optuna's signature
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that the process models."""
        space = self._space
        if space is None:
            space = self._common.calculate(study)
        return {name: dist for name, dist in space.items() if not dist.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Propose the next setting; a uniform one for the first trials."""
        if not search_space:
            return {}
        all_trials = study.get_trials(deepcopy=False)
        rng = self._stream(_number_without_retries(trial, all_trials))
        encoding = Encoding(search_space, self._active)
        trials = [t for t in all_trials if t.number != trial.number]
        past = _informative(trials)
        sign = 1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else -1.0
        values = np.array([sign * _value(t) for t in past])
        if len(past) < self.n_startup_trials or not np.isfinite(values).any():
            return encoding.random(rng)
        running = [t for t in trials if t.state.name == "RUNNING" and t.params]
        # The matrices are small: threads of the linear algebra cost ten times what they gain.
        with _LIBRARIES.limit(limits=1, user_api="blas"):
            return self._propose(encoding, past, values, running, rng)

    def _propose(
        self,
        encoding: Encoding,
        past: Sequence[FrozenTrial],
        values: NDArray[np.float64],
        running: Sequence[FrozenTrial],
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        points = encoding.points([t.params for t in past])
        pending = encoding.points([t.params for t in running])
        process = fit_process(points, with_failures(values), encoding.groups, rng)
        constraints = _constraint_values(past)
        constraint_processes = []
        for column in constraints.T:
            measured = np.isfinite(column)
            if measured.any():
                fitted = fit_process(points[measured], column[measured], encoding.groups, rng)
                constraint_processes.append(fitted.with_expected(pending))
        # The incumbent is the best feasible trial, the best of all if none is feasible.
        eligible = np.isfinite(values)
        feasible = eligible & (np.nan_to_num(constraints, nan=0.0) <= 0).all(1)
        if feasible.any():
            eligible = feasible
        indices = np.flatnonzero(eligible)
        incumbent = past[int(indices[np.argmax(values[indices])])]
        candidates = [encoding.random(rng) for _ in range(self.n_candidates)]
        candidates += [encoding.near(incumbent.params, rng) for _ in range(self.n_local)]
        index = choose(
            self.acquisition,
            process.with_expected(pending),
            constraint_processes,
            encoding.points(candidates),
            float(values[indices].max()),
            rng,
        )
        return candidates[index]

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a uniform value for a parameter that the process does not model."""
        number = _number_without_retries(trial, study.get_trials(deepcopy=False))
        rng = self._stream(number, crc32(param_name.encode()))
        return Encoding({param_name: param_distribution}).random(rng)[param_name]

    def _stream(self, *path: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, *path])


def with_failures(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace each value that is not finite by the worst value minus a standard deviation."""
    finite = np.isfinite(values)
    spread = float(values[finite].std()) or 1.0
    return np.where(finite, values, values[finite].min() - spread)


def _number_without_retries(trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> int:
    """Return the number that a trial would have if no trial had been repeated."""
    number = trial.system_attrs.get("failed_trial", trial.number)
    return number - sum("failed_trial" in t.system_attrs for t in trials[:number])


def _informative(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that carry information about their parameters.

    A trial whose worker died and that Optuna queued again carries none.
    """
    retried = {number for t in trials for number in t.system_attrs.get("retry_history", ())}
    return [
        t
        for t in trials
        if t.state.name in {"COMPLETE", "PRUNED"}
        or (t.state.name == "FAIL" and t.params and t.number not in retried)
    ]


def _value(trial: FrozenTrial) -> float:
    if trial.state.name == "FAIL":
        return math.nan
    if trial.state.name == "COMPLETE":
        return float(trial.value)
    if PARTIAL_VALUE in trial.user_attrs:
        return float(trial.user_attrs[PARTIAL_VALUE])
    if trial.last_step is None:
        return math.nan
    return float(trial.intermediate_values[trial.last_step])


def _constraint_values(trials: Sequence[FrozenTrial]) -> NDArray[np.float64]:
    """Return an array of trials x constraints, NaN for constraints that were not measured."""
    rows = []
    for trial in trials:
        attributes = trial.system_attrs
        # Optuna stores constraints of a sampler as a list, those of a trial by name.
        unnamed = attributes.get(_CONSTRAINTS) or ()
        row = {f"{_CONSTRAINTS}:{k}": value for k, value in enumerate(unnamed)}
        row |= {key: v for key, v in attributes.items() if key.startswith(f"{_CONSTRAINTS}:")}
        rows.append(row)
    names = sorted({name for row in rows for name in row})
    table = [[float(row.get(name, math.nan)) for name in names] for row in rows]
    return np.array(table, dtype=np.float64).reshape(len(rows), len(names))
