"""Fork processes that a trial kills. They report their progress through a pipe."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

from reliability.harness.forked import fork


class KillableProcess:
    """A forked process that runs ``work(report)``, where ``report(bytes)`` sends its progress."""

    def __init__(self, work: Callable[[Callable[[bytes], None]], None]) -> None:
        self._read_end, write_end = os.pipe()

        def run() -> None:
            os.close(self._read_end)
            work(lambda message: os.write(write_end, message) and None)

        self.pid = fork(run)
        os.close(write_end)
        self.status: int | None = None

    def receive(self, seconds: float = 60.0) -> bytes:
        """Return the next message; empty if the process ended or sent nothing in this time."""
        ready, _, _ = select.select([self._read_end], [], [], seconds)
        return os.read(self._read_end, 65536) if ready else b""

    def kill(self) -> bool:
        """Send SIGKILL and return whether the process was still alive."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        alive = self.status is None
        if alive:
            os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitpid(self.pid, 0)[1]
        self._close()
        return alive

    def wait(self, seconds: float) -> int | None:
        """Return the exit status once the process ends; kill it and return None on a timeout."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            while self.receive(0.05):
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
                self._close()
                return status
        self.kill()
        return None

    def _close(self) -> None:
        if self._read_end >= 0:
            os.close(self._read_end)
            self._read_end = -1
