"""The manifest: what a committed checkpoint is. Without a valid one, a checkpoint does not exist."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import xxhash

from pliant_platform.checkpoints.fragments import FileEntry
from pliant_platform.core.errors import CorruptCheckpointError

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One committed checkpoint.

    Attributes:
        step: optimizer updates done.
        position: the data cursor: the first sequence position that was *not* trained on.
        tokens: label-bearing tokens trained on so far.
        world_size: ranks that wrote it (a fact, not a condition for reading it).
        zero_stage: likewise.
        adam_step: Adam's own update count (differs from ``step`` when updates were skipped).
        spec_digest: of the job spec that wrote it.
        data_fingerprint: of the data sequence that ``position`` counts in.
        shapes: each parameter's shape, by logical name.
        files: the fragment files.
        extra: small state of other parts (early stopping, loss scale), JSON values.
        at: seconds since the epoch.
        attempt: the claim under which it was written.
    """

    step: int
    position: int
    tokens: int
    world_size: int
    zero_stage: int
    adam_step: int
    spec_digest: str
    data_fingerprint: str
    shapes: dict[str, tuple[int, ...]]
    files: tuple[FileEntry, ...]
    extra: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0
    attempt: int = 0

    @property
    def num_bytes(self) -> int:
        """Size of the fragment files together."""
        return sum(entry.num_bytes for entry in self.files)

    def digest(self) -> str:
        """One digest of the whole state: files, step, position and the small state (not time or attempt)."""
        facts = [self.step, self.position, self.tokens, self.adam_step, self.extra]
        facts += [[entry.name, entry.chunks] for entry in self.files]
        return xxhash.xxh3_64_hexdigest(json.dumps(facts, sort_keys=True))

    def to_bytes(self) -> bytes:
        """JSON with a digest of itself, so that a cut or changed manifest is known as such."""
        body = json.dumps({"format": FORMAT_VERSION, **asdict(self)}, sort_keys=True)
        return f"{body}\n{xxhash.xxh3_64_hexdigest(body)}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> Manifest:
        """Read a manifest.

        Raises:
            CorruptCheckpointError: cut, changed, or of a newer format.
        """
        lines = data.decode(errors="replace").split("\n")
        if len(lines) < 2 or xxhash.xxh3_64_hexdigest(lines[0]) != lines[1]:
            raise CorruptCheckpointError(f"{where} is cut off or was changed")
        facts = json.loads(lines[0])
        version = facts.pop("format", None)
        if version != FORMAT_VERSION:
            raise CorruptCheckpointError(
                f"{where} has format {version}; this version of pliant reads format {FORMAT_VERSION}",
                fix="read it with the version of pliant that wrote it",
            )
        facts["shapes"] = {name: tuple(shape) for name, shape in facts["shapes"].items()}
        facts["files"] = tuple(
            FileEntry(name=f["name"], num_bytes=f["num_bytes"], chunks=tuple(f["chunks"])) for f in facts["files"]
        )
        return cls(**facts)
