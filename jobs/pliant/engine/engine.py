"""One rank's training engine: weights, optimizer and the step, over a process group that we formed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import xxhash

from pliant.engine import state
from pliant.engine.batch import MicroBatch, StepBatch
from pliant.engine.config import deepspeed_config
from pliant.engine.group import Group
from pliant.models import build_model, causal_loss_sum, parameter_groups
from pliant_platform.checkpoints.fragments import Array

if TYPE_CHECKING:
    from pliant.spec import JobSpec



@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one optimizer step gave on this rank.

    Attributes:
        loss_sum: summed cross entropy (nats) over this rank's label-bearing tokens.
        grad_norm: global L2 norm of the gradient before clipping.
        applied: False when the update was skipped (fp16 overflow, or a step without any label).
    """

    loss_sum: float
    grad_norm: float
    applied: bool
    compute_s: float
    optimizer_s: float


class Engine:
    """Weights, optimizer and the step.

    Args:
        spec: the job.
        config: the model's transformers config.
        group: the process group, formed already.
        micro_steps: micro-steps of a full step at this world size.
    """

    def __init__(self, spec: JobSpec, config: Any, group: Group, *, micro_steps: int) -> None:
        import deepspeed

        self.group = group
        self._spec = spec
        self.device = torch.device("cuda", torch.cuda.current_device()) if group.use_gpu else torch.device("cpu")
        model = build_model(config, seed=spec.seed, activation_checkpointing=spec.activation_checkpointing)
        num_parameters = sum(p.numel() for p in model.parameters())
        optimizer = torch.optim.AdamW(
            parameter_groups(model, spec.optimizer.weight_decay),
            lr=spec.optimizer.lr,
            betas=spec.optimizer.betas,
            eps=spec.optimizer.eps,
        )
        self._engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=optimizer,
            config=deepspeed_config(spec, num_parameters=num_parameters, micro_steps=micro_steps),
            dist_init_required=False,
        )
        self.num_parameters = num_parameters
        state.prepare_moments(self._engine)

    def train_step(self, batch: StepBatch, *, step: int, lr: float) -> StepResult:
        """Forward, backward and update over this rank's share of one global batch.

        Every rank calls it with as many micro-batches. The loss's denominator is the *global* token count,
        so unlike micro-batches weigh what their tokens weigh (transformers #34191 tells the mistake).
        """
        if not batch.num_labels:
            return StepResult(loss_sum=0.0, grad_norm=0.0, applied=False, compute_s=0.0, optimizer_s=0.0)
        began = time.perf_counter()
        for group in self._engine.optimizer.param_groups:
            group["lr"] = lr
        self._engine.train()
        loss_sum = torch.zeros((), device=self.device)
        # DeepSpeed averages gradients over ranks; we want the sum over ranks divided by the global token count.
        scale = self.group.world_size / batch.num_labels
        last = len(batch.micro_batches) - 1
        for number, micro in enumerate(batch.micro_batches):
            self._engine.set_gradient_accumulation_boundary(number == last)
            loss = self._loss(micro, key=self._key(step, micro.index))
            self._engine.backward(loss * scale, scale_wrt_gas=False)
            loss_sum += loss.detach()
            if number < last:
                self._engine.step()
        computed = time.perf_counter()
        grad_norm, applied = self._update()
        return StepResult(
            loss_sum=float(loss_sum),
            grad_norm=grad_norm,
            applied=applied,
            compute_s=computed - began,
            optimizer_s=time.perf_counter() - computed,
        )

    def eval_loss_sum(self, micro_batches: tuple[MicroBatch, ...]) -> float:
        """Summed cross entropy over this rank's micro-batches, without gradients; collective under ZeRO-3."""
        self._engine.eval()
        with torch.no_grad():
            return sum(float(self._loss(micro, key=0)) for micro in micro_batches)

    def all_sum(self, values: list[float]) -> list[float]:
        """Each value summed over all ranks, in float64; collective."""
        if self.group.world_size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor]

    @property
    def learning_rate(self) -> float:
        """The rate as the optimizer's own parameter groups have it."""
        return float(self._engine.optimizer.param_groups[0]["lr"])

    @property
    def adam_step(self) -> int:
        """Updates that Adam's moments have seen."""
        return state.adam_step(self._engine)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Each parameter's full shape by logical name."""
        return state.shapes(self._engine)

    def snapshot(self) -> list[tuple[str, str, int, Array]]:
        """A real copy of what this rank has to save: ``(name, kind, offset, fp32 values)``."""
        return state.snapshot(self._engine, rank=self.group.rank)

    def restore(self, read: state.Read, *, adam_step: int) -> None:
        """Set the whole state from a checkpoint written at any world size and stage."""
        state.restore(self._engine, read, adam_step=adam_step)

    @property
    def loss_scale(self) -> float | None:
        """fp16's dynamic loss scale; None in other precisions."""
        return float(self._engine.optimizer.loss_scale) if self._spec.precision == "fp16" else None

    def restore_loss_scale(self, scale: float) -> None:
        """Set fp16's dynamic loss scale."""
        scaler = getattr(self._engine.optimizer, "loss_scaler", None)
        if scaler is not None:
            scaler.cur_scale = scale
        else:
            self._engine.optimizer.cur_scale = scale

    def destroy(self) -> None:
        """Let go of weights, optimizer and hooks; the process group stays for its owner to dissolve."""
        self._engine.destroy()
        del self._engine

    def _loss(self, micro: MicroBatch, *, key: int) -> torch.Tensor:
        # Dropout is keyed by (seed, step, micro-batch): what a micro-batch draws doesn't depend on who computes it.
        torch.manual_seed(key)
        tokens = torch.from_numpy(micro.tokens).to(self.device, torch.int64, non_blocking=True)
        return causal_loss_sum(self._engine, tokens, torch.from_numpy(micro.lengths).to(self.device))

    def _key(self, step: int, index: int) -> int:
        return xxhash.xxh3_64_intdigest(f"{self._spec.seed}/{step}/{index}") >> 1

    def _update(self) -> tuple[float, bool]:
        plain = self._spec.zero.stage == 0 and self._spec.precision == "fp32"
        norm = _total_norm(self._engine.module) if plain else 0.0  # DeepSpeed keeps none in this one case
        skipped = self._engine.skipped_steps
        self._engine.step()
        if not plain:
            norm = float(self._engine.get_global_grad_norm() or 0.0)
        return norm, self._engine.skipped_steps == skipped


def _total_norm(module: Any) -> float:
    return float(torch.nn.utils.get_total_norm([p.grad for p in module.parameters() if p.grad is not None]))
