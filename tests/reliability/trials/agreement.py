"""Train on valid but unusual problems: all inputs and all exports must give the same result.

The inputs are arrays, a frame, a ``Dataset``, a group vector with empty lists, files, streams with
several block sizes, partitions, and other numbers of threads. Inputs of one group must give the
same bits or the same class of error; partitions must reach the optimum within the certificates. A
model is saved, loaded, served and exported (``outlets``). Objectives and optima of small problems
are compared with their definitions. Changes that must not matter are tried: rows and queries in
another order, a shifted column, a column in other units, weights split over copies. Raw logs have
separate cases.
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
from rankine.solvers.one_pass_run import FEWEST_COMPARED
from rankine.transforms.apply import score_dataset
from rankine.transforms.scaling import fit_scaling
from reference.pairs import pair_risk
from reference.slow_domination import brute_loss
from reliability.harness.outcome import Job, Outcome
from reliability.trials.outlets import answer, scores_agree
from reliability.trials.problems import Problem, draw_problem, raw_log

#: Few settings, since each compiles kernels.
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
#: Rules for missing values.
RULES = ("zero", "mean", "query_min", "indicator")
BATCH = ("ranksvm", "least-squares", "domination")
#: The environment may limit a run to some rankers, or to logs ("log").
CHOSEN = [name for name in os.environ.get("RELIABILITY_ONLY", "").split(",") if name]
#: One case in this number is a raw log.
LOGS = 6


class Input(NamedTuple):
    """An input format; all inputs of one ``group`` must give the same bits."""

    group: str
    name: str
    fit: Any
    threads: int = 1


class Setting(NamedTuple):
    """A ranker, its options, its scaling and its rule for missing values."""

    system: str
    options: dict[str, Any]
    scale: str
    missing: str = "auto"

    def ranker(self, **more: Any) -> Any:
        own = {} if self.system == "additive" else {"scale": self.scale, "missing": self.missing}
        return ranker_class(self.system)(random_state=0, **{**own, **self.options, **more})


def inputs(problem: Problem, folder: Any, setting: Setting) -> list[Input]:
    """Return every input through which a ranker can be fitted to a problem."""
    data, more = problem.data(), {"query_weight": problem.query_weight}
    kinds = ranker_class(setting.system).capabilities
    found = [
        Input("memory", "Dataset", lambda r: r.fit(data, **more)),
        Input("memory", "two threads", lambda r: r.fit(data, **more), 2),
    ]
    if "propensity" not in setting.options:
        found += _arrays(problem, more)
    reading = {
        "dtype": str(problem.X.dtype),
        "dense": not problem.sparse,
        "qid_type": "str" if problem.qid.dtype.kind == "U" else "int",
    }
    # Streams give the same bits for all block sizes. Additive rankers, and samples that hold all
    # rows, also give those of memory; one pass gives those of partial_fit.
    streams = "memory" if setting.system == "additive" else "stream"
    sampled = setting.system == "spd" and not {"sampling", "propensity"} & set(setting.options)
    for suffix in ("txt", "parquet"):
        if suffix == "txt" and "propensity" in setting.options:
            continue
        path, own = folder / f"rows.{suffix}", {**reading, "qid_type": "int"}
        if suffix == "txt":
            replace(problem, weight=None, position=None).data().save(path)
            own = {**reading, "n_features": data.n_features, "sample_weight": problem.weight,
                   "feature_names": problem.names}  # fmt: skip
        else:
            data.save(path)
        loaded = lambda r, p=path, o=own: r.fit(rankine.load(p, **o), **more)  # noqa: E731
        found.append(Input("memory", suffix, loaded))
        if "stream" in kinds.fit and data.queries.rows is None:
            found += [
                Input(
                    streams, f"{suffix} in blocks of {k} rows",
                    lambda r, p=path, o=own, k=k: r.fit(rankine.scan(p, block_rows=k, **o), **more),
                )
                for k in (1, 7, 70, 1000)
            ]  # fmt: skip
            if sampled:

                def keep(r: Any, p: Any = path, o: Any = own) -> Any:
                    r.set_params(sampling="reservoir")
                    return r.fit(rankine.scan(p, block_rows=7, **o), **more)

                found.append(Input("memory", f"{suffix} kept in a reservoir", keep))
    one_pass = setting.system == "elastic" and setting.options.get("n_passes", 1) == 1
    if one_pass and data.queries.rows is None:
        found.append(Input(streams, "partial_fit", lambda r: r.partial_fit(data, **more)))
    return found


def _arrays(problem: Problem, more: dict[str, Any]) -> list[Input]:
    """Return inputs as arrays, as a frame, and with a group vector that has empty lists."""
    y, weight, rows = problem.y, problem.weight, problem.rows
    found = [
        Input("memory", "arrays",
            lambda r: r.fit(rows, y, qid=problem.qid, sample_weight=weight, **more)),
    ]  # fmt: skip
    if problem.names is not None and not problem.sparse:
        frame = pd.DataFrame(problem.X, columns=list(problem.names)).assign(qid=problem.qid)
        found.append(
            Input("memory", "frame", lambda r: r.fit(frame, y, sample_weight=weight, **more))
        )
    index = problem.data().queries
    if index.rows is None:
        sizes = np.zeros(2 * index.n_queries + 1, dtype=np.int64)
        sizes[1::2] = index.sizes
        weights = more["query_weight"]
        each = None if weights is None else [weights[q] for q in index.ids.tolist()]
        found.append(
            Input("memory", "empty groups",
                lambda r: r.fit(rows, y, group=sizes, sample_weight=weight, query_weight=each))
        )  # fmt: skip
    return found


def outcome_of(fit: Any, ranker: Any, threads: int = 1, problem: Problem | None = None) -> Any:
    """Return the fitted ranker with its scores of the problem, or the class of the error."""
    os.environ["RANKINE_NUM_THREADS"] = str(threads)
    try:
        with warnings.catch_warnings(record=True) as said, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            fit(ranker)
            ranker.agreement_scores = None if problem is None else ranker.predict(
                problem.X, problem.qid
            )  # fmt: skip
    except RankineError as error:
        return type(error).__name__
    ranker.agreement_converged = not any(issubclass(w.category, ConvergenceWarning) for w in said)
    return ranker


def describe(found: Any) -> str:
    """Describe a fitted ranker or an error."""
    return found if isinstance(found, str) else f"weights {found.coef_.tolist()}"


def identical(one: Any, other: Any) -> bool:
    """Return whether both have the same bits, or the same class of error."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    return np.array_equal(one.coef_, other.coef_) and (
        one.agreement_scores is None
        or other.agreement_scores is None
        or np.array_equal(one.agreement_scores, other.agreement_scores, equal_nan=True)
    )


def converged(*found: Any) -> bool:
    """Return whether all were fitted and converged."""
    return all(not isinstance(one, str) and one.agreement_converged for one in found)


def same_optimum(one: Any, other: Any) -> bool:
    """Return whether the objectives agree within both certificates (least squares: residuals)."""
    if not converged(one, other):
        return True
    first, second = one.solution_, other.solution_
    slack = 1e-9 + max(
        s.certificate.get("gap", 10 * s.certificate.get("residual", 0.0)) for s in (first, second)
    )
    size = max(1.0, abs(first.objective), abs(second.objective))
    return abs(first.objective - second.objective) <= slack * size


# Small problems compared with definitions


def objective(setting: Setting, ranker: Any, problem: Problem) -> Any:
    """Return J(w) computed from its definition."""
    X, qid, weight = np.nan_to_num(problem.X.astype(np.float64)), problem.qid, problem.weight
    query_weight = problem.query_weight
    weight = np.ones(len(X)) if weight is None else weight
    if setting.system == "domination":
        l1, l2 = ranker.l1, ranker.l2 or 0.0
        how = {
            "weight": weight,
            "query_weight": query_weight,
            "mean": ranker.normalization == "query",
        }
        return lambda w: (
            l1 * np.abs(w).sum() + l2 / 2 * w @ w + brute_loss(w, X, problem.y, qid, **how)
        )
    if setting.system == "ranksvm":
        how = (setting.options.get("loss", "hinge"), ranker.normalization, weight, query_weight)
        return lambda w: ranker.l2 / 2 * w @ w + pair_risk(X @ w, problem.y, qid, *how)[0]
    return lambda w: ranker.l2_ / 2 * w @ w + _residuals(X @ w - problem.y, problem, ranker, weight)


def _residuals(e: Any, problem: Problem, ranker: Any, s: Any) -> float:
    """Sum omega_q |L_q e|^2 over the queries with two labels, pair by pair."""
    query_weight = problem.query_weight or {}
    total, mass, all_pairs = 0.0, 0.0, 0.0
    for q in dict.fromkeys(problem.qid.tolist()):
        rows = np.flatnonzero((problem.qid == q) & (s > 0))
        v = query_weight.get(q, 1.0)
        if v == 0 or len(set(problem.y[rows].tolist())) < 2:
            continue
        untied = problem.y[rows][:, None] != problem.y[rows][None, :]
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


def compare_with_definition(setting: Setting, found: Any, problem: Problem, rng: Any) -> str:
    """Describe what is wrong with the objective or the optimum; empty if nothing is."""
    small = len(problem.y) <= 40 and 1e-3 < problem.magnitude < 1e3 and setting.scale == "none"
    heavy = problem.weight is not None and problem.weight.max() > 100
    light = any(v > 100 for v in (problem.query_weight or {}).values())
    if not small or heavy or light or setting.system not in BATCH:
        return ""
    if "propensity" in setting.options or (problem.missing and setting.missing != "zero"):
        return ""
    value = objective(setting, found, problem)
    at = value(found.coef_)
    if not np.isclose(at, found.solution_.objective, rtol=1e-7, atol=1e-9):
        return f"objective {found.solution_.objective} is {at} by definition"
    if not converged(found):
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


# Changes that must not matter


class Change(NamedTuple):
    """A changed problem and the relation that must hold between both rankers.

    ``before`` is None if the unchanged problem has been fitted already.
    """

    name: str
    before: Problem | None
    after: Problem
    holds: Any
    #: The setting of both fits.
    setting: Any = None


def draw_change(problem: Problem, setting: Setting, rng: Any) -> Change | None:
    """Draw a change of a problem that must not matter; None if there is none for this setting."""
    batch = setting.system in BATCH and "propensity" not in setting.options
    names = [_other_units]
    if batch:
        names += [_order, _shift, _storage, _no_weight, _query_copies, _row_copies]
    elif setting.options.get("objective") == "pairwise":
        names += [_row_copies]
    # These rankers give each query the same share, whatever the weights of its rows.
    apart = setting.system in ("spd", "ranksvm", "least-squares", "additive")
    apart &= setting.missing != "mean"  # the mean follows the heavy rows
    if apart and not {"normalization", "sampling", "propensity"} & set(setting.options):
        names += [_heavy_query]
    random = np.random.default_rng(rng.getrandbits(32))
    rng.shuffle(names)
    return next(filter(None, (change(problem, setting, rng, random) for change in names)), None)


def _unscaled(problem: Problem, setting: Setting) -> tuple[Problem | None, Setting]:
    """Return the problem to fit again, if any, and the setting without scaling."""
    fresh = setting.scale != "none" and setting.system != "additive"
    return (problem if fresh else None), setting._replace(scale="none")


def _heavy_query(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change:
    """Make the rows of one query heavy or light.

    Scaling is off, because means and ranges would follow the heavy rows.
    """
    usual = np.ones(len(problem.y)) if problem.weight is None else problem.weight
    here = problem.qid == random.choice(np.unique(problem.qid))
    heavy = np.where(here, usual * 2.0 ** rng.choice((60, -60)), usual)
    _, plain = _unscaled(problem, setting)
    after = replace(problem, weight=heavy)
    return Change("heavy query", replace(problem, weight=usual), after, identical, plain)


def _storage(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change:
    del setting, rng, random
    return Change("storage", None, replace(problem, sparse=not problem.sparse), same_optimum)


def _order(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change:
    del setting, rng
    queries = random.permutation(np.unique(problem.qid))
    rows = [random.permutation(np.flatnonzero(problem.qid == q)) for q in queries]
    return Change("order", None, problem.take(np.concatenate(rows)), same_optimum)


def _shift(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """Add a constant to a column, which moves all scores of a list alike."""
    del random
    if not 1e-3 < problem.magnitude < 1e3 or problem.X.dtype == np.float32 or problem.missing:
        return None
    X = problem.X.copy()
    X[:, rng.randrange(X.shape[1])] += rng.choice((0.5, -2.0))
    before, plain = _unscaled(problem, setting)
    return Change("shift", before, replace(problem, X=X), same_optimum, plain)


def _no_weight(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """Remove the rows and queries of weight zero."""
    usual = np.ones(len(problem.y)) if problem.weight is None else problem.weight
    if (usual > 0).all() and rng.random() < 0.8:
        problem = replace(problem, weight=np.where(random.random(len(usual)) < 0.3, 0.0, usual))
    none = {q for q, v in (problem.query_weight or {}).items() if v == 0}
    gone = np.isin(problem.qid, sorted(none))
    gone |= False if problem.weight is None else problem.weight == 0
    if gone.all() or not gone.any() or setting.missing == "query_min":
        return None  # the minimum of a list includes rows without weight
    _, plain = _unscaled(problem, setting)
    return Change("no weight", problem, problem.take(np.flatnonzero(~gone)), same_optimum, plain)


def _row_copies(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """Replace rows of weight 2 by two copies of weight 1."""
    del rng
    own = setting.options
    all_pairs = setting.system == "least-squares" and own.get("pairs", "all") == "all"
    if all_pairs and own.get("normalization") == "pair":
        return None  # the docs name the factor by which it differs
    twice = np.flatnonzero(random.random(len(problem.y)) < 0.3)
    heavy = np.ones(len(problem.y)) if problem.weight is None else problem.weight.copy()
    heavy[twice] *= 2
    copies = problem.take(np.concatenate([np.arange(len(problem.y)), twice]))
    # sums in another order are rounded differently, and so would scaled features be
    _, plain = _unscaled(problem, setting)
    holds = same_optimum if setting.system in BATCH else _same_steps
    return Change("row copies", replace(problem, weight=heavy), copies, holds, plain)


def _same_steps(one: Any, other: Any) -> bool:
    """Return whether weights agree up to the rounding of sums in another order."""
    size = max(np.abs(one.coef_).max(initial=0.0), np.abs(other.coef_).max(initial=0.0))
    return np.abs(one.coef_ - other.coef_).max(initial=0.0) <= 1e-6 * size or size > 1e3


def _other_units(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """Multiply a column by a power of two, which must divide its weight exactly."""
    del random
    fine = 1e-30 < problem.magnitude < 1e30 and setting.scale not in ("none", "auto")
    if not fine and setting.system != "additive":
        return None
    j, factor = rng.randrange(problem.X.shape[1]), 2.0 ** rng.choice((-9, -1, 3, 10))
    X = problem.X.copy()
    X[:, j] *= X.dtype.type(factor)

    def holds(one: Any, other: Any) -> bool:
        if isinstance(one, str) or isinstance(other, str):
            return identical(one, other)
        if setting.scale == "query" or len(one.coef_) != X.shape[1]:
            return np.array_equal(one.coef_, other.coef_)
        weights = other.coef_.copy()
        weights[j] *= factor
        return np.array_equal(one.coef_, weights)

    return Change("column", None, replace(problem, X=X), holds)


def _query_copies(problem: Problem, setting: Setting, rng: Any, random: Any) -> Change | None:
    """Replace a query of weight 2 by two copies of weight 1."""
    del rng
    q = random.choice(np.unique(problem.qid))
    old = dict.fromkeys(np.unique(problem.qid).tolist(), 1.0) | (problem.query_weight or {})
    key = q.item() if hasattr(q, "item") else q
    if old[key] == 0:
        return None
    rows = np.flatnonzero(problem.qid == q)
    copies = problem.take(np.concatenate([np.arange(len(problem.y)), rows]))
    fresh = copies.qid.copy()
    other = 1000 if fresh.dtype.kind != "U" else "zz"
    fresh[len(problem.y) :] = other
    copies = replace(copies, qid=fresh, docid=None, query_weight={**old, other: old[key]})
    heavy = replace(problem, docid=None, query_weight={**old, key: 2 * old[key]})
    _, plain = _unscaled(problem, setting)
    return Change("query copies", heavy, copies, same_optimum, plain)


# The trial


def try_problem(case: str, rng: Any, folder: Any, outcome: Outcome) -> None:
    """Try one problem with every input and every export."""
    system, options = rng.choice([s for s in SETTINGS if not CHOSEN or s[0] in CHOSEN])
    problem = draw_problem(rng)
    rule = rng.choice(RULES) if problem.missing and system != "additive" else "auto"
    setting = Setting(system, options, rng.choice(SCALES), rule)
    case_name = f"{case} {system} {options} scale={setting.scale} missing={rule}"
    first: dict[str, tuple[str, Any]] = {}
    for source in inputs(problem, folder, setting):
        found = outcome_of(source.fit, setting.ranker(), source.threads, problem)
        name, wanted = first.setdefault(source.group, (source.name, found))
        if source.name == "partial_fit" and wanted == "NoPairsError":
            continue  # the first piece may have no pair
        few = problem.data().n_queries < FEWEST_COMPARED
        if source.name == "partial_fit" and wanted == "DivergenceError" and few:
            continue  # without an end, so few lists are not judged
        outcome.require(
            identical(wanted, found), "unequal",
            f"{case_name}: {name} {describe(wanted)}, {source.name} {describe(found)}",
        )  # fmt: skip
        if not isinstance(found, str):
            outcome.require(
                np.isfinite(found.coef_).all(),
                "misread",
                f"{case_name}: {source.name} {describe(found)}",
            )
    fitted = first["memory"][1]
    # Streams take other steps, which may diverge, but every other error must be the same. A single
    # row, and rejection sampling, are errors in memory only.
    excused = len(problem.y) == 1 or options.get("sampling") == "rejection"
    if "stream" in first and not excused:
        name, streamed = first["stream"]
        ends = {end if isinstance(end, str) else "" for end in (fitted, streamed)}
        outcome.require(
            len(ends - {"DivergenceError"}) <= 1, "unequal",
            f"{case_name}: memory {describe(fitted)}, {name} {describe(streamed)}",
        )  # fmt: skip
    outcome.counts["refused" if isinstance(fitted, str) else "fitted"] += 1
    _try_partitions(case_name, rng, folder, outcome, (problem, setting, fitted))
    _try_change(case_name, rng, outcome, (problem, setting, fitted))
    if not isinstance(fitted, str):
        for difference in (
            _stored_otherwise(setting, problem),
            _near_optimum(problem, folder, rng) if system == "spd" else "",
            compare_with_definition(setting, fitted, problem, rng),
            scores_agree(fitted, problem, folder, rng),
        ):
            outcome.require(not difference, "unequal", f"{case_name}: {difference}")


def _stored_otherwise(setting: Setting, problem: Problem) -> str:
    """Describe how the scaling of dense and sparse rows differs; empty if it does not."""
    if setting.system == "additive":
        return ""
    one, other = (
        fit_scaling(
            setting.scale, replace(problem, sparse=is_sparse).data(), setting.missing
        ).factors
        for is_sparse in (False, True)
    )
    if not (one is other is None or np.array_equal(one, other)):
        return f"dense rows are multiplied by {one}, sparse ones by {other}"
    if setting.scale not in ("standard", "maxabs") or problem.missing or problem.magnitude > 1e100:
        return ""
    X, weight = problem.X.astype(np.float64), problem.weight
    weight = np.ones(len(X)) if weight is None else weight
    largest = np.abs(X).max(axis=0, initial=0.0, where=weight[:, None] > 0)
    slow = largest
    if setting.scale == "standard":
        unit = X / np.where(largest > 0, largest, 1.0)
        slow = largest * np.sqrt(np.average((unit - np.average(unit, 0, weight)) ** 2, 0, weight))
        slow = np.where(slow > 1e-12 * largest, slow, largest)
    slow = 1 / np.where(slow > 0, slow, 1.0)
    # a deviation that is only rounding is ignored
    sharp = np.abs(one - slow) <= 1e-9 * slow
    sharp |= slow * largest > 1e5
    return "" if sharp.all() else f"columns are multiplied by {one}, not by {slow}"


#: Allowed distance of 20,000 steps from the optimum, relative to the loss of zero weights.
NEAR = 0.006


def _near_optimum(problem: Problem, folder: Any, rng: Any) -> str:
    """Describe how far sampled steps end from the optimum of RankSVM; empty if they are near."""
    if not 1e-6 < problem.magnitude < 1e6 or problem.missing or rng.random() < 0.5:
        return ""
    problem = problem.grouped()
    kinds = [("query", "query"), ("uniform", "pair"), ("rejection", "pair")]
    if problem.weight is not None or problem.query_weight is not None:
        kinds.pop()  # rejection finds no pair in a million trials if weights are too small
    sampling, normalization = rng.choice(kinds)
    l2 = 0.1 * float((problem.X.astype(np.float64) ** 2).sum(axis=1).max())
    path, more = folder / "near.parquet", {"query_weight": problem.query_weight}
    data = problem.data()
    data.save(path)
    exact = ranker_class("ranksvm")(l2=l2, scale="none", normalization=normalization, tol=1e-4)
    best = outcome_of(lambda r: r.fit(data, **more), exact)
    if not converged(best):
        return ""
    value = objective(Setting("ranksvm", {}, "none"), best, problem)
    reading = {"dtype": str(problem.X.dtype), "dense": not problem.sparse}
    sources: dict[str, Any] = {
        "memory": (lambda: data, {}),
        "a stream": (lambda: rankine.scan(path, block_rows=7, **reading), {"n_passes": 300}),
    }
    if problem.query_weight is None:
        sources["partitions"] = (lambda: rankine.distributed.scan(str(path), **reading), {})
    steps = Setting("spd", {"n_steps": 20_000, "l2": l2, "sampling": sampling}, "none")
    for name, (source, own) in sources.items():
        found = outcome_of(lambda r, s=source: r.fit(s(), **more), steps.ranker(**own))
        if isinstance(found, str):
            return f"{sampling} draws of {name}: {found}"
        gap = value(found.coef_) - value(best.coef_)
        if gap > NEAR:
            return f"{sampling} draws of {name} end {gap} above the optimum, at {describe(found)}"
    return ""


def _try_partitions(case_name: str, rng: Any, folder: Any, outcome: Outcome, what: Any) -> None:
    problem, setting, fitted = what
    sources = ranker_class(setting.system).capabilities.fit
    excluded = problem.query_weight is not None or "propensity" in setting.options
    excluded |= setting.options.get("solver") == "cd_plain" or len(problem.y) == 1
    if "partitions" not in sources or excluded or rng.random() < 0.5:
        return
    if setting.system == "additive" and problem.data().queries.rows is not None:
        return  # rows of a list in another order are summed in another order
    problem = problem.grouped()
    index = problem.data().queries
    cuts = sorted(rng.choices(index.starts.tolist(), k=rng.randint(0, 3)))
    for old in folder.glob("part-*.parquet"):
        old.unlink()
    problem.data().save(folder / "whole.parquet")
    whole = pq.read_table(folder / "whole.parquet")
    for k, (start, stop) in enumerate(pairwise([0, *cuts, whole.num_rows])):
        if stop > start:  # all of them may weigh nothing
            pq.write_table(whole.slice(start, stop - start), folder / f"part-{k}.parquet")
    reading = {"dtype": str(problem.X.dtype), "dense": not problem.sparse}

    def fit(ranker: Any) -> Any:
        parts = rankine.distributed.scan(str(folder / "part-*.parquet"), **reading)
        return ranker.fit(parts)

    found = outcome_of(fit, setting.ranker(), rng.choice((1, 2)))
    outcome.counts["partitions"] += 1
    results = (fitted, found)
    rejection_failed = "NoPairsError" in results and setting.options.get("sampling") == "rejection"
    if rejection_failed and fitted != found:
        # Rejection may never draw a pair of a very small weight, although it exists.
        uniform = setting._replace(options={**setting.options, "sampling": "uniform"})
        good = not isinstance(outcome_of(lambda r: r.fit(problem.data()), uniform.ranker()), str)
    elif "DivergenceError" in results and setting.system == "elastic":
        # Steps on partitions differ, and both runs judge their own losses.
        good = identical(found, outcome_of(fit, setting.ranker()))
    elif "DivergenceError" in results and setting.system == "spd":
        # Steps on partitions differ: one run may overflow and the other end just before it.
        good = all(end == "DivergenceError" or _far(end, problem) for end in results)
    elif isinstance(fitted, str) or isinstance(found, str) or setting.system == "additive":
        good = identical(fitted, found)
    elif setting.system in BATCH:
        good = same_optimum(fitted, found)
    else:
        good = identical(found, outcome_of(fit, setting.ranker()))
    outcome.require(
        good, "unequal", f"{case_name}: memory {describe(fitted)}, partitions {describe(found)}"
    )


def _far(found: Any, problem: Problem) -> bool:
    """Return whether scores are far beyond the range of the labels."""
    if isinstance(found, str):
        return False
    with np.errstate(all="ignore"):
        scores = found.predict(problem.grouped().data())
    return not np.abs(scores).max() < 1e9 * max(1.0, float(np.abs(problem.y).max()))


def _try_change(case_name: str, rng: Any, outcome: Outcome, what: Any) -> None:
    problem, setting, fitted = what
    change = draw_change(problem, setting, rng)
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
        good = identical(before, found) or problem.magnitude > 1e15 or problem.magnitude < 1e-15
    else:
        outcome.counts["certified on both sides"] += converged(before, found)
        good = change.holds(before, found)
    message = f"{case_name}: {change.name}: {describe(before)} became {describe(found)}"
    outcome.require(good, "unequal", message)


def try_log(case: str, rng: Any, folder: Any, outcome: Outcome) -> None:
    """Try one raw log in two formats and several block sizes, in memory and served."""
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
    case_name = f"{case} raw log {log.spec} {setting}"
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
            continue  # the first piece may have no pair
        message = f"{case_name}: {describe(first)}, {name} {describe(found)}"
        outcome.require(identical(first, found), "unequal", message)
    if tables or system in BATCH:
        found = outcome_of(lambda r: r.fit(read("parquet", 7).to_partitions()), setting.ranker())
        outcome.counts["partitions of logs"] += 1
        good = identical(first, found)
        if not tables and not isinstance(first, str) and not isinstance(found, str):
            good = same_optimum(first, found)
        message = f"{case_name}: {describe(first)}, partitions {describe(found)}"
        outcome.require(good, "unequal", message)
    outcome.counts["logs refused" if isinstance(first, str) else "logs"] += 1
    if not isinstance(first, str):
        difference = _raw_scores(first.to_model(), log, folder)
        outcome.require(not difference, "unequal", f"{case_name}: {difference}")


def _raw_scores(model: Any, log: Any, folder: Any) -> str:
    """Describe how scores differ between a file, a stream, rows by name and the server."""
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
    """Draw problems and settings, and try each in every source."""
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
            for is_sparse in (False, True):
                problem = Problem(matrix, y, np.repeat([0, 1], 6), position=np.tile(range(1, 7), 2),
                                sparse=is_sparse)  # fmt: skip
                fit = lambda r, g=problem: r.fit(g.data())  # noqa: E731
                outcome_of(fit, Setting(system, options, "none").ranker())
