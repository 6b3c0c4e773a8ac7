"""How the model and this page were made, and how to make them again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from rankine._version import __version__
from rankine.core.errors import ParameterError
from rankine.core.safe_text import Html, join, name_of, tag, text
from rankine.core.specs import encode_transforms
from rankine.data.dataset import Dataset
from rankine.logs.clicks import coec_formula
from rankine.logs.schema import schema_of
from rankine.model import LinearModel
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.reporting.page import Section, card, count, facts, shown

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
        ranker_class(name)().get_params(deep=False) if name in RANKERS else {},
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
    schema = schema_of(model)
    if schema is None:
        return []
    counted = schema.label is not None and coec_formula(schema.label) is not None
    placed = any(model.parameters.get(name) for name in ("propensity", "position_offset"))
    left_out = {"crosses", "weight"}
    left_out |= set() if counted else {"item", "search"}
    left_out |= set() if counted or placed else {"position"}
    words: list[str] = []
    for name, value in msgspec.to_builtins(schema).items():
        if name not in left_out:
            given = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
            words += [f"--{name.replace('_', '-')}", given]
    for cross in schema.crosses:
        words += ["--cross", cross]
    return words


def origin_section(found: Origin, command: str | None) -> Section:
    """Parameters, versions, commands."""
    rows: list[tuple[str, Any]] = [("ranker", name_of(found.ranker or "unknown"))]
    if found.trained_with is not None:
        rows.append(("trained with", name_of(f"rankine {found.trained_with}")))
    for key, value in found.training.items():
        if value not in (None, [], ""):
            rows.append((key.replace("_", " "), _value(value)))
    if found.transforms:
        rows.append(("before the weights", name_of(", ".join(found.transforms))))
    rows.append(("model digest", tag("code", found.digest)))
    rows.append(("this page", ", ".join(f"{k} {v}" for k, v in found.versions.items())))
    parts = [
        card(tag("h3", "Where it comes from"), facts(rows)),
        card(tag("h3", "Parameters"), facts(_parameters(found))),
    ]
    if found.command is not None:
        words = "It holds what the model file remembers; add the reading options your files need."
        parts.append(_command("Train it again", found.command, words))
    if command is not None:
        parts.append(_command("Make this page again", command))
    lead = "What the model file remembers of its making, and the commands that go with it."
    return Section("origin", "How it was made", "How was it made?", lead, join(parts))


def command_section(
    command: str | None, *, lead: str = "", notes: Sequence[Html] = ()
) -> list[Section]:
    """How a page without a model of its own was made; nothing where nothing is known."""
    if command is None and not notes:
        return []
    again = None if command is None else _command("Make this page again", command)
    return [Section("origin", "How it was made", "How was it made?", lead, join([*notes, again]))]


def _command(title: str, command: str, words: str | None = None) -> Html:
    """A command to copy."""
    told = tag("figcaption", words) if words else None
    return card(tag("h3", title), tag("pre", text(command, 4000)), told)


def _parameters(found: Origin) -> list[tuple[str, Any]]:
    given = found.parameters.items()
    usual = [key for key, v in given if key in found.defaults and found.defaults[key] == v]
    rows: list[tuple[str, Any]] = [(key, _value(value)) for key, value in given if key not in usual]
    if usual:
        words = ", ".join(f"{key} = {shown(found.parameters[key])}" for key in usual)
        rows.append(("at their defaults", tag("span", name_of(words, 2000), class_="terms")))
    return rows or [("", "none recorded")]


def _value(value: Any) -> Html:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return name_of(shown(value), 400)
    if isinstance(value, int):
        return text(count(value))
    if isinstance(value, list):
        return name_of(", ".join(shown(v) for v in value[:20]), 600)
    if isinstance(value, Mapping):
        return name_of(", ".join(f"{k}: {shown(v)}" for k, v in list(value.items())[:20]), 600)
    return name_of(shown(value), 200)
