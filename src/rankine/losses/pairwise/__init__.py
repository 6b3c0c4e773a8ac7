"""Pair losses, one file each. ``rankine.losses`` imports every module of this folder."""
