"""Adam on two corpora, for the text tasks: the same loss on the large corpus (main) and on the small one (aux)."""

from collections.abc import Callable, Mapping

import jax
import optax

from gradsurgery.paper.models.transformer import TransformerConfig
from gradsurgery.paper.training.buckets import BatchLoss
from gradsurgery.paper.training.chunking import chunk_steps
from gradsurgery.paper.training.evaluation import mean_losses
from gradsurgery.paper.training.training import Batches, FinalMetrics, Loss, Training, Tree
from gradsurgery.paper.training.transformer_settings import TransformerSettings

ROLES = ("main", "aux")


def transformer_config(settings: TransformerSettings) -> TransformerConfig:
    """The size of the transformer."""
    return TransformerConfig(settings.layers, settings.heads, settings.width, settings.hidden)


def train_on_two_corpora(
    settings: TransformerSettings,
    *,
    init: Callable[[jax.Array], tuple[Tree, Tree]],
    batch_loss: BatchLoss,
    batches: Batches,
    evaluation_batches: Mapping[str, Tree],
    weight: Callable[[Tree], jax.Array | int],
    final_metrics: FinalMetrics | None = None,
) -> Training:
    """Make the task, with the mean loss of a batch of either corpus.

    A batch is by role; ``evaluation_batches`` has batches along a first axis as ``main_train``, ``aux_train``,
    ``main_test`` and ``aux_test``. ``weight`` is that of a batch in the mean loss of its corpus, such as its number of
    tokens. For the other arguments see ``Training``.
    """

    def loss(role: str) -> Loss:
        return lambda params, extra, data, batch: (batch_loss(params, extra, batch[role]), extra)

    def evaluate(params: Tree, extra: Tree, data: Tree) -> dict[str, jax.Array]:
        return mean_losses(lambda batch: batch_loss(params, extra, batch), data, weight)

    chunks, steps = chunk_steps(settings.steps, settings.rows)
    return Training(
        init=init,
        losses=[loss(role) for role in ROLES],
        data=evaluation_batches,
        data_axis=1,
        batches=batches,
        optimiser=lambda lam: optax.adam(settings.learning_rate),
        evaluate=evaluate,
        chunks=chunks,
        steps=steps,
        scan=True,
        final_metrics=final_metrics,
        sharded=settings.sharded,
    )
