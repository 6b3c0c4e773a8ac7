"""Pair samplers: which two rows a stochastic step compares."""
