"""Sentence pairs: tokens, buckets, and an order that can be resumed."""

import json

import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.paper.data.text.bitext import Bitext
from gradsurgery.paper.data.text.pairs import TokenizedPairs, tokenize_on_disk
from gradsurgery.paper.data.text.tokenizer import END, PAD, decode, encode, train_tokenizer


def make_pairs(lengths, batch=2):
    """Return pairs in which all tokens of pair n are 10 n in the source and 10 n + 1 in the target."""
    rows = [[10 * n + side] * length for n, pair in enumerate(lengths, 1) for side, length in enumerate(pair)]
    return TokenizedPairs(np.concatenate(rows).astype(np.uint16), np.array(lengths, np.int32), (4, 8), batch)


def test_batches_come_from_one_bucket_and_an_epoch_has_every_pair_once():
    lengths = [(1, 2), (4, 3), (2, 2), (3, 4), (5, 1), (2, 8), (9, 1)]
    batches = make_pairs(lengths).batches(3, seeds=(0,), start=0)
    assert batches.source.shape == batches.target.shape == (3, 2, 8)
    seen = []
    for sources, targets, bucket in zip(*batches, strict=True):
        for source, target in zip(sources, targets, strict=True):
            number = source[0] // 10
            source_length, target_length = lengths[number - 1]
            assert list(source) == [10 * number] * source_length + [PAD] * (8 - source_length)
            assert list(target) == [10 * number + 1] * target_length + [PAD] * (8 - target_length)
            assert bucket == (max(source_length, target_length) > 4)
            seen.append(number)
    assert sorted(seen) == [1, 2, 3, 4, 5, 6], "the seventh pair is too long"


def test_resuming_at_any_batch_gives_the_same_order():
    pairs = make_pairs([(1 + n % 8, 1 + n % 5) for n in range(50)])
    whole = pairs.batches(70, seeds=(1,), start=0)
    for start, count in ((0, 5), (20, 13), (60, 10)):
        resumed = pairs.batches(count, seeds=(1,), start=start)
        for actual, expected in zip(resumed, whole, strict=True):
            np.testing.assert_array_equal(actual, expected[start : start + count])
    assert not np.array_equal(whole.source[:23], pairs.batches(23, seeds=(2,), start=0).source)


def test_each_epoch_has_its_own_order():
    epochs = make_pairs([(1, 1)] * 20).batches(20, seeds=(0,), start=0).source[..., 0].reshape(2, 20)
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert list(epochs[0]) != list(epochs[1])


def test_too_few_pairs_for_a_batch():
    message = (
        "a corpus needs 4 pairs in one bucket for a batch, but its buckets, of at most 4, 8 tokens, have 1, 1 pairs"
    )
    with pytest.raises(UserError, match=message):
        make_pairs([(1, 2), (5, 6), (9, 9)], batch=4)


@pytest.fixture
def data_dir(tmp_path, cache):
    folder = tmp_path / "data" / "news"
    folder.mkdir(parents=True)
    for split, count in (("train", 50), ("test", 5)):
        rows = ({"translation": {"de": f"Haus {n} ist grün", "en": f"house {n} is green"}} for n in range(count))
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "data"


def train_on(bitext):
    return train_tokenizer((text for pair in bitext for text in pair), size=300)


def test_tokens_decode_to_the_text(data_dir):
    bitext = Bitext("org/news", data_dir, held_out=False, limit=20)
    tokenizer = train_on(bitext)
    tokens, lengths = tokenize_on_disk(bitext, tokenizer)
    assert len(lengths) == 20
    assert decode(tokenizer, [tokens[: lengths[0, 0]], tokens[lengths[0, 0] : lengths[0].sum()]]) == [
        "house 0 is green",
        "Haus 0 ist grün",
    ]
    assert list(Bitext("org/news", data_dir, held_out=True))[-1] == ("house 4 is green", "Haus 4 ist grün")
    assert len(encode(tokenizer, ["house"])[0]) < len("house"), "a common word takes few tokens"
    assert encode(tokenizer, [""]) == [[END]]


def test_training_a_tokenizer_is_deterministic(data_dir):
    bitext = Bitext("org/news", data_dir, held_out=False)
    assert train_on(bitext).to_str() == train_on(bitext).to_str()


def test_spread_pairs_are_evenly_spaced(data_dir):
    spread = Bitext("news", data_dir, held_out=False, limit=5, spread=True)
    assert [source for source, _ in spread] == [f"house {n} is green" for n in (0, 10, 20, 30, 40)]
    assert len(list(Bitext("news", data_dir, held_out=False, limit=99, spread=True))) == 50


def test_special_tokens_in_a_text_are_plain_text():
    tokenizer = train_tokenizer(["a house"], size=270)
    assert decode(tokenizer, encode(tokenizer, ["a <pad> house <end> of"])) == ["a <pad> house <end> of"]


@pytest.mark.parametrize("translation", [{"fr": "x", "en": "y"}, {"en": 1, "de": 2}])
def test_translation_without_english_or_german(data_dir, translation):
    (data_dir / "news" / "train.jsonl").write_text(json.dumps({"translation": translation}) + "\n")
    with pytest.raises(UserError, match=r"each translation in news must have an en and a de text; got "):
        list(Bitext("news", data_dir, held_out=False))


@pytest.mark.parametrize("name", ["number-cardinals", "number-years"])
def test_held_out_number_words_are_not_in_the_training_data(name):
    train, test = (list(Bitext(name, held_out=held_out)) for held_out in (False, True))
    assert not set(train) & set(test)
    assert len(set(test)) == len(test) == 500
