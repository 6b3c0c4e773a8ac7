"""ElasticRank: one pass over lists of any number, sparse weights (Freno et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from rankine.core.errors import ParameterError
from rankine.data.dataset import Dataset
from rankine.kernels.random import permutation, stream_seed
from rankine.rankers.base import BaseRanker, Job, resolve_seed
from rankine.rankers.checks import count_passes
from rankine.rankers.elastic_specs import SOLVERS, solver_spec
from rankine.rankers.list_objectives import LOSSES, ListObjective, objectives, parse_objective
from rankine.rankers.search_space import SCALE, Choice, Number
from rankine.solvers.base import Callback, Solution, require_finite
from rankine.solvers.one_pass import OnePassLearner
from rankine.solvers.one_pass_run import OnePassRun
from rankine.solvers.progressive import Progressive

if TYPE_CHECKING:
    from rankine.rankers.elastic_path import ElasticPath
    from rankine.rankers.parts_job import PartsJob

__all__ = ["ElasticRanker"]

#: Reports of a pass in memory.
REPORTS = 20


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
        Step size eta0 / t^power; for RDA beta_t = t^power / eta0.
    adaptive
        RDA with a step size per weight, beta = (1 + root of the weight's summed squared gradients)
        / eta0: better where features differ much in frequency, such as hashed categories
        (``eta0`` around 0.2).
    l1, l2
        Weights of the penalties. RDA compares ``l1`` with the mean gradient, FOBOS and TGD with
        the step; the same value prunes differently.
    theta, prune_every
        Threshold (None: 0.02 for PSGD, no threshold for TGD) and the steps between prunings.
    margin
        Margin of the hinge.
    n_passes
        How often to go through the lists. None: once, and ten times over partitions, whose weights
        are averaged after each pass.
    batch_lists
        Lists a step; their gradients are averaged.
    shuffle_buffer
        Streams: lists that are read ahead and shuffled; 0 keeps the order of the file. ``fit``
        always takes the lists in seeded random order.
    max_nonzero
        Keep at most this many weights: with RDA those that a larger ``l1`` would drop last (by
        the sum of gradients, so frequent features stay), else the largest.
    propensity
        Probability that a user looks at position 1, 2, ...: a sequence (the last value holds for
        all positions beyond it), such as ``estimate_propensity`` gives. A relevant item then weighs
        1 / propensity of the ``position`` it was shown at, at most ``max_weight``.
    metric, scale, early_stopping, warm_start, random_state
        As for every ranker. Each list is scored with ``metric`` before it is learned from
        (``progressive_``). Streams know the scales "none" and "query".

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
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
    [0.22, -0.22]
    """

    _system: ClassVar[str] = "elastic"
    letor_grid: ClassVar[dict[str, list[Any]]] = {
        "solver": ["rda", "fobos"],
        "objective": ["ndcg", "ndcg@10", "map", "pairwise"],
        "eta0": [0.01, 0.1, 1.0],
    }
    #: What tuning searches: the space of the paper, the step size and the scale.
    search_space: ClassVar[dict[str, Choice | Number]] = {
        "solver": Choice(lambda: tuple(SOLVERS)),
        "loss": Choice(lambda: tuple(LOSSES)),
        "objective": Choice(objectives),
        "eta0": Number(1e-2, 1e2, log=True),
        "l1": Number(1e-6, 1e-1, log=True, unless={"solver": ("psgd",)}),
        "theta": Number(1e-6, 1e-1, log=True, when={"solver": ("psgd",)}),
        "l2": Number(1e-6, 1.0, log=True, unless={"solver": ("tgd",)}),
        "scale": SCALE,
    }

    def __init__(
        self,
        *,
        solver: str = "rda",
        loss: str = "logistic",
        objective: str = "ndcg",
        delta: str = "model",
        eta0: float = 1.0,
        power: float = 0.5,
        adaptive: bool = False,
        l1: float = 1e-3,
        l2: float = 1e-3,
        theta: float | None = None,
        prune_every: int = 100,
        margin: float = 1.0,
        n_passes: int | None = None,
        batch_lists: int = 1,
        shuffle_buffer: int = 0,
        max_nonzero: int | None = None,
        propensity: Sequence[float] | None = None,
        max_weight: float = 10.0,
        metric: str = "ndcg@10",
        scale: str = "none",
        early_stopping: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.solver = solver
        self.loss = loss
        self.objective = objective
        self.delta = delta
        self.eta0 = eta0
        self.power = power
        self.adaptive = adaptive
        self.l1 = l1
        self.l2 = l2
        self.theta = theta
        self.prune_every = prune_every
        self.margin = margin
        self.n_passes = n_passes
        self.batch_lists = batch_lists
        self.shuffle_buffer = shuffle_buffer
        self.max_nonzero = max_nonzero
        self.propensity = propensity
        self.max_weight = max_weight
        self.metric = metric
        self.scale = scale
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.random_state = random_state

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: Any = None,
    ) -> ElasticRanker:
        """Learn from some more lists, in the order given; steps continue where they stood."""
        from rankine.rankers.elastic_stream import learn_more

        learn_more(self, self._next_block(X, y, qid, group, sample_weight), query_weight)
        return self

    def fit_stream(
        self,
        scan: Any,
        *,
        eval_set: Any = None,
        eval_qid: ArrayLike | None = None,
        coef_init: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | None = None,
        every: int = 100_000,
        resume: bool = False,
    ) -> ElasticRanker:
        """Learn from blocks of lists that need not fit in memory.

        Reading and learning overlap. The result depends on the sequence of lists alone, not on
        how it is cut into blocks.

        Parameters
        ----------
        scan
            ``rankine.scan(...)``, or any re-iterable of query-aligned ``Dataset`` blocks of one
            width.
        eval_set, eval_qid, callbacks
            As for ``fit``; a report comes after every block.
        coef_init
            Weights, or a ``LinearModel``, to start from: yesterday's model on today's log. A model
            that was trained by this ranker also hands on its number of steps.
        checkpoint, every
            Folder for checkpoints, written every so many lists; the last two are kept.
        resume
            Continue from the newest checkpoint in the folder. The finished model has the same bits
            as that of a run that was never interrupted.
        """
        from rankine.rankers.elastic_stream import fit_stream

        valid = None if eval_set is None else (eval_set, eval_qid)
        fit_stream(self, scan, valid, coef_init, callbacks, checkpoint, every, resume)
        return self

    def path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        eval_set: Any = None,
        eval_qid: ArrayLike | None = None,
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
        eval_set, eval_qid
            Evaluation data for ``metric``.
        solvers, n_steps, min_ratio
            For each solver ``n_steps`` strengths (``l1``; ``theta`` for PSGD), geometric, from
            one that leaves about no weight down to ``min_ratio`` times it.
        max_nonzero, max_latency
            Leave out larger models; bound what ``best`` chooses by the measured milliseconds to
            score an item.
        """
        from rankine.rankers.elastic_path import elastic_path
        from rankine.rankers.elastic_stream import stream_scaling

        stream = not isinstance(X, Dataset) and hasattr(X, "n_features")
        data: Any = X if stream else self._dataset(X, y, qid, group, None, reset=True)
        scaling = stream_scaling(self.scale)
        self.n_features_in_ = int(data.n_features)
        self._set_names(data.feature_names)
        valid = self._eval_data(eval_set, eval_qid)
        return elastic_path(
            self,
            data if stream else data.blocks(),
            int(data.n_features),
            resolve_seed(self.random_state),
            scaling,
            None if valid is None else scaling.apply(valid),
            solvers=solvers,
            n_steps=n_steps,
            min_ratio=min_ratio,
            max_nonzero=max_nonzero,
            max_latency=max_latency,
            feature_names=data.feature_names,
            callbacks=callbacks,
        )

    def _variant(self, solver: str, **options: Any) -> ElasticRanker:
        """The same ranker with another solver."""
        adaptive = self.adaptive and solver == "rda"
        chosen = {"solver": solver, "adaptive": adaptive, **options}
        return clone(self).set_params(**chosen)

    # ------------------------------------------------------------------ training
    def _solve(self, job: Job) -> Solution:
        if self._list_objective().name != "pointwise":
            job.data.labels.require_pairs()
        again = job.coef_init is not None and self.warm_start
        steps = int(getattr(self, "n_iter_", 0)) if again else 0
        learner = self._new_learner(job.data.n_features, job.seed, job.coef_init, steps)
        n_lists = job.data.n_queries
        every = -(-max(n_lists // REPORTS, 1) // self.batch_lists) * self.batch_lists
        run = OnePassRun(
            learner, Progressive(self.metric), callbacks=job.callbacks, report_every=every
        )
        for number in range(count_passes(self.n_passes)):
            order = permutation(stream_seed(job.seed, 1, *([number] if number else [])), n_lists)
            if run.learn_block(job.data, order, job.query_weight):
                return self._solution(run, "callback")
        return self._solution(run, "passes")

    def _solve_parts(self, job: PartsJob) -> Solution:
        from rankine.rankers.averaging_fit import solve_elastic_parts

        return solve_elastic_parts(self, job)

    def _next_block(self, X: Any, y: Any, qid: Any, group: Any, sample_weight: Any) -> Dataset:
        return self._dataset(X, y, qid, group, sample_weight, reset=not hasattr(self, "_learner"))

    def _list_objective(self) -> ListObjective:
        return parse_objective(
            self.objective,
            loss=self.loss,
            margin=self.margin,
            delta=self.delta,
            propensity=self.propensity,
            max_weight=self.max_weight,
        )

    def _new_learner(
        self, n_features: int, seed: int, start: NDArray[np.float64] | None, offset: int = 0
    ) -> OnePassLearner:
        if self.batch_lists < 1 or self.shuffle_buffer < 0:
            raise ParameterError(
                "batch_lists must be >= 1 and shuffle_buffer >= 0", fix="Use 1 and 0"
            )
        if self.max_nonzero is not None and self.max_nonzero < 1:
            raise ParameterError("max_nonzero must be at least 1", fix="Use None to keep all")
        spec = solver_spec(
            self.solver,
            eta0=self.eta0,
            power=self.power,
            l1=self.l1,
            l2=self.l2,
            theta=self.theta,
            prune_every=self.prune_every,
            adaptive=self.adaptive,
            started=start is not None,
        )
        return OnePassLearner(
            spec,
            self._list_objective(),
            n_features,
            int(self.batch_lists),
            seed,
            start,
            offset,
        )

    def _solution(self, run: OnePassRun, reason: str) -> Solution:
        learner = run.learner
        coef = learner.coef()
        require_finite(coef, learner.steps, "one-pass learning")
        self._learner, self._progressive, self._rows_seen = learner, run.progressive, run.rows_seen
        self.progressive_ = run.progressive.value
        certificate = {"progressive_loss": learner.mean_loss}
        if run.progressive.unfit is None:
            certificate[run.progressive.name] = run.progressive.value
        unfit = {} if run.progressive.unfit is None else {"progressive": run.progressive.unfit}
        return Solution(
            coef if self.max_nonzero is None else learner.largest(self.max_nonzero),
            float("nan"),
            certificate,
            learner.steps,
            run.trace,
            reason,
            {"story": run.progressive.story(), **unfit},
        )
