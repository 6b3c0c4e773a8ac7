"""Export to Vespa."""

import json
import re

import numpy as np
import pytest

from contracts import export_readers as readers
from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import LogColumns, OneHot
from rankine.export import ExportOptions, export
from rankine.model import LinearModel


def read_expression(export, names, X):
    text = export.content.decode()
    assert text.count("{") == text.count("}")
    match = re.fullmatch(
        r"rank-profile \w+ inherits default \{\s*first-phase \{\s*expression \{(.*)\}\s*\}\s*\}\s*",
        text,
        re.DOTALL,
    )
    terms = re.findall(r"([+-]?)\s*([0-9.e+-]+) \* (\S+)", match[1])
    weights = {name: float(sign + size) for sign, size, name in terms}
    return readers.float32_sum(weights, names, X)


def read_tensor(export, names, X):
    document = json.loads(export.content)
    assert set(document) == {"cells"}
    profile = export.extra_files[".profile"].decode()
    assert "tensor(f{})" in profile
    assert profile.count("{") == profile.count("}")
    return readers.float32_sum(document["cells"], names, X)


@readers.reads("vespa")
def read_vespa(export, names, X, n_features, indices):
    read = read_tensor if export.extra_files else read_expression
    return read(export, names, X)


@readers.reads_trees("vespa")
def read_vespa_tables(content):
    text = content.decode().split("expression {")[1].split("\n        }")[0]
    python = re.sub(r"\s+", " ", text).replace("if (", "choose(").replace("attribute(", "(")

    def choose(asks, yes, no):
        return yes if asks else no

    def score(row):
        names = {"choose": choose, "isNan": np.isnan}
        for name, value in row.items():
            names[name] = np.float32(np.nan if value is None else value)
        return float(eval(python, names))  # noqa: S307 - the expression under test

    return lambda rows: np.array([score(row) for row in rows])


def test_vespa_refuses_names_that_would_break_the_profile():
    for name in ("a b", "x) } evil {", "1x", "a\nb", "f(", 'f("a"b")'):
        with pytest.raises(ExportError):
            export(LinearModel.from_weights([1.0], [name]), "vespa")
    with pytest.raises(ParameterError) as caught:
        export(LinearModel.from_weights([1.0], ["a"]), "vespa", ExportOptions(form="x"))
    assert caught.value.parameter == "form"


def test_a_profile_without_terms_scores_zero():
    model = LinearModel.from_weights([1e-60], ["a"])
    assert "            0\n" in export(model, "vespa").content.decode()


def one_category(text):
    spec = LogColumns(one_hot=(OneHot("brand", (text,)),))
    return LinearModel.from_weights([1.0], weight_names=spec.names, transforms=[spec])


def test_texts_leave_the_braces_of_a_schema_balanced():
    value = "a}b{{\"\\u0041'\n\t~ "
    text = export(one_category(value), "vespa").content.decode()
    assert text.count("{") == text.count("}") == 3
    (literal,) = re.findall(r'== ("[^"]*"), 1, 0\)\n', text)
    assert set(re.findall(r"\\.", literal)) == {r"\u"}
    assert json.loads(literal) == value


@pytest.mark.parametrize("value", ["é", "漢字", "\b", "\x7f"])
def test_texts_beyond_ascii_are_labels_of_tensors_only(value):
    model = one_category(value)
    with pytest.raises(ExportError):
        export(model, "vespa")
    made = export(model, "vespa", ExportOptions(form="tensor"))
    assert json.loads(made.content)["cells"] == {f"brand={value}": 1.0}
