"""What a worker is told, and what it answers: plain values that travel to another node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WorkerTask:
    """One job for a group of ranks.

    Attributes:
        spec_json: the resolved job spec.
        run_path: the run's folder, seen by every node.
        data_folder: the prepared data (windows that may still be growing).
        data_fingerprint: of the sequence that positions count in.
        claim: the driver's claim on the run.
        vocab_size, eos_id: of the tokenizer.
        data_wait_s: how long to wait for a window before giving up.
        cpus: threads for this rank; 0 leaves torch's default.
    """

    spec_json: str
    run_path: str
    data_folder: str
    data_fingerprint: str
    claim: int
    vocab_size: int
    eos_id: int
    data_wait_s: float
    cpus: int


@dataclass(frozen=True, kw_only=True)
class WorkerOutcome:
    """How training ended: ``done``, ``early_stopped`` or ``interrupted``.

    ``saved`` says whether the last state is in a committed checkpoint.
    """

    how: str
    step: int
    saved: bool
