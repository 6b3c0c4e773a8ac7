"""Tune a ranker: from data to the best parameters and a fitted model."""

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

from rankine.core.checks import check_count
from rankine.core.errors import DivergenceError, ParameterError, RankineError
from rankine.data.dataset import Dataset
from rankine.metrics import Metric, evaluate_on, parse_metric
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.tuning import import_optuna
from rankine.tuning.folds import data_digest, make_folds
from rankine.tuning.objective import LARGEST_GAIN, CostLimits, Objective
from rankine.tuning.pruning import make_pruner
from rankine.tuning.result import TuningResult, importances, is_feasible, records
from rankine.tuning.spaces import Space
from rankine.tuning.study import REASON, SharedStudy
from rankine.tuning.thompson import ThompsonSampler

#: Seconds between checks whether other workers have finished.
POLL_INTERVAL = 0.2
#: Errors that fail a trial without ending the search: its parameters are at fault, not the data.
PARAMETER_FAULTS = (
    DivergenceError,
    ParameterError,
    FloatingPointError,
    OverflowError,
    np.linalg.LinAlgError,
)

#: Called with (finished trials, all trials, best value or None).
Progress = Callable[[int, int, float | None], None]


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
    progress: Progress | None = None,
) -> TuningResult:
    """Search the parameters that rank held-out queries best, and fit the best setting.

    The first trial of a ranker has its default parameters, if these are all in the space, so that
    the best setting is never worse than them on the held-out queries.

    Ctrl-C ends the search early: the result is the best setting so far, if a trial has finished.

    Parameters
    ----------
    data, valid
        Training data and, if there is one, the validation set: ``Dataset``, a raw log
        (``rankine.logs.scan``) or what ``rankine.load`` reads.
    ranker
        A name, ``"auto"`` (the ranker is searched too), or an unfitted ranker, whose parameters
        apply unless they are searched.
    metric
        Metric to optimise.
    trials
        Total number of trials of the study: a resumed search runs only those that are missing.
    study
        SQLite file of the study. An existing study is continued, or refused if it was made for
        other data, another metric or another space. None keeps the study in memory.
    folds, split, time_column
        Without ``valid``: folds by query (default 5), or ``"time:0.8,0.2"``: train on the oldest
        queries, evaluate on the newest (a third share is a test set, used once in the end).
    space
        Changes to the ranker's ``search_space``: parameter -> ``"1e-6..1e-1:log"``, ``"a,b,c"``,
        (low, high) or a list.
    parameters
        Parameters that are not searched.
    random_state
        Seed of the search, the folds and the rankers.
    acquisition
        How the next setting is chosen: ``"thompson"`` sampling or ``"ei"`` (expected
        improvement).
    max_nonzero, max_latency
        Largest number of non-zero weights, and of milliseconds to score an item.
    workers
        Number of trials that run at the same time, on the same data in memory. Further processes
        may work on the same ``study`` too.
    pruner
        Which trials stop early: with ``"gain"`` those that would not become the best even with
        the largest gain seen so far (``GainPruner``); ``"median"`` and ``"halving"`` are Optuna's
        rules, which stop more trials and more winners; ``"none"`` runs all trials to their end.
    progress
        Called after every trial with finished trials, all trials and the best value or None.

    Examples
    --------
    >>> import numpy as np, rankine
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4)); qid = np.repeat(np.arange(30), 10)
    >>> y = (X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * rng.normal(size=300) > 0.5).astype(int)
    >>> data = rankine.Dataset.from_arrays(X, y, qid)
    >>> result = rankine.tune(data, ranker="least-squares", folds=3, trials=8)
    >>> len(result.trace), result.best_value > 0.9, result.model.n_features
    (8, True, 4)
    """
    optuna = import_optuna()
    check_count("trials", trials)
    check_count("workers", workers)
    target = parse_metric(metric)
    train = _load(data)
    # The validation file may not contain the last features of the training file.
    held_out = None if valid is None else _load(valid, train.n_features)
    candidates = _candidates(ranker, str(target), random_state, workers)
    searched = Space(candidates, space, parameters)
    divided = make_folds(train, held_out, folds, split, time_column, random_state)
    limits = CostLimits(max_nonzero, max_latency)
    configuration = {
        "data": data_digest(train),
        "validation": None if held_out is None else data_digest(held_out),
        "folds": divided.text,
        "metric": str(target),
        "rankers": {name: _parameter_texts(each) for name, each in candidates.items()},
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
            configuration,
            maximize=target.larger_is_better,
            sampler=sampler,
            pruner=make_pruner(pruner),
        )
        try:
            shared.start_with(searched.defaults())
            objective = Objective(divided, searched, target, limits)
            interrupted = False
            try:
                _run_workers(shared, objective, trials, workers, progress)
            except KeyboardInterrupt:
                # Hours of trials must not be lost: the best one so far is the result.
                if not any(map(_is_candidate, shared.study.get_trials(deepcopy=False))):
                    raise
                interrupted = True
            return _result(shared.study, objective, target, interrupted=interrupted)
        finally:
            shared.close()


def _load(data: Any, n_features: int | None = None) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if hasattr(data, "load"):  # a raw log
        dataset: Dataset = data.load()
        return dataset
    from rankine.data.open import load

    return load(data, n_features=n_features)


def _candidates(ranker: Any, metric: str, seed: int, workers: int) -> dict[str, Any]:
    """Return unfitted rankers by name, with the parameters that all trials share."""
    from sklearn.base import clone

    if isinstance(ranker, str):
        names = [ranker]
        if ranker == "auto":
            names = list(RANKERS)
        candidates = {name: ranker_class(name)() for name in names}
    else:
        candidates = {getattr(ranker, "system", "") or type(ranker).__name__: clone(ranker)}
    for candidate in candidates.values():
        parameters = candidate.get_params(deep=False)
        candidate.set_params(metric=metric)
        # A seed that the caller chose stays.
        if parameters.get("random_state", 0) is None or isinstance(ranker, str):
            candidate.set_params(random_state=seed)
        # Threads of all workers together should not exceed the cores.
        if workers > 1 and parameters.get("n_threads", 0) is None:
            candidate.set_params(n_threads=max((os.cpu_count() or workers) // workers, 1))
    return candidates


def _parameter_texts(ranker: Any) -> dict[str, str]:
    """Return the parameters that change results, as text."""
    parameters = ranker.get_params(deep=False)
    return {name: repr(value) for name, value in parameters.items() if name != "n_threads"}


# ---------------------------------------------------------------------- running trials
def _run_workers(
    shared: SharedStudy, objective: Objective, total: int, workers: int, progress: Progress | None
) -> None:
    stop = threading.Event()
    arguments = (shared, objective, total, progress, stop)
    if workers == 1:
        _run_worker(*arguments)
        return
    with ThreadPoolExecutor(workers) as pool:
        runs = [pool.submit(_run_worker, *arguments) for _ in range(workers)]
        try:
            for run in as_completed(runs):
                run.result()
        finally:
            stop.set()  # after an error the other workers finish their trial and end


def _run_worker(
    shared: SharedStudy,
    objective: Objective,
    total: int,
    progress: Progress | None,
    stop: threading.Event,
) -> None:
    """Run trials until the study is complete, including those that dead workers abandon."""
    while not stop.is_set():
        trial = shared.claim(total)
        if trial is not None:
            try:
                with shared.heartbeat(trial):
                    _run_trial(shared.study, objective, trial)
            except BaseException:
                shared.abandon(trial)
                raise
            if progress is not None:
                _report_progress(shared.study, total, progress)
        # Another worker may die: its trial would then have to be run here.
        elif shared.has_running_trials():
            time.sleep(POLL_INTERVAL)
        else:
            return


def _run_trial(study: Any, objective: Objective, trial: Any) -> None:
    optuna = import_optuna()
    states = optuna.trial.TrialState
    try:
        value = objective(trial)
        # A trial that another worker finished in the meantime keeps its value.
        if np.isfinite(value):
            study.tell(trial, value, skip_if_finished=True)
        else:
            trial.set_user_attr(REASON, "the metric has no finite value")
            study.tell(trial, state=states.FAIL, skip_if_finished=True)
    except optuna.TrialPruned:
        study.tell(trial, state=states.PRUNED, skip_if_finished=True)
    except optuna.exceptions.UpdateFinishedTrialError:
        # This process was suspended for longer than the grace period: another worker has failed
        # the trial and queued it again.
        return
    except PARAMETER_FAULTS as error:
        trial.set_user_attr(REASON, str(error))
        study.tell(trial, state=states.FAIL, skip_if_finished=True)
        _raise_if_all_fail(study, error)


def _raise_if_all_fail(study: Any, error: Exception) -> None:
    """Raise if the first trials all fail: then the space is at fault, not one setting."""
    trials = study.get_trials(deepcopy=False)
    succeeded = [t for t in trials if t.state.name in {"COMPLETE", "PRUNED"}]
    failed = [t for t in trials if t.state.name == "FAIL" and t.user_attrs.get(REASON)]
    # Some settings of a good space fail; all of the first ones do not.
    if succeeded or len(failed) < study.sampler.n_startup_trials:
        return
    if isinstance(error, RankineError):
        raise error
    raise ParameterError(
        f"every trial failed: {error}", fix="Search another space", parameter="space"
    ) from error


def _report_progress(study: Any, total: int, progress: Progress) -> None:
    trials = study.get_trials(deepcopy=False)
    finished = records(trials, maximize=study.direction.name == "MAXIMIZE")
    best = None
    if finished:
        best = finished[-1].best
    progress(min(len(finished), total), total, best)


# ---------------------------------------------------------------------- the result
def _result(study: Any, objective: Objective, metric: Metric, *, interrupted: bool) -> TuningResult:
    trials = study.get_trials(deepcopy=False)
    best, ranker = _refit(trials, objective, metric)
    test: float | None = None
    # The test set is used once, for the model that was chosen.
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
        interrupted,
    )


def _is_candidate(trial: Any) -> bool:
    """Return whether a trial has finished and respects the limits."""
    return trial.state.name == "COMPLETE" and is_feasible(trial)


def _refit(trials: list[Any], objective: Objective, metric: Metric) -> tuple[Any, Any]:
    """Return the best trial whose model respects the limits when fitted on all data.

    A model without weights is the best only if the interval of every other model is below it.
    """
    sign = -1.0 if metric.larger_is_better else 1.0
    finished = [t for t in trials if t.state.name == "COMPLETE"]
    feasible = [t for t in finished if _is_candidate(t)]
    whole, limits = objective.folds.whole, objective.limits
    ranked = sorted(feasible, key=lambda t: (sign * t.value, t.number))
    as_good = [t for t in ranked if t.user_attrs["weights"] and t.user_attrs[LARGEST_GAIN] >= 0]
    without_weights = None
    for trial in [*as_good, *(t for t in ranked if t not in as_good)]:
        ranker = objective.space.ranker(trial.params).fit(whole)
        ranker.training_ |= {"fingerprint": whole.fingerprint}
        if limits.respected(limits.costs(ranker.coef_, whole)):
            # A setting that gave weights on the folds may give none on all data.
            if trial not in as_good or np.any(ranker.coef_):
                return trial, ranker
            without_weights = without_weights or (trial, ranker)
    if without_weights is not None:
        return without_weights
    reasons = [t.user_attrs[REASON] for t in trials if REASON in t.user_attrs]
    if not finished and reasons:
        raise ParameterError(
            f"no trial finished; the last one failed: {reasons[-1]}",
            fix="Search another space",
            parameter="space",
        )
    latency = "None"
    if limits.max_latency is not None:
        latency = f"{limits.max_latency:.6g} ms"
    raise ParameterError(
        f"none of {len(trials)} trials respects the limits "
        f"(max_nonzero={limits.max_nonzero}, max_latency={latency})",
        fix="Raise the limits, allow more trials, or choose a ranker with an l1 penalty",
    )


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Filter out Optuna's log and the warnings of rankers that a search provokes on purpose."""
    from sklearn.exceptions import ConvergenceWarning

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # SharedStudy writes the heartbeats itself.
            warnings.filterwarnings("ignore", "Heartbeat of storage", UserWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
