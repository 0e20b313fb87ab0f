"""The training loop, to be read aloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pliant.engine import Engine, StepBatch, StepResult
from pliant.loop.cursor import Cursor, StepPlan
from pliant.loop.evaluation import Evaluation
from pliant.loop.feed import Feed
from pliant.loop.saver import Saver
from pliant_platform.metrics.meter import Laps, StepMeter


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the loop ended: ``done``, ``early_stopped`` or ``interrupted``, and whether its last state is saved."""

    how: str
    cursor: Cursor
    saved: bool


class Recorder(Protocol):
    """Takes what the loop has to tell; does nothing on ranks other than 0."""

    def step(self, meter: StepMeter, laps: dict[str, float]) -> None: ...
    def evaluated(self, cursor: Cursor, loss: float) -> None: ...
    def event(self, kind: str, **facts: object) -> None: ...
    def stop_requested(self) -> bool: ...


def train(
    engine: Engine,
    feed: Feed,
    saver: Saver,
    plan: StepPlan,
    cursor: Cursor,
    evaluation: Evaluation,
    learning_rate: Callable[[int], float],
    recorder: Recorder,
) -> Outcome:
    """Train from ``cursor`` to the plan's end; collective: every rank runs it in step."""
    laps = Laps()
    if cursor.step == 0:
        with laps.lap("eval_s"):
            cursor = _evaluate(engine, evaluation, cursor, recorder)
    stop = False
    while cursor.step < plan.num_steps and not evaluation.exhausted(cursor) and not stop:
        with laps.lap("data_wait_s"):
            batch = feed.next()
        result = engine.train_step(batch, step=cursor.step, lr=learning_rate(cursor.step))
        # One reduction tells every rank the loss and rank 0's wishes, so that all turn off at the same step.
        wishes = [float(recorder.stop_requested()), float(saver.due_by_time())]
        loss_sum, stop_wishes, save_wishes = engine.all_sum([result.loss_sum, *wishes])
        stop = stop_wishes > 0
        cursor = cursor.after_step(batch.num_labels)
        laps.add(compute_s=result.compute_s, optimizer_s=result.optimizer_s)
        recorder.step(_meter(engine, feed, cursor, batch, result, loss_sum), laps.take())
        if evaluation.due(cursor.step) or cursor.step == plan.num_steps:
            with laps.lap("eval_s"):
                cursor = _evaluate(engine, evaluation, cursor, recorder)
        if saver.due_by_step(cursor.step) or save_wishes > 0:
            with laps.lap("checkpoint_s"):
                saver.save(engine, cursor, plan)
    saved = saver.save(engine, cursor, plan)
    return Outcome(how=_how(cursor, plan, evaluation), cursor=cursor, saved=saved)


def _meter(
    engine: Engine, feed: Feed, cursor: Cursor, batch: StepBatch, result: StepResult, loss_sum: float
) -> StepMeter:
    return StepMeter(
        step=cursor.step,
        loss=loss_sum / batch.num_labels if batch.num_labels else None,
        num_labels=batch.num_labels,
        tokens=cursor.tokens,
        lr=engine.learning_rate,
        grad_norm=result.grad_norm,
        applied=result.applied,
        world_size=engine.group.world_size,
        lead_steps=feed.lead_steps(cursor.step),
    )


def _how(cursor: Cursor, plan: StepPlan, evaluation: Evaluation) -> str:
    if cursor.step >= plan.num_steps:
        return "done"
    return "early_stopped" if evaluation.exhausted(cursor) else "interrupted"


def _evaluate(engine: Engine, evaluation: Evaluation, cursor: Cursor, recorder: Recorder) -> Cursor:
    """One pass over the held-out set; collective."""
    if not evaluation.possible:
        return cursor
    (loss_sum,) = engine.all_sum([engine.eval_loss_sum(evaluation.micro_batches)])
    loss = loss_sum / evaluation.num_labels
    cursor = cursor.after_evaluation(loss)
    recorder.evaluated(cursor, loss)
    return cursor
