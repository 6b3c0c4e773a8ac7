"""Export to a script of Elasticsearch and OpenSearch."""

import json
import re

import numpy as np
import pytest

from contracts import export_readers as readers
from rankine import LinearModel, Scorer
from rankine.core.errors import ExportError
from rankine.core.specs import Binned, Bins, LogColumns, OneHot
from rankine.export import export

_TOKEN = re.compile(
    r"\s*(doc\['(?:\\.|[^'\\])*'\]\.(?:value|empty)|-?[\d.]+(?:e[-+]?\d+)?|[()?:<*+])", re.DOTALL
)


def evaluate(source, row):
    """Evaluate sums of products and of conditions in parentheses, as Lucene's expressions do."""
    tokens, at = [], 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        assert match, source[at : at + 50]
        tokens.append(match[1])
        at = match.end()
    tokens.reverse()

    def operand():
        token = tokens.pop()
        if token == "(":  # noqa: S105 - no password
            value = total()
            if tokens.pop() == "<":
                value = value < total()
                assert tokens.pop() == "?"
            yes = total()
            assert tokens.pop() == ":"
            no = total()
            assert tokens.pop() == ")"
            return yes if value else no
        if token.startswith("doc"):
            name = re.sub(r"\\(.)", r"\1", token[5 : token.rindex("'")], flags=re.DOTALL)
            value = row.get(name)
            if token.endswith("empty"):
                return float(value is None)
            return 0.0 if value is None else value
        return float(token)

    def product():
        value = operand()
        while tokens and tokens[-1] == "*":
            tokens.pop()
            value *= operand()
        return value

    def total():
        value = product()
        while tokens and tokens[-1] == "+":
            tokens.pop()
            value += product()
        return value

    value = total()
    assert not tokens
    return value


def source_of(content):
    (sort,) = json.loads(content)["sort"]
    script = sort["_script"]["script"]
    assert script["lang"] == "expression"
    return script["source"]


@readers.reads("script")
def read_script(export, names, X, n_features, indices):
    source = source_of(export.content)
    return np.array([evaluate(source, dict(zip(names, row, strict=True))) for row in X.tolist()])


@readers.reads_trees("script")
def read_conditions(content):
    source = source_of(content)
    return lambda rows: np.array([evaluate(source, row) for row in rows])


def test_cells_of_raw_columns_and_missing_values():
    spec = LogColumns(numeric=("rating",), binned=(Binned("price", (0.0, 1.5)),))
    model = LinearModel.from_weights(
        [0.5, -1.0, 2.0, 3.0, -4.0], weight_names=spec.names, transforms=[spec]
    )
    rows = [
        {"price": price, "rating": rating}
        for price in (-1.0, 0.0, 1.0, 1.5, 9.0, None)
        for rating in (2.0, None)
    ]
    score = read_conditions(export(model, "script").content)
    np.testing.assert_allclose(score(rows), Scorer(model).score(rows), rtol=1e-15)


def test_what_a_script_cannot_say_is_refused():
    texts = LogColumns(one_hot=(OneHot("brand", ("a",)),))
    large = Bins((tuple(map(float, range(250))),) * 12, names=tuple("abcdefghijkl"))
    for model in (
        LinearModel.from_weights([1.0], weight_names=texts.names, transforms=[texts]),
        LinearModel.from_weights(np.arange(12 * 252.0), transforms=[large]),
        LinearModel.from_weights(np.ones(5000), [f"feature_{j}" for j in range(5000)]),
    ):
        with pytest.raises(ExportError):
            export(model, "script")
