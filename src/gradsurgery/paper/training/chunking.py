"""Divide a run into chunks; one row is recorded after each."""

from gradsurgery.lab import UserError


def chunk_steps(steps: int, rows: int) -> tuple[int, int]:
    """Divide steps into one chunk per row, or one per step if there are fewer steps. Returns chunks, steps in each.

    Example:
        >>> chunk_steps(600, 20)
        (20, 30)
    """
    chunks = min(rows, steps)
    if steps % chunks:
        raise UserError(f"steps must be a multiple of rows; got {steps} steps and {rows} rows")
    return chunks, steps // chunks


def chunk_epochs(epochs: int, examples: int, batch: int, rows_per_epoch: int) -> tuple[int, int]:
    """Divide epochs into chunks, ``rows_per_epoch`` in each. Returns chunks in the run, steps in each.

    Example:
        >>> chunk_epochs(10, examples=1600, batch=64, rows_per_epoch=2)
        (20, 12)
    """
    steps = examples // batch // rows_per_epoch
    if steps == 0:
        raise UserError(
            f"an epoch must have at least one batch for each recorded row, but {examples} examples are too few for "
            f"rows_per_epoch={rows_per_epoch} and batch={batch}"
        )
    return epochs * rows_per_epoch, steps
