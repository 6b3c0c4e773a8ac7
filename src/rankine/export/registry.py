"""Export targets by name: their options, their registration and the function ``export``.

A target is one module of ``rankine.export``, which is imported by being there::

    @register("engine")
    def export_engine(model: LinearModel, options: ExportOptions) -> Export:
        \"\"\"Write a model of Engine. (The help of the command prints this line.)\"\"\"
        require_linear(model, "Engine")
        terms = float32_terms(model, "Engine")
        weights = {term.name: float(term.weight) for term in terms}
        return Export(json_bytes({"name": options.versioned(model), "weights": weights}))

``rankine.export.features`` refuses models that the target cannot express (``require_linear``,
``require_rule``) and returns names and weights. The test file ``tests/unit/export/test_engine.py``
registers a reader that scores rows by the exported file (``contracts.export_readers``); the
contract tests then compare its order with the scorer's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from rankine.core.discovery import import_modules
from rankine.core.errors import ExportError, ParameterError
from rankine.core.specs import History, RunScores
from rankine.model import LinearModel

_MODEL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")


@dataclass(frozen=True)
class ExportOptions:
    """Options of exports. A target refuses the options that it does not use.

    Attributes
    ----------
    name
        Name of the model in the engine. The first digits of the digest are appended, because
        engines do not update a model in place.
    store
        Solr: feature store of the model.
    form
        Vespa: "expression" (terms in the rank profile, the default) or "tensor" (a constant
        tensor). Fusion of retrievers: "linear" or "rrf"; default: the form that was learnt.
    feature_set
        Elasticsearch, OpenSearch and Solr: also write the feature set (store) of this name, the
        model and a query, ready to send.
    dtype
        ONNX: "float32" or "float64".
    query
        SQL, for a model that scales within each list: column that identifies the list of a row.
        Default: the column in the model's log; without one, all rows are one list.
    probability
        SQL, for a calibrated model: also write an expression of the probability.
    """

    name: str = "rankine"
    store: str = "_DEFAULT_"
    form: str | None = None
    dtype: str = "float32"
    feature_set: str | None = None
    query: str | None = None
    probability: bool = False

    def versioned(self, model: LinearModel) -> str:
        """Return ``name_digest``, which differs for every model."""
        return f"{self.name}_{model.digest[:12]}"


@dataclass(frozen=True)
class Export:
    """An exported model.

    Attributes
    ----------
    content
        Content of the file.
    extra_files
        Suffix -> content of further files.
    remark
        Hint for the user about the result, or "".
    """

    content: bytes
    extra_files: Mapping[str, bytes] = field(default_factory=dict)
    remark: str = ""


class _Target(NamedTuple):
    """An export function and the names of the options that it uses, in addition to ``name``."""

    function: Callable[[LinearModel, ExportOptions], Export]
    options: tuple[str, ...]


F = TypeVar("F", bound="Callable[..., Export]")
_TARGETS: dict[str, _Target] = {}
# The same for fusions of retrievers; other targets export a fusion like any other model.
_FUSION_TARGETS: dict[str, _Target] = {}


def register(name: str, *, options: tuple[str, ...] = (), fusion: bool = False) -> Callable[[F], F]:
    """Register the decorated function as the export to a target.

    A new target is one module in this package with such a function, and one test module. The
    function checks that the target can express the model (``require_linear`` and the other checks
    in ``rankine.export.features``), and returns the file's content in an ``Export``. An option
    that no other target has is a field of ``ExportOptions`` and a parameter of ``rankine export``.

    Parameters
    ----------
    name
        Name of the target. The first line of the function's docstring describes it in help texts.
    options
        Fields of ``ExportOptions`` that the target uses, in addition to ``name``.
    fusion
        Whether the function exports fusions of retrievers instead of other models.
    """

    def add(function: F) -> F:
        # An engine may express a fusion in another way than a model, so both can be registered.
        registry = _FUSION_TARGETS if fusion else _TARGETS
        registry[name] = _Target(function, options)
        return function

    return add


def targets() -> tuple[str, ...]:
    """Return the names of all targets, sorted. Every module of this package is imported."""
    import_modules("rankine.export")
    return tuple(sorted(_TARGETS))


def describe_targets() -> dict[str, str]:
    """Return the name of every target with one line of description, sorted by name."""
    return {name: (_TARGETS[name].function.__doc__ or "").split("\n")[0] for name in targets()}


def export(model: Any, to: str, options: ExportOptions | None = None) -> Export:
    """Export a model to a search engine, database, runtime or programming language.

    Parameters
    ----------
    model
        A ``LinearModel``.
    to
        Name of the target, one of ``targets()``.
    options
        Name of the model in the engine and options of the target.

    Raises
    ------
    ExportError
        The target cannot express this model; the message gives the reason and an alternative.
    """
    options = options or ExportOptions()
    if to not in targets():
        raise ParameterError(
            f"there is no export to {to!r}", fix=f"Choose {', '.join(targets())}", parameter="to"
        )
    if not _MODEL_NAME.match(options.name):
        raise ParameterError(
            f"{options.name!r} cannot be the name of a model",
            fix="Use letters, digits and underscores, starting with a letter, at most 64 of them",
            parameter="name",
        )
    if not isinstance(model, LinearModel):
        # Engines store one model under one name.
        raise ExportError("a bundle holds many models", fix="Export one topic of it")
    # All engines would rank such a model in the order of their index.
    if model.nnz == 0:
        raise ExportError("all weights are zero: the model ranks nothing", fix="Train it first")
    if to != "json" and any(isinstance(spec, History) for spec in model.transforms):
        raise ExportError(
            f"{to} cannot compute the history features of this model",
            fix="Index them as fields: rankine history build LOG --schema SCHEMA --out FEATURES "
            "writes them as columns; export a model of those. Or serve this model: rankine serve",
        )
    target = _TARGETS[to]
    if any(isinstance(spec, RunScores) for spec in model.transforms):
        target = _FUSION_TARGETS.get(to, target)
    for option in fields(ExportOptions):
        name, value = option.name, getattr(options, option.name)
        # An option that the target ignores would surprise the user in production.
        if value != option.default and name not in ("name", *target.options):
            users = [user for user in targets() if name in _TARGETS[user].options]
            raise ParameterError(
                f"{value!r} cannot be used: {to} has no such option",
                fix=f"Leave it out: it is an option of {', '.join(users)}",
                parameter=name,
            )
    return target.function(model, options)


def json_bytes(content: Any) -> bytes:
    """Encode a document as indented JSON."""
    return json.dumps(content, indent=2, allow_nan=False).encode() + b"\n"
