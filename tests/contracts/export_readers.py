"""Readers of exports: each parses what an engine would be given and scores rows as it would.

The reader of a target is in the test file of its exporter (``tests/unit/export``), so that a new
exporter needs no list to be edited: it is found there by ``reader_of`` and ``tree_reader_of``.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rankine.model import LinearModel
from rankine.scoring import Scorer

_READERS, _TREE_READERS = {}, {}


def reads(*targets):
    """Register a reader: scores of rows X by an export of weights.

    Readers are called as ``reader(export, names, X, n_features, indices)``, where ``names`` and
    ``indices`` are those of the columns of X.
    """

    def add(reader):
        _READERS.update(dict.fromkeys(targets, reader))
        return reader

    return add


def reads_trees(*targets):
    """Register a reader of the content of an export of tables; it returns a function of rows."""

    def add(reader):
        _TREE_READERS.update(dict.fromkeys(targets, reader))
        return reader

    return add


@cache
def _import_exporter_tests():
    for path in sorted((Path(__file__).parents[1] / "unit" / "export").glob("test_*.py")):
        importlib.import_module(f"unit.export.{path.stem}")


def reader_of(target):
    _import_exporter_tests()
    assert target in _READERS, f"no test in tests/unit/export reads the export {target!r}"
    return _READERS[target]


def tree_reader_of(target):
    _import_exporter_tests()
    assert target in _TREE_READERS, f"no test in tests/unit/export reads trees of {target!r}"
    return _TREE_READERS[target]


def weight_targets():
    """Targets that write the weights of features."""
    _import_exporter_tests()
    return sorted(_READERS)


def tree_targets():
    """Targets that write tables as trees."""
    _import_exporter_tests()
    return sorted(_TREE_READERS)


def run_node(program, *modules):
    """Run a program beside modules, pairs of name and content; return the JSON that it prints."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in modules:
            (Path(folder) / name).write_bytes(content)
        (Path(folder) / "program.mjs").write_text(program, encoding="utf-8")
        done = subprocess.run(
            [node, "program.mjs"],
            capture_output=True, text=True, check=False, timeout=60, cwd=folder,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_javascript(models):
    """Score lists of rows by exported modules.

    ``models`` are pairs of a module and its lists; the result has the scores of every list. NaN and
    infinity are the same in JavaScript and in Python's JSON.
    """
    parts, program = [], []
    for k, (module, lists) in enumerate(models):
        parts.append((f"model{k}.mjs", module))
        program.append(f"import {{ scores as scores{k} }} from './model{k}.mjs';")
        program.append(f"results.push({json.dumps(lists)}.map(scores{k}));")
    imports, calls = program[::2], program[1::2]
    text = [*imports, "const results = [];", *calls, "console.log(JSON.stringify(results));"]
    return run_node("\n".join(text), *parts)


_JAVA_RUNNER = """
import java.io.FileInputStream;
class Runner {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            System.setIn(new FileInputStream(name + ".jsonl"));
            Object arguments = new String[0];
            Class.forName(name).getMethod("main", String[].class).invoke(null, arguments);
        }
    }
}
"""


def run_java(models):
    """Score lists of rows by exported classes, as ``run_javascript`` does."""
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        pytest.skip("no JDK is installed")
    with tempfile.TemporaryDirectory() as folder:
        names = []
        (Path(folder) / "Runner.java").write_text(_JAVA_RUNNER, encoding="utf-8")
        for source, lists in models:
            name = re.search(rb"public final class (\w+)", source)[1].decode()
            names.append(name)
            (Path(folder) / f"{name}.java").write_bytes(source)
            lines = "".join(json.dumps(rows) + "\n" for rows in lists)
            (Path(folder) / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        quiet = {"capture_output": True, "text": True, "check": False, "timeout": 120}
        files = ["Runner.java", *(f"{name}.java" for name in names)]
        done = subprocess.run([javac, "-Xlint:all", *files], cwd=folder, **quiet)
        assert not done.stderr, done.stderr
        done = subprocess.run([java, "-cp", folder, "Runner", *names], cwd=folder, **quiet)
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    return [[json.loads(next(lines)) for _ in lists] for _, lists in models]


def column_names(model):
    return list(model.weight_names)


def float32_sum(weights, names, X):
    """Score in float32 throughout, term by term, as the engines do."""
    total = np.zeros(len(X), dtype=np.float32)
    for name, weight in weights.items():
        total += np.float32(weight) * X[:, names.index(name)].astype(np.float32)
    return total


def read_trees(trees, ask):
    """Sums of trees, each a function ``ask(node) -> leaf value or (column, cut, left, right)``."""

    def walk(node, row):
        found = ask(node)
        while isinstance(found, tuple):
            name, goes_left, left, right = found
            found = ask(left if goes_left(row[name]) else right)
        return found

    return lambda rows: np.array([sum(walk(tree, row) for tree in trees) for row in rows])


def below(cut):
    return lambda x: x is None or np.float32(x) < np.float32(cut)


def present_and_below(cut):
    return lambda x: x is not None and np.float32(x) < np.float32(cut)


def at_most(cut):
    return lambda x: x is None or np.float32(x) <= np.float32(cut)


#: Names that break naive writers: quotes, comments, braces, scripts, escapes, other alphabets.
HOSTILE = [
    'a"b', "a'b", "a''; DROP TABLE t; --", "back\\slash", "new\nline", "tab\t",
    "<script>x</script>", "}} {{x}}", '{"type": 1}', "'''\"\"\"", "é ü 漢字 😀", "${jndi:ldap://x}",
    "\x1b[31m", "__import__", "%s %d", "a--b", "/* c */", "select", "A", " lead", "trail ", "-1",
    "constructor",
]  # fmt: skip


VESPA_NAMES = ["bm25(title)", "attribute(price)", "nativeRank", "fieldMatch(title).proximity",
               "query(w_x)", "closeness(field,embedding)"]  # fmt: skip


def make_model(names, seed=0, zeros=2):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=len(names)) * 10.0 ** rng.integers(-6, 4, len(names))
    w[:zeros] = 0.0
    return LinearModel.from_weights(w, names)


def random_rows(model, n=60, seed=1):
    """Values for the weighted features, a third of them zero."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, model.nnz)) * (rng.random((n, model.nnz)) < 0.67)


def assert_same_order(model, scores, X):
    """Every pair is ordered as the scorer orders it, but for ties within float32 rounding."""
    expected = Scorer(model.compact()).score(X)
    scale = np.abs(X) @ np.abs(model.values)
    gap = expected[:, None] - expected[None, :]
    slack = 1e-5 * (scale[:, None] + scale[None, :])
    found = np.asarray(scores, dtype=np.float64)[:, None] - np.asarray(scores)[None, :]
    clear = np.abs(gap) > slack
    assert clear.mean() > 0.5
    assert (np.sign(gap)[clear] == np.sign(found)[clear]).all()
    np.testing.assert_allclose(scores, expected, atol=float(slack.max()))


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="module")
def postgres():
    """A private PostgreSQL server on a socket in a folder of its own."""
    found = shutil.which("postgres")
    if found is None:
        pytest.skip("no PostgreSQL server is installed")
    programs = Path(os.path.realpath(found)).parent
    with tempfile.TemporaryDirectory(prefix="rk", dir="/tmp") as folder:
        account = {}
        if os.geteuid() == 0:
            account = {"user": "nobody"}
            shutil.chown(folder, "nobody")
        data = f"{folder}/d"
        quiet = {"check": True, "capture_output": True, "cwd": folder, **account}
        subprocess.run(
            [programs / "initdb", "-D", data, "-A", "trust", "-N", "-E", "UTF8",
             "--locale=C", "-U", "tester"],
            **quiet,
        )  # fmt: skip
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=",
             "-c", "fsync=off", "-c", "shared_buffers=16MB"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **account,
        )  # fmt: skip
        try:
            psql = [str(programs / "psql"), "-X", "-q", "-A", "-t", "-h", folder, "-U", "tester",
                    "-d", "postgres", "-v", "ON_ERROR_STOP=1"]  # fmt: skip
            for _ in range(100):
                if subprocess.run(psql, input="", capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.1)
            yield psql
        finally:
            server.terminate()
            server.wait(30)
