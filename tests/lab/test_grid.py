import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import numbers, specs
from gradsurgery.lab.problems import problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1", (0.1,)),
        ("0.1, 0.2,", (0.1, 0.2)),
        ("0,1e-4:1:9log", (0.0, 1e-4, 10**-3.5, 1e-3, 10**-2.5, 1e-2, 10**-1.5, 0.1, 10**-0.5, 1.0)),
        ("0:1:3", (0.0, 0.5, 1.0)),
        ("1:1:1log", (1.0,)),
        ("0.1,0.1", (0.1,)),
        ("", ()),
    ],
)
def test_numbers(text, expected):
    assert numbers(text) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("text", ["abc", "1e-4:1", "1:2:3:4", "0.1;0.2", "1:2:3lin"])
def test_what_is_no_grid_gets_one_sentence(text):
    with pytest.raises(UserError, match="a grid is numbers and ranges such as"):
        numbers(text)


def test_a_logarithmic_range_has_no_zero():
    with pytest.raises(UserError, match=r"between numbers above 0, but got 0:1:3log; add 0 as an item"):
        numbers("0:1:3log")


def test_the_grid_of_a_scale():
    runs = specs(problem("lipschitz"), "demo")
    assert len(runs) == 4 * 9 * 3
    assert {run.rho for run in runs if run.method == "bloop"} == {0.03}
    assert {run.rho for run in runs if run.method != "bloop"} == {None}
    assert len({run.key for run in runs}) == len(runs)


def test_a_method_without_a_weight_runs_once_for_each_seed():
    runs = specs(problem("lipschitz"), "demo", methods=["mgda"], lams=(0.1, 0.2), seeds=(3, 4))
    assert [(run.lam, run.rho, run.seed) for run in runs] == [(None, None, 3), (None, None, 4)]


def test_any_setting_can_be_changed_and_makes_another_run():
    lipschitz = problem("lipschitz")
    plain, changed = (
        specs(lipschitz, "demo", methods=["mixed"], lams=(0.1,), seeds=(0,), settings=settings)[0]
        for settings in ({}, {"epochs": "5", "learning_rate": "1e-2"})
    )
    assert changed.settings["epochs"] == 5
    assert changed.settings["learning_rate"] == 0.01
    assert changed.settings["batch"] == plain.settings["batch"]
    assert changed.key != plain.key


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"methods": ["blop"]}, "there is no method 'blop': did you mean bloop?"),
        ({"methods": []}, "at least one value in methods, but the grid is empty"),
        ({"lams": ()}, "at least one value in lams, but the grid is empty"),
        ({"lams": (-0.1,)}, "lam weighs the auxiliary gradient, so it is at least 0, but got -0.1"),
        ({"rhos": (1.5,), "methods": ["bloop"]}, "above 0 and at most 1, but got 1.5"),
        ({"settings": {"epoch": "3"}}, "there is no setting of lipschitz 'epoch': did you mean epochs?"),
        ({"settings": {"epochs": "many"}}, "the setting epochs is a int, but got 'many'"),
    ],
)
def test_a_bad_grid_gets_one_sentence(given, sentence):
    with pytest.raises(UserError, match=sentence.replace("?", r"\?")):
        specs(problem("lipschitz"), "demo", **given)


def test_an_unknown_problem_or_scale_is_told_the_nearest():
    with pytest.raises(UserError, match=r"there is no problem 'lipshitz': did you mean lipschitz\?"):
        problem("lipshitz")
    with pytest.raises(UserError, match=r"there is no scale of lipschitz 'laptob': did you mean laptop\?"):
        specs(problem("lipschitz"), "laptob")
