"""Numba kernels: compiled once per machine, dispatched on plain NamedTuple specs."""
