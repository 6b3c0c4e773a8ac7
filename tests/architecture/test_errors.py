"""Every error of the tree: named, documented, drawn, and whole after a process boundary."""

from __future__ import annotations

import ast
import builtins
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


#: Parsers of bytes that raise plain errors, because whoever calls them gives those a file and a
#: fix; and Python's own protocols (attributes, keys).
PLAIN = {
    "core/column_values.py",
    "core/edits.py",
    "core/lazy_import.py",
    "core/log_summary.py",
    "core/specs.py",
    "core/stores.py",
    "core/strict_json.py",
    "data/query_index.py",
    "data/readers/arrow_guard.py",
    "data/readers/parquet_guard.py",
    "kernels/dispatch.py",
    "model/checks.py",
    "model/container.py",
    "scoring/scorer.py",
}


def nodes(kind):
    """Every node of a kind in the package, with the file it stands in."""
    root = Path(rankine.__file__).parent
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kind) and where != "core/errors.py":
                yield where, node


def called_name(node):
    found = node.func if isinstance(node, ast.Call) else node
    return getattr(found, "id", getattr(found, "attr", ""))


def made_errors():
    """Every place where an error of the tree is made: raised, returned or handed on."""
    for where, node in nodes(ast.Call):
        name = called_name(node)
        if name in errors.__all__:
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            yield f"{where}:{node.lineno} {name}", getattr(errors, name), node.args, given


def words(node):
    """The text of a literal or f-string; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
    if isinstance(node, ast.BinOp):
        parts = words(node.left), words(node.right)
        return None if None in parts else "".join(parts)
    return None


def test_every_error_made_in_the_package_offers_a_fix():
    found = list(made_errors())
    assert len(found) > 400
    assert [place for place, kind, _, given in found
            if not kind.default_fix and not given.keys() & {"fix", None}] == []  # fmt: skip


def test_reasons_are_sentences_without_a_full_stop_and_fixes_are_orders():
    for place, _, arguments, given in made_errors():
        reason, fix = words(arguments[0]) if arguments else None, words(given.get("fix"))
        assert arguments or None in given, place
        assert reason is None or (reason and not reason.rstrip().endswith(".")), place
        full_stop = fix and fix.endswith(".") and not fix.endswith("...")
        assert fix is None or (fix and not full_stop), place


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.txt", b"a qid:1 1:1\n"),
        ("data.txt.gz", b"\x1f\x8b" + bytes(30)),
        ("data.parquet", b"PAR1" + bytes(30)),
        ("data.arrow", b"ARROW1" + bytes(30)),
        ("data.arrows", b"\xff\xff\xff\xff" + bytes(30)),
        ("data.npz", b"PK\x03\x04" + bytes(30)),
    ],
)
def test_readers_name_the_file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    for read in (rankine.load, lambda file: list(rankine.scan(file))):
        with pytest.raises(errors.DataError) as caught:
            read(str(path))
        assert caught.value.file == str(path)


def test_nothing_else_is_raised():
    """No bare ValueError or RuntimeError reaches a user: only known parsers raise them."""
    plain = {
        where
        for where, node in nodes(ast.Raise)
        if node.exc is not None
        and isinstance(getattr(builtins, called_name(node.exc), None), type)
        and called_name(node.exc) not in {"KeyboardInterrupt", "StopIteration", "SystemExit"}
    }
    assert plain <= PLAIN
