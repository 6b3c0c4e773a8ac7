"""Every error of the tree: named, documented, drawn, and whole after a process boundary."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path

import pytest

import rankine
from rankine.core import errors

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_says_what_where_and_how_to_mend_it(kind):
    error = kind("it is broken", fix="Mend it", file="a.txt", line=3, column=7)
    assert str(error) == f"a.txt:3:7: it is broken [{kind.code}]. Mend it"
    bare = f"it is broken [{kind.code}]"
    assert str(kind("it is broken")) == (
        f"{bare}. {kind.default_fix}" if kind.default_fix else bare
    )
    again = copy.copy(error)
    assert type(again) is kind
    assert str(again) == str(error)


def test_codes_are_unique_and_the_drawing_is_complete():
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    drawn = re.findall(r"(\w+Error)\b", errors.__doc__)
    assert set(errors.__all__) <= set(drawn)
    assert all(issubclass(kind, errors.RankineError) for kind in KINDS)


def test_every_error_raised_in_the_package_offers_a_fix():
    names = set(errors.__all__)
    missing = []
    for path in Path(rankine.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            called = node.exc.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            given = {keyword.arg for keyword in node.exc.keywords}
            if name not in names or getattr(errors, name).default_fix:
                continue
            if not given & {"fix", None}:
                missing.append(f"{path.name}:{node.lineno}: {name}")
    assert missing == []
