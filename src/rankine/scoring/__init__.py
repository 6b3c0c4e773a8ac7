"""Scores and rankings of candidate lists, in microseconds."""

from rankine.scoring.scorer import Ranking, Scorer
from rankine.scoring.table import NamedTable

__all__ = ["NamedTable", "Ranking", "Scorer"]
