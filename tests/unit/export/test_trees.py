"""Trees of tables: conditions, order of nodes, and what trees cannot express."""

from __future__ import annotations

import numpy as np
import pytest

from rankine import AdditiveRanker
from rankine.core.errors import ExportError
from rankine.export.trees import NO_PARENT, Node, build_trees, flatten_tree, write_tree
from rankine.model.tables import find_tables


def leaf(value):
    return Node(value)


TREE = Node(0.0, 1, 0.5, Node(0.0, 0, -np.inf, leaf(1.0), leaf(2.0)), leaf(3.0))


def follow(node, row):
    while node.left is not None:
        value = row[node.column]
        node = node.left if np.isnan(value) or value < node.cut else node.right
    return node.value


def test_nodes_are_listed_level_by_level():
    flat = flatten_tree(TREE)
    assert [entry.node.value for entry in flat] == [0.0, 0.0, 3.0, 1.0, 2.0]
    assert [(entry.left, entry.right) for entry in flat[:2]] == [(1, 2), (3, 4)]
    assert [entry.parent for entry in flat] == [NO_PARENT, 0, 0, 1, 1]


def test_a_tree_is_written_from_its_leaves_up():
    text = write_tree(TREE, lambda node, *below: node.value if below[0] is None else list(below))
    assert text == [[1.0, 2.0], 3.0]


def test_trees_add_up_to_the_tables():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(200, 2)), np.repeat(np.arange(20), 10)
    X[::9, 0] = np.nan
    y = (np.nan_to_num(X[:, 0]) * X[:, 1] > 0.1).astype(float)
    ranker = AdditiveRanker(bins=6, pairs=1, random_state=0).fit(X, y, qid=qid)
    tables = find_tables(ranker.to_model())
    trees = build_trees(tables, "Engine")
    sums = [sum(follow(tree, row) for tree in trees) for row in X]
    np.testing.assert_allclose(sums, ranker.predict(X), atol=1e-5)
    linear = AdditiveRanker(bins=6, pairs=0, linear=[1]).fit(X, y, qid=qid).to_model()
    with pytest.raises(ExportError):
        build_trees(find_tables(linear), "Engine")
    assert build_trees(find_tables(linear), "Engine", linear=True)
