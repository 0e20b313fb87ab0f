"""The training engine: a process group, a DeepSpeed engine over it, and the state inside, all in our hands.

Built and torn down here and nowhere else, so that a living worker can form a new one.
"""

from pliant.engine.batch import MicroBatch, StepBatch, deal, num_micro_steps
from pliant.engine.engine import Engine, StepResult
from pliant.engine.group import Group, dissolve_group, form_group

__all__ = [
    "Engine",
    "Group",
    "MicroBatch",
    "StepBatch",
    "StepResult",
    "deal",
    "dissolve_group",
    "form_group",
    "num_micro_steps",
]
