"""Data by name: a hub id, or a local folder with the same columns, by the same call.

``c4`` of ``allenai/c4:en`` is a folder's name, ``en`` a part of the dataset that the hub calls a configuration.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from gradsurgery.lab.data.holdout import HELD_OUT_ROWS, held_out_split
from gradsurgery.lab.data.shuffle import evenly_spaced
from gradsurgery.lab.errors import UserError

DATA_DIR_VARIABLE = "GRADSURGERY_DATA"
"""Names a folder whose subfolders stand in for hub ids: ``mnist`` for ``ylecun/mnist``."""


def load(hub_id: str, split: str, columns: Sequence[str], data_dir: Path | None = None) -> Any:
    """A split of a dataset, as numpy arrays when indexed.

    Args:
        hub_id: its name on the Hugging Face hub.
        split: for example ``train``.
        columns: the columns that must be there.
        data_dir: a folder whose subfolders stand in for hub ids; by default what ``GRADSURGERY_DATA`` names.
    """
    import datasets  # slow to import, and most commands need no data

    datasets.disable_progress_bars()
    source, part = _source(hub_id, data_dir)
    with _translate_errors(split, source):
        found = datasets.load_dataset(source, part, split=split)
    check_columns(source, columns, found.column_names)
    return found.with_format("numpy")


def split_names(hub_id: str, data_dir: Path | None = None) -> list[str]:
    """What a dataset is split into; for the arguments see ``load``."""
    source, part = _source(hub_id, data_dir)
    with _translate_errors("the splits", source):
        return _split_names(_builder(source, part))


class ColumnStream:
    """One column of the training or of the held-out rows of a dataset, read row by row in their order.

    Held out is the split ``test``, else ``validation``; else the first 2,000 rows, which training then leaves out.

    Args:
        hub_id: the dataset's name on the Hugging Face hub.
        column: the column.
        data_dir: a folder whose subfolders stand in for hub ids; by default what ``GRADSURGERY_DATA`` names.
        held_out: whether to read the rows to evaluate on.
        limit: read no more rows than this, the first of them.
        spread: read them from all over the dataset instead, at equal distances; this reads it twice.
    """

    def __init__(
        self,
        hub_id: str,
        column: str,
        data_dir: Path | None = None,
        *,
        held_out: bool = False,
        limit: int | None = None,
        spread: bool = False,
    ) -> None:
        source, part = _source(hub_id, data_dir)
        with _translate_errors("held-out" if held_out else "training", source):
            self._builder = _builder(source, part)
            found = _split_names(self._builder)
        test = held_out_split(found)
        self._split = test if held_out and test else "train"
        self._first = HELD_OUT_ROWS if not held_out and test is None else 0
        self._last = HELD_OUT_ROWS if held_out and test is None else None
        self._source, self._column, self._limit, self._spread = source, column, limit, spread

    @property
    def key(self) -> str:
        """Differs where the rows may: another dataset, another version of it, other rows."""
        sizes = [path.stat().st_size for path in sorted(Path(self._source).rglob("*")) if path.is_file()]
        rows = self._split, self._column, self._first, self._last, self._limit, self._spread
        return f"{self._builder.dataset_name} {self._builder.hash} {sizes} {rows}"

    def __iter__(self) -> Iterator[Any]:
        """The values; nothing is held in memory but a batch of rows."""
        if self._limit is None or not self._spread:
            return islice(self._values(), self._limit)
        total = sum(1 for _ in self._values())
        wanted = set(evenly_spaced(total, self._limit).tolist())
        return (value for place, value in enumerate(self._values()) if place in wanted)

    def _values(self) -> Iterator[Any]:
        with _translate_errors(self._split, self._source):
            rows = self._builder.as_streaming_dataset(split=self._split).iter(batch_size=1000)
            yield from islice(self._checked(rows), self._first, self._last)

    def _checked(self, batches: Any) -> Iterator[Any]:
        place = 0
        for batch in batches:
            check_columns(self._source, [self._column], list(batch))
            for value in batch[self._column]:
                if value is None:
                    raise UserError(f"row {place} of {self._split} of {self._source} has no {self._column}")
                yield value
                place += 1


def _source(hub_id: str, data_dir: Path | None) -> tuple[str, str | None]:
    """What ``datasets`` is to load: a folder, or a hub id and the part of it."""
    name, _, part = hub_id.partition(":")
    folder = data_dir or (Path(os.environ[DATA_DIR_VARIABLE]) if os.environ.get(DATA_DIR_VARIABLE) else None)
    if folder is None:
        if "/" not in name:
            raise UserError(
                f"{name} is in no hub, but a folder: say where it lies with --data-dir or {DATA_DIR_VARIABLE}"
            )
        return name, part or None
    local = folder / name.rpartition("/")[2]
    if not local.is_dir():
        raise UserError(f"the data folder {folder} has no subfolder {local.name}, which stands for {name}")
    return str(local), None


def _builder(source: str, part: str | None) -> Any:
    import datasets

    return datasets.load_dataset_builder(source, part)


def _split_names(builder: Any) -> list[str]:
    return list(builder.info.splits or builder.config.data_files)


def check_columns(source: str, columns: Sequence[str], found: Sequence[str]) -> None:
    """Complain where one of the columns is missing."""
    if any(column not in found for column in columns):
        raise UserError(f"{source} needs the columns {', '.join(columns)}, but has {', '.join(found)}")


@contextmanager
def _translate_errors(what: str, source: str) -> Iterator[None]:
    """Whatever goes wrong while data is read, in one sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"could not load {what} of {source} ({reason}); a local copy can stand in: "
            f"--data-dir, or {DATA_DIR_VARIABLE}"
        ) from error
