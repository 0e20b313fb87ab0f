"""The data side of a run: prepares in a thread of the driver, outside the worker group, so that it goes on
while trainers recover."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from pliant_data.prepare import PreparePlan, PrepareReport, run_local


class DataSide:
    """Prepares the data of a run until it is complete or the run ends.

    Args:
        plan: what to prepare.
        on_ray: ``(plan, stop) -> report``: prepares with Ray Data; None: in this process.
    """

    def __init__(
        self, plan: PreparePlan, on_ray: Callable[[PreparePlan, threading.Event], PrepareReport] | None = None
    ) -> None:
        self._plan = plan
        self._prepare = on_ray or (lambda plan, stop: run_local(plan, stop=stop))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="data-side", daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(timeout=10.0)

    def alive(self) -> bool:
        """Whether it is still at work."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._prepare(self._plan, self._stop)
        except BaseException as error:  # noqa: BLE001 (a thread's end: readers learn of it from failed.json and here)
            self.error = error
