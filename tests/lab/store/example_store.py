"""A run to store, a store with a few runs, and the sentence of a ``StoreError``."""

from dataclasses import replace

import pytest

from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import Store, StoreError

SPEC = RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=0, settings={"batch": 64})
KEY = SPEC.key


def fill_store(path, runs=3, steps=40):
    """Write a store of several pages, close it, and return the content of the file."""
    with Store(path) as store:
        for seed in range(runs):
            run = replace(SPEC, seed=seed)
            store.begin(run, {"commit": "abc"})
            for step in range(steps):
                store.log(run.key, {"step": step, "main_train": step / 3, "aux_train": 1.0})
    return path.read_bytes()


def error_sentence(act):
    """The message of the ``StoreError`` that a call raises, which has to be one sentence."""
    with pytest.raises(StoreError) as caught:
        act()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert ". " not in sentence
    return sentence
