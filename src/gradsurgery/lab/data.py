"""Data by name: a hub id, or a local folder with the same columns, by the same call."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradsurgery.lab.errors import UserError

VARIABLE = "GRADSURGERY_DATA"
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
    folder = data_dir or (Path(os.environ[VARIABLE]) if VARIABLE in os.environ else None)
    source = hub_id
    if folder is not None:
        local = folder / hub_id.rpartition("/")[2]
        if not local.is_dir():
            raise UserError(f"the data folder {folder} has no subfolder {local.name}, which stands for {hub_id}")
        source = str(local)
    try:
        found = datasets.load_dataset(source, split=split)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"could not load {split} of {source} ({reason}); a local copy can stand in: --data-dir, or {VARIABLE}"
        ) from error
    missing = [column for column in columns if column not in found.column_names]
    if missing:
        raise UserError(f"{source} needs the columns {', '.join(columns)}, but has {', '.join(found.column_names)}")
    return found.with_format("numpy")
