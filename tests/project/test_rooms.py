"""Imports run one way: a package loads only what it needs, and a missing extra is named."""

import subprocess
import sys

import pytest


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_gradsurgery_loads_neither_jax_nor_torch():
    result = run("import sys, gradsurgery; print(sorted({'jax', 'optax', 'torch'} & set(sys.modules)))")
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


def test_gradsurgery_jax_does_not_load_torch():
    pytest.importorskip("jax")
    result = run("import sys, gradsurgery.jax; print('torch' in sys.modules)")
    assert (result.stdout.strip(), result.stderr) == ("False", "")


def test_gradsurgery_torch_does_not_load_jax():
    pytest.importorskip("torch")
    result = run("import sys; sys.modules['jax'] = None; import gradsurgery.torch; print('optax' in sys.modules)")
    assert (result.stdout.strip(), result.stderr) == ("False", "")


@pytest.mark.parametrize(("room", "missing"), [("jax", "jax"), ("jax", "optax"), ("torch", "torch")])
def test_a_missing_extra_is_named_with_how_to_install_it(room, missing):
    result = run(f"import sys; sys.modules[{missing!r}] = None; import gradsurgery.{room}")
    assert result.returncode == 1
    assert f"gradsurgery.{room} needs {missing if room == 'torch' else 'jax and optax'}" in result.stderr
    assert f'pip install "gradsurgery[{room}]"' in result.stderr.splitlines()[-1]
