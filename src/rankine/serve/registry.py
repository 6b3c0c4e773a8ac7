"""Models by name, swapped by one reference.

A request takes the snapshot once and works with what it finds there; a reload makes a new snapshot
and never touches an old one. So no reply mixes two models.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

import msgspec

from rankine.core.errors import RankineError
from rankine.core.specs import LogColumns, encode_transforms
from rankine.model import LinearModel, ModelBundle
from rankine.scoring import InputIssues, Scorer
from rankine.serve.schemas import ModelEntry, RequestError
from rankine.transforms.drift import DriftMonitor, summary_of

#: Scorers kept per bundle; the others are built again when asked for.
MAX_TOPICS_READY = 1024
_MAX_NAMES_READY = 1 << 23
_MAX_LISTED = 10_000
_EXAMPLE_COLUMNS = 6
#: One list of so many is compared with the training.
WATCH_EVERY = 128


@dataclass(frozen=True)
class ServedScorer:
    """What one request works with from its beginning to its end.

    Attributes
    ----------
    small
        Keep the weights in a hash table: there may be thousands of such models.
    """

    name: str
    digest: str
    model: LinearModel
    small: bool | None = None

    @cached_property
    def refusing(self) -> Scorer:
        """Refuses features and columns that the model does not know."""
        return Scorer(self.model, small=self.small)

    @cached_property
    def strict(self) -> Scorer:
        """Refuses rows that lack a column, too."""
        return Scorer(self.model, strict=True, small=self.small)

    @cached_property
    def lenient(self) -> Scorer:
        """Counts what the model does not know, and takes it as zero."""
        return Scorer(self.model, unknown="zero", small=self.small)

    def prove(self) -> None:
        """Score the stored rows, and rank: what is served is right, and all of it is compiled."""
        self.refusing.self_test()
        with suppress(RankineError):  # an example is a guess
            self.refusing.rank([item.get("features") or item.get("raw") for item in self.example])

    @cached_property
    def drift_monitor(self) -> DriftMonitor | None:
        """Counts raw rows against the training, where the model remembers it."""
        spec = next((one for one in self.model.transforms if isinstance(one, LogColumns)), None)
        summary = summary_of(self.model)
        return None if spec is None or summary is None else DriftMonitor(summary, spec)

    @cached_property
    def _turns(self) -> Iterator[int]:
        return count()

    def watch(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Compare one list of raw rows in ``WATCH_EVERY`` with the training."""
        if next(self._turns) % WATCH_EVERY or self.drift_monitor is None:
            return
        # A column without a weight may hold anything: it is not read, and the list is not counted.
        with suppress(RankineError):
            scores = self.lenient.score(rows, issues=InputIssues())
            names = self.drift_monitor.summary.columns
            columns = {name: [row.get(name) for row in rows] for name in names}
            self.drift_monitor.add(columns, len(rows), scores - scores.mean())

    @cached_property
    def example(self) -> list[dict[str, Any]]:
        """Three items that the model can rank, made from its columns or the names it reads."""
        spec = next((one for one in self.model.transforms if isinstance(one, LogColumns)), None)
        names = self.refusing.required[:_EXAMPLE_COLUMNS]
        if spec is None:
            form, values = "features", {}
        else:
            form, values = "raw", _category_values(self.model, spec, names)
        return [
            {
                "id": word,
                form: {
                    name: values[name][(i + j) % len(values[name])]
                    if name in values
                    else (i * 7 + j * 3) % 5 / 2
                    for j, name in enumerate(names)
                },
            }
            for i, word in enumerate(("first", "second", "third"))
        ]


def _category_values(
    model: LinearModel, spec: LogColumns, names: Sequence[str]
) -> dict[str, list[str]]:
    """Values of the columns that are not numeric: those the model has weights for, where known."""
    numbers = {*spec.numeric, *(field.column for field in spec.binned)}
    found: dict[str, list[str]] = {name: [] for name in names if name not in numbers}
    for known in spec.one_hot:
        if known.column in found:
            found[known.column].extend(known.values[:3])
    for weight in model.weight_names[:_MAX_LISTED]:
        for term in weight.split(" x "):
            column, _, value = term.partition("=")
            if value and len(found.get(column, "123")) < 3 and value not in found[column]:
                found[column].append(value)
    return {name: values or ["text"] for name, values in found.items()}


class ServedModel:
    """One file: a model, or a bundle whose topics become scorers when they are asked for."""

    def __init__(self, name: str, model: LinearModel | ModelBundle) -> None:
        self.name = name
        self.model = model
        self.digest = model.digest
        self.loaded_at = time.time()
        self._lock = threading.Lock()
        self._topics: OrderedDict[str, ServedScorer] = OrderedDict()
        self.single: ServedScorer | None = None
        if isinstance(model, LinearModel):
            self.single = ServedScorer(name, self.digest, model)
        # Where features have names, a scorer holds them all.
        self._ready = min(MAX_TOPICS_READY, max(4, _MAX_NAMES_READY // max(1, model.n_features)))

    def target(self, topic: str | None = None) -> ServedScorer:
        """The model, or one topic of the bundle."""
        if self.single is not None:
            if topic is not None:
                raise _no_model(f"{self.name!r} is one model, not a bundle of topics")
            return self.single
        assert isinstance(self.model, ModelBundle)  # noqa: S101 - narrows the type
        if topic is None:
            raise _no_model(f"{self.name!r} is a bundle", f"Ask for {self.name}/TOPIC")
        with self._lock:
            found = self._topics.get(topic)
            if found is None:
                if topic not in self.model.topics.positions:
                    raise _no_model(f"the bundle {self.name!r} has no such topic")
                name = f"{self.name}/{topic}"
                found = ServedScorer(name, self.digest, self.model[topic], small=True)
                self._topics[topic] = found
                if len(self._topics) > self._ready:
                    self._topics.popitem(last=False)
            else:
                self._topics.move_to_end(topic)
        return found

    def entry(self, error: str | None = None, topic: str | None = None) -> ModelEntry:
        """The model's line in ``/v1/models``."""
        model = self.model
        entry = ModelEntry(
            self.name,
            "bundle" if isinstance(model, ModelBundle) else "linear",
            self.digest,
            model.n_features,
            model.nnz,
            model.base,
            model.metric,
            [str(spec["type"]) for spec in encode_transforms(model.transforms)],
            0 if isinstance(model, ModelBundle) or model.probes is None else len(model.probes.rows),
            self.loaded_at,
            reads="raw" if any(isinstance(s, LogColumns) for s in model.transforms) else "features",
            error=error,
        )
        if isinstance(model, ModelBundle) and topic is None:
            topics = list(model.topics.strings[:_MAX_LISTED])
            return msgspec.structs.replace(entry, topics=topics, topics_count=len(model))
        target = self.target(topic)
        required = target.refusing.required
        return msgspec.structs.replace(
            entry,
            name=target.name,
            nnz=target.model.nnz,
            required=list(required[:_MAX_LISTED]),
            required_count=len(required),
            example=target.example,
        )


@dataclass(frozen=True)
class Snapshot:
    """All models at one moment, and what is wrong with newer files."""

    models: Mapping[str, ServedModel] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def default(self) -> str | None:
        """The name to use where a request gives none: the only one there is."""
        return next(iter(self.models)) if len(self.models) == 1 else None


class Registry:
    """Holds the current snapshot. Reading it is one reference; writing is the reloader's."""

    def __init__(self) -> None:
        self.current = Snapshot()

    def put(self, served: ServedModel) -> None:
        """Serve a model under its name from the next request on."""
        now = self.current
        errors = {name: text for name, text in now.errors.items() if name != served.name}
        self.current = Snapshot({**now.models, served.name: served}, errors)

    def drop(self, name: str) -> None:
        """Serve a name no longer."""
        now = self.current
        models = {key: value for key, value in now.models.items() if key != name}
        errors = {key: value for key, value in now.errors.items() if key != name}
        self.current = Snapshot(models, errors)

    def report(self, name: str, error: str | None) -> None:
        """Remember what is wrong with the newest file of a name, or that nothing is."""
        errors = {key: value for key, value in self.current.errors.items() if key != name}
        if error is not None:
            errors[name] = error
        self.current = replace(self.current, errors=errors)

    def target(self, name: str | None) -> ServedScorer:
        """The model that a request names; a table is all that a name is looked up in."""
        now = self.current
        if name is None:
            name = now.default
            if name is None:
                raise _no_model("the request names no model", "See /v1/models")
        key, slash, topic = name.partition("/")
        served = now.models.get(key)
        if served is None:
            raise _no_model("no model of this name is served", "See /v1/models")
        return served.target(topic if slash else None)

    def drift_monitors(self) -> list[tuple[str, DriftMonitor]]:
        """What the models of raw logs have seen, by name."""
        singles = ((name, served.single) for name, served in self.current.models.items())
        return [(name, one.drift_monitor) for name, one in singles if one is not None and one.drift_monitor]

    def entries(self) -> list[ModelEntry]:
        """One line per name, in order; names whose first file was bad included."""
        now = self.current
        found = [served.entry(now.errors.get(name)) for name, served in now.models.items()]
        found += [
            ModelEntry(name, "none", error=text)
            for name, text in now.errors.items()
            if name not in now.models
        ]
        return sorted(found, key=lambda entry: entry.name)


def _no_model(reason: str, fix: str = "") -> RequestError:
    return RequestError(404, "no-model", reason, fix)
