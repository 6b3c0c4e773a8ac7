"""Pairwise least squares: the ranker that is one linear system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import check_choice, check_count, check_positive, check_strengths
from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset
from rankine.kernels.random import SPLIT, permutation, stream_seed
from rankine.losses.least_squares import PAIR_CHOICES, least_squares_risk
from rankine.losses.pair_queries import NORMALIZATIONS
from rankine.rankers.base import BaseRanker
from rankine.rankers.capabilities import Capabilities
from rankine.rankers.clicks import QueryDivisor
from rankine.rankers.fitting import FitResult, FitTask
from rankine.rankers.intervals import check_weight_count, solve_to_intervals, weight_covariance
from rankine.rankers.registry import SCALE, Choice, Condition, Number
from rankine.rankers.sources import MemorySource, PartitionSource, read_first_lists
from rankine.samplers.draw import pair_masses
from rankine.solvers.base import Callback, Solution
from rankine.solvers.cg import solve_cg, solve_shifted_cg
from rankine.solvers.heavy_ball import (
    N_BLOCKS,
    Spectrum,
    lanczos,
    online_power_iteration,
    power_iteration,
    solve_egdm,
    solve_gdm,
    solve_query_sgd,
)
from rankine.solvers.problem import NormalEquations, Problem, RowsProblem
from rankine.solvers.sandwich import sandwich

if TYPE_CHECKING:
    from rankine.rankers.goals import GoalMixture

SOLVERS = ("cg", "egdm", "gdm", "sgd")
CURVATURES = ("lanczos", "power", "online")
#: Strengths that "auto" tries, relative to the weight of all rows: half decades from 2 to 2e-4.
CANDIDATES = tuple(2.0 * 10.0 ** (-k / 2) for k in range(9))
#: Position of the strength that is used where there are too few lists to choose.
DEFAULT_CANDIDATE = 6
#: Fewest lists with pairs for a choice; with fewer the default is used.
MIN_LISTS = 25
#: One list in this many is held out. From so many lists on one fold is enough; with fewer lists
#: all folds are used, so that every list is held out once.
N_FOLDS, MIN_LISTS_FOR_ONE_SPLIT = 5, 1000
#: Relative residual to which strengths are compared.
CANDIDATE_TOL = 1e-3


@dataclass(eq=False, repr=False)
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
        estimate of the spectrum (``"egdm"``, ``"gdm"``), see ``coef_path_``. ``"auto"`` is
        r s T / Q, where s = sum om_q m_q is 1 for the mean over queries, and r is chosen on the
        first 10,000 lists: of 2, 0.63, 0.2 ... 2e-4, each fitted to T of these lists and judged by
        the squared error on the others, a fifth (five times, on another fifth each, where lists are
        fewer than 1,000), it is the value next to 2e-3 that is worse than the best by at most half
        a standard error, list by list. Q are all lists (Q = T for ``normalization="sum"``); fewer
        than 25 of them take r = 2e-3 as it is.
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
    propensity, max_weight, position_offset
        Learn from clicks, see ``BaseRanker``.
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
    Tas (2022), Large scale ranking using stochastic gradient descent. Pahikkala et al. (2009), An
    efficient algorithm for learning to rank from preference graphs.
    """

    l2: float | Sequence[float] | str = "auto"
    _: KW_ONLY
    solver: str = "cg"
    normalization: str = "query"
    pairs: str = "all"
    curvature: str = "lanczos"
    eta: float | None = None
    momentum: float = 0.9
    tol: float = 1e-6
    max_iter: int = 10_000
    n_passes: int = 20
    n_threads: int | None = None

    system: ClassVar[str] = "least-squares"
    capabilities = Capabilities(
        fit=("memory", "partitions"),
        checkpoint=("partitions",),
        comparisons="fits the squared error of every comparison's difference against 1; weights "
        "and ties need normalization='pair'",
    )
    no_effect_with: ClassVar[Mapping[str, Condition]] = {
        "curvature": {"solver": ("cg", "sgd")},
        "eta": {"solver": ("cg", "egdm", "sgd")},
        "momentum": {"solver": ("cg", "egdm", "sgd")},
        "n_passes": {"solver": ("cg", "egdm", "gdm")},
        "max_iter": {"solver": ("sgd",)},
    }
    letor_grid: ClassVar[dict[str, list[Any]]] = {"l2": [2.0 * 10.0**k for k in range(-7, 2)]}
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "l2": Number(2e-7, 200.0, log=True),
        "pairs": Choice(PAIR_CHOICES),
        "scale": SCALE,
    }

    def _check(self) -> None:
        check_choice("solver", self.solver, SOLVERS)
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        check_choice("pairs", self.pairs, PAIR_CHOICES)
        check_choice("curvature", self.curvature, CURVATURES)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_count("n_passes", self.n_passes)
        if self.eta is not None:
            check_positive("eta", self.eta)
        if not 0.0 <= self.momentum < 1.0:
            raise ParameterError(
                f"{self.momentum!r} is not in [0, 1)",
                parameter="momentum",
                fix="Pass a number >= 0 and < 1",
            )
        self._strengths()

    def _strengths(self) -> list[float]:
        """Return the values of l2, largest first; none where it is chosen on the data."""
        if isinstance(self.l2, str) and self.l2 == "auto":
            return []
        return check_strengths("l2", self.l2)

    def _weighs_lists(self) -> bool:
        return self.normalization == "pair"

    def _divisor(self) -> QueryDivisor:
        divisors = {"query": QueryDivisor.SQUARED_ROWS, "sum": QueryDivisor.ROWS}
        return divisors.get(self.normalization, QueryDivisor.NOTHING)

    def _solve(self, task: FitTask) -> FitResult:
        l2s = self._strengths() or [self._choose_l2(task)]
        system = NormalEquations(self._problem(task))
        spectrum = None
        if self.solver in ("egdm", "gdm"):
            spectrum = self._spectrum(system, task.seed)
        one_run_for_all = self.solver == "cg" and len(l2s) > 1
        if one_run_for_all and (task.evaluator is None or task.patience is None):
            # One set of products serves every l2; a monitor for each would need each one's steps.
            solutions = solve_shifted_cg(
                system,
                [0.5 * l2 for l2 in l2s],
                tol=self.tol,
                max_iter=self.max_iter,
                callbacks=task.callbacks,
            )
            result = task.select_best(l2s, solutions)
        else:
            result = task.run_strengths(
                l2s,
                lambda l2, start, monitor: self._solve_one(
                    system, 0.5 * l2, spectrum, start, monitor.callbacks, task.seed
                ),
            )
        if task.intervals:
            result = self._add_intervals(task, result, system, spectrum)
        result = result.with_attributes(
            l2_=result.value, l2s_=np.array(result.values), spectrum_=spectrum
        )
        return result.with_parameters(l2=result.value)

    def _add_intervals(
        self, task: FitTask, result: FitResult, system: NormalEquations, spectrum: Spectrum | None
    ) -> FitResult:
        """Add the covariance of the weights to a result."""
        check_weight_count(system.n_features)
        l2 = result.value
        result, covariance = solve_to_intervals(
            result,
            self.tol,
            lambda w: sandwich(system.problem.query_moments(w), w, l2),
            lambda start, tol: self._solve_one(
                system, 0.5 * l2, spectrum, start, task.callbacks, task.seed, tol
            ),
        )
        return result.with_attributes(covariance_=weight_covariance(covariance, task.scaling))

    def _check_intervals(self) -> None:
        """Allow intervals with all parameters."""

    def _mix_goals(self, task: FitTask, sources: Sequence[MemorySource]) -> GoalMixture:
        if self.solver != "cg":
            raise ParameterError(
                f"{self.solver!r} does not solve for several goals",
                parameter="solver",
                fix="Use 'cg'",
            )
        from rankine.rankers.goal_mixtures import SquareMixture
        from rankine.rankers.goals import require_one_strength

        if strengths := self._strengths():
            l2s = [require_one_strength(strengths, "l2")] * len(sources)
        else:
            l2s = [self._choose_l2(replace(task, source=source)) for source in sources]
        problems = [self._rows_problem(each.data, each.query_weight) for each in sources]
        return SquareMixture(task, problems, l2s, self.tol, self.max_iter)

    def _choose_l2(self, task: FitTask) -> float:
        """Choose l2 on held-out lists, the same for every seed; see ``l2``."""
        data, weight = read_first_lists(task.source)
        usable = data.labels.queries_with_pairs
        usable = usable[weight[usable] > 0]
        if data.weight is not None:
            usable = usable[pair_masses(data, ties=False)[usable] > 0]
        if len(usable) < MIN_LISTS:
            # Too few lists to compare strengths on.
            weight_sum = 1.0
            if self.normalization != "query":
                weight_sum = float(self._rows_problem(data, weight).risk.row_weight_sum)
            return CANDIDATES[DEFAULT_CANDIDATE] * weight_sum
        order = usable[permutation(stream_seed(0, SPLIT), len(usable))]
        n_held_out = len(order) // N_FOLDS
        n_folds = N_FOLDS if len(order) < MIN_LISTS_FOR_ONE_SPLIT else 1
        losses, weight_sums = [], []
        for fold in range(n_folds):
            held_out, train = np.split(np.roll(order, fold * n_held_out), [n_held_out])
            fold_losses, weight_sum = self._try_strengths(data, weight, train, held_out)
            losses.append(fold_losses)
            weight_sums.append(weight_sum)
        l2 = float(
            CANDIDATES[_choose_candidate(np.hstack(losses), DEFAULT_CANDIDATE)]
            * np.mean(weight_sums)
        )
        if self.normalization == "sum":
            return l2
        # The share of lists with weight is assumed to be the same beyond the first 10,000.
        weighted_share = len(usable) / len(data.labels.queries_with_pairs)
        n_lists = weighted_share * task.source.metadata()["queries_used"]
        return l2 * (len(order) - n_held_out) / n_lists

    def _try_strengths(
        self,
        data: Dataset,
        weight: NDArray[np.float64],
        train: NDArray[np.int64],
        held_out: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], float]:
        """Return the loss of each strength on each held-out list, and the weight of the others."""
        train, held_out = np.sort(train), np.sort(held_out)
        problem = self._rows_problem(data.take_queries(train), weight[train])
        evaluation = self._rows_problem(data.take_queries(held_out), weight[held_out])
        # From strong to weak, each from the last solution, as along a path.
        system, start, losses = NormalEquations(problem), None, []
        weight_sum = float(problem.risk.row_weight_sum)
        for strength in CANDIDATES:
            start = solve_cg(
                system, 0.5 * strength * weight_sum, start=start, tol=CANDIDATE_TOL
            ).coef
            losses.append(evaluation.risk.query_values(evaluation.scores(start)))
        return np.array(losses), weight_sum

    def _rows_problem(self, data: Dataset, query_weight: NDArray[np.float64]) -> RowsProblem:
        squares = least_squares_risk(
            data, query_weight, self.normalization, self.pairs, threads=self.n_threads
        )
        return RowsProblem.from_dataset(data, squares, self.n_threads)

    def _problem(self, task: FitTask) -> Problem:
        source = task.source
        if isinstance(source, MemorySource):
            return self._rows_problem(source.data, source.query_weight)
        assert isinstance(source, PartitionSource)  # noqa: S101 - streams are not supported
        from rankine.distributed.partition_tasks import square_problem

        for name, value in (("solver", "sgd"), ("curvature", "online")):
            if getattr(self, name) == value:
                raise ParameterError(
                    f"{value!r} draws queries one by one and is not available on partitions",
                    parameter=name,
                    fix="Use solver='cg', or 'egdm' with curvature='lanczos'",
                )
        return square_problem(source, self.normalization, self.pairs)

    def _solve_one(
        self,
        system: NormalEquations,
        shift: float,
        spectrum: Spectrum | None,
        start: NDArray[np.float64] | None,
        callbacks: Sequence[Callback],
        seed: int,
        tol: float | None = None,
    ) -> Solution:
        options: dict[str, Any] = {
            "start": start, "tol": tol or self.tol, "callbacks": callbacks
        }  # fmt: skip
        if self.solver == "sgd":
            return solve_query_sgd(system, shift, seed=seed, n_passes=self.n_passes, **options)
        options["max_iter"] = self.max_iter
        if spectrum is None:
            return solve_cg(system, shift, **options)
        largest, smallest = spectrum.shifted(shift)
        if self.solver == "egdm":
            return solve_egdm(system, shift, (largest, smallest), **options)
        return solve_gdm(system, shift, largest, eta=self.eta, momentum=self.momentum, **options)

    def _spectrum(self, system: NormalEquations, seed: int) -> Spectrum:
        if self.curvature == "lanczos":
            return lanczos(system.times, system.n_features, seed)
        if self.curvature == "power":
            return power_iteration(system.times, system.n_features, seed)
        problem: Any = system.problem
        blocks = problem.risk.blocks(problem.products, N_BLOCKS)
        return online_power_iteration(blocks, system.n_features, seed)


def _choose_candidate(losses: NDArray[np.float64], usual: int) -> int:
    """Return the strength next to the usual one that is as good as the best.

    As good means worse by at most half a standard error of the sum of differences, list by list.
    ``losses`` has a row for each strength and a column for each held-out list.
    """
    worse = losses - losses[np.argmin(losses.sum(axis=1))]
    error = 0.5 * np.sqrt(losses.shape[1]) * worse.std(axis=1, ddof=1)
    good = np.flatnonzero(worse.sum(axis=1) <= error)
    return int(good[np.argmin(np.abs(good - usual))])
