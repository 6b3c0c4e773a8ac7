"""A file's cache of compiled code depends on what it is compiled from, and on nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import rankine
from rankine.kernels.compile import compiled_from, source_digest

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


COMPILED = {path for path in ROOT.rglob("*.py") if compiles(path)}


def test_a_compiled_file_depends_on_itself_and_on_the_compiled_files_it_imports():
    assert len(COMPILED) > 20
    for path in COMPILED:
        sources = compiled_from(path)
        assert path in sources
        for module, _ in imports_of(path):
            file = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
            assert file not in COMPILED or file in sources, f"{path} imports {module}"


def test_constants_of_uncompiled_files_count():
    for path in COMPILED:
        for module, names in imports_of(path):
            file = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
            if module.startswith("rankine") and file.is_file() and any(n.isupper() for n in names):
                assert file in compiled_from(path), f"{path} imports {names} of {module}"


def test_every_file_that_answers_a_question_counts():
    answering = {
        path for path in ROOT.rglob("*.py") if ".implementation(" in path.read_text("utf-8")
    }
    assert answering
    assert all(answering <= compiled_from(path) for path in COMPILED)


def test_rooms_without_compiled_code_count_for_none():
    free = {"cli", "reporting", "tuning"}
    used = {file for path in COMPILED for file in compiled_from(path)}
    assert not {file for file in used if file.relative_to(ROOT).parts[0] in free}


def test_the_digest_depends_on_the_files():
    some = compiled_from(ROOT / "kernels" / "sorting.py")
    assert source_digest() != source_digest(some) == source_digest(sorted(some, reverse=True))
