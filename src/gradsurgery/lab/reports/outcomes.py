"""How runs ended: sentences about diverged, failed, unfinished and missing runs, for the page and the terminal."""

import math
from collections.abc import Sequence

from gradsurgery.lab.lam import lam_number
from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.series import LOSSES, SPLITS
from gradsurgery.lab.run import RunRecord, RunSpec


def has_diverged(record: RunRecord) -> bool:
    """True if the run finished with a loss that is NaN or infinite."""
    if record.status != "done" or not record.metrics:
        return False
    return not all(math.isfinite(record.final[name]) for name in LOSSES if name in record.final)


def has_losses(record: RunRecord) -> bool:
    """True if the last row has both losses on training or on held-out data."""
    return any(record.final.keys() >= {f"main_{split}", f"aux_{split}"} for split in SPLITS)


def outcome_sentences(records: Sequence[RunRecord], missing: int = 0) -> list[str]:
    """One sentence each for diverged, failed, unfinished and missing runs; no sentence for a kind that did not occur.

    Args:
        records: stored runs, whatever their status.
        missing: how many runs of the grid are not stored at all.
    """
    total = len(records) + missing
    diverged = [record for record in records if has_diverged(record)]
    failed = [record for record in records if record.status == "failed"]
    unfinished = [record for record in records if record.status == "running"]
    sentences = []
    if diverged:
        first = (
            f"The first is {describe(diverged[0].spec)}."
            if len(diverged) < total
            else "A lower learning rate may help."
        )
        sentences.append(f"{_count(len(diverged), total)} diverged: the final losses are not finite. {first}")
    if failed:
        reason = " ".join(str(failed[0].info.get("reason", "no reason was recorded")).split())
        sentences.append(f"{_count(len(failed), total)} failed. The first is {describe(failed[0].spec)}: {reason}")
    if unfinished:
        sentences.append(f"{_count(len(unfinished), total)} did not finish.")
    if missing:
        sentences.append(f"{_count(missing, total)} {'is' if missing == 1 else 'are'} missing: not trained yet.")
    return sentences


def describe(spec: RunSpec) -> str:
    """A run in a few words.

    Example:
        >>> describe(RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=2))
        'bloop, λ = 0.1, ρ = 0.01, seed 2'
    """
    return ", ".join([spec.method, *hyperparameters(spec), f"seed {spec.seed}"])


def hyperparameters(spec: RunSpec) -> list[str]:
    """λ and ρ with their values, for a method that has them."""
    return [
        f"{name} = {number(lam_number(value))}"
        for name, value in ((spec.lam_name, spec.lam), ("ρ", spec.rho))
        if value is not None
    ]


def _count(count: int, total: int) -> str:
    if count == total:
        return "The only run" if total == 1 else f"All {total} runs"
    return f"{count} of {total} runs"
