"""Metrics of the server, in the format of Prometheus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rankine import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankine.scoring import InputIssues
    from rankine.serve.connection import ConnectionPool
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
        self._reloads = counter("reloads", "Model files loaded, refused or dropped.", "result")
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
        self._gauge("queue_length", "Large requests under way.").set_function(lambda: pool.queued)
        self._gauge("connections", "Open connections.").set_function(lambda: len(pool.connections))
        self._gauge("buffered_bytes", "Unfinished requests.").set_function(lambda: pool.buffered)

    def count(self, path: str, status: int) -> None:
        """Count one reply."""
        self._requests.labels(path, str(status)).inc()

    def refuse(self, limit: str) -> None:
        """Count one connection or request that exceeded a limit."""
        self._refused.labels(limit).inc()

    def reload(self, result: str) -> None:
        """Count one model file that was loaded, refused or dropped."""
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


def _resident_bytes() -> int:
    """Return the resident memory; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
