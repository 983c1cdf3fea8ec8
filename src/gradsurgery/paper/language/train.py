"""``language``: a decoder that predicts the next byte, on windows of two corpora."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

from gradsurgery.paper.data.hub import ColumnStream
from gradsurgery.paper.data.shuffle import epoch_indices
from gradsurgery.paper.data.text.builtin import DOCUMENTS
from gradsurgery.paper.data.text.corpus import Bytes, Corpus, pack, pack_on_disk
from gradsurgery.paper.language.problem import Settings
from gradsurgery.paper.models.functional import Functional
from gradsurgery.paper.models.transformer import Decoder
from gradsurgery.paper.training.training import Training
from gradsurgery.paper.training.two_corpora import ROLES, train_on_two_corpora, transformer_config

BYTES = 256


def next_byte_loss(model: Decoder, windows: jax.Array) -> jax.Array:
    """Mean loss over the bytes of these windows, in nats."""
    windows = windows.astype(int)
    logits = model(windows[:, :-1])
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:]))


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Training:
    """Load both corpora and prepare training."""
    config = transformer_config(settings)
    network = Functional(lambda rngs: Decoder(config, tokens=BYTES, length=settings.length, rngs=rngs))
    sources = {
        "main": (settings.main_data, settings.main_documents),
        "aux": (settings.aux_data, settings.aux_documents),
    }

    def load(role: str, *, held_out: bool) -> Corpus:
        name, documents = sources[role]
        limit = None if held_out else documents
        if name in DOCUMENTS:
            text = pack(DOCUMENTS[name](held_out)[:limit])
        else:  # aux has few documents, and news is sorted by date
            spread = role == "aux"
            text = pack_on_disk(ColumnStream(name, "text", data_dir, held_out=held_out, limit=limit, spread=spread))
        return Corpus(text, settings.length, f"the {'held-out' if held_out else 'training'} text of {name}")

    train, test = ({role: load(role, held_out=held_out) for role in ROLES} for held_out in (False, True))
    evaluated = settings.evaluated, settings.batch, settings.length + 1
    evaluation_windows = {
        f"{role}_{split}": corpora[role].evenly_spaced(settings.evaluated * settings.batch).reshape(evaluated)
        for role in ROLES
        for split, corpora in (("train", train), ("test", test))
    }

    def batches(seed: int, start: int) -> Iterator[dict[str, Bytes]]:
        for step in count(start):
            yield {
                role: corpus[epoch_indices(len(corpus), settings.batch, (seed, index), step * settings.batch)]
                for index, (role, corpus) in enumerate(train.items())
            }

    return train_on_two_corpora(
        settings,
        init=network.init,
        batch_loss=lambda params, extra, windows: next_byte_loss(network(params, extra), windows),
        batches=batches,
        evaluation_batches=evaluation_windows,
        weight=lambda windows: windows.size,
    )
