import pytest

from gradsurgery.paper.training.schedule import warmup_cosine


def test_warm_up_then_cosine_decay():
    rate = warmup_cosine(0.8, warmup_epochs=5, epochs=100, steps=1000)
    assert [float(rate(step)) for step in (0, 25, 50, 525, 1000)] == pytest.approx([0, 0.4, 0.8, 0.4, 0], abs=1e-6)


def test_a_short_run_spends_at_most_half_of_it_on_warm_up():
    rate = warmup_cosine(0.8, warmup_epochs=5, epochs=2, steps=20)
    assert float(rate(10)) == pytest.approx(0.8)
    assert float(rate(20)) == pytest.approx(0, abs=1e-6)


def test_without_warm_up_the_rate_starts_at_its_peak():
    assert float(warmup_cosine(0.1, warmup_epochs=0, epochs=3, steps=30)(0)) == pytest.approx(0.1)
