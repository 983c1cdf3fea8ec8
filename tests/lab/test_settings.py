"""Settings given as text: parsed and checked by the types of the fields."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.settings import Count, CountOrZero, Name, PositiveFloat, Switch, Text, Whole, one_of, override


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
            raise UserError(f"warmup must be at most epochs, but got {self.warmup} and {self.epochs}")


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
    changed = override(Settings(), changes, "toy")
    expected = {"epochs": 5, "warmup": 0, "rate": 1e-3, "sharded": True, "data": "foo", "size": 8, "blocks": "3,4"}
    assert changed == {**expected, "split": "test"}
    for two in ("2", 2):
        assert type(override(Settings(), {"rate": two}, "toy")["rate"]) is float


def test_values_stay_values():
    values = {"epochs": 5, "rate": 1e-3, "sharded": True, "data": "5"}
    changed = override(Settings(), values, "toy")
    assert {name: (value, type(value)) for name, value in changed.items() if name in values} == {
        name: (value, type(value)) for name, value in values.items()
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 3.0), ("epochs", True), ("rate", False), ("sharded", 1), ("data", 5), ("rate", None)],
)
def test_a_value_of_another_type_is_one_sentence(name, value):
    with pytest.raises(UserError, match=f"the setting {name} must be a?.*, but got {value!r}"):
        override(Settings(), {name: value}, "toy")


def test_settings_may_be_a_dict():
    defaults = {"epochs": 3, "rate": 0.1, "fast": True, "note": "a"}
    assert override(defaults, {"epochs": "5", "fast": "false"}, "toy") == {**defaults, "epochs": 5, "fast": False}
    with pytest.raises(UserError, match="the setting epochs must be a whole number, but got 'many'"):
        override(defaults, {"epochs": "many"}, "toy")


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
        override(Settings(), {name: text}, "toy")
    assert str(raised.value) == f"the setting {name} must be {expected}, but got {text!r}"


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(UserError, match=r"there is no setting 'epoch' of toy: did you mean epochs\?"):
        override(Settings(), {"epoch": "3"}, "toy")


def test_settings_are_checked_together():
    with pytest.raises(UserError, match="warmup must be at most epochs, but got 4 and 3"):
        override(Settings(), {"warmup": "4"}, "toy")
    assert override(Settings(), {"warmup": "4", "epochs": "4"}, "toy")["warmup"] == 4
