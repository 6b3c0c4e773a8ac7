"""Stochastic pairwise descent as an estimator (Sculley, "Large Scale Learning to Rank", 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankine.rankers.base import BaseRanker, Job
from rankine.rankers.search_space import SCALE, Choice, Number
from rankine.rankers.spd_parts import check_spd, make_phases, make_sampler
from rankine.rankers.spd_record import ObjectiveRecorder
from rankine.solvers.base import Solution
from rankine.solvers.pair_sgd import solve_pairs

if TYPE_CHECKING:
    from rankine.rankers.parts_job import PartsJob

__all__ = ["SPDRanker"]


class SPDRanker(BaseRanker):
    """Linear ranker trained on randomly drawn pairs; training time does not grow with the data.

    Minimises ``lam/2 |w|^2 + mean over pairs of loss(<w, x_a - x_b>)`` where a is preferred to b,
    the mean taken as ``sampling`` says, by taking ``n_iter`` steps on one drawn pair each
    (Sculley 2009, algorithm 1).

    Parameters
    ----------
    learner
        ``"pegasos"``, ``"sgd-svm"``, ``"passive-aggressive"``, ``"romma"``, ``"logistic"``,
        ``"hybrid"`` (passive-aggressive, then ``hybrid_second``), ``"perceptron"`` or
        ``"margin-perceptron"``.
    sampling
        ``"query"``: a uniform query, then a uniform pair of it (mean over queries of the mean over
        their pairs). ``"uniform"``: every pair equally likely. ``"indexed"``: the paper's, a
        uniform query, two uniform labels, a uniform row of each. ``"rejection"``: two uniform
        rows, kept if they form a pair; needs no index.
    ties
        ``"skip"`` leaves pairs of equal labels out; ``"zero"`` draws them too, with target 0.
    lam
        Strength of the L2 penalty (pegasos, sgd-svm, logistic, and ROMMA's norm guard).
    C
        Largest step of passive-aggressive, and where hybrid hands over.
    schedule
        ``"pegasos"``: eta = 1 / (lam i). ``"inverse"``: eta = c / (c + i), c = ``schedule_c``.
    n_iter
        Number of steps.
    average
        Return the mean of the iterates of the second half instead of the last one.
    norm_guard
        Project ROMMA on |w| <= 1 / sqrt(lam); False gives the paper's form, which diverges on
        data that cannot be separated.
    margin
        Margin of ``"margin-perceptron"``.
    hybrid_second, hybrid_steps
        Second learner of ``"hybrid"`` and the number of passive-aggressive steps before it
        (default: a tenth of ``n_iter``). The second one's step counter starts at 1 / (lam C), so
        that its first step size meets C.
    record_at
        Steps at which the exact objective on training and evaluation data is recorded in
        ``record_``.
    max_trials
        Draws after which ``"rejection"`` gives up on one step.
    metric, scale, early_stopping, warm_start, random_state
        See ``BaseRanker``. A warm start continues the step counter.

    Attributes
    ----------
    coef_ : one weight per feature
    n_iter_ : steps taken in all, warm starts included
    record_ : list of mappings with ``step``, ``objective`` and ``eval_objective``
    evals_ : the metric on the evaluation set along the run

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import SPDRanker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); qid = np.repeat(np.arange(20), 10)
    >>> y = (X @ [1.0, -2.0, 0.0] > 0).astype(int)
    >>> ranker = SPDRanker(random_state=0, n_iter=20_000).fit(X, y, qid=qid)
    >>> ranker.coef_.shape
    (3,)
    """

    _system = "spd"
    #: What tuning searches.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "learner": Choice(("pegasos", "logistic", "passive-aggressive")),
        "sampling": Choice(("query", "uniform")),
        "lam": Number(1e-7, 1.0, log=True, unless={"learner": ("passive-aggressive",)}),
        "C": Number(1e-6, 1.0, log=True, when={"learner": ("passive-aggressive", "hybrid")}),
        "scale": SCALE,
    }

    @property
    def letor_grid(self) -> dict[str, list[Any]]:
        """What is tuned by the LETOR protocol: the parameter that this learner regularises by."""
        if self.learner in ("passive-aggressive", "hybrid"):
            return {"C": [10.0**k for k in range(-6, 1)]}
        return {"lam": [10.0**k for k in range(-5, 1)]}

    def __init__(
        self,
        learner: str = "pegasos",
        *,
        sampling: str = "query",
        ties: str = "skip",
        lam: float = 1e-4,
        C: float = 0.01,
        schedule: str = "pegasos",
        schedule_c: float = 10.0,
        n_iter: int = 100_000,
        average: bool = True,
        norm_guard: bool = True,
        margin: float = 1.0,
        hybrid_second: str = "pegasos",
        hybrid_steps: int | None = None,
        record_at: Sequence[int] | None = None,
        max_trials: int = 1_000_000,
        metric: str = "ndcg@10",
        scale: str = "none",
        early_stopping: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.sampling = sampling
        self.ties = ties
        self.lam = lam
        self.C = C
        self.schedule = schedule
        self.schedule_c = schedule_c
        self.n_iter = n_iter
        self.average = average
        self.norm_guard = norm_guard
        self.margin = margin
        self.hybrid_second = hybrid_second
        self.hybrid_steps = hybrid_steps
        self.record_at = record_at
        self.max_trials = max_trials
        self.metric = metric
        self.scale = scale
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state

    def _solve(self, job: Job) -> Solution:
        check_spd(self)
        data = job.data
        data.labels.require_pairs()
        sampler = make_sampler(self, data, job.query_weight)
        taken = int(self.n_iter_) if self.warm_start and hasattr(self, "n_iter_") else 0
        warm = job.coef_init is not None
        phases = make_phases(self, taken, warm=warm)
        recorder = ObjectiveRecorder(self, job) if self.record_at else None
        reports = _report_steps(taken, self.n_iter)
        solution = solve_pairs(
            data.rows,
            sampler,
            phases,
            np.zeros(data.n_features) if job.coef_init is None else job.coef_init,
            job.seed,
            report_at=sorted({*reports, *(self.record_at or ())}),
            record=recorder,
            callbacks=job.callbacks,
        )
        self.record_ = [] if recorder is None else recorder.rows
        return solution

    def _solve_parts(self, job: PartsJob) -> Solution:
        from rankine.distributed.recipes import solve_spd_parts

        return solve_spd_parts(self, job)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
    ) -> SPDRanker:
        """Take ``n_iter`` more steps on pairs of these rows, continuing the step counter.

        Averaging covers the second half of the latest call. Feature scales are those of the first
        call.
        """
        from rankine.rankers.spd_stream import partial_fit_block

        partial_fit_block(self, X, y, qid, group, sample_weight, query_weight)
        return self

    def fit_stream(self, scan: Any, *, callbacks: Sequence[Any] = (), passes: int = 1) -> SPDRanker:
        """Learn from query-aligned blocks that need not fit in memory.

        ``n_iter`` steps in all; a block gets steps in proportion to its queries (``"query"``,
        ``"indexed"``) or to its pairs (``"uniform"``, ``"rejection"``), counted in a first pass.
        """
        from rankine.rankers.spd_stream import fit_stream

        fit_stream(self, scan, callbacks, passes)
        return self


def _report_steps(taken: int, n_iter: int) -> list[int]:
    """Twenty reports spread over the run: enough for a progress bar and early stopping."""
    return [taken + n_iter * k // 20 for k in range(1, 21)]
