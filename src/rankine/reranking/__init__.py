"""Lists that follow rules: pins, boosts, filters, quotas, spacing and diversity."""

from rankine.reranking.rules import Rules

__all__ = ["Rules"]
