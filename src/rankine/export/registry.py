"""The targets by name, what they are given, which models they can express, weights as text."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import ListRange, RunScores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rankine.model import LinearModel


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
    """

    name: str = "rankine"
    store: str = "_DEFAULT_"
    form: str | None = None
    dtype: str = "float32"
    feature_set: str | None = None

    def versioned(self, model: LinearModel) -> str:
        """``name_digest``: another model never has the same name."""
        return f"{self.name}_{model.digest[:12]}"


@dataclass(frozen=True)
class Export:
    """The content of the file, files that go beside it (suffix -> content), and what to know."""

    content: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    remark: str = ""


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
    if chosen.feature_set is not None and to not in ("elasticsearch", "opensearch", "solr"):
        raise ParameterError(f"{to} has no feature set", fix="Leave feature_set out")
    if not hasattr(model, "weight_names"):
        raise ExportError("a bundle holds many models", fix="Export one topic of it")
    if model.nnz == 0:
        raise ExportError("all weights are zero: the model ranks nothing", fix="Train it first")
    if any(isinstance(spec, RunScores) for spec in model.transforms) and to in _FUSIONS:
        return _FUSIONS[to](model, chosen)
    return _TARGETS[to](model, chosen)


def json_file(content: Any) -> bytes:
    """A document for people and engines."""
    return json.dumps(content, indent=2, allow_nan=False).encode() + b"\n"


class WeightTerm(NamedTuple):
    """A feature's name and its weight as text, shortest that reads back as the same number."""

    name: str
    weight: str


def require_features(model: LinearModel, target: str) -> None:
    """Refuse a model that reads raw columns: no engine runs its encoders."""
    for spec in model.transforms:
        if isinstance(spec, RunScores):
            raise ExportError(
                f"{target} cannot normalise the scores of retrievers within a list",
                fix="Export the fusion to elasticsearch, opensearch, vespa, solr, python or json",
            )
        if not isinstance(spec, ListRange):
            raise ExportError(
                f"{target} cannot run the transform {type(spec).__name__}, which makes this "
                "model's features from raw columns",
                fix="Serve the model with rankine serve, or train on features that the engine has",
            )


def require_plain(model: LinearModel, target: str) -> None:
    """Refuse what a weighted sum of stored features cannot express."""
    require_features(model, target)
    if model.transforms:
        raise ExportError(
            f"{target} scores one document at a time and cannot scale features within each list",
            fix="Train with scale='standard' or 'maxabs', which fold into the weights; or use "
            "rankine serve, or the python or json export",
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
