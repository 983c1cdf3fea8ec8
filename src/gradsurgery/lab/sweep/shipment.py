"""Send a ``Trainer`` to other processes, with the user's modules to those that cannot import them.

A worker on this machine imports the user's modules itself. A Ray task or a Slurm job gets their sources.
"""

import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import _lru_cache_wrapper, lru_cache
from typing import Any

import cloudpickle

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.local_modules import collect_sources, install_sources
from gradsurgery.lab.method import register_method
from gradsurgery.lab.sweep.messages import Message
from gradsurgery.lab.sweep.worker import Task, Trainer, describe_error


@dataclass(frozen=True)
class Shipment:
    """The same for all runs of a sweep."""

    pickled: bytes
    """The trainer. Unpickling it may import the modules."""
    sources: tuple[tuple[str, bytes], ...]
    """The user's own modules, by relative path; empty if the process can import them."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Sends the cached functions of a script or a notebook by value, as all others: cloudpickle sends their name."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _lru_cache_wrapper) and obj.__module__ == "__main__":
            return _cache, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)


def _cache(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Callable[..., Any]:
    return lru_cache(**parameters)(function)


def ship(trainer: Trainer, *, sources: bool = False) -> Shipment:
    """Pickle for other processes. Functions that they cannot import, such as those of a notebook, go by value.

    With ``sources``, the user's modules are sent along.
    """
    modules = [trainer.problem.train.__module__, *(method.__module__ for method in trainer.methods.values())]
    try:
        _Pickler(buffer := io.BytesIO()).dump(trainer)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"a problem must be picklable to reach the worker processes ({error}): load what cannot be pickled inside "
            "the training function, or train in this process with workers=0"
        ) from error
    return Shipment(buffer.getvalue(), tuple(collect_sources(modules).items()) if sources else ())


@lru_cache(maxsize=1)
def unpack_shipment(shipment: Shipment) -> Trainer:
    """Unpickle once for all runs of this process: the training function may cache what it builds."""
    install_sources(dict(shipment.sources))
    trainer: Trainer = pickle.loads(shipment.pickled)
    for method in trainer.methods.values():
        register_method(method)
    return trainer


def train_elsewhere(shipment: Shipment, task: Task, flush: Callable[[], None] = lambda: None) -> Iterator[Message]:
    """Train a run in a process that got a shipment. What the run raises is its last message.

    By default nothing is flushed: that is left to the receiver of the rows.
    """
    try:
        yield from unpack_shipment(shipment).train(task, flush)
    except (Exception, SystemExit) as error:  # sys.exit(0) must not look like success
        yield describe_error(error)
