"""The examples run unchanged and print plausible numbers."""

from difflib import ndiff
from pathlib import Path

import pytest

from tests.example_scripts import EXAMPLES, code_lines, numbers, printed_text


def test_every_example_is_run():
    tests = Path(__file__).read_text()
    assert [
        path.name for path in EXAMPLES.glob("transformers/*.py") if f'"transformers/{path.stem}"' not in tests
    ] == []


def test_surgery_differs_from_trainer_by_three_lines():
    difference = [
        line for line in ndiff(code_lines("transformers/plain"), code_lines("transformers/trainer")) if line[0] in "+-"
    ]
    assert [line.split()[:2] for line in difference] == [
        ["-", "trainer"],
        ["+", "trainer"],
        ["+", "aux_dataset=counting(50,"],
        ["+", "method=gs.bloop(lam=0.3,"],
    ]


@pytest.mark.slow
def test_an_auxiliary_dataset_is_learned_beside_main():
    # the first line that a trainer prints is a dictionary of its logs, the last is the script's
    plain, trainer = (numbers(printed_text(f"transformers/{name}").splitlines()[-1]) for name in ("plain", "trainer"))
    assert trainer["main"] < plain["main"] + 0.15
    assert trainer["aux"] < plain["aux"] - 0.5


@pytest.mark.slow
def test_adapters_learn_the_new_task_and_keep_more_of_the_old_one():
    before, after = map(numbers, printed_text("transformers/lora").splitlines()[-2:])
    assert after["main"] < 0.5 * before["main"]
    assert after["old"] < 2.2  # without the auxiliary loss: 3.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated:FutureWarning")  # by TRL's own default
def test_the_mixin_works_with_sft_trainer():
    losses = numbers(printed_text("transformers/trl_sft").splitlines()[-1])
    assert losses["main"] < 1.0  # untrained: 2.8
    assert losses["aux"] < 1.8  # without the auxiliary loss: 2.2
