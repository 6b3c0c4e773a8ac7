"""Ranked lists against a brute-force reference of the documented meaning of rules."""

import numpy as np
import pytest

from rankine.core.errors import SchemaError
from rankine.reranking import Rules

pytestmark = pytest.mark.kernels


def similarity(rule, columns, a, b):
    if "vectors" in rule:
        u, v = columns["vector"][a], columns["vector"][b]
        return float(np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v)))
    by = [rule["by"]] if isinstance(rule["by"], str) else rule["by"]
    equal = [bool(columns[name][a]) and columns[name][a] == columns[name][b] for name in by]
    return sum(equal) / len(by)


def reference(rules, scores, columns, holds):
    """Follow docs/how-to/rules.md; ``holds`` maps a condition to the items that meet it."""
    n = len(scores)
    items = [i for i in range(n) if not any(holds[r["where"]][i] for r in rules.get("filter", []))]
    if not items:
        return []
    extent = max(scores[i] for i in items) - min(scores[i] for i in items) or 1.0
    value = list(scores)
    for kind, sign in (("boost", 1), ("bury", -1)):
        for rule in rules.get(kind, []):
            for i in items:
                if holds[rule["where"]][i]:
                    value[i] += sign * rule["amount"] * extent
    by_value = sorted(items, key=lambda i: (-value[i], i))
    ranks = [None] * len(items)
    for rule in rules.get("pin", []):
        matches = [i for i in by_value if holds[rule["where"]][i] and i not in ranks]
        if matches:
            wanted = min(rule["position"], len(items)) - 1
            later = [r for r in range(wanted, len(items)) if ranks[r] is None]
            earlier = [r for r in range(wanted) if ranks[r] is None]
            ranks[later[0] if later else earlier[-1]] = matches[0]
    pins = set(ranks) - {None}

    def group(rule, i):
        if "where" in rule:
            return 0 if holds[rule["where"]][i] else None
        return columns[rule["column"]][i] or None

    def first(rule):
        return min(rule.get("first", 10**6), len(items))

    def due(rank):
        """The groups of which one must come now."""
        accepted = []
        groups = rules.get("at_least", [])
        for rule in groups:
            need = 0
            if rank < first(rule):
                shown = sum(i is not None and group(rule, i) == 0 for i in ranks[: first(rule)])
                left = sum(i not in ranks and group(rule, i) == 0 for i in items)
                need = max(min(rule["count"] - shown, left), 0)
                for end in {first(r) for r in groups if first(r) >= first(rule)}:
                    free = sum(i is None for i in ranks[rank:end])
                    need = min(need, free - sum(a for a, e in accepted if e <= end))
            accepted.append((max(need, 0), first(rule)))
        for end in sorted({e for need, e in accepted if need}):
            free = sum(i is None for i in ranks[rank:end])
            if free <= sum(need for need, e in accepted if e <= end):
                needs = zip(groups, accepted, strict=True)
                return [rule for rule, (need, e) in needs if need and e <= end]
        return []

    def breaks(kind, rule, i, rank, forced):
        if rank >= first(rule):
            return False
        if kind == "at_least":
            return rule in forced and all(group(r, i) is None for r in forced)
        if group(rule, i) is None:
            return False
        if kind == "at_most":
            shown = ranks[: first(rule)]
            return (
                sum(j is not None and group(rule, j) == group(rule, i) for j in shown)
                >= rule["count"]
            )
        distance = rule.get("distance", 1)
        near = ranks[max(rank - distance, 0) : rank + distance + 1]
        return any(j is not None and group(rule, j) == group(rule, i) for j in near)

    lowest, highest = min(value[i] for i in items), max(value[i] for i in items)
    diversify = (rules.get("diversify") or [None])[0]

    def objective(i, rank):
        if diversify is None or rank >= first(diversify):
            return value[i]
        relevance = (value[i] - lowest) / (highest - lowest) if highest > lowest else 0.0
        near = [similarity(diversify, columns, i, j) for j in ranks[:rank]]
        weight = diversify["weight"]
        return (1 - weight) * relevance - weight * max(near, default=0.0)

    for rank in range(len(items)):
        if ranks[rank] is not None:
            continue
        forced = due(rank)
        best = [i for i in by_value if i not in ranks and i not in pins]
        for kind in ("at_most", "at_least", "spread"):
            for rule in rules.get(kind, []):
                meeting = [i for i in best if not breaks(kind, rule, i, rank, forced)]
                best = meeting or best
        scale = [round(objective(i, rank), 12) for i in best]
        ranks[rank] = best[scale.index(max(scale))]
    return ranks


CONDITIONS = ("new == 1", "stock == 0", "price < 3", "brand == 'a'", "price > 8")


def random_rules(rng):
    def where():
        return str(rng.choice(CONDITIONS))

    def first():
        return int(rng.integers(2, 9))

    makers = {
        "filter": lambda: {"where": where()},
        "pin": lambda: {"where": where(), "position": int(rng.integers(1, 9))},
        "boost": lambda: {"where": where(), "amount": float(rng.choice([0.25, 0.5, 1.5]))},
        "bury": lambda: {"where": where(), "amount": float(rng.choice([0.25, 2.0]))},
        "at_most": lambda: {"column": "brand", "count": int(rng.integers(0, 3)), "first": first()},
        "at_least": lambda: {"where": where(), "count": int(rng.integers(1, 3)), "first": first()},
        "spread": lambda: {"column": "brand", "distance": int(rng.integers(1, 3))},
        "diversify": lambda: {
            "weight": 0.375,
            **[{"by": "brand"}, {"by": ["brand", "kind"]}, {"vectors": "vector"}][rng.integers(3)],
        },
    }
    rules = {}
    for kind, make in makers.items():
        n_rules = int(rng.choice([0, 0, 1, 2]))
        if kind in ("filter", "diversify"):
            n_rules = min(n_rules, 1)
        if n_rules:
            rules[kind] = [make() for _ in range(n_rules)]
    return rules


def random_list(rng):
    n = int(rng.integers(0, 12))
    columns = {
        "brand": rng.choice(["a", "b", "c", ""], n).tolist(),
        "kind": rng.choice(["x", "y"], n).tolist(),
        "new": rng.integers(0, 2, n).tolist(),
        "stock": rng.choice([0, 1, 2, 3], n).tolist(),
        "price": rng.integers(0, 10, n).tolist(),
        "vector": rng.normal(size=(n, 3)).tolist(),
    }
    # Few different scores: many are equal.
    return rng.integers(0, 6, n).astype(float), columns


@pytest.mark.parametrize("seed", range(8))
def test_greedy_steps_equal_the_brute_force_reference(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        entries = random_rules(rng)
        scores, columns = random_list(rng)
        holds = {
            "new == 1": [x == 1 for x in columns["new"]],
            "stock == 0": [x == 0 for x in columns["stock"]],
            "price < 3": [x < 3 for x in columns["price"]],
            "brand == 'a'": [x == "a" for x in columns["brand"]],
            "price > 8": [x > 8 for x in columns["price"]],
        }
        rules = Rules(entries)
        expected = reference(entries, scores.tolist(), columns, holds)
        assert rules.rank(scores, columns).order.tolist() == expected, entries
        k = int(rng.integers(0, 13))
        explained = rules.rank(scores, columns, k, explain=True)
        assert explained.order.tolist() == expected[:k]
        assert [move.row for move in explained.moves] == expected[:k]


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
    with pytest.raises(SchemaError, match="filter 1"):
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
    with pytest.raises(SchemaError, match="apart") as error:
        rules.rank([1.0, 2.0], columns)
    assert error.value.column == column
    assert error.value.fix


@pytest.mark.parametrize("vectors", [[1.0, 2.0], [[1.0], [1.0, 2.0]], [[1.0], [np.nan]], [[], []]])
def test_vectors_must_be_one_of_the_same_length_per_item(vectors):
    rules = Rules({"diversify": [{"vectors": "e", "weight": 0.5}]})
    with pytest.raises(SchemaError, match="diversify 1"):
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
