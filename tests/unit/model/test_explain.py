import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy import sparse

from rankine.core.errors import FeatureMismatchError, ModelError, SchemaError
from rankine.core.specs import ListRange
from rankine.model import LinearModel
from rankine.model.explain import name_positions, unknown_feature

WEIGHTS = [0.5, 0.0, -2.0, 1e-3]
NAMES = ["bm25", "age", "spam", "clicks"]
numbers = st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4)


@given(numbers, numbers, numbers)
@settings(max_examples=200, deadline=None)
def test_contributions_are_the_products_and_totals_their_correct_sum(w, a, b):
    model = LinearModel.from_weights(w)
    single, pair = model.explain(a), model.explain_pair(a, b)
    assert single.total == math.fsum(wj * aj for wj, aj in zip(w, a, strict=True))
    assert pair.total == math.fsum(wj * (aj - bj) for wj, aj, bj in zip(w, a, b, strict=True))
    for found in (single, pair):
        sizes = [abs(term.contribution) for term in found.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert math.fsum(term.contribution for term in found.contributions) == found.total
    for term in single.contributions:
        assert term.contribution == w[term.index] * a[term.index]


def test_dense_sparse_and_named_rows_agree():
    model = LinearModel.from_weights(WEIGHTS, NAMES)
    dense = np.array([2.0, 9.0, 0.0, 4.0])
    named = {"bm25": 2.0, "age": 9, "clicks": np.float32(4.0)}
    expected = model.explain(dense)
    assert model.explain(sparse.csr_array(dense[None, :])) == expected
    assert model.explain(sparse.csr_matrix(dense)) == expected
    assert model.explain(named) == expected
    assert model.explain(dense[None, :]) == expected
    assert name_positions(model) == {"bm25": 0, "age": -1, "spam": 1, "clicks": 2}
    assert [term.name for term in expected.contributions] == ["bm25", "clicks"]
    short = LinearModel.from_weights([0.5, 0.0, -2.0, 0.0])
    assert short.explain(sparse.csr_array(dense[None, :])).total == 1.0
    twice = sparse.csr_array(([1.0, 2.0], [2, 2], [0, 2]), shape=(1, 4))
    assert short.explain(twice).total == -6.0


def test_rows_that_do_not_fit_are_refused():
    model = LinearModel.from_weights(WEIGHTS, NAMES)
    for row in ([1.0], np.ones((2, 4)), sparse.csr_array(np.ones((1, 3))),
                sparse.csr_array(np.ones((2, 4)))):  # fmt: skip
        with pytest.raises(FeatureMismatchError, match="4 features"):
            model.explain(row)
    with pytest.raises(FeatureMismatchError, match=r"'clickz'.*Did you mean 'clicks'"):
        model.explain({"clickz": 1.0})
    with pytest.raises(SchemaError, match="'spam' is nan"):
        model.explain([0.0, 0.0, np.nan, np.inf])
    with pytest.raises(FeatureMismatchError, match="no feature '5'"):
        model.explain({5: 1.0})
    for size, hinted in ((200, True), (201, False)):
        name = "clicks" * 33 + "x" * (size - 198)
        long = LinearModel.from_weights([1.0], ["clicks" * 33])
        with pytest.raises(FeatureMismatchError) as caught:
            long.explain({name: 1.0})
        assert ("Did you mean" in str(caught.value)) == hinted
    unnamed = unknown_feature(LinearModel.from_weights([1.0]), "clickz")
    assert "Did you mean" not in str(unnamed)
    with pytest.raises(SchemaError, match="overflows float64"):
        LinearModel.from_weights([1e300]).explain([1e300])
    with pytest.raises(SchemaError):
        model.explain({"spam": "much"})


def test_features_without_names_go_by_their_index():
    model = LinearModel.from_weights([0.0, 3.0], base=1)
    assert model.explain({"2": 2.0}).total == 6.0


def test_a_model_with_transforms_sends_users_to_the_scorer():
    model = LinearModel.from_weights(WEIGHTS, transforms=(ListRange(),))
    with pytest.raises(ModelError, match="Scorer"):
        model.explain([1.0, 1.0, 1.0, 1.0])


def test_text_is_a_table_with_a_rest_line():
    model = LinearModel.from_weights(WEIGHTS, NAMES)
    text = model.explain_pair([2.0, 0.0, 1.0, 4.0], [1.0, 0.0, 0.0, 0.0]).text(1)
    lines = text.splitlines()
    assert lines[0].split() == ["feature", "weight", "a", "b", "contribution"]
    assert lines[1].split() == ["spam", "-2", "1", "0", "-2"]
    assert lines[2].startswith("(2 more)")
    assert lines[3].endswith("-1.496")


def test_hostile_names_reach_no_terminal():
    name = "\x1b]0;pwned\x07\n\u202e[red]x"
    found = LinearModel.from_weights([1.0], [name]).explain([2.0])
    console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(found)
    for text in (str(found), console.export_text()):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
        assert "[red]x" in text
    console.file.close()


def test_plain_data_for_json_sums_to_the_total():
    found = LinearModel.from_weights(WEIGHTS, NAMES).explain([2.0, 0.0, 1.0, 4.0])
    data = found.to_dict(limit=1)
    assert data["rest_count"] == 2
    assert data["contributions"][0]["name"] == "spam"
    assert data["contributions"][0]["contribution"] + data["rest"] == pytest.approx(data["total"])


def test_names_that_an_open_model_does_not_know_are_passed_over():
    model = LinearModel.from_weights([0.0, 3.0], base=1)
    assert model.explain({"99": 1.0, "1": 5.0, "2": 2.0}).total == 6.0
