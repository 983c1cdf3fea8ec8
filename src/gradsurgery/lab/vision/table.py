"""A dataset of images and labels, each image decoded when it is asked for."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gradsurgery.lab.data import check, load, splits


class Table:
    """The rows to train on, or those held out: ``validation``, as ImageNet's ``test`` has no labels, else ``test``.

    Rows are read from disk where they lie, so that a worker process gets no more
    than the name of the file.

    Args:
        name: the dataset's hub id.
        data_dir: a folder that stands in for the hub.
        held_out: which rows.
    """

    def __init__(self, name: str, data_dir: Path | None, *, held_out: bool) -> None:
        import datasets

        split = "train"
        if held_out:
            split = "validation" if "validation" in splits(name, data_dir) else "test"
        rows = load(name, split, ("label",), data_dir)
        column = next((column for column in ("image", "img") if column in rows.column_names), "image")
        check(name, (column, "label"), rows.column_names)
        label = rows.features["label"]
        self.labels = np.asarray(rows["label"][:], np.int32)
        self.classes: int = getattr(label, "num_classes", None) or 1 + int(self.labels.max())
        undecoded = datasets.Image(decode=False)
        self._rows = rows.with_format(None).select_columns(column).cast_column(column, undecoded)

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, number: int) -> Image.Image:
        """The image of a row, opened: its pixels are decoded when they are read."""
        cell: Any = next(iter(self._rows[number].values()))
        return Image.open(io.BytesIO(cell["bytes"]) if cell["bytes"] else cell["path"])
