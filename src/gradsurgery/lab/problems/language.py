"""A language model of bytes on two corpora: one large and generic, one small, which the model can overfit.

    main = next-byte loss on the large corpus,   aux = next-byte loss on the small one

The paper's sizes: 12 layers of 8 heads, 256 wide, feed-forward layers of 1,024; 30 million documents of c4 and 20
thousand of RCV-1, 128 windows of each in a step; Adam at 0.002, 300,000 steps; lam from 1e-4 to 10, and 0. It does not
say how long a window is, nor whether the learning rate decays: we take 512 bytes, and keep it constant.

RCV-1 is given out by NIST to those who ask, and is not on the hub: at the scale ``paper`` name a data folder with
``rcv1`` in it, with a column ``text``, and with ``c4``, as ``hf download`` fetches it. Any other datasets with such a
column do as well: ``--set aux_data=...``.
"""

from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradsurgery.lab.data.hub import ColumnStream
from gradsurgery.lab.data.shuffle import epoch_indices
from gradsurgery.lab.data.text.builtin import DOCUMENTS
from gradsurgery.lab.data.text.corpus import Bytes, Corpus, pack, pack_on_disk
from gradsurgery.lab.models.functional import Functional
from gradsurgery.lab.models.transformer import Decoder, TransformerConfig
from gradsurgery.lab.problem import COMPARED, Problem, Scale
from gradsurgery.lab.run import Setting
from gradsurgery.lab.train.evaluation import mean_losses
from gradsurgery.lab.train.loops import LoopTraining, parts
from gradsurgery.lab.train.training import Loss, Tree

BYTES = 256
ROLES = ("main", "aux")


def corpus(settings: Mapping[str, Setting], role: str, data_dir: Path | None, *, held_out: bool) -> Corpus:
    """A built-in corpus, or a dataset with a column ``text``.

    Args:
        settings: name it as ``<role>_data``, and say with ``<role>_documents`` how many to train on at most; those of
            aux are taken from all over the dataset, as they are few, and news are in the order of their dates.
        role: ``main`` or ``aux``.
        data_dir: a folder that stands in for the hub.
        held_out: whether to take what is kept for evaluation, all of it.
    """
    name, length = str(settings[f"{role}_data"]), int(settings["length"])
    limit = None if held_out else int(settings[f"{role}_documents"])
    if name in DOCUMENTS:
        found = pack(DOCUMENTS[name](held_out)[:limit])
    else:
        stream = ColumnStream(name, "text", data_dir, held_out=held_out, limit=limit, spread=role == "aux")
        found = pack_on_disk(stream)
    return Corpus(found, length, f"the {'held-out' if held_out else 'training'} text of {name}")


def next_byte(model: Decoder, windows: jax.Array) -> jax.Array:
    """The mean loss over the bytes of these windows, in nats."""
    windows = windows.astype(int)
    logits = model(windows[:, :-1])
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:]))


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> LoopTraining:
    """The task at given settings."""
    batch, length, evaluated = int(settings["batch"]), int(settings["length"]), int(settings["evaluated"])
    shape = TransformerConfig(*(int(settings[name]) for name in ("layers", "heads", "width", "hidden")))
    network = Functional(lambda rngs: Decoder(shape, tokens=BYTES, length=length, rngs=rngs))
    train, test = (
        {role: corpus(settings, role, data_dir, held_out=held_out) for role in ROLES} for held_out in (False, True)
    )
    looked_at = {
        f"{role}_{split}": found[role].evenly_spaced(evaluated * batch).reshape(evaluated, batch, length + 1)
        for role in ROLES
        for split, found in (("train", train), ("test", test))
    }

    def loss(role: str) -> Loss:
        return lambda params, extra, data, batch: (next_byte(network(params, extra), batch[role]), extra)

    def evaluate(params: Tree, extra: Tree, data: Tree) -> dict[str, jax.Array]:
        return mean_losses(lambda batch: next_byte(network(params, extra), batch), data, lambda batch: batch.size)

    chunks, steps = parts(settings)

    def batches(seed: int, chunk: int) -> dict[str, Bytes]:
        count = steps * batch
        return {
            role: train[role][
                epoch_indices(len(train[role]), count, (seed, number), chunk * count).reshape(steps, batch)
            ]
            for number, role in enumerate(ROLES)
        }

    return LoopTraining(
        init=network.init,
        losses=[loss(role) for role in ROLES],
        data=looked_at,
        data_axis=1,
        batches=batches,
        optimiser=lambda lam: optax.adam(float(settings["learning_rate"])),
        evaluate=evaluate,
        chunks=chunks,
        steps=steps,
        sharded=bool(settings["sharded"]),
    )


DEMO: dict[str, Setting] = {
    "main_data": "python-sources",
    "main_documents": 1000,
    "aux_data": "python-topics",
    "aux_documents": 10,
    "layers": 1,
    "heads": 4,
    "width": 64,
    "hidden": 256,
    "length": 64,
    "batch": 8,
    "learning_rate": 2e-3,
    "steps": 600,
    "rows": 20,
    "evaluated": 8,
    "sharded": False,
}
LAPTOP: dict[str, Setting] = {
    "main_data": "wikipedia",
    "main_documents": 10_000,
    "aux_data": "reuters",
    "aux_documents": 200,
    "layers": 2,
    "heads": 4,
    "width": 96,
    "hidden": 384,
    "length": 96,
    "batch": 16,
    "learning_rate": 2e-3,
    "steps": 1000,
    "rows": 25,
    "evaluated": 8,
    "sharded": False,
}
PAPER: dict[str, Setting] = {
    "main_data": "allenai/c4:en",
    "main_documents": 30_000_000,
    "aux_data": "rcv1",
    "aux_documents": 20_000,
    "layers": 12,
    "heads": 8,
    "width": 256,
    "hidden": 1024,
    "length": 512,
    "batch": 128,
    "learning_rate": 2e-3,
    "steps": 300_000,
    "rows": 3000,
    "evaluated": 16,
    "sharded": False,
}

problem = Problem(
    name="language",
    title="a byte-level language model on two corpora (paper: c4 and RCV-1)",
    main="next-byte loss on the large corpus",
    aux="next-byte loss on the small corpus",
    scales={
        "demo": Scale(settings=DEMO, methods=COMPARED, lams=(0.01, 0.1, 0.3, 1.0, 3.0), rhos=(0.1,)),
        "laptop": Scale(settings=LAPTOP, methods=COMPARED, lams=(0.1, 0.3, 1.0, 3.0, 10.0), rhos=(0.1,)),
        "paper": Scale(
            settings=PAPER,
            methods=COMPARED,
            lams=(0.0, *(float(10**exponent) for exponent in np.linspace(-4, 1, 16))),
            rhos=(0.01,),
        ),
    },
    build=build,
)
