"""The transformers against plain twins, and what they must not look at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from gradsurgery.lab.data.text.tokenizer import BEGIN, END, PAD
from gradsurgery.lab.models.functional import Functional
from gradsurgery.lab.models.transformer import Decoder, TransformerConfig
from gradsurgery.lab.models.translator import Translator, translate_greedily

SMALL = TransformerConfig(layers=2, heads=2, width=8, hidden=16)


@pytest.fixture(scope="module")
def decoder():
    return Decoder(SMALL, tokens=20, length=10, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def translator():
    return Translator(SMALL, tokens=20, length=10, rngs=nnx.Rngs(0))


def tokens(*shape, seed=0):
    return jax.random.randint(jax.random.key(seed), shape, 3, 20)


def normalised(norm, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * np.asarray(norm.scale[...]) + np.asarray(norm.bias[...])


def attended(attention, x, memory, allowed):
    """One head and one position after another."""
    kernels = {name: np.asarray(getattr(attention, name).kernel[...], np.float64) for name in ("query", "key", "value")}
    out = np.asarray(attention.out.kernel[...], np.float64)
    found = np.zeros_like(x)
    for head in range(out.shape[0]):
        query, key, value = (
            source @ kernels[name][:, head] for name, source in (("query", x), ("key", memory), ("value", memory))
        )
        for place in range(len(x)):
            scores = key[allowed[place]] @ query[place] / np.sqrt(query.shape[1])
            weights = np.exp(scores - scores.max())
            found[place] += weights / weights.sum() @ value[allowed[place]] @ out[head]
    return found


def block(one, x, allowed, memory=None, visible=None):
    h = normalised(one.norm, x)
    x = x + attended(one.attention, h, h, allowed)
    if memory is not None:
        x = x + attended(one.cross_attention, normalised(one.cross_norm, x), memory, visible)
    h = normalised(one.hidden_norm, x) @ np.asarray(one.up.kernel[...]) + np.asarray(one.up.bias[...])
    h = h * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    return x + h @ np.asarray(one.down.kernel[...]) + np.asarray(one.down.bias[...])


def embedded(embedding, row):
    words, places = (np.asarray(table.embedding[...], np.float64) for table in (embedding.tokens, embedding.positions))
    return words[row] + places[: len(row)]


def logits(embedding, x):
    return x @ np.asarray(embedding.tokens.embedding[...], np.float64).T


def test_the_decoder_is_its_plain_twin(decoder):
    row = np.asarray(tokens(7))
    x, earlier = embedded(decoder.embedding, row), np.tril(np.ones((7, 7), bool))
    for one in decoder.blocks:
        x = block(one, x, earlier)
    expected = logits(decoder.embedding, normalised(decoder.norm, x))
    np.testing.assert_allclose(decoder(row[None])[0], expected, atol=2e-5)


def test_the_translator_is_its_plain_twin(translator):
    source, target = np.asarray(tokens(6)), np.asarray(tokens(5, seed=1))
    source = np.where(np.arange(6) < 4, source, PAD)
    memory, text = embedded(translator.embedding, source), np.tile(source != PAD, (6, 1))
    for one in translator.encoder:
        memory = block(one, memory, text)
    memory = normalised(translator.encoder_norm, memory)
    x, earlier = embedded(translator.embedding, np.array([BEGIN, *target[:-1]])), np.tril(np.ones((5, 5), bool))
    for one in translator.decoder:
        x = block(one, x, earlier, memory, text[:5])
    expected = logits(translator.embedding, normalised(translator.decoder_norm, x))
    np.testing.assert_allclose(translator(source[None], target[None])[0], expected, atol=2e-5)


def test_no_position_sees_what_it_shall_predict(decoder):
    row = tokens(1, 8)
    changed = row.at[0, 5].set((row[0, 5] + 1) % 20)
    before, after = decoder(row)[0], decoder(changed)[0]
    np.testing.assert_array_equal(before[:5], after[:5])
    assert not np.allclose(before[5:], after[5:])


def test_filling_up_a_sentence_changes_nothing(translator):
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    longer = jnp.pad(source, ((0, 0), (0, 5)), constant_values=PAD)
    np.testing.assert_allclose(translator(source, target), translator(longer, target), atol=1e-5)


def test_greedy_translations_with_a_cache_are_those_without(translator):
    """The plain way: the whole beginning is read again for every token."""
    source = tokens(6, 10)
    beginning = jnp.zeros((6, 10), int)
    for place in range(10):
        best = jnp.argmax(translator(source, beginning)[:, place], axis=-1)
        beginning = beginning.at[:, place].set(best)
    expected = [list(map(int, row)) for row in beginning]
    for row, found in zip(expected, translate_greedily(translator, source), strict=True):
        cut = row.index(END) + 1 if END in row else len(row)
        assert list(map(int, found)) == row[:cut] + [PAD] * (10 - cut)


def test_a_translation_ends_with_its_end_mark(translator):
    """Whatever is read, the end mark comes first: the embedding's gives the largest logit to all."""
    graph, state = nnx.split(translator)
    model = nnx.merge(graph, state)
    model.decoder_norm.scale[...] = jnp.zeros(8)
    model.decoder_norm.bias[...] = model.embedding.tokens.embedding[...][END] * 100
    found = translate_greedily(model, tokens(2, 10))
    np.testing.assert_array_equal(found, [[END] + [PAD] * 9] * 2)


def test_parameters_are_as_many_as_by_hand():
    """Of the paper's language model: embeddings, 12 blocks of 4 w^2 + 2 w h + h + w and two norms, a last norm."""
    width, hidden = 256, 1024
    network = Functional(
        lambda rngs: Decoder(TransformerConfig(12, 8, width, hidden), tokens=256, length=512, rngs=rngs)
    )
    params, extra = jax.eval_shape(network.init, jax.random.key(0))
    one = 4 * width**2 + 2 * width * hidden + hidden + width + 4 * width
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == (256 + 512) * width + 12 * one + 2 * width
    assert not jax.tree.leaves(extra)
