"""Who runs a trial, in words that tell later whether that process is still alive.

A process id alone is not enough: it is used again. The id, the moment the process began and the
boot of the machine together are unique. All workers of a study run on one machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["alive", "own_name"]

#: Start of a process where neither /proc nor ps tells: then only this process counts as alive.
_UNKNOWN = "unknown"


def own_name() -> str:
    """Name of the running process: ``"pid boot start"``."""
    return f"{os.getpid()} {_boot()} {_start(os.getpid())}"


def alive(owner: str) -> bool:
    """Whether the process of that name still runs."""
    pid, _, rest = owner.partition(" ")
    if not pid.isdigit():
        return False
    if rest.endswith(_UNKNOWN):
        return int(pid) == os.getpid()
    return rest == f"{_boot()} {_start(int(pid))}"


def _boot() -> str:
    """Something that changes when the machine starts again."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return sys.platform


def _start(pid: int) -> str:
    """When a process began; ``"gone"`` if there is none."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # the command, in brackets, may hold spaces and brackets itself
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return "gone"
        return "gone" if fields[0] in "ZX" else fields[19]
    try:
        asked = subprocess.run(  # noqa: S603 - the id is a number
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return _UNKNOWN
    return asked.stdout.strip() or "gone"
