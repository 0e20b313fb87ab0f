"""Prepares data with Ray Data on what the trainers leave free."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pliant_data.prepare import PreparePlan, PrepareReport

if TYPE_CHECKING:
    from pliant.spec import JobSpec


def prepare_on_ray(spec: JobSpec) -> Callable[[PreparePlan, threading.Event], PrepareReport]:
    """A preparer for ``DataSide`` that runs Ray Data tasks.

    Each task takes one CPU where the trainers leave one, else none, so that a cluster whose CPUs are all
    reserved by trainers still gets its data.
    """
    import ray

    from pliant_data.ray_prepare import run_on_ray

    spare = ray.cluster_resources().get("CPU", 0.0) - spec.elastic.max_workers * spec.resources.cpus
    num_cpus = 1.0 if spare >= spec.data.workers else 0.0
    return lambda plan, stop: run_on_ray(plan, concurrency=spec.data.workers, num_cpus=num_cpus, stop=stop)
