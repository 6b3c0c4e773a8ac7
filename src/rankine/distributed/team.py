"""All partitions, asked as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankine.distributed.answer import Answer
from rankine.distributed.tasks import Assignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankine.distributed.journal import Journal
    from rankine.distributed.piece import Piece
    from rankine.distributed.runners import Runner
    from rankine.distributed.tasks import Recipe

__all__ = ["Team"]


class Team:
    """Partitions that were all prepared by one recipe.

    Parameters
    ----------
    runner
        Who asks them.
    pieces
        The partitions.
    recipe
        What they become.
    journal
        Remembers sums, or gives those of an interrupted run.
    """

    def __init__(
        self,
        runner: Runner,
        pieces: Sequence[Piece],
        recipe: Recipe,
        journal: Journal | None = None,
    ) -> None:
        self.runner = runner
        self.journal = journal
        self.size = len(pieces)
        self.rounds = 0
        self._assignments = [Assignment(piece, recipe) for piece in pieces]
        self._placed: Any = None

    def total(self, question: str, *arguments: Any) -> tuple[Any, ...]:
        """The sum of all answers, added by halves in the order of partitions."""
        self.rounds += 1
        if self.journal is None:
            return self._ask(question, arguments)
        return self.journal.answer(question, arguments, lambda: self._ask(question, arguments))

    def each(self, question: str, *arguments: Any) -> list[Any]:
        """All answers, in the order of partitions."""
        answers: list[Any] = self.runner.each(self._known(), question, arguments)
        return answers

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        answer: Answer = self.runner.total(self._known(), question, arguments)
        return answer.parts

    def _known(self) -> Any:
        if self._placed is None:
            self._placed = self.runner.place(self._assignments)
        return self._placed
