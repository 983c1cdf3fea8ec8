"""The examples run as they stand, and print numbers that make sense."""

import os
import re
import subprocess
import sys
from difflib import ndiff
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "transformers"


@cache
def printed(name):
    """The numbers that an example prints, by name; a pair where it prints two."""
    run = subprocess.run(
        [sys.executable, EXAMPLES / name],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "gradsurgery" not in run.stderr  # no warning that points to our files
    found = re.findall(
        r"^(?:.*, )?(main|aux|old) ([\d.]+)(?: -> ([\d.]+))?", run.stdout.replace(", ", "\n"), re.MULTILINE
    )
    return {key: (float(first), float(second)) if second else float(first) for key, first, second in found}


def code(name):
    """An example's lines without its docstring, imports and empty lines."""
    text = (EXAMPLES / name).read_text().split('"""', 2)[2]
    return [line for line in text.splitlines() if line and not line.startswith(("import ", "from "))]


def test_surgery_is_three_lines_away_from_trainer():
    difference = [line for line in ndiff(code("plain.py"), code("trainer.py")) if line[0] in "+-"]
    assert [line.split()[:2] for line in difference] == [
        ["-", "trainer"],
        ["+", "trainer"],
        ["+", "aux_dataset=counting(50,"],
        ["+", "method=gs.bloop(lam=0.3,"],
    ]


@pytest.mark.slow
def test_an_auxiliary_dataset_is_learned_beside_main():
    plain, trainer = printed("plain.py"), printed("trainer.py")
    assert trainer["main"] < plain["main"] + 0.15
    assert trainer["aux"] < plain["aux"] - 0.5


@pytest.mark.slow
def test_adapters_learn_the_new_task_and_keep_more_of_the_old_one():
    lora = printed("lora.py")
    before, after = lora["main"]
    assert after < 0.5 * before
    assert lora["old"][1] < 2.2  # without the auxiliary loss: 3.2


@pytest.mark.slow
def test_the_student_learns_from_labels_and_teacher():
    for before, after in printed("distillation.py").values():
        assert after < 0.7 * before
