"""Metrics of the server, in the format of Prometheus."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rankine import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.history.live import Receipt
    from rankine.scoring import InputIssues
    from rankine.serve.connection import ConnectionPool
    from rankine.serve.history import HistoryService
    from rankine.serve.registry import Registry


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counters, gauges and a histogram of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"rankine_{name}", text, labels, registry=self.registry)

        self._gauge("build_info", "Version of rankine.", ["version"]).labels(__version__).set(1)
        self._gauge("start_time_seconds", "Start time of the server.").set_to_current_time()
        self._gauge("resident_memory_bytes", "Resident memory of the server.").set_function(
            _resident_bytes
        )
        self._requests = counter("http_requests", "Replies by path and status.", "path", "status")
        self._refused = counter("refused", "Connections and requests above a limit.", "limit")
        self._reloads = counter("reloads", "Files loaded, refused or dropped.", "result")
        self._items = counter("items_scored", "Items scored.")
        self._unknown_features = counter(
            "unknown_features", "Features used as zero because the model does not have them."
        )
        self._unknown_columns = counter(
            "unknown_columns", "Values of raw columns that the model does not have."
        )
        self._missing_columns = counter(
            "missing_columns", "Missing values because an item lacks a column that the model reads."
        )
        self._events = counter("events", "Events and recorded lists by result.", "result")
        self._event_rows = counter("event_rows", "Rows of the lists that were shown.")
        self._snapshots = counter("snapshots", "Snapshots of history features.", "result")
        self._seconds = Histogram(
            "rankine_scoring_seconds",
            "Seconds from request to reply.",
            buckets=_BOUNDS,
            registry=self.registry,
        )

    def _gauge(self, name: str, text: str, labels: list[str] | None = None) -> Gauge:
        return Gauge(f"rankine_{name}", text, labels or [], registry=self.registry)

    def observe_state(self, models: Registry, pool: ConnectionPool) -> None:
        """Add gauges of the served models and the connections, read when metrics are requested."""
        self.registry.register(_Models(models))
        for name, lane in (("queue_length", pool.large), ("event_queue_length", pool.events)):
            gauge = self._gauge(name, "Requests under way in a thread.")
            gauge.set_function(partial(getattr, lane, "queued"))
        self._gauge("connections", "Open connections.").set_function(lambda: len(pool.connections))
        self._gauge("buffered_bytes", "Unfinished requests.").set_function(lambda: pool.buffered)

    def observe_history(self, service: HistoryService) -> None:
        """Add metrics of the state of history features."""
        self.registry.register(_History(service))

    def count_events(self, receipt: Receipt) -> None:
        """Count the events of one request."""
        for result in ("accepted", "duplicates", "unmatched"):
            self._events.labels(result).inc(getattr(receipt, result))
        self._event_rows.inc(receipt.rows)

    def count_snapshot(self, *, succeeded: bool) -> None:
        """Count one snapshot."""
        self._snapshots.labels("written" if succeeded else "failed").inc()

    def count(self, path: str, status: int) -> None:
        """Count one reply."""
        self._requests.labels(path, str(status)).inc()

    def refuse(self, limit: str) -> None:
        """Count one connection or request that exceeded a limit."""
        self._refused.labels(limit).inc()

    def reload(self, result: str) -> None:
        """Count one file, of a model or a state, that was loaded, refused or dropped."""
        self._reloads.labels(result).inc()

    def observe(self, seconds: float, items: int, issues: InputIssues | None) -> None:
        """Record one scoring request: time, scored items, unknown and missing columns."""
        self._seconds.observe(seconds)
        self._items.inc(items)
        if issues is None:
            return
        self._unknown_features.inc(issues.unknown_features)
        self._unknown_columns.inc(issues.unknown_columns.total())
        self._missing_columns.inc(issues.missing_columns.total())

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Models(prometheus_client.registry.Collector):
    """Collects metrics of served models, and of names whose newest file is not served."""

    def __init__(self, models: Registry) -> None:
        self.models = models

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the current snapshot."""
        info = GaugeMetricFamily(
            "rankine_model_info", "Served models.", labels=["model", "kind", "digest"]
        )
        error = GaugeMetricFamily(
            "rankine_model_error",
            "1 if the newest file of a model is not served.",
            labels=["model"],
        )
        for entry in self.models.entries():
            if entry.digest is not None:
                info.add_metric([entry.name, entry.kind, entry.digest], 1)
            error.add_metric([entry.name], int(entry.error is not None))
        yield from (info, error)
        yield from self._drift()

    def _drift(self) -> Iterator[Metric]:
        """Yield metrics of the lists that were compared with the training data."""
        help_texts = {
            "watched_rows": "Rows compared with the training data (one list in 128).",
            "column_missing": "Missing values among them.",
            "column_unseen": "Values among them that the training data did not contain.",
        }
        labels = {"watched_rows": ["model"]}
        counters = {
            name: CounterMetricFamily(
                f"rankine_{name}", text, labels=labels.get(name, ["model", "column"])
            )
            for name, text in help_texts.items()
        }
        psi = GaugeMetricFamily(
            "rankine_psi",
            "Population stability index of a column, or of the scores, against the training data.",
            labels=["model", "column"],
        )
        for name, drift_monitor in self.models.drift_monitors():
            counters["watched_rows"].add_metric([name], drift_monitor.rows)
            for column, (missing, unseen) in drift_monitor.counters().items():
                counters["column_missing"].add_metric([name, column], missing)
                counters["column_unseen"].add_metric([name, column], unseen)
            if drift_monitor.rows:
                for drift in drift_monitor.drift():
                    psi.add_metric([name, drift.column or "(scores)"], drift.psi)
        yield from (*counters.values(), psi)


class _History(prometheus_client.registry.Collector):
    """Collects metrics of the state of history features."""

    def __init__(self, service: HistoryService) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        """Yield size, age and losses of the state."""
        live = self.service.live
        if live is None:
            return
        state = live.state
        keys = GaugeMetricFamily("rankine_history_keys", "Keys by feature.", labels=["feature"])
        evicted = CounterMetricFamily(
            "rankine_history_evicted_keys", "Keys removed by --max-keys.", labels=["feature"]
        )
        for name, count in state.n_keys.items():
            keys.add_metric([name], count)
            evicted.add_metric([name], state.n_evicted[name])
        late = CounterMetricFamily(
            "rankine_history_late", "Lists and outcomes that came late.", labels=["kind"]
        )
        late.add_metric(["list"], state.counts.late)
        late.add_metric(["outcome"], live.late)
        yield from (keys, evicted, late)
        for name, text, value in (
            ("bytes", "Memory of the tables and of waiting rows.", live.n_bytes),
            (
                "lists_waiting",
                "Lists that are not visible yet, or may get outcomes.",
                live.n_waiting,
            ),
            ("last_event_seconds", "Latest time of an event.", (live.last_event or 0) / 10**6),
        ):
            yield GaugeMetricFamily(f"rankine_history_{name}", text, value)


def _resident_bytes() -> int:
    """Return the resident memory; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
