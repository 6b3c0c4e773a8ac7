"""What a partition answers, and how answers are added: by halves, in the order of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "sum_in_order"]


@dataclass(frozen=True, eq=False)
class Answer:
    """Some numbers, arrays or lists that are added part by part (lists are joined)."""

    parts: tuple[Any, ...]

    def __add__(self, other: Answer) -> Answer:
        """Sum of the parts."""
        return Answer(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))


def sum_in_order(answers: Iterable[Any]) -> Any:
    """The sum of ``kernels.linalg.tree_sum``, holding only log2 of the answers at a time.

    Like a binary counter: two neighbours that cover the same number of answers are added at once.
    An odd rest is added from the right, which is where carrying it upwards would add it.
    """
    held: list[tuple[int, Any]] = []
    for answer in answers:
        size, total = 1, answer
        while held and held[-1][0] == size:
            total = held.pop()[1] + total
            size *= 2
        held.append((size, total))
    _, total = held.pop()
    while held:
        total = held.pop()[1] + total
    return total
