"""Compare rankers: tests, cross-validation, protocols, log-based evaluation, and fusion."""
