"""The ledger: what happened to a run, one JSON object a line, append-only.

A run can be told from its ledger alone. Each line has at least ``at`` (seconds since the epoch), ``kind``
and ``v`` (format version). Several processes may append: a line is one ``write`` in append mode.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pliant_platform.core.clock import Clock, SystemClock
from pliant_platform.core.storage import storage_error

LEDGER_VERSION = 1


class Ledger:
    """Appends events to one file."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()

    def write(self, kind: str, **facts: Any) -> dict[str, Any]:
        """Append one event and give it back.

        Raises:
            StorageError: the line couldn't be written.
        """
        event = {"at": round(self._clock.now(), 3), "kind": kind, "v": LEDGER_VERSION, **facts}
        append_line(self.path, event)
        return event

    def events(self) -> list[dict[str, Any]]:
        """All whole events so far, oldest first."""
        return list(read_lines(self.path))


def append_line(path: Path, value: dict[str, Any]) -> None:
    """Append ``value`` as one JSON line, in one write.

    A line that an earlier writer left cut off (a kill, a full disk) is closed first, so that it spoils only itself.

    Raises:
        StorageError: the line couldn't be written.
    """
    data = (json.dumps(value, default=str, allow_nan=False) + "\n").encode()
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            end = os.lseek(handle, 0, os.SEEK_END)
            if end and os.pread(handle, 1, end - 1) != b"\n":
                data = b"\n" + data
            os.write(handle, data)
        finally:
            os.close(handle)
    except OSError as error:
        raise storage_error("append to", path, error) from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Each whole JSON object of the file at ``path``; a cut-off line is passed over; no file gives nothing."""
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
