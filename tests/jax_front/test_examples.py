"""The examples run unchanged and print plausible numbers."""

import pytest

from tests.example_scripts import EXAMPLES, printed_numbers, printed_rows

pytest.importorskip("sklearn")
pytestmark = pytest.mark.slow


WITHOUT_DIGITS = {"actor_critic", "physics"}


@pytest.mark.parametrize("name", sorted({path.stem for path in EXAMPLES.glob("jax/*.py")} - WITHOUT_DIGITS))
def test_an_example_learns_digits_with_small_weights(name):
    final = printed_numbers(f"jax/{name}")
    assert final["test accuracy"] > 0.93
    assert final["main"] < 0.25
    assert final["aux"] < 55


def test_an_equation_helps_to_fit_measurements():
    rows = printed_rows("jax/physics")
    for method in ("sum", "Bloop"):
        assert rows[method]["main"] < 0.9 * rows["main alone"]["main"]
        assert rows[method]["distance from the truth"] < 0.7 * rows["main alone"]["distance from the truth"]


def test_a_value_loss_with_the_customary_weight_spoils_the_policy_in_a_sum_only():
    rows = printed_rows("jax/actor_critic")
    customary = rows["λ = 0.5"]
    assert customary["sum"] < 60 < 100 < customary["loop"] < rows["main alone"]["steps"] * 1.1
    assert customary["aux"] < 0.85 * rows["main alone"]["aux"]
