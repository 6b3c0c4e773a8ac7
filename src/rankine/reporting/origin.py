"""Show how the model and this page were made, and the commands that make them again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from markupsafe import Markup

from rankine._version import __version__
from rankine.core.errors import ParameterError
from rankine.core.specs import encode_transforms
from rankine.data.dataset import Dataset
from rankine.data.list_ids import known_share
from rankine.logs.clicks import coec_formula
from rankine.logs.schema import schema_of
from rankine.model import LinearModel
from rankine.rankers.provenance import json_parameters
from rankine.rankers.registry import RANKERS, ranker_class
from rankine.reporting.html import captions, concatenate, name, parts, sentences
from rankine.reporting.numbers import count, parameter_text
from rankine.reporting.page import Section

#: Parameters with a command line option; the others are set by ``--set``.
_OPTIONS = {"metric": "--metric", "scale": "--scale", "random_state": "--seed"}
_TITLE = "How was it made?"
_SCHEMA_FILE = "schema.toml"


@dataclass(frozen=True)
class Origin:
    """Parameters and provenance of the model, versions, and the training command.

    ``seen`` names files of the report's data that the model was trained on, at least in part.
    ``trained_share`` is the share of the report's lists that it was trained on, by their ids; None
    if it is unknown. ``own_ids``: ids name the same lists in the training and in the report.
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
    trained_share: float | None = None
    own_ids: bool = False


def origin(model: LinearModel, data: Dataset | None = None) -> Origin:
    """Read from the model file how the model was made."""
    ranker = model.parameters.get("ranker")
    defaults = {}
    if str(ranker) in RANKERS:
        defaults = json_parameters(ranker_class(str(ranker))())
    training = _training_record(model)
    trained_on = _training_files(model)
    seen: list[str] = []
    trained_share = None
    own_ids = False
    if data is not None:
        seen = [source for source in data.sources if source in trained_on]
        own_ids = bool(seen) or data.encoding is not None
        if "lists" in model.provenance:
            trained_share = known_share(str(model.provenance["lists"]), data.queries.ids)
    version = model.provenance.get("rankine")
    return Origin(
        model.digest,
        None if ranker is None else str(ranker),
        {k: v for k, v in model.parameters.items() if k not in {"ranker", "log"}},
        defaults,
        [str(spec.get("type", "")) for spec in encode_transforms(model.transforms)],
        training,
        None if version is None else str(version),
        {
            "rankine": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        training_command(model),
        seen,
        trained_share,
        own_ids,
    )


def _training_record(model: LinearModel) -> dict[str, Any]:
    record = model.provenance.get("training")
    if not isinstance(record, Mapping):
        return {}
    return dict(record)


def _training_files(model: LinearModel) -> list[str]:
    sources = _training_record(model).get("sources")
    if not isinstance(sources, list):
        return []
    return [str(source) for source in sources]


def training_command(model: LinearModel) -> str | None:
    """Return the ``rankine train`` command that made a model; None for models made elsewhere."""
    ranker = str(model.parameters.get("ranker"))
    # A ranker that is not registered here (another library's) has no command.
    try:
        # As JSON types, which the model's parameters are: a tuple is a list.
        defaults = json_parameters(ranker_class(ranker)())
    except ParameterError:
        return None
    sources = _training_files(model) or ["TRAINING_DATA"]
    arguments = ["rankine", "train", *sources, "--ranker", ranker]
    for key, value in model.parameters.items():
        if key not in defaults or value == defaults[key]:
            continue
        if key in _OPTIONS:
            arguments += [_OPTIONS[key], parameter_text(value)]
        # A mapping has no form on the command line; the columns of a log are added below.
        elif not isinstance(value, dict):
            arguments += ["--set", f"{key}={_exact(value)}"]
    arguments += _log_options(model)
    record = _training_record(model)
    for key in ("where", "split"):
        if record.get(key):
            arguments += [f"--{key}", str(record[key])]
    if model.base != 1:
        arguments += ["--base", str(model.base)]
    command = shlex.join([*arguments, "--out", "model.rankine"])
    if "--schema" in arguments:
        return f"rankine inspect MODEL --schema > {_SCHEMA_FILE} && {command}"
    return command


def _exact(value: Any) -> str:
    """Format a value so that ``--set`` reads back the same value."""
    if isinstance(value, (float, list)):
        return repr(value)
    return parameter_text(value)


def _log_options(model: LinearModel) -> list[str]:
    """Return the options of a model that reads raw columns."""
    schema = schema_of(model)
    if schema is None:
        return []
    # History features and the weights of rows have no option.
    if schema.history or schema.weight is not None:
        return ["--schema", _SCHEMA_FILE]
    # Columns that only some label formulas and propensity models read are left out for the others.
    coec = schema.label is not None and coec_formula(schema.label) is not None
    positional = any(model.parameters.get(key) for key in ("propensity", "position_offset"))
    omitted = {"crosses"}
    if not coec:
        omitted |= {"item", "search"}
        if not positional:
            omitted.add("position")
    options: list[str] = []
    for key, value in msgspec.to_builtins(schema).items():
        if key not in omitted:
            text = str(value)
            if isinstance(value, (list, tuple)):
                text = ",".join(value)
            options += [f"--{key.replace('_', '-')}", text]
    for cross in schema.crosses:
        options += ["--cross", cross]
    return options


def origin_section(made_by: Origin, command: str | None) -> Section:
    """Build the lists of provenance and parameters, and the commands to copy."""
    rows: list[tuple[str, Any]] = [("ranker", name(made_by.ranker or "unknown"))]
    if made_by.trained_with is not None:
        rows.append(("trained with", name(f"rankine {made_by.trained_with}")))
    for key, value in made_by.training.items():
        if value not in (None, [], ""):
            rows.append((key.replace("_", " "), _value(value)))
    if made_by.transforms:
        rows.append(("transforms", name(", ".join(made_by.transforms))))
    rows.append(("model digest", sentences.code(made_by.digest)))
    rows.append(("this page", ", ".join(f"{k} {v}" for k, v in made_by.versions.items())))
    body = [
        parts.card(parts.facts(rows), "Where it comes from"),
        parts.card(parts.facts(_parameters(made_by)), "Parameters"),
    ]
    if made_by.command is not None:
        body.append(parts.command("Train it again", made_by.command, captions.training_command()))
    if command is not None:
        body.append(parts.command("Make this page again", command))
    lead = captions.origin_lead()
    return Section("origin", "How it was made", _TITLE, lead, concatenate(body))


def command_section(
    command: str | None, *, lead: str = "", notes: Sequence[Markup] = ()
) -> list[Section]:
    """Build the last section of a page without a model; no section if nothing is recorded."""
    body = list(notes)
    if command is not None:
        body.append(parts.command("Make this page again", command))
    if not body:
        return []
    return [Section("origin", "How it was made", _TITLE, lead, concatenate(body))]


def _parameters(made_by: Origin) -> list[tuple[str, Any]]:
    """Return the parameters that were changed one by one, and those at their defaults together."""
    defaults = made_by.defaults
    rows: list[tuple[str, Any]] = []
    unchanged = []
    for key, value in made_by.parameters.items():
        if key in defaults and defaults[key] == value:
            unchanged.append(f"{key} = {parameter_text(value)}")
        else:
            rows.append((key, _value(value)))
    if unchanged:
        rows.append(("at their defaults", sentences.default_parameters(", ".join(unchanged))))
    return rows or [("", "none recorded")]


def _value(value: Any) -> Markup | str:
    if isinstance(value, int) and not isinstance(value, bool):
        return count(value)
    if isinstance(value, list):
        return name(", ".join(parameter_text(v) for v in value[:20]), 600)
    if isinstance(value, Mapping):
        items = list(value.items())[:20]
        return name(", ".join(f"{k}: {parameter_text(v)}" for k, v in items), 600)
    return name(parameter_text(value), 400)
