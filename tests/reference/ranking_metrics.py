"""Compute metrics of one list slowly, directly from their definitions."""

import itertools
import math


def discount(kind, rank):
    if kind == "std":
        return 1 / math.log2(rank + 1)
    if kind == "paper":
        return 1 / (math.log2(rank) + 1)
    return 1.0 if rank <= 2 else 1 / math.log2(rank)


def ranked(labels, scores):
    """Return the labels from best to worst score; ties keep their order."""
    return [labels[i] for i in sorted(range(len(labels)), key=lambda i: -scores[i])]


def exp_gain(label):
    return 2.0**label - 1


def dcg(order, k=None, gain=exp_gain, kind="std"):
    return sum(gain(l) * discount(kind, r) for r, l in enumerate(order[:k], 1))


def ndcg(order, k=None, gain=exp_gain, kind="std"):
    ideal = dcg(sorted(order, key=gain, reverse=True), k, gain, kind)
    return dcg(order, k, gain, kind) / ideal if ideal > 0 else None


def mean_ndcg(order, kind="letor"):
    values = [ndcg(order, k, kind=kind) for k in range(1, len(order) + 1)]
    return None if values[0] is None else sum(values) / len(values)


def precision(order, k, threshold=1):
    return sum(l >= threshold for l in order[:k]) / k if has_relevant(order, threshold) else None


def has_relevant(order, threshold=1):
    return any(l >= threshold for l in order)


def recall(order, k, threshold=1):
    total = sum(l >= threshold for l in order)
    return sum(l >= threshold for l in order[:k]) / total if total else None


def of_whole(value, order, k):
    """The value; 0 where a list with one is shorter than k."""
    return 0.0 if value is not None and len(order) < k else value


def average_precision(order, k=None, threshold=1):
    relevant = [r for r, l in enumerate(order, 1) if l >= threshold]
    if not relevant:
        return None
    depth = len(order) if k is None else k
    hits = [(i + 1) / r for i, r in enumerate(relevant) if r <= depth]
    return sum(hits) / len(relevant)


def reciprocal_rank(order, k=None, threshold=1):
    if not has_relevant(order, threshold):
        return None
    return max((1 / r for r, l in enumerate(order[:k], 1) if l >= threshold), default=0.0)


def hit(order, k, threshold=1):
    return float(has_relevant(order[:k], threshold)) if has_relevant(order, threshold) else None


def rbp(order, k=None, persistence=0.8, threshold=1):
    if not has_relevant(order, threshold):
        return None
    terms = [persistence ** (r - 1) for r, l in enumerate(order[:k], 1) if l >= threshold]
    return (1 - persistence) * sum(terms)


def err(order, k=None, max_label=4):
    if not has_relevant(order):
        return None
    total, reading = 0.0, 1.0
    for r, l in enumerate(order[:k], 1):
        stop = exp_gain(l) / 2**max_label
        total += reading * stop / r
        reading *= 1 - stop
    return total


def pairs(labels):
    n = range(len(labels))
    return [(i, j) for i in n for j in n if labels[i] > labels[j]]


def pairwise_error(labels, scores, tie=0.5):
    found = pairs(labels)
    wrong = sum(
        1.0 if scores[i] < scores[j] else tie if scores[i] == scores[j] else 0.0 for i, j in found
    )
    return wrong / len(found) if found else None


def roc_area(labels, scores, threshold=1):
    error = pairwise_error([int(l >= threshold) for l in labels], scores)
    return None if error is None else 1 - error


def kendall(labels, scores, ties="corrected"):
    found = pairs(labels)
    gap = sum(
        (scores[i] > scores[j])
        - (scores[i] < scores[j])
        - (ties == "errors" and scores[i] == scores[j])
        for i, j in found
    )
    both = itertools.combinations(scores, 2)
    apart = sum(ties == "errors" or one != other for one, other in both)
    return None if not found else gap / math.sqrt(apart * len(found)) if apart else 0.0


def domination_error(labels, scores, ties="errors"):
    bad = tops = 0
    for i, label in enumerate(labels):
        lower = [scores[j] for j in range(len(labels)) if labels[j] < label]
        if lower:
            tops += 1
            worst = max(lower)
            bad += worst > scores[i] or (ties == "errors" and worst == scores[i])
    return bad / tops if tops else None


def over_orders(labels, scores, value):
    """Mean of ``value(labels in ranked order, strictly falling scores)`` over orders of ties."""
    n = len(labels)
    values = [
        value([labels[i] for i in order], [float(n - r) for r in range(n)])
        for order in itertools.permutations(range(n))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    return None if values[0] is None else sum(values) / len(values)
