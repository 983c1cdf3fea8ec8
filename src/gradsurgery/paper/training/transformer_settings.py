"""Settings that the problems with a transformer share."""

from dataclasses import dataclass

from gradsurgery.lab import Count, PositiveFloat, Switch
from gradsurgery.paper.training.chunking import chunk_steps


@dataclass(frozen=True, kw_only=True)
class TransformerSettings:
    """A transformer trained by Adam on batches of two corpora."""

    layers: Count
    """Layers of the decoder, and of the encoder if there is one."""
    heads: Count
    """Attention heads in a layer; a divisor of the width."""
    width: Count
    """Width of the residual stream."""
    hidden: Count
    """Width of the feed-forward layers."""
    batch: Count
    """Examples from each corpus in a step."""
    learning_rate: PositiveFloat
    """Of Adam."""
    steps: Count
    """Steps of training."""
    rows: Count
    """How often losses are recorded; a divisor of the steps."""
    evaluated: Count
    """Batches of each corpus and split in an evaluation."""
    sharded: Switch
    """True to split parameters, averages and optimiser state over the devices."""

    def __post_init__(self) -> None:
        chunk_steps(self.steps, self.rows)
