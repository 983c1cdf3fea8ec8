"""Transformers: the blocks, and the decoder that predicts the next byte.

Blocks normalise what they read and add what they compute (pre-norm); positions are learned, and the embedding also
gives the logits.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from gradsurgery.lab.errors import UserError


@dataclass(frozen=True)
class TransformerConfig:
    """The size of a transformer."""

    layers: int
    heads: int
    width: int
    """Of the residual stream."""
    hidden: int
    """Of the feed-forward layers."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UserError(
                f"heads share the width, so it is a multiple of them, but got {self.width} and {self.heads}"
            )


class TransformerBlock(nnx.Module):
    """x + attention, then for a decoder with an encoder + attention to its output, then + feed-forward.

    Args:
        shape: its size.
        cross: whether it looks at an encoder's output, the memory.
        rngs: chance for its parameters.
    """

    def __init__(self, shape: TransformerConfig, *, cross: bool = False, rngs: nnx.Rngs) -> None:
        def attention() -> nnx.MultiHeadAttention:
            return nnx.MultiHeadAttention(shape.heads, shape.width, use_bias=False, decode=False, rngs=rngs)

        def norm() -> nnx.LayerNorm:
            return nnx.LayerNorm(shape.width, rngs=rngs)

        self.norm, self.attention = norm(), attention()
        self.cross_norm: nnx.LayerNorm | None = norm() if cross else None
        self.cross_attention: nnx.MultiHeadAttention | None = attention() if cross else None
        self.hidden_norm = norm()
        self.up = nnx.Linear(shape.width, shape.hidden, rngs=rngs)
        self.down = nnx.Linear(shape.hidden, shape.width, rngs=rngs)

    def __call__(
        self,
        x: jax.Array,
        mask: jax.Array | None,
        memory: jax.Array | None = None,
        memory_mask: jax.Array | None = None,
        *,
        decode: bool = False,
    ) -> jax.Array:
        """What goes on to the next block, (batch, length, width).

        Args:
            x: what came from the one before.
            mask: True where a position (third axis) may look at another (fourth).
            memory: the encoder's output.
            memory_mask: the same for the memory.
            decode: whether x is the next position alone, and those before it are in the cache.
        """
        x = x + self.attention(self.norm(x), mask=mask, decode=decode)
        if self.cross_norm is not None and self.cross_attention is not None:
            x = x + self.cross_attention(self.cross_norm(x), memory, mask=memory_mask)
        return x + self.down(nnx.gelu(self.up(self.hidden_norm(x))))


class Embedding(nnx.Module):
    """Tokens and their positions as vectors, and back as logits."""

    def __init__(self, tokens: int, length: int, width: int, *, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(tokens, width, rngs=rngs)
        self.places = nnx.Embed(length, width, rngs=rngs)

    def __call__(self, tokens: jax.Array, first: jax.Array | int = 0) -> jax.Array:
        """Vectors, (batch, length, width), of tokens whose first stands at this place."""
        return self.tokens(tokens) + self.places(first + jnp.arange(tokens.shape[1]))

    def logits(self, x: jax.Array) -> jax.Array:
        """(batch, length, tokens)."""
        return self.tokens.attend(x)


class Decoder(nnx.Module):
    """Predicts each token from those before it.

    Args:
        shape: its size.
        tokens: how many different ones there are.
        length: how many it reads at most.
        rngs: chance for its parameters.
    """

    def __init__(self, shape: TransformerConfig, *, tokens: int, length: int, rngs: nnx.Rngs) -> None:
        self.embedding = Embedding(tokens, length, shape.width, rngs=rngs)
        self.blocks = nnx.List([TransformerBlock(shape, rngs=rngs) for _ in range(shape.layers)])
        self.norm = nnx.LayerNorm(shape.width, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Logits of the token after each, (batch, length, tokens)."""
        x, mask = self.embedding(tokens), nnx.make_causal_mask(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.embedding.logits(self.norm(x))
