"""Hyperparameter search: samplers, and what the pruner saves."""
