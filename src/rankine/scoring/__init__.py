"""Scores and rankings of candidate lists, in microseconds."""

from rankine.scoring.rows import Notes
from rankine.scoring.scorer import Ranking, Scorer

__all__ = ["Notes", "Ranking", "Scorer"]
