"""Translation from English to German on two parallel corpora: one large and generic, one small and better.

    main = cross-entropy of the next token on the large corpus,   aux = the same on the small one

The paper's sizes: 6 + 6 layers of 16 heads, 1,024 wide, feed-forward layers of 4,096; 36 million pairs of Paracrawl and
10 thousand of WMT's news tests of 2009 to 2019, 256 pairs of each in a step; WMT 2020 to evaluate; Adam at 2e-4 for
500,000 steps; lam from 1e-4 to 10, and 0. It does not say how large the vocabulary is, nor how long a sentence may be,
but that its code comes from Flax's example for WMT, so we take that one's 32,000 and 256 tokens. Labels are not
smoothed.

WMT's news tests are no dataset of the hub in one piece: at the scale ``paper`` name a data folder with
``wmt-news-en-de`` in it, with a column ``translation`` of ``en`` and ``de`` and 2020 as its split ``test``, and with
``opus_paracrawl``, as ``hf download`` fetches it.
"""

from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tokenizers import Tokenizer

from gradsurgery.lab.data.cache import cached_folder
from gradsurgery.lab.data.text.bitext import Bitext
from gradsurgery.lab.data.text.pairs import PairBatch, TokenizedPairs, tokenize_on_disk
from gradsurgery.lab.data.text.tokenizer import BYTES, PAD, train_tokenizer
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.models.functional import Functional
from gradsurgery.lab.models.transformer import TransformerConfig
from gradsurgery.lab.models.translator import Translator, translate_greedily
from gradsurgery.lab.problem import COMPARED, Outcome, Problem, Scale
from gradsurgery.lab.problems.bleu import Judge
from gradsurgery.lab.run import Setting
from gradsurgery.lab.train.buckets import bucketed
from gradsurgery.lab.train.evaluation import mean_losses
from gradsurgery.lab.train.loops import LoopTraining, parts
from gradsurgery.lab.train.training import Loss, Tree

ROLES = ("main", "aux")
READ = 1_000_000
"""How many pairs of each corpus the vocabulary is learned from at most."""
SHOWN = 3
"""How many translations are kept for people to read."""


def vocabulary(corpora: Mapping[str, Bitext], size: int) -> Tokenizer:
    """Subwords of both languages and both corpora, learned once."""

    def write(folder: Path) -> None:
        pairs = chain.from_iterable(islice(corpus, READ) for corpus in corpora.values())
        train_tokenizer(chain.from_iterable(pairs), size).save(str(folder / "vocabulary.json"))

    key = f"vocabulary {size} {' '.join(corpus.key for corpus in corpora.values())}"
    return Tokenizer.from_file(str(cached_folder(key, write) / "vocabulary.json"))


def cross_entropy(model: Translator, batch: PairBatch) -> jax.Array:
    """The mean over the tokens of a batch, in nats; what only fills it up does not count."""
    losses = optax.softmax_cross_entropy_with_integer_labels(model(batch.source, batch.target), batch.target)
    return jnp.mean(losses, where=batch.target != PAD)


def cut(batch: PairBatch, limit: int) -> PairBatch:
    """Without what lies beyond the limit."""
    return PairBatch(batch.source[:, :limit], batch.target[:, :limit], batch.bucket)


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> LoopTraining:
    """The task at given settings."""
    batch, length, buckets = int(settings["batch"]), int(settings["length"]), int(settings["buckets"])
    if not buckets <= min(8, length):
        raise UserError(f"buckets are at most 8, as each is compiled, and at most the length, but got {buckets}")
    if not BYTES + 3 <= int(settings["vocabulary"]) < 2**16:
        raise UserError(f"the vocabulary is from {BYTES + 3} to {2**16 - 1} tokens, but got {settings['vocabulary']}")
    limits = [length * (bucket + 1) // buckets for bucket in range(buckets)]
    train = {
        role: Bitext(
            str(settings[f"{role}_data"]),
            data_dir,
            held_out=False,
            limit=int(settings[f"{role}_pairs"]),
            spread=role == "aux",  # they are few, and news are in the order of their dates
        )
        for role in ROLES
    }
    test = {role: Bitext(str(settings[f"{role}_data"]), data_dir, held_out=True) for role in ROLES}
    words = vocabulary(train, int(settings["vocabulary"]))
    shape = TransformerConfig(*(int(settings[name]) for name in ("layers", "heads", "width", "hidden")))
    network = Functional(lambda rngs: Translator(shape, tokens=words.get_vocab_size(), length=length, rngs=rngs))
    loss_of = bucketed(lambda params, extra, batch: cross_entropy(network(params, extra), batch), cut, limits)

    seen, unseen = (
        {
            role: TokenizedPairs(*tokenize_on_disk(corpus, words), limits, batch, f"the {kind} text of {corpus.name}")
            for role, corpus in corpora.items()
        }
        for kind, corpora in (("training", train), ("held-out", test))
    )
    looked_at = {  # drawn apart from the order of training, so that no seed has seen more of it than another
        f"{role}_{split}": pairs.batches(int(settings["evaluated"]), (0, len(ROLES)), start=0)
        for split, both in (("train", seen), ("test", unseen))
        for role, pairs in both.items()
    }

    def loss(role: str) -> Loss:
        return lambda params, extra, data, batch: (loss_of(params, extra, batch[role]), extra)

    def evaluate(params: Tree, extra: Tree, data: Tree) -> dict[str, jax.Array]:
        return mean_losses(
            lambda batch: loss_of(params, extra, batch), data, lambda batch: jnp.sum(batch.target != PAD)
        )

    judge = Judge(
        words,
        lambda params, extra, source: translate_greedily(network(params, extra), source),
        str(settings["bleu"]),
        length,
    )

    def final_metrics(params: Tree, extra: Tree) -> Outcome:
        found = {
            role: judge(params, extra, corpus, count=int(settings["translated"]), batch=batch)
            for role, corpus in test.items()
        }
        return Outcome(
            {f"bleu_{role}": score for role, (score, _) in found.items()},
            tuple(sample for _, samples in found.values() for sample in samples[:SHOWN]),
        )

    chunks, steps = parts(settings)
    return LoopTraining(
        init=network.init,
        losses=[loss(role) for role in ROLES],
        data=looked_at,
        data_axis=1,
        batches=lambda seed, chunk: {
            role: seen[role].batches(steps, (seed, number), chunk * steps) for number, role in enumerate(ROLES)
        },
        optimiser=lambda lam: optax.adam(float(settings["learning_rate"])),
        evaluate=evaluate,
        chunks=chunks,
        steps=steps,
        final_metrics=final_metrics if settings["translated"] else None,
        sharded=bool(settings["sharded"]),
    )


problem = Problem(
    name="translation",
    title="English to German on two parallel corpora (paper: Paracrawl and WMT)",
    main="translation loss on the large corpus",
    aux="translation loss on the small corpus",
    scales={
        "demo": Scale(
            settings={
                "main_data": "number-cardinals",
                "main_pairs": 5000,
                "aux_data": "number-years",
                "aux_pairs": 200,
                "vocabulary": 320,
                "length": 32,
                "buckets": 2,
                "layers": 1,
                "heads": 4,
                "width": 64,
                "hidden": 256,
                "batch": 16,
                "learning_rate": 2e-3,
                "steps": 160,
                "rows": 20,
                "evaluated": 8,
                "translated": 64,
                "bleu": "char",  # number words are long, and few
                "sharded": False,
            },
            methods=COMPARED,
            lams=(0.01, 0.1, 0.3, 1.0, 3.0),
            rhos=(0.1,),
        ),
        "laptop": Scale(
            settings={
                "main_data": "europarl-en-de",
                "main_pairs": 150_000,
                "aux_data": "wmt-news-en-de",
                "aux_pairs": 1000,
                "vocabulary": 4000,
                "length": 96,
                "buckets": 3,
                "layers": 2,
                "heads": 4,
                "width": 64,
                "hidden": 256,
                "batch": 16,
                "learning_rate": 2e-3,
                "steps": 600,
                "rows": 24,
                "evaluated": 8,
                "translated": 256,
                "bleu": "13a",
                "sharded": False,
            },
            methods=COMPARED,
            lams=(0.1, 0.3, 1.0, 3.0, 10.0),
            rhos=(0.1,),
        ),
        "paper": Scale(
            settings={
                "main_data": "Helsinki-NLP/opus_paracrawl:de-en",
                "main_pairs": 36_000_000,
                "aux_data": "wmt-news-en-de",
                "aux_pairs": 10_000,
                "vocabulary": 32_000,
                "length": 256,
                "buckets": 4,
                "layers": 6,
                "heads": 16,
                "width": 1024,
                "hidden": 4096,
                "batch": 256,
                "learning_rate": 2e-4,
                "steps": 500_000,
                "rows": 5000,
                "evaluated": 8,
                "translated": 2000,
                "bleu": "13a",
                "sharded": False,
            },
            methods=COMPARED,
            lams=(0.0, *(float(10**exponent) for exponent in np.linspace(-4, 1, 16))),
            rhos=(0.01,),
        ),
    },
    build=build,
    may_be_zero=frozenset({"translated"}),
)
