"""Why a group of workers failed, and how often each cause may happen before the run gives up."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pliant_platform.core.errors import FencedError, InterruptedRunError, PliantError


class Cause(enum.Enum):
    """What kind of failure it was; each kind has a budget of its own."""

    LOST = "lost"  # a worker or its node is gone: killed, pre-empted, out of memory, cut off
    PEER = "peer"  # a collective broke because another rank went: never the root cause
    BUG = "bug"  # the training code or its input
    CONTROLLER = "controller"  # placing or starting the group
    STOPPED = "stopped"  # a person asked


# What torch, gloo and NCCL say on a rank whose neighbour went away.
_PEER_SIGNS = (
    "connection closed by peer",
    "connection reset by peer",
    "connection refused",
    "broken pipe",
    "gloo",
    "nccl",
    "timed out waiting",
    "socket",
    "store->get",
    "recvvalue failed",
)
_LOST_TYPES = ("ActorDiedError", "ActorUnavailableError", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")
_CONTROLLER_TYPES = ("WorkerGroupStartupTimeoutError", "WorkerGroupStartupFailedError", "WorkerHealthCheckTimeoutError")


def classify(error: BaseException) -> Cause:
    """The cause behind one worker's (or the controller's) error."""
    chain = list(_chain(error))
    if any(isinstance(e, InterruptedRunError) for e in chain):
        return Cause.STOPPED
    if any(isinstance(e, FencedError) for e in chain):
        return Cause.PEER
    if any(isinstance(e, PliantError) for e in chain):
        return Cause.BUG
    names = {kind.__name__ for e in chain for kind in type(e).__mro__}
    if names & set(_LOST_TYPES):
        return Cause.LOST
    if names & set(_CONTROLLER_TYPES):
        return Cause.CONTROLLER
    text = " ".join(str(e).lower() for e in chain)
    if "RuntimeError" in names and any(sign in text for sign in _PEER_SIGNS):
        return Cause.PEER
    return Cause.BUG


def root_cause(errors: Iterable[BaseException]) -> tuple[Cause, BaseException] | None:
    """The error that explains the others: a bug before a lost worker before a broken collective."""
    order = [Cause.STOPPED, Cause.BUG, Cause.LOST, Cause.CONTROLLER, Cause.PEER]
    found = sorted(((classify(error), error) for error in errors), key=lambda pair: order.index(pair[0]))
    return found[0] if found else None


def _chain(error: BaseException) -> Iterable[BaseException]:
    """The error and what it wraps: Ray and Ray Train put a worker's own error into one of theirs."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        todo += [current.__cause__, current.__context__]
        todo += [getattr(current, name, None) for name in ("cause", "controller_failure", "_base_exc")]
        failures = getattr(current, "worker_failures", None)
        todo += list(failures.values()) if isinstance(failures, dict) else []
    return


def our_error(error: BaseException) -> PliantError | None:
    """The error of ours inside ``error``, if there is one."""
    return next((e for e in _chain(error) if isinstance(e, PliantError)), None)


@dataclass
class Budgets:
    """How many failures of each cause are left; the error says which one ended."""

    limits: dict[Cause, int] = field(
        default_factory=lambda: {Cause.LOST: 100, Cause.PEER: 100, Cause.CONTROLLER: 10, Cause.BUG: 0, Cause.STOPPED: 0}
    )
    used: Counter[Cause] = field(default_factory=Counter)

    def spend(self, cause: Cause) -> bool:
        """Count one failure; says whether the run may try again."""
        self.used[cause] += 1
        return self.used[cause] <= self.limits[cause]
