"""Transformer blocks, and a decoder-only language model.

Pre-norm residual blocks, learned positions, and logits from the transposed token embedding.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from gradsurgery.lab import UserError


@dataclass(frozen=True)
class TransformerConfig:
    """Size of a transformer."""

    layers: int
    heads: int
    width: int
    """Of the residual stream."""
    hidden: int
    """Of the feed-forward layers."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UserError(f"width must be a multiple of heads; got width {self.width} and {self.heads} heads")


class TransformerBlock(nnx.Module):
    """Self-attention, cross-attention to an encoder's output (the memory) if ``cross``, and a feed-forward layer."""

    def __init__(self, config: TransformerConfig, *, cross: bool = False, rngs: nnx.Rngs) -> None:
        def attention() -> nnx.MultiHeadAttention:
            return nnx.MultiHeadAttention(config.heads, config.width, use_bias=False, decode=False, rngs=rngs)

        def norm() -> nnx.LayerNorm:
            return nnx.LayerNorm(config.width, rngs=rngs)

        self.norm, self.attention = norm(), attention()
        self.cross_norm: nnx.LayerNorm | None = norm() if cross else None
        self.cross_attention: nnx.MultiHeadAttention | None = attention() if cross else None
        self.hidden_norm = norm()
        self.up = nnx.Linear(config.width, config.hidden, rngs=rngs)
        self.down = nnx.Linear(config.hidden, config.width, rngs=rngs)

    def __call__(
        self,
        x: jax.Array,
        mask: jax.Array | None,
        memory: jax.Array | None = None,
        memory_mask: jax.Array | None = None,
        *,
        decode: bool = False,
    ) -> jax.Array:
        """Return the block's output, (batch, length, width).

        Args:
            x: input, (batch, length, width).
            mask: True where a query position (third axis) may attend to a key position (fourth axis).
            memory: output of the encoder.
            memory_mask: mask for the memory.
            decode: x is the next position only; earlier ones are in the cache.
        """
        x = x + self.attention(self.norm(x), mask=mask, decode=decode)
        if self.cross_norm is not None and self.cross_attention is not None:
            x = x + self.cross_attention(self.cross_norm(x), memory, mask=memory_mask)
        return x + self.down(nnx.gelu(self.up(self.hidden_norm(x))))


class Embedding(nnx.Module):
    """Token and position embeddings, shared with the output layer."""

    def __init__(self, tokens: int, length: int, width: int, *, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(tokens, width, rngs=rngs)
        self.positions = nnx.Embed(length, width, rngs=rngs)

    def __call__(self, tokens: jax.Array, first: jax.Array | int = 0) -> jax.Array:
        """Return vectors, (batch, length, width), for tokens that start at position ``first``."""
        return self.tokens(tokens) + self.positions(first + jnp.arange(tokens.shape[1]))

    def logits(self, x: jax.Array) -> jax.Array:
        """Return logits, (batch, length, tokens)."""
        return self.tokens.attend(x)


class Decoder(nnx.Module):
    """Predicts each token from at most ``length`` tokens before it."""

    def __init__(self, config: TransformerConfig, *, tokens: int, length: int, rngs: nnx.Rngs) -> None:
        self.embedding = Embedding(tokens, length, config.width, rngs=rngs)
        self.blocks = nnx.List([TransformerBlock(config, rngs=rngs) for _ in range(config.layers)])
        self.norm = nnx.LayerNorm(config.width, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Return the logits of the token after each input token, (batch, length, tokens)."""
        x, mask = self.embedding(tokens), nnx.make_causal_mask(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.embedding.logits(self.norm(x))
