"""How runs ended: sentences about diverged, failed and unfinished runs, for the page and the terminal."""

from collections.abc import Sequence

from gradsurgery.lab.analysis.series import SPLITS, final_point, last_losses
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import describe_run


def has_diverged(record: RunRecord) -> bool:
    """True if the run finished with a loss that is NaN or infinite."""
    splits = [split for split in SPLITS if last_losses(record, split)]
    return record.status == "done" and not all(final_point(record, split) for split in splits)


def has_losses(record: RunRecord) -> bool:
    """True if a row has both losses on training or on held-out data."""
    return any(last_losses(record, split) for split in SPLITS)


def outcome_sentences(records: Sequence[RunRecord]) -> list[str]:
    """One sentence each for diverged, failed and unfinished runs; no sentence for a kind that did not occur."""
    total = len(records)
    diverged = [record for record in records if has_diverged(record)]
    failed = [record for record in records if record.status == "failed"]
    unfinished = [record for record in records if record.status == "running"]
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
    if unfinished:
        sentences.append(f"{_count(len(unfinished), total)} did not finish.")
    return sentences


def _count(count: int, total: int) -> str:
    if count == total:
        return "The only run" if total == 1 else f"All {total} runs"
    return f"{count} of {total} runs"
