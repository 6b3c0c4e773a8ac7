"""Errors, specs as data, files and texts: the lowest layer, which imports nothing of rankine."""
