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


def export_rank(*, rank: int, world_size: int, host: str, port: str, use_gpu: bool) -> None:
    """Tell torch and DeepSpeed where this process stands; both read it from the environment."""
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK="0", MASTER_ADDR=host, MASTER_PORT=port
    )
    if not use_gpu:
        # DeepSpeed guesses the accelerator at import; on a machine without one it must be told.
        os.environ["DS_ACCELERATOR"] = "cpu"


def export_ray_defaults(*, verbose: bool) -> None:
    """Set what Ray reads from the environment, where the person has said nothing; ``verbose`` keeps its warnings."""
    defaults = {
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # Ray's 2 s would be most of a recovery
        "RAY_TRAIN_METRICS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    if not verbose:
        defaults |= {"RAY_DATA_DISABLE_PROGRESS_BARS": "1", "RAY_DEDUP_LOGS": "1", "PYTHONWARNINGS": "ignore"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
