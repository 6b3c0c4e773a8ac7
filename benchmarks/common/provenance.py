"""Record which code a result was measured with, and find results that are older than their code.

Every stored result carries the commit, the time, the size and a digest of the source files that it
measures. A result is *older than its code* when that digest is not the one of the present files.
Comments, docstrings and layout do not count.
"""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
#: Names the size that is run: "smoke", "quick" or "full".
SIZE = "RANKINE_BENCH_SIZE"

_PAIRS = ("losses/all_pairs.py", "losses/active_pairs.py", "losses/pair_queries.py",
          "losses/pairwise")  # fmt: skip
_SPD = ("rankers/spd.py", "samplers", "solvers/pair_sgd.py", "solvers/pair_steps.py")
_RANKSVM = ("rankers/ranksvm.py", "solvers/bundle.py", "solvers/newton.py", *_PAIRS)
_LEAST_SQUARES = ("rankers/least_squares.py", "solvers/cg.py", "solvers/heavy_ball.py",
                  "losses/least_squares.py")  # fmt: skip
_DOMINATION = ("rankers/domination.py", "solvers/coordinate_descent.py", "losses/domination")
_ELASTIC = ("rankers/elastic.py", "solvers/one_pass.py", "solvers/one_pass_run.py", "updates",
            "losses/lists.py", "losses/list_objectives.py")  # fmt: skip
_ADDITIVE = ("rankers/additive.py", "rankers/additive_search.py", "losses/list_risk.py",
             "solvers/tables.py", "transforms/bins.py")  # fmt: skip
_RANKERS = ("rankers", "solvers", "losses", "samplers", "updates")
_PARTITIONS = ("distributed", "solvers/problem.py", "solvers/bundle.py", "solvers/newton.py",
               "solvers/cg.py")  # fmt: skip
_SCORING = ("scoring", "kernels/run_scores.py")

#: Result, or the folder of its module, -> files and folders of ``src/rankine`` that it measures. A
#: result that is not named here measures the whole package.
MEASURED = {
    "additive": _ADDITIVE,
    "airola": _RANKSVM,
    "arrow-scorer": _SCORING,
    "billion": (*_ELASTIC, "logs", "solvers/checkpoint.py"),
    "clicks": ("logs", "evaluation/interleave.py", "rankers/clicks.py", *_RANKSVM),
    "columnar": ("data",),
    "defaults": _RANKERS,
    "domination": _DOMINATION,
    "domination_topics": (*_DOMINATION, "rankers/topics.py"),
    "domination_topics_memory": (*_DOMINATION, "rankers/topics.py"),
    "elastic": _ELASTIC,
    "few_lists": _ADDITIVE,
    "freno": (*_ELASTIC, "tuning"),
    "fusion": ("evaluation/fusion.py",),
    "history": ("history", "scoring"),
    "history_server": ("history", "serve"),
    "instead": _RANKERS,
    "letor": (*_RANKSVM, *_SPD, "evaluation/letor.py"),
    "metrics": ("metrics",),
    "least_squares": _LEAST_SQUARES,
    "pareto": (*_RANKERS, "evaluation/pareto.py"),
    "parsing": ("data",),
    "partition_rows": ("distributed",),
    "partitions": _PARTITIONS,
    "partitions_large": _PARTITIONS,
    "partitions_many": _PARTITIONS,
    "partitions_simulated": ("distributed",),
    "preferences": ("evaluation/preferences.py", "data/comparisons.py"),
    "probabilities": ("evaluation/calibration.py", "metrics/probability.py", "scoring"),
    "ranksvm": _RANKSVM,
    "raw_scoring": _SCORING,
    "reading": ("data",),
    "retrain": ("rankers", "solvers", "logs"),
    "rules": ("reranking",),
    "scoring": _SCORING,
    "sculley": _SPD,
    "serving_peer": ("serve", "scoring"),
    "spd": _SPD,
    "stevens": _DOMINATION,
    "stores": ("data",),
    "tas": _LEAST_SQUARES,
    "threads": ("kernels", "solvers", "losses"),
    "tune": ("tuning",),
    "tune_pruning": ("tuning/pruning.py",),
    "tune_replay": ("tuning/pruning.py",),
    "which_ranker": _RANKERS,
}


def record(name):
    """Return commit, time, size and digest of the sources for a result that was just measured."""
    return {
        "commit": _git("rev-parse", "--short=12", "HEAD") or "unknown",
        "changed": bool(_git("status", "--porcelain", "--", "*.py")),
        "time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "size": os.environ.get(SIZE, "full"),
        "sources": sources_digest(name),
    }


def is_old(name, measured):
    """Return whether a record is not of the present sources, or was never made."""
    return measured.get("sources") != sources_digest(name)


def measured_paths(name):
    """Return the files and folders of ``src/rankine`` that a result measures."""
    return MEASURED.get(name, MEASURED.get(name.split(".")[0], (".",)))


def sources_digest(name):
    """Return a digest of the source files that a result measures."""
    return _digest_of(measured_paths(name))


@cache
def _digest_of(paths):
    package = ROOT / "src" / "rankine"
    sha = hashlib.sha256()
    for path in map(package.joinpath, paths):
        files = sorted(path.rglob("*.py"))
        if path.is_file():
            files = [path]
        for file in files:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            sha.update(repr((str(file.relative_to(package)), _code(tree))).encode())
    return "sha256:" + sha.hexdigest()[:16]


def _code(node):
    """Return a syntax tree as nested tuples, without docstrings, equal in all Python versions."""
    if isinstance(node, list):
        return tuple(_code(part) for part in node if not _is_text(part))
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    return (type(node).__name__, *((name, _code(value)) for name, value in fields))


def _is_text(node):
    """Return whether a statement is a docstring or another bare text."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _git(*arguments):
    """Return what git prints, or an empty text where there is no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
