"""A dataset of labelled images, each decoded on access."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from gradsurgery.lab import UserError
from gradsurgery.paper.data.holdout import held_out_split
from gradsurgery.paper.data.hub import check_columns, load, split_names
from gradsurgery.paper.data.images.arrays import Array
from gradsurgery.paper.data.shuffle import evenly_spaced


class ImageDataset:
    """The training or held-out rows of a dataset with a column ``image`` or ``img`` and a column ``label``.

    The split ``validation`` is held out, because ImageNet's ``test`` has no labels, else ``test``. Pixels stay on disk:
    pickling a dataset for a worker process sends file names only.

    Args:
        name: hub id.
        data_dir: folder whose subfolders stand in for hub ids.
        held_out: take the rows to evaluate on.
        classes: ``all``, or the first and last class to keep, such as ``0-4``; they are renumbered from 0.
        count: maximum number of rows, taken from the beginning, or at equal distances if the first lack a class.
    """

    def __init__(self, name: str, data_dir: Path | None, *, held_out: bool, classes: str, count: int) -> None:
        import datasets

        splits = split_names(name, data_dir)
        split = held_out_split(splits, ("validation", "test")) if held_out else "train"
        if split is None:
            raise UserError(f"{name} must have a split validation or test to evaluate on; got {', '.join(splits)}")
        rows = load(name, split, ("label",), data_dir)
        column = next((column for column in ("image", "img") if column in rows.column_names), "image")
        check_columns(name, (column, "label"), rows.column_names)
        labels = np.asarray(rows["label"][:])
        if not np.issubdtype(labels.dtype, np.integer):
            values = enumerate(rows.with_format(None)["label"][:])
            row, value = next(((row, value) for row, value in values if type(value) is not int), (0, labels[0]))
            raise UserError(f"labels must be integers; got {str(value)[:40]!r} in row {row} of {split} of {name}")
        class_count = getattr(rows.features["label"], "num_classes", None) or 1 + int(labels.max())
        first, last = class_range(name, classes, class_count, held_out=held_out)
        indices = np.flatnonzero((labels >= first) & (labels <= last))
        if not len(indices):
            raise UserError(f"{split} of {name} has no image of the classes {classes}")
        if len(set(labels[indices[:count]])) < len(set(labels[indices])):  # rows are sorted by class
            indices = indices[evenly_spaced(len(indices), min(count, len(indices)))]
        self._indices = indices[:count]
        self.name, self.classes = name, last - first + 1
        self.labels = (labels[self._indices] - first).astype(np.int32)
        undecoded = datasets.Image(decode=False)
        self._rows = rows.with_format(None).select_columns(column).cast_column(column, undecoded)

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, index: int, decode: Callable[[Image.Image], Array]) -> Array:
        """Open an image and decode it; PIL reads the pixels no earlier than ``decode`` needs them."""
        row = int(self._indices[index])
        cell: Any = next(iter(self._rows[row].values()))
        if not cell or not (cell["bytes"] or cell["path"]):
            raise UserError(f"row {row} of {self.name} has no image")
        try:
            with Image.open(io.BytesIO(cell["bytes"]) if cell["bytes"] else cell["path"]) as image:
                return decode(image)
        except (OSError, SyntaxError, ValueError) as error:  # PIL raises all of them for damaged files
            reason = "unknown image format" if isinstance(error, UnidentifiedImageError) else error
            raise UserError(f"could not read the image in row {row} of {self.name}: {reason}") from error


def class_range(name: str, classes: str, class_count: int, *, held_out: bool) -> tuple[int, int]:
    """Parse ``all`` or a range such as ``0-4`` into the first and last class to keep of a dataset's classes."""
    if class_count < (1 if held_out else 2):
        raise UserError(f"{name} must have at least two classes to train on; got {class_count}")
    first, _, last = ("0", "", str(class_count - 1)) if classes == "all" else classes.partition("-")
    if not (first.isdigit() and last.isdigit() and int(first) <= int(last) < class_count):
        raise UserError(f"classes of {name} must be all or a range within 0-{class_count - 1}; got {classes!r}")
    if first == last and not held_out:
        raise UserError(f"classes must be at least two; got {classes!r}")
    return int(first), int(last)
