"""``imagenet-cifar10``: a residual network with two heads, each trained on its own dataset."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import jax

from gradsurgery.paper.data.images.load import ImageSource
from gradsurgery.paper.data.shuffle import Seeds
from gradsurgery.paper.imagenet_cifar10.problem import Settings
from gradsurgery.paper.training.classification import (
    cross_entropy,
    evaluation_logits,
    loss_and_accuracy,
    residual_network,
    train_residual_network,
    training_logits,
)
from gradsurgery.paper.training.training import Loss, Training, Tree
from gradsurgery.paper.weights.train import load_source


class BothSources:
    """A batch of each source, by role; an epoch is one of main."""

    def __init__(self, sources: Mapping[str, ImageSource]) -> None:
        self._sources = sources

    def __len__(self) -> int:
        return len(self._sources["main"])

    def batches(self, batch: int, shard: slice, seeds: Seeds, start: int) -> Iterator[Tree]:
        sources = enumerate(self._sources.values())
        return self._by_role([source.batches(batch, shard, (*seeds, index), start) for index, source in sources])

    def evaluation_batches(self, held_out: bool, number: int, batch: int, shard: slice) -> Iterator[Tree]:
        sources = self._sources.values()
        return self._by_role([source.evaluation_batches(held_out, number, batch, shard) for source in sources])

    def _by_role(self, streams: Sequence[Iterator[Tree]]) -> Iterator[Tree]:
        return (dict(zip(self._sources, batch, strict=True)) for batch in zip(*streams, strict=True))


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Training:
    """Load both datasets and prepare training."""
    sources = {role: load_source(settings, data_dir, role) for role in ("main", "aux")}
    heads = {role: source.classes for role, source in sources.items()}
    net = residual_network(settings, settings.pixels, heads)

    def init(key: jax.Array) -> tuple[Tree, Tree]:
        params, statistics = net.init(key)
        return params, dict.fromkeys(sources, statistics)

    def loss(role: str) -> Loss:
        source = sources[role]

        def role_loss(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
            images = source.images(data[role], batch[role])
            logits, statistics = training_logits(net, params, extra[role], images)
            return cross_entropy(logits[role], source.labels(data[role], batch[role])), {**extra, role: statistics}

        return role_loss

    def measure(params: Tree, extra: Tree, data: Tree, batch: Tree) -> dict[str, jax.Array]:
        metrics: dict[str, jax.Array] = {}
        for role, source in sources.items():
            images, labels = source.images(data[role], batch[role]), source.labels(data[role], batch[role])
            logits = evaluation_logits(net, params, extra[role], images)[role]
            metrics |= loss_and_accuracy(role, logits, labels)
        return metrics

    return train_residual_network(
        settings,
        BothSources(sources),
        {role: source.data for role, source in sources.items()},
        init=init,
        losses=[loss(role) for role in sources],
        measure=measure,
        divide_by_lam=True,
    )
