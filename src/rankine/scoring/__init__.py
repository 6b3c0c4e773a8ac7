"""Score and rank lists of candidates in microseconds."""

from rankine.scoring.rows import InputIssues
from rankine.scoring.scorer import Ranking, Scorer

__all__ = ["InputIssues", "Ranking", "Scorer"]
