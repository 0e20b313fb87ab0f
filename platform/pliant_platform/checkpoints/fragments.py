"""Fragments: the pieces of a model's training state that one rank owns, in one self-describing file.

A fragment is a run of elements of one flattened parameter (``name``, ``offset``, ``length``) of one ``kind``:
the fp32 master weights or one of Adam's two moments. It says nothing of ranks or ZeRO stages, which is what
makes a checkpoint shapeless: a reader asks for ranges of parameters, wherever they were written.

A file is a plain safetensors file (fp32), one tensor a fragment, keyed ``name|kind|offset``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import xxhash

from pliant_platform.core.errors import CorruptCheckpointError
from pliant_platform.core.storage import storage_error

CHUNK_BYTES = 4 << 20
MASTER, EXP_AVG, EXP_AVG_SQ = "master", "exp_avg", "exp_avg_sq"
KINDS = (MASTER, EXP_AVG, EXP_AVG_SQ)

Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file of a checkpoint as its manifest knows it: a digest (xxh3, 64 bit, hex) per chunk of 4 MiB."""

    name: str
    num_bytes: int
    chunks: tuple[str, ...]


def fragment_key(name: str, kind: str, offset: int) -> str:
    """The tensor name of a fragment inside its file."""
    return f"{name}|{kind}|{offset}"


def write_fragments(path: Path, fragments: Iterable[tuple[str, str, int, Array]]) -> FileEntry:
    """Write ``(name, kind, offset, values)`` fragments to ``path``, durably, and digest what was written.

    Raises:
        StorageError: the bytes couldn't be written (disk full, read-only …).
    """
    from safetensors.numpy import save

    data = save({fragment_key(name, kind, offset): values for name, kind, offset, values in fragments})
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise storage_error("write the checkpoint file", path, error) from error
    view = memoryview(data)
    chunks = tuple(_digest(view[i : i + CHUNK_BYTES]) for i in range(0, len(view), CHUNK_BYTES))
    return FileEntry(name=path.name, num_bytes=len(data), chunks=chunks)


def verify_file(folder: Path, entry: FileEntry) -> None:
    """Read the whole file once and compare it with its entry.

    Raises:
        CorruptCheckpointError: missing, of another size, or with a chunk that isn't what was written.
    """
    path = folder / entry.name
    try:
        size = path.stat().st_size
        if size != entry.num_bytes:
            raise CorruptCheckpointError(f"{path} has {size} bytes; its manifest says {entry.num_bytes}")
        with open(path, "rb") as file:
            for index, expected in enumerate(entry.chunks):
                if _digest(file.read(CHUNK_BYTES)) != expected:
                    raise CorruptCheckpointError(
                        f"{path}: bytes {index * CHUNK_BYTES} to {(index + 1) * CHUNK_BYTES} aren't what was written"
                    )
    except FileNotFoundError as error:
        raise CorruptCheckpointError(f"{path} is missing; its manifest lists it") from error
    except OSError as error:
        raise storage_error("read the checkpoint file", path, error) from error


class FragmentReader:
    """Reads ranges of parameters out of the files of one verified checkpoint.

    Args:
        paths: the fragment files, in any order.
        shapes: each parameter's shape, by name.
    """

    def __init__(self, paths: Sequence[Path], shapes: dict[str, tuple[int, ...]]) -> None:
        from safetensors import safe_open

        self.shapes = shapes
        self._files: list[Any] = []
        self._pieces: dict[tuple[str, str], list[tuple[int, int, Any, str]]] = {}
        for path in paths:
            file = safe_open(path, framework="numpy")
            self._files.append(file)
            for key in file.keys():  # noqa: SIM118 (not a dict: it can't be iterated)
                name, kind, offset = key.rsplit("|", 2)
                length = file.get_slice(key).get_shape()[0]
                self._pieces.setdefault((name, kind), []).append((int(offset), length, file, key))
        for pieces in self._pieces.values():
            pieces.sort(key=lambda piece: piece[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._pieces.clear()
        self._files.clear()

    def numel(self, name: str) -> int:
        """How many elements the parameter has."""
        return int(np.prod(self.shapes[name], dtype=np.int64))

    def read(self, name: str, kind: str, start: int, stop: int) -> Array:
        """Elements ``[start, stop)`` of the flattened parameter, fp32.

        Raises:
            CorruptCheckpointError: some of them are in none of the files.
        """
        out = np.empty(stop - start, dtype=np.float32)
        reached = start
        for offset, length, file, key in self._pieces.get((name, kind), ()):
            low, high = max(offset, reached), min(offset + length, stop)
            if low >= high:
                continue
            if low != reached:
                break
            out[low - start : high - start] = file.get_slice(key)[low - offset : high - offset]
            reached = high
        if reached != stop:
            raise CorruptCheckpointError(f"{name} ({kind}): elements {reached} to {stop} are in none of the files")
        return out


def _digest(data: bytes | memoryview) -> str:
    return xxhash.xxh3_64_hexdigest(data)
