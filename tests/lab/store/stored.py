"""A run to store, a store with some runs in it, and what a store says when it refuses."""

from dataclasses import replace

import pytest

from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store.sqlite import StoreError
from gradsurgery.lab.store.store import Store

SPEC = RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=0, settings={"batch": 64})
KEY = SPEC.key


def filled(path, runs=3, steps=40):
    """A store at rest that takes up several pages."""
    with Store(path) as store:
        for seed in range(runs):
            run = replace(SPEC, seed=seed)
            store.begin(run, {"commit": "abc"})
            for step in range(steps):
                store.log(run.key, {"step": step, "main_train": step / 3, "aux_train": 1.0})
    return path.read_bytes()


def refusal(act):
    """What a StoreError says, which has to be one sentence."""
    with pytest.raises(StoreError) as caught:
        act()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert ". " not in sentence
    return sentence
