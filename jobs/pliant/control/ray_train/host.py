"""Hosts the workers of one run on Ray Train."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pliant.control.budgets import our_error
from pliant.worker import WorkerTask
from pliant_platform.core.errors import InterruptedRunError, PliantError, TrainingFailedError

if TYPE_CHECKING:
    from pliant.spec import JobSpec


class RayHost:
    """Runs a task on Ray Train workers; restarts them after losses (see policies)."""

    def __init__(self, spec: JobSpec, task: WorkerTask) -> None:
        self._task = task
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._trainer = self._make_trainer(spec)

    def run(self, interrupted: threading.Event) -> None:
        """Train to the end; returns when it ended well.

        Args:
            interrupted: set when the person wants to leave at once.

        Raises:
            PliantError: what ended it.
        """
        thread = threading.Thread(target=self._fit, name="ray-train", daemon=True)
        thread.start()
        while not self._done.wait(0.2):
            if interrupted.is_set():
                self._trainer.kill()
                raise InterruptedRunError("left at once; the last committed checkpoint is intact")
        if self._error is not None:
            raise _as_ours(self._error) from self._error

    def _fit(self) -> None:
        try:
            self._trainer.fit()
        except BaseException as error:  # noqa: BLE001 (carried to the main thread, which raises it)
            self._error = error
        finally:
            self._done.set()

    def _make_trainer(self, spec: JobSpec) -> Any:
        import ray.train

        from pliant.control.ray_train.trainer import ElasticTrainer
        from pliant.control.ray_train.worker_side import train_function

        resources = {"CPU": spec.resources.cpus}
        if spec.resources.gpus:
            resources["GPU"] = spec.resources.gpus
        return ElasticTrainer(
            train_function,
            train_loop_config={"task": self._task, "use_gpu": spec.resources.gpus > 0},
            scaling_config=ray.train.ScalingConfig(
                num_workers=spec.elastic.max_workers,
                use_gpu=spec.resources.gpus > 0,
                resources_per_worker=resources,
            ),
            run_config=ray.train.RunConfig(name="ray-train", storage_path=self._task.run_path),
            run_path=self._task.run_path,
            smallest=spec.elastic.min_workers,
            largest=spec.elastic.max_workers,
        )


def _as_ours(error: BaseException) -> PliantError:
    ours = our_error(error)
    if ours is not None:
        return ours
    return TrainingFailedError(
        f"the training failed: {str(error).strip() or type(error).__name__}",
        causes=("an error in the training code, or more lost workers than the budget allows",),
        fix="read the ledger (`pliant runs show NAME`); run it with --in-process to see it in a debugger",
    )
