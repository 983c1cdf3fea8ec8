"""How runs ended: sentences about runs without a result, for the page and the terminal."""

from collections.abc import Sequence

from gradsurgery.lab.analysis.series import SPLITS, final_point, is_main_alone, last_losses
from gradsurgery.lab.analysis.variant import option_of
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import describe_run


def has_diverged(record: RunRecord) -> bool:
    """True if the run finished with a loss that is NaN or infinite."""
    splits = [split for split in SPLITS if last_losses(record, split)]
    return record.status == "done" and not all(final_point(record, split) for split in splits)


def has_losses(record: RunRecord) -> bool:
    """True if a row has both losses on training or on held-out data."""
    return any(last_losses(record, split) for split in SPLITS)


def missing_runs(records: Sequence[RunRecord]) -> int:
    """How many runs it takes until every method and λ has the seeds of main alone, apart from those that stopped early.

    A sweep trains main alone first, so its seeds are those of the whole grid.
    """
    planned = {record.spec.seed for record in records if is_main_alone(record.spec)}
    stopped = {option_of(record.spec) for record in records if record.status == "stopped"}
    trained: dict[object, set[int]] = {}
    for record in records:
        trained.setdefault(option_of(record.spec), set()).add(record.spec.seed)
    return sum(len(planned - seeds) for option, seeds in trained.items() if option not in stopped)


def unfinished_runs(records: Sequence[RunRecord]) -> int:
    """How many runs are in training, interrupted or missing."""
    return missing_runs(records) + sum(record.status == "running" for record in records)


def outcome_sentences(records: Sequence[RunRecord]) -> list[str]:
    """One sentence for each kind of run without a result: diverged, failed, stopped early.

    An answer says how many are still to come, and that it is provisional.
    """
    total = len(records)
    diverged = [record for record in records if has_diverged(record)]
    failed = [record for record in records if record.status == "failed"]
    stopped = sum(record.status == "stopped" for record in records)
    sentences = []
    if diverged:
        first = (
            f"The first is {describe_run(diverged[0].spec)}."
            if len(diverged) < total
            else "A lower learning rate may help."
        )
        sentences.append(f"{_count(len(diverged), total)} diverged: the final losses are not finite. {first}")
    if failed:
        reason = " ".join(str(failed[0].info.get("reason", "no reason was recorded")).split())
        sentences.append(f"{_count(len(failed), total)} failed. The first is {describe_run(failed[0].spec)}: {reason}")
    if stopped:
        sentences.append(f"{_count(stopped, total)} stopped early: main could not come back within the allowance.")
    return sentences


def progress_sentences(records: Sequence[RunRecord]) -> list[str]:
    """A sentence for a sweep without an answer, if runs are still to come."""
    left = unfinished_runs(records)
    return [f"{left} run{'s are' if left > 1 else ' is'} unfinished or missing."] if left else []


def _count(count: int, total: int) -> str:
    if count == total:
        return "The only run" if total == 1 else f"All {total} runs"
    return f"{count} of {total} runs"
