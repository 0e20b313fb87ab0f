"""``TorchTrainer``, subclassed at the one place where it takes its policies."""

from __future__ import annotations

import threading
from typing import Any

import ray
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.torch.config import _TorchBackend

from pliant.control.ray_train.policies import RetryByCause, SizeFromLiveNodes


class NoProcessGroup(_TorchBackend):  # type: ignore[misc]
    """A backend that leaves the process group to pliant.engine, so that it can be re-formed in a living worker."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        """Nothing: the group is formed by the workers."""

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        """Nothing: the devices are set by the workers."""

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        """Nothing: the group is dissolved by the workers."""


class OwnGroupConfig(TorchConfig):  # type: ignore[misc]
    """Tells Ray Train to use ``NoProcessGroup``."""

    @property
    def backend_cls(self) -> type[NoProcessGroup]:
        """The backend."""
        return NoProcessGroup


class ElasticTrainer(TorchTrainer):  # type: ignore[misc]
    """Runs a train function under our policies.

    Args:
        run_path: the run folder, where the policies write to the ledger.
        smallest, largest: world sizes.
        kwargs: ``TorchTrainer``'s own.
    """

    def __init__(self, *args: Any, run_path: str, smallest: int, largest: int, **kwargs: Any) -> None:
        super().__init__(*args, torch_config=OwnGroupConfig(), **kwargs)
        self._run_path = run_path
        self._smallest = smallest
        self._largest = largest
        self._controller: Any = None
        self._controller_known = threading.Event()

    def _initialize_and_run_controller(self, **kwargs: Any) -> Any:
        """As Ray Train's, with our policies, and with the controller's handle kept so that a run can be ended."""
        from ray.train.v2._internal.constants import get_env_vars_to_propagate
        from ray.train.v2._internal.execution.controller import TrainController

        kwargs["scaling_policy"] = SizeFromLiveNodes(
            self.scaling_config, run_path=self._run_path, smallest=self._smallest, largest=self._largest
        )
        kwargs["failure_policy"] = RetryByCause(self.run_config.failure_config, run_path=self._run_path)
        here = ray.get_runtime_context().get_node_id()
        controller = ray.remote(
            num_cpus=0,
            label_selector={ray._raylet.RAY_NODE_ID_KEY: here},
            runtime_env={"env_vars": get_env_vars_to_propagate()},
        )(TrainController)
        self._controller = controller.remote(**kwargs)
        self._controller_known.set()
        ray.get(self._controller.run.remote())
        return ray.get(self._controller.get_result.remote())

    def kill(self) -> None:
        """End the controller and with it the workers and their reservation; nothing is saved."""
        if self._controller_known.wait(timeout=5.0):
            ray.kill(self._controller)
