"""Datasets by hub id, or from a local folder with the same columns.

In ``allenai/c4:en``, ``en`` is what the hub calls a configuration; the local folder that stands in for it is ``c4``.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from gradsurgery.lab import UserError
from gradsurgery.paper.data.holdout import HELD_OUT_ROWS, held_out_split
from gradsurgery.paper.data.shuffle import evenly_spaced

DATA_DIR_VARIABLE = "GRADSURGERY_DATA"
"""Environment variable with a folder whose subfolders stand in for hub ids: ``mnist`` for ``ylecun/mnist``."""


def load(hub_id: str, split: str, columns: Sequence[str], data_dir: Path | None = None) -> Any:
    """Load a split of a dataset, which returns numpy arrays when indexed.

    Args:
        hub_id: id on the Hugging Face hub, optionally with a configuration: ``allenai/c4:en``.
        split: for example ``train``.
        columns: required columns.
        data_dir: folder whose subfolders stand in for hub ids; by default the value of ``GRADSURGERY_DATA``.
    """
    import datasets  # slow to import, and most commands need no data

    datasets.disable_progress_bars()
    source, configuration = _resolve(hub_id, data_dir)
    with _translate_errors(split, source):
        rows = datasets.load_dataset(source, configuration, split=split)
    check_columns(source, columns, rows.column_names)
    return rows.with_format("numpy")


def split_names(hub_id: str, data_dir: Path | None = None) -> list[str]:
    """Return the names of a dataset's splits; for the arguments see ``load``."""
    source, configuration = _resolve(hub_id, data_dir)
    with _translate_errors("the splits", source):
        return _split_names(_builder(source, configuration))


class ColumnStream:
    """One column of the training or held-out rows of a dataset, read row by row.

    The split ``test`` is held out, else ``validation``, else the first 2,000 rows of ``train``.

    Args:
        hub_id: see ``load``.
        column: name of the column.
        data_dir: see ``load``.
        dtype: required type of each value.
        held_out: read the rows to evaluate on.
        limit: maximum number of rows, by default taken from the beginning.
        spread: take them at equal distances from the whole dataset instead, which reads it twice.
    """

    def __init__(
        self,
        hub_id: str,
        column: str,
        data_dir: Path | None = None,
        *,
        dtype: type = str,
        held_out: bool = False,
        limit: int | None = None,
        spread: bool = False,
    ) -> None:
        source, configuration = _resolve(hub_id, data_dir)
        with _translate_errors("the held-out rows" if held_out else "the training rows", source):
            self._builder = _builder(source, configuration)
            test = held_out_split(_split_names(self._builder))
        self._split = test if held_out and test else "train"
        self._first = HELD_OUT_ROWS if not held_out and test is None else 0
        self._last = HELD_OUT_ROWS if held_out and test is None else None
        self._source, self._column, self._dtype = source, column, dtype
        self._limit, self._spread = limit, spread

    @property
    def key(self) -> str:
        """A cache key that changes with the dataset, its version and the selected rows."""
        sizes = [path.stat().st_size for path in sorted(Path(self._source).rglob("*")) if path.is_file()]
        rows = self._split, self._column, self._first, self._last, self._limit, self._spread
        return f"{self._builder.dataset_name} {self._builder.hash} {sizes} {rows}"

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values, with one batch of rows in memory at a time."""
        if self._limit is None or not self._spread:
            return islice(self._values(), self._limit)
        total = sum(1 for _ in self._values())
        indices = set(evenly_spaced(total, self._limit).tolist())
        return (value for index, value in enumerate(self._values()) if index in indices)

    def _values(self) -> Iterator[Any]:
        with _translate_errors(self._split, self._source):
            batches = self._builder.as_streaming_dataset(split=self._split).iter(batch_size=1000)
            values = islice(self._checked_values(batches), self._first, self._last)
            first = next(values, None)
            if first is None:
                raise UserError(self._empty_message())
            yield first
            yield from values

    def _empty_message(self) -> str:
        if not self._first:
            return f"{self._split} of {self._source} has no rows"
        held_out = f"its first {HELD_OUT_ROWS} rows are held out"
        return f"{self._source} has no test split, so {held_out}, and no rows are left to train on"

    def _checked_values(self, batches: Any) -> Iterator[Any]:
        row = 0
        for batch in batches:
            check_columns(self._source, [self._column], list(batch))
            for value in batch[self._column]:
                if value is None:
                    raise UserError(f"row {row} of {self._split} in {self._source} has no {self._column}")
                if not isinstance(value, self._dtype):
                    raise UserError(
                        f"the {self._column} in row {row} of {self._split} in {self._source} must be a "
                        f"{self._dtype.__name__}; got {str(value)[:40]}"
                    )
                yield value
                row += 1


def check_columns(source: str, columns: Sequence[str], present: Sequence[str]) -> None:
    """Raise if a required column is missing."""
    if any(column not in present for column in columns):
        required = f"the column{'s' if len(columns) > 1 else ''} {', '.join(columns)}"
        raise UserError(f"{source} must have {required}; got {', '.join(present)}")


def _resolve(hub_id: str, data_dir: Path | None) -> tuple[str, str | None]:
    """Return the arguments of ``load_dataset``: a local folder, or a hub id and its configuration."""
    name, _, configuration = hub_id.partition(":")
    folder = data_dir or (Path(os.environ[DATA_DIR_VARIABLE]) if os.environ.get(DATA_DIR_VARIABLE) else None)
    if folder is None:
        if "/" not in name:
            raise UserError(
                f"{name} is not on the hub: give the folder that contains it with --data-dir or {DATA_DIR_VARIABLE}"
            )
        return name, configuration or None
    if not folder.is_dir():
        raise UserError(f"the data folder {folder} does not exist")
    local = folder / name.rpartition("/")[2]
    if not local.is_dir():
        raise UserError(f"the data folder {folder} has no subfolder {local.name} to stand in for {name}")
    return str(local), None


def _builder(source: str, configuration: str | None) -> Any:
    import datasets

    return datasets.load_dataset_builder(source, configuration)


def _split_names(builder: Any) -> list[str]:
    return [str(split) for split in builder.info.splits or builder.config.data_files]


@contextmanager
def _translate_errors(part: str, source: str) -> Iterator[None]:
    """Turn any error while this part of a dataset is read into one sentence."""
    try:
        yield
    except UserError:
        raise
    except StopIteration as error:  # how datasets streams an empty file
        raise UserError(f"{part} of {source} has no rows") from error
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = f"; a local copy can be given with --data-dir or {DATA_DIR_VARIABLE}"
        raise UserError(
            f"could not load {part} of {source}: {reason}{'' if Path(source).is_dir() else hint}"
        ) from error
