"""Cautious weight decay, which ``weights`` alone offers."""

import numpy as np
import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.paper.weights.cautious import cautious
from gradsurgery.paper.weights.train import decay_cautiously

SMALL = {
    "model": "mlp",
    "main_data": "digits",
    "train_images": 512,
    "pixels": 8,
    "batch": 64,
    "epochs": 5,
    "evaluated": 64,
}


def test_only_elements_that_the_update_shrinks_decay():
    updates, params = np.array([1.0, -1.0, 1.0, 0.0]), np.array([2.0, 2.0, -2.0, 2.0])
    decay = decay_cautiously(0.1)
    decayed, _ = decay.update(updates, decay.init(params), params)
    np.testing.assert_allclose(decayed, [1.2, -1.0, 1.0, 0.2])


def test_a_relative_strength_is_refused():
    with pytest.raises(ValueError, match="lam of cautious must be a number"):
        cautious(lam=gs.relative(0.1))


@pytest.mark.slow
def test_the_decay_keeps_weights_small_and_is_not_that_of_mixed(tmp_path):
    grid = {"methods": ["mixed", "gradsurgery.paper.weights.cautious:cautious"], "lams": [0.0, 1.0], "settings": SMALL}
    records = lab.sweep("weights", scale="laptop", folder=tmp_path, workers=0, quiet=True, **grid)
    aux = {(record.spec.method, record.spec.lam): record.final["aux_train"] for record in records}
    assert aux["cautious", 0.0] == aux["mixed", 0.0]
    assert aux["mixed", 1.0] < 0.9 * aux["cautious", 1.0]
    assert aux["cautious", 1.0] < 0.9 * aux["mixed", 0.0]
