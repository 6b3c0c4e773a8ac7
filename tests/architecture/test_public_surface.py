"""The public surface is a list; every name on it can be imported and is documented."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import rankine
from rankine.core import errors
from rankine.rankers.registry import RANKERS, ranker_class

SOURCES = sorted(Path(rankine.__file__).parent.rglob("*.py"))


def test_every_public_name_can_be_imported_and_is_documented():
    assert {*rankine._PUBLIC, *errors.__all__, "__version__"} == set(rankine.__all__)
    for name in rankine.__all__:
        value = getattr(rankine, name)
        assert value is not None
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
    assert dir(rankine) == sorted(rankine.__all__)


def test_errors_and_rooms_stand_at_the_top():
    kinds = [errors.RankineError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert getattr(rankine, kind.__name__) is kind
    rooms = {"distributed", "logs", "split_queries", "estimate_propensity", "shop_log"}
    assert rooms <= set(rankine.__all__)
    for name in rankine.logs.__all__:
        assert getattr(rankine.logs, name).__doc__, name


def test_every_ranker_is_public_and_keeps_the_shared_contract():
    for name, (_, attribute) in RANKERS.items():
        kind = ranker_class(name)
        assert getattr(rankine, attribute) is kind
        assert kind.system == name
        shared = {"metric", "scale", "early_stopping", "warm_start", "random_state"}
        assert shared <= set(kind().get_params()), name
        assert "Parameters" in (kind.__doc__ or ""), name


def test_nothing_loads_pickles_or_runs_text():
    """No pickle, eval or exec anywhere, except Numba's description of a kernel in its cache."""
    forbidden_calls = {"eval", "exec", "__import__"}
    forbidden_modules = {"pickle", "cloudpickle", "joblib", "marshal", "shelve", "dill"}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in forbidden_calls, f"{path}:{node.lineno}"
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module.split(".")[0]]
            found = forbidden_modules & set(names)
            if path.match("kernels/cache.py"):
                found -= {"pickle"}
            assert not found, f"{path}:{node.lineno}"


def test_functions_stay_small():
    """A function has at most 80 lines besides its docstring and signature."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                doc = len((ast.get_docstring(node) or "").splitlines())
                body = node.end_lineno - node.body[0].lineno + 1 - doc
                assert body <= 80, f"{path}:{node.lineno} {node.name}"


def test_no_two_classes_share_a_name():
    names = [
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []
