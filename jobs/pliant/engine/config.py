"""A job spec in DeepSpeed's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.spec import JobSpec

# DeepSpeed's buckets default to 5e8 elements and are allocated in full: 2 GB for a model of any size.
_BUCKET_ELEMENTS = 50_000_000


def deepspeed_config(spec: JobSpec, *, num_parameters: int, micro_steps: int) -> dict[str, Any]:
    """The config for ``deepspeed.initialize``.

    Batch sizes in it are nominal: the loop marks the end of each step itself, so that a shorter last step works.
    """
    bucket = min(_BUCKET_ELEMENTS, max(num_parameters, 1))
    zero: dict[str, Any] = {
        "stage": spec.zero.stage,
        "overlap_comm": spec.resources.gpus > 0,
        "contiguous_gradients": True,
        "reduce_bucket_size": bucket,
        "allgather_bucket_size": bucket,
    }
    if spec.zero.stage == 3:
        zero |= {"stage3_prefetch_bucket_size": bucket, "stage3_max_live_parameters": _BUCKET_ELEMENTS * 20}
    if spec.zero.offload == "cpu" and spec.zero.stage > 0:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": spec.resources.gpus > 0}
        if spec.zero.stage == 3:
            zero["offload_param"] = {"device": "cpu", "pin_memory": spec.resources.gpus > 0}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": spec.micro_batch_size,
        "gradient_accumulation_steps": micro_steps,
        "gradient_clipping": spec.optimizer.clip_norm or 0.0,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1_000_000_000,
        "wall_clock_breakdown": False,
    }
    if spec.precision == "bf16":
        config["bf16"] = {"enabled": True}
        if spec.zero.stage in (1, 2):
            config["data_types"] = {"grad_accum_dtype": "fp32"}
    elif spec.precision == "fp16":
        config["fp16"] = {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}
    return config
