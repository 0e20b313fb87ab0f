"""What runs inside a Ray Train worker."""

from __future__ import annotations

from typing import Any

from pliant.engine import Group
from pliant.engine.group import free_address
from pliant.worker import WorkerTask, run_worker


def train_function(config: dict[str, Any]) -> None:
    """The function that Ray Train calls on every worker.

    Args:
        config: ``task`` (WorkerTask) and ``use_gpu``.
    """
    import ray
    import ray.train
    from ray.train.collective import broadcast_from_rank_zero

    context = ray.train.get_context()
    rank = context.get_world_rank()
    address = broadcast_from_rank_zero(free_address(ray.util.get_node_ip_address()) if rank == 0 else None)
    task: WorkerTask = config["task"]
    group = Group(rank=rank, world_size=context.get_world_size(), address=address, use_gpu=config["use_gpu"])
    run_worker(task, group)
