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
    expected = Settings(epochs=5, warmup=0, rate=1e-3, sharded=True, data="foo", size=8, blocks="3,4", split="test")
    assert changed == expected
    assert type(changed.rate) is float
    assert override(Settings(), {"rate": "2"}, "toy").rate == 2.0
    assert type(override(Settings(), {"rate": "2"}, "toy").rate) is float


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
    assert override(Settings(), {"warmup": "4", "epochs": "4"}, "toy").warmup == 4
