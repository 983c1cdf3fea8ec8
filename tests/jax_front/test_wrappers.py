"""Transformations of optax around the surgery: those that do not handle ``aux`` are refused, with what to write."""

import jax
import jax.numpy as jnp
import optax
import pytest
from numpy.testing import assert_allclose

import gradsurgery as gs
import gradsurgery.jax as gsj

MAIN, AUX = jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0])
CHAIN = optax.chain(gsj.surgery(gs.bloop(lam=0.5)), optax.sgd(0.1))


@pytest.mark.parametrize(("wrapper", "sentence"), [
    (optax.MultiSteps(CHAIN, 2), r"last micro-batch only.*use gradsurgery.jax.accumulate"),
    (optax.apply_if_finite(CHAIN, 5), r"not look at aux.*use optax.chain\(surgery\(method\), optax.apply_if_finite"),
    (optax.apply_if_finite(gsj.accumulate(CHAIN, 2), 5), "does not look at aux"),
    (optax.contrib.mechanize(CHAIN), r"from main's .*chain\(surgery\(method\), optax.contrib.mechanize"),
], ids=["MultiSteps", "apply_if_finite", "apply_if_finite accumulate", "mechanize"])  # fmt: skip
def test_wrappers_that_ignore_aux_are_refused_in_update(wrapper, sentence):
    state = wrapper.init(MAIN)
    with pytest.raises(ValueError, match=sentence):
        jax.jit(lambda main, state, aux: wrapper.update(main, state, MAIN, aux=aux))(MAIN, state, AUX)


def test_wrappers_that_take_no_aux_are_refused_in_init():
    with pytest.raises(ValueError, match=r"lookahead of optax does not pass aux on.*give lookahead the direction"):
        optax.lookahead(CHAIN, 5, 0.5).init(optax.LookaheadParams.init_synced(MAIN))
    with pytest.raises(ValueError, match="sam of optax does not pass aux on"):
        optax.contrib.sam(CHAIN, optax.sgd(0.1)).init(MAIN)


def test_the_direction_can_be_given_to_a_wrapper_that_takes_no_aux():
    surgery, lookahead = gsj.surgery(gs.bloop(lam=0.5)), optax.lookahead(optax.sgd(0.1), 5, 0.5)
    params = optax.LookaheadParams.init_synced(MAIN)
    direction, _ = surgery.update(MAIN, surgery.init(MAIN), aux=AUX)
    updates, _ = lookahead.update(direction, lookahead.init(params), params)
    assert_allclose(updates.fast, [-0.1, -0.1])
