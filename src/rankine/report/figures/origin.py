"""How the model was made, and how to make it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankine._version import __version__
from rankine.core.errors import ParameterError
from rankine.core.specs import LogColumns, encode_transforms
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.report.words import shown

if TYPE_CHECKING:
    from rankine.data.dataset import Dataset
    from rankine.model import LinearModel

__all__ = ["Origin", "origin", "training_command"]

#: Parameters that have an option of their own on the command line.
_OPTIONS = {"metric": "--metric", "scale": "--scale", "random_state": "--seed"}


@dataclass(frozen=True)
class Origin:
    """Parameters and provenance of the model, versions, and commands.

    ``seen`` names files of the report's data that the model was trained on.
    """

    digest: str
    ranker: str | None
    parameters: Mapping[str, Any]
    defaults: Mapping[str, Any]
    transforms: Sequence[str]
    training: Mapping[str, Any]
    trained_with: str | None
    versions: Mapping[str, str]
    command: str | None
    seen: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def origin(model: LinearModel, data: Dataset | None = None) -> Origin:
    """Where a model comes from."""
    name = model.parameters.get("ranker")
    story = model.provenance.get("training")
    story = dict(story) if isinstance(story, Mapping) else {}
    sources = [str(s) for s in story.get("sources") or ()]
    here = () if data is None else data.sources
    return Origin(
        model.digest,
        None if name is None else str(name),
        {k: v for k, v in model.parameters.items() if k not in {"ranker", "log"}},
        _defaults(name),
        [str(spec.get("type", "")) for spec in encode_transforms(model.transforms)],
        story,
        str(model.provenance["rankine"]) if "rankine" in model.provenance else None,
        {
            "rankine": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        training_command(model),
        [source for source in here if source in sources],
    )


def _defaults(name: Any) -> dict[str, Any]:
    if name not in RANKERS:
        return {}
    defaults: dict[str, Any] = ranker_class(name)().get_params(deep=False)
    return defaults


def training_command(model: LinearModel) -> str | None:
    """``rankine train ...`` with what the model file remembers; None for models made elsewhere."""
    name = model.parameters.get("ranker")
    story = model.provenance.get("training")
    try:
        known = ranker_class(str(name))().get_params(deep=False)
    except ParameterError:
        return None
    sources = story.get("sources") if isinstance(story, Mapping) else None
    words = ["rankine", "train", *([str(s) for s in sources] if sources else ["TRAINING_DATA"])]
    words += ["--ranker", str(name)]
    for key, value in model.parameters.items():
        if key not in known or value == known[key]:
            continue
        if key in _OPTIONS:
            words += [_OPTIONS[key], shown(value)]
        elif not isinstance(value, dict):
            words += ["--set", f"{key}={_exact(value)}"]
    words += _log_options(model)
    if model.base != 1:
        words += ["--base", str(model.base)]
    return shlex.join([*words, "--out", "model.rankine"])


def _exact(value: Any) -> str:
    """As ``--set`` reads it back to the same value."""
    return repr(value) if isinstance(value, (float, list)) else shown(value)


def _log_options(model: LinearModel) -> list[str]:
    """Options of a model that reads raw columns."""
    spec = next((spec for spec in model.transforms if isinstance(spec, LogColumns)), None)
    if spec is None:
        return []
    words: list[str] = []
    for option, names in (
        ("--numeric", spec.numeric),
        ("--one-hot", tuple(field.column for field in spec.one_hot)),
        ("--categorical", spec.hashed),
    ):
        words += [option, ",".join(names)] if names else []
    for cross in spec.crosses:
        words += ["--cross", "*".join(cross)]
    if spec.hashed or spec.crosses:
        words += ["--hash-bits", str(spec.hash_bits)]
    log = model.parameters.get("log")
    note = log if isinstance(log, Mapping) else {}
    for key in ("query", "label", "position"):
        words += [f"--{key}", str(note[key])] if note.get(key) else []
    return words
