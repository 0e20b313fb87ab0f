"""The driver of one run: check, own the name, prepare the data, host the workers, tell how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.control.data_side import DataSide
from pliant.control.in_process import InProcessHost
from pliant.control.interrupt import interruptible
from pliant.control.preflight import Preflight, check_job
from pliant.runs import Claim, ProgressView, RunFolder, RunFollower
from pliant.worker import WorkerTask
from pliant_data.prepare import wait_until
from pliant_platform.checkpoints.store import CheckpointStore
from pliant_platform.core.clock import SystemClock
from pliant_platform.core.errors import (
    CapacityError,
    InputError,
    InterruptedRunError,
    NoCheckpointError,
    PliantError,
    RunExistsError,
)
from pliant_platform.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from pliant.spec import JobSpec

OnProgress = Callable[[ProgressView], None]
FOLLOW_EVERY_S = 0.25


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How to run a job.

    Attributes:
        resume: go on from the last committed checkpoint of a run of that name.
        in_process: in this process, without Ray.
        verbose: keep Ray's logs.
        on_progress: called about four times a second from a thread of its own.
    """

    resume: bool = False
    in_process: bool = False
    verbose: bool = False
    on_progress: OnProgress | None = None


def launch(spec: JobSpec, options: LaunchOptions) -> RunFolder:
    """Run a job to its end; the run's folder tells the rest.

    Raises:
        InputError: nothing was started, or the data turned out to be unusable before training.
        InterruptedRunError: stopped by a person.
        PliantError: it ran and failed.
    """
    settings = load_settings()
    ready = check_job(spec)
    run = _open(spec, resume=options.resume)
    claim = run.claim(SystemClock())
    outcome = "failed"
    try:
        run.clear_stop()
        run.ledger.write("run_started", spec_digest=spec.digest(), resumed=options.resume, claim=claim.number)
        with _followed(run, spec, claim, options.on_progress):
            _run(spec, ready, run, claim, options, settings)
        outcome = _ending(run)
        if outcome == "interrupted":
            raise InterruptedRunError(_interrupted_text(run))
    except PliantError as error:
        outcome = "interrupted" if isinstance(error, InterruptedRunError) else "failed"
        _tell_failure(run, error)
        raise
    finally:
        claim.release(outcome)
    return run


def _open(spec: JobSpec, *, resume: bool) -> RunFolder:
    """The run's folder: a new one, or with ``resume`` the one that is there."""
    storage = Path(spec.storage)
    if not resume:
        return RunFolder.create(storage, spec.name, spec.to_json())
    run = RunFolder.open(storage, spec.name)
    run.accept_spec(spec)
    if not CheckpointStore(run.checkpoints_path).entries() and run.has_trained():
        raise NoCheckpointError(
            f"run {spec.name!r} has no checkpoint to go on from",
            causes=("it ended before the first save", "its checkpoints were removed"),
            fix="start it again under another name (`--set name=…`), or remove its folder first",
        )
    return run


def _run(
    spec: JobSpec, ready: Preflight, run: RunFolder, claim: Claim, options: LaunchOptions, settings: Settings
) -> None:
    with interruptible(run.request_stop, raise_on_second=options.in_process) as leave_now:
        if options.in_process:
            with DataSide(ready.data) as data:
                _wait_for_data(spec, ready, run, data, settings)
                InProcessHost(spec, _task(spec, ready, run, claim, settings)).run(leave_now)
            return
        from pliant.control.ray_train import RayHost, ray_session
        from pliant.control.ray_train.data import prepare_on_ray

        with ray_session(spec, settings, verbose=options.verbose):
            _wait_for_nodes(spec, run, settings)
            with DataSide(ready.data, prepare_on_ray(spec)) as data:
                _wait_for_data(spec, ready, run, data, settings)
                RayHost(spec, _task(spec, ready, run, claim, settings)).run(leave_now)


def _task(spec: JobSpec, ready: Preflight, run: RunFolder, claim: Claim, settings: Settings) -> WorkerTask:
    return WorkerTask(
        spec_json=spec.to_json(),
        run_path=str(run.path.resolve()),
        data_folder=str(ready.data.folder.resolve()),
        data_fingerprint=ready.data.fingerprint,
        claim=claim.number,
        vocab_size=ready.tokenizer.vocab_size,
        eos_id=ready.tokenizer.eos_id,
        data_wait_s=settings.data_wait_s,
        cpus=max(1, int(spec.resources.cpus)),
    )


def _wait_for_nodes(spec: JobSpec, run: RunFolder, settings: Settings) -> None:
    """Wait until the smallest allowed group fits on the cluster.

    Raises:
        CapacityError: it never did; says what is there.
        InterruptedRunError: the person gave up waiting.
    """
    from pliant.control.ray_train.probe import look_at_cluster

    began, said = time.monotonic(), ""
    while True:
        capacity = look_at_cluster(cpus=spec.resources.cpus, gpus=spec.resources.gpus)
        if capacity.slots >= spec.elastic.min_workers:
            return
        if run.stop_requested() is not None:
            raise InterruptedRunError("stopped while it waited for nodes; nothing was trained yet")
        what = capacity.describe()
        if what != said:
            said = what
            run.ledger.write(
                "waiting_for_nodes", have=capacity.slots, want=spec.elastic.min_workers, limit_s=settings.node_wait_s, nodes=what
            )
        if time.monotonic() - began >= settings.node_wait_s:
            raise CapacityError(
                f"the job needs at least {spec.elastic.min_workers} workers of {spec.resources.cpus:g} CPUs and "
                f"{spec.resources.gpus:g} GPUs; after {settings.node_wait_s:g} s there is room for {capacity.slots}: {what}",
                causes=("`elastic.min_workers` or `resources` ask for more than the cluster has",),
                fix="lower elastic.min_workers or resources, add nodes, or wait longer (PLIANT_NODE_WAIT_S)",
            )
        time.sleep(FOLLOW_EVERY_S)


def _wait_for_data(spec: JobSpec, ready: Preflight, run: RunFolder, data: DataSide, settings: Settings) -> None:
    """Wait for the first window, so that unusable data ends the run before any worker starts."""
    report = wait_until(
        ready.data.folder,
        num_sequences=spec.global_batch,
        clock=SystemClock(),
        wait_s=settings.data_wait_s,
        alive=lambda: data.alive() and run.stop_requested() is None,
    )
    if run.stop_requested() is not None:
        raise InterruptedRunError("stopped while the data was being prepared; nothing was trained yet")
    if report is None and isinstance(data.error, PliantError):
        raise data.error
    run.ledger.write(
        "data_ready",
        fingerprint=ready.data.fingerprint,
        num_units=len(ready.data.units),
        complete=bool(report and report.complete),
        num_sequences=report.num_sequences if report else None,
        num_bad=report.num_bad if report else None,
    )


@contextmanager
def _followed(run: RunFolder, spec: JobSpec, claim: Claim, on_progress: OnProgress | None) -> Iterator[None]:
    """Keep the claim alive and the listener told while the block runs."""
    over = threading.Event()
    follower = RunFollower(run)

    def follow() -> None:
        last_renewal = 0.0
        while not over.wait(FOLLOW_EVERY_S):
            if time.monotonic() - last_renewal > 5.0:
                claim.renew()
                last_renewal = time.monotonic()
            if on_progress:
                on_progress(follower.view())

    thread = threading.Thread(target=follow, name="follower", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5.0)
        if on_progress:
            on_progress(follower.view())


def _ending(run: RunFolder) -> str:
    """How the training ended, as rank 0 wrote it down; also tells it to the ledger as the driver."""
    ended = [event for event in run.ledger.events() if event["kind"] == "training_ended"]
    if not ended:
        raise PliantError("the workers ended without a word", fix="run it again with -v to see their logs")
    last = ended[-1]
    if not last["saved"]:
        raise PliantError(
            f"the training reached step {last['step']}, but its last state couldn't be saved",
            causes=("the disk is full or read-only: the ledger's `checkpoint_failed` says which",),
            fix="make room, then `pliant train SPEC --resume`: it goes on from the last committed checkpoint",
        )
    outcome = {"early_stopped": "done"}.get(last["how"], last["how"])
    if outcome == "done":
        run.ledger.write("run_done", step=last["step"], how=last["how"])
    return str(outcome)


def _interrupted_text(run: RunFolder) -> str:
    saved = CheckpointStore(run.checkpoints_path).committed()
    where = f"step {saved[-1].step}" if saved else "no checkpoint yet"
    return f"stopped ({run.stop_requested() or 'asked'}); saved: {where}. Go on with `pliant train SPEC --resume`"


def _tell_failure(run: RunFolder, error: PliantError) -> None:
    kind = "run_interrupted" if isinstance(error, InterruptedRunError) else "run_failed"
    cause = "input" if isinstance(error, InputError | RunExistsError) else type(error).__name__
    run.ledger.write(kind, cause=cause, error=str(error)[:2000])
