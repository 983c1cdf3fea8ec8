"""Where a problem's images come from: memory or disk, by its settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from gradsurgery.lab.record import Setting
from gradsurgery.lab.vision.disk import OnDisk
from gradsurgery.lab.vision.images import read
from gradsurgery.lab.vision.memory import InMemory

Source: TypeAlias = InMemory | OnDisk


def source(settings: Mapping[str, Setting], role: str, data_dir: Path | None) -> Source:
    """The images of main or aux.

    Args:
        settings: ``<role>_data`` names the dataset, ``<role>_from_disk`` says that it does not fit in memory; if it
            does, ``<role>_classes`` are taken of it, at most ``train_images`` to train on and ``test_images`` held out,
            and moved by up to ``margin``. All are ``pixels`` wide and high.
        role: ``main`` or ``aux``.
        data_dir: a folder that stands in for the hub.
    """
    name, size = str(settings[f"{role}_data"]), int(settings["pixels"])
    if settings[f"{role}_from_disk"]:
        return OnDisk(name, data_dir, size=size)
    train, test = (
        read(
            name,
            data_dir,
            held_out=held_out,
            count=int(settings["test_images" if held_out else "train_images"]),
            classes=str(settings[f"{role}_classes"]),
        )
        for held_out in (False, True)
    )
    return InMemory(train, test, size=size, margin=int(settings["margin"]))
