"""The global batch as a list of micro-batches, dealt whole to whatever ranks exist.

Micro-batch k of a step over the positions [start, stop) holds [start + k·m, start + (k+1)·m): what is in it
never depends on the world size. Ranks differ by at most one micro-batch; every rank runs the same number of
micro-steps, because ZeRO's gathers and reductions are collective, and short ranks run a pad of weight zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """One forward and backward pass.

    Attributes:
        index: its number k in the step's global list (also a pad has one: it keys the random draws).
        tokens: int32 [m, sequence length].
        lengths: int32 [m]: tokens that are not padding; 0 for the rows of a pad.
    """

    index: int
    tokens: Array
    lengths: Array


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """What one rank computes in one step.

    Attributes:
        start, stop: the positions that the whole step covers.
        micro_batches: as many on every rank.
        num_labels: label-bearing tokens of the *whole* step, on all ranks: the loss's denominator.
    """

    start: int
    stop: int
    micro_batches: tuple[MicroBatch, ...]
    num_labels: int


def num_micro_steps(num_sequences: int, micro_batch: int, world_size: int) -> int:
    """Micro-steps that every rank runs for a step of ``num_sequences``."""
    return -(-_num_micro_batches(num_sequences, micro_batch) // world_size)


def deal(start: int, stop: int, *, micro_batch: int, rank: int, world_size: int) -> list[tuple[int, int, int]]:
    """The ``(k, first position, last position + 1)`` of the micro-batches that ``rank`` owns; pads are empty ranges.

    Contiguous shares, the larger ones first; each position in exactly one share, whatever the world size.
    """
    count = _num_micro_batches(stop - start, micro_batch)
    share, extra = divmod(count, world_size)
    first = rank * share + min(rank, extra)
    own = range(first, first + share + (rank < extra))
    dealt = [(k, start + k * micro_batch, min(start + (k + 1) * micro_batch, stop)) for k in own]
    pads = num_micro_steps(stop - start, micro_batch, world_size) - len(dealt)
    return dealt + [(count + rank, stop, stop)] * pads


def _num_micro_batches(num_sequences: int, micro_batch: int) -> int:
    return -(-num_sequences // micro_batch)
