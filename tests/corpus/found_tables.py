"""Damage to table files that a fuzzer once caught the readers taking; tried again by every run.

Each is (suffix of a file that `reliability.trials.tables` writes, bytes, bytes that take their
place, which occurrence). Only a copy of what the file says elsewhere is damaged.
"""

from __future__ import annotations

FOUND: list[tuple[str, bytes, bytes, int]] = [
    # The footer's schema renames a column, the row groups do not: the weights became a feature.
    ("parquet", b"weight", b"we\0\0\0\0", 0),
    # The schema at the end of the file renames a column, the one at its start does not.
    ("arrow", b"indices", b"ildices", -1),
    ("arrow", b"values", b"valueS", -1),
]


def damaged(data: bytes, old: bytes, new: bytes, occurrence: int) -> bytes:
    """The file with one occurrence of some bytes replaced by others as long."""
    places = [at for at in range(len(data)) if data.startswith(old, at)]
    at = places[occurrence]
    return data[:at] + new + data[at + len(old) :]
