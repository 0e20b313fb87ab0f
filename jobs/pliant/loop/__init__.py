"""The training loop and what stands around it: the feed of batches, the saver and the clock of steps."""

from pliant.loop.cursor import Cursor, StepPlan
from pliant.loop.evaluation import Evaluation
from pliant.loop.feed import Feed, read_share
from pliant.loop.saver import Saver
from pliant.loop.train import Outcome, Recorder, train

__all__ = ["Cursor", "Evaluation", "Feed", "Outcome", "Recorder", "Saver", "StepPlan", "read_share", "train"]
