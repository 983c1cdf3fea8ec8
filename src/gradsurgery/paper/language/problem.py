"""A byte-level language model on two corpora: a large, generic one and one that is small enough to overfit.

    main = next-byte loss on the large corpus,   aux = next-byte loss on the small one

The paper's sizes: 12 layers of 8 heads, 256 wide, feed-forward layers of 1,024; 30 million documents of c4 and 20
thousand of RCV-1, 128 windows of each in a step; Adam at 0.002, 300,000 steps; lam from 1e-4 to 10, and 0. The paper
says neither how long a window is nor whether the learning rate decays: we take 512 bytes and a constant rate.

RCV-1 is not on the hub; NIST distributes it on request. For the scale ``paper``, pass a data folder with ``rcv1``, with
a column ``text``, and with ``c4``, as ``hf download`` fetches it. Any other dataset with such a column works as well:
``--set aux_data=...``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradsurgery.lab import Count, Metrics, Name, Run, Scale, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.grid import COMPARED, powers_of_ten
from gradsurgery.paper.training.transformer_settings import TransformerSettings


@dataclass(frozen=True, kw_only=True)
class Settings(TransformerSettings):
    """Settings of ``language`` and ``ema``."""

    main_data: Name
    """``python-sources``, ``python-topics``, or the hub id of a dataset with a column ``text``."""
    main_documents: Count
    """Maximum number of documents to train on."""
    aux_data: Name
    """As ``main_data``."""
    aux_documents: Count
    """Maximum number of documents to train on, evenly spaced over the dataset, because news is sorted by date."""
    length: Count
    """Bytes in a window."""


DEMO = Settings(
    main_data="python-sources",
    main_documents=1000,
    aux_data="python-topics",
    aux_documents=10,
    layers=1,
    heads=4,
    width=64,
    hidden=256,
    length=64,
    batch=8,
    learning_rate=2e-3,
    steps=600,
    rows=20,
    evaluated=8,
    sharded=False,
)
LAPTOP = replace(
    DEMO,
    main_data="wikipedia",
    main_documents=10_000,
    aux_data="reuters",
    aux_documents=200,
    batch=16,
    steps=4000,
    rows=40,
)
PAPER = replace(
    LAPTOP,
    main_data="allenai/c4:en",
    main_documents=30_000_000,
    aux_data="rcv1",
    aux_documents=20_000,
    layers=12,
    heads=8,
    width=256,
    hidden=1024,
    length=512,
    batch=128,
    steps=300_000,
    rows=3000,
    evaluated=16,
)


@problem(
    name="language",
    title="a byte-level language model on two corpora (paper: c4 and RCV-1)",
    main="next-byte loss on the large corpus",
    aux="next-byte loss on the small corpus",
    scales={
        "demo": Scale(DEMO, COMPARED, lams=(0.01, 0.1, 0.3, 1.0, 3.0), rhos=(0.1,)),
        "laptop": Scale(LAPTOP, COMPARED, lams=(0.1, 0.4, 0.8, 1.6, 3.2, 6.4), rhos=(0.03,)),
        "paper": Scale(PAPER, COMPARED, lams=powers_of_ten(-4, 1, 16)),
    },
    data=data_sources,
    share_process=True,
)
def language(run: Run) -> Iterator[Metrics]:
    """Train the decoder on both corpora."""
    from gradsurgery.paper.language.train import build

    yield from build(run.settings, run.data_dir).train(run)
