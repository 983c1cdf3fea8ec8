"""Checkpoints of a run, so that a long run that is killed resumes."""

import logging
import shutil
from pathlib import Path
from typing import Any

import jax

from gradsurgery.lab import UserError
from gradsurgery.lab.processes import broadcast_from_leader, is_leader

State = Any
_LOG = logging.getLogger(__name__)


class Checkpoint:
    """The last saved state of one run, in its own folder, and the number of chunks trained so far.

    Orbax writes a new checkpoint beside the old one and renames it at the end, so a process that is killed at any
    moment leaves a complete checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def save(self, chunks: int, state: State) -> None:
        """Write the state after ``chunks`` chunks, then remove older checkpoints."""
        import orbax.checkpoint as ocp  # slow to import, and short runs never save

        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(self._folder / str(chunks), state, force=True)
        if is_leader():
            for older in self._saved()[:-1]:
                shutil.rmtree(self._folder / str(older), ignore_errors=True)

    def restore(self, like: State) -> tuple[int, State] | None:
        """Return chunks and state of the newest readable checkpoint; None if there is none.

        ``like`` is a state of the same structure, on the devices where the restored one belongs.
        """
        while (chunks := broadcast_from_leader(max(self._saved(), default=-1))) >= 0:
            import orbax.checkpoint as ocp

            if chunks not in self._saved():
                raise UserError(f"all processes must see --folder, but this one cannot see {self._folder}")
            shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
            try:
                with ocp.StandardCheckpointer() as checkpointer:
                    return chunks, checkpointer.restore(self._folder / str(chunks), shapes)
            except Exception as error:  # whatever is wrong with the checkpoint, the run can start over
                if is_leader():
                    self._set_aside(chunks, error)
        return None

    def _set_aside(self, chunks: int, error: Exception) -> None:
        aside = self._folder / f"{chunks}.unreadable"
        shutil.rmtree(aside, ignore_errors=True)
        (self._folder / str(chunks)).rename(aside)
        _LOG.warning("a checkpoint could not be read and was renamed to %s: %s", aside, error)

    def _saved(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdigit())
