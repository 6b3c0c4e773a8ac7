"""Export to Java, compiled and run by the JDK."""

from __future__ import annotations

import json

import numpy as np
import pytest

from contracts import export_readers as readers
from contracts.portable_models import REFUSED, cases
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import LogColumns, RunScores
from rankine.export import ExportOptions, export


@readers.reads("java")
def read_java(export, names, X, n_features, indices):
    rows = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    return np.array(readers.run_java([(export.content, [rows])])[0][0])


def write_classes(models):
    """Export every model to a class of its own name."""
    return [
        export(model, "java", ExportOptions(name=f"m{k}")).content for k, model in enumerate(models)
    ]


def test_scores_have_the_bits_of_the_scorer():
    names, models, lists, expected = cases()
    scores = readers.run_java(list(zip(write_classes(models), lists, strict=True)))
    for k, name in enumerate(names):
        assert scores[k] == expected[k], name


def test_values_of_java():
    """Dates, times, decimals and large integers have no counterpart in JSON."""
    spec = LogColumns(numeric=("time",), hashed=("id",), hash_bits=3)
    model = LinearModel.from_weights(np.arange(1.0, 10.0), transforms=[spec])
    rows = [
        {"time": "2026-11-19T10:00:00.25Z", "id": 10**20},
        {"time": "2026-11-19", "id": "7"},
        {"time": 2.5, "id": "2026-11-19"},
        {"time": True, "id": "true"},
    ]
    program = """
        List<Map<String, Object>> items = List.of(
            Map.of("time", Instant.parse("2026-11-19T10:00:00.25Z"), "id", BigInteger.TEN.pow(20)),
            Map.of("time", LocalDate.of(2026, 11, 19), "id", new BigDecimal("7.00")),
            Map.of("time", new BigDecimal("2.5"), "id", LocalDate.of(2026, 11, 19)),
            Map.of("time", true, "id", true));
        System.out.println(Arrays.toString(scores(items)));
        System.out.println(Arrays.toString(rank(items, 2)));
        if (items.size() == 4) {
            return;
        }
    """
    main = "public static void main(String[] arguments) throws Exception {"
    source = export(model, "java").content.decode()
    assert source.count(main) == 1
    source = source.replace(main, main + program)
    expected = Scorer(model).rank(rows, 2).indices.tolist()
    scores = Scorer(model).score(rows).tolist()
    assert readers.run_java([(source.encode(), [1, 2])]) == [[scores, expected]]


def test_what_the_scorer_refuses_is_an_error():
    models = []
    sources = write_classes([model for model, _ in REFUSED])
    for source, (_, value) in zip(sources, REFUSED, strict=True):
        text = source.decode().replace(
            "out.println(Arrays.toString(scores(rows)));",
            "try { scores(rows); out.println(0); } "
            "catch (IllegalArgumentException error) { out.println(1); }",
        )
        models.append((text.encode(), [json.loads(f'[{{"a": {value}}}]')]))
    assert readers.run_java(models) == [[1]] * len(REFUSED)


def test_a_model_of_many_weights_fits_the_limits_of_java():
    names = [f"feature_{j:06}" for j in range(100_000)]
    model = LinearModel.from_weights(np.arange(1.0, 1.0 + len(names)), names)
    row = {"feature_000000": 2.0, "feature_099999": 1.0}
    assert readers.run_java([(export(model, "java").content, [[row]])]) == [[[100_002.0]]]


def test_fusions_are_refused():
    with pytest.raises(ExportError):
        export(LinearModel.from_weights([1.0], ["a"], transforms=[RunScores()]), "java")
