"""Ctrl-C: once saves and ends the run in order, twice leaves now. Also SIGTERM and a closed terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(on_first: Callable[[str], None], *, raise_on_second: bool) -> Iterator[threading.Event]:
    """Handle interrupts in the block; the event given is set when the person wants to leave at once.

    Args:
        on_first: called (with the signal's name) at the first one; must be quick.
        raise_on_second: raise KeyboardInterrupt in the main thread at the second one (when it is the main thread
            that trains).

    Outside the main thread (a notebook's worker thread, say) signals can't be caught, and nothing is changed.
    """
    leave_now = threading.Event()
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if not asked.is_set():
            asked.set()
            on_first(signal.Signals(number).name)
            return
        leave_now.set()
        if raise_on_second:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield leave_now
        return
    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield leave_now
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
