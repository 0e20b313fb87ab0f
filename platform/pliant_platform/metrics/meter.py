"""What one step gave, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

LAP_NAMES = ("data_wait_s", "compute_s", "optimizer_s", "eval_s", "checkpoint_s")


@dataclass(frozen=True, kw_only=True)
class StepMeter:
    """One step as rank 0 saw it.

    Attributes:
        step: 1-based.
        loss: nats per label-bearing token of the global batch; None for a step without any.
        num_labels: label-bearing tokens of this step's global batch.
        tokens: label-bearing tokens of the run so far.
        lr: the rate in the optimizer's own parameter groups.
        grad_norm: global L2 norm before clipping.
        applied: False when the update was skipped.
        lead_steps: how far the sealed data is ahead.
    """

    step: int
    loss: float | None
    num_labels: int
    tokens: int
    lr: float
    grad_norm: float
    applied: bool
    world_size: int
    lead_steps: float

    def record(self, laps: dict[str, float]) -> dict[str, Any]:
        """As a line of ``metrics.jsonl``: numbers whole, times to a microsecond."""
        times = {name: round(value, 6) for name, value in laps.items()}
        rate = self.num_labels / laps["step_s"] if laps["step_s"] else 0.0
        facts = asdict(self) | {"lead_steps": round(self.lead_steps, 1)}
        return facts | times | {"tokens_per_s": round(rate, 1)}


class Laps:
    """Splits the wall time between two step borders; what is in no lap is the rest of ``step_s``.

    A step runs from the border before it to its own: an evaluation or a save after step n is part of step n + 1,
    so that the line of a step is written before its checkpoint is committed, and never lost with it.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._laps = dict.fromkeys(LAP_NAMES, 0.0)

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        """Count the time of the block under ``name``."""
        began = self._clock()
        try:
            yield
        finally:
            self._laps[name] += self._clock() - began

    def add(self, **seconds: float) -> None:
        """Count times that somebody else measured."""
        for name, value in seconds.items():
            self._laps[name] += value

    def take(self) -> dict[str, float]:
        """The laps since the last border, with ``step_s``, and a new beginning."""
        now = self._clock()
        taken = self._laps | {"step_s": now - self._began}
        self._began, self._laps = now, dict.fromkeys(LAP_NAMES, 0.0)
        return taken
