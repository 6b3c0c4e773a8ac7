"""Generated image search, and which LETOR folders count as tasks."""

from __future__ import annotations

import numpy as np
import pytest
from papers.stevens import images
from papers.stevens.l1_time import WAYS, printed_ratio
from papers.stevens.table11 import collections, ranks


def test_images_have_two_per_cent_of_the_features_and_unit_length():
    query = images.image_query(seed=1, number=0, sizes=[60, 20, 20])
    X = query.X[0]
    assert [part.shape for part in query.X] == [(60, 10_000), (20, 10_000), (20, 10_000)]
    assert np.diff(X.indptr).mean() == pytest.approx(200, rel=0.02)
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1.0)
    assert all((counts >= 0).all() for counts in query.counts)


def test_forms_of_one_collection_count_once():
    names = ["mq2008", "ohsumed_min", "ohsumed_querylevelnorm", "td2003"]
    assert collections(names) == ["mq2008", "ohsumed_querylevelnorm", "td2003"]


def test_average_ranks_are_over_the_counted_folders():
    def task(*values):
        means = [dict.fromkeys(("ndcg@10", "p@10", "ndcg@5", "map"), value) for value in values]
        variants = dict(zip(("multi-valued", "base", "margin"), means, strict=True))
        return {"variants": {v: {"means": m} for v, m in variants.items()}, "published": {}}

    tasks = {"a": task(0.3, 0.2, 0.1), "b": task(0.1, 0.2, 0.3), "c": task(0.9, 0.1, 0.5)}
    found = ranks(tasks, ["a", "b"])["map"]
    assert found["ranks"] == {"multi-valued": 2.0, "base": 2.0, "margin": 2.0}
    assert found["tasks"] == ["a", "b"]


def test_times_as_printed_are_compared_where_both_reach_the_gap():
    def topic(seconds, *, converged):
        return {
            way: {"seconds": {"median": seconds * (2 if "without" in way else 1)},
                  "converged": converged or "printed" not in way}
            for way in WAYS
        }  # fmt: skip

    late = topic(100.0, converged=False)
    assert printed_ratio({"by_topic": {"a": late}}) == (0.0, 0)
    both = {"a": late, "b": topic(3.0, converged=True)}
    assert printed_ratio({"by_topic": both}) == (2.0, 1)
