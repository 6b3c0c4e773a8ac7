"""Collect the figures of a run as one JSON object."""

from __future__ import annotations

import os
import platform
import time

import rankine
from rankine.kernels.sources import source_digest
from reliability.harness.outcome import FAULTS, Outcome
from reliability.harness.plan import KINDS


class Report:
    """The outcomes of a run, added up by kind of trial."""

    def __init__(self, size: str, seed: int, workers: int) -> None:
        self._start = time.monotonic()
        self._run = {
            "rankine": rankine.__version__,
            "source": source_digest(),
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "size": size,
            "seed": seed,
            "workers": workers,
        }
        self._kinds: dict[str, tuple[Outcome, float]] = {}
        self._earlier_seconds = 0.0

    def keep_earlier(self, earlier: dict, chosen: list[str]) -> None:
        """Take the figures of an earlier run for the kinds that are not tried again."""
        if (earlier["size"], earlier["seed"]) != (self._run["size"], self._run["seed"]):
            raise SystemExit("--update: the figures in --out are of another size or seed")
        self._earlier_seconds = earlier["seconds"]
        for kind, figures in earlier["kinds"].items():
            if kind not in chosen:
                self._kinds[kind] = (Outcome.from_json(figures), figures["cpu_seconds"])

    def add(self, kind: str, outcome: Outcome, cpu_seconds: float) -> None:
        """Add the outcome of a batch."""
        total, seconds = self._kinds.setdefault(kind, (Outcome(), 0.0))
        total.add(outcome)
        self._kinds[kind] = (total, seconds + cpu_seconds)

    @property
    def failed(self) -> bool:
        """Whether any fault was counted."""
        return any(outcome.faults for outcome, _ in self._kinds.values())

    def to_json(self) -> dict:
        """Return all figures as JSON data."""
        kinds = {}
        for name, kind in KINDS.items():
            if name in self._kinds:
                outcome, seconds = self._kinds[name]
                figures = {"group": kind.group, **outcome.to_json()}
                kinds[name] = {**figures, "cpu_seconds": round(seconds, 1)}
        groups: dict[str, dict] = {}
        for figures in kinds.values():
            group = groups.setdefault(figures["group"], {"cases": 0, **dict.fromkeys(FAULTS, 0)})
            group["cases"] += figures["cases"]
            for fault, count in figures["faults"].items():
                group[fault] += count
        seconds = self._earlier_seconds + time.monotonic() - self._start
        return {
            **self._run,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(sum(figures["cpu_seconds"] for figures in kinds.values()), 1),
            "groups": groups,
            "kinds": kinds,
        }
