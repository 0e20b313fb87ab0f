"""The saver: every rank writes what it owns, and one commits. A save that fails costs nothing but itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pliant.engine import Engine
from pliant.loop.cursor import Cursor, StepPlan
from pliant.runs.attempt import Attempt
from pliant_platform.checkpoints.manifest import Manifest
from pliant_platform.checkpoints.store import CheckpointStore
from pliant_platform.core.clock import Clock
from pliant_platform.core.errors import CheckpointError, StorageError

if TYPE_CHECKING:
    from pliant.spec import JobSpec

Event = Callable[..., object]


class Saver:
    """Decides when to save, and does it.

    Args:
        spec: the job (``checkpoint`` says when, and how many to keep).
        store: where to.
        attempt: the right to write.
        data_fingerprint: of the data that positions count in.
        event: the ledger's ``write``, on rank 0.
        clock: for ``checkpoint.every_s``.
    """

    def __init__(
        self,
        spec: JobSpec,
        store: CheckpointStore,
        attempt: Attempt,
        *,
        data_fingerprint: str,
        event: Event,
        clock: Clock,
    ) -> None:
        self._spec = spec
        self._store = store
        self._attempt = attempt
        self._fingerprint = data_fingerprint
        self._event = event
        self._clock = clock
        self._saved_at = clock.monotonic()
        self.last_step = 0

    def due_by_step(self, step: int) -> bool:
        """Whether ``checkpoint.every_steps`` asks for a save after ``step`` steps; the same on every rank."""
        every = self._spec.checkpoint.every_steps
        return every is not None and step % every == 0

    def due_by_time(self) -> bool:
        """Whether ``checkpoint.every_s`` asks for one; rank 0's clock decides for all."""
        every = self._spec.checkpoint.every_s
        return every is not None and self._clock.monotonic() - self._saved_at >= every

    def save(self, engine: Engine, cursor: Cursor, plan: StepPlan) -> bool:
        """Write and commit a checkpoint at this step border; collective; says whether it was committed.

        A storage that fails (a full disk, say) leaves the earlier checkpoints as they are; the ledger tells it.

        Raises:
            FencedError: a newer attempt owns the run.
        """
        if self.last_step == cursor.step:
            return True
        began = time.perf_counter()
        self._attempt.check()
        problem = self._write(engine, cursor.step)
        written = engine.all_sum([float(problem is None)])[0] == engine.group.world_size
        committed = False
        if engine.group.rank == 0:
            if written:
                problem = self._commit(engine, cursor, plan, began)
            committed = problem is None and written
            if not committed:
                self._store.discard(cursor.step, self._attempt.number)
                reason = problem or "another rank couldn't write its part"
                self._event("checkpoint_failed", step=cursor.step, reason=reason, last_good_step=self.last_step)
        committed = engine.all_sum([float(committed)])[0] > 0
        self._saved_at = self._clock.monotonic()
        if committed:
            self.last_step = cursor.step
        return committed

    def _write(self, engine: Engine, step: int) -> str | None:
        try:
            self._store.write_rank(step, self._attempt.number, engine.group.rank, engine.snapshot())
        except StorageError as error:
            return str(error)
        return None

    def _commit(self, engine: Engine, cursor: Cursor, plan: StepPlan, began: float) -> str | None:
        """Rank 0: manifest last; gives the problem, if any."""
        extra = cursor.small_state()
        if engine.loss_scale is not None:
            extra["loss_scale"] = engine.loss_scale
        try:
            manifest = Manifest(
                step=cursor.step,
                position=plan.span(cursor.step - 1)[1] if cursor.step else 0,
                tokens=cursor.tokens,
                world_size=engine.group.world_size,
                zero_stage=self._spec.zero.stage,
                adam_step=engine.adam_step,
                spec_digest=self._spec.digest(),
                data_fingerprint=self._fingerprint,
                shapes=engine.shapes,
                files=self._store.rank_files(cursor.step, self._attempt.number, engine.group.world_size),
                extra=extra,
                at=self._clock.now(),
                attempt=self._attempt.number,
            )
            self._attempt.check()
            self._store.commit(manifest)
            self._store.prune(self._spec.checkpoint.keep, own_attempt=self._attempt.number)
        except (StorageError, CheckpointError) as error:
            return str(error)
        self._event(
            "checkpoint_committed",
            step=cursor.step,
            bytes=manifest.num_bytes,
            digest=manifest.digest(),
            seconds=round(time.perf_counter() - began, 3),
        )
        return None
