"""Solvers: a Python outer loop around compiled inner loops."""
