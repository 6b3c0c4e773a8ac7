"""ElasticRank: one pass over lists of any number, sparse weights (Freno et al. 2015)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rankine.core.checks import (
    check_choice,
    check_count,
    check_n_passes,
    check_positive,
    reject_sets,
)
from rankine.core.errors import NoPairsError, ParameterError
from rankine.core.user_warnings import warn_user
from rankine.data.dataset import Dataset
from rankine.data.progress import read_ahead
from rankine.kernels.products import Products
from rankine.losses import pair_loss_names
from rankine.losses.list_objectives import ListObjective, objective_names, parse_objective
from rankine.model import LinearModel
from rankine.model.training_state import TrainingState
from rankine.rankers.base import BaseRanker
from rankine.rankers.capabilities import Capabilities
from rankine.rankers.fitting import FitMonitor, FitResult, FitTask
from rankine.rankers.path import ElasticPath, Step
from rankine.rankers.path_fitting import PathGrid, PathMixin
from rankine.rankers.provenance import json_parameters
from rankine.rankers.registry import Choice, Condition, Number
from rankine.rankers.sources import (
    MemorySource,
    PartitionSource,
    StreamSource,
    TrainingSource,
    read_first_lists,
)
from rankine.rankers.warm_start import EarlierRun, training_entry
from rankine.scoring.latency import scoring_latency
from rankine.solvers.base import Progress, Solution, notify
from rankine.solvers.one_pass import OnePassLearner, no_learnable_lists
from rankine.solvers.one_pass_run import OnePassRun, ProgressiveMetric
from rankine.updates import UPDATES, UpdateOptions, make_update

if TYPE_CHECKING:
    from rankine.rankers.goals import GoalMixture

#: FOBOS and TGD compare l1 with a step and not with the mean gradient, so it must be larger.
STRENGTH_FACTOR = {"rda": 1.0, "fobos": 10.0, "tgd": 10.0}
#: Number of first lists on which the largest strength of a path is measured.
SAMPLE_LISTS = 1000
#: Step size of adaptive RDA before any list is read, and bounds of one that is measured.
DEFAULT_STEP, MIN_STEP, MAX_STEP = 0.2, 0.02, 0.5
#: Fewest lists on which it is measured, and the standard deviation of scores that it aims at.
MIN_LISTS_FOR_STEP, TARGET_DEVIATION = 25, 8.0
#: Most lists on which the step of the solvers without adaptive steps is measured.
MOST_LISTS_FOR_STEP = 200
#: Rows of lists with pairs on which it is measured. Gradients at w = 0 add up over lists, so more
#: rows would give ever smaller steps, while the best step hardly depends on the number of lists.
ROWS_FOR_STEP = 8192
#: A step size that leaves all weights at 0.
TINY_STEP = 1e-12
#: Default passes over rows in memory: enough to learn from this many lists, up to a maximum.
MIN_LISTS_LEARNED, MAX_PASSES = 4000, 20
#: Smallest strength of a path.
MIN_STRENGTH = 1e-12


@dataclass(eq=False, repr=False, kw_only=True)
class ElasticRanker(PathMixin, BaseRanker):
    r"""One-pass list learning with the elastic net.

    Minimises the mean over lists of

    .. math:: \sum_{l_i > l_j} |\Delta_M(i, j)|\, P(s_i - s_j)
              \;+\; l_1 |w|_1 + \tfrac{l_2}{2} |w|^2,
              \qquad s = X w

    by one stochastic step a list, where :math:`|\Delta_M(i, j)|` is how much the metric M changes
    when items i and j are exchanged (Freno, Saveski, Jenatton, Archambeau, KDD 2015, eq. 4-6). A
    list of n items costs O(its non-zeros + relevant items x n), O(its non-zeros + n log n) with
    ``objective="pairwise"`` and a hinge or the squared loss, for any number of features.

    Parameters
    ----------
    solver
        ``"rda"`` (dual averaging), ``"fobos"`` (proximal gradient), ``"psgd"`` (pruned SGD: L2 and
        ``theta``, no ``l1``) or ``"tgd"`` (truncated gradient: ``l1`` and ``theta``, no ``l2``).
    loss
        P: ``"logistic"`` log(1 + e^-z), ``"hinge"`` max(0, margin - z), ``"squared_hinge"``, its
        square, or ``"squared"`` (margin - z)^2, which with ``objective="pointwise"`` is linear
        regression of the label, (label - s)^2 / 2.
    objective
        M: ``"ndcg"``, ``"ndcg@10"``, ``"dcg"``, ``"recall@5"``, ``"mrr"``, ``"map"``, with the
        options of a metric (``"ndcg@5:discount=paper"``); ``"recall@shown"`` takes each list's
        cutoff from the column ``shown``. ``"pairwise"``: Delta = 1 (RankSVM with the hinge, RankLR
        with the logistic loss). ``"pointwise"``: logistic or linear regression of the label.
    delta
        Where Delta is measured: at the ``"model"``'s ranking (LambdaRank) or at the ``"target"``
        ranking by label (a convex loss).
    eta0, step_factor, power
        Step size step_factor * eta0 / t^power; for RDA beta_t = t^power / (step_factor * eta0).
        None: eta0 is measured on the first lists. Without ``adaptive`` steps it is the largest for
        which no first step, from zero weights, changes scores within one of up to 200 lists by more
        than 1. With them it is 8 / sd, at least 0.02 and at most 0.5, where
        sd is the standard deviation of scores within a list (root of the mean of variances) that
        the first lists would give with eta0 = 1 if weights moved after the last of them alone:
        w = -sum g / (1 + root of sum g^2), and 0.2 for fewer than 25 lists with pairs. The first
        lists are those up to which lists with pairs hold 8,192 rows, and at least 100.
    adaptive
        RDA with a step size per weight, beta = (1 + root of the weight's summed squared gradients)
        / eta0, where features differ in frequency as hashed categories do. None: with RDA.
    l1, l2
        Weights of the penalties. RDA compares ``l1`` with the mean gradient, FOBOS and TGD with
        the step; the same value prunes differently.
    theta, prune_every
        Threshold (None: 0.02 for PSGD, no threshold for TGD) and the steps between prunings.
    margin
        Margin of the hinges and of the squared loss of pairs.
    n_passes
        How often to go through the lists. None: min(20, ceil(4000 / Q)) times over Q lists in
        memory, once over a stream or after a warm start that continues a run, ten times over
        partitions, whose weights are averaged after each pass.
    batch_lists
        Lists a step; their gradients are averaged.
    shuffle_buffer
        Streams: lists that are read ahead and shuffled; 0 keeps the order of the file. ``fit``
        always takes the lists in seeded random order.
    max_nonzero
        Keep at most this many weights: with RDA those that a larger ``l1`` would drop last (by
        the sum of gradients, so frequent features stay), else the largest.
    propensity, max_weight, position_offset
        Learn from clicks, see ``BaseRanker``.
    metric, scale, early_stopping, warm_start, random_state
        As for every ranker. Each list is scored with ``metric`` before it is learned from
        (``progressive_``). The scales "standard" and "maxabs" read a whole stream beforehand.
        A model stores where its training ended: a warm start from it, or from the last fit,
        continues with its step sizes, sums of gradients and scaling, as if the lists had followed
        in the same run, unless ``solver``, ``eta0``, ``step_factor``, ``power``, ``adaptive``,
        ``scale`` or ``position_offset`` differ. Models of partitions, and those of early stopping
        before the end, store none: training starts from their weights.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    eta0_ : float
        The step size that was used.
    n_iter_ : int
        Number of steps, including the steps of a continued run.
    progressive_ : float
        Mean of ``metric`` over lists that were not yet learned from; NaN where the metric cannot
        evaluate these labels (``solution_.extra`` gives the reason).

    Examples
    --------
    >>> import numpy as np
    >>> from rankine import ElasticRanker
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.2], [0.1, 1.0]])
    >>> ranker = ElasticRanker(l1=0, random_state=0)
    >>> ranker.fit(X, [1, 0, 1, 0], qid=[1, 1, 2, 2]).coef_.round(2).tolist()
    [0.53, -0.52]
    """

    solver: str = "rda"
    loss: str = "logistic"
    objective: str = "ndcg"
    delta: str = "model"
    eta0: float | None = None
    step_factor: float = 1.0
    power: float = 0.5
    adaptive: bool | None = None
    l1: float = 1e-5
    l2: float = 1e-4
    theta: float | None = None
    prune_every: int = 100
    margin: float = 1.0
    n_passes: int | None = None
    batch_lists: int = 1
    shuffle_buffer: int = 0
    max_nonzero: int | None = None

    system: ClassVar[str] = "elastic"
    capabilities = Capabilities(
        fit=("memory", "stream", "partitions"),
        path=("memory", "stream"),
        checkpoint=("memory", "stream", "partitions"),
        query_weight=("memory", "stream"),
        partial=True,
        path_options=("solvers", "max_latency"),
        comparisons="takes a step for every comparison, in proportion to its weight; a tie is two",
    )
    no_effect_with: ClassVar[Mapping[str, Condition]] = {
        "l1": {"solver": ("psgd",)},
        "l2": {"solver": ("tgd",)},
        "theta": {"solver": ("rda", "fobos")},
        "prune_every": {"solver": ("rda", "fobos")},
        "margin": {"loss": ("logistic",)},
        "delta": {"objective": ("pairwise", "pointwise")},
    }
    path_varies: ClassVar[tuple[str, ...]] = ("solver",)
    path_grid: ClassVar[PathGrid] = PathGrid(n_steps=10, min_ratio=1e-3)
    letor_grid: ClassVar[dict[str, list[Any]]] = {
        "solver": ["rda", "fobos"],
        "objective": ["ndcg", "ndcg@10", "map", "pairwise"],
        "eta0": [0.01, 0.1, 1.0],
    }
    #: What tuning searches: the space of the paper, the scale, and the step size relative to the
    #: one that is measured on the data.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "solver": Choice(lambda: tuple(UPDATES)),
        "loss": Choice(pair_loss_names),
        "objective": Choice(objective_names),
        "step_factor": Number(1e-2, 3.0, log=True),
        "l1": Number(1e-6, 1e-1, log=True, unless={"solver": ("psgd",)}),
        "theta": Number(1e-6, 1e-1, log=True, when={"solver": ("psgd",)}),
        "l2": Number(1e-6, 1.0, log=True, unless={"solver": ("tgd",)}),
        # Without scaling, steps that suit some columns are too large for others.
        "scale": Choice(("auto", "standard", "maxabs", "query")),
    }
    #: Searched unless the user gives another parameter: that parameter -> the searched one.
    search_instead: ClassVar[dict[str, str]] = {"eta0": "step_factor"}

    def _weighs_lists(self) -> bool:
        return True

    def _needs_pairs(self) -> bool:
        return self._objective().name != "pointwise"

    def _check(self) -> None:
        check_n_passes(self.n_passes)
        check_count("batch_lists", self.batch_lists)
        if self.shuffle_buffer != 0:
            check_count("shuffle_buffer", self.shuffle_buffer)
        if self.max_nonzero is not None:
            check_count("max_nonzero", self.max_nonzero)
        check_positive("step_factor", self.step_factor)
        objective = self._objective()
        if objective.name == "pointwise" and self.loss == "squared" and self.margin != 1.0:
            raise ParameterError(
                "it has no effect with objective='pointwise' and loss='squared'",
                parameter="margin",
                fix="Leave it out, or change loss",
            )
        make_update(self.solver, **self._update_options())

    def _solve(self, task: FitTask) -> FitResult:
        eta0 = self._choose_eta0(task)
        source = task.source
        if isinstance(source, PartitionSource):
            result = task.run(
                lambda start, monitor: self._average_passes(task, source, eta0, start, monitor)
            )
            progressive = float(result.solution.extra["progressive"])
            result = result.with_attributes(_run=None, progressive_=progressive)
        else:
            result = self._solve_in_one_process(task, eta0)
        return result.with_attributes(eta0_=eta0).with_parameters(eta0=eta0)

    def _mix_goals(self, task: FitTask, sources: Sequence[MemorySource]) -> GoalMixture:
        from rankine.rankers.goal_mixtures import OnePassMixture

        if not self._needs_pairs():
            raise ParameterError(
                "the constant term of 'pointwise' belongs to one goal",
                parameter="objective",
                fix="Use 'ndcg@10' or 'pairwise'",
            )
        n_features = sources[0].data.n_features
        return OnePassMixture(
            task,
            sources,
            self._solve,
            lambda coef: self._learner(n_features, seed=0, start=coef),
        )

    def _earlier_run(self, model: LinearModel | None) -> EarlierRun | None:
        """Return the run of a model or of the last fit, if it took steps as this ranker does."""
        if model is None:
            if not (self.warm_start and hasattr(self, "coef_")):
                return None
            if not self._steps_like(self._fitted_parameters):
                return None
            state, missing, eta0 = self._training_state(), self.scaling_.missing, self.eta0_
        else:
            is_elastic = model.parameters.get("ranker") == self.system
            if not is_elastic or not self._steps_like(model.parameters):
                return None
            state, missing = model.state, model.missing
            eta0 = check_positive("eta0", training_entry(model, "eta0"))
        other_step = self.eta0 is not None and self._default_eta0 != eta0
        if state is None or other_step:
            return None
        return EarlierRun(state, missing, eta0)

    def _steps_like(self, earlier: Mapping[str, Any]) -> bool:
        """Return whether a run with these parameters took steps as this ranker does."""
        parameters = json_parameters(self)
        same = ("solver", "step_factor", "power", "adaptive", "scale", "position_offset")
        return all(earlier.get(name) == parameters[name] for name in same)

    def _training_state(self) -> TrainingState | None:
        """Return the state of the run; None if the model has other weights."""
        run: OnePassRun | None = getattr(self, "_run", None)
        # Early stopping keeps weights from before the end of the run.
        if run is None or not np.array_equal(run.coef(), self.solution_.coef):
            return None
        factors = self.scaling_.factors
        return run.learner.snapshot(np.ones(len(self.coef_)) if factors is None else factors)

    def _choose_eta0(self, task: FitTask) -> float:
        """Return the step size; by default one for which the scores of the first weights spread.

        A run that continues another one keeps its step size.
        """
        if task.earlier is not None:
            return task.earlier.eta0
        if self.eta0 is not None:
            return self._default_eta0
        data, weight = read_first_lists(task.source, ROWS_FOR_STEP)
        if not self._adaptive:
            return self._step_of_unit_changes(data, weight)
        if len(data.labels.queries_with_pairs) < MIN_LISTS_FOR_STEP:
            return self._default_eta0
        # With such small steps all gradients are taken at w = 0. Dividing by the step size gives
        # the weights that eta0 = 1 would reach with these gradients.
        probe = self._variant(replace(task, seed=0), self.solver, l1=0.0, l2=0.0, eta0=TINY_STEP)
        probe.learn(data, lists=probe.lists(data, weight))
        index = data.queries
        scores = Products(data.rows, data.n_features, threads=1).scores(probe.coef() / TINY_STEP)
        scores = index.gather(scores)
        means = np.add.reduceat(scores, index.starts[:-1]) / index.sizes
        squares = (scores - np.repeat(means, index.sizes)) ** 2
        variance = np.mean(np.add.reduceat(squares, index.starts[:-1]) / index.sizes)
        step = np.clip(TARGET_DEVIATION / np.sqrt(variance or 1.0), MIN_STEP, MAX_STEP)
        return float(self.step_factor * step)

    def _step_of_unit_changes(self, data: Dataset, weight: NDArray[np.float64]) -> float:
        """Return the step size for which a first step changes scores within its list by 1.

        Larger steps overshoot: losses have margins and curvatures of this size. Of up to 200 lists
        the largest change counts, since one list is enough to diverge.
        """
        learner = self._learner(data.n_features, seed=0)
        order = np.arange(0, data.n_queries, -(-data.n_queries // MOST_LISTS_FOR_STEP))
        slopes = learner.first_slopes(data, learner.lists(data, weight), order)
        largest = 0.0
        for query in order.tolist():
            rows = data.queries.rows_of(query)
            X = data.X[rows]
            largest = max(largest, float(np.ptp(X @ (X.T @ slopes[rows]))))
        return float(self.step_factor / (largest or 1.0))

    def _solve_in_one_process(self, task: FitTask, eta0: float) -> FitResult:
        source = task.source
        pointwise = not self._needs_pairs()
        default_passes = 1
        if isinstance(source, MemorySource):
            # A continued run learns from new lists once: with more passes, the day that was learned
            # from last had too much weight (NDCG@10 .007 lower on logs of hashed categories).
            if task.earlier is None:
                default_passes = min(MAX_PASSES, -(-MIN_LISTS_LEARNED // source.data.n_queries))
            if not pointwise:
                source.data.labels.require_pairs()
        n_passes = check_n_passes(self.n_passes, default_passes)
        if n_passes > 1:
            source.require_rereadable(f"n_passes={n_passes}")
        classes: set[bool] = set()

        def blocks() -> Iterator[Dataset]:
            for block in source.blocks():
                if pointwise:
                    classes.update(np.unique(block.y > 0).tolist())
                yield block

        runs: list[OnePassRun] = []

        def solve(start: NDArray[np.float64] | None, monitor: FitMonitor) -> Solution:
            run = OnePassRun(
                self._first_learner(task, start, eta0),
                ProgressiveMetric(self.metric),
                int(self.shuffle_buffer),
                self.max_nonzero,
                monitor.callbacks,
                monitor.checkpointer,
            )
            runs.append(run)
            if isinstance(source, MemorySource):
                (data,) = blocks()
                return _solution(run, run.learn_dataset(data, source.query_weight, n_passes))
            return _solution(run, run.learn_stream(blocks, source.query_weights, n_passes))

        result = task.run(solve)
        # One call, so one run; its learner is needed beyond the solution.
        (run,) = runs
        # Early stopping keeps weights from before the last lists.
        if result.solution.stop_reason != "early_stopping":
            message = run.require_convergence(at_end=True)
            if message is not None:
                warn_user(message, ConvergenceWarning)
        # ``partial_fit`` continues this run without its callbacks and checkpoints.
        run.callbacks, run.checkpointer = (), None
        if isinstance(source, StreamSource):
            _record_counts(source, run)
        stopped = result.solution.stop_reason in ("callback", "early_stopping")
        if run.learner.lists_used == 0 and not stopped:
            raise no_learnable_lists(self._objective().name)
        self._require_classes(classes)
        return result.with_attributes(_run=run, progressive_=run.progressive.value)

    def _first_learner(
        self, task: FitTask, start: NDArray[np.float64] | None, eta0: float
    ) -> OnePassLearner:
        """Return the learner of a fit, which continues the run of a warm start."""
        n_features, earlier = task.source.n_features, task.earlier
        if earlier is None:
            return self._learner(n_features, task.seed, start, task.steps_seen, eta0)
        learner = self._learner(n_features, task.seed, eta0=eta0)
        if earlier.n_numbers != learner.state.shape[1]:
            # The earlier run started from weights itself, and its state contains them.
            learner = self._learner(n_features, task.seed, start, 0, eta0)
        learner.restore(earlier.state)
        return learner

    def _require_classes(self, classes: set[bool]) -> None:
        """Raise for a single class (labels above 0, or not) where classes are learned."""
        if not self._needs_pairs() and self.loss != "squared" and len(classes) == 1:
            side = "above 0" if True in classes else "0 or below"
            raise NoPairsError(
                f"all labels are {side}: objective='pointwise' separates these two classes",
                fix="Give relevant rows labels above 0 and others 0, or use loss='squared'",
            )

    def _average_passes(
        self,
        task: FitTask,
        source: PartitionSource,
        eta0: float,
        start: NDArray[np.float64] | None,
        monitor: FitMonitor,
    ) -> Solution:
        """Pass over every partition, average their weights, and repeat."""
        from rankine.distributed.partition_tasks import (
            PASSES,
            ListPassTask,
            RawRowsTask,
            average_lists,
        )

        if not self._needs_pairs():
            ranges = source.worker_pool(RawRowsTask()).each("label_range")
            self._require_classes({label > 0 for low, high, _ in ranges for label in (low, high)})
        pass_task = ListPassTask(
            self.solver,
            self._update_options(eta0),
            self._objective(),
            int(self.batch_lists),
            self.metric,
            task.seed,
            source.measured.queries,
            task.scaling,
        )
        n_passes = check_n_passes(self.n_passes, PASSES)
        return average_lists(
            source, pass_task, n_passes, start, self.max_nonzero, monitor.callbacks
        )

    def _solve_more(self, task: FitTask) -> FitResult:
        """Learn from the lists of a block, in order."""
        source = task.source
        assert isinstance(source, MemorySource)  # noqa: S101 - partial_fit takes rows in memory
        # A copy, so that a call that fails leaves the ranker as it was.
        run: OnePassRun | None = getattr(self, "_run", None)
        if run is not None:
            run = run.copy()
        eta0: float | None = getattr(self, "eta0_", None)
        if eta0 is None:
            eta0 = self._choose_eta0(task)
        if run is None:
            # After a fit to partitions only weights are left, and no state of a run.
            start, steps = None, 0
            if hasattr(self, "coef_"):
                start, steps = task.scaling.unfold(self.coef_), int(self.n_iter_)
            learner = self._learner(source.n_features, task.seed, start, steps, eta0)
            run = OnePassRun(learner, ProgressiveMetric(self.metric), max_nonzero=self.max_nonzero)
        run.learn_block(source.data, np.arange(source.data.n_queries), source.query_weight)
        run.require_convergence()
        _record_counts(source, run)
        result = FitResult([_solution(run, "partial")], [[]])
        return result.with_attributes(_run=run, eta0_=eta0, progressive_=run.progressive.value)

    @property
    def _adaptive(self) -> bool:
        if self.adaptive is None:
            return self.solver == "rda"
        return bool(self.adaptive)

    @property
    def _default_eta0(self) -> float:
        """The parameter ``eta0``, or its default before any list is read."""
        eta0 = self.eta0
        if eta0 is None:
            eta0 = DEFAULT_STEP if self._adaptive else 1.0
        return float(self.step_factor * eta0)

    def _objective(self) -> ListObjective:
        return parse_objective(
            self.objective,
            loss=self.loss,
            margin=self.margin,
            delta=self.delta,
        )

    def _update_options(self, eta0: float | None = None) -> dict[str, Any]:
        """Return the options of the solver's update; ``eta0`` as chosen, by default as given."""
        options = {name: getattr(self, name) for name in UpdateOptions._fields if name != "started"}
        if eta0 is None:
            eta0 = self._default_eta0
        return {**options, "adaptive": self._adaptive, "eta0": eta0}

    def _learner(
        self,
        n_features: int,
        seed: int,
        start: NDArray[np.float64] | None = None,
        steps_seen: int = 0,
        eta0: float | None = None,
    ) -> OnePassLearner:
        return OnePassLearner(
            make_update(self.solver, **self._update_options(eta0), started=start is not None),
            self._objective(),
            n_features,
            int(self.batch_lists),
            seed,
            start,
            steps_seen,
        )

    # ------------------------------------------------------------------ models of every size
    def _check_path_options(self, options: Mapping[str, Any]) -> None:
        solvers = options.get("solvers", ())
        reject_sets(solvers=solvers)
        for solver in solvers:
            check_choice("solvers", solver, tuple(UPDATES))
        if options.get("max_latency") is not None:
            check_positive("max_latency", options["max_latency"])

    def _solve_path(self, task: FitTask, grid: PathGrid, options: Mapping[str, Any]) -> ElasticPath:
        """Train all models in one reading (the paper's figure 3)."""
        solvers = options.get("solvers", ("rda", "fobos", "psgd"))
        source = task.source
        # Measured on the first lists, which a stream keeps: the path still reads it once.
        steps = {solver: self._path_step(task, solver) for solver in solvers}
        blocks = source.blocks()
        if isinstance(source, MemorySource):
            blocks = source.data.blocks()
        members: list[_PathMember] = []
        sample: Dataset | None = None
        n_queries = 0
        for block in read_ahead(blocks):
            if sample is None:
                sample = block.take_queries(np.arange(min(block.n_queries, SAMPLE_LISTS)))
                members = self._members(task, sample, steps, grid)
            weights = source.query_weights(block, n_queries)
            n_queries += block.n_queries
            for member in members:
                member.learn(block, weights)
            learner = members[0].learner
            progress = Progress("path", learner.lists_seen, None, {}, learner.coef)
            if notify(task.callbacks, progress):
                break
        if sample is None:
            raise ParameterError("the data holds no lists", fix="Check the path")
        small = [member for member in members if grid.allows(member.nonzeros)]
        scored = sample if task.evaluator is None else task.evaluator.data
        return ElasticPath.from_steps(
            self,
            task,
            [member.step(task) for member in small],
            self._model_feature_names(task.columns.names),
            solvers=tuple(member.solver for member in small),
            latency=np.array([scoring_latency(member.coef, scored) for member in small]),
            max_latency=options.get("max_latency"),
        )

    def _path_step(self, task: FitTask, solver: str) -> dict[str, float]:
        """Return the step size of a solver as an option of ``_variant``, unless it is given."""
        if self.eta0 is not None:
            return {}
        alone = clone(self).set_params(solver=solver, adaptive=self._adaptive and solver == "rda")
        return {"eta0": ElasticRanker._choose_eta0(alone, task)}

    def _members(
        self,
        task: FitTask,
        sample: Dataset,
        steps: Mapping[str, Mapping[str, float]],
        grid: PathGrid,
    ) -> list[_PathMember]:
        """Create a learner for each solver and strength; the first lists set the largest ones."""
        members = []
        for solver, step in steps.items():
            largest = self._largest_strength(task, sample, solver, step)
            name = "theta" if solver == "psgd" else "l1"
            for strength in grid.values(largest):
                learner = self._variant(task, solver, **{**step, name: strength})
                members.append(_PathMember(solver, float(strength), learner))
        return members

    def _largest_strength(
        self, task: FitTask, sample: Dataset, solver: str, step: Mapping[str, float]
    ) -> float:
        """Return a strength that leaves hardly any weight: the largest mean gradient.

        For PSGD it is the largest weight.
        """
        if solver == "psgd":
            probe = self._variant(task, "psgd", theta=0.0, **step)
            probe.learn(sample)
            return max(float(np.abs(probe.coef()).max(initial=0.0)), MIN_STRENGTH)
        # With steps close to nothing the weights stay 0, and RDA's state is the sum of gradients.
        probe = self._variant(task, "rda", l1=0.0, eta0=TINY_STEP)
        probe.learn(sample)
        mean = float(np.abs(probe.state[:-1, 0]).max(initial=0.0)) / max(probe.steps, 1)
        return max(mean * STRENGTH_FACTOR[solver], MIN_STRENGTH)

    def _variant(self, task: FitTask, solver: str, **options: Any) -> OnePassLearner:
        """Create a learner of the same ranker with another solver."""
        adaptive = self._adaptive and solver == "rda"
        variant = clone(self).set_params(solver=solver, adaptive=adaptive, **options)
        if "eta0" in options:
            variant.step_factor = 1.0
        return ElasticRanker._learner(variant, task.source.n_features, task.seed)


@dataclass(eq=False)
class _PathMember:
    """One learner of a path."""

    solver: str
    strength: float
    learner: OnePassLearner
    seconds: float = 0.0

    def learn(self, block: Dataset, weights: NDArray[np.float64]) -> None:
        started = time.perf_counter()
        self.learner.learn(block, lists=self.learner.lists(block, weights))
        self.seconds += time.perf_counter() - started

    def step(self, task: FitTask) -> Step:
        value, largest_gain = math.nan, math.inf
        if task.evaluator is not None:
            value = task.evaluator.value(self.coef)
            largest_gain = task.evaluator.largest_gain(self.coef)
        loss = self.learner.mean_loss
        return Step(self.strength, loss, self.coef, self.seconds, value, largest_gain)

    @property
    def coef(self) -> NDArray[np.float64]:
        return self.learner.coef()

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.coef))


def _record_counts(source: TrainingSource, run: OnePassRun) -> None:
    """Record what a run has read, in all its passes and calls of ``partial_fit``."""
    source.record_counts(
        rows=run.rows_seen,
        queries=run.learner.lists_seen,
        queries_used=run.learner.lists_used,
    )


def _solution(run: OnePassRun, reason: str) -> Solution:
    """Return the weights of a run and its progressive evaluation."""
    learner, progressive = run.learner, run.progressive
    certificate, extra = {"progressive_loss": learner.mean_loss}, {}
    if progressive.label_error is None:
        certificate[progressive.name] = progressive.value
    else:
        extra["progressive"] = progressive.label_error
    return Solution(
        run.coef(),
        float("nan"),
        certificate,
        learner.steps,
        run.trace,
        reason,
        {"progressive_trace": progressive.to_records(), **extra},
    )
