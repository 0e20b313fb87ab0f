"""The one module that reads environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pliant_platform.core.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the environment says.

    Attributes:
        ray_address: ``RAY_ADDRESS``: the cluster to join; empty starts a local one.
        data_wait_s: ``PLIANT_DATA_WAIT_S``: how long a worker waits for a window before it gives up.
        node_wait_s: ``PLIANT_NODE_WAIT_S``: how long a job waits for the nodes it asks for.
        home: ``PLIANT_HOME``: where run folders go when the spec names no storage.
    """

    ray_address: str = ""
    data_wait_s: float = 600.0
    node_wait_s: float = 300.0
    home: Path = Path("runs")


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from ``environ`` (default: this process's).

    Raises:
        SettingsError: a value that can't be used.
    """
    env = os.environ if environ is None else environ
    return Settings(
        ray_address=env.get("RAY_ADDRESS", ""),
        data_wait_s=_seconds(env, "PLIANT_DATA_WAIT_S", 600.0),
        node_wait_s=_seconds(env, "PLIANT_NODE_WAIT_S", 300.0),
        home=Path(env.get("PLIANT_HOME", "runs")),
    )


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    raw = env.get(name)
    if raw is None:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise SettingsError(f"{name}={raw!r} is not a number of seconds", fix=f"set it to e.g. {default:g}")
    return value
