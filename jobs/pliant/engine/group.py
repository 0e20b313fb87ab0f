"""The process group: formed and dissolved here, so that it can be re-formed inside a living worker.

Ray's own backend starts none (see control.ray_train). Dissolving also resets what torch and DeepSpeed keep in
module globals: without that, a second group in the same process finds the first one's leftovers.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import timedelta

from pliant_platform.core.settings import export_rank

GROUP_TIMEOUT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Group:
    """One generation of ranks.

    Attributes:
        rank: this process's place, 0 ≤ rank < world_size.
        address: ``host:port`` of the generation's store, hosted by rank 0.
        use_gpu: nccl on GPUs, else gloo.
    """

    rank: int
    world_size: int
    address: str
    use_gpu: bool


def free_address(host: str) -> str:
    """A ``host:port`` on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{host}:{probe.getsockname()[1]}"


def form_group(group: Group, *, timeout_s: float = GROUP_TIMEOUT_S) -> None:
    """Join the other ranks; returns when all are there.

    Raises:
        RuntimeError (torch's): not all ranks came within ``timeout_s``.
    """
    host, port = group.address.rsplit(":", 1)
    export_rank(rank=group.rank, world_size=group.world_size, host=host, port=port, use_gpu=group.use_gpu)
    import deepspeed
    import deepspeed.comm.comm as deepspeed_comm
    import torch.distributed as dist

    backend = "nccl" if group.use_gpu else "gloo"
    deepspeed.utils.logger.setLevel("ERROR")
    dist.init_process_group(
        backend,
        rank=group.rank,
        world_size=group.world_size,
        init_method=f"tcp://{group.address}",
        timeout=timedelta(seconds=timeout_s),
    )
    deepspeed_comm.cdb = None
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)


def dissolve_group() -> None:
    """Leave the group, wake whoever is blocked on this rank, and forget all about it."""
    import deepspeed.comm.comm as deepspeed_comm
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d
    from deepspeed.runtime.zero import parameter_offload, partition_parameters
    from deepspeed.utils import groups

    if dist.is_initialized():
        dist.destroy_process_group()
    c10d._world.group_count = 0
    deepspeed_comm.cdb = None
    for name, value in vars(groups).copy().items():
        # DeepSpeed's module globals are spelt _LIKE_THIS: groups of the generation that is gone.
        if name.startswith("_") and name[1:2].isupper() and not callable(value):
            setattr(groups, name, {} if isinstance(value, dict) else None)
    # ZeRO-3 numbers parameters and modules per process and compares the numbers across ranks:
    # a survivor must count from 0 again, as a newcomer does.
    partition_parameters.Init.param_id = 0
    parameter_offload.DeepSpeedZeRoOffload._register_deepspeed_module.__defaults__[0][0] = 0
