r"""Fusion of retrievers: learn the weights of hybrid search from judgements.

A document's fused score is :math:`\sum_r w_r\, n_r(s_r)` with weights :math:`w_r \ge 0` of sum 1
and the normalisation n of an engine (``rankine.kernels.run_scores``). There are two learners:

search
    Evaluates the metric itself on a grid of weights. Candidate c is worse than the best one by
    :math:`\Delta_c` on average over the queries, with paired standard error :math:`\sigma_c`. The
    result is the mean of all candidates with weights :math:`\exp(-(\Delta_c/\sigma_c)^2/2)`. With
    few queries many candidates are as good as the best one, and their mean varies less.
ranksvm
    ``RankSVM(positive=True)``: the certified optimum of a convex loss over all pairs.

Cross-validation over queries selects normalisation and learner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.checks import check_not_negative, reject_sets
from rankine.core.errors import DataError, ParameterError, SchemaError
from rankine.core.specs import FUSION_RULES, RunScores
from rankine.data.dataset import Dataset
from rankine.data.query_index import QueryIndex
from rankine.evaluation.compare import Pair, System, compare_values, pairs_table
from rankine.evaluation.tables import Table
from rankine.evaluation.trec import Qrels, Run, read_qrels, read_run, run_metric
from rankine.kernels.compile import jit
from rankine.kernels.random import SPLIT, permutation, resolve_seed, stream_seed
from rankine.kernels.shards import cut_by_weight, map_shards
from rankine.kernels.sorting import order_descending
from rankine.logs.clicks import encode
from rankine.metrics import Metric, parse_metric
from rankine.metrics.engine import QueryEvaluator, query_evaluator
from rankine.model import LinearModel
from rankine.rankers.ranksvm import RankSVM
from rankine.transforms.scaling import scale_lists

#: Weights are multiples of 1 / STEPS, as in OpenSearch's optimiser.
STEPS = 10
#: Largest number of candidates. If the full grid is larger, weights are drawn at random.
MAX_CANDIDATES = 300
#: RankSVM learns from documents among the first NEAR * cutoff of at least one run.
NEAR = 3
#: Regularisation strength of RankSVM, for features divided by their standard deviation.
L2 = 1e-3
# Names of the systems in the result.
FUSED, GRID = "fusion", "grid of 0.1"
EQUAL, WEIGHTED_RRF = "equal weights", "weighted RRF"

#: (normalisation, learner)
Choice = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Fusion:
    """A learnt fusion of retrievers, compared with weights set by hand. All values are held out.

    Attributes
    ----------
    model
        The fusion, for ``Scorer``, ``save`` and every command.
    data
        The joined rows with a feature per run, absent if the run did not return the document.
    metric
        Metric that was maximised.
    weights
        Run -> weight; they add up to 1.
    normalization, learner
        Choice of the cross-validation.
    choices
        (normalisation, learner) -> mean held-out value.
    systems, pairs
        Means with intervals of the fusion and other weights, held out, and of every run alone;
        comparisons of the fusion with the other weights and with the best run alone.
    verdict
        Whether learnt weights are worthwhile, and what the fusion gains over the best run alone.
    notes
        Numbers of queries and judgements that did not match.
    """

    model: LinearModel
    data: Dataset
    metric: Metric
    weights: Mapping[str, float]
    normalization: str
    learner: str
    choices: Mapping[tuple[str, str], float]
    systems: Sequence[System]
    pairs: Sequence[Pair]
    verdict: str
    confidence: float
    notes: Mapping[str, int]

    def tables(self) -> list[Table]:
        """Return tables of weights, held-out means and differences."""
        shares = [(name, f"{weight:.3f}") for name, weight in self.weights.items()]
        means = [(s.name, f"{s.mean:.4f}", f"[{s.low:.4f}, {s.high:.4f}]") for s in self.systems]
        title = f"{self.metric}, held out, {self.data.n_queries} queries"
        return [
            Table(f"Weights of {self.normalization} scores, by {self.learner}",
                  ("run", "weight"), shares),
            Table(title, ("system", "mean", f"{self.confidence:.0%} interval"), means),
            pairs_table("Paired differences", self.pairs, self.confidence),
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return data for JSON, as ``--json`` prints it."""
        return {
            "metric": str(self.metric),
            "queries": self.data.n_queries,
            "weights": dict(self.weights),
            "normalization": self.normalization,
            "learner": self.learner,
            "choices": [
                {"normalization": normalization, "learner": learner, "mean": mean}
                for (normalization, learner), mean in self.choices.items()
            ],
            "systems": [asdict(system) for system in self.systems],
            "pairs": [asdict(pair) for pair in self.pairs],
            "verdict": self.verdict,
            "notes": dict(self.notes),
        }


def fuse(
    runs: Any,
    qrels: Any = None,
    *,
    metric: str | Metric = "ndcg@10",
    normalization: str | None = None,
    engine: str = "opensearch",
    rank_constant: float = 60.0,
    n_folds: int = 5,
    confidence: float = 0.95,
    margin: float = 0.01,
    n_resamples: int = 10_000,
    random_state: Any = 0,
) -> Fusion:
    """Learn the weights of several retrievers.

    Parameters
    ----------
    runs
        TREC run files or ``Run`` objects (a mapping names them), or a data frame or Parquet file
        with the columns ``qid``, ``docid`` and one column of scores per retriever, null where it
        did not return the document. ``Dataset``: a feature per retriever, absent where not stored.
    qrels
        TREC judgements (a file or ``Qrels``); a frame may hold a ``label`` column instead.
    metric
        Metric to maximise. Ties are ordered by descending document id, as in trec_eval.
    normalization
        ``"min_max"``, ``"l2"``, ``"z_score"`` or ``"reciprocal_rank"``; None tries all of the
        engine.
    engine
        Engine whose rules normalise scores: ``"opensearch"`` (has all four),
        ``"elasticsearch"``, ``"vespa"`` or ``"solr"``.
    rank_constant
        Constant of reciprocal ranks.
    n_folds, random_state
        Number of folds of queries, and the seed of their assignment.
    confidence, margin, n_resamples
        See ``rankine.compare``. Equal weights are good enough if the whole interval of the
        difference is below ``margin``.

    Returns
    -------
    Fusion
        The model, and held-out values of it and of weights set by hand.
    """
    rule = parse_metric(metric)
    normalizations = _normalizations(normalization, engine)
    data = _join(runs, qrels)
    _check_size(data, n_folds)
    check_not_negative("rank_constant", rank_constant)
    evaluator = _FusionEvaluator(data, rule, engine, rank_constant)
    n_queries = len(evaluator.queries)
    order = permutation(stream_seed(resolve_seed(random_state), SPLIT), n_queries)
    fold = np.empty(n_queries, dtype=np.int64)
    fold[order] = np.arange(n_queries) % n_folds
    needed = dict.fromkeys([*normalizations, *evaluator.baselines])
    grids = {name: evaluator.grid(name) for name in needed}
    learnt: dict[Choice, _Learnt] = {}
    for name in normalizations:
        learnt[name, "search"] = _learn(evaluator, grids[name], "search", fold, n_folds)
    # RankSVM is slow: only the best normalisation is tried with it.
    best = max(
        normalizations, key=lambda name: evaluator.sign * learnt[name, "search"].held_out.mean()
    )
    learnt[best, "ranksvm"] = _learn(evaluator, grids[best], "ranksvm", fold, n_folds)
    choice, values = _choose(learnt, fold, n_folds, evaluator.sign)
    values_by_system = {FUSED: values, **_values_by_hand(evaluator, grids, fold, n_folds)}
    run_names = [str(name) for name in data.feature_names or range(1, data.n_features + 1)]
    values_alone = {f"{name} alone": evaluator.alone(j) for j, name in enumerate(run_names)}
    best_run = max(values_alone, key=lambda name: evaluator.sign * values_alone[name].mean())
    values_by_system |= values_alone
    names = list(values_by_system)
    compared = [name for name in names[1:] if name == best_run or name not in values_alone]
    systems, pairs = compare_values(
        names, np.column_stack(list(values_by_system.values())), rule,
        [(names.index(name), 0) for name in compared], confidence, margin, n_resamples,
        resolve_seed(random_state),
    )  # fmt: skip
    weights = learnt[choice].weights
    chosen_normalization, learner = choice
    parameters: dict[str, Any] = {"normalization": chosen_normalization, "engine": engine,
                                  "learner": learner}  # fmt: skip
    if "reciprocal_rank" in grids:
        rrf_weights = evaluator.search(grids["reciprocal_rank"], np.arange(n_queries))
        parameters["rrf_weights"] = rrf_weights.tolist()
    spec = RunScores(chosen_normalization, engine, rank_constant)  # type: ignore[arg-type]
    model = LinearModel.from_weights(
        weights,
        data.feature_names,
        transforms=(spec,),
        metric=str(rule),
        parameters={"ranker": "fusion", **parameters},
        provenance={"queries": data.n_queries, "rows": data.n_rows},
    )
    return Fusion(
        model,
        data,
        rule,
        dict(zip(run_names, weights.tolist(), strict=True)),
        chosen_normalization,
        learner,
        {key: float(np.mean(result.held_out)) for key, result in learnt.items()},
        systems,
        pairs,
        f"{_verdict(pairs, rule, margin)}; {_gain_over_run(pairs, best_run)}",
        confidence,
        dict(data.read_counts),
    )


def _normalizations(normalization: str | None, engine: str) -> tuple[str, ...]:
    if engine not in FUSION_RULES:
        raise ParameterError(
            f"there is no engine {engine!r}",
            fix=f"Choose {', '.join(FUSION_RULES)}",
            parameter="engine",
        )
    supported = FUSION_RULES[engine].normalizations
    if normalization is None:
        return supported
    if normalization not in supported:
        raise ParameterError(
            f"{engine} has no normalization {normalization!r}",
            fix=f"Choose {', '.join(supported)}",
            parameter="normalization",
        )
    return (normalization,)


def _check_size(data: Dataset, n_folds: int) -> None:
    if data.n_features < 2:
        raise ParameterError(
            f"there is {data.n_features} run to fuse", fix="Pass two or more", parameter="runs"
        )
    if not 2 <= n_folds <= data.n_queries:
        raise ParameterError(
            f"{n_folds} folds are not possible with {data.n_queries} judged queries",
            fix="Judge more queries, or choose fewer folds (at least 2)",
            parameter="n_folds",
        )


# -- reading ------------------------------------------------------------------------------------


def _join(runs: Any, qrels: Any) -> Dataset:
    if qrels is not None and not isinstance(qrels, Qrels):
        qrels = read_qrels(qrels)
    if isinstance(runs, Dataset):
        return runs
    if isinstance(runs, (str, Path)) or hasattr(runs, "columns"):
        return join_frame(runs, qrels)
    if isinstance(runs, Sequence) and len(runs) == 1 and Path(runs[0]).suffix == ".parquet":
        return join_frame(runs[0], qrels)
    if qrels is None:
        raise ParameterError("runs need judgements", fix="Pass TREC judgements", parameter="qrels")
    by_name = runs if isinstance(runs, Mapping) else _name_runs(runs)
    loaded = {name: r if isinstance(r, Run) else read_run(r) for name, r in by_name.items()}
    return join_runs(loaded, qrels)


def _name_runs(runs: Sequence[Any]) -> dict[str, Any]:
    """Name runs by their tag, or by the name of the file."""
    reject_sets(runs=runs)
    names = [run.tag if isinstance(run, Run) else Path(run).stem for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(
                f"two runs are called {name!r}", fix="Rename one file, or pass a mapping"
            )
    return dict(zip(names, runs, strict=True))


def join_frame(frame: Any, qrels: Qrels | None = None) -> Dataset:
    """Join a data frame or Parquet file of qid, docid, label (or qrels) and a column per run."""
    import narwhals.stable.v1 as nw

    if isinstance(frame, (str, Path)):
        import pyarrow.parquet

        frame = pyarrow.parquet.read_table(frame)
    table = nw.from_native(frame, eager_only=True)
    needed = ["qid", "docid"]
    if qrels is None:
        needed.append("label")
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise SchemaError(
            f"the frame lacks the column {missing[0]!r}",
            fix="Name the columns qid, docid and label, or pass qrels for the labels",
        )
    qid, docid = (np.array([str(v) for v in table[name].to_list()]) for name in needed[:2])
    if qrels is None:
        qrels = Qrels(qid, docid, np.array(table["label"].to_list(), dtype=np.float64))
    runs = {}
    for name in table.columns:
        if name in ("qid", "docid", "label"):
            continue
        try:
            score = np.array(table[name].to_list(), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SchemaError(
                f"column {name!r} is not numeric", fix="Keep ids, labels and scores only"
            ) from error
        # Null: this retriever did not return the document.
        present = ~np.isnan(score)
        runs[name] = Run(qid[present], docid[present], score[present], name)
    return join_runs(runs, qrels)


def join_runs(runs: Mapping[str, Run], qrels: Qrels) -> Dataset:
    """Join runs: one row per retrieved or judged document of each judged query, a feature per run.

    Documents are in descending order of their ids, so that ties are broken as in trec_eval. The
    column ``retrieved`` marks documents that at least one run returned.
    """
    parts: list[Qrels | Run] = [qrels, *runs.values()]
    bounds = np.cumsum([len(part.qid) for part in parts])[:-1]
    query, query_ids = _number_ids([part.qid for part in parts])
    document, document_ids = _number_ids([part.docid for part in parts])
    # Queries are numbered in order of appearance, so the judged ones come first.
    n_judged = int((query[: len(qrels.qid)] + 1).max(initial=0))
    order = np.argsort(document_ids)[::-1]
    rank = np.empty(len(document_ids), dtype=np.int64)
    rank[order] = np.arange(len(document_ids))
    # A (query, document) pair as one number that sorts by query, then by descending document id.
    pair = query * len(document_ids) + rank[document]
    is_judged = np.split(query < n_judged, bounds)
    keys = [k[keep] for k, keep in zip(np.split(pair, bounds), is_judged, strict=True)]
    if not sum(map(len, keys[1:])):
        raise DataError(
            "the runs and the judgements have no query in common",
            fix="Check that all use the same query ids",
        )
    # Sorted and without duplicates: rows by query, then by descending document id.
    rows = np.unique(np.concatenate(keys))
    scores = np.full((len(rows), len(runs)), np.nan)
    for j, (run, key, keep) in enumerate(zip(runs.values(), keys[1:], is_judged[1:], strict=True)):
        scores[np.searchsorted(rows, key), j] = run.score[keep]
    labels = np.zeros(len(rows))
    labels[np.searchsorted(rows, keys[0])] = np.maximum(qrels.label, 0.0)
    row_query = rows // len(document_ids)
    present = ~np.isnan(scores)
    X = sparse.csr_matrix(
        (scores[present], np.nonzero(present)[1], np.append(0, np.cumsum(present.sum(axis=1)))),
        shape=scores.shape,
    )
    is_retrieved = np.bincount(query[len(qrels.qid) :], minlength=n_judged) > 0
    counts = {
        "queries_missing_from_runs": int((~is_retrieved[:n_judged]).sum()),
        "queries_without_judgements": len(query_ids) - n_judged,
        "negative_judgements": int((qrels.label < 0).sum()),
    }
    starts = np.searchsorted(row_query, np.arange(n_judged + 1))
    return Dataset(
        X, labels, query_ids[row_query], docid=document_ids[order][rows % len(document_ids)],
        feature_names=tuple(runs), columns={"retrieved": present.any(axis=1).astype(np.float64)},
        query_index=QueryIndex(query_ids[:n_judged], starts), read_counts=counts,
    )  # fmt: skip


def _number_ids(parts: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Number the ids of all parts in order of appearance; return numbers and distinct ids."""
    codes, distinct = encode(np.concatenate(parts))
    return codes, distinct.astype(np.str_)


# -- learning -----------------------------------------------------------------------------------


class _Grid(NamedTuple):
    """One normalisation: its scores, all candidates with their values, and the evaluation."""

    scores: NDArray[np.float64]
    candidates: NDArray[np.float64]
    values: NDArray[np.float64]
    evaluate: Callable[[NDArray[np.float64]], NDArray[np.float64]]


class _Learnt(NamedTuple):
    """Held-out values of the queries, and the weights learnt from all queries."""

    held_out: NDArray[np.float64]
    weights: NDArray[np.float64]


class _FusionEvaluator:
    """Evaluate and learn weights on the queries for which the metric is defined.

    Attributes
    ----------
    queries
        Numbers of these queries.
    sign
        1 if larger values of the metric are better, else -1.
    baselines
        Normalisations that users set by hand.
    """

    def __init__(self, data: Dataset, metric: Metric, engine: str, rank_constant: float) -> None:
        self.data = data
        self.engine = engine
        self.rank_constant = rank_constant
        self.sign = metric.sign
        index = data.queries
        rule = metric if data.docid is None else run_metric(metric)
        # Rows that were joined here are in the order of document ids already.
        if rule.ties == "docid" and "retrieved" in data.columns:
            rule = rule.with_options(ties="file")
        columns: dict[str, Any] = dict(data.columns)
        if rule.ties == "docid":
            columns["docid"] = data.docid
        self._gather = index.gather
        self._labels = index.gather(data.y)
        self._row_query = np.repeat(np.arange(index.n_queries), index.sizes)
        self._rule, self._columns = rule, columns
        self._evaluator = query_evaluator(rule, self._labels, index, columns)
        self._normalized: dict[tuple[str, str], NDArray[np.float64]] = {}
        depth = np.inf
        if isinstance(metric.cutoff, int):
            depth = NEAR * metric.cutoff
        # 1 / (constant + rank) is the score of a rank, so a bound on it bounds the rank.
        best_rank_scores = self._scores("reciprocal_rank", "opensearch").max(axis=1)
        self._near_top = best_rank_scores > (1.0 - 1e-9) / (rank_constant + depth)
        values = self._evaluator.from_scores(np.zeros(data.n_rows)).value
        self.queries = np.flatnonzero(~np.isnan(values))
        if len(self.queries) < 2:
            raise DataError(
                f"{metric} is defined for {len(self.queries)} queries", fix="Judge more queries"
            )
        supported = FUSION_RULES[engine].normalizations
        self.baselines = tuple(n for n in ("min_max", "l2", "reciprocal_rank") if n in supported)
        self.candidates = _candidates(data.n_features)
        self._svm = RankSVM(
            L2, loss="squared_hinge", positive=True, scale="standard", warm_start=True
        )

    def grid(self, normalization: str) -> _Grid:
        """Evaluate all candidates under one normalisation."""
        scores = self._scores(normalization, self.engine)
        rows, evaluator = self._reachable(scores)
        reachable = scores[rows]

        def evaluate(weights: NDArray[np.float64]) -> NDArray[np.float64]:
            return evaluator.from_weights(reachable, weights).value[:, self.queries]

        return _Grid(scores, self.candidates, evaluate(self.candidates), evaluate)

    def alone(self, run: int) -> NDArray[np.float64]:
        """Return the values of one run; documents that it did not return have no rank."""
        scores = self.data.X[:, [run]]
        columns = dict(self._columns)
        if sparse.issparse(scores):
            columns["retrieved"] = np.diff(scores.indptr)  # 1 if stored, also if the score is 0
            scores = scores.toarray()
        evaluator = query_evaluator(self._rule, self._labels, self.data.queries, columns)
        return evaluator.from_scores(self._gather(scores.ravel())).value[self.queries]

    def _scores(self, normalization: str, engine: str) -> NDArray[np.float64]:
        """Return normalised scores in grouped order."""
        key = (normalization, engine)
        if key not in self._normalized:
            spec = RunScores(normalization, engine, self.rank_constant)  # type: ignore[arg-type]
            self._normalized[key] = self._gather(scale_lists(self.data, spec))
        return self._normalized[key]

    def _reachable(self, scores: NDArray[np.float64]) -> tuple[Any, QueryEvaluator]:
        """Return the rows that can change a value under some weights, and their evaluator."""
        rule, index = self._rule, self.data.queries
        # The pruning assumes that a fixed number of ranks counts, and knows two rules for ties.
        if rule.ties not in ("file", "expected") or not isinstance(rule.cutoff, int):
            return slice(None), self._evaluator
        by_row = rule.ties == "file"
        marks = np.array(self._gather(self._columns.get("retrieved", np.ones(len(scores)))))
        starts, depth = index.starts, rule.cutoff
        map_shards(
            lambda a, b: _drop_unreachable(scores, starts, depth, marks, by_row, a, b),
            cut_by_weight(starts),
        )
        # Relevant rows count in the ideal order, and every list keeps at least one row.
        needed = (marks > 0) | (self._labels > 0) | (rule.gain not in (None, "exp", "linear"))
        needed[starts[:-1]] = True
        rows = np.flatnonzero(needed)
        part = QueryIndex(index.ids, np.searchsorted(rows, starts))
        columns = {key: self._gather(np.asarray(v))[rows] for key, v in self._columns.items()}
        return rows, query_evaluator(rule, self._labels[rows], part, columns)

    def search(self, grid: _Grid, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        """Learn weights by evaluating the metric on all candidates."""
        return blend(self.sign * grid.values[:, queries], grid.candidates)

    def ranksvm(self, grid: _Grid, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        """Learn weights by RankSVM from the documents near the top of some run."""
        is_training = np.zeros(self.data.n_queries, dtype=np.bool_)
        is_training[self.queries[queries]] = True
        rows = np.flatnonzero(self._near_top & is_training[self._row_query])
        part = Dataset.from_arrays(grid.scores[rows], self._labels[rows], self._row_query[rows])
        weights: NDArray[np.float64] = self._svm.fit(part).coef_
        total = weights.sum()
        # All weights are 0 where no run ranks relevant documents higher.
        if not total > 0:
            return np.full(len(weights), 1.0 / len(weights))
        return weights / total


def blend(values: NDArray[np.float64], candidates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average the candidates, each weighted by how uncertain it is that it is worse than the best.

    ``values`` has one row per candidate and one column per query; larger values are better.
    """
    shortfall = values[np.argmax(values.mean(axis=1))] - values
    error = shortfall.std(axis=1) / np.sqrt(values.shape[1])
    ratio = shortfall.mean(axis=1) / np.where(error > 0, error, 1.0)
    # The best candidate itself has ratio 0 and share 1.
    share = np.exp(-0.5 * ratio**2)
    weights: NDArray[np.float64] = share @ candidates / share.sum()
    return weights


@jit
def _drop_unreachable(
    scores: Any, starts: Any, k: int, marks: Any, by_row: bool, first: int, last: int
) -> None:
    """Unmark documents that rank below k others under all weights; the first k ranks stay equal.

    A document ranks below another one for sure if that one scores more in every run, or, if ties
    are ordered ``by_row``, not less in every run and is in an earlier row. The sum of its scores is
    then not larger. So each document is compared only with the marked documents before it in
    descending order of the sums.
    """
    for q in range(first, last):
        start, n = starts[q], starts[q + 1] - starts[q]
        total, order, marked = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        for i in range(n):
            total[i] = scores[start + i].sum()
        order_descending(total, n, order)
        n_marked = 0
        for position in range(n):
            i = start + order[position]
            n_above = 0
            for j in marked[:n_marked]:
                wins = True
                for r in range(scores.shape[1]):
                    loses_ties = j > i or not by_row
                    if scores[j, r] < scores[i, r] or (loses_ties and scores[j, r] == scores[i, r]):
                        wins = False
                        break
                n_above += wins
                if n_above == k:
                    break
            if n_above == k:
                marks[i] = 0.0
            elif marks[i] != 0.0:
                marked[n_marked] = i
                n_marked += 1


def _candidates(n_runs: int) -> NDArray[np.float64]:
    """Return all weights in tenths that add up to 1, or random weights if these are too many."""
    # Stars and bars: the gaps between n_runs - 1 bars are the weights.
    bars = list(combinations(range(STEPS + n_runs - 1), n_runs - 1))
    if len(bars) <= MAX_CANDIDATES:
        bounds = np.array([(-1, *bar, STEPS + n_runs - 1) for bar in bars])
        return (np.diff(bounds, axis=1) - 1) / STEPS
    drawn = np.random.default_rng(0).dirichlet(np.ones(n_runs), MAX_CANDIDATES - n_runs)
    return np.vstack([np.eye(n_runs), drawn])


def _learn(
    evaluator: _FusionEvaluator,
    grid: _Grid,
    learner: str,
    fold: NDArray[np.int64],
    n_folds: int,
) -> _Learnt:
    """Learn weights without each fold and evaluate them on it; learn weights from all queries."""
    learn = evaluator.search if learner == "search" else evaluator.ranksvm
    # First, so that RankSVM, which starts from its last weights, has these on every fold.
    final = learn(grid, np.arange(len(fold)))
    weights = np.array([learn(grid, np.flatnonzero(fold != k)) for k in range(n_folds)])
    return _Learnt(grid.evaluate(weights)[fold, np.arange(len(fold))], final)


def _choose(
    learnt: Mapping[Choice, _Learnt], fold: NDArray[np.int64], n_folds: int, sign: float
) -> tuple[Choice, NDArray[np.float64]]:
    """Return the best choice, and held-out values of choosing on the other folds."""
    choices = list(learnt)
    held_out = np.array([learnt[choice].held_out for choice in choices])
    best = int(np.argmax(sign * held_out.mean(axis=1)))
    return choices[best], _best_on_other_folds(held_out, fold, n_folds, sign)


def _values_by_hand(
    evaluator: _FusionEvaluator,
    grids: Mapping[str, _Grid],
    fold: NDArray[np.int64],
    n_folds: int,
) -> dict[str, NDArray[np.float64]]:
    """Return the values of weights that users set by hand, selected on the other folds."""
    n_runs, sign = evaluator.data.n_features, evaluator.sign
    equal = np.full((1, n_runs), 1.0 / n_runs)
    min_max = grids["min_max"]
    linear = [grids[name].values for name in evaluator.baselines if name != "reciprocal_rank"]
    values = {
        EQUAL: min_max.evaluate(equal)[0],
        GRID: _best_on_other_folds(np.vstack(linear), fold, n_folds, sign),
    }
    if "reciprocal_rank" in grids:
        ranks = grids["reciprocal_rank"]
        values[f"RRF({evaluator.rank_constant:g})"] = ranks.evaluate(equal)[0]
        values[WEIGHTED_RRF] = _best_on_other_folds(ranks.values, fold, n_folds, sign)
    return values


def _best_on_other_folds(
    values: NDArray[np.float64], fold: NDArray[np.int64], n_folds: int, sign: float
) -> NDArray[np.float64]:
    """Return the values of each fold in the row that is best on the other folds."""
    held_out = np.empty(len(fold))
    # Choosing on the same queries would make the best of many look better than it is.
    for k in range(n_folds):
        best = int(np.argmax(sign * values[:, fold != k].mean(axis=1)))
        held_out[fold == k] = values[best, fold == k]
    return held_out


def _gain_over_run(pairs: Sequence[Pair], best_run: str) -> str:
    """State the difference between the fusion and the best run alone."""
    pair = next(pair for pair in pairs if pair.a == best_run)
    return f"against {best_run} the difference is [{pair.low:+.4f}, {pair.high:+.4f}]"


def _verdict(pairs: Sequence[Pair], metric: Metric, margin: float) -> str:
    """State whether learnt weights are better than equal ones."""
    pair = next(pair for pair in pairs if pair.a == EQUAL)
    interval = f"[{pair.low:+.4f}, {pair.high:+.4f}]"
    smallest_gain, largest_gain = pair.low, pair.high
    if not metric.larger_is_better:
        smallest_gain, largest_gain = -pair.high, -pair.low
    if largest_gain < margin:
        return f"equal weights will do: learnt ones gain {interval}, below the margin {margin:g}"
    if smallest_gain > 0:
        return f"the learnt weights are better than equal ones by {interval}"
    return f"equal weights will do, as far as these queries can tell: the difference is {interval}"
