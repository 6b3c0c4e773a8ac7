"""Tables of a model as decision trees, for engines that score trees.

A curve is one tree, a grid is a tree whose leaves are trees. The condition ``x < cut`` leads to the
left, and so does a missing value. The first condition on a column is therefore ``x < -inf``, which
holds for missing values only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankine.core.errors import ExportError
from rankine.core.safe_text import printable
from rankine.model.tables import Tables

#: Written instead of -inf, which JSON does not have.
LOWEST = -3.4028234663852886e38
#: The parent of a root, as XGBoost writes it.
NO_PARENT = 2**31 - 1


class Node(NamedTuple):
    """A condition (``x < cut`` leads left) or, if ``left`` is None, a leaf with a value."""

    value: float
    column: int = 0
    cut: float = 0.0
    left: Node | None = None
    right: Node | None = None


class FlatNode(NamedTuple):
    """A node with the numbers of its children (-1: none) and of its parent."""

    node: Node
    left: int
    right: int
    parent: int


def build_trees(tables: Tables, target: str, *, linear: bool = False) -> list[Node]:
    """Return a tree in float32 for every table that is not zero.

    ``linear``: the target can add columns that stay linear.
    """
    if tables.bins.linear and not linear:
        raise ExportError(
            f"{target} has trees only, and column {tables.column_name(tables.bins.linear[0])!r} of "
            "this model is linear",
            fix="Train without linear=, or export to sql, onnx, vespa, json or a language",
        )
    if tables.texts:
        raise ExportError(
            f"{target} compares numbers, and column "
            f"{printable(tables.column_name(min(tables.texts)))!r} of this model holds texts",
            fix="Serve the model with rankine serve, or export to sql, json or a language",
        )
    trees = []
    for term in tables.terms:
        if not term.values.any():
            continue
        with np.errstate(over="ignore"):
            values = term.values.astype(np.float32)
        if not np.isfinite(values).all():
            raise ExportError(
                f"a table entry overflows float32 in {target}", fix="Train with a larger smooth"
            )
        leaves = [Node(float(value)) for value in values.ravel().tolist()]
        if len(term.columns) == 1:
            trees.append(_column_tree(tables, term.columns[0], None, leaves, target))
            continue
        (a, b), width = term.columns, values.shape[1]
        rows = [leaves[k : k + width] for k in range(0, len(leaves), width)]
        # A grid is a tree over its first column whose leaves are trees over the second.
        inner = [_column_tree(tables, b, tables.axis_cells[b], row, target) for row in rows]
        trees.append(_column_tree(tables, a, tables.axis_cells[a], inner, target))
    return trees


def _column_tree(
    tables: Tables, j: int, positions: Sequence[int] | None, below: list[Node], target: str
) -> Node:
    """Build the tree that leads a value of column j to the node of its position in the table."""
    missing, *conditions, default = tables.tests(j, positions)
    # (lower bound, node) of intervals of increasing values
    intervals: list[tuple[float, Node]]
    if j in tables.bins.unordered:
        intervals = [(-np.inf, below[default.position])]
        for test in conditions:
            cut = np.float32(test.cut)
            if float(cut) != test.cut:
                raise ExportError(
                    f"{target} compares in float32, which cannot hold the category {test.cut!r} of "
                    f"column {printable(tables.column_name(j))!r}",
                    fix="Number categories from 0",
                )
            # A category is the interval from its number to the next float32.
            # Neighbouring numbers of categories leave no interval between them.
            if intervals[-1][0] == cut:
                intervals.pop()
            intervals.append((float(cut), below[test.position]))
            next_number = float(np.nextafter(cut, np.float32(np.inf)))
            intervals.append((next_number, below[default.position]))
    else:
        ordered = [*conditions, default]
        intervals = [(-np.inf, below[ordered[0].position])]
        for test, following in zip(conditions, ordered[1:], strict=True):
            with np.errstate(over="ignore"):
                cut = np.float32(test.cut)
            if not np.isfinite(cut) or 0.0 < abs(test.cut) < np.finfo(np.float32).tiny:
                raise ExportError(
                    f"{target} compares in float32, which cannot hold the cut {test.cut!r} of "
                    f"column {printable(tables.column_name(j))!r}",
                    fix="Change the unit of the column before training",
                )
            intervals.append((float(cut), below[following.position]))
    # No number is below minus infinity: only missing values, which go left, take this branch.
    return Node(0.0, j, -np.inf, below[missing.position], _search_tree(j, intervals))


def _search_tree(j: int, intervals: list[tuple[float, Node]]) -> Node:
    """Build a balanced search tree over intervals; equal neighbours need no condition."""
    if all(node == intervals[0][1] for _, node in intervals[1:]):
        return intervals[0][1]
    # Halves: a tree of n cells is log2 n deep.
    middle = len(intervals) // 2
    return Node(
        0.0,
        j,
        intervals[middle][0],
        _search_tree(j, intervals[:middle]),
        _search_tree(j, intervals[middle:]),
    )


def flatten_tree(tree: Node) -> list[FlatNode]:
    """List the nodes of a tree level by level, with the numbers of their neighbours.

    A right child follows its left sibling, as XGBoost requires.
    """
    nodes = [FlatNode(tree, -1, -1, NO_PARENT)]
    for number, (node, _, _, parent) in enumerate(nodes):
        if node.left is not None and node.right is not None:
            first = len(nodes)
            nodes[number] = FlatNode(node, first, first + 1, parent)
            nodes += [FlatNode(node.left, -1, -1, number), FlatNode(node.right, -1, -1, number)]
    return nodes


def write_tree(node: Node, write: Callable[[Node, Any, Any], Any]) -> Any:
    """Write a tree from its leaves up by ``write(node, left, right)``; leaves get None."""
    if node.left is None or node.right is None:
        return write(node, None, None)
    return write(node, write_tree(node.left, write), write_tree(node.right, write))
