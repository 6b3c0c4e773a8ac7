"""The cache of compiled code depends on every floor that has some, and on no other."""

from __future__ import annotations

import ast
from pathlib import Path

import rankine
from rankine.kernels.compile import UNCOMPILED, source_digest

ROOT = Path(rankine.__file__).parent


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            yield from ((alias.name, set()) for alias in node.names)


def compiles(path):
    return any(
        module.startswith("numba")
        or module == "rankine.kernels.dispatch"
        or (module == "rankine.kernels.compile" and "jit" in names)
        for module, names in imports_of(path)
    )


def test_floors_that_may_change_freely_have_no_compiled_code():
    for floor in UNCOMPILED:
        files = sorted((ROOT / floor).rglob("*.py"))
        assert files, floor
        assert [path for path in files if compiles(path)] == []


def test_compiled_code_calls_nothing_of_those_floors():
    files = [path for path in ROOT.rglob("*.py") if compiles(path)]
    assert len(files) > 50
    for path in files:
        for module, names in imports_of(path):
            floor = module.removeprefix("rankine.").split(".")[0]
            constants = {name for name in names if not name[:1].isupper()}
            assert floor not in UNCOMPILED or not constants, f"{path} imports {module}"


def test_the_digest_leaves_floors_out():
    assert source_digest() != source_digest(UNCOMPILED) != source_digest(frozenset({"cli"}))
