"""Would the tests notice? Draw seeded mutants of the source and run the tests of their room.

    make mutants                                    # 150 mutants, seed 1
    python -m tools.mutants --seed 2 --count 150 --json mutants.json
    python -m tools.mutants --room metrics --count 20 --show

A mutant is one small change of one expression or statement: a comparison, a sign, an off-by-one, a
dropped ``not``, ``and`` for ``or``, a raise or an assignment removed, ``min`` for ``max``,
``break`` for ``continue``. Mutants are drawn room by room, in proportion to the places that can be
changed, at least ``--least`` in each. A mutant is noticed when a test of its room fails, or when
the tests take more than ``--limit`` seconds; the nearest test files run first. Mutants that change
nothing a user could see stand, with the reason, in ``tools/equivalent_mutants.toml``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "rankine"
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
#: Room -> folders and files of tests besides tests/unit/<room>, nearest first.
ALSO = {
    "core": ["architecture/test_errors.py", "unit/model"],
    "kernels": ["unit/metrics", "unit/solvers", "unit/data"],
    "data": ["properties"],
    "transforms": ["properties", "unit/scoring"],
    "metrics": ["properties"],
    "model": ["properties"],
    "export": ["contracts/test_exports.py", "unit/cli"],
    "losses": ["contracts", "unit/domination", "unit/solvers", "unit/rankers"],
    "updates": ["unit/solvers", "unit/rankers"],
    "samplers": ["unit/spd", "unit/rankers"],
    "solvers": ["unit/spd", "unit/domination", "unit/rankers"],
    "rankers": ["unit/spd", "unit/domination", "contracts"],
    "distributed": ["unit/rankers"],
    "logs": ["unit/rankers"],
    "serve": ["integration/serve"],
    "cli": ["integration/test_cli.py"],
    "plot": ["unit/report"],
}
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
    start: int
    stop: int

    @property
    def room(self) -> str:
        """First folder below the package."""
        return self.path.split("/")[0] if "/" in self.path else "core"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What names it after lines have moved."""
        return self.path, self.place, self.before, self.after

    def applied(self, text: str) -> str:
        """The mutated source."""
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
        """Bytes of a node."""
        here: ast.expr = node  # type: ignore[assignment]
        start = self.starts[here.lineno - 1] + here.col_offset
        return start, self.starts[(here.end_lineno or 1) - 1] + (here.end_col_offset or 0)

    def source(self, start: int, stop: int) -> str:
        """Text between two bytes."""
        return self.text.encode()[start:stop].decode()

    def add(self, node: ast.AST, kind: str, start: int, stop: int, after: str) -> None:
        """One more mutant."""
        before = self.source(start, stop)
        line = getattr(node, "lineno", 0)
        place = ".".join(self.names) or "module"
        self.found.append(Mutant(self.path, line, place, kind, before, after, start, stop))

    def replace(self, node: ast.AST, kind: str, after: str) -> None:
        """A mutant that replaces a whole node."""
        self.add(node, kind, *self.span(node), after)

    def between(self, left: ast.AST, right: ast.AST) -> tuple[int, int]:
        """Bytes between two operands, without what is only space or brackets."""
        start, stop = self.span(left)[1], self.span(right)[0]
        return start, stop

    def operator(self, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """A mutant of the sign between two operands."""
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

    # -- what is looked at
    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Only bodies: no decorators, annotations or defaults."""
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Bodies of classes."""
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Values, not types."""
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        """Not what is only for type checkers."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Not docstrings."""
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Not the words of messages."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """A raise that is forgotten."""
        if self.names and node.exc is not None:
            self.replace(node, "raise removed", "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        """An assignment to something that exists already."""
        target = node.targets[0]
        if self.names and isinstance(target, (ast.Subscript, ast.Attribute)):
            self.replace(node, "assignment removed", "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """An update that is forgotten."""
        if self.names:
            self.replace(node, "assignment removed", "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Boundaries and opposites."""
        if len(node.ops) == 1 and type(node.ops[0]) in _SIGNS:
            kind = type(node.ops[0])
            self.operator(node, node.left, node.comparators[0], _SIGNS[kind], _COMPARE[kind])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Signs."""
        kind = type(node.op)
        text = isinstance(node.left, (ast.Constant, ast.JoinedStr)) and not isinstance(
            getattr(node.left, "value", 0), (int, float)
        )
        if kind in _ARITHMETIC and not text:
            old = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[kind]  # type: ignore[index]
            self.operator(node, node.left, node.right, old, _ARITHMETIC[kind])  # type: ignore[index]
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """A dropped not."""
        if isinstance(node.op, ast.Not):
            self.replace(node, "not dropped", f"({self.source(*self.span(node.operand))})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """And for or."""
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
        """Off by one."""
        if self.names and type(node.value) is int and abs(node.value) <= 2:
            self.replace(node, "off by one", str(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        """Min for max."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in ("min", "max", "minimum", "maximum"):
            other = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}[name]
            start, stop = self.span(node.func)
            whole = self.source(start, stop)
            self.add(node, "min / max", start, stop, whole[: -len(name)] + other)
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        """Break for continue."""
        self.replace(node, "break / continue", "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        """Continue for break."""
        self.replace(node, "break / continue", "break")


def sites() -> dict[str, list[Mutant]]:
    """Every mutant of the package, by room."""
    rooms: dict[str, list[Mutant]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for mutant in _Finder(path).found:
            rooms[mutant.room].append(mutant)
    return dict(rooms)


def drawn(rooms: dict[str, list[Mutant]], count: int, least: int, seed: int) -> list[Mutant]:
    """So many mutants, each room in proportion to its places and at least ``least`` of them."""
    chance = random.Random(seed)  # noqa: S311 - seeded on purpose
    total = sum(map(len, rooms.values()))
    chosen: list[Mutant] = []
    for _, places in sorted(rooms.items()):
        share = max(least, round(count * len(places) / total))
        # Kinds alike: comparisons and constants would drown the rest.
        kinds: dict[str, list[Mutant]] = defaultdict(list)
        for mutant in places:
            kinds[mutant.kind].append(mutant)
        for group in kinds.values():
            chance.shuffle(group)
        queue = [kinds[kind] for kind in sorted(kinds)]
        while share > 0 and any(queue):
            for group in queue:
                if group and share > 0:
                    chosen.append(group.pop())
                    share -= 1
    chance.shuffle(chosen)
    return chosen


def known_equivalents() -> dict[tuple[str, str, str, str], str]:
    """Mutants that nobody could notice, and why."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    return {(e["path"], e["place"], e["before"], e["after"]): e["reason"] for e in entries}


def tests_of(mutant: Mutant) -> list[str]:
    """Test files of the room, those that name the mutated module first."""
    module = mutant.path.removesuffix(".py").replace("/", ".")
    stem = Path(mutant.path).stem
    folders = [f"unit/{mutant.room}", *ALSO.get(mutant.room, [])]
    files: list[Path] = []
    for name in folders:
        place = ROOT / "tests" / name
        files += sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
    files = [file for file in dict.fromkeys(files) if file.exists()]

    def distance(file: Path) -> tuple[int, int]:
        near = 0 if stem.strip("_") in file.stem else 1
        return near, 0 if module in file.read_text(encoding="utf-8") else 1

    return [str(file) for file in sorted(files, key=distance)]


class Workshop:
    """Copies of the package, one for each worker, in which mutants are made and tested."""

    def __init__(self, folder: Path, workers: int, limit: float) -> None:
        self.limit = limit
        self.free: list[Path] = []
        self.lock = threading.Lock()
        for number in range(workers):
            copy = folder / str(number)
            shutil.copytree(PACKAGE, copy / "rankine", ignore=shutil.ignore_patterns("__pycache__"))
            self.free.append(copy)

    def run(self, mutant: Mutant | None, tests: list[str]) -> tuple[str, float]:
        """What the tests said: ``survived``, ``killed`` or ``timeout``, and the seconds."""
        with self.lock:
            copy = self.free.pop()
        started = time.monotonic()
        file = copy / "rankine" / (mutant.path if mutant else "__init__.py")
        text = file.read_text(encoding="utf-8")
        try:
            if mutant is not None:
                file.write_text(mutant.applied(text), encoding="utf-8")
            return self._tests(copy, tests), time.monotonic() - started
        finally:
            file.write_text(text, encoding="utf-8")
            with self.lock:
                self.free.append(copy)

    def _tests(self, copy: Path, tests: list[str]) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": str(copy),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis"),
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["--timeout", "60", "-m", "not full and not packaging and not browser", *tests]
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=self.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return "timeout"
        return "survived" if code == 0 else "killed"


def summary(results: list[tuple[Mutant, str, float]], reasons: dict) -> Iterator[str]:
    """Score and survivors, room by room."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for mutant, verdict, _ in results:
        known = verdict == "survived" and mutant.identity in reasons
        counts[mutant.room]["equivalent" if known else verdict] += 1
    yield f"{'room':14}{'mutants':>8}{'noticed':>9}{'equivalent':>11}{'survived':>9}{'score':>8}"
    total: Counter = Counter()
    for room, count in sorted(counts.items()):
        total += count
        yield row(room, count)
    yield row("all", total)
    left = [m for m, verdict, _ in results if verdict == "survived" and m.identity not in reasons]
    for mutant in sorted(left, key=lambda m: (m.path, m.line)):
        yield f"survived  {mutant.path}:{mutant.line} {mutant.place}  {mutant.kind}"
        yield f"          {mutant.before!r} -> {mutant.after!r}"


def row(room: str, count: Counter) -> str:
    """One line of the table."""
    noticed = count["killed"] + count["timeout"]
    judged = noticed + count["survived"]
    score = f"{100 * noticed / judged:.1f} %" if judged else ""
    numbers = f"{count.total():8}{noticed:9}{count['equivalent']:11}{count['survived']:9}"
    return f"{room:14}{numbers}{score:>8}"


def main() -> int:
    """Draw, run, tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--least", type=int, default=4, help="mutants in every room, at least")
    parser.add_argument("--room", help="only this room")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a mutant's tests")
    parser.add_argument("--show", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--json", help="write every result here")
    options = parser.parse_args()
    rooms = sites()
    if options.room:
        rooms = {options.room: rooms[options.room]}
    chosen = drawn(rooms, options.count, 0 if options.room else options.least, options.seed)
    print(f"{len(chosen)} of {sum(map(len, sites().values())):,} mutants, seed {options.seed}")
    if options.show:
        for mutant in chosen:
            print(
                f"{mutant.path}:{mutant.line} {mutant.kind}: {mutant.before!r} -> {mutant.after!r}"
            )
        return 0
    reasons = known_equivalents()
    results: list[tuple[Mutant, str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(Path(folder), options.workers, options.limit)
        with futures.ThreadPoolExecutor(options.workers) as pool:
            running = {pool.submit(shop.run, m, tests_of(m)): m for m in chosen}
            for done in futures.as_completed(running):
                mutant, (verdict, seconds) = running[done], done.result()
                results.append((mutant, verdict, seconds))
                place = f"{mutant.path}:{mutant.line} {mutant.kind}"
                number = f"{len(results)}/{len(chosen)}"
                print(f"{number:>8} {verdict:9}{seconds:6.0f} s  {place}", flush=True)
    print("\n".join(summary(results, reasons)))
    if options.json:
        kept = [
            {**mutant.__dict__, "verdict": verdict, "seconds": round(seconds, 1)}
            for mutant, verdict, seconds in results
        ]
        Path(options.json).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
