"""The targets by name, what they are given, which models they can express, weights as text."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rankine.core.errors import ExportError, ParameterError
from rankine.core.safe_text import printable
from rankine.core.specs import ListRange, LogColumns, MissingValues, RunScores
from rankine.model import LinearModel
from rankine.model.tables import Tables

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")


@dataclass(frozen=True)
class ExportOptions:
    """Choices of the user.

    Attributes
    ----------
    name
        Name of the model in the engine. The digest's first digits are appended, because engines
        do not update a model in place.
    store
        Solr: the feature store that the model reads.
    form
        Vespa: "expression" (terms in the rank profile, the default) or "tensor" (a constant
        tensor). A fusion of retrievers: "linear" or "rrf"; the default is what it was learnt as.
    feature_set
        Elasticsearch, OpenSearch and Solr: also write the feature set (store) of this name, the
        model and a query, ready to send.
    dtype
        ONNX: "float32" or "float64".
    query
        SQL of a model that scales within each list: the column that names a row's list. The
        default is that of the model's log; without one all rows are one list.
    """

    name: str = "rankine"
    store: str = "_DEFAULT_"
    form: str | None = None
    dtype: str = "float32"
    feature_set: str | None = None
    query: str | None = None

    def versioned(self, model: LinearModel) -> str:
        """``name_digest``: another model never has the same name."""
        return f"{self.name}_{model.digest[:12]}"


@dataclass(frozen=True)
class Export:
    """The content of the file, files that go beside it (suffix -> content), and what to know."""

    content: bytes
    extra_files: Mapping[str, bytes] = field(default_factory=dict)
    remark: str = ""


#: Options that not every target reads.
_USED_BY = {
    "store": ("solr",),
    "form": ("vespa",),
    "dtype": ("onnx",),
    "feature_set": ("elasticsearch", "opensearch", "solr"),
    "query": ("sql",),
}
F = TypeVar("F", bound="Callable[..., Export]")
_TARGETS: dict[str, Callable[[LinearModel, ExportOptions], Export]] = {}
#: The same for fusions of retrievers.
_FUSIONS: dict[str, Callable[[LinearModel, ExportOptions], Export]] = {}


def register(name: str, *, fusion: bool = False) -> Callable[[F], F]:
    """Decorate the function that exports to a target; with ``fusion``, fusions of retrievers."""

    def keep(function: F) -> F:
        (_FUSIONS if fusion else _TARGETS)[name] = function
        return function

    return keep


@cache
def targets() -> tuple[str, ...]:
    """Names of all targets; every module of this folder is asked once."""
    import rankine.export as folder

    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{module.name}")
    return tuple(sorted(_TARGETS))


def export(model: Any, to: str, options: ExportOptions | None = None) -> Export:
    """Write a model in the language of a target.

    Raises
    ------
    ExportError
        The target cannot express this model; the message says why and what to do instead.
    """
    chosen = options or ExportOptions()
    if to not in targets():
        raise ParameterError(f"no export is called {to!r}", fix=f"Choose {', '.join(targets())}")
    if not _NAME.match(chosen.name):
        raise ParameterError(
            f"{chosen.name!r} cannot be the name of a model",
            fix="Use letters, digits and underscores, a letter first, at most 64 of them",
        )
    if not hasattr(model, "weight_names"):
        raise ExportError("a bundle holds many models", fix="Export one topic of it")
    if model.nnz == 0:
        raise ExportError("all weights are zero: the model ranks nothing", fix="Train it first")
    fusion = any(isinstance(spec, RunScores) for spec in model.transforms) and to in _FUSIONS
    for name, used_by in _USED_BY.items():
        value = getattr(chosen, name)
        if value == getattr(ExportOptions, name) or to in used_by or (fusion and name == "form"):
            continue
        raise ParameterError(
            f"{name}={value!r} means nothing to {to}",
            fix=f"Leave it out: it belongs to {', '.join(used_by)}",
        )
    if fusion:
        return _FUSIONS[to](model, chosen)
    return _TARGETS[to](model, chosen)


def json_bytes(content: Any) -> bytes:
    """A document for people and engines."""
    return json.dumps(content, indent=2, allow_nan=False).encode() + b"\n"


class WeightTerm(NamedTuple):
    """A feature's name and its weight as text, shortest that reads back as the same number."""

    name: str
    weight: str


class RawFeature(NamedTuple):
    """A feature that is made of one raw column.

    ``kind`` is ``"number"``, ``"value"`` (1 where the column is ``value``), ``"cell"`` (1 where
    low <= column < high; None is no bound) or ``"missing"``.
    """

    name: str
    column: str
    kind: str
    value: str = ""
    low: float | None = None
    high: float | None = None


def raw_features(model: LinearModel, target: str) -> list[RawFeature] | None:
    """Features of the weights of a model of raw columns; None where rows are features already."""
    spec = next((one for one in model.transforms if isinstance(one, LogColumns)), None)
    if spec is None:
        return None
    if (model.indices >= spec.hash_start).any():
        hashed = [repr(name) for name in spec.hashed] + [repr("*".join(c)) for c in spec.crosses]
        raise ExportError(
            f"{target} cannot hash column {', '.join(hashed)}",
            fix="Train with --one-hot instead of --categorical and without --cross, or serve the "
            "model with rankine serve",
        )
    found = [RawFeature(name, name, "number") for name in spec.numeric]
    for known in spec.one_hot:
        column = known.column
        found += [RawFeature(f"{column}={v}", column, "value", v) for v in known.values]
    for cells in spec.binned:
        ends = (None, *cells.cuts, None)
        for k, name in enumerate(cells.names[:-1]):
            found.append(RawFeature(name, cells.column, "cell", "", ends[k], ends[k + 1]))
        found.append(RawFeature(cells.names[-1], cells.column, "missing"))
    return [found[j] for j in model.indices.tolist()]


def require_features(model: LinearModel, target: str, *, raw: bool = False) -> None:
    """Refuse a model whose features the target cannot make; ``raw``: it reads raw columns."""
    for spec in model.transforms:
        if raw and isinstance(spec, LogColumns):
            continue
        if isinstance(spec, RunScores):
            raise ExportError(
                f"{target} cannot normalise the scores of retrievers within a list",
                fix="Export the fusion to elasticsearch, opensearch, vespa, solr, python or json",
            )
        if isinstance(spec, MissingValues):
            continue
        if not isinstance(spec, ListRange):
            raise ExportError(
                f"{target} cannot run the transform {type(spec).__name__}, which makes this "
                "model's features from raw columns",
                fix="Serve the model with rankine serve, or train on features that the engine has",
            )


def require_rule(model: LinearModel, target: str, rules: Sequence[str]) -> None:
    """Refuse what a model does with missing values unless the target can express it."""
    spec = model.missing
    if spec is not None and spec.rule not in rules:
        able = f"Train with missing={' or '.join(map(repr, rules))}" if rules else (
            "Train on data without missing values"
        )  # fmt: skip
        raise ExportError(
            f"{target} cannot express what this model does with missing values "
            f"(missing={spec.rule!r})",
            fix=f"{able}; or use rankine serve, or the python or json export",
        )


def require_linear(
    model: LinearModel, target: str, *, raw: bool = False, rules: Sequence[str] = ()
) -> None:
    """Refuse what a weighted sum of stored features cannot express.

    ``rules`` are those of missing values that it can.
    """
    require_features(model, target, raw=raw)
    require_rule(model, target, rules)
    if any(isinstance(spec, ListRange) for spec in model.transforms):
        raise ExportError(
            f"{target} scores one document at a time and cannot scale features within each list",
            fix="Train with scale='standard' or 'maxabs', which fold into the weights; or use "
            "rankine serve, or the sql, python or json export",
        )


def named_terms(model: LinearModel, target: str) -> list[WeightTerm]:
    """Name and float64 weight of every non-zero weight."""
    if model.names is None:
        raise ExportError(
            f"{target} knows features by name and this model's have none",
            fix="Pass --feature-names FILE, one name a line",
        )
    return [
        WeightTerm(name, repr(weight))
        for name, weight in zip(model.weight_names, model.values.tolist(), strict=True)
    ]


def float32_terms(model: LinearModel, target: str) -> list[WeightTerm]:
    """Name and float32 weight of every weight that is not zero in float32."""
    terms = []
    with np.errstate(over="ignore"):
        narrow = model.values.astype(np.float32)
    for term, weight in zip(named_terms(model, target), narrow, strict=True):
        if not np.isfinite(weight):
            raise ExportError(
                f"{target} computes in float32, where the weight {term.weight} overflows",
                fix="Train on scaled features",
            )
        if weight != 0:
            terms.append(WeightTerm(term.name, _shortest(weight)))
    return terms


def _shortest(weight: np.float32) -> str:
    """Fewest digits that give the same float32, also when an engine parses them as float64."""
    text = str(weight)
    return text if np.float32(float(text)) == weight else repr(float(weight))


# A table as a tree: a curve is one, a grid a tree of trees. ``x < cut`` goes left, and so does a
# missing value: the first question about a column is ``x < -inf``, which nothing else answers yes.
#: Written for -inf, which JSON does not have.
LOWEST = -3.4028234663852886e38
#: The parent of a root, as XGBoost writes it.
NO_PARENT = 2**31 - 1


class Node(NamedTuple):
    """A question (``x < cut``, x of a column: left) or, where ``left`` is None, a value."""

    value: float
    column: int = 0
    cut: float = 0.0
    left: Node | None = None
    right: Node | None = None


def build_trees(tables: Tables, target: str, *, linear: bool = False) -> list[Node]:
    """A tree for every table that is not zero, in float32; ``linear`` columns may be refused."""
    if tables.bins.linear and not linear:
        raise ExportError(
            f"{target} has trees, and column {tables.column_name(tables.bins.linear[0])!r} of this "
            "model is linear",
            fix="Train without linear=, or export to sql, onnx, vespa, python or json",
        )
    if tables.texts:
        raise ExportError(
            f"{target} compares numbers, and column "
            f"{printable(tables.column_name(min(tables.texts)))!r} of this model holds texts",
            fix="Serve the model with rankine serve, or export to sql, python or json",
        )
    axes = {axis.column: axis.cells for axis in tables.grids.axes} if tables.grids else {}
    found = []
    for term in tables.terms:
        if not term.values.any():
            continue
        with np.errstate(over="ignore"):
            leaves = term.values.astype(np.float32)
        if not np.isfinite(leaves).all():
            raise ExportError(f"an entry overflows float32 in {target}", fix="Raise smooth")
        rows = [Node(float(value)) for value in leaves.ravel().tolist()]
        first = term.columns[0]
        if len(term.columns) == 2:
            second, width = term.columns[1], leaves.shape[1]
            inner = [rows[k : k + width] for k in range(0, len(rows), width)]
            rows = [_column(tables, second, axes[second], row, target) for row in inner]
            found.append(_column(tables, first, axes[first], rows, target))
        else:
            found.append(_column(tables, first, None, rows, target))
    return found


def _column(
    tables: Tables, j: int, places: Sequence[int] | None, below: list[Node], target: str
) -> Node:
    """The tree that leads a value of column j to its place."""
    missing, *tests, other = tables.tests(j, places)
    bounds: list[tuple[float, Node]] = [(-np.inf, below[tests[0].place if tests else other.place])]
    if j in tables.bins.unordered:
        bounds = [(-np.inf, below[other.place])]
        for test in tests:
            cut = np.float32(test.cut)
            if float(cut) != test.cut:
                raise ExportError(
                    f"{target} compares in float32, where the category {test.cut!r} of column "
                    f"{printable(tables.column_name(j))!r} is another number",
                    fix="Number categories from 0",
                )
            if bounds[-1][0] == cut:
                bounds.pop()
            bounds.append((float(cut), below[test.place]))
            bounds.append((float(np.nextafter(cut, np.float32(np.inf))), below[other.place]))
    else:
        for test, after in zip(tests, [*tests, other][1:], strict=True):
            with np.errstate(over="ignore"):
                cut = np.float32(test.cut)
            if not np.isfinite(cut) or 0.0 < abs(test.cut) < np.finfo(np.float32).tiny:
                raise ExportError(
                    f"{target} compares in float32, which does not hold the cut {test.cut!r} of "
                    f"column {printable(tables.column_name(j))!r}",
                    fix="Give the column other units before training",
                )
            bounds.append((float(cut), below[after.place]))
    return Node(0.0, j, -np.inf, below[missing.place], _balanced(j, bounds))


def _balanced(j: int, bounds: list[tuple[float, Node]]) -> Node:
    if all(node == bounds[0][1] for _, node in bounds[1:]):
        return bounds[0][1]
    middle = len(bounds) // 2
    return Node(
        0.0, j, bounds[middle][0], _balanced(j, bounds[:middle]), _balanced(j, bounds[middle:])
    )


def flat(tree: Node) -> list[tuple[Node, int, int, int]]:
    """Nodes of a tree with the numbers of both children (or -1) and of the parent.

    Level by level: a right child follows its left one, as XGBoost takes for granted.
    """
    out = [(tree, -1, -1, NO_PARENT)]
    for number, (node, _, _, parent) in enumerate(out):
        if node.left is not None and node.right is not None:
            first = len(out)
            out[number] = (node, first, first + 1, parent)
            out += [(node.left, -1, -1, number), (node.right, -1, -1, number)]
    return out


def nested(node: Node, write: Callable[[Node, Any, Any], Any]) -> Any:
    """A tree written from its leaves up: ``write(node, left, right)``, None below a leaf."""
    if node.left is None or node.right is None:
        return write(node, None, None)
    return write(node, nested(node.left, write), nested(node.right, write))


def column_names(tables: Tables, target: str) -> tuple[str, ...]:
    """Names of the columns, which the target knows them by."""
    if tables.bins.names is None:
        raise ExportError(
            f"{target} knows columns by name and this model's have none",
            fix="Train on data with names of columns",
        )
    return tables.bins.names
