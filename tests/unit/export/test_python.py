"""Export to a Python module, run by itself."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from contracts import export_readers as readers
from rankine import LinearModel, Scorer
from rankine.core.specs import (
    Binned,
    ListRange,
    LogColumns,
    MissingValues,
    OneHot,
)
from rankine.export import export


@readers.reads("python")
def read_python(export, names, X, n_features, indices):
    """Run the file by itself, in isolated mode, with the rows on stdin."""
    rows = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    program = (
        "import json, sys, importlib.util as u; s = u.spec_from_file_location('m', sys.argv[1]); "
        "m = u.module_from_spec(s); s.loader.exec_module(m); rows = json.load(sys.stdin); "
        "print(json.dumps([m.scores(rows), m.rank(rows)]))"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "exported_model.py"
        path.write_bytes(export.content)
        done = subprocess.run(
            [sys.executable, "-I", "-c", program, str(path)],
            input=json.dumps(rows),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    scores, order = json.loads(done.stdout)
    assert order == sorted(range(len(scores)), key=lambda i: -scores[i])
    return np.array(scores)


SPEC = LogColumns(
    numeric=("price",),
    one_hot=(OneHot("brand", ("acme", "it's", "9")),),
    binned=(Binned("age", (1.0, 2.5)),),
)


WEIGHTS = [-0.5, 1.0, 0.25, 2.0, 0.75, -1.0, 0.5, 0.125]


PLAIN = LinearModel.from_weights(WEIGHTS, weight_names=SPEC.names, transforms=[SPEC])


SCALED = LinearModel.from_weights(
    WEIGHTS,
    weight_names=SPEC.names,
    transforms=[SPEC, ListRange()],
    parameters={"log": {"query": "list"}},
)


ROWS = [
    {"price": 3.0, "brand": "acme", "age": 0.5},
    {"price": None, "brand": "it's", "age": 1.0},
    {"price": 7.5, "brand": "9", "age": 2.5},
    {"price": 0.0, "brand": None, "age": None},
    {"price": 4.0, "brand": "new", "age": 2.0},
]


def expected(model):
    rows = [dict(row) for row in ROWS]
    return Scorer(model).score(rows, group=[3, 2])


@pytest.mark.parametrize("model", [PLAIN, SCALED], ids=["plain", "scaled"])
def test_a_python_file_scores_raw_rows(model):
    room: dict[str, object] = {}
    exec(export(model, "python").content, room)  # noqa: S102
    found = [*room["scores"](ROWS[:3]), *room["scores"](ROWS[3:])]
    np.testing.assert_allclose(found, expected(model), rtol=1e-12)


@pytest.mark.parametrize("named", [True, False])
def test_missing_numbers_of_a_python_file(named):
    filled = MissingValues("mean", (1,), (2.5,))
    model = LinearModel.from_weights(
        [2.0, 10.0], ["a", "b"] if named else None, transforms=[filled]
    )
    room = {}
    exec(export(model, "python").content, room)  # noqa: S102
    a, b = ("a", "b") if named else ("1", "2")
    found = room["scores"]([{a: 1.0, b: None}, {a: float("nan"), b: 1.0}, {b: 3.0}, {}])
    assert found == [27.0, 10.0, 30.0, 0.0]
    assert room["rank"]([{a: 1.0}, {a: 3.0}, {a: 1.0}], 2) == [1, 0]
