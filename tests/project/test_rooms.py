"""Imports run one way: a room loads nothing that it does not need, and says what it misses."""

import subprocess
import sys

import pytest


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_core_loads_neither_jax_nor_torch():
    result = run("import sys, gradsurgery; print(sorted({'jax', 'optax', 'torch'} & set(sys.modules)))")
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


def test_the_jax_room_loads_no_torch():
    pytest.importorskip("jax")
    result = run("import sys, gradsurgery.jax; print('torch' in sys.modules)")
    assert (result.stdout.strip(), result.stderr) == ("False", "")


def test_the_torch_room_loads_no_jax():
    pytest.importorskip("torch")
    result = run("import sys; sys.modules['jax'] = None; import gradsurgery.torch; print('optax' in sys.modules)")
    assert (result.stdout.strip(), result.stderr) == ("False", "")


@pytest.mark.parametrize(("room", "missing"), [("jax", "jax"), ("jax", "optax"), ("torch", "torch")])
def test_a_missing_extra_says_how_to_get_it(room, missing):
    result = run(f"import sys; sys.modules[{missing!r}] = None; import gradsurgery.{room}")
    assert result.returncode == 1
    assert f"gradsurgery.{room} needs {missing if room == 'torch' else 'jax and optax'}" in result.stderr
    assert f'pip install "gradsurgery[{room}]"' in result.stderr.splitlines()[-1]
