"""Scores and rankings of candidate lists, in microseconds."""

from rankine.scoring.scorer import Ranking, Scorer

__all__ = ["Ranking", "Scorer"]
