"""Training on a Dask cluster, as far as this version of rankine can."""

from __future__ import annotations

#: Solvers that train on partitions; their runs join the determinism trials.
SOLVERS: dict[str, tuple[str, dict]] = {}


def train(solver, rng, folder, reference):
    """Hash of one run on partitions, and how it was made."""
    raise AssertionError(solver)
