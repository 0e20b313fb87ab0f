"""Where checkpoints are committed: stage, write, manifest last.

One folder a checkpoint, named by its step and the attempt that wrote it, so that the leftovers of a dead
attempt never mix with the retry's. Ranks write their fragment files; when all are durable, one rank writes
the manifest atomically. Anything without a valid manifest does not exist.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pliant_platform.checkpoints.fragments import MASTER, Array, FileEntry, FragmentReader, verify_file, write_fragments
from pliant_platform.checkpoints.manifest import Manifest
from pliant_platform.core.errors import CheckpointError, CorruptCheckpointError
from pliant_platform.core.storage import ensure_folder, storage_error, write_atomic

MANIFEST_NAME = "manifest.json"
_FOLDER = re.compile(r"step-(\d{8})\.a(\d{4,})$")


@dataclass(frozen=True, kw_only=True)
class CheckpointInfo:
    """One folder of the store: committed (``manifest``), unfinished, or broken (``problem`` says why)."""

    folder: Path
    step: int
    manifest: Manifest | None
    problem: str = ""
    unfinished: bool = False


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        root: the folder that holds them.
        on_event: told ``(kind, facts)`` when a checkpoint is quarantined; the ledger's ``write`` fits.
    """

    def __init__(self, root: Path, *, on_event: Callable[..., object] | None = None) -> None:
        self.root = root
        self._on_event = on_event

    def entries(self) -> list[CheckpointInfo]:
        """Every checkpoint folder, oldest step first; nothing but the manifests is read."""
        if not self.root.is_dir():
            return []
        found = []
        for folder in self.root.iterdir():
            match = _FOLDER.fullmatch(folder.name)
            if match:
                found.append((int(match[1]), int(match[2]), folder))
        return [self._entry(step, folder) for step, _attempt, folder in sorted(found)]

    def committed(self) -> list[Manifest]:
        """The manifests of every committed checkpoint, oldest step first."""
        return [entry.manifest for entry in self.entries() if entry.manifest]

    def latest(self) -> Manifest | None:
        """The newest checkpoint whose every byte is what its manifest says; None when there is none at all.

        A broken one is put aside (renamed ``….bad``, kept) and the one before it is taken.

        Raises:
            CheckpointError: there were checkpoints, and none of them is whole. Never a silent fresh start.
        """
        broken: list[str] = []
        for entry in reversed(self.entries()):
            if entry.unfinished:
                continue  # a save without a manifest does not exist
            try:
                if entry.manifest is None:
                    raise CorruptCheckpointError(entry.problem)
                self.verify(entry.manifest)
            except CorruptCheckpointError as error:
                broken.append(str(error))
                self._quarantine(entry, error)
                continue
            return entry.manifest
        if broken:
            raise CheckpointError(
                "none of the checkpoints is whole:\n  " + "\n  ".join(broken),
                causes=("the disk or the transfer damaged them", "files were changed by hand"),
                fix=f"put a good copy back into {self.root}, or start again under another name",
            )
        return None

    def verify(self, manifest: Manifest) -> None:
        """Read every file of a checkpoint and compare it with its manifest.

        Raises:
            CorruptCheckpointError: naming the file and the bytes.
        """
        for entry in manifest.files:
            verify_file(self.folder_of(manifest), entry)

    def folder_of(self, manifest: Manifest) -> Path:
        """Where a committed checkpoint lies."""
        return self._folder(manifest.step, manifest.attempt)

    def write_rank(self, step: int, attempt: int, rank: int, fragments: Iterable[tuple[str, str, int, Array]]) -> None:
        """Write what ``rank`` owns, durably, beside the other ranks' files. Not committed yet.

        Raises:
            StorageError: the bytes couldn't be written.
        """
        folder = ensure_folder(self._folder(step, attempt))
        entry = write_fragments(folder / f"rank-{rank:05d}.safetensors", fragments)
        write_atomic(folder / f"rank-{rank:05d}.json", json.dumps(asdict(entry)).encode())

    def rank_files(self, step: int, attempt: int, world_size: int) -> tuple[FileEntry, ...]:
        """What the ranks wrote, for the manifest.

        Raises:
            CheckpointError: a rank's file is missing.
        """
        folder = self._folder(step, attempt)
        entries = []
        for rank in range(world_size):
            path = folder / f"rank-{rank:05d}.json"
            try:
                facts = json.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                raise CheckpointError(f"rank {rank} of {world_size} left no readable {path}") from error
            entries.append(
                FileEntry(name=facts["name"], num_bytes=facts["num_bytes"], chunks=tuple(facts["chunks"]))
            )
        return tuple(entries)

    def commit(self, manifest: Manifest) -> None:
        """Make the checkpoint exist.

        Raises:
            StorageError: the manifest couldn't be written; earlier checkpoints are intact.
        """
        write_atomic(self.folder_of(manifest) / MANIFEST_NAME, manifest.to_bytes())

    def discard(self, step: int, attempt: int) -> None:
        """Drop the files of a save that failed, so that a full disk gets its space back."""
        shutil.rmtree(self._folder(step, attempt), ignore_errors=True)

    def prune(self, keep: int, *, own_attempt: int) -> None:
        """Keep the newest ``keep`` committed checkpoints; drop older ones and the leftovers of dead attempts.

        The manifest goes first, so that a kill on the way leaves nothing that looks committed.
        """
        entries = self.entries()
        committed = [entry for entry in entries if entry.manifest]
        stale = [e for e in entries if e.unfinished and not e.folder.name.endswith(f".a{own_attempt:04d}")]
        for entry in committed[: max(0, len(committed) - keep)] + stale:
            (entry.folder / MANIFEST_NAME).unlink(missing_ok=True)
            shutil.rmtree(entry.folder, ignore_errors=True)

    def reader(self, manifest: Manifest) -> FragmentReader:
        """A reader over a (verified) checkpoint, for any number of ranks and any ZeRO stage."""
        folder = self.folder_of(manifest)
        return FragmentReader([folder / entry.name for entry in manifest.files], manifest.shapes)

    def read_parameters(self, manifest: Manifest) -> dict[str, Array]:
        """The fp32 weights of a checkpoint, whole, by parameter name."""
        with self.reader(manifest) as reader:
            return {
                name: reader.read(name, MASTER, 0, int(np.prod(shape, dtype=np.int64))).reshape(shape)
                for name, shape in manifest.shapes.items()
            }

    def _folder(self, step: int, attempt: int) -> Path:
        return self.root / f"step-{step:08d}.a{attempt:04d}"

    def _entry(self, step: int, folder: Path) -> CheckpointInfo:
        path = folder / MANIFEST_NAME
        try:
            manifest = Manifest.from_bytes(path.read_bytes(), where=str(path))
        except FileNotFoundError:
            return CheckpointInfo(folder=folder, step=step, manifest=None, problem="no manifest", unfinished=True)
        except OSError as error:
            raise storage_error("read", path, error) from error
        except CorruptCheckpointError as error:
            return CheckpointInfo(folder=folder, step=step, manifest=None, problem=str(error))
        return CheckpointInfo(folder=folder, step=step, manifest=manifest)

    def _quarantine(self, entry: CheckpointInfo, error: CorruptCheckpointError) -> None:
        aside = entry.folder.with_name(entry.folder.name + ".bad")
        if not aside.exists():
            entry.folder.rename(aside)
        if self._on_event:
            self._on_event("checkpoint_quarantined", step=entry.step, reason=str(error), kept_at=str(aside))
