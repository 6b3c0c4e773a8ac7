"""What came of a batch of trials: how many were made, and what went wrong in which of them."""

from __future__ import annotations

import random
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: What may go wrong. Each is a count of cases, and each must be 0.
FAULTS = {
    "crashes": "the process died, or raised something that is no error of rankine's",
    "hangs": "no end within the time allowed",
    "accepted": "bad input was taken without a word",
    "misread": "good input was refused, or read as other numbers",
    "misplaced": "refused, but at another line or without a place or a fix",
    "torn": "a file is neither the old one nor the new one",
    "lost": "something acknowledged is gone",
    "unequal": "not the same bits, where they must be the same",
    "litter": "a temporary file was left behind",
    "slow": "a client waited longer than promised",
}
_KEPT = 10


def peak_mb() -> float:
    """Megabytes that this process has held at most; a forked one begins with its parent's."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass
class Outcome:
    """Cases tried, faults counted, other facts, and the first failures in words."""

    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    facts: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def fail(self, fault: str, story: str) -> None:
        """Count a fault and tell it."""
        assert fault in FAULTS, fault
        self.counts[fault] += 1
        self.failures.append(f"{fault}: {story}"[:2000])

    def require(self, good: object, fault: str, story: str) -> None:
        """Count a fault unless ``good``."""
        if not good:
            self.fail(fault, story)

    def peak(self, name: str, value: float) -> None:
        """Keep the largest value of a fact."""
        self.facts[name] = max(self.facts.get(name, value), value)

    def add(self, other: Outcome) -> None:
        """Take another batch's figures in."""
        self.cases += other.cases
        self.counts.update(other.counts)
        for name, value in other.facts.items():
            self.peak(name, value)
        self.failures = (self.failures + other.failures)[:_KEPT]

    @property
    def faults(self) -> dict[str, int]:
        """Faults that happened."""
        return {name: self.counts[name] for name in FAULTS if self.counts[name]}

    def plain(self) -> dict:
        """Everything as JSON data."""
        others = {name: n for name, n in sorted(self.counts.items()) if name not in FAULTS}
        return {
            "cases": self.cases,
            "faults": {name: self.counts[name] for name in FAULTS},
            "outcomes": others,
            "facts": {name: round(value, 3) for name, value in sorted(self.facts.items())},
            "failures": self.failures[:_KEPT],
        }

    @classmethod
    def from_plain(cls, data: dict) -> Outcome:
        """The inverse of ``plain``."""
        counts = Counter({**data["outcomes"], **data["faults"]})
        return cls(data["cases"], counts, dict(data["facts"]), list(data["failures"]))


@dataclass
class Job:
    """One batch of one kind: cases ``first`` to ``first + count - 1`` of a seed."""

    kind: str
    seed: int
    first: int
    count: int
    folder: Path
    beat: Callable[[int], None] = lambda _case: None

    def cases(self, outcome: Outcome):
        """Number and chance of every case; each is drawn from the seed and its number alone."""
        for case in range(self.first, self.first + self.count):
            self.beat(case)
            yield case, random.Random(f"{self.seed}/{self.kind}/{case}")
            outcome.cases += 1

    def name(self, case: int) -> str:
        """How to make a case again."""
        return f"{self.kind} seed {self.seed} case {case}"
