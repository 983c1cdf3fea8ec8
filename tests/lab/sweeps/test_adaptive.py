"""Where the next λ goes: by hand, and on fronts known in closed form."""

import math

import pytest

from gradsurgery.lab.reports.region import LossRange, Region
from gradsurgery.lab.sweeps.adaptive import first_lams, next_lam


def test_the_widest_gap_is_halved():
    assert next_lam({0.0: (1.0, 5.0), 0.01: (1.0, 5.0), 0.1: (1.1, 4.9), 1.0: (3.0, 1.0)}) == 0.316


def test_a_gap_next_to_main_alone_is_filled_by_a_smaller_lam():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (2.9, 1.1), 1.0: (3.0, 1.0)}) == 0.01


def test_the_grid_grows_while_main_hardly_suffers():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.05, 3.0)}) == 10.0
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.2, 3.0)}) < 1


def test_the_grid_does_not_grow_beyond_a_lam_that_diverged():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.05, 3.0), 10.0: None}) < 1


def test_small_gaps_end_the_search():
    front = {0.0: (0.0, 1.0)} | {10 ** (k / 10 - 3): (k / 60, 1 - k / 60) for k in range(1, 61)}
    assert next_lam(front) is None


@pytest.mark.parametrize("middle", [1e-5, 1e-2, 30.0])
def test_the_front_of_a_sigmoid_is_found_wherever_its_middle_is(middle):
    """Main rises and aux falls around one λ that the first grid may miss by decades."""

    def train(lam):
        share = lam**2 / (lam**2 + middle**2)
        return 1 + share**2, 5 - 4 * math.sqrt(share)

    points = {lam: train(lam) for lam in (0.0, *first_lams(1e-3, 1.0))}
    while len(points) <= 12 and (lam := next_lam(points)) is not None:
        assert lam not in points
        points[lam] = train(lam)
    region = Region(LossRange(1.0, 1.5, False), LossRange(1.0, 5.0, False))
    dense = region.hypervolume([train(10 ** (k / 50)) for k in range(-500, 200)])
    assert region.hypervolume(points.values()) > 0.9 * dense
