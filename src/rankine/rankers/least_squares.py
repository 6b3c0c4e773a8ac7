"""Pairwise least squares: the ranker that is one linear system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankine.core.errors import ParameterError
from rankine.rankers.base import BaseRanker, Job
from rankine.rankers.checks import check_choice, check_count, check_positive, check_strengths
from rankine.rankers.path import Path, choose, run_path
from rankine.rankers.search_space import SCALE, Choice, Number
from rankine.solvers.cg import solve_cg, solve_shifted_cg
from rankine.solvers.curvature import N_BLOCKS, Spectrum, lanczos, online_power, power
from rankine.solvers.heavy_ball import solve_egdm, solve_gdm
from rankine.solvers.normal_equations import NormalEquations, QuadraticPartition
from rankine.solvers.pair_laplacian import PAIRS, PairLaplacian
from rankine.solvers.pair_queries import PairQueries
from rankine.solvers.query_sgd import solve_query_sgd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.data.dataset import Dataset
    from rankine.rankers.parts_job import PartsJob
    from rankine.solvers.base import Callback, Solution
    from rankine.transforms.scaling import Scaling

__all__ = ["LeastSquaresRanker"]

SOLVERS = ("cg", "egdm", "gdm", "sgd")
CURVATURES = ("lanczos", "power", "online")


class LeastSquaresRanker(BaseRanker):
    r"""Fit differences of scores to differences of labels, by least squares over pairs.

    Minimises

    .. math:: J(w) = \sum_q \omega_q |L_q (X_q w - y_q)|^2 + \tfrac{l_2}{2} |w|^2

    where :math:`L_q` subtracts the mean of the query. :math:`|L_q e|^2` is the sum of
    :math:`(e_i - e_j)^2 / (2 m_q)` over all ordered pairs (Tas, eq. 1), so with residuals
    :math:`e = Xw - y` this is regression on all label differences at once. The optimum solves
    :math:`(X^T L X + \gamma I) w = X^T L y` with Tas's :math:`\gamma = l_2 / 2`; X is never centred
    and never copied.

    Parameters
    ----------
    l2
        Strength of the penalty; or several, solved with one set of products (``"cg"``) or one
        estimate of the spectrum (``"egdm"``, ``"gdm"``), see ``coef_path_``.
    solver
        ``"cg"``: conjugate gradients, the fastest; ``"egdm"``: momentum descent with the optimal
        parameters of the estimated spectrum (the paper's); ``"gdm"``: fixed ``eta`` and
        ``momentum`` (the paper's baseline); ``"sgd"``: stochastic over queries, ``n_passes``.
    normalization
        ``"query"``: om_q = 1 / (Q m_q), mean over the Q queries that hold two labels; ``"sum"``:
        1, the paper's form for one query; ``"pair"``: the mean over all unordered pairs.
    pairs
        ``"all"`` (tied labels are pulled together) or ``"untied"``.
    curvature
        Estimate of the spectrum for ``"egdm"`` and ``"gdm"``: ``"lanczos"`` (safe), ``"power"``
        (the paper's algorithm 1, corrected), ``"online"`` (power iteration on blocks of queries,
        with a safety factor).
    eta, momentum
        Of ``"gdm"``; refused unless 0 < (1 - momentum) eta kappa_1 < 2 (1 + momentum). Default
        eta: 1 / kappa_1.
    tol
        Stop when |X^T L (Xw - y) + l2/2 w| <= tol |X^T L y|, the residual of w = 0.
    max_iter
        Iterations at most (``"sgd"``: see ``n_passes``).
    n_passes
        Passes over the queries of ``"sgd"``.
    metric, scale, early_stopping, warm_start, random_state
        See ``BaseRanker``. The seed starts the estimates of the spectrum and orders ``"sgd"``.
    n_threads
        Threads; None takes what the machine offers. Results do not depend on it, to the bit.

    Attributes
    ----------
    coef_
        Weights, one per feature.
    l2_
        The l2 of ``coef_``.
    coef_path_, l2s_, path_
        With several l2, from the largest to the smallest; ``coef_`` is the one that ranks the
        evaluation set best, or the last without one.
    solution_
        Objective, relative residual, trace of residuals and reason to stop.
    spectrum_
        Estimated eigenvalues and their trace (``"egdm"``, ``"gdm"``), else None.

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import LeastSquaresRanker
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.2]])
    >>> ranker = LeastSquaresRanker(l2=0.02).fit(X, y=[2, 0, 1, 0])
    >>> ranker.rank(X, k=2)[0].tolist()
    [0, 2]

    References
    ----------
    Tas, Efficient gradient descent with momentum for pairwise least squares ranking. Pahikkala et
    al. (2009), An efficient algorithm for learning to rank from preference graphs.
    """

    _system: ClassVar[str] = "least-squares"
    #: Values the LETOR protocol tries on validation data.
    letor_grid: ClassVar[dict[str, list[Any]]] = {"l2": [2.0 * 10.0**k for k in range(-7, 2)]}
    #: What tuning searches.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "l2": Number(2e-7, 200.0, log=True),
        "pairs": Choice(PAIRS),
        "scale": SCALE,
    }

    def __init__(
        self,
        l2: float | Sequence[float] = 2e-3,
        *,
        solver: str = "cg",
        normalization: str = "query",
        pairs: str = "all",
        curvature: str = "lanczos",
        eta: float | None = None,
        momentum: float = 0.9,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        n_passes: int = 20,
        metric: str = "ndcg@10",
        scale: str = "none",
        early_stopping: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_threads: int | None = None,
    ) -> None:
        self.l2 = l2
        self.solver = solver
        self.normalization = normalization
        self.pairs = pairs
        self.curvature = curvature
        self.eta = eta
        self.momentum = momentum
        self.tol = tol
        self.max_iter = max_iter
        self.n_passes = n_passes
        self.metric = metric
        self.scale = scale
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_threads = n_threads

    def _solve(self, job: Job) -> Solution:
        l2s = self._strengths()
        system = normal_equations(
            job.data, job.query_weight, self.normalization, self.pairs, self.n_threads
        )
        return self._solve_system(system, l2s, job)

    def _solve_parts(self, job: PartsJob) -> Solution:
        l2s = self._strengths()
        for name, value in (("solver", "sgd"), ("curvature", "online")):
            if getattr(self, name) == value:
                raise ParameterError(
                    f"{name}={value!r} draws queries one by one and cannot use partitions",
                    fix="Use solver='cg', or 'egdm' with curvature='lanczos'",
                )
        return self._solve_system(job.equations(self.normalization, self.pairs), l2s, job)

    def _solve_system(
        self, system: NormalEquations, l2s: list[float], job: Job | PartsJob
    ) -> Solution:
        self.spectrum_ = None
        if self.solver == "cg" and len(l2s) > 1:
            gammas = [0.5 * l2 for l2 in l2s]
            solutions = solve_shifted_cg(
                system, gammas, tol=self.tol, max_iter=self.max_iter, callbacks=job.callbacks
            )
            self._path = Path(l2s, solutions, choose(solutions, job.valid, self.metric))
            return self._path.chosen_with(l2=self._path.value)
        if self.solver in {"egdm", "gdm"}:
            self.spectrum_ = self._spectrum(system, job.seed)

        def solve(
            l2: float, start: NDArray[np.float64] | None, callbacks: Sequence[Callback]
        ) -> Solution:
            return self._solve_one(system, 0.5 * l2, start, callbacks, job.seed)

        self._path = run_path(solve, l2s, job, self.metric)
        return self._path.chosen_with(l2=self._path.value)

    def _solve_one(
        self,
        system: NormalEquations,
        gamma: float,
        start: NDArray[np.float64] | None,
        callbacks: Sequence[Callback],
        seed: int,
    ) -> Solution:
        if self.solver == "sgd":
            return solve_query_sgd(
                system,
                gamma,
                seed=seed,
                start=start,
                tol=self.tol,
                n_passes=self.n_passes,
                callbacks=callbacks,
            )
        if self.spectrum_ is None:
            return solve_cg(
                system,
                gamma,
                start=start,
                tol=self.tol,
                max_iter=self.max_iter,
                callbacks=callbacks,
            )
        k1, kn = self.spectrum_.shifted(gamma)
        if self.solver == "egdm":
            return solve_egdm(
                system,
                gamma,
                (k1, kn),
                start=start,
                tol=self.tol,
                max_iter=self.max_iter,
                callbacks=callbacks,
            )
        return solve_gdm(
            system,
            gamma,
            k1,
            eta=self.eta,
            momentum=self.momentum,
            start=start,
            tol=self.tol,
            max_iter=self.max_iter,
            callbacks=callbacks,
        )

    def _spectrum(self, system: NormalEquations, seed: int) -> Spectrum:
        if self.curvature == "lanczos":
            return lanczos(system.times, system.n_features, seed)
        if self.curvature == "power":
            return power(system.times, system.n_features, seed)
        (partition,) = system.partitions
        return online_power(partition.blocks(N_BLOCKS), system.n_features, seed)

    def _keep(self, solution: Solution, scaling: Scaling, data: Dataset, seconds: float) -> None:
        super()._keep(solution, scaling, data, seconds)
        path: Path = self.__dict__.pop("_path")
        self.l2_ = path.value
        self.training_ |= {"l2": self.l2_}
        path.publish(self, "l2s_", scaling)

    def _strengths(self) -> list[float]:
        """Values of l2, largest first, once every parameter has been checked."""
        check_choice("solver", self.solver, SOLVERS)
        check_choice("curvature", self.curvature, CURVATURES)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_count("n_passes", self.n_passes)
        if self.eta is not None:
            check_positive("eta", self.eta)
        if not 0.0 <= self.momentum < 1.0:
            raise ParameterError(
                f"momentum={self.momentum!r} is not in [0, 1)", fix="Pass 0 <= momentum < 1"
            )
        return check_strengths("l2", self.l2)


def normal_equations(
    data: Dataset,
    query_weight: NDArray[np.float64] | None,
    normalization: str,
    pairs: str = "all",
    threads: int | None = None,
) -> NormalEquations:
    """The linear system of a dataset in memory, as one partition."""
    laplacian = PairLaplacian(PairQueries.build(data, query_weight), pairs, threads)
    laplacian.normalise(normalization, laplacian.totals)
    return NormalEquations(
        [QuadraticPartition(data.rows, data.n_features, data.y, laplacian, threads)]
    )
