"""Train runs in this process, one after the other: for debugging, and for processes that train every run together."""

import time
from collections.abc import Generator, Sequence

from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import StoreError
from gradsurgery.lab.sweep.attempt import Attempt, Leases
from gradsurgery.lab.sweep.events import RunEvent, Stopped
from gradsurgery.lab.sweep.worker import Task, WorkerArguments, describe_error, train_run

_POLL_SECONDS = 0.5


def train_in_process(
    problem: Problem,
    runs: Sequence[RunSpec],
    leases: Leases,
    arguments: WorkerArguments,
) -> Generator[RunEvent]:
    """Train all runs that have not ended, and raise what they raise. A run that another process trains is waited for.

    Args:
        problem: the problem of all runs.
        runs: all with the same settings.
        leases: takes runs.
        arguments: see ``WorkerArguments``.
    """
    pending = list(runs)
    while pending:
        taken = leases.take_next(pending)
        if isinstance(taken, Stopped):
            yield taken
        elif taken:
            try:
                yield from _train(problem, taken, arguments)
            finally:
                taken.close()
        elif pending:
            time.sleep(_POLL_SECONDS)


def _train(problem: Problem, attempt: Attempt, arguments: WorkerArguments) -> Generator[RunEvent]:
    task = Task(attempt.spec, attempt.folder, attempt.may_be_over)
    try:
        for message in train_run(problem, task, arguments, attempt.store.flush_to_disk):
            if event := attempt.record(message):
                yield event
            if attempt.ended:
                return
    except StoreError:
        raise
    except (Exception, SystemExit) as error:
        attempt.record(describe_error(error))
        if isinstance(error, SystemExit):  # sys.exit(0) must not look like success
            raise RuntimeError(f"the training function called sys.exit({error.code})") from error
        raise
