r"""Fusion of retrievers: the weights of hybrid search, learnt from judgements.

A document's fused score is :math:`\sum_r w_r\, n_r(s_r)` with weights :math:`w_r \ge 0` of sum 1
and the normalisation n of an engine (``rankine.kernels.run_scores``). Two ways to find weights:

search
    The metric itself on a grid of weights. Candidate c falls short of the best one by
    :math:`\Delta_c` on average over the queries, with paired standard error :math:`\sigma_c`; the
    weights are the mean of all candidates, each counted :math:`\exp(-(\Delta_c/\sigma_c)^2/2)`.
    With few queries many candidates are as good as the best one, and their mean is steadier.
ranksvm
    ``RankSVM(positive=True)``: the certified optimum of a convex loss over all pairs.

Normalisation and way are chosen by cross-validation over queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankine.core.checks import reject_sets
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
from rankine.metrics.engine import query_evaluator
from rankine.model import LinearModel
from rankine.rankers.ranksvm import RankSVM
from rankine.transforms.scaling import scale_lists

#: Weights in steps of 1 / STEPS, as OpenSearch's optimiser tries them.
STEPS = 10
#: Candidates at most; with more runs weights are drawn instead of a full grid.
MAX_CANDIDATES = 300
#: RankSVM learns from documents among the first NEAR * cutoff of some run.
NEAR = 3
#: RankSVM's strength, on features divided by their deviation.
L2 = 1e-3
FUSED, GRID = "fusion", "grid of 0.1"
EQUAL, WEIGHTED_RRF = "equal weights", "weighted RRF"


@dataclass(frozen=True, eq=False)
class Fusion:
    """Retrievers fused, beside what is set by hand; all figures are held out.

    Attributes
    ----------
    model
        The fusion: ``Scorer``, ``save`` and every command take it.
    data
        The joined rows: a feature per run, absent where the run lacks the document.
    metric
        What was maximised.
    weights
        Run -> weight; they add up to 1.
    normalization, learner
        What cross-validation chose.
    choices
        (normalisation, learner) -> mean held-out value.
    systems, pairs
        Held-out means with intervals; the fusion against each of the others.
    verdict
        One sentence: whether the weights are worth having.
    notes
        Counts of what did not match.
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
        """Weights, held-out means, differences."""
        shares = [(name, f"{weight:.3f}") for name, weight in self.weights.items()]
        means = [(s.name, f"{s.mean:.4f}", f"[{s.low:.4f}, {s.high:.4f}]") for s in self.systems]
        held = f"{self.metric}, held out, {self.data.n_queries} queries"
        return [
            Table(f"Weights of {self.normalization} scores, by {self.learner}",
                  ("run", "weight"), shares),
            Table(held, ("system", "mean", f"{self.confidence:.0%} interval"), means),
            pairs_table("Paired differences", self.pairs, self.confidence),
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``--json`` prints it."""
        from dataclasses import asdict

        return {
            "metric": str(self.metric),
            "queries": self.data.n_queries,
            "weights": dict(self.weights),
            "normalization": self.normalization,
            "learner": self.learner,
            "choices": [
                {"normalization": n, "learner": way, "mean": mean}
                for (n, way), mean in self.choices.items()
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
        What to maximise; ties by descending document id, as trec_eval has them.
    normalization
        ``"min_max"``, ``"l2"``, ``"z_score"`` or ``"reciprocal_rank"``; None tries those of the
        engine.
    engine
        Whose rules scores are normalised by: ``"opensearch"`` (has all four),
        ``"elasticsearch"``, ``"vespa"`` or ``"solr"``.
    rank_constant
        Of reciprocal ranks.
    n_folds, random_state
        Folds of queries, and the seed that shuffles them.
    confidence, margin, n_resamples
        See ``rankine.compare``; equal weights will do where the whole interval of the difference
        lies below ``margin``.

    Returns
    -------
    Fusion
        The model, and held-out figures of it and of what people set by hand.
    """
    rule = parse_metric(metric)
    wanted = _normalizations(normalization, engine)
    data = _joined(runs, qrels)
    _check(data, n_folds)
    judge = _Judge(data, rule, engine, rank_constant)
    order = permutation(stream_seed(resolve_seed(random_state), SPLIT), len(judge.kept))
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % n_folds
    grids = {name: judge.grid(name) for name in dict.fromkeys([*wanted, *judge.baselines])}
    learnt = {
        (name, "search"): _learn(judge, grids[name], "search", fold, n_folds) for name in wanted
    }
    first = max(wanted, key=lambda name: judge.sign * learnt[name, "search"].held.mean())
    learnt[first, "ranksvm"] = _learn(judge, grids[first], "ranksvm", fold, n_folds)
    chosen, values = _choose(learnt, fold, n_folds, rule)
    table = {FUSED: values, **_by_hand(judge, grids, fold, n_folds)}
    names = list(table)
    systems, pairs = compare_values(
        names, np.column_stack([table[name] for name in names]), rule,
        [(b, 0) for b in range(1, len(names))], confidence, margin, n_resamples,
        resolve_seed(random_state),
    )  # fmt: skip
    weights = learnt[chosen].final
    spec = RunScores(*chosen[:1], engine, rank_constant)  # type: ignore[arg-type]
    rrf = judge.search(grids["reciprocal_rank"], np.arange(len(order))) if (
        "reciprocal_rank" in grids
    ) else None  # fmt: skip
    model = _model(data, weights, spec, rule, chosen[1], rrf)
    names_of = map(str, data.feature_names or range(1, data.n_features + 1))
    return Fusion(
        model, data, rule, dict(zip(names_of, weights.tolist(), strict=True)), chosen[0],
        chosen[1],
        {key: float(np.mean(found.held)) for key, found in learnt.items()}, systems, pairs,
        _verdict(pairs, rule, margin), confidence, dict(data.read_counts),
    )  # fmt: skip


def _normalizations(normalization: str | None, engine: str) -> tuple[str, ...]:
    if engine not in FUSION_RULES:
        raise ParameterError(
            f"engine={engine!r} is not one of {', '.join(FUSION_RULES)}", fix="Choose one of them"
        )
    known = FUSION_RULES[engine].normalizations
    if normalization is not None and normalization not in known:
        raise ParameterError(
            f"{engine} has no normalization {normalization!r}", fix=f"Choose {', '.join(known)}"
        )
    return known if normalization is None else (normalization,)


def _check(data: Dataset, n_folds: int) -> None:
    if data.n_features < 2:
        raise ParameterError(f"{data.n_features} run to fuse", fix="Give two or more runs")
    if not 2 <= n_folds <= data.n_queries:
        raise ParameterError(
            f"n_folds={n_folds} for {data.n_queries} judged queries",
            fix="Judge more queries, or choose fewer folds (2 at least)",
        )


# -- reading ------------------------------------------------------------------------------------


def _joined(runs: Any, qrels: Any) -> Dataset:
    judged = qrels if qrels is None or isinstance(qrels, Qrels) else read_qrels(qrels)
    if isinstance(runs, Dataset):
        return runs
    if isinstance(runs, (str, Path)) or hasattr(runs, "columns"):
        return join_frame(runs, judged)
    if isinstance(runs, Sequence) and len(runs) == 1 and Path(runs[0]).suffix == ".parquet":
        return join_frame(runs[0], judged)
    if judged is None:
        raise ParameterError("runs without judgements", fix="Pass qrels")
    named = dict(runs) if isinstance(runs, Mapping) else _named(runs)
    return join_runs(
        {k: r if isinstance(r, Run) else read_run(r) for k, r in named.items()}, judged
    )


def _named(runs: Sequence[Any]) -> dict[str, Any]:
    """Runs by their tag, or by the name of the file."""
    reject_sets(runs=runs)
    names = [run.tag if isinstance(run, Run) else Path(run).stem for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(
                f"two runs are called {name!r}", fix="Rename one file, or pass a mapping"
            )
    return dict(zip(names, runs, strict=True))


def join_frame(frame: Any, qrels: Qrels | None = None) -> Dataset:
    """Rows of a data frame or Parquet file: qid, docid, label (or qrels) and a column per run."""
    import narwhals.stable.v1 as nw

    if isinstance(frame, (str, Path)):
        import pyarrow.parquet

        frame = pyarrow.parquet.read_table(frame)
    table = nw.from_native(frame, eager_only=True)
    needed = ["qid", "docid", *(["label"] if qrels is None else [])]
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise SchemaError(
            f"the frame lacks the column {missing[0]!r}",
            fix="Name the columns qid, docid and label; or pass qrels for the labels",
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
        present = ~np.isnan(score)
        runs[name] = Run(qid[present], docid[present], score[present], name)
    return join_runs(runs, qrels)


def join_runs(runs: Mapping[str, Run], qrels: Qrels) -> Dataset:
    """One row per retrieved or judged document of each judged query, a feature per run.

    Documents stand in descending order of their ids, so that equal scores are broken as trec_eval
    breaks them. The column ``retrieved`` marks documents that some run holds.
    """
    parts: list[Qrels | Run] = [qrels, *runs.values()]
    bounds = np.cumsum([len(part.qid) for part in parts])[:-1]
    asked, ids = _numbers([part.qid for part in parts])
    shown, names = _numbers([part.docid for part in parts])
    judged = int((asked[: len(qrels.qid)] + 1).max(initial=0))  # later numbers have no judgement
    order = np.argsort(names)[::-1]
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    codes = list(zip(np.split(asked, bounds), np.split(shown, bounds), strict=True))
    known = [q < judged for q, _ in codes]
    keys = [(q * len(names) + place[d])[keep] for (q, d), keep in zip(codes, known, strict=True)]
    if not sum(map(len, keys[1:])):
        raise DataError(
            "the runs and the judgements have no query in common",
            fix="Check that all use the same query ids",
        )
    every = np.sort(np.concatenate(keys))
    rows = every[np.append(True, every[1:] != every[:-1])]
    scores = np.full((len(rows), len(runs)), np.nan)
    for j, (run, key, keep) in enumerate(zip(runs.values(), keys[1:], known[1:], strict=True)):
        scores[np.searchsorted(rows, key), j] = run.score[keep]
    labels = np.zeros(len(rows))
    labels[np.searchsorted(rows, keys[0])] = np.maximum(qrels.label, 0.0)
    owner = rows // len(names)
    present = ~np.isnan(scores)
    X = sparse.csr_matrix(
        (scores[present], np.nonzero(present)[1], np.append(0, np.cumsum(present.sum(axis=1)))),
        shape=scores.shape,
    )
    found = Dataset(
        X, labels, ids[owner], docid=names[order][rows % len(names)], feature_names=tuple(runs),
        columns={"retrieved": present.any(axis=1).astype(np.float64)},
        query_index=QueryIndex(ids[:judged], np.searchsorted(owner, np.arange(judged + 1))),
    )  # fmt: skip
    seen = np.bincount(asked[len(qrels.qid) :], minlength=judged) > 0
    return replace(found, read_counts={
        "queries_missing_from_runs": int((~seen[:judged]).sum()),
        "queries_without_judgements": len(ids) - judged,
        "negative_judgements": int((qrels.label < 0).sum()),
    })  # fmt: skip


def _numbers(parts: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Ids of all parts as numbers in order of appearance, and the distinct ids."""
    codes, distinct = encode(np.concatenate(parts))
    return codes, distinct.astype(np.str_)


# -- learning -----------------------------------------------------------------------------------


class _Grid(NamedTuple):
    """Normalised scores, candidates with their values, and the function from weights to values."""

    name: str
    Z: NDArray[np.float64]
    W: NDArray[np.float64]
    values: NDArray[np.float64]
    measure: Callable[[NDArray[np.float64]], NDArray[np.float64]]


class _Learnt(NamedTuple):
    """Held-out values, and the weights of all queries."""

    held: NDArray[np.float64]
    final: NDArray[np.float64]


class _Judge:
    """The metric of weights, query by query, for the queries that have a value."""

    def __init__(self, data: Dataset, metric: Metric, engine: str, constant: float) -> None:
        self.data = data
        self.engine = engine
        self.constant = constant
        self.sign = 1.0 if metric.larger_is_better else -1.0
        index = data.queries
        # Rows stand in the order of ties, where this room joined them.
        rule = metric if data.docid is None else run_metric(metric)
        if rule.ties == "docid" and "retrieved" in data.columns:
            rule = rule.with_options(ties="file")
        columns: dict[str, Any] = dict(data.columns)
        if rule.ties == "docid":
            columns["docid"] = data.docid
        self._gather = index.gather
        self.y = index.gather(data.y)
        self.owner = np.repeat(np.arange(index.n_queries), index.sizes)
        self._rule, self._columns = rule, columns
        self._evaluator = query_evaluator(rule, self.y, index, columns)
        self._known: dict[tuple[str, str], NDArray[np.float64]] = {}
        depth = NEAR * metric.cutoff if isinstance(metric.cutoff, int) else np.inf
        ranks = self._scores("reciprocal_rank", "opensearch").max(axis=1)
        self.near = ranks > (1.0 - 1e-9) / (constant + depth)
        blank = self._evaluator.from_scores(np.zeros(data.n_rows)).value
        self.kept = np.flatnonzero(~np.isnan(blank))
        if len(self.kept) < 2:
            raise DataError(
                f"{len(self.kept)} queries have a value of {metric}", fix="Judge more queries"
            )
        rules = FUSION_RULES[engine].normalizations
        self.baselines = tuple(n for n in ("min_max", "l2", "reciprocal_rank") if n in rules)
        self.W = _candidates(data.n_features)
        self._svm = RankSVM(
            L2, loss="squared_hinge", positive=True, scale="standard", warm_start=True
        )

    def values(self, grid: _Grid, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The metric of each kept query, for one vector of weights."""
        found: NDArray[np.float64] = grid.measure(weights[None])[0]
        return found

    def grid(self, name: str) -> _Grid:
        """All candidates under one normalisation."""
        Z = self._scores(name, self.engine)
        rows, evaluator = self._reachable(Z)
        reachable = Z[rows]

        def values(weights: NDArray[np.float64]) -> NDArray[np.float64]:
            found: NDArray[np.float64] = evaluator.from_weights(reachable, weights).value[
                :, self.kept
            ]
            return found

        return _Grid(name, Z, self.W, values(self.W), values)

    def _scores(self, name: str, engine: str) -> NDArray[np.float64]:
        """Normalised scores in grouped order."""
        if (name, engine) not in self._known:
            spec = RunScores(name, engine, self.constant)  # type: ignore[arg-type]
            self._known[name, engine] = self._gather(scale_lists(self.data, spec))
        return self._known[name, engine]

    def _reachable(self, Z: NDArray[np.float64]) -> tuple[Any, Any]:
        """Rows that can change a value under some weights, and the metric of those rows."""
        rule, index, columns = self._rule, self.data.queries, self._columns
        if rule.ties != "file" or not isinstance(rule.cutoff, int):  # of ranks, in row order
            return slice(None), self._evaluator
        marks = np.array(self._gather(columns.get("retrieved", np.ones(len(Z)))))
        starts, depth = index.starts, rule.cutoff
        map_shards(
            lambda a, b: _drop_unreachable(Z, starts, depth, marks, a, b), cut_by_weight(starts)
        )
        # What is neither marked nor relevant changes no value; every list keeps a row.
        needed = (marks > 0) | (self.y > 0) | (rule.gain not in (None, "exp", "linear"))
        needed[starts[:-1]] = True
        rows = np.flatnonzero(needed)
        part = QueryIndex(index.ids, np.searchsorted(rows, starts))
        columns = {key: self._gather(np.asarray(v))[rows] for key, v in columns.items()}
        return rows, query_evaluator(rule, self.y[rows], part, columns)

    def search(self, grid: _Grid, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        """Weights by the metric itself."""
        return blend(self.sign * grid.values[:, queries], grid.W)

    def ranksvm(self, grid: _Grid, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        """Certified optimum over the documents that some run has near the top."""
        chosen = np.zeros(self.data.n_queries, dtype=np.bool_)
        chosen[self.kept[queries]] = True
        rows = np.flatnonzero(self.near & chosen[self.owner])
        part = Dataset.from_arrays(grid.Z[rows], self.y[rows], self.owner[rows])
        weights: NDArray[np.float64] = self._svm.fit(part).coef_
        total = weights.sum()
        equal = np.full(len(weights), 1.0 / len(weights))
        return weights / total if total > 0 else equal


def blend(values: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the candidates, each counted by how surely it falls short of the best one.

    ``values`` has one row a candidate and one column a query, larger is better.
    """
    short = values[np.argmax(values.mean(axis=1))] - values
    error = short.std(axis=1) / np.sqrt(values.shape[1])
    ratio = short.mean(axis=1) / np.where(error > 0, error, 1.0)
    share = np.exp(-0.5 * ratio**2)
    found: NDArray[np.float64] = share @ W / share.sum()
    return found


@jit
def _drop_unreachable(Z: Any, starts: Any, k: int, marks: Any, first: int, last: int) -> None:
    """Unmark documents that stand below k others under any weights; no first k ranks change.

    A document surely stands below another one that scores more in every run, or no less in every
    run and comes first among ties. The sum of its scores is then no more than the other's, so that
    a document is held against the kept ones before it in falling order of the sums.
    """
    for q in range(first, last):
        start, n = starts[q], starts[q + 1] - starts[q]
        total, order, kept = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        for i in range(n):
            total[i] = Z[start + i].sum()
        order_descending(total, n, order)
        n_kept = 0
        for place in range(n):
            i = start + order[place]
            above = 0
            for j in kept[:n_kept]:
                beats = True
                for r in range(Z.shape[1]):
                    if Z[j, r] < Z[i, r] or (j > i and Z[j, r] == Z[i, r]):
                        beats = False
                        break
                above += beats
                if above == k:
                    break
            if above == k:
                marks[i] = 0.0
            elif marks[i] != 0.0:
                kept[n_kept] = i
                n_kept += 1


def _candidates(n_runs: int) -> NDArray[np.float64]:
    """Weights in tenths that add up to 1; drawn evenly where there would be too many of them."""
    bars = list(combinations(range(STEPS + n_runs - 1), n_runs - 1))
    if len(bars) <= MAX_CANDIDATES:
        cuts = np.array([(-1, *bar, STEPS + n_runs - 1) for bar in bars])
        return (np.diff(cuts, axis=1) - 1) / STEPS
    drawn = np.random.default_rng(0).dirichlet(np.ones(n_runs), MAX_CANDIDATES - n_runs)
    return np.vstack([np.eye(n_runs), drawn])


def _learn(judge: _Judge, grid: _Grid, way: str, fold: NDArray[np.int64], n_folds: int) -> _Learnt:
    """Weights of every fold's other queries, judged on the fold; and of all queries."""
    learn = judge.search if way == "search" else judge.ranksvm
    final = learn(grid, np.arange(len(fold)))
    weights = np.array([learn(grid, np.flatnonzero(fold != k)) for k in range(n_folds)])
    return _Learnt(grid.measure(weights)[fold, np.arange(len(fold))], final)


def _choose(
    learnt: Mapping[tuple[str, str], _Learnt], fold: NDArray[np.int64], n_folds: int, metric: Metric
) -> tuple[tuple[str, str], NDArray[np.float64]]:
    """The best choice over all queries; held-out values, a fold's by the other folds' choice."""
    sign = 1.0 if metric.larger_is_better else -1.0
    keys = list(learnt)
    table = np.array([learnt[key].held for key in keys])
    values = np.empty(table.shape[1])
    for k in range(n_folds):
        best = np.argmax(sign * table[:, fold != k].mean(axis=1))
        values[fold == k] = table[best, fold == k]
    return keys[int(np.argmax(sign * table.mean(axis=1)))], values


def _by_hand(
    judge: _Judge, grids: Mapping[str, _Grid], fold: NDArray[np.int64], n_folds: int
) -> dict[str, NDArray[np.float64]]:
    """What people set without learning, or by trying tenths; chosen on the other folds too."""
    n_runs = judge.data.n_features
    equal = np.full(n_runs, 1.0 / n_runs)
    plain = grids["min_max"]
    single = [int(np.argmax(judge.W[:, j])) for j in range(n_runs)]
    linear = [grids[name] for name in judge.baselines if name != "reciprocal_rank"]
    found = {
        EQUAL: judge.values(plain, equal),
        "best single run": _held(judge, [plain], fold, n_folds, single),
        GRID: _held(judge, linear, fold, n_folds),
    }
    if "reciprocal_rank" in grids:
        ranks = grids["reciprocal_rank"]
        found[f"RRF({judge.constant:g})"] = judge.values(ranks, equal)
        found[WEIGHTED_RRF] = _held(judge, [ranks], fold, n_folds)
    return found


def _held(
    judge: _Judge,
    grids: Sequence[_Grid],
    fold: NDArray[np.int64],
    n_folds: int,
    among: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """Values of each fold under the candidate that is best on the other folds."""
    values = np.vstack([g.values if among is None else g.values[among] for g in grids])
    out = np.empty(len(fold))
    for k in range(n_folds):
        best = int(np.argmax(judge.sign * values[:, fold != k].mean(axis=1)))
        out[fold == k] = values[best, fold == k]
    return out


# -- results ------------------------------------------------------------------------------------


def _model(
    data: Dataset,
    weights: NDArray[np.float64],
    spec: RunScores,
    metric: Metric,
    learner: str,
    rrf: NDArray[np.float64] | None,
) -> LinearModel:
    fusion = {"normalization": spec.normalization, "engine": spec.engine, "learner": learner}
    if rrf is not None:
        fusion["rrf_weights"] = rrf.tolist()
    return LinearModel.from_weights(
        weights,
        data.feature_names,
        transforms=(spec,),
        metric=str(metric),
        parameters={"ranker": "fusion", **fusion},
        provenance={"queries": data.n_queries, "rows": data.n_rows},
    )


def _verdict(pairs: Sequence[Pair], metric: Metric, margin: float) -> str:
    """Whether learnt weights are worth having."""
    pair = next(pair for pair in pairs if pair.a == EQUAL)
    interval = f"[{pair.low:+.4f}, {pair.high:+.4f}]"
    gain = pair.high if metric.larger_is_better else -pair.low
    least = pair.low if metric.larger_is_better else -pair.high
    if gain < margin:
        return f"equal weights will do: learnt ones gain {interval}, below the margin {margin:g}"
    if least > 0:
        return f"the learnt weights are better than equal ones by {interval}"
    return f"equal weights will do, as far as these queries can tell: the difference is {interval}"
