"""Compiled code: row and column storage, dispatch on specs, random numbers, sorting, threads."""
