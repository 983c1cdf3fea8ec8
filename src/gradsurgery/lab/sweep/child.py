"""The program of a worker process: train the runs that the supervisor sends, one after the other.

Every message waits for an answer, True to go on: a row is recorded before the next one is trained.
"""

import faulthandler
import os
from contextlib import suppress
from multiprocessing.connection import Connection

from gradsurgery.lab.processes import exit_with_parent
from gradsurgery.lab.sweep.log import redirect_output
from gradsurgery.lab.sweep.messages import Flush, Message
from gradsurgery.lab.sweep.shipment import Shipment, train_elsewhere
from gradsurgery.lab.sweep.worker import Task


def main(pipe: Connection, shipment: Shipment) -> None:
    """Receive tasks and send messages until the supervisor closes the pipe."""
    exit_with_parent()
    process = os.getpid()

    def tell(message: Message) -> bool:
        if os.getpid() != process:  # the training function forked, and this is not the run
            os._exit(0)
        try:
            pipe.send(message)
            return bool(pipe.recv())
        except (EOFError, OSError):  # the supervisor is gone
            os._exit(1)

    def flush() -> None:
        tell(Flush())

    while task := _receive(pipe):
        redirect_output(task.log)
        faulthandler.enable(all_threads=False)
        messages = train_elsewhere(shipment, task, flush)
        for message in messages:
            if not tell(message):
                break
        with suppress(Exception):  # the function may refuse to stop
            messages.close()  # type: ignore[attr-defined]


def _receive(pipe: Connection) -> Task | None:
    with suppress(EOFError, OSError):
        task: Task = pipe.recv()
        return task
    return None
