"""Processes to be killed: forked, with a pipe on which they give signs of life."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

from reliability.harness.forked import fork


class Victim:
    """A forked process that runs ``work(say)``; ``say(bytes)`` is a sign of life."""

    def __init__(self, work: Callable[[Callable[[bytes], None]], None]) -> None:
        self._ear, mouth = os.pipe()

        def live() -> None:
            os.close(self._ear)
            work(lambda text: os.write(mouth, text) and None)

        self.pid = fork(live)
        os.close(mouth)
        self.status: int | None = None

    def hear(self, seconds: float = 60.0) -> bytes:
        """What it says next; empty when it ended or said nothing for so long."""
        ready, _, _ = select.select([self._ear], [], [], seconds)
        return os.read(self._ear, 65536) if ready else b""

    def kill(self) -> bool:
        """SIGKILL; whether it was still alive."""
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

    def finish(self, seconds: float) -> int | None:
        """Exit status once it ends by itself; None (and a kill) when that takes too long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while self.hear(0.05):
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
                self._close()
                return status
        self.kill()
        return None

    def _close(self) -> None:
        if self._ear >= 0:
            os.close(self._ear)
            self._ear = -1
