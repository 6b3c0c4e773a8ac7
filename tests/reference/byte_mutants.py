"""Edit bytes at random, for files of any format."""

from __future__ import annotations

import random

_WORDS = (b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f")


def mutate(data: bytes, rng: random.Random, most: int = 3, tail: int = 800) -> bytes:
    """Make one to ``most`` edits, half of them in the last ``tail`` bytes, where footers are."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, most)):
        size = len(changed)
        near_end = rng.random() < 0.5
        place = max(0, size - 1 - rng.randrange(tail)) if near_end else rng.randrange(size)
        kind = rng.randrange(6)
        if kind == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[place] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            changed[place : place + 4] = rng.choice(_WORDS)
        elif kind == 3:
            del changed[place : place + rng.randint(1, 16)]
        elif kind == 4:
            other = rng.randrange(size)
            changed[place : place + 8] = changed[other : other + 8]
        else:
            del changed[place:]
        changed = changed or bytearray(b"\0")
    return bytes(changed)
