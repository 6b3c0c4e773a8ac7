"""Counters and a histogram, in Prometheus' text format."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rankine import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rankine.serve.pool import Pool
    from rankine.serve.registry import Registry

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Metrics:
    """What the server counts; written by the event loop only, apart from reloads."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.refused: Counter[str] = Counter()
        self.reloads: Counter[str] = Counter()
        self.items = 0
        self.unknown_features = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(_BOUNDS) + 1)

    def count(self, path: str, status: int) -> None:
        """One reply."""
        self.requests[path, status] += 1

    def refuse(self, kind: str) -> None:
        """One connection or request that met a limit."""
        self.refused[kind] += 1

    def observe(self, seconds: float, items: int) -> None:
        """One scoring request: time in the application and items scored."""
        self.seconds += seconds
        self.items += items
        self.buckets[bisect_left(_BOUNDS, seconds)] += 1

    def text(self, registry: Registry, pool: Pool) -> str:
        """All metrics."""
        return "\n".join([*self._lines(registry, pool), ""])

    def _lines(self, registry: Registry, pool: Pool) -> Iterator[str]:
        def family(name: str, kind: str, about: str, samples: Iterable[str]) -> Iterator[str]:
            yield f"# HELP rankine_{name} {about}"
            yield f"# TYPE rankine_{name} {kind}"
            for sample in samples:
                yield f"rankine_{sample}"

        def single(name: str, kind: str, about: str, value: float) -> Iterator[str]:
            yield from family(name, kind, about, [f"{name} {value!r}"])

        yield from family(
            "build_info", "gauge", "Version.", [f"build_info{_labels(version=__version__)} 1"]
        )
        yield from family(
            "http_requests_total",
            "counter",
            "Replies by path and status.",
            [
                f"http_requests_total{_labels(path=path, status=str(status))} {n}"
                for (path, status), n in sorted(self.requests.items())
            ],
        )
        yield from family(
            "refused_total",
            "counter",
            "Connections and requests that met a limit.",
            [f"refused_total{_labels(limit=k)} {n}" for k, n in sorted(self.refused.items())],
        )
        yield from family(
            "scoring_seconds", "histogram", "Time from request to reply.", self._histogram()
        )
        yield from single("items_scored_total", "counter", "Items scored.", self.items)
        yield from single(
            "unknown_features_total",
            "counter",
            "Features taken as zero because the model does not know them.",
            self.unknown_features,
        )
        yield from single("queue_length", "gauge", "Requests under way.", pool.gate.inside)
        yield from single("connections", "gauge", "Open connections.", len(pool.connections))
        yield from single("buffered_bytes", "gauge", "Unfinished requests.", pool.buffered)
        yield from family(
            "reloads_total",
            "counter",
            "Model files taken or refused.",
            [f"reloads_total{_labels(result=k)} {n}" for k, n in sorted(self.reloads.items())],
        )
        entries = registry.entries()
        yield from family(
            "model_info",
            "gauge",
            "Models served.",
            [
                f"model_info{_labels(model=e.name, kind=e.kind, digest=e.digest)} 1"
                for e in entries
                if e.digest is not None
            ],
        )
        yield from family(
            "model_error",
            "gauge",
            "1 where the newest file of a model is not served.",
            [f"model_error{_labels(model=e.name)} {int(e.error is not None)}" for e in entries],
        )
        yield from single("start_time_seconds", "gauge", "Start of the server.", self.started)
        yield from single("resident_memory_bytes", "gauge", "Memory.", _resident_bytes())

    def _histogram(self) -> Iterator[str]:
        total = 0
        for bound, n in zip((*map(str, _BOUNDS), "+Inf"), self.buckets, strict=True):
            total += n
            yield f"scoring_seconds_bucket{_labels(le=bound)} {total}"
        yield f"scoring_seconds_sum {self.seconds!r}"
        yield f"scoring_seconds_count {total}"


def _labels(**values: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _resident_bytes() -> int:
    """Memory in use; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
