"""The state of a run on disk, so that a long run that is killed goes on where it was."""

import logging
import shutil
from pathlib import Path
from typing import Any

import jax

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.train.multihost import broadcast_number, is_leader

State = Any
_LOG = logging.getLogger(__name__)


class Checkpoint:
    """The last saved state of one run, with the number of chunks that led to it.

    Orbax writes beside what is there and renames at the end: whenever a process is killed, a whole checkpoint is left.

    Args:
        folder: a folder for this run alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def save(self, chunks: int, state: State) -> None:
        """Write the state after so many chunks, then drop older ones."""
        import orbax.checkpoint as ocp  # slow to import, and short runs need none

        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(self._folder / str(chunks), state, force=True)
        if is_leader():
            for older in self._saved()[:-1]:
                shutil.rmtree(self._folder / str(older), ignore_errors=True)

    def restore(self, like: State) -> tuple[int, State] | None:
        """Calls and state of the newest checkpoint that can be read; None if there is none.

        Args:
            like: a state of the same structure, on the devices where this one shall be.
        """
        while (chunks := broadcast_number(max(self._saved(), default=-1))) >= 0:
            import orbax.checkpoint as ocp

            if chunks not in self._saved():
                raise UserError(f"processes that train together all see --folder, but this one has no {self._folder}")
            shapes = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
            try:
                with ocp.StandardCheckpointer() as checkpointer:
                    return chunks, checkpointer.restore(self._folder / str(chunks), shapes)
            except Exception as error:  # whatever is wrong with it, the run can be told again from the start
                if is_leader():
                    self._put_aside(chunks, error)
        return None

    def _put_aside(self, chunks: int, error: Exception) -> None:
        aside = self._folder / f"{chunks}.unreadable"
        shutil.rmtree(aside, ignore_errors=True)
        (self._folder / str(chunks)).rename(aside)
        _LOG.warning("a checkpoint could not be read and was put aside as %s: %s", aside, error)

    def clear(self) -> None:
        """Remove what is saved."""
        if is_leader():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _saved(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdigit())
