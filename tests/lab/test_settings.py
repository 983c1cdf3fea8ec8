"""Settings given as text: parsed and checked by the types of the fields."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.settings import (
    Count,
    CountOrZero,
    Name,
    PositiveFloat,
    Switch,
    Text,
    Whole,
    combine,
    kinds_of,
    one_of,
    override,
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    epochs: Count = 3
    warmup: CountOrZero = 1
    rate: PositiveFloat = 0.1
    sharded: Switch = False
    data: Name = "digits"
    size: Annotated[int, Whole(least=2, most=8)] = 4
    blocks: Annotated[str, Text(r"\d(,\d)*", "digits such as 1,2")] = "1,1"
    split: Annotated[str, one_of("train", "test")] = "train"

    def __post_init__(self) -> None:
        if self.warmup > self.epochs:
            raise UserError(f"warmup must be at most epochs; got {self.warmup} and {self.epochs}")


def change(settings, changes):
    (combination,) = combine(settings, changes, "toy")
    return override(settings, combination)


def test_text_takes_the_type_of_its_field():
    changes = {
        "epochs": "5",
        "warmup": "0",
        "rate": "1e-3",
        "sharded": "True",
        "data": "foo",
        "size": "8",
        "blocks": "3,4",
        "split": "test",
    }
    changed = change(Settings(), changes)
    expected = {"epochs": 5, "warmup": 0, "rate": 1e-3, "sharded": True, "data": "foo", "size": 8, "blocks": "3,4"}
    assert changed == {**expected, "split": "test"}
    for two in ("2", 2):
        assert type(change(Settings(), {"rate": two})["rate"]) is float


def test_values_stay_values():
    values = {"epochs": 5, "rate": 1e-3, "sharded": True, "data": "5"}
    changed = change(Settings(), values)
    assert {name: (value, type(value)) for name, value in changed.items() if name in values} == {
        name: (value, type(value)) for name, value in values.items()
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 3.0), ("epochs", True), ("rate", False), ("sharded", 1), ("data", 5), ("rate", None)],
)
def test_a_value_of_another_type_is_one_sentence(name, value):
    with pytest.raises(UserError, match=f"the setting {name} must be a?.*; got {value!r}"):
        change(Settings(), {name: value})


def test_settings_may_be_a_dict():
    defaults = {"epochs": 3, "rate": 0.1, "fast": True, "note": "a"}
    assert change(defaults, {"epochs": "5", "fast": "false"}) == {**defaults, "epochs": 5, "fast": False}
    with pytest.raises(UserError, match="the setting epochs must be a whole number; got 'many'"):
        change(defaults, {"epochs": "many"})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("epochs", "many", "a whole number from 1 to 1000000000"),
        ("epochs", "0", "a whole number from 1 to 1000000000"),
        ("epochs", "1.5", "a whole number from 1 to 1000000000"),
        ("epochs", "99999999999999999999999", "a whole number from 1 to 1000000000"),
        ("warmup", "-1", "a whole number from 0 to 1000000000"),
        ("size", "9", "a whole number from 2 to 8"),
        ("rate", "0", "a number above 0"),
        ("rate", "nan", "a number above 0"),
        ("rate", "inf", "a number above 0"),
        ("sharded", "yes", "true or false"),
        ("data", "", "a name"),
        ("blocks", "1,x", "digits such as 1,2"),
        ("split", "tes", "one of train, test"),
    ],
)
def test_a_value_that_is_not_allowed_is_one_sentence(name, text, expected):
    with pytest.raises(UserError) as raised:
        change(Settings(), {name: text})
    assert str(raised.value) == f"the setting {name} must be {expected}; got {text!r}"


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(UserError, match=r"there is no setting 'epoch' of toy: did you mean epochs\?"):
        change(Settings(), {"epoch": "3"})


def test_settings_are_checked_together():
    with pytest.raises(UserError, match="warmup must be at most epochs; got 4 and 3"):
        change(Settings(), {"warmup": "4"})
    assert change(Settings(), {"warmup": "4", "epochs": "4"})["warmup"] == 4


@pytest.mark.parametrize(
    ("name", "choices", "values"),
    [
        ("rate", "0.1,0.3", [0.1, 0.3]),
        ("rate", [0.1, "0.3"], [0.1, 0.3]),
        ("rate", "0.1, 0.1", [0.1]),
        ("split", "train,test", ["train", "test"]),
        ("blocks", "3,4", ["3,4"]),
        ("blocks", ["3,4", "1"], ["3,4", "1"]),
        ("data", "a,b", ["a,b"]),
        ("sharded", "true,false", [True, False]),
    ],
)
def test_several_values_are_swept_unless_the_text_is_one_value(name, choices, values):
    assert list(combine(Settings(), {name: choices}, "toy")) == [{name: value} for value in values]


def test_settings_are_combined():
    combinations = list(combine({"rate": 0.1, "steps": 3}, {"rate": [0.1, 0.3], "steps": "1,2"}, "toy"))
    assert [tuple(each.values()) for each in combinations] == [(0.1, 1), (0.1, 2), (0.3, 1), (0.3, 2)]


@pytest.mark.parametrize("choices", ["0.1,many", "0.1,", [], [0.1, None]])
def test_a_bad_value_among_several_is_one_sentence(choices):
    with pytest.raises(UserError, match="the setting rate must"):
        list(combine(Settings(), {"rate": choices}, "toy"))


def test_values_of_derived_types_and_empty_text_are_settings():
    kinds = kinds_of({"rate": np.float64(0.1), "note": ""})
    assert kinds["rate"].read("0.3") == 0.3
    assert kinds["note"].read("") == ""


def test_a_float_of_a_dataclass_may_be_given_as_a_whole_number():
    @dataclass(frozen=True)
    class Rates:
        rate: float = 1

    assert kinds_of(Rates())["rate"].read("0.5") == 0.5
