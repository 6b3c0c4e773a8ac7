"""Record the result of a batch of trials: the cases tried, and what went wrong in which of them."""

from __future__ import annotations

import random
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Kinds of faults. Each is a count of cases, and each must be 0.
FAULTS = {
    "crashes": "the process died or raised an error that is not rankine's",
    "hangs": "the trial did not end within its time limit",
    "accepted": "invalid input was accepted without an error",
    "misread": "valid input was refused or read as other numbers",
    "misplaced": "the error names another line, no location or no fix",
    "torn": "a file is neither the old version nor the new one",
    "lost": "something that was acknowledged is gone",
    "unequal": "results differ that must be equal",
    "litter": "a temporary file was left behind",
    "slow": "a client waited longer than promised",
}
_N_FAILURES_KEPT = 10


def peak_mb() -> float:
    """Return the peak memory of this process in MB. A forked process starts with its parent's."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass
class Outcome:
    """Cases tried, counts of faults and of results, measurements, and the first failures."""

    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    measurements: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def fail(self, fault: str, description: str) -> None:
        """Count a fault and keep its description."""
        assert fault in FAULTS, fault
        self.counts[fault] += 1
        self.failures.append(f"{fault}: {description}"[:2000])

    def require(self, condition: object, fault: str, description: str) -> None:
        """Count a fault unless ``condition`` is true."""
        if not condition:
            self.fail(fault, description)

    def keep_maximum(self, name: str, value: float) -> None:
        """Keep the largest value of a measurement."""
        self.measurements[name] = max(self.measurements.get(name, value), value)

    def add(self, other: Outcome) -> None:
        """Add the figures of another batch."""
        self.cases += other.cases
        self.counts.update(other.counts)
        for name, value in other.measurements.items():
            self.keep_maximum(name, value)
        self.failures = (self.failures + other.failures)[:_N_FAILURES_KEPT]

    @property
    def faults(self) -> dict[str, int]:
        """Counts of the faults that happened."""
        return {name: self.counts[name] for name in FAULTS if self.counts[name]}

    def to_json(self) -> dict:
        """Return everything as JSON data."""
        outcomes = {name: n for name, n in sorted(self.counts.items()) if name not in FAULTS}
        measurements = {name: round(value, 3) for name, value in sorted(self.measurements.items())}
        return {
            "cases": self.cases,
            "faults": {name: self.counts[name] for name in FAULTS},
            "outcomes": outcomes,
            "measurements": measurements,
            "failures": self.failures[:_N_FAILURES_KEPT],
        }

    @classmethod
    def from_json(cls, data: dict) -> Outcome:
        """Build an outcome from the data of ``to_json``."""
        counts = Counter({**data["outcomes"], **data["faults"]})
        return cls(data["cases"], counts, dict(data["measurements"]), list(data["failures"]))


@dataclass
class Job:
    """One batch of one kind of trial: cases ``first`` to ``first + count - 1`` of a seed."""

    kind: str
    seed: int
    first: int
    count: int
    folder: Path
    #: Tells the parent process which case begins.
    report_case: Callable[[int], None] = lambda _case: None

    def cases(self, outcome: Outcome) -> Iterator[tuple[int, random.Random]]:
        """Yield the number and random generator of each case.

        The generator is seeded by the seed, the kind and the number alone, so that every case can
        be repeated by itself.
        """
        for case in range(self.first, self.first + self.count):
            self.report_case(case)
            yield case, random.Random(f"{self.seed}/{self.kind}/{case}")
            outcome.cases += 1

    def name(self, case: int) -> str:
        """Return what identifies a case, for repeating it."""
        return f"{self.kind} seed {self.seed} case {case}"
