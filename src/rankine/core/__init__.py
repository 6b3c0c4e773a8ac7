"""The ground floor: errors, specs as data, configuration. Imports nothing of rankine."""
