"""The cache key of a compiled file covers the files it is compiled from, and no others."""

from __future__ import annotations

import ast
from pathlib import Path

import rankine
from rankine.kernels.sources import compiled_from, source_digest

ROOT = Path(rankine.__file__).parent


def imports_of(path):
    """Yield (module, imported names) for every import of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, set()


def has_compiled_code(path):
    return any(
        module.startswith("numba")
        or module == "rankine.kernels.dispatch"
        or (module == "rankine.kernels.compile" and "jit" in names)
        for module, names in imports_of(path)
    )


def file_of(module):
    return ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")


COMPILED_FILES = {path for path in ROOT.rglob("*.py") if has_compiled_code(path)}


def test_the_key_covers_the_file_and_the_compiled_files_it_imports():
    assert len(COMPILED_FILES) > 20
    for path in COMPILED_FILES:
        sources = compiled_from(path)
        assert path in sources
        for module, _ in imports_of(path):
            file = file_of(module)
            assert file not in COMPILED_FILES or file in sources, f"{path} imports {module}"


def test_the_key_covers_files_that_only_define_constants():
    for path in COMPILED_FILES:
        for module, names in imports_of(path):
            file = file_of(module)
            has_constants = any(name.isupper() for name in names)
            if module.startswith("rankine") and file.is_file() and has_constants:
                assert file in compiled_from(path), f"{path} imports {names} of {module}"


def test_the_key_covers_every_implementation_of_a_generic_function():
    implementing = {
        path for path in ROOT.rglob("*.py") if ".implementation(" in path.read_text("utf-8")
    }
    assert implementing
    assert all(implementing <= compiled_from(path) for path in COMPILED_FILES)


def test_packages_without_compiled_code_are_in_no_key():
    covered = {file for path in COMPILED_FILES for file in compiled_from(path)}
    packages = {file.relative_to(ROOT).parts[0] for file in covered}
    assert not packages & {"cli", "reporting", "tuning"}


def test_the_digest_depends_on_the_files_and_not_on_their_order():
    files = compiled_from(ROOT / "kernels" / "sorting.py")
    assert source_digest() != source_digest(files)
    assert source_digest(files) == source_digest(sorted(files, reverse=True))
