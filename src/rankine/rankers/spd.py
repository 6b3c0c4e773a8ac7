"""Stochastic pairwise descent as an estimator (Sculley, "Large Scale Learning to Rank", 2009)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankine.core.checks import (
    check_choice,
    check_count,
    check_n_passes,
    check_not_negative,
    check_positive,
)
from rankine.core.errors import NoPairsError, ParameterError
from rankine.data.dataset import Dataset, row_scores
from rankine.data.progress import read_ahead
from rankine.kernels.random import resolve_seed
from rankine.losses import pair_loss_names, pair_loss_spec
from rankine.losses.all_pairs import MEAN_OF_SAMPLING, MeanPairLoss
from rankine.rankers.base import BaseRanker
from rankine.rankers.fitting import Evaluator, FitMonitor, FitResult, FitTask
from rankine.rankers.registry import SCALE, Choice, Number
from rankine.rankers.sources import SOURCES, Capabilities, source_kind
from rankine.samplers.draw import SAMPLINGS, pair_sampler, query_shares, stream_spans
from rankine.samplers.reservoir import Reservoir
from rankine.solvers.base import Solution
from rankine.solvers.pair_sgd import PairPlan, Span, require_weights, run_phase, solve_pairs
from rankine.solvers.pair_steps import (
    PassiveAggressiveStep,
    PerceptronStep,
    RommaStep,
    ScaledVector,
    average_iterate,
    gradient_step,
    new_vector,
)

SOLVERS = (
    "pegasos",
    "sgd_svm",
    "passive_aggressive",
    "romma",
    "logistic",
    "hybrid",
    "perceptron",
    "margin_perceptron",
)
#: Solvers without a loss of their own choice, and those without a step for tied pairs.
_OWN_LOSS = ("passive_aggressive", "romma", "logistic", "hybrid", "perceptron", "margin_perceptron")
_NO_TIES = ("romma", "perceptron", "margin_perceptron")
#: Reports spread over a run: enough for a progress bar and early stopping.
REPORTS = 20


@dataclass(eq=False, repr=False)
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
    loss
        Pair loss of ``"pegasos"`` and ``"sgd_svm"``: any registered one; None is the hinge.
    sampling
        ``"query"``: a uniform query, then a uniform pair of it (mean over queries of the mean over
        their pairs). ``"uniform"``: every pair equally likely. ``"indexed"``: the paper's, a
        uniform query, two uniform labels, a uniform row of each. ``"rejection"``: two uniform
        rows, kept if they form a pair; needs no index, and draws as ``"uniform"`` does.
        ``"reservoir"``: for streams that are read once and need not be grouped; whole lists of
        random queries are kept in a buffer, and drawn from as ``"query"`` does. Weights of rows
        and queries are probabilities, in memory as in a stream.
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
        partitions, whose weights are averaged after each. Rows in memory are drawn from all at
        once, and know no passes.
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
    buffer_rows
        Rows that ``"reservoir"`` keeps, up to an eighth more so that the last list is whole.
    propensity, max_weight, position_offset
        Learning from clicks, as for every ranker.
    metric, scale, early_stopping, warm_start, random_state
        See ``BaseRanker``. A warm start continues the step counter. In a stream every query owns
        a fixed range of steps, by its share of the objective (counted in a first reading), which
        are taken when it passes by.

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

    solver: str = "pegasos"
    _: KW_ONLY
    loss: str | None = None
    sampling: str = "query"
    ties: str = "skip"
    l2: float = 3e-3
    aggressiveness: float = 0.01
    schedule: str = "pegasos"
    schedule_c: float = 10.0
    n_steps: int = 100_000
    n_passes: int | None = None
    average: bool = True
    norm_guard: bool = True
    margin: float = 1.0
    hybrid_second: str = "pegasos"
    hybrid_steps: int | None = None
    record_at: Sequence[int] | None = None
    max_trials: int = 1_000_000
    buffer_rows: int = 100_000

    system = "spd"
    capabilities = Capabilities(
        fit=("memory", "stream", "partitions"),
        checkpoint=("memory", "stream", "partitions"),
        query_weight=("memory", "stream"),
        record_at=("memory", "stream"),
        partial=True,
        comparisons="draws comparisons as it draws pairs; weights and ties need sampling='uniform'",
    )
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

    def _check(self) -> None:
        check_choice("solver", self.solver, SOLVERS)
        check_choice("sampling", self.sampling, (*SAMPLINGS, "reservoir"))
        check_choice("ties", self.ties, ("skip", "zero"))
        check_choice("schedule", self.schedule, ("pegasos", "inverse"))
        check_choice("hybrid_second", self.hybrid_second, ("pegasos", "sgd_svm"))
        for name in ("l2", "aggressiveness", "schedule_c"):
            check_positive(name, getattr(self, name))
        check_not_negative("margin", self.margin)
        for name in ("n_steps", "max_trials", "buffer_rows"):
            check_count(name, getattr(self, name))
        check_n_passes(self.n_passes)
        if self.sampling == "reservoir" and self.n_passes is not None:
            raise ParameterError(
                "sampling='reservoir' reads a stream once, and all steps follow",
                fix="Leave out n_passes",
            )
        if self.loss is not None:
            check_choice("loss", self.loss, pair_loss_names())
            if self.solver in _OWN_LOSS:
                raise ParameterError(
                    f"solver={self.solver!r} has a loss of its own", fix="Leave out loss"
                )
        if self.ties == "zero" and self.sampling == "indexed":
            raise ParameterError(
                "sampling='indexed' draws two different labels, so ties='zero' has no effect there",
                fix="Use sampling='query', 'uniform' or 'rejection'",
            )
        if self.ties == "zero" and self.solver in _NO_TIES:
            raise ParameterError(
                f"solver={self.solver!r} has no step for tied pairs",
                fix="Use ties='skip', or a solver with a loss",
            )

    @property
    def _drawn_as(self) -> str:
        """How pairs are drawn from the rows that there are."""
        return "query" if self.sampling == "reservoir" else self.sampling

    def _weighs_lists(self) -> bool:
        return self.sampling in ("uniform", "rejection")

    def _divisor(self) -> str:
        if self._weighs_lists():
            return ""
        return "ties" if self.ties == "zero" else "pairs"

    # ------------------------------------------------------------------ a sample of a stream
    def _loaded(self, X: Any, act: str) -> Any:
        """For a reservoir the rows that it keeps of a stream."""
        X = super()._loaded(X, act)
        if self.sampling != "reservoir":
            return X
        kind = source_kind(X)
        if kind != "stream":
            raise ParameterError(
                f"sampling='reservoir' is a sample of a stream, and these are {SOURCES[kind][0]}",
                fix="Use sampling='query', which draws from all of them, or rankine.scan(...)",
            )
        self._reservoir = self._new_reservoir()
        # As the rows come: their queries may be cut, and may come back.
        for block in getattr(X, "raw_blocks", X.__iter__)():
            self._reservoir.add(block)
        return self._sampled()

    def _source(self, kind: str, *given: Any) -> Any:
        self._require_names(given[-1])
        return super()._source(kind, *given)

    def _require_names(self, query_weight: Any) -> None:
        """Weights in the order of queries do not fit the queries that a sample keeps."""
        if self.sampling == "reservoir" and not isinstance(query_weight, Mapping | None):
            raise ParameterError(
                "sampling='reservoir' keeps some queries of many, and query_weight names none",
                fix="Pass a mapping from query id to weight",
            )

    def _gathered(self, data: Dataset, query_weight: Any) -> Dataset:
        if self.sampling != "reservoir":
            return data
        self._require_names(query_weight)
        if not hasattr(self, "_reservoir"):
            self._reservoir = self._new_reservoir()
        self._reservoir.add(data)
        return self._sampled()

    def _new_reservoir(self) -> Reservoir:
        seed = 0 if self.random_state is None else resolve_seed(self.random_state)
        return Reservoir(int(self.buffer_rows), seed)

    def _sampled(self) -> Dataset:
        data, cut = self._reservoir.sample()
        if cut and (self.scale == "query" or self.missing == "query_min"):
            raise ParameterError(
                "lists are longer than their share of the buffer, and a part of a list has "
                "another range than the whole",
                fix=f"Raise buffer_rows={self.buffer_rows}, or leave out scale and missing by list",
            )
        return data

    def _solve(self, task: FitTask) -> FitResult:
        self._vector: ScaledVector | None = None
        if self.record_at:
            self.capabilities.require("record_at", task.kind, type(self).__name__)
        if task.kind == "partitions":
            return task.run(lambda start, monitor: self._solve_rounds(task, start, monitor))
        taken = task.steps_seen
        spans = self._spans_of_rows if task.kind == "memory" else self._spans_of_stream
        drawn = spans(task.source, taken)
        phases = self.plan().phases(int(self.n_steps), taken, warm=task.start is not None)
        reports = {taken + self.n_steps * k // REPORTS for k in range(1, REPORTS + 1)}
        result = task.run(
            lambda start, monitor: solve_pairs(
                drawn,
                phases,
                np.zeros(task.source.n_features) if start is None else start,
                task.seed,
                report_at=sorted(reports.union(self.record_at or ())),
                record=self._recorder(task.source, task.evaluator) if self.record_at else None,
                callbacks=monitor.callbacks,
                checkpointer=monitor.checkpointer,
            )
        )
        self.record_ = [dict(row) for row in result.solution.trace]
        return self._told(result)

    def _told(self, result: FitResult) -> FitResult:
        """What came out, with the length of the stream that the rows are a sample of."""
        if self.sampling != "reservoir":
            return result
        return result.with_parameters(stream_rows=self._reservoir.seen)

    def _solve_rounds(
        self, task: FitTask, start: NDArray[np.float64] | None, monitor: FitMonitor
    ) -> Solution:
        """Steps on every partition by its share, the mean of their weights, and so on."""
        from rankine.distributed.partition_tasks import PASSES, PairPassTask, average_pairs

        self.record_ = []
        recipe = PairPassTask(
            self.plan(),
            int(self.n_steps),
            check_n_passes(self.n_passes, PASSES),
            self.sampling,
            self.ties == "zero",
            int(self.max_trials),
            task.seed,
            task.scaling,
        )
        return average_pairs(task.source, recipe, start, monitor.callbacks)

    def _learn_more(self, task: FitTask) -> FitResult:
        """Take ``n_steps`` more steps on these rows; averaging goes on from the first call's."""
        taken = int(getattr(self, "n_iter_", 0))
        w: ScaledVector | None = getattr(self, "_vector", None)
        if w is None:
            before = task.scaling.unfold(self.coef_) if taken else np.zeros(task.source.n_features)
            w = self._vector = new_vector(before)
            self._seed = task.seed
            self._average_from = taken + self.n_steps // 2
        (span,) = self._spans_of_rows(task.source, taken)
        for phase in self.plan().phases(int(self.n_steps), taken, warm=False):
            counted = replace(
                phase, average_from=self._average_from if self.average else phase.stop
            )
            run_phase(span.rows, span.sampler, counted, w, self._seed, (phase.start, phase.stop))
        coef = average_iterate(w)
        require_weights(coef, span.stop)
        return self._told(
            FitResult([Solution(coef, float("nan"), {}, span.stop, (), "steps")], [[]])
        )

    # ------------------------------------------------------------------ from parameters to specs
    def plan(self) -> PairPlan:
        """The steps of a run, whatever its length."""
        warm_step = math.ceil(1.0 / (self.l2 * self.aggressiveness))
        if self.solver != "hybrid":
            return PairPlan(self._step(self.solver), None, None, warm_step, bool(self.average))
        first, second = self._step("passive_aggressive"), self._step(self.hybrid_second)
        return PairPlan(first, second, self.hybrid_steps, warm_step, bool(self.average))

    def _step(self, name: str) -> Any:
        inverse = float(self.schedule_c) if self.schedule == "inverse" else 0.0
        l2 = float(self.l2)
        if name in ("pegasos", "sgd_svm", "logistic"):
            return gradient_step(self._loss(), l2, project=name == "pegasos", inverse=inverse)
        if name == "passive_aggressive":
            return PassiveAggressiveStep(float(self.aggressiveness))
        if name == "romma":
            return RommaStep(1.0 / l2 if self.norm_guard else math.inf)
        return PerceptronStep(0.0 if name == "perceptron" else float(self.margin))

    def _loss(self) -> Any:
        """The pair loss of the objective; that of solvers without one is taken to be the hinge."""
        return pair_loss_spec(
            "logistic" if self.solver == "logistic" else self.loss or "hinge", 1.0
        )

    # ------------------------------------------------------------------ which pairs are drawn
    def _spans_of_rows(self, source: Any, taken: int) -> list[Span]:
        """All steps from all rows."""
        if self.n_passes is not None:
            raise ParameterError(
                "n_passes are readings of a stream or of partitions, and these are rows in memory",
                fix="Leave out n_passes; n_steps says how long to learn",
            )
        data = source.data
        data.labels.require_pairs()
        sampler = pair_sampler(
            data,
            source.query_weight,
            sampling=self._drawn_as,
            ties=self.ties == "zero",
            max_trials=int(self.max_trials),
        )
        return [Span(data.rows, sampler, taken + int(self.n_steps))]

    def _spans_of_stream(self, source: Any, taken: int) -> Iterator[Span]:
        """Every query's range of steps, from its share of the objective."""
        source.require_again("its queries must be counted first")
        drawn = stream_spans(
            lambda: _weighed(source),
            self._count(source),
            self.n_steps,
            sampling=self.sampling,
            ties=self.ties == "zero",
            taken=taken,
            n_passes=check_n_passes(self.n_passes),
        )
        return (Span(block.rows, sampler, end) for block, sampler, end in drawn)

    def _count(self, source: Any) -> float:
        """First reading: the sum of shares; what was seen is noted."""
        total, ties = 0.0, self.ties == "zero"
        seen = dict.fromkeys(("rows", "queries", "queries_used", "pairs"), 0)
        for block, weight in _weighed(source):
            shares = query_shares(block, weight, sampling=self.sampling, ties=ties)
            total = float(np.cumsum(np.concatenate([[total], shares]))[-1])
            seen["rows"] += block.n_rows
            seen["queries"] += block.n_queries
            seen["queries_used"] += int((shares > 0).sum())
            seen["pairs"] += block.labels.n_pairs
        if total <= 0:
            raise NoPairsError(
                "no query of the stream holds a pair of positive weight",
                fix="Check labels and weights; a query needs a better and a worse row",
            )
        source.record_counts(**seen)
        return total

    # ------------------------------------------------------------------ the objective on the way
    def _recorder(
        self, source: Any, evaluator: Evaluator | None
    ) -> Callable[[int, NDArray[np.float64]], dict[str, float]]:
        """The exact objective at the steps of ``record_at`` (Sculley 2009, figure 2)."""
        steps = {int(step) for step in self.record_at or ()}

        def record(step: int, coef: NDArray[np.float64]) -> dict[str, float]:
            if step not in steps:
                return {}
            mean, first = MeanPairLoss(self._loss(), MEAN_OF_SAMPLING[self._drawn_as]), 0
            for block in source.blocks():
                mean.add(block, row_scores(block.X, coef), source.weights(block, first))
                first += block.n_queries
            penalty = 0.5 * self.l2 * float(coef @ coef)
            values = {"objective": penalty + mean.value}
            if evaluator is not None:
                held, data = (
                    MeanPairLoss(self._loss(), MEAN_OF_SAMPLING[self._drawn_as]),
                    evaluator.data,
                )
                held.add(data, row_scores(data.X, coef[: data.n_features]), np.ones(data.n_queries))
                values["eval_objective"] = penalty + held.value
            return values

        return record


def _weighed(source: Any) -> Iterator[tuple[Dataset, NDArray[np.float64]]]:
    """Blocks with the weights of their queries."""
    first = 0
    for block in read_ahead(source.blocks()):
        yield block, source.weights(block, first)
        first += block.n_queries
