"""The statements of the paper, checked on ``Reference``: identities, examples, Proposition 1 and Theorem 1.

Hsieh et al., *Careful with that Scalpel: Improving Gradient Surgery with an EMA*, ICML 2024.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gradsurgery as gs
from gradsurgery.paper.claims.theory import rates
from gradsurgery.paper.claims.theory.descent import descend, reject
from gradsurgery.paper.claims.theory.direction import direction_errors
from gradsurgery.paper.claims.theory.opposed import opposed
from gradsurgery.paper.claims.theory.torus import ERROR_BOUND, Torus, hessian, nearest
from gradsurgery.paper.conditioning.problem import gradients as conditioning_gradients

norm = np.linalg.norm
lams = st.floats(0.01, 100)


@st.composite
def gradients(draw, count):
    """Vectors of the same size at scales 1e-12 to 1e12; small integers often give zero, collinear and opposed ones."""
    size = draw(st.integers(1, 5))
    entries = st.lists(st.integers(-3, 3), min_size=size, max_size=size)
    return [np.array(draw(entries)) * 10.0 ** draw(st.integers(-12, 12)) for _ in range(count)]


# The direction, full batch


@settings(max_examples=200)
@given(gradients(2), lams)
def test_full_batch_direction_moves_main_like_main_alone_and_aux_at_a_right_angle(vectors, lam):
    main, aux = vectors
    assume(main.any())
    assert max(direction_errors(main, aux, lam)) < 1e-14


@given(gradients(1), lams)
def test_the_direction_is_lam_aux_if_main_is_zero(vectors, lam):
    (aux,) = vectors
    np.testing.assert_array_equal(gs.Reference(gs.bloop(lam=lam, rho=None))(0 * aux, aux), lam * aux)


@settings(max_examples=200)
@given(gradients(3), lams, lams)
def test_the_third_level_does_not_affect_the_two_above(vectors, lam1, lam2):
    main, aux1, aux2 = vectors
    assume(main.any())
    d = gs.Reference(gs.bloop(lam=(lam1, lam2), rho=None))(main, aux1, aux2)
    two_levels = main + lam1 * reject(aux1, main)
    size = norm(main) + lam1 * norm(aux1) + lam2 * norm(aux2)
    assert d @ main == pytest.approx(main @ main, rel=0, abs=1e-13 * size * norm(main))
    assert d @ aux1 == pytest.approx(two_levels @ aux1, rel=0, abs=1e-13 * size * norm(aux1))


@settings(max_examples=200)
@given(gradients(2))
def test_barrier_is_bloop_unless_aux_alone_decreases_main_enough(vectors):
    """With psi = |g_main|^2; the text prints |g_aux|^2."""
    main, aux = vectors
    assume(main.any())
    bloop, barrier = (gs.Reference(method)(main, aux) for method in (gs.bloop(lam=1.0, rho=None), gs.barrier()))
    expected = bloop if main @ aux < main @ main else aux
    np.testing.assert_allclose(barrier, expected, rtol=0, atol=1e-14 * (norm(main) + norm(aux)))


# Section "Conditioning": main = a^2 / 2, aux = ((a - 1)^2 + b^2) / 2


@given(st.floats(0.01, 10), st.floats(-10, 10), lams)
def test_conditioning_direction_is_a_and_lam_b(a, b, lam):
    d = gs.Reference(gs.bloop(lam=lam, rho=None))(*conditioning_gradients((a, b)))
    np.testing.assert_allclose(d, [a, lam * b], rtol=1e-13, atol=1e-14 * (1 + lam * (a + 1)))


def test_bloop_finds_the_bilevel_solution_for_every_lam_and_mixed_training_for_none():
    start = np.array([0.7, -1.0])
    for lam in (0.1, 0.5, 1.0):
        bloop, mixed = (
            descend(m, conditioning_gradients, start, 0.5, 400)[-1] for m in (gs.bloop(lam, rho=None), gs.mixed(lam))
        )
        np.testing.assert_allclose(bloop, [0, 0], atol=1e-8)
        np.testing.assert_allclose(mixed, [lam / (1 + lam), 0], atol=1e-8)


# Opposed losses: aux = -main


def test_full_batch_bloop_on_opposed_losses_is_gradient_descent_on_main():
    losses = opposed(np.array([1.0, 3.0, 10.0]))
    start = np.array([1.0, -2.0, 0.3])
    paths = [descend(m, losses, start, 0.05, 200) for m in (gs.bloop(lam=5.0, rho=None), gs.mixed(lam=0.0))]
    np.testing.assert_array_equal(*paths)
    assert norm(paths[0][-1]) < 1e-3


def test_bloop_with_noise_still_minimises_main_on_opposed_losses_where_mixed_training_diverges():
    curvature = np.linspace(1, 3, 10)

    def main_losses(method):
        rng = np.random.default_rng(0)

        def noisy(theta):
            main, aux = curvature * theta + rng.normal(0, 0.1, (2, 10))
            return main, -aux

        return descend(method, noisy, np.ones(10), 0.01, 2000) ** 2 @ curvature / 2

    bloop, mixed = main_losses(gs.bloop(lam=2.0, rho=0.05)), main_losses(gs.mixed(lam=2.0))
    assert bloop[1000:].max() < 0.01 * bloop[0]
    assert mixed[-1] > 1000 * mixed[0]


# Noise: section "Stochastic extension"


def test_projection_on_noisy_gradients_vanishes_as_the_noise_grows():
    """Figure "Effect of randomness": E[pi(aux; main + sigma noise)] goes from pi(aux; main) to (1 - 1/p) aux."""
    p, draws = 100, 10_000
    rng = np.random.default_rng(0)
    main, aux = rng.normal(size=(2, p))
    noise = rng.normal(size=(draws, p))
    sigmas = (0.0, 0.3, 1.0, 3.0, 10.0, 1000.0)
    means = [np.mean([gs.reject(aux, main + sigma * sample) for sample in noise], axis=0) for sigma in sigmas]
    np.testing.assert_allclose(means[0], reject(aux, main), atol=1e-10)
    # of a random unit vector u, <aux, u>^2 has mean |aux|^2 / p and standard deviation sqrt(2) |aux|^2 / p
    assert means[-1] @ aux / (aux @ aux) == pytest.approx(1 - 1 / p, abs=5 * 2**0.5 / p / draws**0.5)
    assert norm(means[-1] - (1 - 1 / p) * aux) < 2 * norm(aux) / (p * draws) ** 0.5
    to_bloop = np.array([norm(mean - reject(aux, main)) for mean in means[:-1]])
    to_mixed = np.array([norm(mean - (1 - 1 / p) * aux) for mean in means[:-1]])
    assert np.all(np.diff(to_bloop) > 0)
    assert np.all(np.diff(to_mixed) < 0)
    assert to_bloop[0] < to_mixed[0]
    assert to_bloop[-1] > to_mixed[-1]


MAIN, AUX, OFF = np.array([[1.0, 0.5, 0.0, -0.5], [-2.0, 1.0, 0.5, 0.0], [-0.5, 0.5, 0.5, 0.5]])


def directions(step, draws=4000):
    """Directions for random batches around MAIN and AUX, each from the current state of ``step``."""
    rng, state = np.random.default_rng(1), step.state
    results = []
    # the losses share a batch, so their noise is correlated
    for shared, aux_alone in rng.normal(size=(draws, 2, 4)):
        step.state = state
        results.append(step(MAIN + shared, AUX + shared + aux_alone))
    return np.array(results)


def standard_errors(sample, mean):
    """The distance of a sample's mean from the expected one, in standard errors."""
    return np.abs(sample.mean(axis=0) - mean) / (sample.std(axis=0) / len(sample) ** 0.5)


def warm_bloop(lam):
    """Bloop with an average that differs from main, and a large rho, so that an update too early would show."""
    step = gs.Reference(gs.bloop(lam=lam, rho=0.5))
    step(MAIN + OFF, AUX)
    return step, step.state.averages[0]


def test_direction_is_unbiased_with_the_average_and_biased_without():
    """E[d] = g_main + lam pi(g_aux; average), since the average does not depend on the batch."""
    step, average = warm_bloop(lam=0.7)
    assert standard_errors(directions(step), MAIN + 0.7 * reject(AUX, average)).max() < 4
    without_average = directions(gs.Reference(gs.bloop(lam=0.7, rho=None)))
    assert standard_errors(without_average, MAIN + 0.7 * reject(AUX, MAIN)).max() > 10


def test_expected_decrease_of_main_has_a_minus_before_its_last_term():
    """-eta |g_main|^2 - eta lam <pi(g_aux; average), g_main>; the text prints a plus. Here main = |theta|^2 / 2."""
    step, average = warm_bloop(lam=0.7)
    eta, pull = 1e-4, 0.7 * reject(AUX, average) @ MAIN
    change = (((MAIN - eta * directions(step)) ** 2).sum(axis=1) - MAIN @ MAIN) / 2 / eta
    assert standard_errors(change, -MAIN @ MAIN - pull) < 4
    assert standard_errors(change, -MAIN @ MAIN + pull) > 10


# Proposition 1, on a torus of minimisers

TORUS = Torus(np.array([1.5, 0.5, 0.2, 0.3]))


@pytest.mark.parametrize("lam", [0.01, 0.1, 1.0])
def test_small_direction_means_nearly_stationary_for_the_bilevel_problem(lam):
    """|d| <= eps gives |g_main| <= eps and |g_aux - H v| <= (1/lam + M c^2 |g_aux| / 2) eps."""
    points = TORUS.draw_points(np.random.default_rng(2), 400)
    near_solution = TORUS.solution + 1e-4 * TORUS.multiplier
    for theta in [*points, near_solution]:
        assert norm(theta - nearest(theta)) <= ERROR_BOUND * norm(TORUS.gradients(theta)[0])
        assert max(TORUS.stationarity(theta, lam)) <= 1 + 1e-9
    # the bound is not vacuous: without the multiplier it would not hold at `near_solution`
    main, aux = TORUS.gradients(near_solution)
    v = (aux @ main) / (main @ main) * (near_solution - nearest(near_solution))
    assert norm(aux) * TORUS.stationarity(near_solution, lam)[1] > 10 * norm(aux - hessian(near_solution) @ v)


def test_direction_vanishes_towards_a_bilevel_solution_along_its_multiplier_only():
    """d(theta* + eps v) -> 0, with g_aux = H v; along another w it tends to lam pi(g_aux; H w)."""
    other = TORUS.multiplier * [1, 1, -1, -1]
    step, aux = gs.Reference(gs.bloop(lam=0.5, rho=None)), TORUS.gradients(TORUS.solution)[1]
    curvature = hessian(TORUS.solution)
    np.testing.assert_allclose(curvature @ TORUS.multiplier, aux, atol=1e-12)
    along = TORUS.lengths_along(TORUS.multiplier, [1e-1, 1e-2, 1e-3, 1e-4, 1e-5], lam=0.5)
    assert np.all(along < np.array([1, 1e-1, 1e-2, 1e-3, 1e-4]))
    limit = 0.5 * reject(aux, curvature @ other)
    np.testing.assert_allclose(step(*TORUS.gradients(TORUS.solution + 1e-5 * other)), limit, atol=1e-3)
    assert norm(limit) > 0.1


@pytest.mark.parametrize("eta", [0.04, 0.01])
def test_descent_along_bloop_ends_within_a_step_of_the_bilevel_solution(eta):
    """Limit points of Bloop are stationary for the bilevel problem; those of mixed training are not."""
    start, steps = np.array([-0.3, 1.2, 1.0, -0.5]), round(25 / eta)
    bloop, mixed = (
        descend(method, TORUS.gradients, start, eta, steps)[-1] for method in (gs.bloop(1, rho=None), gs.mixed(1))
    )
    assert norm(bloop - TORUS.solution) < eta
    assert norm(mixed - TORUS.solution) > 0.2


# Theorem 1, on least squares; runs start at a solution of main


@pytest.mark.slow
def test_main_gradient_and_loss_fall_with_the_length_of_the_run_as_the_theorem_says():
    """(1/T) sum E |g_main|^2 = O(T^-1/4), and E[main] ends in O(eta^1/3), which is T^-1/4 too.

    With eta = T^-3/4 and rho = eta^2/3. Without an average neither falls.
    """
    lengths = [64, 256, 1024, 4096]

    def slopes(averaged, seeds):
        runs = [
            [rates.gradient_and_loss(rates.residuals(averaged, steps, seed)) for seed in seeds] for steps in lengths
        ]
        return [rates.slope(lengths, means) for means in np.mean(runs, axis=1).T]

    assert max(slopes(True, seeds=range(6))) < -1 / 4
    assert min(slopes(False, seeds=range(1))) > -0.1


@pytest.mark.parametrize("seed", range(4))
def test_without_the_average_aux_leaks_into_main(seed):
    floors = [rates.gradient_and_loss(rates.residuals(averaged, 1000, seed))[1] for averaged in (True, False)]
    assert floors[1] > 3 * floors[0]
