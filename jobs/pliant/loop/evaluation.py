"""Evaluation on the held-out set: when, on what, and when patience ends."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.engine import MicroBatch
from pliant.loop.cursor import Cursor


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """When to evaluate and on what.

    Attributes:
        every_steps: None: never.
        patience: evaluations without a better loss after which the run stops; None: never.
        micro_batches: this rank's share of the held-out set; as many on every rank.
        num_labels: label-bearing tokens of the whole set.
    """

    every_steps: int | None
    patience: int | None
    micro_batches: tuple[MicroBatch, ...]
    num_labels: int

    @property
    def possible(self) -> bool:
        """Whether there is anything to evaluate on, and a wish to."""
        return self.every_steps is not None and self.num_labels > 0

    def due(self, step: int) -> bool:
        """Whether to evaluate after ``step`` steps."""
        return self.every_steps is not None and step % self.every_steps == 0

    def exhausted(self, cursor: Cursor) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and cursor.bad_evals >= self.patience
