"""A dataset of images and labels, each image decoded when it is asked for."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gradsurgery.lab.data.holdout import held_out_split
from gradsurgery.lab.data.hub import check_columns, load, split_names
from gradsurgery.lab.data.shuffle import evenly_spaced
from gradsurgery.lab.errors import UserError


class ImageDataset:
    """The rows to train on, or those held out: ``validation``, as ImageNet's ``test`` has no labels, else ``test``.

    Rows are read from disk where they lie, so that a worker process gets no more than the name of the file.

    Args:
        name: the dataset's hub id.
        data_dir: a folder that stands in for the hub.
        held_out: which rows.
        classes: ``all``, or the first and the last that are taken, as ``0-4``; they are counted from 0 again.
        count: how many rows at most: the first, or where they lack a class, rows at equal distances.
    """

    def __init__(self, name: str, data_dir: Path | None, *, held_out: bool, classes: str, count: int) -> None:
        import datasets

        split = "train"
        if held_out:
            split = held_out_split(split_names(name, data_dir), ("validation",)) or "test"
        rows = load(name, split, ("label",), data_dir)
        column = next((column for column in ("image", "img") if column in rows.column_names), "image")
        check_columns(name, (column, "label"), rows.column_names)
        labels = np.asarray(rows["label"][:])
        if not np.issubdtype(labels.dtype, np.integer):
            raise UserError(f"labels are whole numbers, but those of {name} are not: {str(labels[0])[:40]!r}")
        known = getattr(rows.features["label"], "num_classes", None) or 1 + int(labels.max())
        first, last = class_range(classes, known)
        chosen = np.flatnonzero((labels >= first) & (labels <= last))
        if not len(chosen):
            raise UserError(f"there are images of the classes {classes} to take, but {split} of {name} has none")
        if len(set(labels[chosen[:count]])) < len(set(labels[chosen])):  # sorted by their classes
            chosen = chosen[evenly_spaced(len(chosen), min(count, len(chosen)))]
        self._numbers = chosen[:count]
        self.name, self.classes = name, last - first + 1
        self.labels = (labels[self._numbers] - first).astype(np.int32)
        undecoded = datasets.Image(decode=False)
        self._rows = rows.with_format(None).select_columns(column).cast_column(column, undecoded)

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, place: int) -> Image.Image:
        """The image at this place, opened: its pixels are decoded when they are read."""
        cell: Any = next(iter(self._rows[int(self._numbers[place])].values()))
        return Image.open(io.BytesIO(cell["bytes"]) if cell["bytes"] else cell["path"])


def class_range(classes: str, known: int) -> tuple[int, int]:
    """The first and the last of the classes that are asked for."""
    first, _, last = ("0", "", str(known - 1)) if classes == "all" else classes.partition("-")
    if not (first.isdigit() and last.isdigit() and int(first) <= int(last) < known):
        raise UserError(f"classes are all, or the first and the last as 0-{known - 1}, but got {classes!r}")
    return int(first), int(last)
