"""The figures of a run, as one JSON object."""

from __future__ import annotations

import os
import platform
import time

import rankine
from rankine.kernels.sources import source_digest
from reliability.harness.outcome import FAULTS, Outcome
from reliability.harness.plan import KINDS


class Report:
    """Collects outcomes by kind."""

    def __init__(self, size: str, seed: int, workers: int) -> None:
        self._began = time.monotonic()
        self._about = {
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
        self._earlier = 0.0

    def keep(self, before: dict, chosen: list[str]) -> None:
        """Take over the figures of an earlier run for the kinds that are not tried again."""
        if (before["size"], before["seed"]) != (self._about["size"], self._about["seed"]):
            raise SystemExit("the figures to update are of another size or seed")
        self._earlier = before["seconds"]
        for kind, one in before["kinds"].items():
            if kind not in chosen:
                self._kinds[kind] = (Outcome.from_plain(one), one["cpu_seconds"])

    def add(self, kind: str, outcome: Outcome, cpu_seconds: float) -> None:
        """Take a batch in."""
        total, seconds = self._kinds.setdefault(kind, (Outcome(), 0.0))
        total.add(outcome)
        self._kinds[kind] = (total, seconds + cpu_seconds)

    @property
    def broken(self) -> dict[str, list[str]]:
        """Kind -> failures in words."""
        return {kind: one.failures for kind, (one, _) in self._kinds.items() if one.faults}

    def plain(self) -> dict:
        """Everything."""
        kinds = {}
        for name in KINDS:
            if name not in self._kinds:
                continue
            outcome, seconds = self._kinds[name]
            about = {"what": KINDS[name].what, "group": KINDS[name].group}
            kinds[name] = {**about, **outcome.plain(), "cpu_seconds": round(seconds, 1)}
        groups: dict[str, dict] = {}
        for one in kinds.values():
            group = groups.setdefault(one["group"], {"cases": 0, **dict.fromkeys(FAULTS, 0)})
            group["cases"] += one["cases"]
            for fault, count in one["faults"].items():
                group[fault] += count
        return {
            **self._about,
            "seconds": round(self._earlier + time.monotonic() - self._began, 1),
            "cpu_seconds": round(sum(one["cpu_seconds"] for one in kinds.values()), 1),
            "groups": groups,
            "kinds": kinds,
        }
