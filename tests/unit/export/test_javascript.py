"""Export to JavaScript, run under Node."""

from __future__ import annotations

import numpy as np
import pytest

from contracts import export_readers as readers
from contracts.portable_models import REFUSED, cases
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import LogColumns, RunScores
from rankine.export import export


@readers.reads("javascript")
def read_javascript(export, names, X, n_features, indices):
    rows = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    return np.array(readers.run_javascript([(export.content, [rows])])[0][0])


def run_module(model, program):
    """Run a program that imports the exported module."""
    return readers.run_node(program, ("model.mjs", export(model, "javascript").content))


def test_scores_have_the_bits_of_the_scorer():
    names, models, lists, expected = cases()
    modules = [export(model, "javascript").content for model in models]
    scores = readers.run_javascript(list(zip(modules, lists, strict=True)))
    for k, name in enumerate(names):
        assert scores[k] == expected[k], name


def test_ranks_are_stable():
    program = (
        "import { rank } from './model.mjs'; const rows = [{a: 1}, {a: 2}, {a: 1}, {}]; "
        "console.log(JSON.stringify([rank(rows), rank(rows, 2)]))"
    )
    model = LinearModel.from_weights([1.0], ["a"])
    assert run_module(model, program) == [[1, 0, 2, 3], [1, 0]]


@pytest.mark.parametrize(("model", "value"), REFUSED)
def test_what_the_scorer_refuses_is_an_error(model, value):
    program = (
        "import { scores } from './model.mjs'; let refused = false; "
        f"try {{ scores([{{a: {value}}}]) }} catch {{ refused = true }} console.log(refused)"
    )
    assert run_module(model, program) is True


def test_values_of_javascript():
    """BigInt and Date have no counterpart in JSON; larger numbers are not exact."""
    spec = LogColumns(numeric=("time",), hashed=("id",), hash_bits=3)
    model = LinearModel.from_weights(np.arange(1.0, 10.0), transforms=[spec])
    program = (
        "import { scores } from './model.mjs'; console.log(JSON.stringify(scores(["
        "{time: new Date('2026-11-19T10:00:00.25Z'), id: 10n ** 20n}, {time: 5n, id: 7}])))"
    )
    rows = [{"time": "2026-11-19T10:00:00.25Z", "id": 10**20}, {"time": 5, "id": "7"}]
    assert run_module(model, program) == Scorer(model).score(rows).tolist()
    program = (
        "import { scores } from './model.mjs'; "
        "try { scores([{id: 1e15}]) } catch (error) { console.log(error instanceof TypeError) }"
    )
    assert run_module(model, program) is True


def test_columns_named_like_members_of_objects_are_absent():
    spec = LogColumns(numeric=("constructor", "toString"))
    model = LinearModel.from_weights([1.0, 2.0], transforms=[spec])
    assert readers.run_javascript([(export(model, "javascript").content, [[{}]])]) == [[[0.0]]]


def test_fusions_are_refused():
    with pytest.raises(ExportError):
        export(LinearModel.from_weights([1.0], ["a"], transforms=[RunScores()]), "javascript")
