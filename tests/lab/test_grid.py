import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

import gradsurgery as gs
from gradsurgery.lab import method
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.find import find_problem as problem
from gradsurgery.lab.grid import specs
from gradsurgery.lab.notation import parse_numbers


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
    assert parse_numbers(text) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("text", ["abc", "1e-4:1", "1:2:3:4", "0.1;0.2", "1:2:3lin"])
def test_text_that_is_not_a_grid_is_one_sentence(text):
    with pytest.raises(UserError, match="a grid must be numbers and ranges such as"):
        parse_numbers(text)


def test_a_logarithmic_range_cannot_contain_zero():
    with pytest.raises(UserError, match="must be above 0; got 0:1:3log: add 0 as an item"):
        parse_numbers("0:1:3log")


def test_the_grid_of_a_scale():
    runs = specs(problem("lipschitz"), "demo")
    assert len(runs) == 4 * 9 * 3
    assert {run.rho for run in runs if run.method == "bloop"} == {0.03}
    assert {run.rho for run in runs if run.method != "bloop"} == {None}
    assert len({run.key for run in runs}) == len(runs)


def test_a_method_without_lam_runs_once_for_each_seed():
    runs = specs(problem("lipschitz"), "demo", methods=["mgda", "mixed"], lams=(0.1, 0.2), seeds=(3, 4))
    mgda = [(run.lam, run.rho, run.seed) for run in runs if run.method == "mgda"]
    assert mgda == [(None, None, 3), (None, None, 4)]
    assert len(runs) == 6


def test_the_rhos_of_a_scale_apply_to_a_user_method_with_an_average(monkeypatch):
    @dataclass(frozen=True)
    class averaging(gs.Method):
        lam: float
        rho: float | None = 0.5

    monkeypatch.setitem(method._registered, "averaging", averaging)
    (run,) = specs(problem("lipschitz"), "demo", methods=["averaging"], lams=(0.1,), seeds=(0,))
    assert run.rho == 0.03


def test_explicit_rhos_apply_to_every_method_with_rho():
    runs = specs(problem("lipschitz"), "demo", lams=(0.1,), seeds=(0,), rhos=(0.1, 0.5))
    by_method = {name: [run.rho for run in runs if run.method == name] for name in ("mixed", "pcgrad", "bloop")}
    assert by_method == {"mixed": [None], "pcgrad": [0.1, 0.5], "bloop": [0.1, 0.5]}
    (run,) = specs(problem("lipschitz"), "demo", methods=["dynamic_barrier"], lams=(0.1,), seeds=(0,), rhos=(0.2,))
    assert run.rho == 0.2


def test_without_rhos_bloop_projects_on_the_current_gradient():
    (run,) = specs(problem("lipschitz"), "demo", methods=["bloop"], lams=(0.1,), seeds=(0,), rhos=())
    assert run.rho is None


LAST_KEYS = {
    "noise": {"demo": "656820b55e86a2dd", "paper": "a5b56c39e6d5c5e3"},
    "conditioning": {"demo": "3974fb1f1963fae1"},
    "lipschitz": {"demo": "cefe933832bbebab", "laptop": "9ae8a54f62eec767", "paper": "bdd03dd16cd14a26"},
    "weights": {"demo": "b1d2e20b1e9ae219", "laptop": "2923af200b127c77", "paper": "c9acd9c51b8aa859"},
    "cifar10mnist": {"demo": "0785b9359f6a67e5", "laptop": "2c74c5bb4993f78f", "paper": "d4652e16eb7c9c7d"},
    "language": {"demo": "c26e225cf9922bb2", "laptop": "12d5d914157a3faa", "paper": "3ba71bc3c1684771"},
    "ema": {"demo": "b8e68115e7c87e4a", "laptop": "3d76f6488aff73da", "paper": "58e311332903ca4b"},
    "translation": {"demo": "deab5e443a15560c", "laptop": "673682de9f00bebe", "paper": "3d0f1d2c975630cd"},
    "imagenet-cifar10": {"demo": "b0529085fe8e51cf", "laptop": "22b0f0538f4225ad", "paper": "f01d58be31a90b9b"},
}


def test_keys_of_stored_runs_stay_valid():
    """The key of the last run of each default grid, as stores have it."""
    keys = {name: {scale: specs(problem(name), scale)[-1].key for scale in problem(name).scales} for name in LAST_KEYS}
    assert keys == LAST_KEYS


def test_a_changed_setting_makes_another_run():
    lipschitz = problem("lipschitz")
    plain, changed = (
        specs(lipschitz, "demo", methods=["mixed"], lams=(0.1,), seeds=(0,), settings=settings)[0]
        for settings in ({}, {"epochs": "5", "learning_rate": "1e-2"})
    )
    assert changed.settings["epochs"] == 5
    assert changed.settings["learning_rate"] == 0.01
    assert changed.settings["batch"] == plain.settings["batch"]
    assert changed.key != plain.key


def test_another_model_comes_with_settings_of_its_own():
    usual, resnet, longer = (
        specs(problem("weights"), "laptop", settings=settings)[0].settings
        for settings in ({}, {"model": "resnet"}, {"model": "resnet", "epochs": "40"})
    )
    assert (usual["model"], usual["main_data"], usual["batch"]) == ("mlp", "ylecun/mnist", 256)
    assert (resnet["model"], resnet["main_data"], resnet["batch"]) == ("resnet", "uoft-cs/cifar10", 32)
    assert longer == {**resnet, "epochs": 40}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"methods": ["blop"]}, "there is no method 'blop': did you mean bloop?"),
        ({"methods": []}, "at least one value in methods; got none"),
        ({"lams": ()}, "at least one value in lams; got none"),
        ({"lams": (-0.1,)}, "lam weighs the auxiliary gradient, so it must be at least 0; got -0.1"),
        ({"rhos": (1.5,), "methods": ["bloop"]}, "above 0 and at most 1; got 1.5"),
        ({"lams": (0.1,), "methods": ["mgda", "agem"]}, "lam has no effect on mgda, agem: leave it out"),
        ({"rhos": (0.1,), "methods": ["mixed"]}, "rho has no effect on lipschitz with mixed: leave it out"),
        ({"settings": {"epoch": "3"}}, "there is no setting 'epoch' of lipschitz: did you mean epochs?"),
        ({"settings": {"epochs": "many"}}, "the setting epochs must be a whole number from 1 to 1000000000"),
        ({"settings": {"epochs": "99999999999999999999999"}}, "the setting epochs must be a whole number from 1"),
        ({"settings": {"data": "foo"}}, "there is no setting 'data' of lipschitz: did you mean main_data?"),
        ({"settings": {"batch": "100000"}}, "1437 examples are too few for rows_per_epoch=1 and batch=100000"),
        ({"settings": {"rows_per_epoch": "1000"}}, "1437 examples are too few for rows_per_epoch=1000 and batch=128"),
    ],
)
def test_a_bad_grid_is_one_sentence(arguments, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        specs(problem("lipschitz"), "demo", **arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("noise", {"methods": ["mixed"]}, "noise can be run with bloop, but not with mixed"),
        ("noise", {"rhos": (0.1,)}, "rho has no effect on noise with bloop: leave it out"),
        ("noise", {"settings": {"samples": "1500"}}, "samples must be a multiple of 1000; got 1500"),
        (
            "weights",
            {"settings": {"blocks": "1,x"}},
            "the number of blocks in each stage, such as 3,4,6,3; got '1,x'",
        ),
        ("weights", {"settings": {"model": "cnn"}}, "the setting model must be one of mlp, resnet; got 'cnn'"),
        ("weights", {"settings": {"batch": "321"}}, "320 examples are too few for rows_per_epoch=1 and batch=321"),
        ("language", {"settings": {"steps": "30"}}, "steps must be a multiple of rows; got 30 steps and 20 rows"),
        ("translation", {"settings": {"buckets": "9"}}, "the setting buckets must be a whole number from 1 to 8"),
        ("translation", {"settings": {"vocabulary": "258"}}, "vocabulary must be a whole number from 259 to 65535"),
        ("translation", {"settings": {"length": "1"}}, "buckets must be at most the length; got 2 and 1"),
    ],
)
def test_a_grid_that_a_problem_cannot_run_is_one_sentence(name, arguments, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        specs(problem(name), "demo", **arguments)


def test_an_unknown_problem_or_scale_names_the_nearest():
    with pytest.raises(UserError, match=r"there is no problem 'lipshitz': did you mean lipschitz\?"):
        problem("lipshitz")
    with pytest.raises(UserError, match=r"there is no scale 'laptob' of lipschitz: did you mean laptop\?"):
        specs(problem("lipschitz"), "laptob")


def test_problems_are_light_to_import():
    """``gradsurgery list`` and errors in the arguments must not wait for these."""
    heavy = {"jax", "optax", "flax", "datasets", "matplotlib", "torch", "sklearn"}
    load = "from gradsurgery import lab; [lab.find_problem(name) for name in lab.installed_problems()]"
    code = f"import sys; {load}; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_each_combination_of_settings_has_the_whole_grid_and_main_alone():
    grid = {"methods": ["mixed", "bloop"], "lams": (0.1,), "seeds": (0,), "main_alone": True}
    runs = specs(problem("lipschitz"), "demo", settings={"learning_rate": [0.1, 0.3]}, **grid)
    found = [(run.settings["learning_rate"], run.method, run.lam) for run in runs]
    grid_of_one = [("mixed", 0.1), ("bloop", 0.1), ("mixed", 0.0)]
    assert sorted(found) == sorted((rate, *each) for rate in (0.1, 0.3) for each in grid_of_one)
