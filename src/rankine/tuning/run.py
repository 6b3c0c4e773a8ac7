"""``rankine.tune``: from data to a tuned model."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

import numpy as np

from rankine.core.errors import DivergenceError, ParameterError, RankineError
from rankine.data.dataset import Dataset
from rankine.metrics import Metric, evaluate_on, parse_metric
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.tuning import import_optuna
from rankine.tuning.folds import data_digest, make_folds
from rankine.tuning.objective import CostLimits, Objective
from rankine.tuning.pruning import make_pruner
from rankine.tuning.result import TuningResult, importances, is_feasible, records
from rankine.tuning.spaces import Space
from rankine.tuning.study import SharedStudy
from rankine.tuning.thompson import ThompsonSampler

#: Seconds between looks at trials that other workers run.
LOOK_EVERY = 0.2
#: What makes a trial fail without ending the search: the setting was bad, not the data.
BAD_SETTING = (
    DivergenceError,
    ParameterError,
    FloatingPointError,
    OverflowError,
    np.linalg.LinAlgError,
)

#: Called with (finished trials, all trials, best value or None).
Report = Callable[[int, int, float | None], None]


def tune(
    data: Any,
    *,
    ranker: Any = "spd",
    valid: Any = None,
    metric: str | Metric = "ndcg@10",
    trials: int = 30,
    study: str | os.PathLike[str] | None = None,
    folds: int | None = None,
    split: str | None = None,
    time_column: str | None = None,
    space: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    random_state: int = 0,
    acquisition: str = "thompson",
    max_nonzero: int | None = None,
    max_latency: float | None = None,
    workers: int = 1,
    pruner: str = "gain",
    progress: Report | None = None,
) -> TuningResult:
    """Search the parameters that rank held-out queries best, and fit the winner.

    Parameters
    ----------
    data, valid
        Training data and, if there is one, the validation set: ``Dataset``, a raw log
        (``rankine.logs.scan``) or what ``rankine.load`` reads.
    ranker
        A name, ``"auto"`` (the ranker is searched too), or an unfitted ranker whose parameters
        stand where they are not searched.
    metric
        What is optimised.
    trials
        Number of trials of the study in all: a resumed search only completes it.
    study
        SQLite file of the study; an existing one is continued, or refused when it was made for
        other data, another metric or another space. None keeps the study in memory.
    folds, split, time_column
        Without ``valid``: folds by query (default 5), or ``"time:0.8,0.2"``: train on the oldest
        queries, judge on the newest (a third share is a test set, judged once in the end).
    space
        Changes to the ranker's ``search_space``: parameter -> ``"1e-6..1e-1:log"``, ``"a,b,c"``,
        (low, high) or a list.
    parameters
        Parameters that are not searched.
    random_state
        Of the search, the folds and the rankers.
    acquisition
        ``"thompson"`` or ``"ei"``.
    max_nonzero, max_latency
        Only models with at most so many non-zero weights, or milliseconds to score an item.
    workers
        Trials that run at the same time, on the same data in memory. Further processes may work
        on the same ``study`` too.
    pruner
        Which trials are given up while they train: ``"gain"``, those that would not become the
        best with the largest gain seen so far (``GainPruner``); ``"median"``, ``"halving"``,
        Optuna's bolder rules; ``"none"``.
    progress
        Called after every trial.

    Examples
    --------
    >>> import numpy as np, rankine
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4)); qid = np.repeat(np.arange(30), 10)
    >>> y = (X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * rng.normal(size=300) > 0.5).astype(int)
    >>> data = rankine.Dataset.from_arrays(X, y, qid)
    >>> found = rankine.tune(data, ranker="least-squares", folds=3, trials=8)
    >>> len(found.trace), found.best_value > 0.9, found.model.n_features
    (8, True, 4)
    """
    optuna = import_optuna()
    if trials < 1 or workers < 1:
        raise ParameterError("trials and workers must be at least 1", fix="Use 30 and 1")
    chosen = parse_metric(metric)
    train = _load(data)
    held = None if valid is None else _load(valid, train.n_features)
    candidates = _candidates(ranker, str(chosen), random_state, workers)
    searched = Space(candidates, space, parameters)
    divided = make_folds(train, held, folds, split, time_column, random_state)
    limits = CostLimits(max_nonzero, max_latency)
    about = {
        "data": data_digest(train),
        "validation": None if held is None else data_digest(held),
        "folds": divided.text,
        "metric": str(chosen),
        "rankers": {name: _plain(one) for name, one in candidates.items()},
        "space": searched.describe(),
        "limits": [max_nonzero, max_latency],
        "seed": random_state,
    }
    sampler = ThompsonSampler(
        seed=random_state,
        acquisition=acquisition,
        search_space=searched.distributions(),
        active=searched.active,
    )
    with _quiet(optuna):
        shared = SharedStudy(
            study,
            about,
            maximize=chosen.larger_is_better,
            sampler=sampler,
            pruner=make_pruner(pruner),
        )
        try:
            objective = Objective(divided, searched, chosen, limits)
            _work(shared, objective, trials, workers, progress)
            return _result(shared.study, objective, chosen)
        finally:
            shared.close()


def _load(data: Any, n_features: int | None = None) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if hasattr(data, "load"):
        found: Dataset = data.load()
        return found
    from rankine.data.open import load

    return load(data, n_features=n_features)


def _candidates(ranker: Any, metric: str, seed: int, workers: int) -> dict[str, Any]:
    """Name -> unfitted ranker, with what every trial shares."""
    from sklearn.base import clone

    if isinstance(ranker, str):
        names = list(RANKERS) if ranker == "auto" else [ranker]
        found = {name: ranker_class(name)() for name in names}
    else:
        found = {getattr(ranker, "system", "") or type(ranker).__name__: clone(ranker)}
    for one in found.values():
        known = one.get_params(deep=False)
        one.set_params(metric=metric)
        if known.get("random_state", 0) is None or isinstance(ranker, str):
            one.set_params(random_state=seed)
        if workers > 1 and known.get("n_threads", 0) is None:
            one.set_params(n_threads=max((os.cpu_count() or workers) // workers, 1))
    return found


def _plain(ranker: Any) -> dict[str, str]:
    """Parameters that change results, as text."""
    given = ranker.get_params(deep=False)
    return {name: repr(value) for name, value in given.items() if name != "n_threads"}


# ---------------------------------------------------------------------- running trials
def _work(
    shared: SharedStudy, objective: Objective, total: int, workers: int, progress: Report | None
) -> None:
    stop = threading.Event()
    given = (shared, objective, total, progress, stop)
    if workers == 1:
        _worker(*given)
        return
    with ThreadPoolExecutor(workers) as pool:
        runs = [pool.submit(_worker, *given) for _ in range(workers)]
        try:
            for run in as_completed(runs):
                run.result()
        finally:
            stop.set()  # after an error, the others end with the trial they are at


def _worker(
    shared: SharedStudy,
    objective: Objective,
    total: int,
    progress: Report | None,
    stop: threading.Event,
) -> None:
    """Run trials until the study is complete, also those that dead workers leave behind."""
    while not stop.is_set():
        trial = shared.claim(total)
        if trial is not None:
            _run_trial(shared, objective, trial)
            if progress is not None:
                _tell(shared.study, total, progress)
        elif shared.rivals():
            time.sleep(LOOK_EVERY)
        else:
            return


def _run_trial(shared: SharedStudy, objective: Objective, trial: Any) -> None:
    optuna = import_optuna()
    states = optuna.trial.TrialState
    study = shared.study
    try:
        value = objective(trial)
    except optuna.TrialPruned:
        study.tell(trial, state=states.PRUNED)
    except BAD_SETTING as error:
        trial.set_user_attr("reason", str(error))
        study.tell(trial, state=states.FAIL)
        _refuse_hopeless(study, error)
    except BaseException:
        with shared.lock():
            shared.give_up(study.get_trials(deepcopy=False)[trial.number])
        raise
    else:
        if np.isfinite(value):
            study.tell(trial, value)
        else:
            trial.set_user_attr("reason", "the metric has no finite value")
            study.tell(trial, state=states.FAIL)


def _refuse_hopeless(study: Any, error: Exception) -> None:
    """Stop when the first trials all fail: then the space, not a setting, is at fault."""
    trials = study.get_trials(deepcopy=False)
    ended = [t for t in trials if t.state.name in {"COMPLETE", "PRUNED"}]
    failed = [t for t in trials if t.state.name == "FAIL" and t.user_attrs.get("reason")]
    if ended or len(failed) < study.sampler.n_startup_trials:
        return
    if isinstance(error, RankineError):
        raise error
    raise ParameterError(f"every trial failed: {error}", fix="Search another space") from error


def _tell(study: Any, total: int, progress: Report) -> None:
    trials = study.get_trials(deepcopy=False)
    done = records(trials, maximize=study.direction.name == "MAXIMIZE")
    best = done[-1].best if done else None
    progress(min(len(done), total), total, best)


# ---------------------------------------------------------------------- the result
def _result(study: Any, objective: Objective, metric: Metric) -> TuningResult:
    trials = study.get_trials(deepcopy=False)
    best, ranker = _refit(trials, objective, metric)
    test: float | None = None
    if objective.folds.test is not None:
        test = evaluate_on(objective.folds.test, model=ranker, metric=metric)
    return TuningResult(
        best.params,
        float(best.value),
        ranker,
        ranker.to_model(),
        str(metric),
        records(trials, maximize=metric.larger_is_better),
        importances(study),
        test,
        study,
    )


def _refit(trials: list[Any], objective: Objective, metric: Metric) -> tuple[Any, Any]:
    """The best trial whose model, fitted on all data, still keeps the limits."""
    sign = -1.0 if metric.larger_is_better else 1.0
    done = [t for t in trials if t.state.name == "COMPLETE"]
    kept = sorted((t for t in done if is_feasible(t)), key=lambda t: (sign * t.value, t.number))
    whole = objective.folds.whole
    for trial in kept:
        ranker = objective.space.ranker(trial.params).fit(whole)
        ranker.training_ |= {"fingerprint": whole.fingerprint}
        if objective.limits.kept(objective.limits.costs(ranker.coef_, whole)):
            return trial, ranker
    reasons = [t.user_attrs["reason"] for t in trials if "reason" in t.user_attrs]
    if not done and reasons:
        raise ParameterError(
            f"no trial finished; the last failed since {reasons[-1]}", fix="Search another space"
        )
    latency = objective.limits.max_latency
    raise ParameterError(
        f"none of {len(trials)} trials keeps the limits "
        f"(max_nonzero={objective.limits.max_nonzero}, "
        f"max_latency={'None' if latency is None else f'{latency:.6g} ms'})",
        fix="Raise the limits, allow more trials, or choose a ranker with an l1 penalty",
    )


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Without Optuna's remarks and the rankers' warnings, which a search causes on purpose."""
    from sklearn.exceptions import ConvergenceWarning

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
