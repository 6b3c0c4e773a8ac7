"""All connections together: caps, bytes in memory, deadlines, and the stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from rankine.serve.limits import Gate, Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rankine.serve.metrics import Metrics
    from rankine.serve.protocol import Connection

__all__ = ["Pool"]

#: Deadlines are kept to this precision: one look at every connection is cheaper than a timer each.
SWEEP_SECONDS = 0.2
_INBOX_BYTES = 256 * 1024


class Pool:
    """What the connections of one server share."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self.gate = Gate(limits.queue)
        self.connections: set[Connection] = set()
        self.per_address: Counter[str] = Counter()
        self.buffered = 0
        self.inbox = memoryview(bytearray(_INBOX_BYTES))
        self.stopping = False

    def admit(self, connection: Connection) -> bool:
        """Register a connection if it fits under the caps."""
        limits = self.limits
        if (
            len(self.connections) >= limits.connections
            or self.per_address[connection.address] >= limits.connections_per_address
        ):
            return False
        self.connections.add(connection)
        self.per_address[connection.address] += 1
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that was admitted."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self.per_address[connection.address] -= 1
        if self.per_address[connection.address] <= 0:
            del self.per_address[connection.address]

    def sweep(self, now: float) -> None:
        """Close every connection whose deadline has passed."""
        for connection in [c for c in self.connections if now >= c.deadline]:
            connection.expire()

    @contextlib.asynccontextmanager
    async def sweeping(self) -> AsyncIterator[None]:
        """Sweep until the end of the block."""
        task = asyncio.create_task(self._sweep_for_ever())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _sweep_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(loop.time())
