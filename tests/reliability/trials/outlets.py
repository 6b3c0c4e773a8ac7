"""Save, load, serve and export a fitted ranker: all must give the same scores."""

from __future__ import annotations

import json
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import rankine
from contracts import export_readers as readers
from rankine.core.errors import ExportError
from rankine.core.specs import ListRange
from rankine.export import ExportOptions, export, targets
from rankine.metrics import evaluate
from rankine.model import LinearModel
from rankine.model.tables import find_tables
from rankine.scoring import Scorer
from rankine.serve.handlers import ScoringHandler
from rankine.serve.limits import Limits
from rankine.serve.registry import Registry, ServedModel
from rankine.transforms.apply import score_dataset
from reference import ranking_metrics as slow
from reliability.trials.problems import Problem

#: Exports that score in float32.
_SINGLE = ("elasticsearch", "opensearch", "solr", "vespa", "xgboost", "eland")
#: Exports that may be too long for their engine.
_LIMITED = ("script",)
#: Exports that have trees only.
_TREES = ("xgboost", "eland")
#: Exports that run in a process of their own, which would take too long here.
_PROCESSES = ("java", "javascript")


class Scores:
    """The correct scores and the allowed difference from them."""

    def __init__(self, model: LinearModel, X: Any, wanted: Any, *, lists: bool) -> None:
        self.wanted = wanted
        # rows in single precision hold what stands for missing values in single precision
        filled = X.dtype == np.float32 and model.missing is not None
        self.tolerance = 1e-6 if filled else 0.0
        X = X.astype(np.float64)
        if model.missing is not None and model.missing.columns:
            X[:, model.missing.columns] = np.where(
                np.isnan(X[:, model.missing.columns]), model.missing.values,
                X[:, model.missing.columns],
            )  # fmt: skip
        # |w| |x| bounds what the order of a sum may change; list scaling leaves |x| <= 1
        large = np.ones(len(X)) if lists else np.nanmax(np.abs(X), axis=1, initial=1.0)
        if find_tables(model) is not None:
            large = np.ones(len(X))
        with np.errstate(over="ignore"):
            self.bound = large * max(1.0, float(np.abs(model.values).sum()))
        if lists:  # a range of 1 over a list may stand far from 0
            self.bound = self.bound * _offset(X)

    def difference_from(self, found: Any, eps: float = 1e-13) -> str:
        """Describe how other scores differ; empty if they do not."""
        found = np.asarray(found, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.abs(found - self.wanted) <= max(eps, self.tolerance) * self.bound + 1e-300
        return "" if near.all() else f"{found.tolist()} for {self.wanted.tolist()}"


def _offset(X: Any) -> float:
    """Return the largest ratio of a feature to its range within a list."""
    span = np.nanmax(X, axis=0, initial=0.0) - np.nanmin(X, axis=0, initial=0.0)
    top = np.nanmax(np.abs(X), axis=0, initial=0.0)
    return float(max(1.0, np.nanmax(np.where(span > 0, top / np.where(span > 0, span, 1), 1))))


def scores_agree(ranker: Any, problem: Problem, folder: Path, rng: Any) -> str:
    """Describe how the exports differ on these rows and on others; empty if they do not."""
    mixed, problem = problem, problem.grouped()
    model = ranker.to_model()
    path = folder / "model.rank"
    model.save(path)
    loaded = LinearModel.load(path)
    if loaded.digest != model.digest:
        return "the loaded model has another digest"
    for name, rows in (("", problem), ("other rows: ", problem.unseen(rng))):
        data = rows.data()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sklearn's word on names
            wanted = ranker.predict(rows.rows, rows.qid)
            if not np.array_equal(score_dataset(loaded, data), wanted, equal_nan=True):
                return f"{name}the loaded model scores otherwise"
            if not np.array_equal(ranker.predict(data), wanted, equal_nan=True):
                return f"{name}predict scores a Dataset otherwise"
            if rows is problem and mixed is not problem:
                order = mixed.data().queries.rows
                again = ranker.predict(mixed.rows, mixed.qid)[order]
                if not np.array_equal(again, wanted, equal_nan=True):
                    return "predict scores lists otherwise whose rows are mixed with others"
        if not np.isfinite(wanted).all():
            if problem.magnitude > 1e100:
                continue
            return f"{name}scores are not finite"
        lists = ranker.scale == "query" and find_tables(model) is None
        expected = Scores(loaded, rows.X, wanted, lists=lists)
        difference = (
            _scored(loaded, rows, expected, rng)
            or _served(loaded, rows, expected, rng)
            or _exported(loaded, rows, expected, seen=rows is problem)
            or _measured(rows, data, wanted, rng)
        )
        if difference:
            return name + difference
    return ""


def _lists(problem: Problem) -> list[Any]:
    """Return the feature matrix of every list."""
    index = problem.data().queries
    X = problem.X.astype(np.float64)
    return [X[a:b] for a, b in zip(index.starts[:-1], index.starts[1:], strict=True)]


def _scored(model: LinearModel, problem: Problem, expected: Scores, rng: Any) -> str:
    sizes = problem.data().queries.sizes
    for name, rows in (("dense", problem.X), ("sparse", sparse.csr_matrix(problem.X))):
        difference = expected.difference_from(Scorer(model).score(rows, group=sizes))
        if difference:
            return f"Scorer of {name} rows gives {difference}"
    if model.column_names is None:
        return ""
    scorer = Scorer(model)
    named = [[_by_name(model, row, rng) for row in rows] for rows in _lists(problem)]
    difference = expected.difference_from(np.concatenate([scorer.score(rows) for rows in named]))
    return f"Scorer of rows by name gives {difference}" if difference else ""


def _by_name(model: LinearModel, row: Any, rng: Any) -> dict[str, float | None]:
    """Return a row by name; some of the values that may be left out are left out."""
    names = model.column_names or [str(j + model.base) for j in range(len(row))]
    absent = np.isnan(row) if find_tables(model) is not None else row == 0
    keep = [not gone or rng.random() < 0.5 for gone in absent]
    values = [None if np.isnan(x) else float(x) for x in row]
    return {
        name: x for name, x, kept in zip(names, values, keep, strict=True) if kept
    }  # fmt: skip


def item(model: LinearModel, row: Any, rng: Any) -> dict[str, Any]:
    """Return a row in the format of the server."""
    if find_tables(model) is not None:
        return {"raw": _by_name(model, row, rng)}
    if model.column_names is not None:
        return {"features": _by_name(model, row, rng)}
    (stored,) = np.nonzero(row)
    return {"indices": (stored + model.base).tolist(), "values": row[stored].tolist()}


def answer(model: LinearModel, lists: list[list[dict[str, Any]]]) -> Any:
    """Return the status and the reply of the server to a batch of lists."""
    registry = Registry()
    registry.put(ServedModel("m", model))
    body = json.dumps({"lists": [{"items": items} for items in lists]}).encode()
    reply = ScoringHandler(registry, Limits()).score(body, on_event_loop=False)
    return reply.status, json.loads(reply.body)


def _served(model: LinearModel, problem: Problem, expected: Scores, rng: Any) -> str:
    if problem.missing and model.column_names is None and find_tables(model) is None:
        return ""  # numbered features have no null
    lists = [[item(model, row, rng) for row in rows] for rows in _lists(problem)]
    status, reply = answer(model, lists)
    if status != 200:
        return f"the server answers {status} {reply}"
    difference = expected.difference_from(np.concatenate([one["scores"] for one in reply["lists"]]))
    return f"the server gives {difference}" if difference else ""


def _exported(model: LinearModel, problem: Problem, expected: Scores, *, seen: bool) -> str:
    """Try every export; a model that cannot be expressed must give an ExportError."""
    for target in sorted(set(targets()).difference(_PROCESSES)):
        try:
            difference = _one_export(model, target, problem, expected, seen=seen)
        except ExportError as error:
            difference = "" if _may_refuse(model, target) else f"is refused: {error}"
        if difference:
            return f"the export {target} {difference}"
    return ""


def _may_refuse(model: LinearModel, target: str) -> bool:
    """Return whether the docs say that an engine cannot express a model."""
    weights, tables = model.values, find_tables(model)
    if not model.nnz or (target in _SINGLE and np.abs(weights).max() > 1e30):
        return True
    if target in _LIMITED:
        return True
    if target in ("python", "json"):
        return False
    if target not in ("onnx", "xgboost") and model.column_names is None:
        return True  # they know features by name
    if tables is None and target in _TREES:
        return True
    if tables is not None:  # engines decide in single precision; Vespa has names of its own
        all_cuts = np.abs([cut for cuts in tables.bins.cuts for cut in cuts])
        large = bool((all_cuts > 1e30).any() or ((all_cuts > 0) & (all_cuts < 1e-37)).any())
        plain = all(str(name).isidentifier() for name in model.column_names or ())
        tiny = bool(((all_cuts > 0) & (all_cuts < 3e-12)).any())  # Solr adds 1e-6 in float32
        return (
            (large and target != "sql")
            or (tiny and target == "solr")
            or (target == "vespa" and not plain)
        )
    rule = None if model.missing is None else model.missing.rule
    if target == "sql":
        return rule == "query_min"
    zero = rule == "zero" and target in ("elasticsearch", "opensearch", "solr")
    return not (rule is None or zero) or any(isinstance(t, ListRange) for t in model.transforms)


def _one_export(
    model: LinearModel, target: str, problem: Problem, expected: Scores, *, seen: bool
) -> str:
    tables = find_tables(model) is not None
    scaled = any(isinstance(one, ListRange) for one in model.transforms)
    own: dict[str, Any] = {"query": "list"} if target == "sql" and scaled else {}
    if not tables:
        own |= {"onnx": {"dtype": "float64"}, "vespa": {"form": "tensor"}}.get(target, {})
    made = export(model, target, ExportOptions(**own))
    X, eps = problem.X.astype(np.float64), 1e-13
    names = model.column_names or [str(j + model.base) for j in range(X.shape[1])]
    if target in _SINGLE or (target in ("onnx", "script") and tables):
        if problem.magnitude > 1e15 or not 1e-15 < np.abs(model.values).min() < 1e15:
            return ""
        eps = 1e-6
    with np.errstate(all="ignore"):
        if target == "python":
            found: Any = _python(made.content, names, problem)
        elif target == "sql":
            found = _sql(made, names, problem, model)
        elif tables:
            if target == "json" or model.column_names is None or not seen:
                return ""  # cuts in single precision are made for the values that were seen
            if target == "onnx":
                found = readers.reader_of("onnx")(made, names, X, X.shape[1], np.arange(X.shape[1]))
            else:
                rows = [dict(zip(names, row, strict=True)) for row in _nulls(X)]
                found = readers.tree_reader_of(target)(made.content)(rows)
        elif target == "json" and model.transforms:
            return ""  # for readers that know the transforms
        else:
            own, at = np.nan_to_num(X)[:, model.indices], model.indices
            found = readers.reader_of(target)(
                made, list(model.weight_names), own, model.n_features, at
            )
    difference = expected.difference_from(found, eps)
    return f"gives {difference}" if difference else ""


def _nulls(X: Any) -> list[list[float | None]]:
    return [[None if np.isnan(x) else x for x in row] for row in X.tolist()]


def _python(content: bytes, names: Any, problem: Problem) -> Any:
    namespace: dict[str, Any] = {}
    exec(content, namespace)  # noqa: S102 - the file under test
    lists = [[dict(zip(names, row, strict=True)) for row in _nulls(X)] for X in _lists(problem)]
    return np.concatenate([namespace["scores"](rows) for rows in lists])


def _sql(made: Any, names: Any, problem: Problem, model: LinearModel) -> Any:
    """Score with SQLite. NULL is a missing value if the model has a rule for it, else 0."""
    rows = _nulls(problem.X.astype(np.float64))
    if model.missing is None and find_tables(model) is None:
        rows = [[x or None for x in row] for row in rows]
    columns = ", ".join(f"{readers.quoted(name)} REAL" for name in names)
    places = ", ".join("?" * (2 + len(names)))
    numbers = problem.data().queries.codes.tolist()
    with sqlite3.connect(":memory:") as database:
        database.execute(f'CREATE TABLE t ("row" INTEGER, "list" INTEGER, {columns})')
        values = [[k, q, *row] for k, (q, row) in enumerate(zip(numbers, rows, strict=True))]
        database.executemany(f"INSERT INTO t VALUES ({places})", values)  # noqa: S608
        text = made.content.decode()
        found = database.execute(f'SELECT "row", \n{text} FROM t').fetchall()  # noqa: S608
    return [score for _, score in sorted(found)]


#: Metric -> its definition of labels in ranked order.
_SLOW: dict[str, Any] = {
    "ndcg@3": lambda order: slow.ndcg(order, 3),
    "ndcg": slow.ndcg,
    "dcg@2": lambda order: slow.dcg(order, 2),
    "map": slow.average_precision,
    "mrr": slow.reciprocal_rank,
    "recall@2": lambda order: slow.recall(order, 2),
    "precision@3": lambda order: slow.precision(order, 3),
    "err@4": lambda order: slow.err(order, 4),
}


def _measured(problem: Problem, data: rankine.Dataset, scores: Any, rng: Any) -> str:
    """Compare metrics with their definitions, also for scaled and shifted scores."""
    starts = data.queries.starts
    lists = [(data.y[a:b], scores[a:b]) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    kept = [(y, s) for y, s in lists if len(set(y)) > 1]
    slowly = [slow.pairwise_error(list(y), list(s)) for y, s in kept]
    fast = evaluate("pairwise-error", data.y, scores, data.queries, per_query=True)
    fast = fast[~np.isnan(fast)]
    if not np.allclose(fast, slowly):
        return f"pairwise error {fast} is {slowly} by definition"
    if (problem.y < 0).any() or (problem.y != np.round(problem.y)).any():
        return ""
    name = rng.choice(sorted(_SLOW))
    in_file_order = f"{name}:ties=file"  # as the definitions order equal scores
    slowly = [_SLOW[name](slow.ranked(list(y), list(s))) for y, s in lists if y.max() > 0]
    fast = evaluate(in_file_order, data.y, scores, data.queries, per_query=True)
    known_values = [value for value, (y, _) in zip(fast, lists, strict=True) if y.max() > 0]
    if not np.allclose(known_values, slowly):
        return f"{name} {known_values} is {slowly} by definition"
    known = ~np.isnan(fast)
    if not known.any():
        return ""
    weights = np.arange(1.0, len(lists) + 1)
    mean = evaluate(in_file_order, data.y, scores, data.queries, query_weight=weights)
    if not np.isclose(mean, np.average(fast[known], weights=weights[known])):
        return f"the weighted mean of {name} is {mean}"
    places = np.unique(scores, return_inverse=True)[1].astype(np.float64)
    same = (scores, scores * 2.0**-4, places, places + 7.0, -100.0 + places)
    values = {evaluate(in_file_order, data.y, one, data.queries) for one in same}
    return "" if len(values) == 1 else f"{name} of other scores in the same order: {values}"
