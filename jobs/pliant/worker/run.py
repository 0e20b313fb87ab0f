"""A rank, from joining the group to leaving it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from pliant.engine import Engine, Group, dissolve_group, form_group, num_micro_steps
from pliant.loop import Cursor, Evaluation, Feed, Saver, StepPlan, read_share, train
from pliant.models import build_config
from pliant.runs import RunFolder
from pliant.runs.attempt import Attempt
from pliant.schedule import learning_rate
from pliant.spec import JobSpec
from pliant.worker.recorder import RunRecorder, SilentRecorder
from pliant.worker.task import WorkerOutcome, WorkerTask
from pliant_data.stream import Stream
from pliant_platform.checkpoints.manifest import Manifest
from pliant_platform.checkpoints.store import CheckpointStore
from pliant_platform.core.clock import Clock, SystemClock
from pliant_platform.core.errors import CheckpointError


def run_worker(task: WorkerTask, group: Group) -> WorkerOutcome:
    """Train as rank ``group.rank`` until the job ends; returns alike on every rank.

    Whatever ends it, the group is dissolved at once, so that ranks blocked on this one wake up.

    Raises:
        PliantError: what went wrong; also torch's errors when another rank is gone.
    """
    import torch

    if task.cpus:
        torch.set_num_threads(task.cpus)
    form_group(group)
    try:
        return _Rank(task, group, SystemClock()).train()
    finally:
        dissolve_group()


class _Rank:
    """What one rank holds while it trains."""

    def __init__(self, task: WorkerTask, group: Group, clock: Clock) -> None:
        self.spec = JobSpec.from_json(task.spec_json)
        self.task = task
        self.group = group
        self.clock = clock
        self.run = RunFolder(Path(task.run_path))
        self.store = CheckpointStore(self.run.checkpoints_path, on_event=self.run.ledger.write)

    def train(self) -> WorkerOutcome:
        attempt, manifest = self._agree()
        recorder = self._recorder(attempt)
        stream = self._stream("train")
        plan = StepPlan.of(self.spec, stream.wait_total() if self.spec.stop.epochs is not None else None)
        engine = self._engine()
        try:
            cursor = self._restore(engine, manifest)
            recorder.event(
                "group_started",
                world_size=self.group.world_size,
                host=socket.gethostname(),
                step=cursor.step,
                num_steps=plan.num_steps,
                num_parameters=engine.num_parameters,
                digest=manifest.digest() if manifest else None,
            )
            saver = Saver(
                self.spec,
                self.store,
                attempt,
                data_fingerprint=self.task.data_fingerprint,
                event=recorder.event,
                clock=self.clock,
            )
            saver.last_step = cursor.step if manifest else -1
            with self._feed(stream, plan, cursor) as feed:
                outcome = train(
                    engine, feed, saver, plan, cursor, self._evaluation(), self._learning_rate(plan), recorder
                )
            recorder.event("training_ended", how=outcome.how, step=outcome.cursor.step, saved=outcome.saved)
        finally:
            engine.destroy()
        return WorkerOutcome(how=outcome.how, step=outcome.cursor.step, saved=outcome.saved)

    def _agree(self) -> tuple[Attempt, Manifest | None]:
        """Rank 0 takes the next attempt and picks the checkpoint; all ranks go by it."""
        import torch.distributed as dist

        said: list[Any] = [None, None]
        if self.group.rank == 0:
            attempt = Attempt.begin(self.run.attempts_path, claim=self.task.claim, clock=self.clock)
            said = [attempt.number, self.store.latest()]
        dist.broadcast_object_list(said, src=0)
        return Attempt(self.run.attempts_path, said[0]), said[1]

    def _engine(self) -> Engine:
        config = build_config(
            self.spec.model,
            vocab_size=self.task.vocab_size,
            sequence_length=self.spec.sequence_length,
            eos_id=self.task.eos_id,
        )
        steps = num_micro_steps(self.spec.global_batch, self.spec.micro_batch_size, self.group.world_size)
        return Engine(self.spec, config, self.group, micro_steps=steps)

    def _restore(self, engine: Engine, manifest: Manifest | None) -> Cursor:
        if manifest is None:
            return Cursor()
        if manifest.data_fingerprint != self.task.data_fingerprint:
            raise CheckpointError(
                f"the checkpoint of step {manifest.step} counts its position in other data "
                f"({manifest.data_fingerprint}) than the sources give now ({self.task.data_fingerprint})",
                causes=("a source file, the tokenizer, the packing or the sequence length changed since",),
                fix="put the data back as it was, or start a new run under another name",
            )
        with self.store.reader(manifest) as reader:
            engine.restore(reader.read, adam_step=manifest.adam_step)
        if manifest.extra.get("loss_scale") is not None:
            engine.restore_loss_scale(manifest.extra["loss_scale"])
        return Cursor.from_manifest(manifest)

    def _recorder(self, attempt: Attempt) -> RunRecorder | SilentRecorder:
        if self.group.rank:
            return SilentRecorder()
        return RunRecorder(self.run, attempt=attempt.number, clock=self.clock)

    def _stream(self, split: str) -> Stream:
        return Stream.open(
            Path(self.task.data_folder), split=split, seed=self.spec.seed, clock=self.clock, wait_s=self.task.data_wait_s
        )

    def _feed(self, stream: Stream, plan: StepPlan, cursor: Cursor) -> Feed:
        return Feed(
            stream,
            plan,
            first_step=cursor.step,
            micro_batch=self.spec.micro_batch_size,
            rank=self.group.rank,
            world_size=self.group.world_size,
        )

    def _evaluation(self) -> Evaluation:
        wish = self.spec.evaluation
        if wish.every_steps is None:
            return Evaluation(every_steps=None, patience=None, micro_batches=(), num_labels=0)
        stream = self._stream("eval")
        share = read_share(
            stream,
            0,
            stream.wait_sealed(wish.num_sequences),
            micro_batch=self.spec.micro_batch_size,
            rank=self.group.rank,
            world_size=self.group.world_size,
        )
        return Evaluation(
            every_steps=wish.every_steps,
            patience=wish.patience,
            micro_batches=share.micro_batches,
            num_labels=share.num_labels,
        )

    def _learning_rate(self, plan: StepPlan) -> Any:
        return lambda step: learning_rate(self.spec.schedule, self.spec.optimizer.lr, step, plan.num_steps)
