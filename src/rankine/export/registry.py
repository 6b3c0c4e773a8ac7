"""The targets by name, and what they are given."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import RunScores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rankine.model import LinearModel

__all__ = ["Export", "ExportOptions", "export", "register", "targets"]

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
    if not hasattr(model, "weight_names"):
        raise ExportError("a bundle holds many models", fix="Export one topic of it")
    if model.nnz == 0:
        raise ExportError("all weights are zero: the model ranks nothing", fix="Train it first")
    if any(isinstance(spec, RunScores) for spec in model.transforms) and to in _FUSIONS:
        return _FUSIONS[to](model, chosen)
    return _TARGETS[to](model, chosen)
