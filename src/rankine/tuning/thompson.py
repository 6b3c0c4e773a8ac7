"""Bayesian optimisation as an Optuna sampler: Gaussian process and Thompson sampling.

Parameters are points of a unit cube. Numbers go to [0, 1] on their own or their logarithmic axis;
one of n categories to a corner of a simplex whose corners are 1 apart (one-hot / sqrt 2), so that a
category weighs as much as the whole range of a number. A parameter that a setting does not read
stands at the middle.
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

from rankine.core.errors import ParameterError
from rankine.tuning import import_optuna
from rankine.tuning.gaussian_process import ACQUISITIONS, choose, fit_process

Setting = Mapping[str, Any]
#: Names of the parameters that a setting reads.
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
        """A uniform setting (uniform on the logarithm where the axis is logarithmic)."""
        return {name: self._draw(dist, rng) for name, dist in self.space.items()}

    def near(self, setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
        """A setting close to another one; what that one does not read is drawn afresh."""
        moved = {}
        for name, dist in self.space.items():
            known = name in setting
            if not known or (_choices(dist) is not None and rng.random() < LOCAL_REDRAW):
                moved[name] = self._draw(dist, rng)
            elif _choices(dist) is not None:
                moved[name] = setting[name]
            else:
                place = _to_unit(dist, setting[name]) + LOCAL_STEP * rng.standard_normal()
                moved[name] = _from_unit(dist, float(np.clip(place, 0.0, 1.0)))
        return moved

    def points(self, settings: Sequence[Setting]) -> NDArray[np.float64]:
        """One row per setting."""
        found = [self._point(setting) for setting in settings]
        return np.array(found, dtype=np.float64).reshape(len(settings), len(self.groups))

    def _point(self, setting: Setting) -> NDArray[np.float64]:
        read = self.space if self._active is None else self._active(setting)
        parts = []
        for name, dist in self.space.items():
            options = _choices(dist)
            here = name in setting and name in read
            if options is None:
                parts.append([_to_unit(dist, setting[name]) if here else 0.5])
            else:
                hot = np.zeros(len(options))
                if here and setting[name] in options:
                    hot[options.index(setting[name])] = np.sqrt(0.5)
                parts.append(list(hot))
        return np.concatenate(parts)

    @staticmethod
    def _draw(dist: Any, rng: np.random.Generator) -> Any:
        options = _choices(dist)
        if options is not None:
            return options[int(rng.integers(len(options)))]
        return _from_unit(dist, float(rng.random()))


def _choices(dist: Any) -> tuple[Any, ...] | None:
    return getattr(dist, "choices", None)


def _axis(dist: Any) -> tuple[float, float]:
    """Ends of the axis; a whole number owns the half unit on either side."""
    pad = 0.5 * dist.step if isinstance(dist.low, int) else 0.0
    low, high = dist.low - pad, dist.high + pad
    return (float(np.log(low)), float(np.log(high))) if dist.log else (low, high)


def _to_unit(dist: Any, value: float) -> float:
    low, high = _axis(dist)
    place = float(np.log(value)) if dist.log else float(value)
    return 0.5 if high <= low else (place - low) / (high - low)


def _from_unit(dist: Any, place: float) -> Any:
    low, high = _axis(dist)
    value = low + place * (high - low)
    value = float(np.exp(value)) if dist.log else value
    if dist.step is not None:
        value = dist.low + round((value - dist.low) / dist.step) * dist.step
    value = min(max(value, dist.low), dist.high)
    return round(value) if isinstance(dist.low, int) else float(value)


optuna = import_optuna()
_Sampler: Any = optuna.samplers.BaseSampler
_LIBRARIES = ThreadpoolController()

#: User attribute of a failed trial that says nothing about its parameters (its owner died).
ABANDONED = "rankine:abandoned"
#: User attribute with the value of a pruned trial, as far as it was measured.
SO_FAR = "rankine:value"
_CONSTRAINTS = "constraints"


class ThompsonSampler(_Sampler):
    """Gaussian process with Matern-5/2 kernel; the next trial is the best of one posterior draw.

    Numbers (on a linear or logarithmic axis), whole numbers and categories; empirical Bayes for
    one length scale per parameter. Failed trials and trials without a finite value count as one
    standard deviation below the worst; pruned ones with what they reported last; trials still
    running as if they gave what the process expects. Constraints (``trial.set_constraint``) are
    modelled by processes of their own. A trial's proposal depends on the seed, its number and the
    trials before it, so that a resumed study goes on as an uninterrupted one.

    Parameters
    ----------
    seed
        Any whole number; None draws one.
    acquisition
        ``"thompson"`` or ``"ei"`` (expected improvement).
    n_startup_trials
        Random trials before the first fit.
    n_candidates, n_local
        Random candidates, and perturbations of the best trial, among which the next is chosen.
    search_space
        The whole search space; None: what all trials so far have in common, other parameters being
        drawn at random.
    active
        Function from a setting to the names of the parameters it reads, for spaces with
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
        if acquisition not in ACQUISITIONS:
            raise ParameterError(
                f"acquisition={acquisition!r} is unknown",
                fix=f"Choose {' or '.join(ACQUISITIONS)}",
            )
        if n_startup_trials < 1 or n_candidates < 1 or n_local < 0:
            raise ParameterError(
                "n_startup_trials and n_candidates must be at least 1, n_local at least 0",
                fix="Use 6, 400 and 100",
            )
        self.acquisition = acquisition
        self.n_startup_trials = n_startup_trials
        self.n_candidates = n_candidates
        self.n_local = n_local
        self._seed = secrets.randbits(63) if seed is None else abs(int(seed))
        self._space = None if search_space is None else dict(search_space)
        self._active = active
        self._common = optuna.search_space.IntersectionSearchSpace(include_pruned=True)

    def reseed_rng(self) -> None:
        """Nothing to do: every trial has its own stream, also in parallel workers."""

    def infer_relative_search_space(
        self,
        study: Study,
        trial: FrozenTrial,  # noqa: ARG002 - Optuna's signature
    ) -> dict[str, BaseDistribution]:
        """The space that the process models."""
        space = self._space if self._space is not None else self._common.calculate(study)
        return {name: dist for name, dist in space.items() if not dist.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next setting; uniform during startup."""
        if not search_space:
            return {}
        rng = self._stream(trial.number)
        encoding = Encoding(search_space, self._active)
        seen = study.get_trials(deepcopy=False)
        past = [t for t in seen if t.number != trial.number and _measured(t)]
        sign = 1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else -1.0
        values = np.array([sign * _value(t) for t in past])
        if len(past) < self.n_startup_trials or not np.isfinite(values).any():
            return encoding.random(rng)
        running = [
            t for t in seen if t.number != trial.number and t.state.name == "RUNNING" and t.params
        ]
        # small matrices: threads of the linear algebra cost ten times what they gain
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
        bounds = _constraint_values(past)
        limits = [
            fit_process(points[known], column[known], encoding.groups, rng).believe(pending)
            for column in bounds.T
            for known in [np.isfinite(column)]
            if known.any()
        ]
        good = np.isfinite(values)
        met = good & (np.nan_to_num(bounds, nan=0.0) <= 0).all(1)
        among = np.flatnonzero(met if met.any() else good)
        incumbent = past[int(among[np.argmax(values[among])])]
        candidates = [encoding.random(rng) for _ in range(self.n_candidates)]
        candidates += [encoding.near(incumbent.params, rng) for _ in range(self.n_local)]
        chosen = choose(
            self.acquisition,
            process.believe(pending),
            limits,
            encoding.points(candidates),
            float(values[among].max()),
            rng,
        )
        return candidates[chosen]

    def sample_independent(
        self,
        study: Study,  # noqa: ARG002 - Optuna's signature
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A uniform value for a parameter that the process does not model."""
        rng = self._stream(trial.number, crc32(param_name.encode()))
        return Encoding({param_name: param_distribution}).random(rng)[param_name]

    def _stream(self, *path: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, *path])


def with_failures(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values where each that is not finite is one standard deviation below the worst."""
    good = np.isfinite(values)
    spread = float(values[good].std()) or 1.0
    return np.where(good, values, values[good].min() - spread)


def _measured(trial: FrozenTrial) -> bool:
    """Whether a trial tells something about its parameters."""
    return trial.state.name in {"COMPLETE", "PRUNED"} or (
        trial.state.name == "FAIL" and bool(trial.params) and not trial.user_attrs.get(ABANDONED)
    )


def _value(trial: FrozenTrial) -> float:
    if trial.state.name == "FAIL":
        return math.nan
    if trial.state.name == "COMPLETE":
        return float(trial.value)
    if SO_FAR in trial.user_attrs:
        return float(trial.user_attrs[SO_FAR])
    last = trial.last_step
    return math.nan if last is None else float(trial.intermediate_values[last])


def _constraint_values(trials: Sequence[FrozenTrial]) -> NDArray[np.float64]:
    """Trials x constraints; NaN where one was not measured."""
    rows = []
    for trial in trials:
        attrs = trial.system_attrs
        listed = attrs.get(_CONSTRAINTS) or ()
        row = {f"{_CONSTRAINTS}:{k}": value for k, value in enumerate(listed)}
        row |= {key: v for key, v in attrs.items() if key.startswith(f"{_CONSTRAINTS}:")}
        rows.append(row)
    names = sorted({name for row in rows for name in row})
    table = [[float(row.get(name, math.nan)) for name in names] for row in rows]
    return np.array(table, dtype=np.float64).reshape(len(rows), len(names))
