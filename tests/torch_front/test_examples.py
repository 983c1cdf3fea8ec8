"""The examples run unchanged and print plausible numbers."""

import os
import re
import subprocess
import sys
from difflib import ndiff
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"
QUIET = {"PYTHONWARNINGS": "error"}
NUMBERS = re.compile(r"(test accuracy|main|aux|loss scale) ([\d.]+)")


@cache
def printed(name, *, launcher=(), **environment):
    """The numbers that an example prints, by name, for each of its processes."""
    run = subprocess.run(
        [sys.executable, *launcher, EXAMPLES / name],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert "gradsurgery" not in run.stderr  # no warning that points to our files
    assert str(EXAMPLES) not in run.stderr
    # split by words, not by lines: two processes may write to the same line
    lines = run.stdout.split("test accuracy")[1:]
    return [{key: float(number) for key, number in NUMBERS.findall("test accuracy" + line)} for line in lines]


def code(name):
    """The lines of an example, without its docstring, imports and empty lines."""
    text = (EXAMPLES / name).read_text().split('"""', 2)[2]
    return [line for line in text.splitlines() if line and not line.startswith(("import ", "from "))]


def test_bloop_differs_from_the_plain_loop_by_three_lines():
    difference = [line for line in ndiff(code("plain.py"), code("bloop.py")) if line[0] in "+-"]
    assert [line[0] for line in difference] == ["+", "-", "+", "+"]
    assert [line.split("(")[0].split()[-1] for line in difference if line[0] == "+"] == [
        "gst.Surgery",
        "surgery.backward",
        "surgery.apply",
    ]


def test_bloop_reaches_a_lower_main_loss_than_the_plain_loop():
    (plain,), (bloop,) = printed("plain.py", **QUIET), printed("bloop.py", **QUIET)
    assert plain["test accuracy"] > 0.9
    assert bloop["test accuracy"] > 0.94
    assert bloop["main"] < 0.5 * plain["main"]
    # main alone ends at main 0.159 and aux 58.1; the summed losses reach the same aux with main 0.202
    assert bloop["main"] < 0.18
    assert bloop["aux"] < 50


def test_mixed_precision_and_accumulation_give_similar_results():
    (bloop,), (amp,) = printed("bloop.py", **QUIET), printed("amp.py", **QUIET)
    assert amp["test accuracy"] > 0.93
    assert amp["main"] == pytest.approx(bloop["main"], abs=0.03)
    assert amp["aux"] == pytest.approx(bloop["aux"], abs=4)
    # the scale has grown, but not at all of its 300 / 20 chances: float16 has overflowed without harm
    assert 2**16 < amp["loss scale"] < 2**31


@pytest.mark.parametrize("name", ["ddp.py", "fsdp2.py"])
def test_two_processes_end_with_the_same_network(name):
    (bloop,), (first, second) = printed("bloop.py", **QUIET), printed(name, **QUIET)
    assert first == second
    assert first["test accuracy"] > 0.93
    assert first["main"] == pytest.approx(bloop["main"], abs=0.03)
    assert first["aux"] == pytest.approx(bloop["aux"], abs=1)


def test_ddp_and_fsdp2_give_similar_results():
    assert printed("ddp.py", **QUIET)[0] == pytest.approx(printed("fsdp2.py", **QUIET)[0], rel=0.01)


def test_lightning_gives_similar_results():
    pytest.importorskip("lightning")
    (bloop,), (lightning,) = printed("bloop.py", **QUIET), printed("lightning_module.py")
    assert lightning == pytest.approx(bloop, rel=0.05)  # with half the batch, twice accumulated


def test_accelerate_gives_similar_results_on_one_process():
    pytest.importorskip("accelerate")
    (bloop,), (accelerate,) = printed("bloop.py", **QUIET), printed("accelerate_loop.py")
    assert accelerate == pytest.approx(bloop, rel=0.05)


def test_accelerate_gives_similar_results_on_two_processes():
    pytest.importorskip("accelerate")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    (bloop,) = printed("bloop.py", **QUIET)
    (accelerate,) = printed(
        "accelerate_loop.py", launcher=launcher, ACCELERATE_USE_CPU="1"
    )  # only the first process prints
    assert accelerate == pytest.approx(bloop, rel=0.1)  # in another order: an odd last micro-batch counts half
