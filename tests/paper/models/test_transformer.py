"""The transformers against plain numpy twins, and what they must not attend to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from gradsurgery.lab.errors import UserError
from gradsurgery.paper.data.text.tokenizer import BEGIN, END, PAD
from gradsurgery.paper.models.functional import Functional
from gradsurgery.paper.models.transformer import Decoder, TransformerConfig
from gradsurgery.paper.models.translator import Translator, translate_greedily

SMALL = TransformerConfig(layers=2, heads=2, width=8, hidden=16)


def compiled(model, function=lambda model, *tokens: model(*tokens)):
    """Return a function of tokens that calls the model, compiled as a whole, quickly rather than well."""
    graph, state = nnx.split(model)
    return jax.jit(
        lambda *tokens: function(nnx.merge(graph, state), *tokens),
        compiler_options={"xla_backend_optimization_level": 0},
    )


@pytest.fixture(scope="module")
def decoder():
    return Decoder(SMALL, tokens=20, length=10, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def translator():
    return Translator(SMALL, tokens=20, length=10, rngs=nnx.Rngs(0))


def random_tokens(*shape, seed=0):
    return jax.random.randint(jax.random.key(seed), shape, 3, 20)


def as_array(param):
    return np.asarray(param[...], np.float64)


def numpy_norm(norm, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * as_array(norm.scale) + as_array(norm.bias)


def numpy_attention(attention, x, memory, allowed):
    """Attend head by head and position by position."""
    query_kernel, key_kernel, value_kernel, out_kernel = (
        as_array(getattr(attention, name).kernel) for name in ("query", "key", "value", "out")
    )
    output = np.zeros_like(x)
    for head in range(out_kernel.shape[0]):
        query, key, value = x @ query_kernel[:, head], memory @ key_kernel[:, head], memory @ value_kernel[:, head]
        for position in range(len(x)):
            scores = key[allowed[position]] @ query[position] / np.sqrt(query.shape[1])
            weights = np.exp(scores - scores.max())
            output[position] += weights / weights.sum() @ value[allowed[position]] @ out_kernel[head]
    return output


def numpy_block(block, x, allowed, memory=None, memory_allowed=None):
    h = numpy_norm(block.norm, x)
    x = x + numpy_attention(block.attention, h, h, allowed)
    if memory is not None:
        x = x + numpy_attention(block.cross_attention, numpy_norm(block.cross_norm, x), memory, memory_allowed)
    h = numpy_norm(block.hidden_norm, x) @ as_array(block.up.kernel) + as_array(block.up.bias)
    h = h * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    return x + h @ as_array(block.down.kernel) + as_array(block.down.bias)


def numpy_embedding(embedding, row):
    return as_array(embedding.tokens.embedding)[row] + as_array(embedding.positions.embedding)[: len(row)]


def numpy_logits(embedding, x):
    return x @ as_array(embedding.tokens.embedding).T


def test_decoder_equals_its_numpy_twin(decoder):
    row = np.asarray(random_tokens(7))
    x, causal = numpy_embedding(decoder.embedding, row), np.tril(np.ones((7, 7), bool))
    for block in decoder.blocks:
        x = numpy_block(block, x, causal)
    expected = numpy_logits(decoder.embedding, numpy_norm(decoder.norm, x))
    np.testing.assert_allclose(compiled(decoder)(row[None])[0], expected, atol=2e-5)


def test_translator_equals_its_numpy_twin(translator):
    source, target = np.asarray(random_tokens(6)), np.asarray(random_tokens(5, seed=1))
    source = np.where(np.arange(6) < 4, source, PAD)
    memory, is_text = numpy_embedding(translator.embedding, source), np.tile(source != PAD, (6, 1))
    for block in translator.encoder:
        memory = numpy_block(block, memory, is_text)
    memory = numpy_norm(translator.encoder_norm, memory)
    x = numpy_embedding(translator.embedding, np.array([BEGIN, *target[:-1]]))
    for block in translator.decoder:
        x = numpy_block(block, x, np.tril(np.ones((5, 5), bool)), memory, is_text[:5])
    expected = numpy_logits(translator.embedding, numpy_norm(translator.decoder_norm, x))
    np.testing.assert_allclose(compiled(translator)(source[None], target[None])[0], expected, atol=2e-5)


def test_no_position_sees_the_tokens_it_predicts(decoder):
    row = random_tokens(1, 8)
    changed = row.at[0, 5].set((row[0, 5] + 1) % 20)
    logits = compiled(decoder)
    before, after = logits(row)[0], logits(changed)[0]
    np.testing.assert_array_equal(before[:5], after[:5])
    assert not np.allclose(before[5:], after[5:])


@pytest.mark.slow
def test_padding_the_source_changes_nothing(translator):
    source, target = random_tokens(2, 5), random_tokens(2, 4, seed=1)
    padded = jnp.pad(source, ((0, 0), (0, 5)), constant_values=PAD)
    logits = compiled(translator)
    np.testing.assert_allclose(logits(source, target), logits(padded, target), atol=1e-5)


@pytest.mark.slow
def test_greedy_translation_with_a_cache_equals_that_without(translator):
    """Without a cache, the whole prefix is read again for every token."""
    source, logits = random_tokens(6, 10), compiled(translator)
    prefix = np.zeros((6, 10), int)
    for position in range(10):
        prefix[:, position] = np.argmax(logits(source, prefix)[:, position], axis=-1)
    translations = compiled(translator, translate_greedily)(source)
    for row, translation in zip(prefix.tolist(), translations.tolist(), strict=True):
        length = row.index(END) + 1 if END in row else len(row)
        assert translation == row[:length] + [PAD] * (10 - length)


def test_translation_is_padded_after_its_end(translator):
    """The decoder's output is made the embedding of END at every position, so that END has the largest logit."""
    graph, state = nnx.split(translator)
    model = nnx.merge(graph, state, copy=True)
    model.decoder_norm.scale[...] = jnp.zeros(8)
    model.decoder_norm.bias[...] = model.embedding.tokens.embedding[...][END] * 100
    translations = compiled(model, translate_greedily)(random_tokens(2, 10))
    np.testing.assert_array_equal(translations, [[END] + [PAD] * 9] * 2)


def test_parameter_count_of_the_papers_language_model():
    """Embeddings, 12 blocks of 4 w^2 + 2 w h + h + w and two norms, and a last norm."""
    width, hidden = 256, 1024
    config = TransformerConfig(12, 8, width, hidden)
    network = Functional(lambda rngs: Decoder(config, tokens=256, length=512, rngs=rngs))
    params, extra = jax.eval_shape(network.init, jax.random.key(0))
    block = 4 * width**2 + 2 * width * hidden + hidden + width + 4 * width
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == (256 + 512) * width + 12 * block + 2 * width
    assert not jax.tree.leaves(extra)


def test_a_width_that_is_not_a_multiple_of_the_heads_is_refused():
    with pytest.raises(UserError, match="width must be a multiple of heads; got width 10 and 4 heads"):
        TransformerConfig(layers=1, heads=4, width=10, hidden=16)
