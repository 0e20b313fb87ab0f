"""The feed: the next steps' micro-batches, read ahead in one thread while the engine computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np

from pliant.engine.batch import MicroBatch, StepBatch, deal
from pliant.loop.cursor import StepPlan
from pliant_data.stream import Stream
from pliant_platform.core.errors import PliantError

READ_AHEAD_STEPS = 2


class Feed:
    """Gives this rank its share of each step, in order.

    Args:
        stream: the training sequences.
        plan: which positions each step covers.
        first_step: the 0-based step to begin with.
        micro_batch: sequences of a micro-batch.
        rank, world_size: whose share.
    """

    def __init__(
        self, stream: Stream, plan: StepPlan, *, first_step: int, micro_batch: int, rank: int, world_size: int
    ) -> None:
        self._stream = stream
        self._plan = plan
        self._micro_batch = micro_batch
        self._rank = rank
        self._world_size = world_size
        self._ready: queue.Queue[StepBatch | PliantError] = queue.Queue(maxsize=READ_AHEAD_STEPS)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_ahead, args=(first_step,), name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()

    def next(self) -> StepBatch:
        """The next step's share.

        Raises:
            DataError: the data side stopped; the error says why.
        """
        item = self._ready.get()
        if isinstance(item, PliantError):
            raise item
        return item

    def lead_steps(self, step: int) -> float:
        """How many steps the sealed data is ahead of ``step``."""
        total = self._stream.num_total()
        sealed = self._plan.end if total is not None else self._stream.num_sealed()
        return max(0.0, sealed / self._plan.global_batch - step)

    def _read_ahead(self, first_step: int) -> None:
        for step in range(first_step, self._plan.num_steps):
            item: StepBatch | PliantError
            try:
                item = read_share(
                    self._stream,
                    *self._plan.span(step),
                    micro_batch=self._micro_batch,
                    rank=self._rank,
                    world_size=self._world_size,
                )
            except PliantError as error:
                item = error
            if not self._put(item) or isinstance(item, PliantError):
                return

    def _put(self, item: StepBatch | PliantError) -> bool:
        while not self._stop.is_set():
            try:
                self._ready.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False


def read_share(stream: Stream, start: int, stop: int, *, micro_batch: int, rank: int, world_size: int) -> StepBatch:
    """``rank``'s share of the step over [start, stop), read from ``stream``."""
    shares = deal(start, stop, micro_batch=micro_batch, rank=rank, world_size=world_size)
    lengths = stream.lengths(start, stop)
    return StepBatch(
        start=start,
        stop=stop,
        micro_batches=tuple(_micro_batches(stream, shares)),
        num_labels=int(np.maximum(lengths - 1, 0).sum()),
    )


def _micro_batches(stream: Stream, shares: list[tuple[int, int, int]]) -> Iterator[MicroBatch]:
    for index, first, last in shares:
        if first == last:
            # A pad: shapes as small as they can be, weight zero.
            tokens = np.zeros((1, stream.sequence_length), dtype=np.int32)
            yield MicroBatch(index=index, tokens=tokens, lengths=np.zeros(1, dtype=np.int32))
        else:
            batch = stream.read(first, last)
            yield MicroBatch(index=index, tokens=batch.tokens, lengths=batch.lengths)
