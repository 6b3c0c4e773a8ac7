"""Ranked lists equal a brute-force reference of the documented meaning of rules."""

import numpy as np
import pytest

from rankine.reranking import Rules

pytestmark = pytest.mark.kernels

CONDITIONS = ("new == 1", "stock == 0", "price < 3", "brand == 'a'", "price > 8")


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
