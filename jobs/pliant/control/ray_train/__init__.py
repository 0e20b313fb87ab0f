"""The one adapter to Ray Train's private parts: everything of Ray's that may move stands in this package."""

from pliant.control.ray_train.host import RayHost
from pliant.control.ray_train.session import ray_session

__all__ = ["RayHost", "ray_session"]
