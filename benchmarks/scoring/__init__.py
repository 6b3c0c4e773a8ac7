"""Latency of scoring and ranking a list of candidates."""
