"""Time as a value that is handed in, so that tests and the simulator own it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where instants and waits come from; every component that waits takes one."""

    def now(self) -> float:
        """Seconds since the epoch (for records that people read)."""

    def monotonic(self) -> float:
        """Seconds that never go backwards (for durations)."""

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FakeClock:
    """A clock that moves only when somebody sleeps or moves it."""

    def __init__(self, start_at: float = 1_000_000.0) -> None:
        self._now = start_at

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds
