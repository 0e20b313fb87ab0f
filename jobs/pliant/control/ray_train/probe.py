"""Looks at the cluster's nodes: Ray's list, and a direct probe of each raylet."""

from __future__ import annotations

import socket

from pliant.control.capacity import Capacity, Node, look

PROBE_TIMEOUT_S = 0.5


def look_at_cluster(*, cpus: float, gpus: float) -> Capacity:
    """What the cluster has room for now, in workers of ``cpus`` and ``gpus``."""
    import ray

    nodes = [
        Node(
            node_id=facts["NodeID"],
            address=facts["NodeManagerAddress"],
            port=facts["NodeManagerPort"],
            cpus=facts["Resources"].get("CPU", 0.0),
            gpus=facts["Resources"].get("GPU", 0.0),
        )
        for facts in ray.nodes()
        if facts["Alive"]
    ]
    return look(nodes, cpus=cpus, gpus=gpus, answers=answers)


def answers(node: Node) -> bool:
    """Whether the node's raylet accepts a connection."""
    try:
        with socket.create_connection((node.address, node.port), timeout=PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False
