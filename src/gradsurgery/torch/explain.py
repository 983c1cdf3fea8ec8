"""``explain``: how much the losses were in conflict, and what to do about it, in two sentences."""

from collections.abc import Mapping

from gradsurgery.torch.surgery import Surgery

LITTLE, MUCH = 0.1, 0.5
"""Shares of steps in conflict, or of aux removed, below and above which the advice changes."""

ADVICE_UNSOUND = "look for overflow in the losses, lower the learning rate, or clip the gradients."


def explain(surgery: Surgery) -> str:
    """Say how much the losses were in conflict over all steps, and what to do about it. Blocks on the device.

        >>> import torch, gradsurgery as gs, gradsurgery.torch as gst
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> surgery = gst.Surgery([weight], gs.bloop(lam=0.1), measure=True)
        >>> for _ in range(4):
        ...     _ = surgery.backward(weight[0], weight[1] - weight[0])
        ...     surgery.apply()
        >>> sentences = gst.explain(surgery).split(". ")
        >>> print(sentences[0])
        In 4 steps, aux pointed against main in 75 % (mean cosine -0.71), and 53 % of aux was removed

    Args:
        surgery: the surgery; ``measure=True`` adds cosines, and how much of aux was removed.
    """
    parts, texts = surgery._parts, []
    for index, part in enumerate(parts):
        means = {name: float(value) for name, value in part.means.since_start().items()}
        text = _explain(part.method.name, part.means.steps, means) if means else "There has been no step yet."
        texts.append(f"Group {index}, {part.method}: {text}" if len(parts) > 1 else text)
    return "\n".join(texts)


def _explain(method: str, steps: int, means: Mapping[str, float]) -> str:
    conflict, cosine, removed = (means.get(name) for name in ("conflict", "cos_main_aux", "removed"))
    if means["sound"] == 0:
        return f"No step was finite ({steps} so far): {ADVICE_UNSOUND}"
    facts = []
    if conflict is not None:
        facts.append(f"aux pointed against main in {_percent(conflict)}")
        if cosine is not None:
            facts[0] += f" (mean cosine {cosine:.2f})"
    if removed is not None:
        facts.append(f"{_percent(removed)} of aux was removed")
    count = f"{steps} step{'s' * (steps != 1)}"
    summary = f"In {count}, {', and '.join(facts)}. " if facts else f"{count} so far. "
    if means["sound"] < 0.99:
        share = _percent(1 - means["sound"])
        return f"{summary}{share} were not finite and left the averages unchanged: {ADVICE_UNSOUND}"
    return summary + _advice(method, conflict, removed)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _advice(method: str, conflict: float | None, removed: float | None) -> str:
    if conflict is None or (removed is None and method == "mixed"):
        return "Make the surgery with measure=True to learn how much the losses conflict."
    if conflict < LITTLE and (removed is None or removed < LITTLE):
        return "With so little conflict, gs.mixed would do as well."
    if method == "mixed":
        return "gs.mixed follows aux even where it harms main: gs.bloop would not."
    if removed is not None and removed > MUCH:
        return (
            "Surgery takes away much of aux, so aux will learn slowly: if it may cost main something, compare with "
            "gs.mixed or a larger lam."
        )
    return "The losses do conflict, so surgery has something to do: choose lam by comparing several."
