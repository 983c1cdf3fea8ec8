"""Two processes under DistributedDataParallel train as one process does with the whole batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.transformers_front.ddp_worker import CASES, train_case
from tests.transformers_front.tiny import distance, identical

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of each process, with all cases in one launch: processes start slowly."""
    folder, root = tmp_path_factory.mktemp("ddp"), Path(__file__).parents[2]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, *launch, "tests.transformers_front.ddp_worker", str(folder)],
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_as_one(tmp_path, results, name):
    (first, logs), (second, _) = (each[name] for each in results)
    alone, logs_alone = train_case(name, tmp_path, processes=1)
    assert identical(first, second)
    assert distance(first, alone) < 1e-6
    for loss in ("main_loss", "aux_loss"):
        assert logs[loss] == pytest.approx(logs_alone[loss], rel=1e-4)


def test_lam_zero_is_trainer_bit_for_bit(results):
    assert [each["λ = 0 is Trainer"] for each in results] == [True, True]


def test_resuming_changes_nothing(results):
    assert [each["resumes"] for each in results] == [True, True]
