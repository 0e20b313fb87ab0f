"""Durable writes on a file system: whole, or not there.

Everything that must survive a power cut or a full disk goes through here. A path is a folder that every
node sees (a local disk on one machine; NFS, Lustre or a mounted bucket on a cluster).
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from pliant_platform.core.errors import StorageError


def ensure_folder(path: Path) -> Path:
    """Make ``path`` and prove that it can be written.

    Raises:
        StorageError: it can't be made or written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{uuid.uuid4().hex}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise storage_error("write to the folder", path, error) from error
    return path


def write_atomic(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``: readers see the old bytes or the new ones, never a part.

    Raises:
        StorageError: the bytes couldn't be written; what was there before is intact.
    """
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write_synced(draft, data)
        os.replace(draft, path)
        sync_folder(path.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise storage_error("write", path, error) from error


def put_if_absent(path: Path, data: bytes) -> bool:
    """Put ``data`` at ``path`` unless something is there; says whether this caller was the one.

    The bytes are whole when the name appears: the draft is linked, not written in place.

    Raises:
        StorageError: the bytes couldn't be written.
    """
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write_synced(draft, data)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        sync_folder(path.parent)
        return True
    except OSError as error:
        raise storage_error("write", path, error) from error
    finally:
        draft.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Make the names in ``path`` durable (a renamed file may else vanish at a power cut)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: Path) -> Any:
    """The JSON value at ``path``.

    Raises:
        StorageError: missing, unreadable or not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise storage_error("read", path, error) from error
    except ValueError as error:
        raise StorageError(f"{path} is not valid JSON: {error}") from error


def storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """An operating-system error as one that says what to do."""
    hints = {
        28: "free some space, or point `storage` to a larger disk",
        122: "the disk quota is used up: free some space, or point `storage` elsewhere",
        30: "the file system is read-only: point `storage` to a writable one",
        13: "check the owner and the permissions, or point `storage` elsewhere",
    }
    reason = error.strerror or str(error)
    return StorageError(
        f"can't {action} {path}: {reason}", fix=hints.get(error.errno or 0, "check the path and the disk")
    )


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
