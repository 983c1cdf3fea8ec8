"""Where a problem's images come from: memory or disk, by its settings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

from gradsurgery.lab.data.images.arrays import read
from gradsurgery.lab.data.images.dataset import Table
from gradsurgery.lab.data.images.disk import OnDisk
from gradsurgery.lab.data.images.memory import InMemory
from gradsurgery.lab.run import Setting

Source: TypeAlias = InMemory | OnDisk
T = TypeVar("T")


def source(settings: Mapping[str, Setting], role: str, data_dir: Path | None) -> Source:
    """The images of main or aux.

    Args:
        settings: ``<role>_data`` names the dataset; ``<role>_classes`` are taken of it, at most ``train_images`` to
            train on and ``test_images`` held out; ``<role>_from_disk`` says that they do not fit in memory. All are
            made ``pixels`` wide and high; those in memory are moved by up to ``margin``.
        role: ``main`` or ``aux``.
        data_dir: a folder that stands in for the hub.
    """

    def found(kind: Callable[..., T]) -> tuple[T, T]:
        """What to train on, and what is held out."""
        name, classes = str(settings[f"{role}_data"]), str(settings[f"{role}_classes"])
        train, test = (
            kind(name, data_dir, held_out=held_out, count=int(settings[count]), classes=classes)
            for held_out, count in ((False, "train_images"), (True, "test_images"))
        )
        return train, test

    size = int(settings["pixels"])
    if settings[f"{role}_from_disk"]:
        return OnDisk(*found(Table), size=size)
    return InMemory(*found(read), size=size, margin=int(settings["margin"]))
