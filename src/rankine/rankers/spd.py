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

    Minimises ``l2/2 |w|^2 + mean over pairs of loss(<w, x_a - x_b>)`` where a is preferred to b,
    the mean taken as ``sampling`` says, by taking ``n_steps`` steps on one drawn pair each
    (Sculley 2009, algorithm 1).

    Parameters
    ----------
    solver
        ``"pegasos"``, ``"sgd_svm"``, ``"passive_aggressive"``, ``"romma"``, ``"logistic"``,
        ``"hybrid"`` (passive-aggressive, then ``hybrid_second``), ``"perceptron"`` or
        ``"margin_perceptron"``.
    sampling
        ``"query"``: a uniform query, then a uniform pair of it (mean over queries of the mean over
        their pairs). ``"uniform"``: every pair equally likely. ``"indexed"``: the paper's, a
        uniform query, two uniform labels, a uniform row of each. ``"rejection"``: two uniform
        rows, kept if they form a pair; needs no index.
    ties
        ``"skip"`` leaves pairs of equal labels out; ``"zero"`` draws them too, with target 0.
    l2
        Strength of the penalty l2/2 |w|^2 (pegasos, sgd_svm, logistic, and ROMMA's norm guard).
    aggressiveness
        Largest step of passive-aggressive (the paper's C), and where hybrid hands over.
    schedule
        ``"pegasos"``: eta = 1 / (l2 i). ``"inverse"``: eta = c / (c + i), c = ``schedule_c``.
    n_steps
        Number of steps.
    n_passes
        Streams and partitions: readings over which the steps are spread. None: one, and ten over
        partitions, whose weights are averaged after each. Steps on rows in memory are drawn from
        all of them at once.
    average
        Return the mean of the iterates of the second half instead of the last one.
    norm_guard
        Project ROMMA on |w| <= 1 / sqrt(l2); False gives the paper's form, which diverges on
        data that cannot be separated.
    margin
        Margin of ``"margin_perceptron"``.
    hybrid_second, hybrid_steps
        Second solver of ``"hybrid"`` and the number of passive-aggressive steps before it
        (default: a tenth of ``n_steps``). The second one's step counter starts at
        1 / (l2 aggressiveness), so that the first step size is ``aggressiveness``.
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
    >>> ranker = SPDRanker(random_state=0, n_steps=20_000).fit(X, y, qid=qid)
    >>> ranker.coef_.shape
    (3,)
    """

    _system = "spd"
    #: What tuning searches.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "solver": Choice(("pegasos", "logistic", "passive_aggressive")),
        "sampling": Choice(("query", "uniform")),
        "l2": Number(1e-7, 1.0, log=True, unless={"solver": ("passive_aggressive",)}),
        "aggressiveness": Number(
            1e-6, 1.0, log=True, when={"solver": ("passive_aggressive", "hybrid")}
        ),
        "scale": SCALE,
    }

    @property
    def letor_grid(self) -> dict[str, list[Any]]:
        """What is tuned by the LETOR protocol: the parameter that this solver regularises by."""
        if self.solver in ("passive_aggressive", "hybrid"):
            return {"aggressiveness": [10.0**k for k in range(-6, 1)]}
        return {"l2": [10.0**k for k in range(-5, 1)]}

    def __init__(
        self,
        solver: str = "pegasos",
        *,
        sampling: str = "query",
        ties: str = "skip",
        l2: float = 1e-4,
        aggressiveness: float = 0.01,
        schedule: str = "pegasos",
        schedule_c: float = 10.0,
        n_steps: int = 100_000,
        n_passes: int | None = None,
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
        self.solver = solver
        self.sampling = sampling
        self.ties = ties
        self.l2 = l2
        self.aggressiveness = aggressiveness
        self.schedule = schedule
        self.schedule_c = schedule_c
        self.n_steps = n_steps
        self.n_passes = n_passes
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
        reports = _report_steps(taken, self.n_steps)
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
        from rankine.rankers.averaging_fit import solve_spd_parts

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
        """Take ``n_steps`` more steps on pairs of these rows, continuing the step counter.

        Averaging covers the second half of the latest call. Feature scales are those of the first
        call.
        """
        from rankine.rankers.spd_stream import partial_fit_block

        partial_fit_block(self, X, y, qid, group, sample_weight, query_weight)
        return self

    def fit_stream(self, scan: Any, *, callbacks: Sequence[Any] = ()) -> SPDRanker:
        """Learn from query-aligned blocks that need not fit in memory.

        ``n_steps`` steps in all; a block gets steps in proportion to its queries (``"query"``,
        ``"indexed"``) or to its pairs (``"uniform"``, ``"rejection"``), counted in a first pass.
        """
        from rankine.rankers.spd_stream import fit_stream

        fit_stream(self, scan, callbacks)
        return self


def _report_steps(taken: int, n_steps: int) -> list[int]:
    """Twenty reports spread over the run: enough for a progress bar and early stopping."""
    return [taken + n_steps * k // 20 for k in range(1, 21)]
