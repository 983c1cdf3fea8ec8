"""Imports run one way: a package loads only what it needs, and a missing extra is named."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "gradsurgery"
DOOR = {
    "gradsurgery.lab",
    *(
        f"gradsurgery.lab.{name}"
        for name in ("analysis", "atomic", "errors", "lam", "method", "processes", "store.select", "text")
    ),
    *(f"gradsurgery.lab.reports.{name}" for name in ("figures", "page", "style")),
    *(f"gradsurgery.lab.cli.{name}" for name in ("commands", "parser")),
    *(f"gradsurgery.lab.sweep.{name}" for name in ("cores", "events", "progress", "resources", "train")),
}
"""What the paper may import of the lab."""


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


def imported(folder):
    """Which names each file of a folder imports, as (file, module, name)."""
    for path in (SOURCE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                yield from ((path.relative_to(SOURCE), str(node.module), alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((path.relative_to(SOURCE), alias.name, "") for alias in node.names)


@pytest.mark.parametrize("room", ["", "jax", "torch", "transformers"])
def test_nothing_outside_the_lab_imports_the_lab(room):
    files = [entry for entry in imported(room) if entry[0].parts[0] not in ("lab", "paper")]
    assert files
    assert [entry for entry in files if entry[1].startswith(("gradsurgery.lab", "gradsurgery.paper"))] == []


def test_the_lab_does_not_know_the_paper():
    assert [entry for entry in imported("lab") if "gradsurgery.paper" in f"{entry[1]}.{entry[2]}"] == []


def test_the_paper_uses_public_names_of_the_lab_only():
    used = [entry for entry in imported("paper") if entry[1].startswith("gradsurgery.lab")]
    assert used
    assert [entry for entry in used if entry[2].startswith("_")] == []
    assert [entry for entry in used if entry[1] not in DOOR] == []


SWEEP = """
import sys
sys.modules["jax"] = None                     # importing it raises
from gradsurgery import lab

@lab.problem(main="m", aux="a", lams=[1.0], share_process=True)
def trained(run):
    import sys
    import torch
    import gradsurgery.torch
    x = torch.ones(2, requires_grad=True)
    surgery = gradsurgery.torch.Surgery([x], run.method)
    surgery.backward((x**2).sum(), ((x - 1)**2).sum())
    surgery.apply()
    yield {"step": 0, "main_train": float(x.grad[0]), "aux_train": 1.0, "jax": float("jax.numpy" in sys.modules)}

records = lab.sweep(trained, folder=sys.argv[1], workers=1, quiet=True)
assert [record.status for record in records] == ["done"] * 3, records
assert {record.final["jax"] for record in records} == {0.0}
lab.report(records, sys.argv[1])
lab.recommend(records)
"""


@pytest.mark.slow
def test_a_sweep_of_a_pytorch_generator_never_imports_jax(tmp_path):
    """Neither in this process, where it raises, nor in a worker."""
    pytest.importorskip("torch")
    program = [sys.executable, "-c", SWEEP, str(tmp_path / "runs")]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert not list(tmp_path.rglob("*.lock")), "a finished sweep leaves no lock files"


def test_importing_the_lab_changes_no_environment_variable():
    result = run("import os; before = dict(os.environ); import gradsurgery.lab; print(dict(os.environ) == before)")
    assert (result.stdout.strip(), result.stderr) == ("True", "")


@pytest.mark.parametrize("missing", ["rich", "cloudpickle", "filelock"])
@pytest.mark.parametrize(
    "call",
    [
        "from gradsurgery import lab; lab.sweep('lipschitz')",
        "import sys; from gradsurgery.lab.cli import main; sys.exit(main(['list']))",
        "import sys; from gradsurgery.lab.cli import main; sys.exit(main([]))",
    ],
)
def test_the_lab_without_its_extra_says_how_to_get_it(call, missing):
    if "main" in call and missing == "cloudpickle":
        pytest.skip("help and list need no cloudpickle")
    result = run(f"import sys; sys.modules[{missing!r}] = None; {call}")
    assert result.returncode == (2 if "main" in call else 1)
    assert f'gradsurgery.lab needs {missing}: pip install "gradsurgery[lab]"' in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["['sweep', 'lipschitz']", "['list', 'lipschitz']", "['claims', 'C1']"])
def test_a_problem_of_the_paper_without_its_extra_says_how_to_get_it(command):
    call = f"from gradsurgery.lab.cli import main; sys.exit(main({command}))"
    result = run(f"import sys; sys.modules['flax'] = None; {call}")
    assert result.returncode == 2
    assert result.stderr == 'gradsurgery: gradsurgery.paper needs flax: pip install "gradsurgery[paper]"\n'
