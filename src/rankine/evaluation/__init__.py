"""Judging rankings: comparisons, cross-validation, the LETOR protocol, TREC files."""
