"""RankSVM: the exact pairwise support vector machine, in O(m s + m log m) a pass."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankine.losses.active_pairs import LOSSES
from rankine.losses.pair_queries import PairQueries, pair_scale
from rankine.rankers.base import BaseRanker, Job
from rankine.rankers.checks import check_choice, check_count, check_positive, check_strengths
from rankine.rankers.path import Path, run_path
from rankine.rankers.search_space import SCALE, Choice, Number
from rankine.solvers.bundle import Bundle, solve_bundle
from rankine.solvers.newton import solve_newton
from rankine.solvers.problem import Partition, SummedOracle, coarsen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankine.data.dataset import Dataset
    from rankine.rankers.parts_job import PartsJob
    from rankine.solvers.base import Callback, Solution
    from rankine.transforms.scaling import Scaling

__all__ = ["RankSVM"]

#: Gap, relative to J(0), to which the sample that gives the start is solved.
COARSE_TOL = 2e-3


class RankSVM(BaseRanker):
    r"""Linear ranking support vector machine over all pairs of each query.

    Minimises, over weights w (w >= 0 with ``positive=True``),

    .. math:: J(w) = \lambda |w|^2 + \sum_q \omega_q
              \sum_{(i,j) \in q:\, y_i > y_j} s_i s_j\, \ell(\langle w, x_i - x_j\rangle)

    with row weights s, and :math:`\ell(z) = \max(0, 1 - z)` or its square. Pairs are never listed:
    one pass costs O(nnz + m log m) for m rows, whatever the number of distinct labels (Airola,
    Pahikkala, Salakoski 2011). There is no factor 1/2 in front of the norm; see ``C``.

    Parameters
    ----------
    lam
        Strength of the L2 penalty; or several, solved from the largest to the smallest, each from
        the last one's weights and cuts (see ``coef_path_``).
    C
        Instead of ``lam``: 1/2 |w|^2 + C R(w), that is lam = 1 / (2 C). With
        ``normalization="query"`` it is SVMrank's ``-c`` (with ``-l 2``); with ``"sum"``, the C of
        1/2 |w|^2 + C sum of losses. The effective values are ``lam_`` and ``C_``.
    loss
        ``"hinge"`` (bundle method) or ``"squared_hinge"`` (truncated Newton, usually faster).
    normalization
        ``"query"``: om_q = 1 / (Q N_q), mean over the Q queries that hold a pair of the mean over
        their N_q pairs; ``"pair"``: 1 / N; ``"sum"``: 1. Weights enter as repetitions would.
    tol
        Stop when J - lower bound <= tol; both are in ``solution_.certificate``. J(0) = 1 for
        ``"query"`` and ``"pair"``.
    max_iter
        Iterations at most (cuts, or Newton steps).
    positive
        Require w >= 0.
    oracle
        How pairs are summed: ``"tree"`` O(m log m), ``"levels"`` O(m r) with r distinct labels
        (Joachims 2006), ``"pairs"`` O(m^2); same results, for comparison.
    metric, scale, early_stopping, warm_start, random_state
        See ``BaseRanker``. Nothing here is random; ``random_state`` is accepted for uniformity.
    n_threads
        Threads; None takes what the machine offers. Results do not depend on it, to the bit.

    Attributes
    ----------
    coef_
        Weights, one per feature.
    lam_, C_
        Effective regularisation of ``coef_``.
    coef_path_, lams_, path_
        With several lam: weights, values and solutions in order of solution; ``coef_`` is the one
        that ranks the evaluation set best, or the last without one.
    solution_
        Objective, certificate, trace (one record an iteration) and reason to stop.
    n_iter_
        Iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import RankSVM
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.2]])
    >>> ranker = RankSVM(lam=0.01).fit(X, y=[2, 0, 1, 0])
    >>> ranker.rank(X)[0].tolist()
    [0, 2, 3, 1]

    References
    ----------
    Airola, Pahikkala, Salakoski (2011), Training linear ranking SVMs in linearithmic time using
    red-black trees. Lee, Lin (2014), Large-scale linear RankSVM.
    """

    _system: ClassVar[str] = "ranksvm"
    #: Values the LETOR protocol tries on validation data.
    letor_grid: ClassVar[dict[str, list[Any]]] = {"lam": [10.0**k for k in range(-7, 1)]}
    #: What tuning searches.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "lam": Number(1e-7, 10.0, log=True),
        "loss": Choice(lambda: tuple(LOSSES)),
        "scale": SCALE,
    }

    def __init__(
        self,
        lam: float | Sequence[float] = 1e-3,
        *,
        C: float | None = None,
        loss: str = "hinge",
        normalization: str = "query",
        tol: float = 1e-3,
        max_iter: int = 1000,
        positive: bool = False,
        oracle: str = "tree",
        metric: str = "ndcg@10",
        scale: str = "none",
        early_stopping: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.lam = lam
        self.C = C
        self.loss = loss
        self.normalization = normalization
        self.tol = tol
        self.max_iter = max_iter
        self.positive = positive
        self.oracle = oracle
        self.metric = metric
        self.scale = scale
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads

    def _solve(self, job: Job) -> Solution:
        lams = self._strengths()
        solver = self._solver(self._oracle(job.data, job.query_weight))
        start = job.coef_init
        if start is None:
            start = self._coarse_start(job.data, job.query_weight, lams[0])
        self._path = run_path(
            partial(solver, tol=self.tol), lams, replace(job, coef_init=start), self.metric
        )
        lam = self._path.value
        return self._path.chosen_with(lam=lam, C=1.0 / (2.0 * lam))

    def _solve_parts(self, job: PartsJob) -> Solution:
        lams = self._strengths()
        solver = self._solver(job.risk_oracle(self.loss, self.normalization, self.oracle))
        self._path = run_path(partial(solver, tol=self.tol), lams, job, self.metric)
        lam = self._path.value
        return self._path.chosen_with(lam=lam, C=1.0 / (2.0 * lam))

    def _oracle(self, data: Dataset, query_weight: NDArray[np.float64]) -> SummedOracle:
        return pair_oracle(
            data, query_weight, self.loss, self.normalization, self.oracle, self.n_threads
        )

    def _solver(self, oracle: SummedOracle) -> Callable[..., Solution]:
        """A function of lam, start, callbacks and tol that solves by asking the oracle."""
        solve: Callable[..., Solution] = partial(solve_newton, oracle)
        if self.loss == "hinge":
            bundle = Bundle(oracle.n_features, positive=self.positive)
            solve = partial(solve_bundle, oracle, bundle=bundle)

        def solver(
            lam: float,
            start: NDArray[np.float64] | None,
            callbacks: Sequence[Callback] = (),
            *,
            tol: float,
        ) -> Solution:
            return solve(
                lam,
                start=start,
                tol=tol,
                max_iter=self.max_iter,
                positive=self.positive,
                callbacks=callbacks,
            )

        return solver

    def _coarse_start(
        self, data: Dataset, query_weight: NDArray[np.float64], lam: float
    ) -> NDArray[np.float64] | None:
        """Weights learnt from a sample of the data, itself started in the same way."""
        sample = coarsen(data, query_weight)
        if sample is None:
            return None
        part, part_weight = sample
        totals = PairQueries.build(data, query_weight).totals
        part_totals = PairQueries.build(part, part_weight).totals
        if part_totals.n_queries == 0:
            return None
        at_zero = 1.0
        if self.normalization == "sum":
            # The risk of the sample is smaller; the penalty shrinks with it.
            lam *= part_totals.pair_weight / totals.pair_weight
            at_zero = part_totals.pair_weight
        start = self._coarse_start(part, part_weight, lam)
        solver = self._solver(self._oracle(part, part_weight))
        return solver(lam, start, tol=max(self.tol, COARSE_TOL * at_zero)).coef

    def _keep(self, solution: Solution, scaling: Scaling, data: Dataset, seconds: float) -> None:
        super()._keep(solution, scaling, data, seconds)
        path: Path = self.__dict__.pop("_path")
        self.lam_ = path.value
        self.C_ = 1.0 / (2.0 * self.lam_)
        self.training_ |= {"lam": self.lam_, "C": self.C_}
        path.publish(self, "lams_", scaling)

    def _strengths(self) -> list[float]:
        """Values of lam, largest first, checked."""
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_choice("loss", self.loss, tuple(LOSSES))
        if self.C is not None:
            check_positive("C", self.C)
            return [1.0 / (2.0 * float(self.C))]
        return check_strengths("lam", self.lam)


def pair_oracle(
    data: Dataset,
    query_weight: NDArray[np.float64] | None,
    loss: str,
    normalization: str,
    oracle: str = "tree",
    threads: int | None = None,
) -> SummedOracle:
    """The risk of a dataset in memory, as one partition."""
    queries = PairQueries.build(data, query_weight)
    omega = pair_scale(normalization, queries.totals, queries)
    risk = LOSSES[loss](queries, omega, oracle, threads)
    return SummedOracle([Partition(data.rows, data.n_features, risk, threads)])
