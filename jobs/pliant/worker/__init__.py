"""One rank's whole life: join the group, build the engine, restore, train, leave."""

from pliant.worker.run import run_worker
from pliant.worker.task import WorkerOutcome, WorkerTask

__all__ = ["WorkerOutcome", "WorkerTask", "run_worker"]
