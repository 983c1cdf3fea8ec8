import itertools

import numpy as np
import pytest
from matplotlib.markers import MarkerStyle

from gradsurgery import METHODS
from gradsurgery.lab.analysis import group_runs
from gradsurgery.lab.reports.style import assign_looks, look
from tests.lab.analysis.synthetic_runs import run

# Machado et al. (2009): how colour-blind readers see linear RGB
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
HEADLINE = ("bloop", "mixed", "pcgrad", "dynamic_barrier")


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def cielab(rgb):
    to_xyz = np.array(
        [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]]
    )  # white is 1, 1, 1
    x, y, z = np.cbrt(to_xyz @ np.clip(rgb, 1e-3, 1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_method_has_its_own_colour_and_marker():
    method_looks = [look(method) for method in METHODS]
    for field in ("colour", "marker", "symbol", "svg_path"):
        assert len({getattr(style, field) for style in method_looks}) == len(METHODS)
    assert [style.label for style in method_looks] == list(METHODS)
    assert all(MarkerStyle(style.marker).is_filled() for style in method_looks)


def test_methods_of_a_user_look_different():
    methods = ["bloop", "damped", "inverted", "steep", "turned"]
    looks = assign_looks(group_runs(run(method, 0.1) for method in methods)).values()
    assert [style.label for style in looks] == methods
    for field in ("colour", "marker", "symbol", "svg_path"):
        assert len({getattr(style, field) for style in looks}) == len(methods)
    assert all(MarkerStyle(style.marker).is_filled() for style in looks)


def test_a_look_has_the_label_of_its_series():
    """Buttons hide series by it. Here bloop is one series, whose label names the steps as those of mixed do."""
    records = [run("mixed", 0.1), run("mixed", 0.1, steps=10), run("bloop", 0.1)]
    looks = assign_looks(group_runs(records))
    assert [style.label for style in looks.values()] == list(looks)
    assert next(iter(looks)) == "bloop, steps = 1000"


@pytest.mark.parametrize("vision", VISION)
def test_colour_blind_readers_can_tell_the_papers_methods_apart(vision):
    seen = {method: cielab(np.array(VISION[vision]) @ linear(look(method).colour)) for method in HEADLINE}
    assert min(np.linalg.norm(seen[a] - seen[b]) for a, b in itertools.combinations(HEADLINE, 2)) > 15


@pytest.mark.parametrize("method", HEADLINE)
def test_the_papers_methods_have_enough_contrast_on_light_and_dark_pages(method):
    light = np.array([0.2126, 0.7152, 0.0722]) @ linear(look(method).colour)
    assert 1.05 / (light + 0.05) > 3
    assert (light + 0.05) / (0.013 + 0.05) > 3


def test_an_unknown_method_has_a_look():
    assert look("mine").label == "mine"


def test_labels_show_rho_only_where_it_varies():
    rhos = (("bloop", 0.1), ("bloop", 1e-4), ("mixed", None))
    variants = assign_looks(group_runs(run(method, rho=rho) for method, rho in rhos))
    assert [style.label for style in variants.values()] == ["bloop, ρ = 10⁻⁴", "bloop, ρ = 0.1", "mixed"]
    assert [style.hollow for style in variants.values()] == [False, True, False]
    assert len({style.colour for style in variants.values()}) == 3
    assert assign_looks(group_runs([run("bloop", rho=0.1)])) == {"bloop": look("bloop")}
