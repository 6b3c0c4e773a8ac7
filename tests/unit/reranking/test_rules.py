"""Rules are read, explained and checked; ``test_kernels`` has the order of the items."""

import numpy as np
import pytest

from error_checks import raises_at
from rankine.core.errors import SchemaError
from rankine.reranking import Rules

pytestmark = pytest.mark.kernels


def test_explanations_name_the_rules_that_moved_items():
    rules = Rules(
        {
            "filter": [{"name": "stock", "where": "stock == 0"}],
            "pin": [{"name": "campaign", "where": "sku == 'E'", "position": 2}],
            "at_most": [{"name": "brands", "column": "brand", "count": 1, "first": 2}],
            "boost": [{"name": "cheap", "where": "price < 2", "amount": 0.25}],
        }
    )
    columns = {
        "sku": list("ABCDE"),
        "brand": ["x", "x", "y", "y", "x"],
        "stock": [1, 1, 0, 1, 1],
        "price": [5, 5, 5, 1, 5],
    }
    ranking = rules.rank([5.0, 4.0, 3.0, 2.0, 1.0], columns, explain=True)
    # The pin takes the only x of the first two, so y comes first.
    assert ranking.order.tolist() == [3, 4, 0, 1]
    assert [move.rules for move in ranking.moves] == [
        ("cheap",),
        ("campaign",),
        ("brands",),
        ("brands",),
    ]
    assert [move.rank_by_score for move in ranking.moves] == [4, 5, 1, 2]
    assert ranking.removed == ((2, "stock"),)
    assert ranking.conflicts == ()


def test_an_item_lifted_by_a_lower_quota_names_it():
    rules = Rules({"at_least": [{"name": "new", "where": "age < 2", "count": 1, "first": 2}]})
    ranking = rules.rank([3.0, 2.0, 1.0], {"age": [9, 9, 1]}, explain=True)
    assert ranking.order.tolist() == [0, 2, 1]
    assert [move.rules for move in ranking.moves] == [(), ("new",), ("new",)]


def conflicts(entries, columns, k=None):
    n = len(next(iter(columns.values())))
    ranking = Rules(entries).rank(-np.arange(float(n)), columns, k, explain=True)
    return ranking.order.tolist(), [conflict.rule for conflict in ranking.conflicts]


def test_conflicts_follow_the_priorities_and_are_reported():
    columns = {"sku": list("ABCD"), "brand": ["x", "x", "x", "y"]}
    two_pins = [
        {"name": "first", "where": "sku == 'C'", "position": 1},
        {"name": "second", "where": "sku == 'D'", "position": 1},
        {"name": "beyond", "where": "sku == 'A'", "position": 9},
        {"name": "again", "where": "sku == 'C'", "position": 3},
    ]
    assert conflicts({"pin": two_pins}, columns) == ([2, 3, 1, 0], ["second", "beyond", "again"])
    removed = {"filter": [{"where": "sku == 'C'"}], "pin": two_pins[:1]}
    assert conflicts(removed, columns) == ([0, 1, 3], ["first"])
    quotas = {
        "at_most": [{"column": "brand", "count": 1, "first": 3}],
        "at_least": [{"where": "brand == 'y'", "count": 2, "first": 4}],
        "spread": [{"column": "brand"}],
    }
    order, names = conflicts(quotas, columns)
    assert order == [0, 3, 1, 2]
    assert names == ["at_most 1", "at_least 1", "spread 1"]
    # With k, only what the returned ranks show is reported.
    assert conflicts(quotas, columns, k=2) == ([0, 3], [])
    by_brand = [{"by": "brand", "weight": 0.5}, {"by": "sku", "weight": 0.1}]
    assert conflicts({"diversify": by_brand}, columns)[1] == ["diversify 2"]


def test_rules_apply_in_their_period_and_to_their_queries():
    entries = {
        "pin": [
            {
                "where": "sku == 'C'",
                "position": 1,
                "from": "2126-11-20",
                "until": "2126-11-30",
                "query": "search == 'shoes'",
            }
        ]
    }
    rules = Rules(entries)

    def order(search, time):
        columns = {"sku": list("ABC"), "search": search}
        moment = np.datetime64(time).astype("M8[s]").astype(float)
        return rules.rank([3.0, 2.0, 1.0], columns, time=moment).order.tolist()

    for time, holds in (
        ("2126-11-19T23:59:59", False),
        ("2126-11-20T00:00:00", True),
        ("2126-11-30T23:59:59", True),
        ("2126-12-01T00:00:00", False),
    ):
        assert order(["shoes"] * 3, time) == ([2, 0, 1] if holds else [0, 1, 2])
        assert order(["bags"] * 3, time) == [0, 1, 2]
    with pytest.raises(SchemaError, match="pin 1"):
        order(["shoes", "shoes", "bags"], "2126-11-21T00:00:00")
    # Columns of rules that are not in effect need not be there.
    assert rules.rank([1.0, 2.0], {}).order.tolist() == [1, 0]


def test_conditions_are_those_of_rows_and_of_labels():
    columns = {"brand": ["a", "b", ""], "size": [None, 2, 3], "seen": ["2026-01-02", None, "2027"]}
    columns["seen"][2] = "2027-01-01T00:00:00Z"
    for where, removed in (
        ("brand == 'a' or size > 2", [0, 2]),
        ("brand != 'a'", [1]),
        ("size != 2", [2]),
        ("(size > 1) * (size < 3)", [1]),
        ("size", [1, 2]),
        ("seen >= 2026-06-01", [2]),
        ("not seen < '2026-06-01'", [1, 2]),
    ):
        rules = Rules({"filter": [{"where": where}]})
        ranking = rules.rank([3.0, 2.0, 1.0], columns, explain=True)
        assert [row for row, _ in ranking.removed] == removed, where
    with raises_at(SchemaError, column="brand"):
        Rules({"filter": [{"where": "brand > 3"}]}).rank([3.0, 2.0, 1.0], columns)


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({}, "brand"),
        ({"brand": ["a"]}, "brand"),
        ({"brand": [1.5, 2.5]}, "brand"),
        ({"brand": [["a"], ["b"]]}, "brand"),
    ],
)
def test_columns_that_cannot_be_read_name_the_rule_and_the_column(columns, column):
    rules = Rules({"spread": [{"name": "apart", "column": "brand"}]})
    with raises_at(SchemaError, column="brand") as error:
        rules.rank([1.0, 2.0], columns)
    assert error.value.column == column
    assert error.value.fix


@pytest.mark.parametrize("vectors", [[1.0, 2.0], [[1.0], [1.0, 2.0]], [[1.0], [np.nan]], [[], []]])
def test_vectors_must_be_one_of_the_same_length_per_item(vectors):
    rules = Rules({"diversify": [{"vectors": "e", "weight": 0.5}]})
    with raises_at(SchemaError, column="e"):
        rules.rank([1.0, 2.0], {"e": vectors})


def test_vectors_can_be_numeric_columns_and_values_of_any_category():
    columns = {"u": [1, 1, 0], "v": [0, 0, 1], "size": [36, 36.0, None]}
    vectors = Rules({"diversify": [{"vectors": ["u", "v"], "weight": 0.7}]})
    assert vectors.rank([3.0, 2.0, 1.0], columns).order.tolist() == [0, 2, 1]
    sizes = Rules({"at_most": [{"column": "size", "count": 1, "first": 2}]})
    assert sizes.rank([3.0, 2.0, 1.0], columns).order.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "entries",
    [
        {"pin": [{"where": "x > 5 and not x >= 3", "position": 1}]},
        {"boost": [{"where": "x > 1", "amount": 1.0, "query": "q == 'a' and q == 'b'"}]},
        {"filter": [{"where": "x > 1", "until": "2020-01-01"}]},
        {"at_most": [{"column": "brand", "count": 5, "first": 5}]},
        {"diversify": [{"by": "a", "weight": 0.1}, {"by": "b", "weight": 0.1}]},
        {"pin": [{"where": "x == 1", "position": 2}, {"where": "x == 1", "position": 2}]},
    ],
)
def test_rules_that_can_never_have_an_effect_are_warned_about(entries, tmp_path):
    assert len(Rules(entries).warnings) == 1
    toml = []
    for kind, tables in entries.items():
        for table in tables:
            toml.append(f"[[{kind}]]")
            toml += [f"{name} = {value!r}" for name, value in table.items()]
    path = tmp_path / "rules.toml"
    path.write_text("\n".join(toml))
    with pytest.warns(UserWarning, match="never"):
        rules = Rules.load(path)
    assert rules.names == Rules(entries).names
