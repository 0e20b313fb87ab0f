"""Our answers to Ray Train's two questions: how large, and what after a failure.

Stock Ray Train trusts reservations that are up to 20 s old and then waits 60 s for a placement group that counts
a dead node. Ours looks at the nodes that really answer, and starts as soon as the size is there again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ray.train.v2._internal.execution.failure_handling.failure_policy import FailureDecision, FailurePolicy
from ray.train.v2._internal.execution.scaling_policy import NoopDecision, ResizeDecision, ScalingDecision, ScalingPolicy
from ray.train.v2.api.config import FailureConfig, ScalingConfig
from ray.train.v2.api.exceptions import TrainingFailedError

from pliant.control.budgets import Budgets, Cause, root_cause
from pliant.control.capacity import Capacity, choose_size
from pliant.control.ray_train.probe import look_at_cluster
from pliant.runs import RunFolder
from pliant_platform.core.errors import InterruptedRunError

POLL_S = 0.25
PATIENCE_S = 10.0
ROOT_CAUSE_WAIT_S = 5.0


class SizeFromLiveNodes(ScalingPolicy):  # type: ignore[misc]
    """Starts the group at a size that live nodes can hold; says what it waits for until then."""

    def __init__(self, scaling_config: ScalingConfig, *, run_path: str, smallest: int, largest: int) -> None:
        super().__init__(scaling_config)
        self._run = RunFolder(Path(run_path))
        self._smallest = smallest
        self._largest = largest
        self._waiting_since: float | None = None
        self._said = ""

    def make_decision_for_non_running_worker_group(self) -> ScalingDecision:
        """Ray Train asks again and again while no group runs: at the start and after a failure."""
        reason = self._run.stop_requested()
        if reason is not None:
            raise InterruptedRunError(f"stopped while it waited for nodes ({reason})")
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        capacity = look_at_cluster(cpus=self._resources.get("CPU", 0), gpus=self._resources.get("GPU", 0))
        size = choose_size(
            capacity,
            smallest=self._smallest,
            largest=self._largest,
            waited_s=now - self._waiting_since,
            patience_s=PATIENCE_S,
        )
        if size is None:
            self._say(capacity)
            time.sleep(POLL_S)  # the controller's loop has no pause of its own here
            return NoopDecision()
        self._waiting_since, self._said = None, ""
        self._run.ledger.write("group_sized", world_size=size, nodes=[node.address for node in capacity.live])
        return ResizeDecision(num_workers=size, resources_per_worker=self._resources)

    def make_decision_for_running_worker_group(self, worker_group_state: Any, worker_group_status: Any) -> ScalingDecision:
        """A running group keeps its size."""
        return NoopDecision()

    def _get_num_workers_for_resource_request(self) -> int:
        """What Ray's autoscaler is asked for."""
        return self._largest

    @property
    def _resources(self) -> dict[str, float]:
        return dict(self.scaling_config.resources_per_worker or {})

    def _say(self, capacity: Capacity) -> None:
        """One ledger line each time that what is there changes."""
        what = capacity.describe()
        if what != self._said:
            self._said = what
            self._run.ledger.write(
                "waiting_for_nodes", have=capacity.slots, want=self._largest, least=self._smallest, nodes=what
            )


class RetryByCause(FailurePolicy):  # type: ignore[misc]
    """Restarts the group after a lost worker; a bug ends the run at once; each cause has its own budget."""

    def __init__(self, failure_config: FailureConfig, *, run_path: str) -> None:
        super().__init__(failure_config)
        self._run = RunFolder(Path(run_path))
        self._budgets = Budgets()
        self._seen_at: float | None = None

    def make_decision(self, training_failed_error: TrainingFailedError) -> FailureDecision:
        """Ray Train asks at each poll that finds an error."""
        failures: dict[int, BaseException] = getattr(training_failed_error, "worker_failures", {})
        found = root_cause(failures.values() or [training_failed_error])
        cause, error = found or (Cause.BUG, training_failed_error)
        if cause is Cause.PEER and self._may_still_learn_more():
            return FailureDecision.NOOP
        self._seen_at = None
        again = self._budgets.spend(cause)
        self._run.ledger.write(
            "worker_lost" if cause in (Cause.LOST, Cause.PEER) else "group_failed",
            cause=cause.value,
            ranks=sorted(failures),
            message=str(error).strip().splitlines()[-1][:500] if str(error).strip() else type(error).__name__,
            failures_so_far=self._budgets.used[cause],
            limit=self._budgets.limits[cause],
            then="restart" if again else "give up",
        )
        return FailureDecision.RETRY if again else FailureDecision.RAISE

    def _may_still_learn_more(self) -> bool:
        """A broken collective is a consequence: wait a moment for the rank that caused it to be reported."""
        now = time.monotonic()
        self._seen_at = self._seen_at or now
        return now - self._seen_at < ROOT_CAUSE_WAIT_S
