"""Pairs of sentences: vocabulary, buckets, and an order that can be resumed."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradsurgery.lab.data.text.bitext import Bitext
from gradsurgery.lab.data.text.pairs import PairBatch, TokenizedPairs, tokenize_on_disk
from gradsurgery.lab.data.text.tokenizer import END, PAD, decode, encode, train_tokenizer
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.train.buckets import bucketed

LIMITS = (4, 8)


def some(lengths, batch=2):
    """Pairs whose tokens tell which pair and side they are of: 10 n and 10 n + 1."""
    rows = [[10 * n + side] * length for n, pair in enumerate(lengths, 1) for side, length in enumerate(pair)]
    return TokenizedPairs(np.concatenate(rows).astype(np.uint16), np.array(lengths, np.int32), LIMITS, batch)


def test_batches_are_of_one_bucket_and_every_pair_comes_once_an_epoch():
    lengths = [(1, 2), (4, 3), (2, 2), (3, 4), (5, 1), (2, 8), (9, 1)]
    pairs = some(lengths)
    source, target, bucket = pairs.batches(3, seeds=(0,), start=0)
    assert source.shape == target.shape == (3, 2, 8)
    seen = []
    for sources, targets, own in zip(source, target, bucket, strict=True):
        for one, other in zip(sources, targets, strict=True):
            number = one[0] // 10
            expected = lengths[number - 1]
            assert list(one) == [10 * number] * expected[0] + [PAD] * (8 - expected[0])
            assert list(other) == [10 * number + 1] * expected[1] + [PAD] * (8 - expected[1])
            assert own == (max(expected) > 4)
            seen.append(number)
    assert sorted(seen) == [1, 2, 3, 4, 5, 6], "the seventh is too long"


def test_a_later_batch_does_not_depend_on_how_one_came_there():
    pairs = some([(1 + n % 8, 1 + n % 5) for n in range(50)])
    whole = pairs.batches(70, seeds=(1,), start=0)
    for start, count in ((0, 5), (20, 13), (60, 10)):
        part = pairs.batches(count, seeds=(1,), start=start)
        for found, expected in zip(part, whole, strict=True):
            np.testing.assert_array_equal(found, expected[start : start + count])
    assert not np.array_equal(whole.source[:23], pairs.batches(23, seeds=(2,), start=0).source)


def test_epochs_have_orders_of_their_own():
    pairs = some([(1, 1)] * 20)
    epochs = pairs.batches(20, seeds=(0,), start=0).source[..., 0].reshape(2, 20)
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert list(epochs[0]) != list(epochs[1])


def test_too_few_pairs_get_one_sentence():
    with pytest.raises(
        UserError,
        match="a corpus needs 4 pairs in one bucket for a batch, but its buckets, of at most 4, 8 tokens, have 1, 1 p",
    ):
        some([(1, 2), (5, 6), (9, 9)], batch=4)


@pytest.fixture
def data_dir(tmp_path, cache):
    folder = tmp_path / "data" / "news"
    folder.mkdir(parents=True)
    for split, count in (("train", 50), ("test", 5)):
        rows = ({"translation": {"de": f"Haus {n} ist grün", "en": f"house {n} is green"}} for n in range(count))
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "data"


def test_text_goes_through_tokens_and_back(data_dir):
    corpus = Bitext("org/news", data_dir, held_out=False, limit=20)
    words = train_tokenizer((text for pair in corpus for text in pair), size=300)
    tokens, lengths = tokenize_on_disk(corpus, words)
    assert len(lengths) == 20
    assert decode(words, [tokens[: lengths[0, 0]], tokens[lengths[0, 0] : lengths[0].sum()]]) == [
        "house 0 is green",
        "Haus 0 ist grün",
    ]
    assert list(Bitext("org/news", data_dir, held_out=True))[-1] == ("house 4 is green", "Haus 4 ist grün")
    assert len(encode(words, ["house"])[0]) < len("house"), "common words are few tokens"
    assert encode(words, [""]) == [[END]]


def test_a_vocabulary_is_the_same_for_the_same_text(data_dir):
    corpus = Bitext("org/news", data_dir, held_out=False)
    first, second = (train_tokenizer((text for pair in corpus for text in pair), size=300).to_str() for _ in range(2))
    assert first == second


def test_what_is_spread_comes_from_all_over(data_dir):
    found = Bitext("news", data_dir, held_out=False, limit=5, spread=True)
    assert [source for source, _ in found] == [f"house {n} is green" for n in (0, 10, 20, 30, 40)]
    assert len(list(Bitext("news", data_dir, held_out=False, limit=99, spread=True))) == 50


def test_marks_in_a_text_are_text():
    words = train_tokenizer(["a house"], size=270)
    assert decode(words, encode(words, ["a <pad> house <end> of"])) == ["a <pad> house <end> of"]


def test_other_languages_get_one_sentence(data_dir):
    (data_dir / "news" / "train.jsonl").write_text(json.dumps({"translation": {"fr": "x", "en": "y"}}) + "\n")
    with pytest.raises(UserError, match=r"must have an en and a de text, but one is \{"):
        list(Bitext("news", data_dir, held_out=False))


@pytest.mark.parametrize("name", ["number-cardinals", "number-years"])
def test_number_words_are_held_out_truly(name):
    train, test = (list(Bitext(name, held_out=held_out)) for held_out in (False, True))
    assert not set(train) & set(test)
    assert len(set(test)) == len(test) == 500


def test_a_bucketed_loss_and_its_gradient_are_those_of_the_batch_alone():
    def loss(params, extra, batch):
        assert batch.source.shape[-1] in LIMITS
        return jnp.sum(params["w"] * extra * batch.source) / batch.source.shape[-1]

    def cut(batch, limit):
        return PairBatch(batch.source[:, :limit], batch.target[:, :limit], batch.bucket)

    found = jax.value_and_grad(lambda params, batch: 3 * bucketed(loss, cut, LIMITS)(params, 2.0, batch))
    params, source = {"w": jnp.arange(1.0, 3.0)[:, None]}, jnp.arange(16.0).reshape(2, 8)
    for bucket, limit in enumerate(LIMITS):
        for function in (found, jax.jit(found)):
            value, gradient = function(params, PairBatch(source, source, jnp.array(bucket)))
            expected = jnp.sum(source[:, :limit], axis=1, keepdims=True) * 6 / limit
            np.testing.assert_allclose(gradient["w"], expected, rtol=1e-6)
            np.testing.assert_allclose(value, jnp.sum(params["w"] * expected), rtol=1e-6)
