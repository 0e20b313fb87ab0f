"""How many workers the cluster has room for now, and the size to start with: both pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node as the cluster knows it.

    Attributes:
        node_id: Ray's id.
        address, port: of its raylet.
        cpus, gpus: in total.
    """

    node_id: str
    address: str
    port: int
    cpus: float
    gpus: float


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What a look at the cluster gave.

    Attributes:
        slots: workers that fit on nodes that answer.
        live, silent: nodes that answer, and nodes that the cluster still lists but that don't.
    """

    slots: int
    live: tuple[Node, ...]
    silent: tuple[Node, ...]

    def describe(self) -> str:
        """For a person: what is there."""
        rows = ", ".join(f"{n.address} ({n.cpus:g} CPUs, {n.gpus:g} GPUs)" for n in self.live) or "no node with resources"
        gone = f"; not answering: {', '.join(n.address for n in self.silent)}" if self.silent else ""
        return rows + gone


def look(nodes: Sequence[Node], *, cpus: float, gpus: float, answers: Callable[[Node], bool]) -> Capacity:
    """What fits, counting only nodes that answer a direct probe (the cluster's own list lags by seconds).

    Args:
        nodes: the nodes that the cluster lists as alive.
        cpus, gpus: of one worker.
        answers: the probe.
    """
    live = tuple(node for node in nodes if answers(node))
    silent = tuple(node for node in nodes if node not in live)
    slots = sum(_fits(node, cpus, gpus) for node in live)
    return Capacity(slots=slots, live=live, silent=silent)


def choose_size(capacity: Capacity, *, smallest: int, largest: int, waited_s: float, patience_s: float) -> int | None:
    """The world size to start with, or None: wait.

    The largest at once when there is room; after ``patience_s`` a smaller one that is still allowed. While a node
    is listed but silent nothing is started: a reservation could land on it.
    """
    if capacity.silent:
        return None
    if capacity.slots >= largest:
        return largest
    if capacity.slots >= smallest and waited_s >= patience_s:
        return capacity.slots
    return None


def _fits(node: Node, cpus: float, gpus: float) -> int:
    by_cpu = int(node.cpus / cpus) if cpus else None
    by_gpu = int(node.gpus / gpus) if gpus else None
    limits = [limit for limit in (by_cpu, by_gpu) if limit is not None]
    return min(limits) if limits else 1
