"""Check that the tests notice small changes of the source (mutation testing).

    make mutants                                            # trace the tests, 150 mutants of seed 1
    python -m tools.mutants --seed 2 --json mutants.json --seconds 280    # a part of a seed
    python -m tools.mutants --json mutants.json             # the mutants that are left
    python -m tools.mutants --json mutants.json --again     # survivors, after tests were added
    python -m tools.mutants --package data/readers --count 20 --show

A mutant is one small change of one expression or statement: another comparison or sign, an
off-by-one, a dropped ``not``, ``and`` for ``or``, a removed raise or assignment, ``min`` for
``max``, ``break`` for ``continue``. Mutants are drawn from each package in proportion to the number
of possible mutants in it, and at least ``--least`` from each.

``--trace`` runs the tests under a tracer that records which tests execute which lines (stored in
``build/reached.json``; later only changed test files are traced again). A mutant is then tried
with the tests that execute its line, the fastest first. For compiled code these are the tests
that call its callers. Without a trace, the test files of its package that name it come first. A
mutant that all of them miss is tried by the short form of the ``agreement`` trials
(tests/reliability). Compiled code is first tried by the tests of kernels without compiling, which
is faster; a mutant of other Python code uses the kernels that are compiled already.

A mutant is noticed if a test fails or hangs. Times are CPU times, so that other processes do not
matter: a test hangs if it computes far longer than before, or sleeps for a minute. If the tests
of a mutant do not end within ``--limit`` CPU seconds, it counts as not noticed. Every test that
noticed a mutant is run again on the unchanged source; if it fails there as well, the mutant is
tried again. Mutants without a visible effect are listed with the reason in
``tools/equivalent_mutants.toml``.

mutmut 3.8.1 and cosmic-ray 8.7.0 were tried on ``metrics`` and ``core`` in November 2026 and show
less. mutmut skips decorated functions, that is, all compiled code: it makes 11 mutants of
``metrics/err.py``, none of them in the five kernels. cosmic-ray took about 30 s for each of the
388 mutants of that file, since every change compiles kernels again, and it cannot choose the
tests that execute a line: with the test file of the module, 7 of the first 8 survived.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
import importlib
import json
import mmap
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import traceback
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

#: A result: the fields of a mutant, its verdicts, and what noticed it.
Entry = dict[str, Any]
Identity = tuple[str, str, str, str, str]
ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "rankine"
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
REACHED = ROOT / "build" / "reached.json"
RECORD = ROOT / "tests" / "reliability" / "results" / "mutants.json"
_INSIDE = f"{PACKAGE}{os.sep}"
#: Folders of the tests to run; not those that check the repository.
FOLDERS = ("unit", "contracts", "properties", "integration/serve", "integration/test_cli.py")
SKIP = ("unit/benchmarks", "unit/distributed/test_cluster.py", "unit/distributed/test_large.py")
MARKS = "not full and not packaging and not browser and not docs and not dask and not estimators"
#: Package -> tests of it in other folders.
ALSO = {
    "export": ("contracts/test_exports.py", "contracts/test_table_exports.py"),
    "losses": ("contracts/test_losses.py", "unit/rankers"),
    "samplers": ("contracts/test_samplers.py", "unit/rankers/test_spd.py"),
    "updates": ("contracts/test_updates.py", "unit/rankers/test_elastic.py"),
    "solvers": ("contracts/test_solvers.py", "unit/rankers"),
    "rankers": ("contracts/test_rankers.py", "unit/evaluation"),
    "transforms": ("properties", "unit/scoring", "unit/rankers/test_base.py"),
    "metrics": ("properties", "unit/evaluation"),
    "model": ("properties", "unit/scoring"),
    "serve": ("integration/serve",),
    "cli": ("integration/test_cli.py",),
    "core": ("unit/model", "unit/data"),
}
#: The last test of a mutant that no other test notices, its CPU seconds, and the packages that it
#: does not cover.
LAST = "tests/reliability/test_short_form.py::test_no_fault_in_a_short_run[agreement]"
LONGEST_LAST = 200.0
WITHOUT_LAST = ("cli", "evaluation", "reporting", "serve", "tuning")
#: These tests start commands and servers in other processes, which no tracer sees.
PROCESSES = str(ROOT / "tests" / "integration")
#: A line that fewer tests execute may run once for all tests, for example on import.
FEW = 5
#: A test hangs if it computes HANG times as long as before and more than LEAST_HANG seconds
#: (COMPILING if kernels are compiled), or sleeps for ASLEEP seconds.
HANG, LEAST_HANG, COMPILING, ASLEEP = 10.0, 20.0, 90.0, 60.0
#: Seconds that a test in a fork may sleep. A fork has only one of the threads.
NAP = 8.0
#: CPU seconds of a mutant in a fork, and those that its tests took before.
QUICK_CPU, QUICK_TESTS = 60, 6.0
#: Mutants that are tried in forks of one process.
TOGETHER = 80
#: Seconds between two polls of the processes.
POLL = 0.2
#: What pytest returns when no test was chosen.
NO_TEST = 5
_COMPARE = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    line: int
    place: str
    kind: str
    before: str
    after: str
    text: str
    start: int
    stop: int

    @property
    def package(self) -> str:
        """First folder below the package."""
        return self.path.split("/")[0] if "/" in self.path else "core"

    @property
    def identity(self) -> Identity:
        """Identify the mutant even if its line number changes."""
        return self.path, self.place, self.before, self.after, self.text

    @property
    def description(self) -> str:
        """Describe the place and the change in one line."""
        return f"{self.path}:{self.line} {self.kind}: {self.before!r} -> {self.after!r}"[:200]

    def applied(self, text: str) -> str:
        """Return the mutated source."""
        raw = text.encode()
        return (raw[: self.start] + self.after.encode() + raw[self.stop :]).decode()


class _Finder(ast.NodeVisitor):
    """Collects the mutants of a file."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.path = path.relative_to(PACKAGE).as_posix()
        self.starts = [0]
        for line in self.text.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.names: list[str] = []
        self.found: list[Mutant] = []
        self.visit(ast.parse(self.text))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the first and last byte of a node."""
        here: ast.expr = node  # type: ignore[assignment]
        start = self.starts[here.lineno - 1] + here.col_offset
        return start, self.starts[(here.end_lineno or 1) - 1] + (here.end_col_offset or 0)

    def source(self, start: int, stop: int) -> str:
        """Return the text between two byte offsets."""
        return self.text.encode()[start:stop].decode()

    def add(self, node: ast.AST, kind: str, start: int, stop: int, after: str) -> None:
        """Add a mutant."""
        before = self.source(start, stop)
        line = getattr(node, "lineno", 0)
        place = ".".join(self.names) or "module"
        text = self.text.split("\n")[line - 1].strip()
        self.found.append(Mutant(self.path, line, place, kind, before, after, text, start, stop))

    def replace(self, node: ast.AST, kind: str, after: str) -> None:
        """Add a mutant that replaces a whole node."""
        self.add(node, kind, *self.span(node), after)

    def between(self, left: ast.AST, right: ast.AST) -> tuple[int, int]:
        """Return the first and last byte between two operands."""
        start, stop = self.span(left)[1], self.span(right)[0]
        return start, stop

    def operator(self, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Add a mutant of the operator between two operands."""
        start, stop = self.between(left, right)
        text = self.source(start, stop)
        if text.count(old) == 1:
            at = start + len(text[: text.index(old)].encode())
            kind = "comparison" if isinstance(node, ast.Compare) else "arithmetic"
            whole = self.source(*self.span(node))
            if "\n" not in whole:
                offset = at - self.span(node)[0]
                raw = whole.encode()
                changed = raw[:offset] + new.encode() + raw[offset + len(old) :]
                self.replace(node, kind, changed.decode())

    # Nodes of the syntax tree that are changed

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit the body only: no decorators, annotations or defaults."""
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit the body of a class."""
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit the value, not the type."""
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        """Skip code that is only for type checkers."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Skip docstrings."""
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip the text of messages."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Remove a raise."""
        if self.names and node.exc is not None:
            self.replace(node, "raise removed", "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        """Remove an assignment to an attribute or an element."""
        target = node.targets[0]
        if self.names and isinstance(target, (ast.Subscript, ast.Attribute)):
            self.replace(node, "assignment removed", "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Remove an update."""
        if self.names:
            self.replace(node, "assignment removed", "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Replace a comparison."""
        if len(node.ops) == 1 and type(node.ops[0]) in _SIGNS:
            kind = type(node.ops[0])
            self.operator(node, node.left, node.comparators[0], _SIGNS[kind], _COMPARE[kind])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Replace an arithmetic operator."""
        kind = type(node.op)
        text = isinstance(node.left, (ast.Constant, ast.JoinedStr)) and not isinstance(
            getattr(node.left, "value", 0), (int, float)
        )
        if kind in _ARITHMETIC and not text:
            old = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[kind]  # type: ignore[index]
            self.operator(node, node.left, node.right, old, _ARITHMETIC[kind])  # type: ignore[index]
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Drop a not."""
        if isinstance(node.op, ast.Not):
            self.replace(node, "not dropped", f"({self.source(*self.span(node.operand))})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Swap and / or."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        start, stop = self.between(node.values[0], node.values[1])
        text = self.source(start, stop)
        if text.split().count(old) == 1:
            at = start + len(text[: text.index(old)].encode())
            offset = at - self.span(node)[0]
            raw = self.source(*self.span(node)).encode()
            changed = raw[:offset] + new.encode() + raw[offset + len(old) :]
            self.replace(node, "and / or", changed.decode())
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Add one to a small integer."""
        if self.names and type(node.value) is int and abs(node.value) <= 2:
            self.replace(node, "off by one", str(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        """Swap min and max."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in ("min", "max", "minimum", "maximum"):
            other = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}[name]
            start, stop = self.span(node.func)
            whole = self.source(start, stop)
            self.add(node, "min / max", start, stop, whole[: -len(name)] + other)
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        """Replace break by continue."""
        self.replace(node, "break / continue", "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        """Replace continue by break."""
        self.replace(node, "break / continue", "break")


def sites() -> dict[str, list[Mutant]]:
    """Find all mutants by package."""
    packages: dict[str, list[Mutant]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for mutant in _Finder(path).found:
            packages[mutant.package].append(mutant)
    return dict(packages)


def drawn(packages: dict[str, list[Mutant]], count: int, least: int, seed: int) -> list[Mutant]:
    """Draw ``count`` mutants in proportion to the packages, at least ``least`` of each."""
    chance = random.Random(seed)  # noqa: S311 - seeded on purpose
    total = sum(map(len, packages.values()))
    chosen: list[Mutant] = []
    for _, places in sorted(packages.items()):
        share = max(least, round(count * len(places) / total))
        # Kinds alike: comparisons and constants would drown the rest.
        kinds: dict[str, list[Mutant]] = defaultdict(list)
        for mutant in places:
            kinds[mutant.kind].append(mutant)
        for group in kinds.values():
            chance.shuffle(group)
        queue = [kinds[kind] for kind in sorted(kinds)]
        chance.shuffle(queue)  # a small package has fewer mutants than there are kinds
        while share > 0 and any(queue):
            for group in queue:
                if group and share > 0:
                    chosen.append(group.pop())
                    share -= 1
    chance.shuffle(chosen)
    return chosen


def known_equivalents() -> set[Identity]:
    """Return the identities of the mutants without a visible effect."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return {(e["path"], e["place"], e["before"], e["after"], e["text"]) for e in entries}


# Tracing: which tests execute which lines


@cache
def _lines(code: Any) -> frozenset[int]:
    """Return the lines of a function."""
    return frozenset(line for _, _, line in code.co_lines() if line)


class _Lines:
    """Pytest plugin that records the lines that each test executes and its CPU time."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.lines: dict[str, set[int]] = defaultdict(set)
        self.tests: dict[str, tuple[float, dict[str, str]]] = {}
        self.failed: set[str] = set()

    def enter(self, frame: Any, _event: str, _argument: object) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(_INSIDE):
            return None
        seen = self.lines[file]
        if _lines(frame.f_code) <= seen:
            return None
        add = seen.add
        add(frame.f_lineno)

        def line(frame: Any, _event: str, _argument: object) -> Any:
            add(frame.f_lineno)
            return line

        return line

    def pytest_runtest_logstart(self) -> None:
        self.lines.clear()
        self.began = time.process_time()
        threading.settrace(self.enter)
        sys.settrace(self.enter)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        sys.settrace(None)
        if nodeid in self.failed:  # or skipped
            return
        seconds = round(time.process_time() - self.began, 2)
        seen = {
            file[len(_INSIDE) :]: f"{sum(1 << line for line in lines):x}"
            for file, lines in list(self.lines.items())
        }
        self.tests[nodeid] = (seconds, seen)

    def pytest_sessionfinish(self) -> None:
        self.out.write_text(json.dumps(self.tests), encoding="utf-8")


def _files(folders: tuple[str, ...] = FOLDERS) -> list[str]:
    """Return the test files in these folders."""
    found: list[Path] = []
    for name in folders:
        place = ROOT / "tests" / name
        found += sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
    skipped = tuple(str(ROOT / "tests" / name) for name in SKIP)
    return [str(file) for file in found if file.exists() and not str(file).startswith(skipped)]


def trace_part(out: str, *files: str) -> None:
    """Run test files and store which lines each test executes."""
    import pytest

    options = ["-q", "-p", "no:cacheprovider", "--timeout", "600", "-m", MARKS]
    pytest.main([*options, *files], plugins=[_Lines(Path(out))])


def trace(seconds: float) -> bool:
    """Trace the test files that have changed; return whether all of them are done.

    Two processes run at a time, and the results are stored after each pair.
    """
    REACHED.parent.mkdir(exist_ok=True)
    ask = "import sys; from tools import mutants; mutants.trace_part(*sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    kept = json.loads(REACHED.read_text("utf-8")) if REACHED.exists() else {}
    digests = {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in _files()}
    files = [file for file in digests if kept.get(file, {}).get("digest") != digests[file]]
    began = time.monotonic()
    while files and time.monotonic() - began < seconds:
        parts = [part for part in (files[:8], files[8:16]) if part]
        files = files[16:]
        outs = [REACHED.with_suffix(f".{number}") for number in range(len(parts))]
        running = [
            subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", ask, str(out), *part], cwd=ROOT, env=environment
            )
            for out, part in zip(outs, parts, strict=True)
        ]
        for process, out, part in zip(running, outs, parts, strict=True):
            if process.wait():
                raise RuntimeError(f"the tests of {part} cannot be run")
            tests = json.loads(out.read_text("utf-8"))
            out.unlink()
            for file in part:
                here = f"{Path(file).relative_to(ROOT).as_posix()}::"
                found = {test: seen for test, seen in tests.items() if test.startswith(here)}
                kept[file] = {"digest": digests[file], "tests": found}
        REACHED.write_text(json.dumps(kept), encoding="utf-8")
    return not files


@cache
def _mentions() -> dict[str, set[str]]:
    """Return name -> ``file:place`` of the functions that use it, for code that no tracer sees."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        short = path.relative_to(PACKAGE).as_posix()

        def walk(node: ast.AST, place: str, short: str = short) -> None:
            for child in ast.iter_child_nodes(node):
                below = place
                if isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                    below = f"{place}.{child.name}" if place else child.name
                name = getattr(child, "id", getattr(child, "attr", None))
                if name and place:
                    found[name].add(f"{short}:{place}")
                walk(child, below)

        walk(ast.parse(path.read_text(encoding="utf-8")), "")
    return dict(found)


@cache
def _places(path: str) -> dict[str, tuple[int, str]]:
    """Return function -> the lines of its body as bits, and the name by which it is called.

    An implementation of a generic function is called by the name of the generic function.
    """
    found: dict[str, tuple[int, str]] = {}

    def walk(node: ast.AST, place: str) -> None:
        for child in ast.iter_child_nodes(node):
            below = place
            if isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                below = f"{place}.{child.name}" if place else child.name
                if not isinstance(child, ast.ClassDef):
                    first, last = child.body[0].lineno, child.end_lineno or 0
                    above = [ast.unparse(one) for one in child.decorator_list]
                    sign = ".implementation("
                    asked = [one.partition(sign)[0] for one in above if sign in one]
                    bits = (1 << (last + 1)) - (1 << first)
                    found[below] = bits, asked[0] if asked else child.name
            walk(child, below)

    walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8")), "")
    return found


class Reach:
    """The tests by the lines that they execute."""

    def __init__(self) -> None:
        self.tests: dict[str, tuple[float, dict[str, int]]] = {}
        self.files: dict[str, list[str]] = defaultdict(list)
        self.traced: set[str] = set()
        if REACHED.exists():
            kept = json.loads(REACHED.read_text("utf-8"))
            self.traced = set(kept)
            for test, (seconds, seen) in (
                one for file in kept.values() for one in file["tests"].items()
            ):
                self.tests[test] = seconds, {file: int(bits, 16) for file, bits in seen.items()}
                for file in seen:
                    self.files[file].append(test)

    def forget(self, tests: set[str]) -> None:
        """Remove tests that fail on the unchanged source."""
        kept = json.loads(REACHED.read_text("utf-8")) if REACHED.exists() else {}
        for file in kept.values():
            file["tests"] = {
                test: seen for test, seen in file["tests"].items() if test not in tests
            }
        REACHED.write_text(json.dumps(kept), encoding="utf-8")

    def running(self, path: str, bits: int) -> set[str]:
        """Return the tests that execute one of these lines of a file."""
        return {test for test in self.files.get(path, ()) if self.tests[test][1][path] & bits}

    def of(self, mutant: Mutant, *, compiled: bool) -> list[str]:
        """Return the tests that execute the line, else the function, else its users, nearest first.

        The tracer sees compiled code only where it runs as Python, so for compiled code all of
        these are added up, with the tests of the module and the package. A line that few tests
        execute may run on import for all tests: the module's tests are added there too.
        """
        direct = self.running(mutant.path, 1 << mutant.line)
        if compiled or 0 < len(direct) < FEW:
            stem = Path(mutant.path).stem.strip("_")
            direct |= {test for test in self.tests if stem in Path(test.partition("::")[0]).stem}
        if compiled:
            near = (
                f"tests/unit/{mutant.package}/",
                *(f"tests/{one}" for one in ALSO.get(mutant.package, ())),
            )
            direct |= {test for test in self.tests if test.startswith(near)}
        if direct and not compiled:
            return self._ordered(direct, mutant)
        here = f"{mutant.path}:{mutant.place}"
        seen, layer = {here}, {here}
        for depth in range(5):
            tests, names = set[str](), set[str]()
            for path, _, place in (name.partition(":") for name in layer):
                bits, called = _places(path).get(place, (0, place.rpartition(".")[2]))
                tests |= self.running(path, bits)
                names.add(called)
            direct |= tests
            if tests and not (compiled and depth == 0):
                break
            layer = {place for name in names for place in _mentions().get(name, ())} - seen
            seen |= layer
        return self._ordered(direct or set(self.files.get(mutant.path, ())), mutant)

    def _ordered(self, tests: set[str], mutant: Mutant) -> list[str]:
        stem = Path(mutant.path).stem.strip("_")

        def rank(test: str) -> tuple[int, int, int, float]:
            seconds = self.tests[test][0]
            slow = 0 if seconds < 0.3 else 1 if seconds < 3 else 2
            foreign = stem not in Path(test.partition("::")[0]).stem
            return slow - (not foreign), foreign, f"/{mutant.package}/" not in test, seconds

        return sorted(tests, key=rank)

    def near(self, mutant: Mutant, seconds: float, *, compiled: bool) -> list[str]:
        """Return the first of these tests, ``seconds`` of CPU time in total."""
        chosen, total = [], 0.0
        for test in self.of(mutant, compiled=compiled) if self.tests else ():
            chosen.append(test)
            total += self.tests[test][0] + 0.02
            if total > seconds:
                break
        return chosen

    def tests_of(self, mutant: Mutant, seconds: float, *, compiled: bool) -> list[str]:
        """Return traced tests up to ``seconds``, then related files without a trace."""
        chosen = self.near(mutant, seconds, compiled=compiled)
        apart = {file for file in self.traced if file.startswith(PROCESSES)}
        if mutant.package not in ("cli", "serve"):
            apart = {file for file in apart if "/serve/" not in file}
        return chosen + [file for file in near_files(mutant) if file not in self.traced - apart]


@cache
def _words(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def near_files(mutant: Mutant) -> list[str]:
    """Return test files that name the module, class or function, nearest first.

    Files that only name a caller, and the other files of the package, come last.
    """
    stem = Path(mutant.path).stem.strip("_")
    module = mutant.path.removesuffix(".py").replace("/", ".")
    names = [name for name in mutant.place.split(".") if name != "module"]
    above = {
        place.rpartition(":")[2].partition(".")[0]
        for name in names
        for place in _mentions().get(name, ())
    }

    def distance(file: str) -> int:
        text = _words(file)
        near = stem in Path(file).stem or f"rankine.{module} " in text
        near = near or any(name in text for name in names)
        if near:
            return 0 if f"/{mutant.package}/" in file else 1
        if f"/{mutant.package}/" in file:
            return 2
        if any(len(name) > 5 and name in text for name in above):
            return 3
        return 4 if any(f"tests/{place}" in file for place in ALSO.get(mutant.package, ())) else 9

    ranked = sorted((distance(file), file) for file in _files())
    return [file for far, file in ranked if far < 9]


def unreached(packages: dict[str, list[Mutant]]) -> Iterator[str]:
    """Yield the places of Python code that no traced test executes."""
    reach = Reach()
    for mutant in (one for places in packages.values() for one in places):
        if not reach.running(mutant.path, 1 << mutant.line):
            text = (PACKAGE / mutant.path).read_text(encoding="utf-8")
            if not is_compiled(mutant, text):
                yield mutant.description


# Fast runs: in forks of a process in which the tests have run already


class _Warm:
    """Pytest plugin that runs the tests once, then the tests of each mutant again in a fork.

    The code of the functions is replaced in place. A failure counts only if the test passes in the
    same fork with the original code; no other result decides anything.
    """

    def __init__(self, tests: dict[Mutant, list[str]], told: int) -> None:
        self.tests, self.told = tests, told
        self.now = mmap.mmap(-1, 1024)  # the test that a fork runs
        self.functions: dict[str, list[Any]] = defaultdict(list)

    def pytest_runtestloop(self, session: Any) -> bool:
        from _pytest.runner import runtestprotocol

        fit = {}
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            print(item.nodeid, flush=True)
            reports = runtestprotocol(item, log=False, nextitem=following)
            if all(report.passed for report in reports):
                fit[item.nodeid] = item, sum(report.duration for report in reports)
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__code__.co_filename.startswith(_INSIDE):
                self.functions[one.__code__.co_filename].append(one)
        gc.collect()
        gc.freeze()
        for mutant, tests in self.tests.items():
            print(mutant.description, flush=True)
            ended = False
            while not ended:
                pid = os.fork()
                if pid == 0:
                    try:
                        usual = dict(fit[test] for test in tests if test in fit)
                        self.attempt(mutant, usual, runtestprotocol)
                    finally:
                        os._exit(0)
                ended = self.awaited(mutant, pid)
                if not ended:
                    fit.pop(self.now[:].rstrip(b"\0").decode(), None)
        return True

    def awaited(self, mutant: Mutant, pid: int) -> bool:
        """Wait for a fork; return False if its test sleeps, waiting for a lost thread."""
        asleep, passed = 0.0, 0.0
        while asleep < NAP:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
                    self.tell(mutant, "hung", "", "")
                break
            time.sleep(POLL / 10)
            passed += POLL / 10
            if passed > 1:
                asleep, passed = (0.0 if spent(pid)[1] else asleep + passed), 0.0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if asleep >= NAP:
            os.waitpid(pid, 0)
        return asleep < NAP

    def tell(self, mutant: Mutant, verdict: str, test: str, words: str) -> None:
        """Report the verdict of a mutant."""
        found = [mutant.identity, verdict, time.process_time(), test, words]
        os.write(self.told, f"{json.dumps(found)}\n".encode())

    def attempt(self, mutant: Mutant, usual: dict[Any, float], run: Callable[..., Any]) -> None:
        """Run tests until one notices the mutant; ``usual`` holds the time that each test takes."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (QUICK_CPU, QUICK_CPU))
        before = self.plant(mutant)
        items = list(usual)
        for item, following in zip(items, [*items[1:], None], strict=True):
            self.now[:] = item.nodeid.encode()[: len(self.now)].ljust(len(self.now), b"\0")
            # The signal ends a process that computes for so long.
            signal.setitimer(signal.ITIMER_PROF, max(LEAST_HANG, HANG * usual[item]))
            failed = [one for one in run(item, log=False, nextitem=following) if one.failed]
            if failed and before:
                for function, code in before:
                    function.__code__ = code
                if all(one.passed for one in run(item, log=False, nextitem=None)):
                    told = getattr(failed[0].longrepr, "reprcrash", None) or failed[0].longrepr
                    words = " ".join(getattr(told, "message", str(told)).split())[:160]
                    self.tell(mutant, "killed", item.nodeid, words)
                return

    def plant(self, mutant: Mutant) -> list[tuple[Any, Any]]:
        """Replace the code of functions; return the functions with their original code."""
        file = PACKAGE / mutant.path
        text = file.read_text(encoding="utf-8")
        old, new = (_codes(compile(one, file, "exec")) for one in (text, mutant.applied(text)))
        names = {(code.co_qualname, code.co_firstlineno): name for name, code in old.items()}
        before = []
        for function in self.functions[str(file)]:
            code = function.__code__
            name = names.get((code.co_qualname, code.co_firstlineno))
            if name in new:
                function.__code__ = new[name]
                before.append((function, code))
        return before


def _codes(code: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    """Return the code of the functions of a module by name and number of earlier uses of it."""
    found: dict[tuple[str, int], types.CodeType] = {}
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            for (name, number), inner in {(one.co_qualname, 0): one, **_codes(one)}.items():
                while (name, number) in found:
                    number += 1  # noqa: PLW2901
                found[name, number] = inner
    return found


def begun(tests: dict[Mutant, list[str]], log: Path, *, jit: bool) -> tuple[int, int]:
    """Start a process that runs tests and tries mutants; return its id and its pipe."""
    import pytest

    ours, theirs = os.pipe()
    if pid := os.fork():
        os.close(theirs)
        return pid, ours
    try:
        silent = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.chdir(ROOT)
        sys.path.insert(0, str(PACKAGE.parent))
        os.environ |= {"PYTHONPATH": str(PACKAGE.parent), "NUMBA_THREADING_LAYER": "workqueue"}
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(log.parent / "hypothesis")
        import numba

        numba.config.THREADING_LAYER = "workqueue"
        if not jit:
            numba.config.DISABLE_JIT = 1
            os.environ["NUMBA_DISABLE_JIT"] = "1"
        marks = MARKS if jit else f"kernels and {MARKS}"
        options = ["-q", "-s", "-p", "no:cacheprovider", "--timeout", "0", "-m", marks]
        chosen = sorted({test for some in tests.values() for test in some})
        pytest.main([*options, *chosen], plugins=[_Warm(tests, theirs)])
    finally:
        os._exit(0)


def quickly(
    tests: dict[Mutant, list[str]], folder: Path, workers: int, *, jit: bool
) -> Iterator[tuple[Identity, str, float, Entry]]:
    """Yield the mutants noticed in forks: identity, verdict, CPU seconds, and the test."""
    order = sorted(tests, key=lambda mutant: mutant.path)  # neighbours share their tests
    waiting = [order[k : k + TOGETHER] for k in range(0, len(order), TOGETHER)]
    running: dict[int, tuple[int, bytes]] = {}  # where a process writes: its number, half a line
    while waiting or running:
        while waiting and len(running) < workers:
            some = {mutant: tests[mutant] for mutant in waiting.pop()}
            pid, told = begun(some, folder / f"quick{len(waiting)}{jit}.log", jit=jit)
            running[told] = pid, b""
        for told in select.select(list(running), [], [])[0]:
            pid, rest = running[told]
            more = os.read(told, 65536)
            *lines, rest = (rest + more).split(b"\n")
            running[told] = pid, rest
            for identity, verdict, seconds, test, words in map(json.loads, lines):
                yield tuple(identity), verdict, seconds, {"by": test, "words": words}
            if not more:
                del running[told]
                os.close(told)
                os.waitpid(pid, 0)


# Other runs: each mutant in a separate process and copy of the package


class _Pulse:
    """Pytest plugin that tells the parent which test runs and which one failed."""

    def __init__(self, copy: Path, *, jit: bool) -> None:
        self.copy, self.jit = copy, jit

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        (self.copy / "pulse").write_text(nodeid, encoding="utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            told = getattr(report.longrepr, "reprcrash", None) or str(report.longrepr)
            self.note(report.nodeid, getattr(told, "message", str(told)))

    def note(self, test: str, words: str) -> None:
        found = {"by": test, "words": " ".join(words.split())[:160], "jit": self.jit}
        with (self.copy / "noticed").open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")

    pytest_collectreport = pytest_runtest_logreport


@dataclass
class Attempt:
    """A mutant whose tests run in a forked child; ``cpu`` is the CPU time when ``test`` began."""

    mutant: Mutant
    copy: Path
    text: str
    pid: int
    compiled: bool
    test: str = ""
    cpu: float = 0.0
    asleep: float = 0.0


def noticed(copy: Path) -> list[dict[str, Any]]:
    """Return the tests that failed on a copy."""
    file = copy / "noticed"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def spent(session: int) -> tuple[float, bool]:
    """Return the CPU seconds of a session's processes, and whether one is computing."""
    seconds, awake = 0.0, False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, *rest = stat.read_text().rpartition(") ")[2].split()
            if int(rest[2]) == session:
                seconds += sum(map(int, rest[10:14])) / os.sysconf("SC_CLK_TCK")
                threads = [state, *_states(stat.parent)]
                awake = awake or not {"R", "D", "T"}.isdisjoint(threads)
    return seconds, awake


def _states(process: Path) -> Iterator[str]:
    for stat in process.glob("task/*/stat"):
        with contextlib.suppress(OSError):
            yield stat.read_text().rpartition(") ")[2][0]


class Workshop:
    """Copies of the package, one for each worker, in which mutants are made and tested."""

    def __init__(self, folder: Path, workers: int, limit: float) -> None:
        self.limit = limit
        self.reach = Reach()
        self.free: list[Path] = []
        ask = "from rankine.kernels.cache import user_cache; print(user_cache())"
        found = subprocess.run(  # noqa: S603
            [sys.executable, "-c", ask], check=True, capture_output=True, text=True
        )
        cache = folder / "cache"  # kernels of mutants do not stay in the user's cache
        cache.mkdir()
        with contextlib.suppress(OSError):  # links; on another disk kernels are compiled again
            kernels = Path(found.stdout.strip()) / "kernels"
            shutil.copytree(kernels, cache / "kernels", copy_function=os.link)
        os.environ["RANKINE_CACHE_DIR"] = str(cache)
        for number in range(workers):
            copy = folder / str(number)
            shutil.copytree(PACKAGE, copy / "rankine", ignore=shutil.ignore_patterns("__pycache__"))
            self.free.append(copy)

    def run(
        self,
        mutants: list[Mutant],
        told: Callable[[Mutant, str, float, Entry], None],
        seconds: float,
    ) -> None:
        """Try mutants, none begun after so many seconds.

        ``told`` hears of each: ``survived``, ``killed`` or ``hung``, CPU seconds, and which test
        has noticed it, with its words.
        """
        waiting, running = list(reversed(mutants)), list[Attempt]()
        end = time.monotonic() + seconds
        try:
            while running or (waiting and time.monotonic() < end):
                while waiting and self.free and time.monotonic() < end:
                    running.append(self.start(waiting.pop()))
                for attempt in list(running):
                    used, awake = spent(attempt.pid)
                    if verdict := self.look(attempt, used, awake=awake):
                        running.remove(attempt)
                        by = {"by": attempt.test} if verdict == "hung" else {}
                        told(attempt.mutant, verdict, used, (noticed(attempt.copy) or [by])[0])
                time.sleep(POLL)
        finally:
            for attempt in running:
                os.killpg(attempt.pid, signal.SIGKILL)

    def start(self, mutant: Mutant) -> Attempt:
        """Plant a mutant and fork the tests."""
        copy = self.free.pop()
        file = copy / "rankine" / mutant.path
        text = file.read_text(encoding="utf-8")
        file.write_text(mutant.applied(text), encoding="utf-8")
        compiled = is_compiled(mutant, text)
        tests = self.reach.tests_of(mutant, self.limit / 4, compiled=compiled)
        for name in ("pulse", "noticed"):
            (copy / name).unlink(missing_ok=True)
        pid = os.fork()
        if pid:
            return Attempt(mutant, copy, text, pid, compiled)
        try:
            last = mutant.package not in WITHOUT_LAST
            os._exit(_child(copy, tests, None if compiled else (file, text), last=last))
        except BaseException:  # noqa: BLE001 - a forked process must not go on as its parent
            traceback.print_exc()
            os._exit(3)

    def look(self, attempt: Attempt, used: float, *, awake: bool) -> str:
        """The verdict, or nothing while the tests run."""
        pid, status = os.waitpid(attempt.pid, os.WNOHANG)
        verdict = ""
        if pid:
            code = os.waitstatus_to_exitcode(status)
            if code > 0 and code != NO_TEST and not noticed(attempt.copy):
                log = (attempt.copy / "log").read_text(encoding="utf-8")[-2000:]
                raise RuntimeError(
                    f"the tests of {attempt.mutant.description} cannot be run: {log}"
                )
            verdict = "survived" if code in (0, NO_TEST) else "killed"  # by a test or by a crash
        else:
            verdict = self.hangs(attempt, used, awake=awake)
            if verdict:
                os.killpg(attempt.pid, signal.SIGKILL)
                os.waitpid(attempt.pid, 0)
        if verdict:
            path = attempt.copy / "rankine" / attempt.mutant.path
            path.write_text(attempt.text, encoding="utf-8")
            self.free.append(attempt.copy)
        return verdict

    def hangs(self, attempt: Attempt, used: float, *, awake: bool) -> str:
        """``hung`` where a test does not end; ``survived`` where all together take too long."""
        pulse = attempt.copy / "pulse"
        test = pulse.read_text(encoding="utf-8") if pulse.exists() else ""
        if test != attempt.test:
            attempt.test, attempt.cpu, attempt.asleep = test, used, 0.0
        attempt.asleep = max(0.0, attempt.asleep + (-5 * POLL if awake else POLL))
        if test == LAST:
            return "survived" if used - attempt.cpu > LONGEST_LAST else ""
        least = COMPILING if attempt.compiled else LEAST_HANG
        usual = self.reach.tests.get(test, (0.0, {}))[0]
        if used - attempt.cpu > max(least, HANG * usual) or attempt.asleep > ASLEEP:
            return "hung"
        return "survived" if used > self.limit + (least if attempt.compiled else 0) else ""

    def control(self, tests: set[str], *, jit: bool) -> set[str]:
        """Return which of these tests fail on the unchanged source."""
        copy = self.free[0]
        (copy / "noticed").unlink(missing_ok=True)
        pid = os.fork()
        if pid == 0:
            try:
                _child(copy, sorted(tests), None, jit=jit)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return {found["by"] for found in noticed(copy)}


def is_compiled(mutant: Mutant, text: str) -> bool:
    """Return whether a mutant may change compiled code."""
    if not any(
        sign in text
        for sign in ("kernels.compile import", "kernels.dispatch import", ".implementation(")
    ):
        return mutant.path.startswith("kernels/")
    outermost = mutant.place.partition(".")[0]
    for node in ast.parse(text).body:
        if getattr(node, "name", "") == outermost:
            source = ast.get_source_segment(text, node) or ""
            above = " ".join(map(ast.unparse, getattr(node, "decorator_list", [])))
            return any(word in f"{above} {source}" for word in ("jit", "implementation", "generic"))
    return True  # a constant of the module


def _child(
    copy: Path,
    tests: list[str],
    python: tuple[Path, str] | None,
    *,
    jit: bool | None = None,
    last: bool = False,
) -> int:
    """Run tests on a copy of the package, in a forked process that has not imported it.

    ``python`` is a file and its text before the mutant, where no compiled code can have changed:
    kernels are then looked up as if the file were as it was. ``jit`` runs all tests, with or
    without compiling; else the first failure ends the run. ``last`` adds the valid problems.
    """
    import pytest

    os.setsid()
    silent = os.open(copy / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(copy)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(copy / "hypothesis")
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True

    def run(marks: str, tests: list[str] = tests, *, off: bool = False) -> int:
        options = ["-q", "-p", "no:cacheprovider", "--timeout", "0", "-m", marks]
        if jit is None:
            options.append("-x")
        if off:
            import numba

            numba.config.DISABLE_JIT = 1
            os.environ["NUMBA_DISABLE_JIT"] = "1"
        pulse = _Pulse(copy, jit=not off)
        try:
            importlib.import_module("rankine.rankers.registry")  # what all tests import
        except Exception as error:  # noqa: BLE001 - whatever a mutant may do
            pulse.note("import rankine", repr(error))
            return 1
        return int(pytest.main([*options, *tests], plugins=[pulse]))

    if jit is not None:
        return run(MARKS, off=not jit)
    if python:
        with contextlib.suppress(Exception):  # what cannot be imported is told below
            from rankine.kernels import sources

            read, (file, text) = sources._text, python  # noqa: SLF001
            sources._text = lambda path: text if path == file else read(path)  # noqa: SLF001
            sources._imported_files.cache_clear()  # noqa: SLF001
            sources.compiled_from.cache_clear()
    elif (pid := os.fork()) == 0:
        os._exit(run(f"kernels and {MARKS}", off=True))
    elif os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) not in (0, 5):
        return 1
    code = run(MARKS)
    return run(MARKS, [LAST]) if last and code in (0, NO_TEST) else code


def counted(results: list[Entry], reasons: set[Identity], column: str) -> dict[str, Counter[str]]:
    """Count the verdicts by package and in total, on the first attempt or afterwards."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in results:
        verdict = (column == "after" and entry.get("again")) or entry["verdict"]
        known = verdict == "survived" and mutant_of(entry).identity in reasons
        counts[mutant_of(entry).package]["equivalent" if known else verdict or "left"] += 1
    return {**dict(sorted(counts.items())), "all": sum(counts.values(), Counter())}


def summary(results: list[Entry], reasons: set[Identity], column: str) -> Iterator[str]:
    """Yield the lines of the table of scores, on the first attempt or afterwards."""
    yield f"\n{column:14}{'mutants':>8}{'noticed':>9}{'equivalent':>11}{'survived':>9}{'score':>8}"
    for package, count in counted(results, reasons, column).items():
        yield row(package, count)


def record(results: list[Entry], reasons: set[Identity], seed: int) -> None:
    """Store the scores of a seed for docs/reliability.md."""
    runs = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []
    tried = [entry for entry in results if entry["verdict"]]
    run: Entry = {"seed": seed, "mutants": len(results), "tried": len(tried)}
    for column in ("first look", "after"):
        packages = counted(tried, reasons, column)
        run |= {
            "equivalent": packages["all"]["equivalent"],
            "survived": packages["all"]["survived"],
        }
        run[column.replace(" ", "_")] = {
            package: score(count)
            for package, count in packages.items()
            if count.total() > count["equivalent"]
        }
    kept = [one for one in runs if one["seed"] != seed] + [run]
    kept.sort(key=lambda one: int(one["seed"]))
    RECORD.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def survivors(results: list[Entry], reasons: set[Identity]) -> list[Mutant]:
    """Return the mutants that no test noticed and that are not listed as equivalent."""
    left = [
        mutant_of(entry)
        for entry in results
        if (entry.get("again") or entry["verdict"]) == "survived"
    ]
    kept = [mutant for mutant in left if mutant.identity not in reasons]
    return sorted(kept, key=lambda mutant: (mutant.path, mutant.line))


def mutant_of(entry: Entry) -> Mutant:
    """Return the mutant of a result."""
    return Mutant(**{name.name: entry[name.name] for name in fields(Mutant)})


def score(count: Counter[str]) -> float:
    """Return the share of noticed mutants, without equivalent ones."""
    seen = count["killed"] + count["hung"]
    return round(seen / max(seen + count["survived"], 1), 4)


def row(package: str, count: Counter[str]) -> str:
    """Return one line of the table."""
    seen = count["killed"] + count["hung"]
    shown = f"{100 * score(count):.1f} %" if seen + count["survived"] else ""
    numbers = f"{count.total():8}{seen:9}{count['equivalent']:11}{count['survived']:9}"
    return f"{package:14}{numbers}{shown:>8}"


def main() -> int:
    """Draw mutants, try them and print the scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument(
        "--least", type=int, default=7, help="minimum number of mutants in a package"
    )
    parser.add_argument("--package", help="only this package, or the files in this folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=80.0, help="CPU seconds per mutant")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="start no mutant after this time"
    )
    parser.add_argument("--again", action="store_true", help="try the survivors in --json again")
    parser.add_argument(
        "--trace", action="store_true", help="record which tests execute which lines"
    )
    parser.add_argument(
        "--quick", action="store_true", help="run only the fastest tests, to write a draft"
    )
    parser.add_argument("--show", action="store_true", help="list the mutants and run nothing")
    parser.add_argument(
        "--unreached", action="store_true", help="list the code that no traced test executes"
    )
    parser.add_argument("--json", type=Path, help="file for the results; continued if it exists")
    parser.add_argument(
        "--record", action="store_true", help="store the scores of --json under --seed"
    )
    options = parser.parse_args()
    if options.trace:
        print("traced" if trace(options.seconds) else "some test files are left to be traced")
        return 0
    packages = sites()
    within = options.package or ""
    packages = {
        package: kept
        for package, places in packages.items()
        if (kept := [one for one in places if f"{one.package}/{one.path}".startswith(within)
                     or one.path.startswith(within)])
    }  # fmt: skip
    if options.unreached:
        print("\n".join(unreached(packages)))
        return 0
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text(encoding="utf-8"))
    else:
        least = 0 if options.package else options.least
        chosen = drawn(packages, options.count, least, options.seed)
        once = {mutant.identity: mutant for mutant in chosen}  # not twice in one line
        results = [{**mutant.__dict__, "verdict": ""} for mutant in once.values()]
    reasons = known_equivalents()
    if options.show:
        for entry in results:
            print(mutant_of(entry).description)
        return 0
    if options.record:
        record(results, reasons, options.seed)
        return 0
    try_all(
        results, {m.identity: m for places in packages.values() for m in places}, options, reasons
    )
    print("\n".join(summary(results, reasons, "first look")))
    print("\n".join(summary(results, reasons, "after")))
    for mutant in survivors(results, reasons):
        print(f"survived  {mutant.path}:{mutant.line} {mutant.place}  {mutant.kind}")
        print(f"          {mutant.before!r} -> {mutant.after!r}")
    return 0


def try_all(
    results: list[Entry],
    today: dict[Identity, Mutant],
    options: argparse.Namespace,
    reasons: set[Identity],
) -> None:
    """Try the mutants that are left, or the survivors again, and store the verdicts."""
    if options.again:
        places = {mutant.identity for mutant in survivors(results, reasons)}
    else:
        places = {mutant_of(entry).identity for entry in results if not entry["verdict"]}
    entries = {mutant_of(entry).identity: entry for entry in results}
    column = "again" if options.again else "verdict"
    chosen = [today[place] for place in entries if place in places and place in today]
    chosen.sort(key=lambda one: is_compiled(one, (PACKAGE / one.path).read_text("utf-8")))
    for name in ("numba", "pandas", "pyarrow.parquet", "scipy.stats", "sklearn.pipeline",
                 "typer", "rich.table", "sklearn.model_selection"):  # fmt: skip
        importlib.import_module(name)  # what every child would load by itself
    done: list[Entry] = []

    def keep() -> None:
        if options.json:
            text = json.dumps(results, indent=1) + "\n"
            options.json.write_text(text, encoding="utf-8")

    def told(mutant: Mutant, verdict: str, seconds: float, by: Entry) -> None:
        entry = entries[mutant.identity]
        entry |= {column: verdict, "seconds": round(seconds, 1), **by}
        done.append(entry)
        print(f"{len(done):>4}/{len(chosen)} {verdict:9}{seconds:6.0f} s  {mutant.description}",
              flush=True)  # fmt: skip
        keep()

    keep()
    REACHED.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=REACHED.parent) as folder:
        end = time.monotonic() + options.seconds
        workshop = Workshop(Path(folder), options.workers, options.limit)
        for jit in (True, False) if workshop.reach.tests else ():
            tests = {
                one: workshop.reach.near(one, QUICK_TESTS, compiled=not jit)
                for one in chosen
                if is_compiled(one, (PACKAGE / one.path).read_text("utf-8")) != jit
            }
            found = quickly(tests, Path(folder), options.workers, jit=jit)
            for identity, verdict, seconds, by in found:
                told(today[identity], verdict, seconds, by)
        known = {mutant_of(entry).identity for entry in done}
        left = [one for one in chosen if one.identity not in known]
        if options.quick:
            drafts = [one for one in left if one.identity not in reasons]
            print("\n".join(f"not noticed  {one.description}" for one in drafts))
            return
        workshop.run(left, told, end - time.monotonic())
        for jit in (True, False):
            noticing = {entry["by"] for entry in done if entry.get("jit") is jit}
            noticing.discard("import rankine")
            unfit = workshop.control(noticing, jit=jit) if noticing else set()
            workshop.reach.forget(unfit)
            for entry in done:
                if entry.get("by") in unfit:
                    print(f"fails without a mutant: {entry['by']}: {entry['words']}")
                    entry[column] = ""
    keep()


if __name__ == "__main__":
    sys.exit(main())
