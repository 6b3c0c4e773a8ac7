"""Export to JavaScript, run under Node."""

from __future__ import annotations

import numpy as np
import pytest

from contracts import export_readers as readers
from contracts.portable_models import CASES
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import LogColumns, RunScores
from rankine.export import export


@readers.reads("javascript")
def read_javascript(export, names, X, n_features, indices):
    rows = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    (scores,) = readers.run_javascript(export.content, [rows])
    return np.array(scores)


@pytest.mark.parametrize("name", CASES)
def test_scores_have_the_bits_of_the_scorer(name):
    model, lists = CASES[name]()
    expected = [Scorer(model, unknown="zero").score(rows).tolist() for rows in lists]
    assert readers.run_javascript(export(model, "javascript").content, lists) == expected


def test_ranks_are_stable():
    model = LinearModel.from_weights([1.0], ["a"])
    text = export(model, "javascript").content
    rows = [{"a": 1}, {"a": 2}, {"a": 1}, {}]
    program = (
        f"import {{ rank }} from './model.mjs'; const rows = {rows}; "
        "console.log(JSON.stringify([rank(rows), rank(rows, 2)]))"
    )
    assert readers.run_node(text, program) == [[1, 0, 2, 3], [1, 0]]


@pytest.mark.parametrize(
    ("model", "row"),
    [
        (LinearModel.from_weights([1.0], ["a"]), '{a: "1"}'),
        (LinearModel.from_weights([1.0], ["a"]), "{a: null}"),
        (LinearModel.from_weights([1.0], ["a"]), "{a: Infinity}"),
        (LinearModel.from_weights([1e300], ["a"]), "{a: 1e300}"),
        (LinearModel.from_weights([1.0], transforms=[LogColumns(("a",))]), '{a: "5"}'),
        (LinearModel.from_weights([1.0], transforms=[LogColumns(("a",))]), '{a: "2026-02-30"}'),
        (LinearModel.from_weights([1.0], transforms=[LogColumns(("a",))]), "{a: Infinity}"),
        (
            LinearModel.from_weights(
                np.ones(4), transforms=[LogColumns(hashed=("a",), hash_bits=2)]
            ),
            "{a: 1.5}",
        ),
        (
            LinearModel.from_weights(
                np.ones(4), transforms=[LogColumns(hashed=("a",), hash_bits=2)]
            ),
            "{a: 1e15}",
        ),
    ],
)
def test_what_the_scorer_refuses_is_an_error(model, row):
    program = (
        "import { scores } from './model.mjs'; "
        f"try {{ scores([{row}]); console.log('0') }} catch {{ console.log('1') }}"
    )
    assert readers.run_node(export(model, "javascript").content, program) == 1


def test_values_of_javascript():
    """BigInt and Date have no counterpart in JSON."""
    spec = LogColumns(numeric=("time",), hashed=("id",), hash_bits=3)
    model = LinearModel.from_weights(np.arange(1.0, 10.0), transforms=[spec])
    program = (
        "import { scores } from './model.mjs'; console.log(JSON.stringify(scores(["
        "{time: new Date('2026-11-19T10:00:00.25Z'), id: 10n ** 20n}, {time: 5n, id: 7}])))"
    )
    rows = [{"time": "2026-11-19T10:00:00.25Z", "id": 10**20}, {"time": 5, "id": "7"}]
    expected = Scorer(model).score(rows).tolist()
    assert readers.run_node(export(model, "javascript").content, program) == expected


def test_fusions_are_refused():
    with pytest.raises(ExportError):
        export(LinearModel.from_weights([1.0], ["a"], transforms=[RunScores()]), "javascript")
