"""Ways out of a fitted ranker: saved, loaded, served and exported, it gives the same scores."""

from __future__ import annotations

import importlib.util
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
from rankine.export import ExportOptions, export, targets
from rankine.metrics import evaluate
from rankine.model import LinearModel
from rankine.model.tables import tables_of
from rankine.scoring import Scorer
from rankine.serve.answers import Worker
from rankine.serve.limits import Limits
from rankine.serve.registry import Registry, Served
from rankine.transforms.apply import score_dataset
from reference import ranking_metrics as slow
from reliability.trials.problems import Problem

#: Exports that score in float32.
_SINGLE = ("elasticsearch", "opensearch", "solr", "vespa", "xgboost")


class Scores:
    """Scores that are right, and how far another way may be from them."""

    def __init__(self, model: LinearModel, X: Any, wanted: Any, *, lists: bool) -> None:
        self.wanted = wanted
        # |w| |x| bounds what the order of a sum may change; list scaling leaves |x| <= 1
        large = np.ones(len(X)) if lists else np.nanmax(np.abs(X), axis=1, initial=1.0)
        if tables_of(model) is not None:
            large = np.ones(len(X))
        with np.errstate(over="ignore"):
            self.bound = large * max(1.0, float(np.abs(model.values).sum()))
        if lists:  # a range of 1 over a list may stand far from 0
            self.bound = self.bound * _offset(X)

    def differ(self, found: Any, eps: float = 1e-13) -> str:
        """What is wrong with other scores; empty when nothing is."""
        found = np.asarray(found, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.abs(found - self.wanted) <= eps * self.bound + 1e-300
        return "" if near.all() else f"{found.tolist()} for {self.wanted.tolist()}"


def _offset(X: Any) -> float:
    """How large a feature may be beside its range within a list."""
    span = np.nanmax(X, axis=0, initial=0.0) - np.nanmin(X, axis=0, initial=0.0)
    top = np.nanmax(np.abs(X), axis=0, initial=0.0)
    return float(max(1.0, np.nanmax(np.where(span > 0, top / np.where(span > 0, span, 1), 1))))


def scores_agree(ranker: Any, given: Problem, folder: Path, rng: Any) -> str:
    """What differs between the ways out; empty when nothing does."""
    given = given.grouped()
    data = given.data()
    model = ranker.to_model()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sklearn's word on names
        wanted = ranker.predict(given.rows, given.qid)
        path = folder / "model.rank"
        model.save(path)
        loaded = LinearModel.load(path)
        if loaded.digest != model.digest:
            return "the loaded model has another digest"
        if not np.array_equal(score_dataset(loaded, data), wanted, equal_nan=True):
            return "the loaded model scores otherwise"
        if not np.array_equal(ranker.predict(data), wanted, equal_nan=True):
            return "predict scores a Dataset otherwise"
    if not np.isfinite(wanted).all():
        return "" if given.wide > 1e100 else "scores are not finite"
    X = given.X.astype(np.float64)
    lists = ranker.scale == "query" and tables_of(model) is None
    right = Scores(loaded, X, wanted, lists=lists)
    return (
        _scored(loaded, given, right)
        or _served(loaded, given, right)
        or _exported(loaded, given, right, folder, rng)
        or _measured(given, data, wanted)
    )


def _scored(model: LinearModel, given: Problem, right: Scores) -> str:
    sizes = given.data().queries.sizes
    for name, rows in (("dense", given.X), ("sparse", sparse.csr_matrix(given.X))):
        if name == "sparse" and given.missing:
            continue
        trouble = right.differ(Scorer(model).score(rows, group=sizes))
        if trouble:
            return f"Scorer of {name} rows gives {trouble}"
    return ""


def item(model: LinearModel, row: Any) -> dict[str, Any]:
    """A row as the server takes it."""
    if tables_of(model) is not None or model.column_names is not None:
        names = model.column_names or [str(j + model.base) for j in range(len(row))]
        values = [None if np.isnan(x) else float(x) for x in row]
        form = "raw" if tables_of(model) is not None else "features"
        return {form: dict(zip(names, values, strict=True))}
    (stored,) = np.nonzero(row)
    return {"indices": (stored + model.base).tolist(), "values": row[stored].tolist()}


def answer(model: LinearModel, lists: list[list[dict[str, Any]]]) -> Any:
    """What the server answers to a batch of lists, or its refusal."""
    registry = Registry()
    registry.put(Served("m", model))
    body = json.dumps({"lists": [{"items": items} for items in lists]}).encode()
    reply = Worker(registry, Limits()).score(body, hurried=False)
    return reply.status, json.loads(reply.body)


def _served(model: LinearModel, given: Problem, right: Scores) -> str:
    index = given.data().queries
    spans = list(zip(index.starts[:-1], index.starts[1:], strict=True))
    lists = [[item(model, row) for row in given.X[a:b].astype(np.float64)] for a, b in spans]
    status, reply = answer(model, lists)
    if status != 200:
        return f"the server answers {status} {reply}"
    trouble = right.differ(np.concatenate([one["scores"] for one in reply["lists"]]))
    return f"the server gives {trouble}" if trouble else ""


def _python(content: bytes, names: list[str], X: Any, folder: Path) -> Any:
    path = folder / "exported.py"
    path.write_bytes(content)
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scores([dict(zip(names, row, strict=True)) for row in X.tolist()])


def _sql(result: Any, names: list[str], X: Any) -> Any:
    create, insert, query = readers.sql_script(result, names, X)
    with sqlite3.connect(":memory:") as database:
        database.execute(create)
        database.execute(insert)
        return [score for _, score in sorted(database.execute(query).fetchall())]


def _exported(model: LinearModel, given: Problem, right: Scores, folder: Path, rng: Any) -> str:
    """One export, drawn; what cannot be expressed is refused with a typed error."""
    target = rng.choice(sorted(targets()))
    if tables_of(model) is not None or model.transforms or not model.nnz:
        return _refused_or_made(model, target)
    try:
        own = {"onnx": {"dtype": "float64"}, "vespa": {"form": "tensor"}}.get(target, {})
        result = export(model, target, ExportOptions(**own))
    except ExportError as error:
        # some engines know features by name only, and float32 ends at 3e38
        fine = model.column_names is None or np.abs(model.values).max() > 1e30
        return "" if fine else f"the export {target} is refused: {error}"
    names, X = list(model.weight_names), given.X.astype(np.float64)[:, model.indices]
    eps = 1e-13
    with np.errstate(all="ignore"):
        if target in _SINGLE:
            if given.wide > 1e15 or not 1e-15 < np.abs(model.values).min() < 1e15:
                return ""
            read = {"solr": readers.read_solr, "vespa": readers.read_vespa_tensor}
            if target == "xgboost":
                found = readers.read_xgboost(result, names, X, model.indices)
            else:
                found = read.get(target, readers.read_ltr)(result, names, X)
            eps = 1e-6
        elif target == "json":
            found = readers.read_json(result, names, X)
        elif target == "onnx":
            found = readers.read_onnx(result, names, X, model.n_features, model.indices)
        elif target == "python":
            found = _python(result.content, names, X, folder)
        elif target == "sql":
            found = _sql(result, names, X)
        else:
            return f"no reader for the export {target}"
    trouble = right.differ(found, eps)
    return f"the export {target} gives {trouble}" if trouble else ""


def _refused_or_made(model: LinearModel, target: str) -> str:
    try:
        return "" if export(model, target).content else f"the export {target} is empty"
    except ExportError:
        return ""


def _measured(given: Problem, data: rankine.Dataset, scores: Any) -> str:
    """Metrics against their definitions, and after scores were doubled."""
    starts = data.queries.starts
    lists = [(data.y[a:b], scores[a:b]) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    kept = [(y, s) for y, s in lists if len(set(y)) > 1]
    slowly = [slow.pairwise_error(list(y), list(s)) for y, s in kept]
    fast = evaluate("pairwise-error", data.y, scores, data.queries, per_query=True)
    fast = fast[~np.isnan(fast)]
    if not np.allclose(fast, slowly):
        return f"pairwise error {fast} is {slowly} by definition"
    if (given.y < 0).any() or (given.y != np.round(given.y)).any():
        return ""
    slowly = [slow.ndcg(slow.ranked(list(y), list(s)), 3) for y, s in lists if y.max() > 0]
    fast = evaluate("ndcg@3", data.y, scores, data.queries, per_query=True)
    right = [value for value, (y, _) in zip(fast, lists, strict=True) if y.max() > 0]
    if not np.allclose(right, slowly):
        return f"ndcg@3 {right} is {slowly} by definition"
    weights = np.arange(1.0, len(lists) + 1)
    mean = evaluate("ndcg@3", data.y, scores, data.queries, query_weight=weights)
    known = ~np.isnan(fast)
    if not np.isclose(mean, np.average(fast[known], weights=weights[known])):
        return f"the weighted mean of ndcg@3 is {mean}"
    values = {evaluate("ndcg@3", data.y, scores * 2.0**k, data.queries) for k in (0, -4)}
    return "" if len(values) == 1 else f"ndcg@3 of scores in other units is another: {values}"
