"""Place the items of one list rank by rank, as the rules in effect demand.

At every free rank the item with the largest value that breaks no constraint is placed. If every
item breaks one, constraints are given up in reverse order of priority: of the remaining items those
that meet the first constraint stay (all, if none does), of these those that meet the second, ...

Quotas are met as late as possible: items are placed by value until the free ranks are only just
enough for what the groups lack, and from then on only members of these groups (``_mark_forced``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankine.kernels.compile import REDUCE, jit

AT_MOST, AT_LEAST, SPREAD = 0, 1, 2


class Constraints(NamedTuple):
    """Constraints in order of priority; constraint c applies to ranks below ``first[c]`` (<= n).

    ``kind`` is one of the numbers above. ``limit`` is a number of items, or the distance of a
    spread. ``codes[c, i]`` numbers the value or group of item i from 0; it is -1 for an item that
    the constraint does not concern. A lower quota has one group, number 0.
    """

    kind: NDArray[np.int64]
    limit: NDArray[np.int64]
    first: NDArray[np.int64]
    codes: NDArray[np.int64]


class Similarity(NamedTuple):
    """Diversity: its weight, the number of ranks it applies to, and what makes items similar.

    ``codes`` has a row per column, and -1 for missing values; ``vectors`` a unit vector per item.
    One of them is empty.
    """

    weight: float
    first: int
    codes: NDArray[np.int64]
    vectors: NDArray[np.float64]


class _Placement(NamedTuple):
    """What was placed so far.

    ``item_at`` is the item at each rank, -1 for ranks without one. ``counts[c, code]`` counts items
    below rank ``first[c]``, pinned ones included, and ``left[c]`` the members of the group of a
    lower quota that can still be placed. ``forced`` marks the quotas of which a member must be
    placed now.
    """

    item_at: NDArray[np.int64]
    counts: NDArray[np.int64]
    left: NDArray[np.int64]
    forced: NDArray[np.bool_]


@jit(fastmath=REDUCE)
def _dot(vectors: Any, i: int, j: int) -> float:
    total = 0.0
    for d in range(vectors.shape[1]):
        total += vectors[i, d] * vectors[j, d]
    return total


@jit
def _similarity(similar: Any, i: int, j: int) -> float:
    """Return the cosine of two items' vectors, or the share of columns in which they are equal."""
    if similar.vectors.shape[0] > 0:
        return _dot(similar.vectors, i, j)
    equal = 0.0
    for c in range(similar.codes.shape[0]):
        if similar.codes[c, i] >= 0 and similar.codes[c, i] == similar.codes[c, j]:
            equal += 1.0
    return equal / similar.codes.shape[0]


@jit
def _breaks(rules: Any, placed: Any, c: int, i: int, rank: int) -> bool:
    """Return whether item i at this rank breaks constraint c."""
    if rank >= rules.first[c]:
        return False
    code = rules.codes[c, i]
    if rules.kind[c] == AT_LEAST:
        if not placed.forced[c]:
            return False
        # Only one of the forced groups can have this rank, so a member of any of them will do.
        for other in range(rules.kind.shape[0]):
            if placed.forced[other] and rules.codes[other, i] >= 0:
                return False
        return True
    if code < 0:
        return False
    if rules.kind[c] == AT_MOST:
        return placed.counts[c, code] >= rules.limit[c]
    # Also ranks after this one: pinned items are there already.
    last = min(rank + rules.limit[c], placed.item_at.shape[0] - 1)
    for r in range(max(rank - rules.limit[c], 0), last + 1):
        other_item = placed.item_at[r]
        if other_item >= 0 and rules.codes[c, other_item] == code:
            return True
    return False


@jit
def _first_broken(rules: Any, placed: Any, i: int, rank: int) -> int:
    """Return the first constraint that item i breaks at this rank, -1 if it breaks none."""
    for c in range(rules.kind.shape[0]):
        if _breaks(rules, placed, c, i, rank):
            return c
    return -1


@jit
def _mark_forced(rules: Any, placed: Any, free: Any, rank: int, needs: Any) -> None:
    """Mark the lower quotas that can no longer wait, because they need every free rank.

    ``free[r]`` counts the free ranks below r. The need of a quota is what its count lacks, at most
    its remaining members, and at most the free ranks that quotas of higher priority leave. Quotas
    that end at or before a rank must share the free ranks up to it; where their needs fill these,
    all of them are forced. If that holds for several ranks, the smallest one decides.
    """
    n_rules, n_ranks = rules.kind.shape[0], free.shape[0] - 1
    placed.forced[:] = False
    for c in range(n_rules):
        needs[c] = 0
        if rules.kind[c] != AT_LEAST or rank >= rules.first[c]:
            continue
        # Quotas come in order of priority: the needs of those before c are known.
        need = min(rules.limit[c] - placed.counts[c, 0], placed.left[c])
        for d in range(n_rules):
            if rules.kind[d] != AT_LEAST or rules.first[d] < rules.first[c]:
                continue
            room = free[rules.first[d]] - free[rank]
            for other in range(c):
                if rules.first[other] <= rules.first[d]:
                    room -= needs[other]
            need = min(need, room)
        needs[c] = max(need, 0)
    first_full = n_ranks + 1
    for d in range(n_rules):
        if needs[d] == 0:
            continue
        room = free[rules.first[d]] - free[rank]
        for c in range(n_rules):
            if rules.first[c] <= rules.first[d]:
                room -= needs[c]
        # Every free rank below first[d] is needed: nothing else may be placed there.
        if room <= 0:
            first_full = min(first_full, rules.first[d])
    for c in range(n_rules):
        placed.forced[c] = needs[c] > 0 and rules.first[c] <= first_full <= n_ranks


@jit
def _give_up_constraints(
    rules: Any, placed: Any, order: Any, taken: Any, rank: int, usable: Any
) -> None:
    """Mark as usable the remaining items that break the least important constraints."""
    for i in order:
        usable[i] = not taken[i]
    for c in range(rules.kind.shape[0]):
        can_be_met = False
        for i in order:
            can_be_met = can_be_met or (usable[i] and not _breaks(rules, placed, c, i, rank))
        if can_be_met:
            for i in order:
                usable[i] = usable[i] and not _breaks(rules, placed, c, i, rank)


@jit
def _choose(
    rules: Any,
    placed: Any,
    order: Any,
    head: int,
    taken: Any,
    rank: int,
    objective: Any,
    by_order: bool,
    usable: Any,
) -> int:
    """Return the item for a free rank: of those that break no constraint the one of largest value.

    The items before ``head`` of ``order`` are taken. With ``by_order`` the objective falls along
    ``order``, and the first item is returned.
    """
    best = -1
    for k in range(head, order.shape[0]):
        i = order[k]
        if taken[i] or _first_broken(rules, placed, i, rank) >= 0:
            continue
        if by_order:
            return i
        if best < 0 or objective[i] > objective[best]:
            best = i
    if best >= 0:
        return best
    _give_up_constraints(rules, placed, order[head:], taken, rank, usable)
    for i in order[head:]:
        if not taken[i] and usable[i] and (best < 0 or objective[i] > objective[best]):
            best = i
    return best


@jit
def _explain_choice(
    rules: Any, placed: Any, order: Any, head: int, taken: Any, rank: int, item: int, reason: Any
) -> None:
    """Record why items of larger value were passed over, and why ``item`` was placed instead."""
    n_rules = rules.kind.shape[0]
    was_first = True
    for k in range(head, order.shape[0]):
        i = order[k]
        if i == item:
            break
        if taken[i]:
            continue
        was_first = False
        if reason[i] < 0:
            broken = _first_broken(rules, placed, i, rank)
            reason[i] = n_rules if broken < 0 else broken
    # An item that comes next by its value needs no reason.
    if was_first or reason[item] >= 0:
        return
    for c in range(n_rules):
        if placed.forced[c] and rules.codes[c, item] >= 0:
            reason[item] = c
            return


@jit
def _count_item(rules: Any, placed: Any, i: int, rank: int) -> None:
    """Count an item at a rank for the constraints that apply there."""
    for c in range(rules.kind.shape[0]):
        if rules.codes[c, i] >= 0 and rank < rules.first[c]:
            placed.counts[c, rules.codes[c, i]] += 1


@jit
def place_items(
    value: NDArray[np.float64],
    order: NDArray[np.int64],
    pinned: NDArray[np.int64],
    n_ranks: int,
    rules: Constraints,
    similar: Similarity,
    explains: bool,
    reason: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the items of the first ranks.

    Parameters
    ----------
    value
        Value of each item, boosts included.
    order
        Items that were not removed, the largest value first.
    pinned
        Item at each rank, -1 for free ranks.
    n_ranks
        Number of ranks to return.
    explains
        Whether to set ``reason[i]`` to the first constraint that held item i back or lifted it; the
        number of constraints means diversity. -1: no reason yet.
    """
    n_items, n_rules = order.shape[0], rules.kind.shape[0]
    taken = np.zeros(value.shape[0], dtype=np.bool_)
    free = np.zeros(n_items + 1, dtype=np.int64)
    # Groups have the numbers of rows; constraints with a condition have the one group 0.
    n_codes = 1
    for c in range(n_rules):
        for i in order:
            n_codes = max(n_codes, rules.codes[c, i] + 1)
    placed = _Placement(
        pinned.copy(),
        np.zeros((n_rules, n_codes), dtype=np.int64),
        np.zeros(n_rules, dtype=np.int64),
        np.zeros(n_rules, dtype=np.bool_),
    )
    for rank in range(n_items):
        free[rank + 1] = free[rank] + (pinned[rank] < 0)
        if pinned[rank] >= 0:
            taken[pinned[rank]] = True
            _count_item(rules, placed, pinned[rank], rank)
    has_lower_quotas, n_constrained = False, 0
    for c in range(n_rules):
        n_constrained = max(n_constrained, rules.first[c])
        if rules.kind[c] == AT_LEAST:
            has_lower_quotas = True
            for i in order:
                placed.left[c] += rules.codes[c, i] >= 0 and not taken[i]
    # Relevance from 0 to 1, so that the weight of diversity means the same in every list.
    relevance = value.copy()
    lowest, highest = value[order[n_items - 1]], value[order[0]]
    for i in order:
        relevance[i] = 0.0
        if highest > lowest:
            relevance[i] = (value[i] - lowest) / (highest - lowest)
    # ``largest_similarity`` is that to an item that was placed (maximal marginal relevance).
    objective, largest_similarity = value, np.zeros(value.shape[0])
    if similar.first > 0:
        objective = np.empty(value.shape[0])
    usable = np.empty(value.shape[0], dtype=np.bool_)
    needs = np.zeros(n_rules, dtype=np.int64)
    head = 0
    for rank in range(n_ranks):
        item = pinned[rank]
        by_order = rank >= similar.first
        if item < 0:
            while taken[order[head]]:
                head += 1
            # Beyond all constraints the order is that of the values.
            if by_order and rank >= n_constrained:
                taken[order[head]] = True
                placed.item_at[rank] = order[head]
                continue
            if has_lower_quotas:
                _mark_forced(rules, placed, free, rank, needs)
            if by_order:
                objective = value
            else:
                for k in range(head, n_items):
                    i = order[k]
                    objective[i] = (1.0 - similar.weight) * relevance[i]
                    objective[i] -= similar.weight * largest_similarity[i]
            item = _choose(rules, placed, order, head, taken, rank, objective, by_order, usable)
            if explains:
                _explain_choice(rules, placed, order, head, taken, rank, item, reason)
            taken[item] = True
            placed.item_at[rank] = item
            _count_item(rules, placed, item, rank)
            for c in range(n_rules):
                placed.left[c] -= rules.codes[c, item] >= 0
        if rank + 1 < similar.first:
            for k in range(head, n_items):
                i = order[k]
                if not taken[i]:
                    closeness = _similarity(similar, item, i)
                    # Cosines may be negative, so the first one replaces the 0.
                    if rank > 0:
                        closeness = max(largest_similarity[i], closeness)
                    largest_similarity[i] = closeness
    return placed.item_at[:n_ranks]
