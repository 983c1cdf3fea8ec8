"""``translation``: an encoder-decoder on batches of two parallel corpora, sorted by length."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain, count, islice
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
from tokenizers import Tokenizer

from gradsurgery.lab import Metrics, Sample
from gradsurgery.paper.data.cache import cached_folder
from gradsurgery.paper.data.text.bitext import Bitext
from gradsurgery.paper.data.text.pairs import PairBatch, TokenizedPairs, tokenize_on_disk
from gradsurgery.paper.data.text.tokenizer import PAD, train_tokenizer
from gradsurgery.paper.models.functional import Functional
from gradsurgery.paper.models.translator import Translator, translate_greedily
from gradsurgery.paper.training.buckets import make_bucketed_loss
from gradsurgery.paper.training.training import Training, Tree
from gradsurgery.paper.training.two_corpora import ROLES, train_on_two_corpora, transformer_config
from gradsurgery.paper.translation.bleu import BleuScorer
from gradsurgery.paper.translation.problem import Settings

TOKENIZER_PAIRS = 1_000_000
"""Maximum number of pairs of each corpus that the vocabulary is learned from."""
SAMPLES = 3
"""Translations of each corpus that are stored for people to read."""


def learn_vocabulary(corpora: Mapping[str, Bitext], size: int) -> Tokenizer:
    """Learn subwords of both languages and both corpora, or read them from the cache."""

    def write(folder: Path) -> None:
        pairs = chain.from_iterable(islice(corpus, TOKENIZER_PAIRS) for corpus in corpora.values())
        train_tokenizer(chain.from_iterable(pairs), size).save(str(folder / "vocabulary.json"))

    key = f"vocabulary {size} {' '.join(corpus.key for corpus in corpora.values())}"
    return Tokenizer.from_file(str(cached_folder(key, write) / "vocabulary.json"))


def cross_entropy(model: Translator, batch: PairBatch) -> jax.Array:
    """Mean over the tokens of a batch, in nats, without padding."""
    losses = optax.softmax_cross_entropy_with_integer_labels(model(batch.source, batch.target), batch.target)
    return jnp.mean(losses, where=batch.target != PAD)


def cut(batch: PairBatch, limit: int) -> PairBatch:
    """Drop the positions beyond the limit."""
    return PairBatch(batch.source[:, :limit], batch.target[:, :limit], batch.bucket)


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Training:
    """Load and tokenize both corpora, and prepare training."""
    train = {
        "main": Bitext(settings.main_data, data_dir, held_out=False, limit=settings.main_pairs),
        # aux has few pairs, and news is sorted by date
        "aux": Bitext(settings.aux_data, data_dir, held_out=False, limit=settings.aux_pairs, spread=True),
    }
    test = {role: Bitext(corpus.name, data_dir, held_out=True) for role, corpus in train.items()}
    vocabulary = learn_vocabulary(train, settings.vocabulary)
    limits = [settings.length * (bucket + 1) // settings.buckets for bucket in range(settings.buckets)]

    def tokenize(corpus: Bitext, kind: str) -> TokenizedPairs:
        tokens = tokenize_on_disk(corpus, vocabulary)
        return TokenizedPairs(*tokens, limits, settings.batch, f"the {kind} text of {corpus.name}")

    train_pairs = {role: tokenize(corpus, "training") for role, corpus in train.items()}
    test_pairs = {role: tokenize(corpus, "held-out") for role, corpus in test.items()}
    evaluation_pairs = {  # in an order that no seed trains in, so that no seed has an advantage
        f"{role}_{split}": pairs.batches(settings.evaluated, (0, len(ROLES)), start=0)
        for split, corpora in (("train", train_pairs), ("test", test_pairs))
        for role, pairs in corpora.items()
    }

    config = transformer_config(settings)
    tokens, length = vocabulary.get_vocab_size(), settings.length
    network = Functional(lambda rngs: Translator(config, tokens=tokens, length=length, rngs=rngs))
    batch_loss = make_bucketed_loss(
        lambda params, extra, batch: cross_entropy(network(params, extra), batch), cut, limits
    )

    def batches(seed: int, start: int) -> Iterator[Tree]:
        for step in count(start):
            batch = {
                role: pairs.batches(1, (seed, index), step) for index, (role, pairs) in enumerate(train_pairs.items())
            }
            yield jax.tree.map(lambda leaf: leaf[0], batch)

    def translate(params: Tree, extra: Tree, source: jax.Array) -> jax.Array:
        return translate_greedily(network(params, extra), source)

    scorer = BleuScorer(vocabulary, translate, settings.bleu, length)

    def final_metrics(params: Tree, extra: Tree) -> tuple[Metrics, tuple[Sample, ...]]:
        scores: dict[str, float] = {}
        samples: list[Sample] = []
        for role, corpus in test.items():
            scores[f"bleu_{role}"], translations = scorer(
                params, extra, corpus, count=settings.translated, batch=settings.batch
            )
            samples += translations[:SAMPLES]
        return scores, tuple(samples)

    return train_on_two_corpora(
        settings,
        init=network.init,
        batch_loss=batch_loss,
        batches=batches,
        evaluation_batches=evaluation_pairs,
        weight=lambda batch: jnp.sum(batch.target != PAD),
        final_metrics=final_metrics if settings.translated else None,
    )
