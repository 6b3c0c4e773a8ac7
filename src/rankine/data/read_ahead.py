"""Read ahead on another thread, so that reading and learning overlap."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")


class _End:
    """Marks the end of the items, or carries the error that ended them."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The same items in the same order, produced on a thread at most ``depth`` ahead.

    Errors of the producer are raised here. Leaving the loop early stops the producer.
    """
    ready: queue.Queue[T | _End] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def offer(item: T | _End) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def produce() -> None:
        try:
            for item in items:
                if not offer(item):
                    return
        except BaseException as error:  # noqa: BLE001 - handed to the consumer
            offer(_End(error))
        else:
            offer(_End())

    thread = threading.Thread(target=produce, name="rankine-reader", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        thread.join()
