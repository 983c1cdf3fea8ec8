"""The code of a Ray task: train one run, and yield messages to the driver, which records them.

A task has a separate folder on its node. After a row, while the training function waits, its files are sent to the
driver, at most every ``checkpoint_every`` seconds. The next attempt of the run, on any node, gets them back.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.sweep.messages import Message, Row
from gradsurgery.lab.sweep.ray.folder_copy import list_files, pack, unpack
from gradsurgery.lab.sweep.shipment import Shipment, train_elsewhere, unpack_shipment
from gradsurgery.lab.sweep.worker import Task


@dataclass(frozen=True)
class Saved:
    """A copy of the run's folder, for the next attempt."""

    files: bytes


def train_in_task(shipment: Shipment, spec: RunSpec, files: bytes) -> Iterator[Message | Saved]:
    """Train a run. ``files`` is a copy of its folder from an earlier attempt; empty if there is none."""
    with TemporaryDirectory(prefix="gradsurgery-") as folder:
        task = Task(spec, Path(folder) / "run", may_be_over=bool(files))
        unpack(files, task.folder)
        saved, last_copy = list_files(task.folder), time.monotonic()
        for message in train_elsewhere(shipment, task):
            yield message
            wait = unpack_shipment(shipment).checkpoint_every if isinstance(message, Row) else math.inf
            if time.monotonic() - last_copy >= wait and (now := list_files(task.folder)) != saved:
                yield Saved(pack(task.folder))
                saved, last_copy = now, time.monotonic()
