"""Valid but unusual problems: every way into a ranker and out of its model says the same.

A way in is arrays, a frame, a ``Dataset``, a group vector with empty lists, files, streams in
blocks of several sizes, partitions, other threads. Ways of one group must give the same bits or
the same class of error; partitions must reach the optimum within the certificates. A model is
saved, loaded, served and exported (``outlets``). Objectives and optima of small problems are held
against
definitions, and a problem against what must not change it: rows and queries in another order, a
shifted column, a column in other units, weights split over copies. Raw logs have their own cases.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.exceptions import ConvergenceWarning

import rankine
import rankine.distributed
from rankine import logs
from rankine.core.errors import RankineError
from rankine.logs.source import read_for
from rankine.rankers.registry import ranker_class
from rankine.scoring import Scorer
from rankine.transforms.apply import score_dataset
from rankine.transforms.scaling import fit_scaling
from reference.pairs import pair_risk
from reference.slow_domination import brute_loss
from reliability.harness.outcome import Job, Outcome
from reliability.trials.outlets import answer, scores_agree
from reliability.trials.problems import Problem, problem, raw_log

#: What is compiled anyway: the kernels of a run are those of these settings.
SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("spd", {"n_steps": 300}),
    ("spd", {"n_steps": 300, "sampling": "uniform", "solver": "passive_aggressive"}),
    ("spd", {"n_steps": 300, "sampling": "rejection", "solver": "romma"}),
    ("spd", {"n_steps": 300, "propensity": [1.0, 0.5, 0.2], "max_weight": 4.0}),
    ("spd", {"n_steps": 300, "solver": "logistic"}),
    ("spd", {"n_steps": 300, "sampling": "indexed", "solver": "sgd_svm"}),
    ("ranksvm", {"tol": 1e-3}),
    ("ranksvm", {"tol": 1e-3, "propensity": [1.0, 0.5], "position_offset": 2}),
    ("ranksvm", {"loss": "squared_hinge", "normalization": "pair", "tol": 1e-6}),
    ("ranksvm", {"loss": "logistic", "normalization": "sum", "tol": 1e-6}),
    ("least-squares", {}),
    ("least-squares", {"normalization": "pair", "solver": "egdm"}),
    ("least-squares", {"pairs": "untied", "normalization": "pair", "propensity": [1.0, 0.5]}),
    ("least-squares", {"pairs": "untied", "normalization": "sum"}),
    ("domination", {"l1": 0.1, "tol": 1e-3}),
    ("domination", {"l1": 0.01, "l2": 0.1, "normalization": "query", "solver": "cd_plain"}),
    ("elastic", {"n_passes": 2}),
    ("elastic", {"solver": "fobos", "batch_lists": 2, "propensity": [1.0, 0.5, 0.2]}),
    ("elastic", {"adaptive": False, "objective": "pairwise"}),
    ("elastic", {"solver": "psgd", "objective": "map", "loss": "hinge", "l1": 0.0}),
    ("elastic", {"solver": "tgd", "objective": "pointwise", "loss": "squared", "l2": 0.0}),
    ("additive", {"bins": 4, "pairs": 1, "smooth": 1.0}),
    ("additive", {"bins": 3, "pairs": 0, "smooth": 1.0, "loss": "softmax"}),
)
SCALES = ("none", "standard", "maxabs", "query", "auto")
#: What may stand for missing values.
RULES = ("zero", "mean", "query_min", "indicator")
BATCH = ("ranksvm", "least-squares", "domination")
#: For runs on a few rankers, or on logs ("log"), only.
CHOSEN = [name for name in os.environ.get("RELIABILITY_ONLY", "").split(",") if name]
#: One case in so many is a raw log.
LOGS = 6


class Way(NamedTuple):
    """How data reach a ranker; ways of one ``group`` promise the same bits."""

    group: str
    name: str
    fit: Any
    threads: int = 1


class Setting(NamedTuple):
    """A ranker, its options, its scale, what stands for missing values."""

    system: str
    options: dict[str, Any]
    scale: str
    missing: str = "auto"

    def ranker(self, **more: Any) -> Any:
        own = {} if self.system == "additive" else {"scale": self.scale, "missing": self.missing}
        return ranker_class(self.system)(random_state=0, **{**own, **self.options, **more})


def ways(given: Problem, folder: Any, setting: Setting) -> list[Way]:
    """Every way from a problem to a fitted ranker."""
    data, more = given.data(), {"query_weight": given.query_weight}
    kinds = ranker_class(setting.system).capabilities
    found = [
        Way("memory", "Dataset", lambda r: r.fit(data, **more)),
        Way("memory", "two threads", lambda r: r.fit(data, **more), 2),
    ]
    if "propensity" not in setting.options:
        found += _arrays(given, more)
    reading = {
        "dtype": str(given.X.dtype),
        "dense": not given.sparse,
        "qid_type": "str" if given.qid.dtype.kind == "U" else "int",
    }
    # What is promised of streams: other blocks, the same bits; of tables, and of a sample that
    # holds everything, also those of memory; of one pass, those of rows that are handed over.
    streams = "memory" if setting.system == "additive" else "stream"
    sampled = setting.system == "spd" and not {"sampling", "propensity"} & set(setting.options)
    for suffix in ("txt", "parquet"):
        if suffix == "txt" and "propensity" in setting.options:
            continue
        path, own = folder / f"rows.{suffix}", {**reading, "qid_type": "int"}
        if suffix == "txt":
            replace(given, weight=None, position=None).data().save(path)
            own = {**reading, "n_features": data.n_features, "sample_weight": given.weight,
                   "feature_names": given.names}  # fmt: skip
        else:
            data.save(path)
        loaded = lambda r, p=path, o=own: r.fit(rankine.load(p, **o), **more)  # noqa: E731
        found.append(Way("memory", suffix, loaded))
        if "stream" in kinds.fit and data.queries.rows is None:
            found += [
                Way(
                    streams, f"{suffix} in blocks of {k} rows",
                    lambda r, p=path, o=own, k=k: r.fit(rankine.scan(p, block_rows=k, **o), **more),
                )
                for k in (1, 7, 70, 1000)
            ]  # fmt: skip
            if sampled:

                def keep(r: Any, p: Any = path, o: Any = own) -> Any:
                    r.set_params(sampling="reservoir")
                    return r.fit(rankine.scan(p, block_rows=7, **o), **more)

                found.append(Way("memory", f"{suffix} kept in a reservoir", keep))
    one_pass = setting.system == "elastic" and setting.options.get("n_passes", 1) == 1
    if one_pass and data.queries.rows is None:
        found.append(Way(streams, "partial_fit", lambda r: r.partial_fit(data, **more)))
    return found


def _arrays(given: Problem, more: dict[str, Any]) -> list[Way]:
    """Arrays, a frame, and a group vector in which lists are empty."""
    y, weight, rows = given.y, given.weight, given.rows
    found = [
        Way("memory", "arrays",
            lambda r: r.fit(rows, y, qid=given.qid, sample_weight=weight, **more)),
    ]  # fmt: skip
    if given.names is not None and not given.sparse:
        frame = pd.DataFrame(given.X, columns=list(given.names)).assign(qid=given.qid)
        found.append(
            Way("memory", "frame", lambda r: r.fit(frame, y, sample_weight=weight, **more))
        )
    index = given.data().queries
    if index.rows is None:
        sizes = np.zeros(2 * index.n_queries + 1, dtype=np.int64)
        sizes[1::2] = index.sizes
        weights = more["query_weight"]
        each = None if weights is None else [weights[q] for q in index.ids.tolist()]
        found.append(
            Way("memory", "empty groups",
                lambda r: r.fit(rows, y, group=sizes, sample_weight=weight, query_weight=each))
        )  # fmt: skip
    return found


def outcome_of(fit: Any, ranker: Any, threads: int = 1, given: Problem | None = None) -> Any:
    """The fitted ranker, with its scores of a problem's rows, or the class of the error."""
    os.environ["RANKINE_NUM_THREADS"] = str(threads)
    try:
        with warnings.catch_warnings(record=True) as said, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            fit(ranker)
            ranker.agreement_scores = None if given is None else ranker.predict(
                given.X, given.qid
            )  # fmt: skip
    except RankineError as error:
        return type(error).__name__
    ranker.agreement_sure = not any(issubclass(w.category, ConvergenceWarning) for w in said)
    return ranker


def told(found: Any) -> str:
    """An outcome in a few words."""
    return found if isinstance(found, str) else f"weights {found.coef_.tolist()}"


def same(one: Any, other: Any) -> bool:
    """The same bits, or the same class of error."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    return np.array_equal(one.coef_, other.coef_) and (
        one.agreement_scores is None
        or other.agreement_scores is None
        or np.array_equal(one.agreement_scores, other.agreement_scores, equal_nan=True)
    )


def sure(*found: Any) -> bool:
    """Whether all are fitted, with a certificate that holds."""
    return all(not isinstance(one, str) and one.agreement_sure for one in found)


def same_optimum(one: Any, other: Any) -> bool:
    """Objectives within the certificates of both (least squares: of its residual)."""
    if not sure(one, other):
        return True
    first, second = one.solution_, other.solution_
    slack = 1e-9 + max(
        s.certificate.get("gap", 10 * s.certificate.get("residual", 0.0)) for s in (first, second)
    )
    size = max(1.0, abs(first.objective), abs(second.objective))
    return abs(first.objective - second.objective) <= slack * size


# -- small problems against definitions


def objective(setting: Setting, ranker: Any, given: Problem) -> Any:
    """J(w) from its definition."""
    X, qid, weight = np.nan_to_num(given.X.astype(np.float64)), given.qid, given.weight
    of_query = given.query_weight
    weight = np.ones(len(X)) if weight is None else weight
    if setting.system == "domination":
        l1, l2 = ranker.l1, ranker.l2 or 0.0
        how = {"weight": weight, "query_weight": of_query, "mean": ranker.normalization == "query"}
        return lambda w: (
            l1 * np.abs(w).sum() + l2 / 2 * w @ w + brute_loss(w, X, given.y, qid, **how)
        )
    if setting.system == "ranksvm":
        how = (setting.options.get("loss", "hinge"), ranker.normalization, weight, of_query)
        return lambda w: ranker.l2 / 2 * w @ w + pair_risk(X @ w, given.y, qid, *how)[0]
    return lambda w: ranker.l2_ / 2 * w @ w + _residuals(X @ w - given.y, given, ranker, weight)


def _residuals(e: Any, given: Problem, ranker: Any, s: Any) -> float:
    """omega_q |L_q e|^2 summed over queries of two labels, pair by pair."""
    of_query = given.query_weight or {}
    total, mass, all_pairs = 0.0, 0.0, 0.0
    for q in dict.fromkeys(given.qid.tolist()):
        rows = np.flatnonzero((given.qid == q) & (s > 0))
        v = of_query.get(q, 1.0)
        if v == 0 or len(set(given.y[rows].tolist())) < 2:
            continue
        untied = given.y[rows][:, None] != given.y[rows][None, :]
        pairs = np.outer(s[rows], s[rows]) * (untied if ranker.pairs == "untied" else 1.0)
        own = (pairs * (e[rows][:, None] - e[rows][None, :]) ** 2).sum() / (2 * s[rows].sum())
        if ranker.normalization == "pair":  # (d_i - d_j)^2 over all pairs, each once
            own *= s[rows].sum()
            among = s[rows].sum() ** 2 - (s[rows] ** 2).sum()
            all_pairs += v * (pairs.sum() if ranker.pairs == "untied" else among) / 2
        elif ranker.normalization == "query":
            own /= s[rows].sum()
        total, mass = total + v * own, mass + v
    divisor = {"sum": 1.0, "query": mass, "pair": all_pairs}[ranker.normalization]
    return total / max(divisor, 1e-300)


def by_definition(setting: Setting, found: Any, given: Problem, rng: Any) -> str:
    """What is wrong with the objective or the optimum; empty when nothing is."""
    small = len(given.y) <= 40 and 1e-3 < given.wide < 1e3 and setting.scale == "none"
    heavy = given.weight is not None and given.weight.max() > 100
    light = any(v > 100 for v in (given.query_weight or {}).values())
    if not small or heavy or light or setting.system not in BATCH:
        return ""
    if "propensity" in setting.options or (given.missing and setting.missing != "zero"):
        return ""
    value = objective(setting, found, given)
    at = value(found.coef_)
    if not np.isclose(at, found.solution_.objective, rtol=1e-7, atol=1e-9):
        return f"objective {found.solution_.objective} is {at} by definition"
    if not sure(found):
        return ""
    random = np.random.default_rng(rng.getrandbits(32))
    zero = value(np.zeros_like(found.coef_))
    for step in (1.0, 0.1, 0.01, -0.01, 1e-3):
        other = found.coef_ * (1 + step)
        if rng.random() < 0.7:
            other = found.coef_ + step * random.normal(size=len(found.coef_))
        if value(other) < at - 1.01 * found.tol * max(zero, 1e-12) - 1e-9:
            return f"objective {at} is no optimum: {value(other)} at {other.tolist()}"
    return ""


# -- what must change nothing


class Change(NamedTuple):
    """Two problems (``before`` None: as it was fitted) and what must hold of their rankers."""

    name: str
    before: Problem | None
    after: Problem
    holds: Any
    #: What both are fitted with.
    setting: Any = None


def changed(given: Problem, setting: Setting, rng: Any) -> Change | None:
    """A change of a problem that must change nothing; None where nothing is promised."""
    batch = setting.system in BATCH and "propensity" not in setting.options
    names = [_other_units]
    if batch:
        names += [_order, _shift, _storage, _no_weight, _query_copies, _row_copies]
    elif setting.options.get("objective") == "pairwise":
        names += [_row_copies]
    # Systems that give each query the same share, whatever its rows weigh.
    apart = setting.system in ("spd", "ranksvm", "least-squares", "additive")
    apart &= setting.missing != "mean"  # which is that of heavy rows
    if apart and not {"normalization", "sampling", "propensity"} & set(setting.options):
        names += [_heavy_query]
    random = np.random.default_rng(rng.getrandbits(32))
    rng.shuffle(names)
    return next(filter(None, (change(given, setting, rng, random) for change in names)), None)


def _unscaled(given: Problem, setting: Setting) -> tuple[Problem | None, Setting]:
    """The setting without a scale, and what to fit again with it."""
    fresh = setting.scale != "none" and setting.system != "additive"
    return (given if fresh else None), setting._replace(scale="none")


def _heavy_query(given: Problem, setting: Setting, rng: Any, random: Any) -> Change:
    """One query whose rows are heavy or light; means and ranges would be those of heavy rows."""
    usual = np.ones(len(given.y)) if given.weight is None else given.weight
    here = given.qid == random.choice(np.unique(given.qid))
    heavy = np.where(here, usual * 2.0 ** rng.choice((60, -60)), usual)
    _, plain = _unscaled(given, setting)
    after = replace(given, weight=heavy)
    return Change("heavy query", replace(given, weight=usual), after, same, plain)


def _storage(given: Problem, setting: Setting, rng: Any, random: Any) -> Change:
    del setting, rng, random
    return Change("storage", None, replace(given, sparse=not given.sparse), same_optimum)


def _order(given: Problem, setting: Setting, rng: Any, random: Any) -> Change:
    del setting, rng
    queries = random.permutation(np.unique(given.qid))
    rows = [random.permutation(np.flatnonzero(given.qid == q)) for q in queries]
    return Change("order", None, given.take(np.concatenate(rows)), same_optimum)


def _shift(given: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """A constant added to a column moves all scores of a list alike."""
    del random
    if not 1e-3 < given.wide < 1e3 or given.X.dtype == np.float32 or given.missing:
        return None
    X = given.X.copy()
    X[:, rng.randrange(X.shape[1])] += rng.choice((0.5, -2.0))
    before, plain = _unscaled(given, setting)
    return Change("shift", before, replace(given, X=X), same_optimum, plain)


def _no_weight(given: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """Rows and queries that weigh nothing, and without them."""
    usual = np.ones(len(given.y)) if given.weight is None else given.weight
    if (usual > 0).all() and rng.random() < 0.8:
        given = replace(given, weight=np.where(random.random(len(usual)) < 0.3, 0.0, usual))
    none = {q for q, v in (given.query_weight or {}).items() if v == 0}
    gone = np.isin(given.qid, sorted(none))
    gone |= False if given.weight is None else given.weight == 0
    if gone.all() or not gone.any() or setting.missing == "query_min":
        return None  # the smallest value of a list is that of any row
    _, plain = _unscaled(given, setting)
    return Change("no weight", given, given.take(np.flatnonzero(~gone)), same_optimum, plain)


def _row_copies(given: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """Rows of weight 2, and the rows twice."""
    del rng
    own = setting.options
    all_pairs = setting.system == "least-squares" and own.get("pairs", "all") == "all"
    if all_pairs and own.get("normalization") == "pair":
        return None  # the docs name the factor by which it differs
    twice = np.flatnonzero(random.random(len(given.y)) < 0.3)
    heavy = np.ones(len(given.y)) if given.weight is None else given.weight.copy()
    heavy[twice] *= 2
    copies = given.take(np.concatenate([np.arange(len(given.y)), twice]))
    # sums in another order round otherwise, and so does every feature
    _, plain = _unscaled(given, setting)
    holds = same_optimum if setting.system in BATCH else _same_steps
    return Change("row copies", replace(given, weight=heavy), copies, holds, plain)


def _same_steps(one: Any, other: Any) -> bool:
    """Steps that were summed in another order."""
    size = max(np.abs(one.coef_).max(initial=0.0), np.abs(other.coef_).max(initial=0.0))
    return np.abs(one.coef_ - other.coef_).max(initial=0.0) <= 1e-6 * size or size > 1e3


def _other_units(given: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """One column times a power of two: its weight is divided by it, bit for bit."""
    del random
    fine = 1e-30 < given.wide < 1e30 and setting.scale not in ("none", "auto")
    if not fine and setting.system != "additive":
        return None
    j, factor = rng.randrange(given.X.shape[1]), 2.0 ** rng.choice((-9, -1, 3, 10))
    X = given.X.copy()
    X[:, j] *= X.dtype.type(factor)

    def holds(one: Any, other: Any) -> bool:
        if isinstance(one, str) or isinstance(other, str):
            return same(one, other)
        if setting.scale == "query" or len(one.coef_) != X.shape[1]:
            return np.array_equal(one.coef_, other.coef_)
        weights = other.coef_.copy()
        weights[j] *= factor
        return np.array_equal(one.coef_, weights)

    return Change("column", None, replace(given, X=X), holds)


def _query_copies(given: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """A query of weight 2 and two copies of it."""
    del rng
    q = random.choice(np.unique(given.qid))
    old = dict.fromkeys(np.unique(given.qid).tolist(), 1.0) | (given.query_weight or {})
    key = q.item() if hasattr(q, "item") else q
    if old[key] == 0:
        return None
    rows = np.flatnonzero(given.qid == q)
    copies = given.take(np.concatenate([np.arange(len(given.y)), rows]))
    fresh = copies.qid.copy()
    other = 1000 if fresh.dtype.kind != "U" else "zz"
    fresh[len(given.y) :] = other
    copies = replace(copies, qid=fresh, docid=None, query_weight={**old, other: old[key]})
    heavy = replace(given, docid=None, query_weight={**old, key: 2 * old[key]})
    _, plain = _unscaled(given, setting)
    return Change("query copies", heavy, copies, same_optimum, plain)


# -- the trial


def try_problem(case: str, rng: Any, folder: Any, outcome: Outcome) -> None:
    """One problem in every way."""
    system, options = rng.choice([s for s in SETTINGS if not CHOSEN or s[0] in CHOSEN])
    given = problem(rng)
    rule = rng.choice(RULES) if given.missing and system != "additive" else "auto"
    setting = Setting(system, options, rng.choice(SCALES), rule)
    where = f"{case} {system} {options} scale={setting.scale} missing={rule}"
    first: dict[str, tuple[str, Any]] = {}
    for way in ways(given, folder, setting):
        found = outcome_of(way.fit, setting.ranker(), way.threads, given)
        name, wanted = first.setdefault(way.group, (way.name, found))
        if way.name == "partial_fit" and wanted == "NoPairsError":
            continue  # what comes in pieces may begin without a pair
        outcome.require(
            same(wanted, found), "unequal",
            f"{where}: {name} {told(wanted)}, {way.name} {told(found)}",
        )  # fmt: skip
        if not isinstance(found, str):
            outcome.require(
                np.isfinite(found.coef_).all(), "misread", f"{where}: {way.name} {told(found)}"
            )
    fitted = first["memory"][1]
    # Other steps, which may diverge elsewhere, but no other refusal; rows in memory are two at
    # least, and rejection gives up there alone.
    excused = len(given.y) == 1 or options.get("sampling") == "rejection"
    if "stream" in first and not excused:
        name, streamed = first["stream"]
        ends = {end if isinstance(end, str) else "" for end in (fitted, streamed)}
        outcome.require(
            len(ends - {"DivergenceError"}) <= 1, "unequal",
            f"{where}: memory {told(fitted)}, {name} {told(streamed)}",
        )  # fmt: skip
    outcome.counts["refused" if isinstance(fitted, str) else "fitted"] += 1
    _try_partitions(where, rng, folder, outcome, (given, setting, fitted))
    _try_change(where, rng, outcome, (given, setting, fitted))
    if not isinstance(fitted, str):
        for trouble in (
            _stored_otherwise(setting, given),
            _near_optimum(given, folder, rng) if system == "spd" else "",
            by_definition(setting, fitted, given, rng),
            scores_agree(fitted, given, folder, rng),
        ):
            outcome.require(not trouble, "unequal", f"{where}: {trouble}")


def _stored_otherwise(setting: Setting, given: Problem) -> str:
    """What dense and sparse rows of a problem, with its weights, are divided by: the same bits."""
    if setting.system == "additive":
        return ""
    one, other = (
        fit_scaling(setting.scale, replace(given, sparse=thin).data(), setting.missing).factors
        for thin in (False, True)
    )
    if not (one is other is None or np.array_equal(one, other)):
        return f"dense rows are multiplied by {one}, sparse ones by {other}"
    if setting.scale not in ("standard", "maxabs") or given.missing or given.wide > 1e100:
        return ""
    X, weight = given.X.astype(np.float64), given.weight
    weight = np.ones(len(X)) if weight is None else weight
    largest = np.abs(X).max(axis=0, initial=0.0, where=weight[:, None] > 0)
    slow = largest
    if setting.scale == "standard":
        unit = X / np.where(largest > 0, largest, 1.0)
        slow = largest * np.sqrt(np.average((unit - np.average(unit, 0, weight)) ** 2, 0, weight))
        slow = np.where(slow > 1e-12 * largest, slow, largest)
    slow = 1 / np.where(slow > 0, slow, 1.0)
    # a deviation that is nothing but rounding is no deviation
    sharp = np.abs(one - slow) <= 1e-9 * slow
    sharp |= slow * largest > 1e5
    return "" if sharp.all() else f"columns are multiplied by {one}, not by {slow}"


#: How far from the optimum of all pairs, as a part of the loss of no weights, 20,000 steps may end.
NEAR = 0.006


def _near_optimum(given: Problem, folder: Any, rng: Any) -> str:
    """Sampled steps in memory, streams and partitions end where RankSVM of the same pairs does."""
    if not 1e-6 < given.wide < 1e6 or given.missing or rng.random() < 0.5:
        return ""
    given = given.grouped()
    kinds = [("query", "query"), ("uniform", "pair"), ("rejection", "pair")]
    if given.weight is not None or given.query_weight is not None:
        kinds.pop()  # rejection finds no pair in a million trials where it weighs too little
    sampling, normalization = rng.choice(kinds)
    l2 = 0.1 * float((given.X.astype(np.float64) ** 2).sum(axis=1).max())
    path, more = folder / "near.parquet", {"query_weight": given.query_weight}
    data = given.data()
    data.save(path)
    exact = ranker_class("ranksvm")(l2=l2, scale="none", normalization=normalization, tol=1e-4)
    best = outcome_of(lambda r: r.fit(data, **more), exact)
    if not sure(best):
        return ""
    value = objective(Setting("ranksvm", {}, "none"), best, given)
    reading = {"dtype": str(given.X.dtype), "dense": not given.sparse}
    sources: dict[str, Any] = {
        "memory": (lambda: data, {}),
        "a stream": (lambda: rankine.scan(path, block_rows=7, **reading), {"n_passes": 300}),
    }
    if given.query_weight is None:
        sources["partitions"] = (lambda: rankine.distributed.scan(str(path), **reading), {})
    steps = Setting("spd", {"n_steps": 20_000, "l2": l2, "sampling": sampling}, "none")
    for name, (source, own) in sources.items():
        found = outcome_of(lambda r, s=source: r.fit(s(), **more), steps.ranker(**own))
        if isinstance(found, str):
            return f"{sampling} draws of {name}: {found}"
        gap = value(found.coef_) - value(best.coef_)
        if gap > NEAR:
            return f"{sampling} draws of {name} end {gap} above the optimum, at {told(found)}"
    return ""


def _try_partitions(where: str, rng: Any, folder: Any, outcome: Outcome, what: Any) -> None:
    given, setting, fitted = what
    can = ranker_class(setting.system).capabilities.fit
    told_off = given.query_weight is not None or "propensity" in setting.options
    told_off |= setting.options.get("solver") == "cd_plain" or len(given.y) == 1
    if "partitions" not in can or told_off or rng.random() < 0.5:
        return
    if setting.system == "additive" and given.data().queries.rows is not None:
        return  # rows of a list in another order are summed in another order
    given = given.grouped()
    index = given.data().queries
    cuts = sorted(rng.choices(index.starts.tolist(), k=rng.randint(0, 3)))
    for old in folder.glob("part-*.parquet"):
        old.unlink()
    given.data().save(folder / "whole.parquet")
    whole = pq.read_table(folder / "whole.parquet")
    for k, (start, stop) in enumerate(pairwise([0, *cuts, whole.num_rows])):
        if stop > start:  # all of them may weigh nothing
            pq.write_table(whole.slice(start, stop - start), folder / f"part-{k}.parquet")
    reading = {"dtype": str(given.X.dtype), "dense": not given.sparse}

    def fit(ranker: Any) -> Any:
        parts = rankine.distributed.scan(str(folder / "part-*.parquet"), **reading)
        return ranker.fit(parts)

    found = outcome_of(fit, setting.ranker(), rng.choice((1, 2)))
    outcome.counts["partitions"] += 1
    ends = (fitted, found)
    gave_up = "NoPairsError" in ends and setting.options.get("sampling") == "rejection"
    if gave_up and fitted != found:
        # Trials may never meet a pair that weighs next to nothing; it is there all the same.
        looked_up = setting._replace(options={**setting.options, "sampling": "uniform"})
        good = not isinstance(outcome_of(lambda r: r.fit(given.data()), looked_up.ranker()), str)
    elif "DivergenceError" in ends and setting.system in ("spd", "elastic"):
        # Their steps on partitions are others: one run may end at the edge of the numbers, and the
        # other on its way there.
        good = all(end == "DivergenceError" or _far(end, given) for end in ends)
    elif isinstance(fitted, str) or isinstance(found, str) or setting.system == "additive":
        good = same(fitted, found)
    elif setting.system in BATCH:
        good = same_optimum(fitted, found)
    else:
        good = same(found, outcome_of(fit, setting.ranker()))
    outcome.require(good, "unequal", f"{where}: memory {told(fitted)}, partitions {told(found)}")


def _far(found: Any, given: Problem) -> bool:
    """Whether scores have left what labels and margins ask for by far."""
    if isinstance(found, str):
        return False
    with np.errstate(all="ignore"):
        scores = found.predict(given.grouped().data())
    return not np.abs(scores).max() < 1e9 * max(1.0, float(np.abs(given.y).max()))


def _try_change(where: str, rng: Any, outcome: Outcome, what: Any) -> None:
    given, setting, fitted = what
    change = changed(given, setting, rng)
    if change is None:
        return
    ranker = (change.setting or setting).ranker
    fit_to = lambda made: lambda r: r.fit(made.data(), query_weight=made.query_weight)  # noqa: E731
    before = fitted
    if change.before is not None:
        before = outcome_of(fit_to(change.before), ranker())
    found = outcome_of(fit_to(change.after), ranker())
    outcome.counts[f"changed: {change.name}"] += 1
    if isinstance(before, str) or isinstance(found, str):
        good = same(before, found) or given.wide > 1e15 or given.wide < 1e-15
    else:
        outcome.counts["certified on both sides"] += sure(before, found)
        good = change.holds(before, found)
    story = f"{where}: {change.name}: {told(before)} became {told(found)}"
    outcome.require(good, "unequal", story)


def try_log(case: str, rng: Any, folder: Any, outcome: Outcome) -> None:
    """One raw log: cut into blocks of several sizes, in two formats, in memory, by name, served."""
    log = raw_log(rng)
    system, options = rng.choice(
        (
            ("elastic", {}),
            ("elastic", {"propensity": [1.0, 0.5, 0.2]}),
            ("spd", {"n_steps": 300}),
            ("ranksvm", {}),
            ("least-squares", {"l2": 0.1}),
            ("domination", {"l1": 0.1, "tol": 1e-3}),
            ("additive", {"bins": 4, "pairs": 0, "smooth": 1.0}),
        )
    )
    tables = system == "additive"
    if tables:  # a cross is a pair there
        log = replace(log, spec={**log.spec, "crosses": [], "hash_bits": None})
    rule = "auto" if tables else rng.choice(RULES)
    setting = Setting(system, options, rng.choice(SCALES), rule)
    where = f"{case} raw log {log.spec} {setting}"
    pq.write_table(log.table, folder / "log.parquet", row_group_size=rng.choice((1, 5, 100)))
    with pa.ipc.new_file(str(folder / "log.arrow"), log.table.schema) as writer:
        writer.write_table(log.table, max_chunksize=7)
    position = "position" if "propensity" in options else None

    def read(suffix: str, rows: int) -> Any:
        how = {"query": "session", "label": "clicked + 4*bought", "position": position}
        weight = "mass" if log.weighted else None
        path = folder / f"log.{suffix}"
        return logs.scan(path, block_rows=rows, weight=weight, **how, **log.spec)

    ways = {
        f"{suffix} in blocks of {rows}": lambda r, s=suffix, k=rows: r.fit(read(s, k))
        for suffix in ("parquet", "arrow")
        for rows in (1, 7, 1000)
    }
    if tables or system in BATCH:
        ways["memory"] = lambda r: r.fit(read("arrow", 7).load())
    elif system == "elastic":
        ways["partial_fit"] = lambda r: r.partial_fit(read("arrow", 7).load())
    first: Any = None
    for name, fit in ways.items():
        found = outcome_of(fit, setting.ranker())
        first = found if first is None else first
        if name == "partial_fit" and isinstance(first, str):
            continue  # what comes in pieces may begin without a pair
        story = f"{where}: {told(first)}, {name} {told(found)}"
        outcome.require(same(first, found), "unequal", story)
    if tables or system in BATCH:
        found = outcome_of(lambda r: r.fit(read("parquet", 7).to_partitions()), setting.ranker())
        outcome.counts["partitions of logs"] += 1
        good = same(first, found)
        if not tables and not isinstance(first, str) and not isinstance(found, str):
            good = same_optimum(first, found)
        story = f"{where}: {told(first)}, partitions {told(found)}"
        outcome.require(good, "unequal", story)
    outcome.counts["logs refused" if isinstance(first, str) else "logs"] += 1
    if not isinstance(first, str):
        trouble = _raw_scores(first.to_model(), log, folder)
        outcome.require(not trouble, "unequal", f"{where}: {trouble}")


def _raw_scores(model: Any, log: Any, folder: Any) -> str:
    """The log scored as a file, a stream, rows by name, and by the server."""
    path = folder / "log.parquet"
    data = read_for(model, path)
    wanted = score_dataset(model, data)
    blocks = read_for(model, path, stream=True, block_rows=4)
    if not np.array_equal(np.concatenate([score_dataset(model, b) for b in blocks]), wanted):
        return "scored otherwise in blocks"
    crossed = {name for cross in log.spec["crosses"] for name in cross.split("*")}
    names = sorted({*log.spec["numeric"], *log.spec["categorical"]} | crossed)
    rows = log.table.select(names).to_pylist()
    starts = data.queries.starts
    lists = [rows[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
    scorer = Scorer(model)
    found = np.concatenate([scorer.score(one) for one in lists])
    if not np.allclose(found, wanted, rtol=1e-12, atol=1e-12):
        return f"Scorer gives {found.tolist()} for {wanted.tolist()}"
    status, reply = answer(model, [[{"raw": row} for row in one] for one in lists])
    if status != 200:
        return f"the server answers {status} {reply}"
    served = np.concatenate([one["scores"] for one in reply["lists"]])
    return "" if np.array_equal(served, found) else f"the server gives {served.tolist()}"


def trial(job: Job) -> Outcome:
    """Problems and settings drawn from the list, each in every way."""
    outcome = Outcome()
    for case, rng in job.cases(outcome):
        attempt = try_problem if (case % LOGS or CHOSEN) and CHOSEN != ["log"] else try_log
        attempt(job.name(case), rng, job.folder, outcome)
    return outcome


def warm() -> None:
    """Load the compiled kernels of every setting in the parent."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 3)), np.tile([0.0, 1.0, 2.0], 4)
    for system, options in SETTINGS:
        if CHOSEN and system not in CHOSEN:
            continue
        for matrix in (X, X.astype(np.float32)):
            for thin in (False, True):
                given = Problem(matrix, y, np.repeat([0, 1], 6), position=np.tile(range(1, 7), 2),
                                sparse=thin)  # fmt: skip
                fit = lambda r, g=given: r.fit(g.data())  # noqa: E731
                outcome_of(fit, Setting(system, options, "none").ranker())
