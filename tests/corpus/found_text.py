"""Text that a fuzzer once caught the reader failing on; read again by every run, for ever.

Each entry is (bytes, settings, way, packing, chunk size) as ``reliability.trials.text`` draws them.
"""

from __future__ import annotations

FOUND: list[tuple[bytes, dict, str, str, int]] = []
