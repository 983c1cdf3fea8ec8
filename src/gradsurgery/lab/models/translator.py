"""An encoder-decoder transformer: reads a sentence whole, and writes its translation token by token."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from gradsurgery.lab.data.text.tokenizer import BEGIN, END, PAD
from gradsurgery.lab.models.transformer import Embedding, TransformerBlock, TransformerConfig


class Translator(nnx.Module):
    """Predicts each token of a translation from the source and the tokens before it.

    Args:
        shape: its size; as many layers in the encoder as in the decoder.
        tokens: how many different ones there are, in both languages together.
        length: how many it reads or writes at most.
        rngs: chance for its parameters.
    """

    def __init__(self, shape: TransformerConfig, *, tokens: int, length: int, rngs: nnx.Rngs) -> None:
        self.embedding = Embedding(tokens, length, shape.width, rngs=rngs)
        self.encoder = nnx.List([TransformerBlock(shape, rngs=rngs) for _ in range(shape.layers)])
        self.encoder_norm = nnx.LayerNorm(shape.width, rngs=rngs)
        self.decoder = nnx.List([TransformerBlock(shape, cross=True, rngs=rngs) for _ in range(shape.layers)])
        self.decoder_norm = nnx.LayerNorm(shape.width, rngs=rngs)

    def __call__(self, source: jax.Array, target: jax.Array) -> jax.Array:
        """Logits of each token of the target, (batch, length, tokens); the token itself is not looked at."""
        before = jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BEGIN)
        return self.decode(before, *self.encode(source), mask=nnx.make_causal_mask(before))

    def encode(self, source: jax.Array) -> tuple[jax.Array, jax.Array]:
        """What the decoder looks at, and the mask of what is text of it."""
        mask = (source != PAD)[:, None, None, :]
        x = self.embedding(source)
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(
        self,
        before: jax.Array,
        memory: jax.Array,
        memory_mask: jax.Array,
        *,
        mask: jax.Array | None = None,
        place: jax.Array | int | None = None,
    ) -> jax.Array:
        """Logits of the tokens that follow these; with a place, of a single one whose forerunners are in the cache."""
        x = self.embedding(before, 0 if place is None else place)
        for block in self.decoder:
            x = block(x, mask, memory, memory_mask, decode=place is not None)
        return self.embedding.logits(self.decoder_norm(x))


def translate_greedily(model: Translator, source: jax.Array) -> jax.Array:
    """The most likely token after each, greedily, (batch, length); behind the end mark nothing but ``PAD``."""
    memory, memory_mask = model.encode(source)
    for block in model.decoder:
        block.attention.init_cache(memory.shape)
    graph, *states = nnx.split(model, nnx.Cache, ...)
    cache, rest = states

    def step(carry: tuple[Any, jax.Array], place: jax.Array) -> tuple[tuple[Any, jax.Array], jax.Array]:
        cache, last = carry
        model = nnx.merge(graph, cache, rest)
        best = jnp.argmax(model.decode(last[:, None], memory, memory_mask, place=place)[:, 0], axis=-1)
        following = jnp.where((last == END) | (last == PAD), PAD, best).astype(last.dtype)
        return (nnx.state(model, nnx.Cache), following), following

    first = jnp.full(source.shape[0], BEGIN, source.dtype)
    _, found = jax.lax.scan(step, (cache, first), jnp.arange(source.shape[1]))
    return found.T
