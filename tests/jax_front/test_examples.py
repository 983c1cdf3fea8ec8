"""The examples run unchanged and print plausible numbers."""

import pytest

from tests.example_scripts import EXAMPLES, printed_numbers

pytest.importorskip("sklearn")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("jax/*.py")))
def test_an_example_learns_digits_with_small_weights(name):
    final = printed_numbers(f"jax/{name}")
    assert final["test accuracy"] > 0.93
    assert final["main"] < 0.25
    assert final["aux"] < 55
