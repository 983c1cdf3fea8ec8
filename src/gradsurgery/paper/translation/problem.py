"""English to German on two parallel corpora: one large and generic, one small and of higher quality.

    main = cross-entropy of the next token on the large corpus,   aux = the same on the small one

The paper's sizes: 6 + 6 layers of 16 heads, 1,024 wide, feed-forward layers of 4,096; 36 million pairs of Paracrawl and
10 thousand of WMT's news tests of 2009 to 2019, 256 pairs of each in a step; WMT 2020 to evaluate; Adam at 2e-4 for
500,000 steps; lam from 1e-4 to 10, and 0. The paper gives neither the size of the vocabulary nor the longest sentence,
but says that its code comes from Flax's WMT example, so we take that example's 32,000 and 256 tokens. Labels are not
smoothed.

WMT's news tests are not on the hub as one dataset. For the scale ``paper``, pass a data folder with
``wmt-news-en-de``, with a column ``translation`` of ``en`` and ``de`` and 2020 as its split ``test``, and with
``opus_paracrawl``, as ``hf download`` fetches it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from gradsurgery.lab import Count, CountOrZero, Metrics, Name, Run, Scale, UserError, Whole, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.grid import COMPARED, powers_of_ten
from gradsurgery.paper.training.transformer_settings import TransformerSettings


@dataclass(frozen=True, kw_only=True)
class Settings(TransformerSettings):
    """Settings of ``translation``."""

    main_data: Name
    """``number-cardinals``, ``number-years``, or the hub id of a dataset with a column ``translation``."""
    main_pairs: Count
    """Maximum number of pairs to train on."""
    aux_data: Name
    """As ``main_data``."""
    aux_pairs: Count
    """Maximum number of pairs to train on, evenly spaced over the dataset, because news is sorted by date."""
    vocabulary: Annotated[int, Whole(least=259, most=2**16 - 1)]
    """Tokens, of which 256 are bytes and 3 are special; they are stored as 16-bit numbers."""
    length: Count
    """Tokens of the longest sentence; pairs with a longer one are left out."""
    buckets: Annotated[int, Whole(most=8)]
    """Number of length ranges; all pairs of a batch are in one range, and each is compiled separately."""
    translated: CountOrZero
    """Held-out sentences of each corpus that are translated for BLEU at the end; 0 for none."""
    bleu: Name
    """The tokenizer of sacrebleu: ``13a`` splits into words, ``char`` into characters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buckets > self.length:
            raise UserError(f"buckets must be at most the length; got {self.buckets} and {self.length}")


DEMO = Settings(
    main_data="number-cardinals",
    main_pairs=5000,
    aux_data="number-years",
    aux_pairs=200,
    vocabulary=320,
    length=32,
    buckets=2,
    layers=1,
    heads=4,
    width=64,
    hidden=256,
    batch=16,
    learning_rate=2e-3,
    steps=160,
    rows=20,
    evaluated=8,
    translated=64,
    bleu="char",  # number words are long, and few
    sharded=False,
)
LAPTOP = replace(
    DEMO,
    main_data="europarl-en-de",
    main_pairs=150_000,
    aux_data="wmt-news-en-de",
    aux_pairs=30_190,  # all; 4,772 of them are short enough
    vocabulary=2000,
    length=24,
    buckets=1,
    steps=6000,
    rows=24,
    translated=1024,
    bleu="13a",
)
PAPER = replace(
    LAPTOP,
    main_data="Helsinki-NLP/opus_paracrawl:de-en",
    main_pairs=36_000_000,
    aux_pairs=10_000,
    vocabulary=32_000,
    length=256,
    buckets=4,
    layers=6,
    heads=16,
    width=1024,
    hidden=4096,
    batch=256,
    learning_rate=2e-4,
    steps=500_000,
    rows=5000,
    translated=2000,
)


@problem(
    name="translation",
    title="English to German on two parallel corpora (paper: Paracrawl and WMT)",
    main="translation loss on the large corpus",
    aux="translation loss on the small corpus",
    scales={
        "demo": Scale(DEMO, COMPARED, lams=(0.01, 0.1, 0.3, 1.0, 3.0), rhos=(0.1,)),
        "laptop": Scale(LAPTOP, COMPARED, lams=(0.2, 0.3, 0.4, 0.6, 1.2, 2.4)),
        "paper": Scale(PAPER, COMPARED, lams=powers_of_ten(-4, 1, 16)),
    },
    data=data_sources,
    share_process=True,
)
def translation(run: Run) -> Iterator[Metrics]:
    """Train the encoder-decoder on both corpora."""
    from gradsurgery.paper.translation.train import build

    yield from build(run.settings, run.data_dir).train(run)
