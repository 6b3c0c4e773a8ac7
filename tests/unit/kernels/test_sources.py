"""Digests of the files that kernels are compiled from."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numba
import pytest

from rankine.kernels import rows as rows_kernels
from rankine.kernels import sources

HERE = Path(__file__)


class _Spec(NamedTuple):
    factor: float


def _outside(x):
    return x + 1


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of a few files in the place of rankine."""
    root = tmp_path / "rankine"
    files = {
        "a.py": "from rankine.kernels.compile import jit\nfrom rankine.b import (\n    WIDTH,\n)\n"
        "from rankine.d import Plain\nfrom rankine.e import Spec\nfrom rankine.gone import x\n"
        "from rankine.part import f\n",
        "b.py": "WIDTH = 3\nfrom rankine.c import depth\n",
        "c.py": "depth = 1\n",
        "d.py": "class Plain: ...\n",
        "e.py": "from rankine.kernels.dispatch import generic\nfrom rankine.c import depth\n",
        "part/__init__.py": "from rankine.part.one import f\nfrom rankine.far import g\n",
        "part/one.py": "def f(): ...\nfrom rankine.b import WIDTH\n",
        "far.py": "def g(): ...\n",
        "own.py": "@ask.implementation(Spec)\ndef f(): ...\n",
        "kernels/compile.py": "import numba\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sources, "_ROOT", root)
    monkeypatch.setattr(sources, "_package_files", lambda: tuple(sorted(root.rglob("*.py"))))
    return root


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        pytest.param(
            "a.py",
            {"a.py", "b.py", "e.py", "c.py", "own.py", "kernels/compile.py"}
            | {"part/__init__.py", "part/one.py", "far.py"},
            id="compiled files, constants and whole packages count, imported classes do not",
        ),
        pytest.param("b.py", {"b.py", "own.py"}, id="imports of uncompiled files are not followed"),
        pytest.param("d.py", {"d.py", "own.py"}, id="implementations always count"),
    ],
)
def test_a_kernel_depends_on_the_files_it_can_be_compiled_from(package, file, expected):
    files = sources.compiled_from(package / file)
    assert {path.relative_to(package).as_posix() for path in files} == expected


def test_the_digest_changes_with_names_and_texts(package, tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1\n", encoding="utf-8")
    files = [package / "b.py", package / "c.py"]
    digest = sources.source_digest(files)
    assert digest == sources.source_digest(reversed(files))
    others = [files[:1], files[1:], [*files, package / "d.py"], None, [outside], [*files, outside]]
    assert len({digest, *map(sources.source_digest, others)}) == len(others) + 1


def test_implementations_outside_the_package_are_recorded(monkeypatch):
    monkeypatch.setattr(sources, "_OUTSIDE_FILES", set())
    monkeypatch.setattr(sources, "_INTERACTIVE_SPECS", set())
    inside = next(iter(rows_kernels.row_dot.implementations.values()))
    sources.record_implementation(inside, _Spec)
    assert sources.outside_digest() == ""
    assert set() == sources._OUTSIDE_FILES
    sources.record_implementation(_outside, _Spec)
    assert {HERE} == sources._OUTSIDE_FILES
    assert sources.outside_digest() == sources.source_digest([HERE])
    assert not sources.has_interactive_spec((_Spec,))


def test_specs_with_an_implementation_in_no_file_are_recorded(monkeypatch):
    monkeypatch.setattr(sources, "_OUTSIDE_FILES", set())
    monkeypatch.setattr(sources, "_INTERACTIVE_SPECS", set())
    namespace = {}
    exec("def typed(spec):\n    return 1\n", namespace)  # noqa: S102
    sources.record_implementation(namespace["typed"], _Spec)
    assert set() == sources._OUTSIDE_FILES
    typed = numba.typeof(_Spec(1.0))
    assert sources.has_interactive_spec((numba.float64, typed))
    assert not sources.has_interactive_spec((numba.float64,))
