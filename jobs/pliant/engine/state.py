"""The training state inside a DeepSpeed engine, as ranges of logical parameters.

DeepSpeed keeps it flattened and partitioned in a different way for each ZeRO stage; this module is the one
place that knows how. Everything private that we touch in DeepSpeed's optimizers stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from pliant_platform.checkpoints.fragments import EXP_AVG, EXP_AVG_SQ, KINDS, MASTER, Array

Read = Callable[[str, str, int, int], Array]
MOMENTS = (EXP_AVG, EXP_AVG_SQ)


@dataclass(frozen=True)
class LocalRange:
    """Elements [offset, offset + length) of one parameter, as this rank's optimizer holds them.

    ``tensors`` gives fp32 views by kind (they alias the live state: copy before the next step).
    """

    name: str
    offset: int
    length: int
    tensors: dict[str, torch.Tensor]


def shapes(engine: Any) -> dict[str, tuple[int, ...]]:
    """Each trained parameter's full shape by logical name; a tied one appears once."""
    return {name: tuple(getattr(p, "ds_shape", p.shape)) for name, p in _trained(engine)}


def local_ranges(engine: Any) -> Iterator[LocalRange]:
    """What this rank's optimizer holds; every element on exactly one rank, except under stage 0 (all on all)."""
    for name, parameter in _trained(engine):
        found = _range_of(engine, parameter)
        if found is not None:
            offset, length, tensors = found
            yield LocalRange(name, offset, length, tensors)


def snapshot(engine: Any, *, rank: int) -> list[tuple[str, str, int, Array]]:
    """A real copy of what ``rank`` has to save: ``(name, kind, offset, fp32 values)``."""
    if _is_replicated(engine) and rank != 0:
        return []
    return [
        (part.name, kind, part.offset, part.tensors[kind].detach().to("cpu", torch.float32, copy=True).numpy())
        for part in local_ranges(engine)
        for kind in KINDS
    ]


def restore(engine: Any, read: Read, *, adam_step: int) -> None:
    """Set weights, moments and Adam's step from a checkpoint, for any world size and stage.

    Args:
        engine: a DeepSpeed engine that was just built.
        read: ``(name, kind, start, stop) -> fp32 values``.
        adam_step: updates that the moments have seen.
    """
    prepare_moments(engine, adam_step)
    for part in local_ranges(engine):
        for kind in KINDS:
            values = torch.from_numpy(read(part.name, kind, part.offset, part.offset + part.length))
            part.tensors[kind].copy_(values)
    with torch.no_grad():
        for name, parameter in _trained(engine):
            _set_working_copy(name, parameter, read)


def adam_step(engine: Any) -> int:
    """Adam's own update count (0 before the first update)."""
    for state in engine.basic_optimizer.state.values():
        if "step" in state:
            return int(state["step"])
    return 0


def _trained(engine: Any) -> Iterator[tuple[str, Any]]:
    return ((n, p) for n, p in engine.module.named_parameters() if p.requires_grad)


def _is_replicated(engine: Any) -> bool:
    """Whether every rank holds the whole optimizer state (stage 0 in fp32 or fp16)."""
    return not any(hasattr(p, "ds_id") or hasattr(p, "_hp_mapping") for _, p in _trained(engine))


def _range_of(engine: Any, parameter: Any) -> tuple[int, int, dict[str, torch.Tensor]] | None:
    if hasattr(parameter, "ds_id"):
        return _zero3_range(engine, parameter)
    if hasattr(parameter, "_hp_mapping"):
        return _mapped_range(parameter)
    return _whole_parameter(engine, parameter)


def _zero3_range(engine: Any, parameter: Any) -> tuple[int, int, dict[str, torch.Tensor]] | None:
    optimizer = engine.optimizer
    share = parameter.ds_tensor.numel()
    rank = torch.distributed.get_rank(optimizer.dp_process_group)
    offset = rank * share
    length = max(0, min(share, parameter.ds_numel - offset))  # the last ranks' shares are padded
    if not length:
        return None
    tensors = {}
    for kind in KINDS:
        key = None if kind == MASTER else kind
        tensors[kind] = optimizer._get_fp32_opt_state_partition(parameter, False, key)[0].detach()[:length]
    return offset, length, tensors


def _mapped_range(parameter: Any) -> tuple[int, int, dict[str, torch.Tensor]] | None:
    mapping = parameter._hp_mapping
    if mapping is None:
        return None
    where = mapping.lp_fragment_address
    tensors = {kind: mapping.get_hp_fragment(None if kind == MASTER else kind).detach() for kind in KINDS}
    return where.start, where.numel, tensors


def _whole_parameter(engine: Any, parameter: Any) -> tuple[int, int, dict[str, torch.Tensor]]:
    master = _fp16_master(engine, parameter)
    state = engine.basic_optimizer.state[master]
    tensors = {MASTER: master.detach().reshape(-1)} | {kind: state[kind].reshape(-1) for kind in MOMENTS}
    return 0, parameter.numel(), tensors


def _fp16_master(engine: Any, parameter: Any) -> torch.Tensor:
    """Under stage 0 in half precision DeepSpeed keeps fp32 copies in lists beside the parameters."""
    for halves, masters in zip(
        getattr(engine.optimizer, "fp16_groups", ()), getattr(engine.optimizer, "fp32_groups", ()), strict=False
    ):
        for half, master in zip(halves, masters, strict=True):
            if half is parameter:
                return master  # type: ignore[no-any-return]
    return parameter  # type: ignore[no-any-return]


def prepare_moments(engine: Any, step: int = 0) -> None:
    """Give Adam its (zero) state and its update count now: by itself it would make them at the first update."""
    optimizer = engine.basic_optimizer
    flats = getattr(engine.optimizer, "fp32_partitioned_groups_flat", None)  # ZeRO-3 lends them to Adam one by one
    if flats is None:
        flats = [flat for group in optimizer.param_groups for flat in group["params"]]
    for flat in flats:
        state = optimizer.state[flat]
        for kind in MOMENTS:
            state.setdefault(kind, torch.zeros_like(flat, dtype=torch.float32))
        state["step"] = torch.tensor(float(step))
    # Stages 1 and 2 keep per-parameter views of the flat moments, else linked after the first update.
    if hasattr(engine.optimizer, "_lazy_init_hp_params_optimizer_state"):
        engine.optimizer._lazy_init_hp_params_optimizer_state()


def _set_working_copy(name: str, parameter: Any, read: Read) -> None:
    """The (maybe lower-precision) weights that the forward pass uses."""
    if not hasattr(parameter, "ds_id"):
        values = torch.from_numpy(read(name, MASTER, 0, parameter.numel()))
        parameter.data.copy_(values.reshape(parameter.shape))
        return
    share = parameter.ds_tensor.numel()
    rank = torch.distributed.get_rank(parameter.ds_process_group)
    start = min(rank * share, parameter.ds_numel)
    stop = min(start + share, parameter.ds_numel)
    parameter.ds_tensor.data.view(-1)[: stop - start].copy_(torch.from_numpy(read(name, MASTER, start, stop)))
    if parameter.data.numel() == parameter.ds_numel:  # a small one that DeepSpeed keeps whole on every rank
        values = torch.from_numpy(read(name, MASTER, 0, parameter.ds_numel))
        parameter.data.copy_(values.reshape(parameter.ds_shape))

