"""Where a run stands, and how far it goes: integers that do not know the world size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pliant_platform.checkpoints.manifest import Manifest

if TYPE_CHECKING:
    from pliant.spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """Which positions each step covers, and which step is the last.

    Attributes:
        global_batch: sequences a step.
        end: the first position that is not trained on; the last step may be shorter.
    """

    global_batch: int
    end: int

    @classmethod
    def of(cls, spec: JobSpec, num_sequences: int | None) -> StepPlan:
        """The plan of a job.

        Args:
            spec: the job.
            num_sequences: sequences of one epoch; needed only when the job stops by epochs.
        """
        batch = spec.global_batch
        if spec.stop.steps is not None:
            return cls(global_batch=batch, end=spec.stop.steps * batch)
        if spec.stop.tokens is not None:
            return cls(global_batch=batch, end=-(-spec.stop.tokens // (batch * spec.sequence_length)) * batch)
        if num_sequences is None or spec.stop.epochs is None:
            raise ValueError("a job that stops by epochs needs the number of sequences of one")
        return cls(global_batch=batch, end=round(spec.stop.epochs * num_sequences))

    @property
    def num_steps(self) -> int:
        """Steps of the whole run."""
        return -(-self.end // self.global_batch)

    def span(self, step: int) -> tuple[int, int]:
        """The positions [start, stop) of 0-based ``step``."""
        return step * self.global_batch, min((step + 1) * self.global_batch, self.end)


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """Where the run stands at a step border: all of the state that is not in the engine.

    Attributes:
        step: optimizer steps done.
        tokens: label-bearing tokens trained on.
        best_eval, bad_evals: early stopping: the best evaluation loss, and evaluations since without a better one.
    """

    step: int = 0
    tokens: int = 0
    best_eval: float | None = None
    bad_evals: int = 0

    def after_step(self, num_labels: int) -> Cursor:
        """One step further."""
        return replace(self, step=self.step + 1, tokens=self.tokens + num_labels)

    def after_evaluation(self, loss: float) -> Cursor:
        """With one more evaluation counted."""
        if self.best_eval is None or loss < self.best_eval:
            return replace(self, best_eval=loss, bad_evals=0)
        return replace(self, bad_evals=self.bad_evals + 1)

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Cursor:
        """As it was when the checkpoint was written."""
        return cls(
            step=manifest.step,
            tokens=manifest.tokens,
            best_eval=manifest.extra.get("best_eval"),
            bad_evals=int(manifest.extra.get("bad_evals", 0)),
        )

    def small_state(self) -> dict[str, Any]:
        """What goes into the manifest beside step and tokens."""
        return {"best_eval": self.best_eval, "bad_evals": self.bad_evals}
