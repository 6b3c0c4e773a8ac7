"""ElasticRank: one pass over lists of any number, sparse weights (Freno et al. 2015)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from rankine.core.checks import (
    check_choice,
    check_count,
    check_n_passes,
    check_positive,
    reject_sets,
)
from rankine.core.errors import NoPairsError, ParameterError
from rankine.data.dataset import Dataset
from rankine.data.progress import read_ahead
from rankine.kernels.products import Products
from rankine.losses import pair_loss_names
from rankine.losses.list_objectives import ListObjective, objective_names, parse_objective
from rankine.rankers.base import BaseRanker
from rankine.rankers.fitting import FitMonitor, FitResult, FitTask
from rankine.rankers.path import ElasticPath, Step, check_steps
from rankine.rankers.provenance import json_parameters
from rankine.rankers.registry import SCALE, Choice, Number
from rankine.rankers.sources import Capabilities, sample_lists
from rankine.scoring.latency import scoring_latency
from rankine.solvers.base import Callback, Progress, Solution, notify
from rankine.solvers.one_pass import OnePassLearner, no_learnable_lists
from rankine.solvers.one_pass_run import OnePassRun, ProgressiveMetric
from rankine.updates import UPDATES, UpdateOptions, make_update

#: FOBOS and TGD compare l1 with a step and not with the mean gradient: more of it is needed.
STRONGER = {"rda": 1.0, "fobos": 10.0, "tgd": 10.0}
#: Lists of the first block that set the top of a path's grid.
LOOK_AHEAD = 1000
#: Step of adaptive RDA where nothing is known of the lists, and its bounds where they tell it.
USUAL_STEP, LEAST_STEP, MOST_STEP = 0.2, 0.02, 5.0
#: ... from so many lists on, so that scores of the first weights would spread so far.
ENOUGH_TO_TELL, SPREAD = 25, 8.0
#: A step that leaves weights where they are.
STILL = 1e-12
#: Rows in memory are passed over until so many lists were learned from, but not more often.
ENOUGH_LISTS, MOST_PASSES = 4000, 20
#: A strength below which nothing is pruned.
LEAST = 1e-12


@dataclass(eq=False, repr=False, kw_only=True)
class ElasticRanker(BaseRanker):
    r"""One-pass list learning with the elastic net.

    Minimises the mean over lists of

    .. math:: \sum_{l_i > l_j} |\Delta_M(i, j)|\, P(s_i - s_j)
              \;+\; l_1 |w|_1 + \tfrac{l_2}{2} |w|^2,
              \qquad s = X w

    by one stochastic step a list, where :math:`|\Delta_M(i, j)|` is how much the metric M changes
    when items i and j are exchanged (Freno, Saveski, Jenatton, Archambeau, KDD 2015, eq. 4-6). A
    list costs O(its non-zeros + relevant items x items), whatever the number of features.

    Parameters
    ----------
    solver
        ``"rda"`` (dual averaging), ``"fobos"`` (proximal gradient), ``"psgd"`` (pruned SGD: L2 and
        ``theta``, no ``l1``) or ``"tgd"`` (truncated gradient: ``l1`` and ``theta``, no ``l2``).
    loss
        P: ``"logistic"`` log(1 + e^-z) or ``"hinge"`` max(0, margin - z); with
        ``objective="pointwise"`` also ``"squared"``.
    objective
        M: ``"ndcg"``, ``"ndcg@10"``, ``"dcg"``, ``"recall@5"``, ``"mrr"``, ``"map"``, with the
        options of a metric (``"ndcg@5:discount=paper"``); ``"recall@shown"`` takes each list's
        cutoff from the column ``shown``. ``"pairwise"``: Delta = 1 (RankSVM with the hinge, RankLR
        with the logistic loss). ``"pointwise"``: logistic or linear regression of the label.
    delta
        Where Delta is measured: at the ``"model"``'s ranking (LambdaRank) or at the ``"target"``
        ranking by label (a convex loss).
    eta0, power
        Step size eta0 / t^power; for RDA beta_t = t^power / eta0. None: 1, and with ``adaptive``
        steps 8 / sd, at least 0.02 and at most 5, where sd is the standard deviation of scores
        within a list (root of the mean of variances) that the first 10,000 lists would give with
        eta0 = 1 if weights moved after the last of them alone: w = -sum g / (1 + root of sum g^2).
        Fewer than 25 lists take 0.2.
    adaptive
        RDA with a step size per weight, beta = (1 + root of the weight's summed squared gradients)
        / eta0, where features differ in frequency as hashed categories do. None: with RDA.
    l1, l2
        Weights of the penalties. RDA compares ``l1`` with the mean gradient, FOBOS and TGD with
        the step; the same value prunes differently.
    theta, prune_every
        Threshold (None: 0.02 for PSGD, no threshold for TGD) and the steps between prunings.
    margin
        Margin of the hinge.
    n_passes
        How often to go through the lists. None: min(20, ceil(4000 / Q)) times over Q lists in
        memory, once over a stream, ten times over partitions, whose weights are averaged after
        each pass.
    batch_lists
        Lists a step; their gradients are averaged.
    shuffle_buffer
        Streams: lists that are read ahead and shuffled; 0 keeps the order of the file. ``fit``
        always takes the lists in seeded random order.
    max_nonzero
        Keep at most this many weights: with RDA those that a larger ``l1`` would drop last (by
        the sum of gradients, so frequent features stay), else the largest.
    propensity, max_weight, position_offset
        Learning from clicks, as for every ranker.
    metric, scale, early_stopping, warm_start, random_state
        As for every ranker. Each list is scored with ``metric`` before it is learned from
        (``progressive_``). The scales "standard" and "maxabs" read a whole stream beforehand.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    eta0_ : float
        The step size that was used.
    n_iter_ : int
        Steps made.
    progressive_ : float
        Mean of ``metric`` over lists that were not yet learned from; NaN where the metric cannot
        judge these labels (``solution_.extra`` says why).

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
        comparisons="takes a step for every comparison, as long as its weight says; a tie is two",
    )
    letor_grid: ClassVar[dict[str, list[Any]]] = {
        "solver": ["rda", "fobos"],
        "objective": ["ndcg", "ndcg@10", "map", "pairwise"],
        "eta0": [0.01, 0.1, 1.0],
    }
    #: What tuning searches: the space of the paper, the step size and the scale.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "solver": Choice(lambda: tuple(UPDATES)),
        "loss": Choice(pair_loss_names),
        "objective": Choice(objective_names),
        "eta0": Number(1e-2, 1e2, log=True),
        "l1": Number(1e-6, 1e-1, log=True, unless={"solver": ("psgd",)}),
        "theta": Number(1e-6, 1e-1, log=True, when={"solver": ("psgd",)}),
        "l2": Number(1e-6, 1.0, log=True, unless={"solver": ("tgd",)}),
        "scale": SCALE,
    }

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
        self._objective()
        make_update(self.solver, **self._update_options())

    def _solve(self, task: FitTask) -> FitResult:
        self.eta0_ = self._step(task)
        return self._solve_steps(task).with_parameters(eta0=self.eta0_)

    def _step(self, task: FitTask) -> float:
        """The step size: as asked for, or such that the scores of the first weights spread well."""
        if self.eta0 is not None or not self._adaptive:
            return self._usual_step
        data, weight = sample_lists(task.source)
        if len(data.labels.queries_with_pairs) < ENOUGH_TO_TELL:
            return USUAL_STEP
        still = self._variant(replace(task, seed=0), self.solver, l1=0.0, l2=0.0, eta0=STILL)
        still.learn(data, lists=still.lists(data, weight))
        index = data.queries
        scores = Products(data.rows, data.n_features, threads=1).scores(still.coef() / STILL)
        scores = index.gather(scores)
        means = np.add.reduceat(scores, index.starts[:-1]) / index.sizes
        squares = (scores - np.repeat(means, index.sizes)) ** 2
        variance = np.mean(np.add.reduceat(squares, index.starts[:-1]) / index.sizes)
        return float(np.clip(SPREAD / np.sqrt(variance or 1.0), LEAST_STEP, MOST_STEP))

    def _solve_steps(self, task: FitTask) -> FitResult:
        if task.kind == "partitions":
            return task.run(lambda start, monitor: self._solve_rounds(task, start, monitor))
        source = task.source
        pointwise = not self._needs_pairs()
        if task.kind == "memory" and not pointwise:
            source.data.labels.require_pairs()
        classes: set[bool] = set()

        def blocks() -> Iterator[Dataset]:
            for block in source.blocks():
                if pointwise:
                    classes.update(np.unique(block.y > 0).tolist())
                yield block

        n_passes = check_n_passes(self.n_passes, self._passes(task))
        if task.kind == "stream" and n_passes > 1:
            source.require_again(f"n_passes={n_passes}")

        def solve(start: NDArray[np.float64] | None, monitor: FitMonitor) -> Solution:
            self._run = OnePassRun(
                self._learner(
                    source.n_features, task.seed, start, task.steps_seen, eta0=self.eta0_
                ),
                ProgressiveMetric(self.metric),
                int(self.shuffle_buffer),
                self.max_nonzero,
                monitor.callbacks,
                monitor.checkpointer,
            )
            if task.kind == "memory":
                for block in blocks():
                    reason = self._run.learn_dataset(block, source.query_weight, n_passes)
            else:
                reason = self._run.learn_stream(blocks, source.weights, n_passes)
            return self._solution(reason)

        result = task.run(solve)
        # What goes on in instalments is neither watched nor kept.
        self._run.callbacks, self._run.checkpointer = (), None
        if task.kind == "stream":
            self._note(source)
        stopped = result.solution.stop_reason in ("callback", "early_stopping")
        if self._run.learner.lists_used == 0 and not stopped:
            raise no_learnable_lists(self._objective().name)
        self._require_classes(classes)
        return result

    def _require_classes(self, classes: set[bool]) -> None:
        """Refuse one class (labels above 0, or not) where classes are what is learned."""
        if not self._needs_pairs() and self.loss != "squared" and len(classes) == 1:
            side = "above 0" if True in classes else "0 or below"
            raise NoPairsError(
                f"all labels are {side}: objective='pointwise' tells these two classes apart",
                fix="Give relevant rows labels above 0 and others 0, or use loss='squared'",
            )

    def _solve_rounds(
        self, task: FitTask, start: NDArray[np.float64] | None, monitor: FitMonitor
    ) -> Solution:
        """A pass over every partition, the mean of their weights, and so on."""
        from rankine.distributed.partition_tasks import (
            PASSES,
            ListPassTask,
            RawRowsTask,
            average_lists,
        )

        self.__dict__.pop("_run", None)
        if not self._needs_pairs():
            ranges = task.source.worker_pool(RawRowsTask()).each("label_range")
            self._require_classes({label > 0 for low, high, _ in ranges for label in (low, high)})
        recipe = ListPassTask(
            self.solver,
            self._update_options(self.eta0_),
            self._objective(),
            int(self.batch_lists),
            self.metric,
            task.seed,
            task.source.measured.queries,
            task.scaling,
        )
        passes = check_n_passes(self.n_passes, PASSES)
        solution = average_lists(
            task.source, recipe, passes, start, self.max_nonzero, monitor.callbacks
        )
        self.progressive_ = float(solution.extra["progressive"])
        return solution

    def _learn_more(self, task: FitTask) -> FitResult:
        """Learn from the lists of a block, in order."""
        source = task.source
        if not hasattr(self, "_run"):
            start = task.scaling.unfold(self.coef_) if hasattr(self, "coef_") else None
            steps = int(getattr(self, "n_iter_", 0))
            if not hasattr(self, "eta0_"):
                self.eta0_ = self._step(task)
            learner = self._learner(source.n_features, task.seed, start, steps, self.eta0_)
            self._run = OnePassRun(
                learner, ProgressiveMetric(self.metric), max_nonzero=self.max_nonzero
            )
        order = np.arange(source.data.n_queries)
        self._run.learn_block(source.data, order, source.query_weight)
        self._note(source)
        return FitResult([self._solution("partial")], [[]])

    @property
    def _adaptive(self) -> bool:
        return self.solver == "rda" if self.adaptive is None else bool(self.adaptive)

    def _passes(self, task: FitTask) -> int:
        """Passes where none are asked for."""
        if task.kind != "memory":
            return 1
        return min(MOST_PASSES, -(-ENOUGH_LISTS // task.source.data.n_queries))

    @property
    def _usual_step(self) -> float:
        """The step size as asked for, or where nothing is known of the lists."""
        if self.eta0 is not None:
            return float(self.eta0)
        return USUAL_STEP if self._adaptive else 1.0

    def _objective(self) -> ListObjective:
        return parse_objective(
            self.objective,
            loss=self.loss,
            margin=self.margin,
            delta=self.delta,
        )

    def _update_options(self, eta0: float | None = None) -> dict[str, Any]:
        """What the update of the solver is made from."""
        names = (name for name in UpdateOptions._fields if name != "started")
        given = {name: getattr(self, name) for name in names}
        step = self._usual_step if eta0 is None else eta0
        return {**given, "adaptive": self._adaptive, "eta0": step}

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

    def _note(self, source: Any) -> None:
        """What the run has seen so far, in all its passes and instalments."""
        run = self._run
        source.record_counts(
            rows=run.rows_seen,
            queries=run.learner.lists_seen,
            queries_used=run.learner.lists_used,
        )

    def _solution(self, reason: str) -> Solution:
        learner, progressive = self._run.learner, self._run.progressive
        coef = self._run.coef()
        self.progressive_ = progressive.value
        certificate, extra = {"progressive_loss": learner.mean_loss}, {}
        if progressive.label_error is None:
            certificate[progressive.name] = progressive.value
        else:
            extra["progressive"] = progressive.label_error
        return Solution(
            coef,
            float("nan"),
            certificate,
            learner.steps,
            self._run.trace,
            reason,
            {"story": progressive.to_records(), **extra},
        )

    # ------------------------------------------------------------------ models of every size
    def path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        eval_set: Any = None,
        eval_qid: ArrayLike | None = None,
        eval_group: ArrayLike | None = None,
        solvers: Sequence[str] = ("rda", "fobos", "psgd"),
        n_steps: int = 10,
        min_ratio: float = 1e-3,
        max_nonzero: int | None = None,
        max_latency: float | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> ElasticPath:
        """Models of every size by several solvers, in one reading (the paper's figure 3).

        Parameters
        ----------
        X, y, qid, group
            Data as for ``fit``, or a stream such as ``rankine.scan(...)``.
        eval_set, eval_qid, eval_group
            Evaluation data for ``metric``.
        solvers, n_steps, min_ratio
            For each solver ``n_steps`` strengths (``l1``; ``theta`` for PSGD), geometric, from
            one that leaves about no weight down to ``min_ratio`` times it.
        max_nonzero, max_latency
            Leave out larger models; bound what ``best`` chooses by the measured milliseconds to
            score an item.
        """
        check_steps(n_steps, min_ratio)
        reject_sets(solvers=solvers)
        for solver in solvers:
            check_choice("solvers", solver, tuple(UPDATES))
        if max_latency is not None:
            check_positive("max_latency", max_latency)
        task = self._task(
            X,
            y,
            act="path",
            qid=qid,
            group=group,
            eval_set=eval_set,
            eval_qid=eval_qid,
            eval_group=eval_group,
            callbacks=callbacks,
        )
        members: list[_Member] = []
        sample: Dataset | None = None
        source = task.source
        blocks = source.data.blocks() if task.kind == "memory" else source.blocks()
        for block in read_ahead(blocks):
            if sample is None:
                sample = block.take_queries(np.arange(min(block.n_queries, LOOK_AHEAD)))
                members = self._members(task, sample, solvers, n_steps, min_ratio)
            for member in members:
                member.learn(block)
            learner = members[0].learner
            if notify(callbacks, Progress("path", learner.lists_seen, None, {}, learner.coef)):
                break
        if sample is None:
            raise ParameterError("the data holds no lists", fix="Check the path")
        small = [m for m in members if max_nonzero is None or m.nonzeros <= max_nonzero]
        judged = sample if task.evaluator is None else task.evaluator.data
        return ElasticPath.collect(
            [m.step(task) for m in small],
            task,
            metric=self.metric,
            names=getattr(self, "feature_names_in_", None),
            parameters={"ranker": self.system, **json_parameters(self)},
            solvers=tuple(m.solver for m in small),
            latency=np.array([scoring_latency(m.coef, judged) for m in small]),
            max_latency=max_latency,
        )

    def _members(
        self, task: FitTask, sample: Dataset, solvers: Sequence[str], n_steps: int, min_ratio: float
    ) -> list[_Member]:
        """A learner for each solver and strength; the first lists tell where the grids begin."""
        members = []
        for solver in solvers:
            top = self._largest(task, sample, solver)
            for strength in np.geomspace(top, top * min_ratio, n_steps):
                options = {"theta" if solver == "psgd" else "l1": strength}
                learner = self._variant(task, solver, **options)
                members.append(_Member(solver, float(strength), learner))
        return members

    def _largest(self, task: FitTask, sample: Dataset, solver: str) -> float:
        """Strength that leaves about no weight: the largest mean gradient, or weight for PSGD."""
        if solver == "psgd":
            probe = self._variant(task, "psgd", theta=0.0)
            probe.learn(sample)
            return max(float(np.abs(probe.coef()).max(initial=0.0)), LEAST)
        # With steps of almost nothing the weights stay 0, and RDA's state is the sum of gradients.
        still = self._variant(task, "rda", l1=0.0, eta0=STILL)
        still.learn(sample)
        mean = float(np.abs(still.state[:-1, 0]).max(initial=0.0)) / max(still.steps, 1)
        return max(mean * STRONGER[solver], LEAST)

    def _variant(self, task: FitTask, solver: str, **options: Any) -> OnePassLearner:
        """A learner of the same ranker with another solver."""
        adaptive = self._adaptive and solver == "rda"
        other = clone(self).set_params(solver=solver, adaptive=adaptive, **options)
        return ElasticRanker._learner(other, task.source.n_features, task.seed)


@dataclass(eq=False)
class _Member:
    """One learner of a path."""

    solver: str
    strength: float
    learner: OnePassLearner
    seconds: float = 0.0

    def learn(self, block: Dataset) -> None:
        started = time.perf_counter()
        self.learner.learn(block)
        self.seconds += time.perf_counter() - started

    def step(self, task: FitTask) -> Step:
        value = math.nan if task.evaluator is None else task.evaluator.value(self.coef)
        return Step(self.strength, self.learner.mean_loss, self.coef, self.seconds, value)

    @property
    def coef(self) -> NDArray[np.float64]:
        return self.learner.coef()

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.coef))
