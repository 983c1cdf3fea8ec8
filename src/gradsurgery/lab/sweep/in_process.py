"""Train runs in this process, one after the other: for debugging, and for processes that train every run together."""

import time
from collections.abc import Generator, Sequence

from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import StoreError
from gradsurgery.lab.sweep.attempt import Attempt, Leases
from gradsurgery.lab.sweep.events import RunEvent, Stopped
from gradsurgery.lab.sweep.worker import Trainer, describe_error

_POLL_SECONDS = 0.5


def train_in_process(trainer: Trainer, runs: Sequence[RunSpec], leases: Leases) -> Generator[RunEvent]:
    """Train runs until all have ended, and raise what they raise. Runs that another sweep trains are waited for."""
    pending = list(runs)
    while pending:
        taken = leases.take_next(pending)
        if isinstance(taken, Stopped):
            yield taken
        elif taken:
            try:
                yield from _train(trainer, taken)
            finally:
                taken.close()
        elif pending:
            time.sleep(_POLL_SECONDS)


def _train(trainer: Trainer, attempt: Attempt) -> Generator[RunEvent]:
    try:
        for message in trainer.train(attempt.task, attempt.store.flush_to_disk):
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
