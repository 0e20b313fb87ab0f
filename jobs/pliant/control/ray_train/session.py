"""Starting or joining Ray, quietly, and leaving it as it was found."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pliant_platform.core.errors import RayStartError
from pliant_platform.core.settings import Settings, export_ray_defaults

if TYPE_CHECKING:
    from pliant.spec import JobSpec


@contextmanager
def ray_session(spec: JobSpec, settings: Settings, *, verbose: bool) -> Iterator[None]:
    """Ray, joined (``RAY_ADDRESS``, or one that this process has already joined) or started on this machine.

    One that was started here is shut down at the end; one that was there is left as it is.

    Raises:
        RayStartError: it can't be started or reached.
    """
    export_ray_defaults(verbose=verbose)
    import ray

    if ray.is_initialized():
        yield
        return
    quiet = logging.INFO if verbose else logging.ERROR
    options = {"log_to_driver": verbose, "logging_level": quiet, "configure_logging": True}
    try:
        if settings.ray_address:
            ray.init(address=settings.ray_address, **options)
        else:
            ray.init(num_cpus=_local_cpus(spec), include_dashboard=False, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise RayStartError(
            f"Ray can't be {'reached at ' + settings.ray_address if settings.ray_address else 'started here'}: {error}",
            causes=_causes(settings),
            fix="run `ray status` with the same RAY_ADDRESS, or `pliant train … --in-process` to do without Ray",
        ) from error
    quiet_ray_logs(verbose=verbose)
    try:
        yield
    finally:
        ray.shutdown()


def quiet_ray_logs(*, verbose: bool) -> None:
    """Keep Ray's own chatter off the terminal; ``-v`` brings it back."""
    if verbose:
        return
    for name in ("ray", "ray.data", "ray.train", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _local_cpus(spec: JobSpec) -> int:
    """Logical CPUs for a Ray of our own: all workers plus the data tasks fit, whatever the machine has."""
    needed = math.ceil(spec.elastic.max_workers * spec.resources.cpus) + spec.data.workers
    return max(needed, os.cpu_count() or 1)


def _causes(settings: Settings) -> tuple[str, ...]:
    if settings.ray_address:
        return ("no Ray head listens there", "the cluster asks for a token that this machine doesn't have")
    return ("the temp folder is full or its path is too long", "another Ray's files of another user are in the way")
