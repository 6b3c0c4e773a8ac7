"""The models that are served, by name.

A request reads the current snapshot once and uses only that. A reload creates a new snapshot and
never changes an old one, so no reply mixes two models.
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
import numpy as np

from rankine.core.errors import RankineError
from rankine.core.specs import LogColumns, encode_transforms
from rankine.history.live import LiveHistory
from rankine.model import LinearModel, ModelBundle
from rankine.reranking import Rules
from rankine.scoring import InputIssues, Scorer
from rankine.serve.schemas import ModelEntry, RequestError
from rankine.transforms.drift import DriftMonitor, summary_of

#: Scorers kept per bundle; those of other topics are built when they are requested.
MAX_TOPICS_READY = 1024
#: Feature names that the scorers of one bundle may hold together.
_MAX_NAMES_READY = 1 << 23
#: Names listed in a reply.
_MAX_LISTED = 10_000
_EXAMPLE_COLUMNS = 6
_EXAMPLE_VALUES = 3
#: One of this many lists is compared with the training data.
WATCH_EVERY = 128
#: A model's rules are in the file of this name beside it.
RULES_SUFFIX = ".rules.toml"


@dataclass(frozen=True)
class ServedScorer:
    """The scorers of one model; a request uses the same object from start to end.

    Attributes
    ----------
    small
        Whether to keep the weights in a hash table, because there may be thousands of such models.
    live
        State that the history features of raw items are computed from, if the model has any.
    """

    name: str
    digest: str
    model: LinearModel
    small: bool | None = None
    live: LiveHistory | None = None

    @cached_property
    def refusing(self) -> Scorer:
        """Scorer that refuses features and columns that the model does not have."""
        return Scorer(self.model, small=self.small)

    @cached_property
    def strict(self) -> Scorer:
        """Scorer that also refuses rows without a column that the model reads."""
        return Scorer(self.model, strict=True, small=self.small)

    @cached_property
    def lenient(self) -> Scorer:
        """Scorer that counts unknown features and columns, and scores them as zero."""
        return Scorer(self.model, unknown="zero", small=self.small)

    def self_test(self) -> None:
        """Check the scores stored in the model, and compile everything that requests need."""
        self.refusing.self_test()
        if self.model.calibration is not None:
            self.refusing.probabilities(np.zeros(2))
        # Ranking the example compiles the kernels. Its values are invented, so it may be refused.
        with suppress(RankineError):
            self.refusing.rank([item.get("features") or item.get("raw") for item in self.example])

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Columns that requests must have: history features are replaced by their keys."""
        names = self.refusing.required
        if self.live is None:
            return names
        computed = self.live.history.names
        keys = self.live.state.reader.key_columns
        return tuple(dict.fromkeys([*(name for name in names if name not in computed), *keys]))

    @cached_property
    def _log_columns(self) -> LogColumns | None:
        """The transform that reads raw columns; None for a model of features."""
        for transform in self.model.transforms:
            if isinstance(transform, LogColumns):
                return transform
        return None

    @cached_property
    def item_column(self) -> str | None:
        """Column of the item in the schema of the training log; None without one."""
        schema = self.model.parameters.get("log")
        return schema.get("item") if isinstance(schema, Mapping) else None

    @cached_property
    def drift_monitor(self) -> DriftMonitor | None:
        """Monitor of raw rows; None if the model has no summary of its training data."""
        summary = summary_of(self.model)
        if self._log_columns is None or summary is None:
            return None
        return DriftMonitor(summary, self._log_columns)

    @cached_property
    def _list_numbers(self) -> Iterator[int]:
        # Advancing itertools.count is atomic: the event loop and the thread both do it.
        return count()

    def monitor_drift(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Compare one list of raw rows in ``WATCH_EVERY`` with the training data."""
        if next(self._list_numbers) % WATCH_EVERY or self.drift_monitor is None:
            return
        # Scores do not read columns whose weight is zero, so these may contain any value. A list
        # with a value that cannot be compared is left out.
        with suppress(RankineError):
            scores = self.lenient.score(rows, issues=InputIssues())
            names = self.drift_monitor.summary.columns
            columns = {name: [row.get(name) for row in rows] for name in names}
            self.drift_monitor.add(columns, len(rows), scores - scores.mean())

    @cached_property
    def example(self) -> list[dict[str, Any]]:
        """Three invented items in the form that the model reads."""
        names = self.required[:_EXAMPLE_COLUMNS]
        form, values = "features", {}
        if self._log_columns is not None:
            form, values = "raw", _category_values(self.model, self._log_columns, names)
        items = []
        for i, item_id in enumerate(("first", "second", "third")):
            item: dict[str, Any] = {}
            for j, name in enumerate(names):
                if name in values:
                    # Other values in each item, so that the scores of the example differ.
                    item[name] = values[name][(i + j) % len(values[name])]
                else:
                    item[name] = (i * 7 + j * 3) % 5 / 2
            items.append({"id": item_id, form: item})
        return items


def _category_values(
    model: LinearModel, log_columns: LogColumns, names: Sequence[str]
) -> dict[str, list[str]]:
    """Return values of the columns that are not numeric, preferably those with weights."""
    numeric = {*log_columns.numeric, *(binned.column for binned in log_columns.binned)}
    values: dict[str, list[str]] = {name: [] for name in names if name not in numeric}
    for one_hot in log_columns.one_hot:
        if one_hot.column in values:
            values[one_hot.column].extend(one_hot.values[:_EXAMPLE_VALUES])
    # Weights of hashed columns are named column=value, those of crosses a=x x b=y.
    for weight_name in model.weight_names[:_MAX_LISTED]:
        for term in weight_name.split(" x "):
            column, _, value = term.partition("=")
            known_values = values.get(column)
            if not value or known_values is None or value in known_values:
                continue
            if len(known_values) < _EXAMPLE_VALUES:
                known_values.append(value)
    return {name: column_values or ["text"] for name, column_values in values.items()}


class ServedModel:
    """One file: a model, or a bundle whose topics get scorers when they are requested."""

    def __init__(
        self, name: str, model: LinearModel | ModelBundle, live: LiveHistory | None = None
    ) -> None:
        self.name = name
        self.model = model
        self.live = live
        self.digest = model.digest
        self.loaded_at = time.time()
        self._lock = threading.Lock()
        self._topics: OrderedDict[str, ServedScorer] = OrderedDict()
        self.single: ServedScorer | None = None
        if isinstance(model, LinearModel):
            self.single = ServedScorer(name, self.digest, model, live=live)
        # A scorer of named features holds all names, so fewer of them fit in memory.
        n_fitting = max(4, _MAX_NAMES_READY // max(1, model.n_features))
        self._max_topics = min(MAX_TOPICS_READY, n_fitting)

    def scorer(self, topic: str | None = None) -> ServedScorer:
        """Return the scorers of the model, or of one topic of the bundle."""
        if self.single is not None:
            if topic is not None:
                raise _no_model(f"{self.name!r} is one model, not a bundle of topics")
            return self.single
        assert isinstance(self.model, ModelBundle)  # noqa: S101 - narrows the type
        if topic is None:
            raise _no_model(f"{self.name!r} is a bundle", f"Name a topic: {self.name}/TOPIC")
        # Two requests for one topic at a time would build its scorer twice.
        with self._lock:
            if topic in self._topics:
                self._topics.move_to_end(topic)
                return self._topics[topic]
            if topic not in self.model.topics.positions:
                raise _no_model(f"the bundle {self.name!r} has no such topic")
            name = f"{self.name}/{topic}"
            scorer = ServedScorer(name, self.digest, self.model[topic], True, self.live)
            self._topics[topic] = scorer
            if len(self._topics) > self._max_topics:
                self._topics.popitem(last=False)
            return scorer

    def entry(self, error: str | None = None, topic: str | None = None) -> ModelEntry:
        """Return the description of the model in ``/v1/models``."""
        model = self.model
        is_bundle = isinstance(model, ModelBundle)
        reads_raw = any(isinstance(spec, LogColumns) for spec in model.transforms)
        n_probes = 0
        if isinstance(model, LinearModel) and model.probes is not None:
            n_probes = len(model.probes.rows)
        entry = ModelEntry(
            name=self.name,
            kind="bundle" if is_bundle else "linear",
            digest=self.digest,
            n_features=model.n_features,
            nnz=model.nnz,
            base=model.base,
            metric=model.metric,
            transforms=[str(spec["type"]) for spec in encode_transforms(model.transforms)],
            probes=n_probes,
            loaded_at=self.loaded_at,
            reads="raw" if reads_raw else "features",
            error=error,
        )
        if isinstance(model, ModelBundle) and topic is None:
            topics = list(model.topics.strings[:_MAX_LISTED])
            return msgspec.structs.replace(entry, topics=topics, topics_count=len(model))
        scorer = self.scorer(topic)
        required = scorer.required
        return msgspec.structs.replace(
            entry,
            name=scorer.name,
            nnz=scorer.model.nnz,
            required=list(required[:_MAX_LISTED]),
            required_count=len(required),
            example=scorer.example,
        )


@dataclass(frozen=True)
class Snapshot:
    """All models at one moment, their rules, and errors of files that could not be loaded.

    All are by the name of the model; errors of rules are under the name of their file.
    """

    models: Mapping[str, ServedModel] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, Rules] = field(default_factory=dict)

    def entry(self, name: str, topic: str | None = None) -> ModelEntry:
        """Return the description of a model in ``/v1/models``."""
        entry = self.models[name].entry(self.errors.get(name), topic)
        if name in self.rules:
            entry = msgspec.structs.replace(entry, rules=list(self.rules[name].names))
        return entry

    @property
    def default(self) -> str | None:
        """Name of the only model; None if there are several, or none."""
        return next(iter(self.models)) if len(self.models) == 1 else None


class Registry:
    """Holds the current snapshot. Requests read it; only the reloader replaces it."""

    def __init__(self) -> None:
        self.current = Snapshot()

    def put(self, served: ServedModel) -> None:
        """Serve a model under its name from the next request on."""
        models = {**self.current.models, served.name: served}
        # Built first and assigned once: a request sees the old snapshot or the new one.
        errors = _without(self.current.errors, served.name)
        self.current = replace(self.current, models=models, errors=errors)

    def drop(self, name: str) -> None:
        """Stop serving a name."""
        snapshot = self.current
        models, errors = _without(snapshot.models, name), _without(snapshot.errors, name)
        self.current = replace(snapshot, models=models, errors=errors)

    def put_rules(self, name: str, rules: Rules | None) -> None:
        """Let the lists of a model follow rules from the next request on; None: no longer."""
        all_rules = _without(self.current.rules, name)
        if rules is not None:
            all_rules[name] = rules
        errors = _without(self.current.errors, name + RULES_SUFFIX)
        self.current = replace(self.current, rules=all_rules, errors=errors)

    def rules_of(self, served: ServedScorer) -> Rules | None:
        """Return the rules of a model's file, or of the bundle that contains it."""
        return self.current.rules.get(served.name.partition("/")[0])

    def report(self, name: str, error: str | None) -> None:
        """Set or clear the error of the newest file of a name."""
        errors = _without(self.current.errors, name)
        if error is not None:
            errors[name] = error
        self.current = replace(self.current, errors=errors)

    def find(self, name: str | None) -> ServedScorer:
        """Return the scorers of the model, or ``bundle/topic``, that a request names."""
        snapshot = self.current
        if name is None:
            name = snapshot.default
            if name is None:
                raise _no_model("the request names no model", "See /v1/models")
        model_name, slash, topic = name.partition("/")
        served = snapshot.models.get(model_name)
        if served is None:
            raise _no_model("no model of this name is served", "See /v1/models")
        return served.scorer(topic if slash else None)

    def drift_monitors(self) -> list[tuple[str, DriftMonitor]]:
        """Return the drift monitors of models of raw logs, by name."""
        monitors = []
        for name, served in self.current.models.items():
            if served.single is not None and served.single.drift_monitor is not None:
                monitors.append((name, served.single.drift_monitor))
        return monitors

    def entries(self) -> list[ModelEntry]:
        """Return one entry per name in order, also for names whose only file is bad."""
        snapshot = self.current
        entries = [snapshot.entry(name) for name in snapshot.models]
        for name, error in snapshot.errors.items():
            if name not in snapshot.models:
                # A file that never loaded must be visible to the one who deployed it.
                entries.append(ModelEntry(name, "none", error=error))
        return sorted(entries, key=lambda entry: entry.name)


def _without(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}


def _no_model(reason: str, fix: str = "") -> RequestError:
    return RequestError(404, "no-model", reason, fix)
