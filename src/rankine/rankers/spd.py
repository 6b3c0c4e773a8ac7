"""Stochastic pairwise descent as an estimator (Sculley, "Large Scale Learning to Rank", 2009)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
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
from rankine.data.streams import LabelledStream
from rankine.kernels.random import resolve_seed
from rankine.losses import pair_loss_names, pair_loss_spec
from rankine.losses.all_pairs import MEAN_OF_SAMPLING, MeanPairLoss
from rankine.rankers.base import BaseRanker
from rankine.rankers.capabilities import SOURCE_KINDS, Capabilities
from rankine.rankers.clicks import QueryDivisor
from rankine.rankers.fitting import Evaluator, FitMonitor, FitResult, FitTask
from rankine.rankers.registry import SCALE, Choice, Condition, Number
from rankine.rankers.sources import (
    MemorySource,
    PartitionSource,
    StreamSource,
    TrainingSource,
    classify,
)
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
#: Solvers whose loss cannot be chosen, and those without a step for tied pairs.
_FIXED_LOSS = (
    "passive_aggressive",
    "romma",
    "logistic",
    "hybrid",
    "perceptron",
    "margin_perceptron",
)
_NO_TIES = ("romma", "perceptron", "margin_perceptron")


def _without(*solvers: str) -> tuple[str, ...]:
    """Return the solvers but some."""
    return tuple(name for name in SOLVERS if name not in solvers)


#: Reports spread over a run: enough for a progress bar and early stopping.
REPORTS = 20


@dataclass(eq=False, repr=False)
class SPDRanker(BaseRanker):
    """Linear ranker trained on randomly drawn pairs; training time does not grow with the data.

    Minimises ``l2/2 |w|^2 + mean over pairs of loss(<w, x_a - x_b>)`` where a is preferred to b,
    where ``sampling`` defines the mean, by taking ``n_steps`` steps on one drawn pair each
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
    schedule, schedule_c
        ``"pegasos"``: eta = 1 / (l2 i). ``"inverse"``: eta = c / (c + i), c = ``schedule_c``.
    n_steps
        Number of steps.
    n_passes
        Streams and partitions: readings over which the steps are spread. None: one, and ten over
        partitions, whose weights are averaged after each. Not available for rows in memory, which
        are drawn from all at once.
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
        Learn from clicks, see ``BaseRanker``.
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
    no_effect_with: ClassVar[Mapping[str, Condition]] = {
        # The recorded objective has the penalty, whatever the solver does.
        "l2": {
            "solver": ("passive_aggressive", "perceptron", "margin_perceptron"),
            "record_at": (None, 0),
        },
        "aggressiveness": {"solver": _without("passive_aggressive", "hybrid")},
        "schedule": {"solver": ("passive_aggressive", "romma", "perceptron", "margin_perceptron")},
        "schedule_c": {"schedule": ("pegasos",)},
        "norm_guard": {"solver": _without("romma")},
        "margin": {"solver": _without("margin_perceptron")},
        "hybrid_second": {"solver": _without("hybrid")},
        "hybrid_steps": {"solver": _without("hybrid")},
        "max_trials": {"sampling": ("query", "uniform", "indexed", "reservoir")},
        "buffer_rows": {"sampling": SAMPLINGS},
    }
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
                "sampling='reservoir' reads a stream once, before all steps",
                parameter="n_passes",
                fix="Leave it out",
            )
        if self.loss is not None:
            check_choice("loss", self.loss, pair_loss_names())
            if self.solver in _FIXED_LOSS:
                raise ParameterError(
                    f"solver={self.solver!r} has a fixed loss",
                    parameter="loss",
                    fix="Leave it out",
                )
        if self.ties == "zero" and self.sampling == "indexed":
            raise ParameterError(
                "sampling='indexed' draws two different labels, so 'zero' has no effect",
                parameter="ties",
                fix="Use sampling='query', 'uniform' or 'rejection'",
            )
        if self.ties == "zero" and self.solver in _NO_TIES:
            raise ParameterError(
                f"solver={self.solver!r} has no step for tied pairs",
                parameter="ties",
                fix="Use 'skip', or a solver with a loss",
            )

    @property
    def _pair_distribution(self) -> str:
        """How pairs are drawn from the rows in memory, or from those in the reservoir."""
        return "query" if self.sampling == "reservoir" else self.sampling

    def _weighs_lists(self) -> bool:
        return self.sampling in ("uniform", "rejection")

    def _divisor(self) -> QueryDivisor:
        if self._weighs_lists():
            return QueryDivisor.NOTHING
        return QueryDivisor.PAIRS_AND_TIES if self.ties == "zero" else QueryDivisor.PAIRS

    # ------------------------------------------------------------------ a sample of a stream
    def _sample_stream(self, X: Any, query_weight: Any) -> tuple[Any, Reservoir | None]:
        if self.sampling != "reservoir":
            return X, None
        source_type = classify(X)
        if source_type is not StreamSource:
            raise ParameterError(
                f"'reservoir' samples a stream, and these are {SOURCE_KINDS[source_type.kind][0]}",
                parameter="sampling",
                fix="Use 'query', which draws from all of them, or rankine.scan(...)",
            )
        _require_weights_by_id(query_weight)
        reservoir = self._new_reservoir()
        blocks: Iterable[Dataset] = X
        if isinstance(X, LabelledStream):
            blocks = X.raw_blocks()  # queries may be cut and may come back
        for block in blocks:
            reservoir.add(block)
        return self._sampled_rows(reservoir), reservoir

    def _add_to_reservoir(
        self, data: Dataset, query_weight: Any
    ) -> tuple[Dataset, Reservoir | None]:
        if self.sampling != "reservoir":
            return data, None
        _require_weights_by_id(query_weight)
        reservoir = self._new_reservoir()
        if hasattr(self, "_reservoir"):
            reservoir = self._reservoir.copy()
        reservoir.add(data)
        return self._sampled_rows(reservoir), reservoir

    def _new_reservoir(self) -> Reservoir:
        # Without a seed the sample is still reproducible.
        seed = 0 if self.random_state is None else resolve_seed(self.random_state)
        return Reservoir(int(self.buffer_rows), seed)

    def _sampled_rows(self, reservoir: Reservoir) -> Dataset:
        data, has_cut_lists = reservoir.sample()
        if has_cut_lists and (self.scale == "query" or self.missing == "query_min"):
            raise ParameterError(
                f"lists are longer than their share of {self.buffer_rows} rows, and a part of a "
                "list has another range than the whole",
                parameter="buffer_rows",
                fix="Increase it, or do not scale or fill by list",
            )
        return data

    # ------------------------------------------------------------------ training
    def _solve(self, task: FitTask) -> FitResult:
        source = task.source
        if self.record_at:
            self.capabilities.require("record_at", source.kind, type(self).__name__)
        if isinstance(source, PartitionSource):
            result = task.run(
                lambda start, monitor: self._average_passes(task, source, start, monitor)
            )
            return result.with_attributes(record_=[], _partial_run=None)
        steps_seen = task.steps_seen
        spans: Iterable[Span]
        if isinstance(source, MemorySource):
            spans = [self._span_of_rows(source, steps_seen)]
        else:
            spans = self._spans_of_stream(source, steps_seen)
        phases = self.plan().phases(int(self.n_steps), steps_seen, warm=task.start is not None)
        # Spread evenly over the steps of this run, which follow those of earlier ones.
        reports = {steps_seen + self.n_steps * k // REPORTS for k in range(1, REPORTS + 1)}
        record = None
        if self.record_at:
            record = self._recorder(source, task.evaluator)
        result = task.run(
            lambda start, monitor: solve_pairs(
                spans,
                phases,
                np.zeros(source.n_features) if start is None else start,
                task.seed,
                report_at=sorted(reports.union(self.record_at or ())),
                record=record,
                callbacks=monitor.callbacks,
                checkpointer=monitor.checkpointer,
            )
        )
        trace = [dict(row) for row in result.solution.trace]
        result = result.with_attributes(record_=trace, _partial_run=None)
        return _with_reservoir(result, task.reservoir)

    def _average_passes(
        self,
        task: FitTask,
        source: PartitionSource,
        start: NDArray[np.float64] | None,
        monitor: FitMonitor,
    ) -> Solution:
        """Take each partition's share of the steps, average the weights, and repeat."""
        from rankine.distributed.partition_tasks import PASSES, PairPassTask, average_pairs

        pass_task = PairPassTask(
            self.plan(),
            int(self.n_steps),
            check_n_passes(self.n_passes, PASSES),
            self.sampling,
            self.ties == "zero",
            int(self.max_trials),
            task.seed,
            task.scaling,
        )
        return average_pairs(source, pass_task, start, monitor.callbacks)

    def _solve_more(self, task: FitTask) -> FitResult:
        """Take ``n_steps`` more steps; averaging starts where it did in the first call."""
        source = task.source
        assert isinstance(source, MemorySource)  # noqa: S101 - partial_fit takes rows in memory
        steps_seen = int(getattr(self, "n_iter_", 0))
        # State of the first call, None before it and after a fit. A copy, so that a call that fails
        # leaves the ranker as it was.
        run: _PartialRun | None = deepcopy(getattr(self, "_partial_run", None))
        if run is None:
            start = np.zeros(source.n_features)
            if steps_seen:
                start = task.scaling.unfold(self.coef_)
            run = _PartialRun(new_vector(start), task.seed, steps_seen + self.n_steps // 2)
        span = self._span_of_rows(source, steps_seen)
        for phase in self.plan().phases(int(self.n_steps), steps_seen, warm=False):
            # Later calls extend the average of the first instead of starting a new one.
            average_from = run.average_from if self.average else phase.stop
            run_phase(
                span.rows,
                span.sampler,
                replace(phase, average_from=average_from),
                run.vector,
                run.seed,
                (phase.start, phase.stop),
            )
        coef = average_iterate(run.vector)
        require_weights(coef, span.stop)
        solution = Solution(coef, float("nan"), {}, span.stop, (), "steps")
        result = FitResult([solution], [[]]).with_attributes(_partial_run=run)
        return _with_reservoir(result, task.reservoir)

    # ------------------------------------------------------------------ from parameters to specs
    def plan(self) -> PairPlan:
        """Return the steps of a run of any length."""
        warm_step = math.ceil(1.0 / (self.l2 * self.aggressiveness))
        if self.solver != "hybrid":
            return PairPlan(self._step(self.solver), None, None, warm_step, bool(self.average))
        first, second = self._step("passive_aggressive"), self._step(self.hybrid_second)
        return PairPlan(first, second, self.hybrid_steps, warm_step, bool(self.average))

    def _step(self, name: str) -> Any:
        l2, inverse = float(self.l2), 0.0
        if self.schedule == "inverse":
            inverse = float(self.schedule_c)
        if name in ("pegasos", "sgd_svm", "logistic"):
            return gradient_step(self._loss(), l2, project=name == "pegasos", inverse=inverse)
        if name == "passive_aggressive":
            return PassiveAggressiveStep(float(self.aggressiveness))
        if name == "romma":
            return RommaStep(1.0 / l2 if self.norm_guard else math.inf)
        if name == "perceptron":
            return PerceptronStep(0.0)
        return PerceptronStep(float(self.margin))

    def _loss(self) -> Any:
        """Return the pair loss of the objective, by default the hinge."""
        if self.solver == "logistic":
            return pair_loss_spec("logistic", 1.0)
        return pair_loss_spec(self.loss or "hinge", 1.0)

    # ------------------------------------------------------------------ which pairs are drawn
    def _span_of_rows(self, source: MemorySource, steps_seen: int) -> Span:
        """Draw all steps from all rows."""
        if self.n_passes is not None:
            raise ParameterError(
                "passes are readings of a stream or of partitions, and these are rows in memory",
                parameter="n_passes",
                fix="Leave it out; n_steps is the length of the run",
            )
        data = source.data
        data.labels.require_pairs()
        sampler = pair_sampler(
            data,
            source.query_weight,
            sampling=self._pair_distribution,
            ties=self.ties == "zero",
            max_trials=int(self.max_trials),
        )
        return Span(data.rows, sampler, steps_seen + int(self.n_steps))

    def _spans_of_stream(self, source: TrainingSource, steps_seen: int) -> Iterator[Span]:
        """Assign each query a range of steps, by its share of the objective."""
        source.require_rereadable("its queries must be counted first")
        spans = stream_spans(
            lambda: _weighted_blocks(source),
            self._count_stream(source),
            self.n_steps,
            sampling=self.sampling,
            ties=self.ties == "zero",
            taken=steps_seen,
            n_passes=check_n_passes(self.n_passes),
        )
        return (Span(block.rows, sampler, end) for block, sampler, end in spans)

    def _count_stream(self, source: TrainingSource) -> float:
        """Read the stream once; return the sum of the queries' shares and record counts."""
        total, ties = 0.0, self.ties == "zero"
        counts = dict.fromkeys(("rows", "queries", "queries_used", "pairs"), 0)
        for block, weight in _weighted_blocks(source):
            shares = query_shares(block, weight, sampling=self.sampling, ties=ties)
            # A running sum has the same bits however the stream is cut into blocks.
            total = float(np.cumsum(np.concatenate([[total], shares]))[-1])
            counts["rows"] += block.n_rows
            counts["queries"] += block.n_queries
            counts["queries_used"] += int((shares > 0).sum())
            counts["pairs"] += block.labels.n_pairs
        if total <= 0:
            raise NoPairsError(
                "no query of the stream holds a pair of positive weight",
                fix="Check labels and weights; a query needs a better and a worse row",
            )
        source.record_counts(**counts)
        return total

    # ------------------------------------------------------------------ the objective on the way
    def _recorder(
        self, source: TrainingSource, evaluator: Evaluator | None
    ) -> Callable[[int, NDArray[np.float64]], dict[str, float]]:
        """Return a function that computes the exact objective (Sculley 2009, figure 2)."""
        steps = {int(step) for step in self.record_at or ()}

        def record(step: int, coef: NDArray[np.float64]) -> dict[str, float]:
            if step not in steps:
                return {}
            mean = MeanPairLoss(self._loss(), MEAN_OF_SAMPLING[self._pair_distribution])
            n_queries = 0
            for block in source.blocks():
                mean.add(block, row_scores(block.X, coef), source.query_weights(block, n_queries))
                n_queries += block.n_queries
            penalty = 0.5 * self.l2 * float(coef @ coef)
            values = {"objective": penalty + mean.value}
            if evaluator is not None:
                data = evaluator.data
                scores = row_scores(data.X, coef[: data.n_features])
                held_out = MeanPairLoss(self._loss(), MEAN_OF_SAMPLING[self._pair_distribution])
                held_out.add(data, scores, np.ones(data.n_queries))
                values["eval_objective"] = penalty + held_out.value
            return values

        return record


@dataclass
class _PartialRun:
    """State of a run that ``partial_fit`` continues."""

    vector: ScaledVector
    seed: int
    average_from: int


def _with_reservoir(result: FitResult, reservoir: Reservoir | None) -> FitResult:
    """Add the reservoir and the length of the stream that it sampled to a result."""
    if reservoir is None:
        return result
    return result.with_attributes(_reservoir=reservoir).with_parameters(stream_rows=reservoir.seen)


def _require_weights_by_id(query_weight: Any) -> None:
    """Raise for weights in order of queries: a reservoir keeps only some of the queries."""
    if not isinstance(query_weight, Mapping | None):
        raise ParameterError(
            "with sampling='reservoir' a list of weights cannot be matched to sampled queries",
            parameter="query_weight",
            fix="Pass a mapping from query id to weight",
        )


def _weighted_blocks(source: TrainingSource) -> Iterator[tuple[Dataset, NDArray[np.float64]]]:
    """Read blocks with the weights of their queries."""
    n_queries = 0
    for block in read_ahead(source.blocks()):
        yield block, source.query_weights(block, n_queries)
        n_queries += block.n_queries
