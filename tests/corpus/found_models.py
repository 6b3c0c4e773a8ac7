"""Model files that a fuzzer once caught the reader failing on; read again by every run."""

from __future__ import annotations

FOUND: list[bytes] = []
