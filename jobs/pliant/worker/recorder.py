"""What rank 0 writes down: a line a step, a line an event. It never stops the training.

A storage that is full or gone for a while costs no step: lines wait in memory, bounded, and are written
when it is back.
"""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path
from typing import Any

from pliant.loop import Cursor
from pliant.runs import RunFolder
from pliant_platform.core.clock import Clock
from pliant_platform.core.errors import StorageError
from pliant_platform.core.ledger import LEDGER_VERSION, append_line
from pliant_platform.metrics.meter import StepMeter

MAX_WAITING_LINES = 10_000


class RunRecorder:
    """Writes a run's metrics and ledger (rank 0)."""

    def __init__(self, run: RunFolder, *, attempt: int, clock: Clock) -> None:
        self._run = run
        self._attempt = attempt
        self._clock = clock
        self._waiting: deque[tuple[Path, dict[str, Any]]] = deque(maxlen=MAX_WAITING_LINES)

    def step(self, meter: StepMeter, laps: dict[str, float]) -> None:
        """One line of ``metrics.jsonl``."""
        self._append(self._run.metrics_path, meter.record(laps) | self._stamp())
        if not meter.applied:
            reason = "no label in the whole global batch" if meter.loss is None else "the gradient overflowed"
            self.event("update_skipped", step=meter.step, reason=reason)

    def evaluated(self, cursor: Cursor, loss: float) -> None:
        """One evaluation: a line of ``metrics.jsonl`` and one of the ledger."""
        perplexity = math.exp(loss) if loss < 700 else math.inf
        facts = {"step": cursor.step, "eval_loss": loss, "perplexity": perplexity}
        self._append(self._run.metrics_path, facts | self._stamp())
        self.event("evaluated", **facts, best_loss=cursor.best_eval, without_better=cursor.bad_evals)

    def event(self, kind: str, **facts: object) -> None:
        """One line of the ledger."""
        self._append(self._run.ledger.path, {**self._stamp(), "kind": kind, "v": LEDGER_VERSION, **facts})

    def stop_requested(self) -> bool:
        """Whether somebody asked the run to save and stop."""
        return self._run.stop_requested() is not None

    def _stamp(self) -> dict[str, Any]:
        return {"at": round(self._clock.now(), 3), "attempt": self._attempt}

    def _append(self, path: Path, line: dict[str, Any]) -> None:
        self._waiting.append((path, line))
        while self._waiting:
            try:
                append_line(*self._waiting[0])
            except StorageError:
                return
            self._waiting.popleft()


class SilentRecorder:
    """The recorder of every rank but 0."""

    def step(self, meter: StepMeter, laps: dict[str, float]) -> None:
        """Nothing."""

    def evaluated(self, cursor: Cursor, loss: float) -> None:
        """Nothing."""

    def event(self, kind: str, **facts: object) -> None:
        """Nothing."""

    def stop_requested(self) -> bool:
        """Rank 0 asks for all."""
        return False


