"""Settings that the problems with a residual network share."""

from dataclasses import dataclass
from typing import Annotated

from gradsurgery.lab import Count, CountOrZero, PositiveFloat, Switch, Text
from gradsurgery.paper.training.chunking import chunk_epochs


@dataclass(frozen=True, kw_only=True)
class ResidualNetworkSettings:
    """A residual network trained by SGD with Nesterov momentum 0.9, warm-up and cosine decay."""

    train_images: Count
    """Maximum number of images to train on."""
    test_images: Count
    """Maximum number of held-out images."""
    blocks: Annotated[str, Text(r"[1-9]\d*(,[1-9]\d*)*", "the number of blocks in each stage, such as 3,4,6,3")]
    """Blocks in each stage, such as 3,4,6,3."""
    bottleneck: Switch
    """True for bottleneck blocks (1 x 1, 3 x 3, 1 x 1), false for two 3 x 3 convolutions."""
    width: Count
    """Channels of the first stage."""
    batch: Count
    """Images in a step."""
    epochs: Count
    """Passes over the training images."""
    warmup_epochs: CountOrZero
    """Epochs in which the learning rate rises from 0."""
    learning_rate: PositiveFloat
    """At the end of the warm-up."""
    margin: CountOrZero
    """Maximum shift of a random crop in pixels, for images in memory."""
    rows_per_epoch: Count
    """How often losses are recorded."""
    evaluated: Count
    """Images in an evaluation, from the training set and from the held-out set each."""

    def __post_init__(self) -> None:
        chunk_epochs(self.epochs, self.train_images, self.batch, self.rows_per_epoch)
