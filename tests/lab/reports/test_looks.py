import itertools

import numpy as np
import pytest
from matplotlib.markers import MarkerStyle

from gradsurgery import METHODS
from gradsurgery.lab.reports.looks import lam_places, lam_ticks, look, looks, number
from tests.lab.reports.synthetic_runs import run

# Machado et al. (2009): how linear RGB looks to those without one kind of cone
EYES = {
    "all three": np.eye(3),
    "no long": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "no middle": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "no short": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
HEADLINE = ("bloop", "mixed", "pcgrad", "dynamic_barrier")


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array(
        [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]]
    )  # white is 1, 1, 1
    x, y, z = np.cbrt(to_xyz @ np.clip(rgb, 1e-3, 1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_method_has_a_colour_and_a_marker_of_its_own():
    found = [look(method) for method in METHODS]
    for field in ("colour", "marker", "symbol", "path"):
        assert len({getattr(each, field) for each in found}) == len(METHODS)
    assert [each.label for each in found] == list(METHODS)
    assert all(MarkerStyle(each.marker).is_filled() for each in found)


@pytest.mark.parametrize("eyes", EYES)
def test_the_methods_of_the_papers_figures_differ_for_all_eyes(eyes):
    seen = {method: lab(np.array(EYES[eyes]) @ linear(look(method).colour)) for method in HEADLINE}
    assert min(np.linalg.norm(seen[a] - seen[b]) for a, b in itertools.combinations(HEADLINE, 2)) > 15


@pytest.mark.parametrize("method", HEADLINE)
def test_they_stand_out_from_white_and_from_the_dark_page(method):
    light = np.array([0.2126, 0.7152, 0.0722]) @ linear(look(method).colour)
    assert 1.05 / (light + 0.05) > 3
    assert (light + 0.05) / (0.013 + 0.05) > 3


def test_a_method_that_is_not_ours_is_drawn_too():
    assert look("mine").label == "mine"


def test_rho_is_shown_where_it_varies_and_only_there():
    found = looks(run(method, rho=rho).spec for method, rho in (("bloop", 0.1), ("bloop", 1e-4), ("mixed", None)))
    assert [each.label for each in found.values()] == ["bloop, ρ = 10⁻⁴", "bloop, ρ = 0.1", "mixed"]
    assert [each.hollow for each in found.values()] == [False, True, False]
    assert len({each.colour for each in found.values()}) == 3
    assert looks([run("bloop", rho=0.1).spec])["bloop", 0.1] == look("bloop")


@pytest.mark.parametrize(
    ("value", "text"),
    {
        0.3: "0.3",
        2: "2",
        100: "100",
        0.9999: "1",
        0.001: "0.001",
        9.999e-4: "0.001",
        0.0012345: "0.00123",
        54321: "54,321",
        123456: "1.23×10⁵",
        1e-4: "10⁻⁴",
        3.16e-4: "3.16×10⁻⁴",
        -0.5: "−0.5",
        0: "0",
        float("inf"): "∞",
    }.items(),
)
def test_numbers_as_people_write_them(value, text):
    assert number(value) == text


def test_ticks_of_lam_are_few_enough_to_be_read():
    papers = [10 ** (exponent / 2) for exponent in range(-8, 1)]
    assert [text for text in lam_ticks(papers).values() if text] == ["10⁻⁴", "10⁻²", "1"]
    assert [text for text in lam_ticks(papers, room=6).values() if text] == ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"]
    assert lam_ticks([0.5, 0.25, None]) == {0.25: "0.25", 0.5: "0.5"}
    assert list(lam_ticks([0.0, 0.3, 0.4, 0.5, 0.6, 0.7]).values()) == ["0", "0.3", "0.4", "0.5", "0.6", "0.7"]


def test_lam_0_has_a_place_on_a_logarithmic_axis():
    assert lam_places([0.0, 0.01, 1.0]) == {0.0: 0.001, 0.01: 0.01, 1.0: 1.0}
    assert lam_places([0.0])[0.0] > 0
