"""Every error that Pliant raises, as one tree.

    PliantError                      exit code 3: ran and failed
    ├── InputError                   exit code 2: bad input, nothing was started
    │   ├── SpecError                the job spec (carries every problem found)
    │   ├── SettingsError            an environment variable or a flag
    │   ├── SourceError              a data source that is missing, empty or unreadable
    │   ├── BadRecordsError          more bad records than the budget allows
    │   ├── TokenizerError           a tokenizer that can't be read or doesn't fit the model
    │   ├── ModelError               a model config that can't be built
    │   ├── RunExistsError           a run of that name is there already
    │   ├── RunBusyError             another process owns the run
    │   ├── RunNotFoundError         no run of that name
    │   └── CapacityError            the cluster can't give what the job asks for
    ├── StorageError                 reading or writing failed (disk full, read-only, I/O)
    ├── CheckpointError              a checkpoint that can't be written or used
    │   ├── CorruptCheckpointError   its bytes aren't what its manifest says
    │   └── NoCheckpointError        nothing committed to go on from
    ├── DataError                    the data side stopped
    │   └── DataStalledError         no new window within the stated wait
    ├── FencedError                  a newer owner took the run over
    ├── RayStartError                Ray can't be started or reached
    ├── TrainingFailedError          the training itself failed
    └── InterruptedRunError          exit code 130: stopped by a person

Each message says what happened, the likely causes, and what to change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class PliantError(Exception):
    """Base of every error of ours.

    Args:
        what: what happened, with the names and numbers concerned.
        causes: likely causes, most likely first.
        fix: what to do: the command to run, or the knob and its current value.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, causes: tuple[str, ...] = (), fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.causes = causes
        self.fix = fix

    def __str__(self) -> str:
        lines = [self.what]
        lines += [f"  likely cause: {cause}" for cause in self.causes]
        if self.fix:
            lines.append(f"  to fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own __reduce__ drops keyword-only arguments, and errors travel between workers.
        return _rebuild, (type(self), self.__dict__)


def _rebuild(kind: type[PliantError], state: dict[str, Any]) -> PliantError:
    error = kind.__new__(kind, state["what"])
    error.__dict__.update(state)
    return error


class InputError(PliantError):
    """The input is wrong and nothing was started."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong in a spec.

    ``where`` is the dotted key (``optimizer.lr``), ``line`` the 1-based line in the file (0: not from a file).
    """

    where: str
    what: str
    line: int = 0


class SpecError(InputError):
    """The job spec is wrong; all problems at once."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        count = f"{len(problems)} problem" + ("" if len(problems) == 1 else "s")
        rows = [
            f"  {source}:{p.line}: {p.where}: {p.what}" if p.line else f"  {p.where}: {p.what}"
            for p in problems
        ]
        super().__init__("\n".join([f"{source}: {count} in the job spec", *rows]))
        self.source = source
        self.problems = problems


class SettingsError(InputError):
    """An environment variable or a flag has a value that can't be used."""


class SourceError(InputError):
    """A data source is missing, empty or unreadable."""


class BadRecordsError(InputError):
    """More bad records than ``data.bad_records`` allows."""


class TokenizerError(InputError):
    """A tokenizer can't be read, or doesn't fit the model."""


class ModelError(InputError):
    """A model can't be built from its config."""


class RunExistsError(InputError):
    """A run of that name is there already."""


class RunBusyError(InputError):
    """Another process owns the run."""


class RunNotFoundError(InputError):
    """There is no run of that name."""


class CapacityError(InputError):
    """The cluster can't give what the job asks for."""


class StorageError(PliantError):
    """Reading or writing failed."""


class CheckpointError(PliantError):
    """A checkpoint can't be written or used."""


class CorruptCheckpointError(CheckpointError):
    """A checkpoint's bytes aren't what its manifest says."""


class NoCheckpointError(CheckpointError):
    """There is no committed checkpoint to go on from."""


class DataError(PliantError):
    """The data side stopped."""


class DataStalledError(DataError):
    """No new window came within the stated wait."""


class FencedError(PliantError):
    """A newer owner took the run over; this process must not write any more."""


class RayStartError(PliantError):
    """Ray can't be started or reached."""


class TrainingFailedError(PliantError):
    """The training failed; the message carries the first worker's error."""


class InterruptedRunError(PliantError):
    """Stopped by a person, after the last checkpoint was committed."""

    exit_code = 130
