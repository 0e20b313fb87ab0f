"""Training from Python: what the command line calls, and what a notebook or a script may call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pliant.runs import ProgressView, RunFolder, describe

if TYPE_CHECKING:
    from pliant.spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """How a run ended.

    Attributes:
        status: ``done`` (a run that failed or was stopped raises instead).
        first_loss: mean of the first ten steps, nats per token; last_loss of the last ten.
        perplexity_before, perplexity_after: on the held-out set; None without evaluation.
    """

    name: str
    folder: str
    status: str
    step: int
    planned_steps: int
    tokens: int
    first_loss: float | None
    last_loss: float | None
    perplexity_before: float | None
    perplexity_after: float | None
    duration_s: float
    restarts: int
    checkpoint_step: int | None


def train(
    spec: JobSpec,
    *,
    resume: bool = False,
    in_process: bool = False,
    verbose: bool = False,
    on_event: Callable[[ProgressView], None] | None = None,
) -> RunSummary:
    """Train to the end.

    Args:
        spec: the job, as ``pliant.spec.load_spec`` gives it.
        resume: go on from the last committed checkpoint.
        in_process: in this process at world size 1, without Ray.
        verbose: keep Ray's logs.
        on_event: called about four times a second, from a thread of its own.

    Raises:
        InputError: the job can't be started; says why.
        InterruptedRunError: stopped by a person; what was trained is saved.
        PliantError: it ran and failed.
    """
    from pliant.control.launch import LaunchOptions, launch

    options = LaunchOptions(resume=resume, in_process=in_process, verbose=verbose, on_progress=on_event)
    return summarise(launch(spec, options))


def summarise(run: RunFolder) -> RunSummary:
    """The summary of a run from its folder alone."""
    info = describe(run)
    return RunSummary(
        name=info.name,
        folder=str(run.path),
        status=info.status,
        step=info.step,
        planned_steps=info.planned_steps,
        tokens=info.tokens,
        first_loss=info.first_loss,
        last_loss=info.last_loss,
        perplexity_before=info.perplexity_before,
        perplexity_after=info.perplexity_after,
        duration_s=info.duration_s,
        restarts=info.restarts,
        checkpoint_step=info.checkpoints[-1] if info.checkpoints else None,
    )
