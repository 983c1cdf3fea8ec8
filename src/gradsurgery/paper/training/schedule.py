"""The learning-rate schedule of the paper's experiments."""

import optax


def warmup_cosine(peak: float, *, warmup_epochs: int, epochs: int, steps: int) -> optax.Schedule:
    """Linear warm-up from 0 to ``peak``, then cosine decay to 0; at most half of the run is warm-up."""
    warmup = min(warmup_epochs * steps // epochs, steps // 2)
    return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, steps)
