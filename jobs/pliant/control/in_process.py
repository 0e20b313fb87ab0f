"""Hosts a run in this very process at world size 1, without Ray: for debuggers and profilers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pliant.engine import Group
from pliant.engine.group import free_address
from pliant.worker import WorkerTask, run_worker
from pliant_platform.core.errors import InterruptedRunError

if TYPE_CHECKING:
    from pliant.spec import JobSpec


class InProcessHost:
    """Runs a task as the only rank, in the calling thread."""

    def __init__(self, spec: JobSpec, task: WorkerTask) -> None:
        self._task = task
        self._use_gpu = spec.resources.gpus > 0

    def run(self, interrupted: threading.Event) -> None:
        """Train to the end; returns when it ended well.

        Raises:
            PliantError: what ended it.
        """
        group = Group(rank=0, world_size=1, address=free_address("127.0.0.1"), use_gpu=self._use_gpu)
        try:
            run_worker(self._task, group)
        except KeyboardInterrupt as error:
            raise InterruptedRunError("left at once; the last committed checkpoint is intact") from error
