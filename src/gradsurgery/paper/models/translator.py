"""An encoder-decoder transformer, and greedy decoding with it."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from gradsurgery.paper.data.text.tokenizer import BEGIN, END, PAD
from gradsurgery.paper.models.transformer import Embedding, TransformerBlock, TransformerConfig


class Translator(nnx.Module):
    """Predicts each token of a translation from the source and the tokens before it.

    Encoder and decoder have ``config.layers`` each. Both languages share a vocabulary of ``tokens``; a source or a
    translation has at most ``length`` of them.
    """

    def __init__(self, config: TransformerConfig, *, tokens: int, length: int, rngs: nnx.Rngs) -> None:
        self.embedding = Embedding(tokens, length, config.width, rngs=rngs)
        self.encoder = nnx.List([TransformerBlock(config, rngs=rngs) for _ in range(config.layers)])
        self.encoder_norm = nnx.LayerNorm(config.width, rngs=rngs)
        self.decoder = nnx.List([TransformerBlock(config, cross=True, rngs=rngs) for _ in range(config.layers)])
        self.decoder_norm = nnx.LayerNorm(config.width, rngs=rngs)

    def __call__(self, source: jax.Array, target: jax.Array) -> jax.Array:
        """Return the logits of each target token, given those before it, (batch, length, tokens)."""
        inputs = jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BEGIN)
        return self.decode(inputs, *self.encode(source), mask=nnx.make_causal_mask(inputs))

    def encode(self, source: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the memory that the decoder attends to, and its mask, which excludes padding."""
        mask = (source != PAD)[:, None, None, :]
        x = self.embedding(source)
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(
        self,
        inputs: jax.Array,
        memory: jax.Array,
        memory_mask: jax.Array,
        *,
        mask: jax.Array | None = None,
        position: jax.Array | int | None = None,
    ) -> jax.Array:
        """Return the logits of the token after each input token.

        With a position, the input is the one token there, and the tokens before it are in the cache.
        """
        x = self.embedding(inputs, 0 if position is None else position)
        for block in self.decoder:
            x = block(x, mask, memory, memory_mask, decode=position is not None)
        return self.embedding.logits(self.decoder_norm(x))


def translate_greedily(model: Translator, source: jax.Array) -> jax.Array:
    """Choose the most likely token at each position, (batch, length); after ``END`` all tokens are ``PAD``."""
    memory, memory_mask = model.encode(source)
    for block in model.decoder:
        block.attention.init_cache(memory.shape)
    graph, *states = nnx.split(model, nnx.Cache, ...)
    cache, rest = states

    def step(carry: tuple[Any, jax.Array], position: jax.Array) -> tuple[tuple[Any, jax.Array], jax.Array]:
        cache, last = carry
        model = nnx.merge(graph, cache, rest)
        best = jnp.argmax(model.decode(last[:, None], memory, memory_mask, position=position)[:, 0], axis=-1)
        token = jnp.where((last == END) | (last == PAD), PAD, best).astype(last.dtype)
        return (nnx.state(model, nnx.Cache), token), token

    first = jnp.full(source.shape[0], BEGIN, source.dtype)
    _, tokens = jax.lax.scan(step, (cache, first), jnp.arange(source.shape[1]))
    return tokens.T
