"""Where the next λ goes: by hand, and on fronts known in closed form."""

import math

import pytest

from gradsurgery import lab
from gradsurgery.lab.analysis import LossRange, Region
from gradsurgery.lab.cli import main
from gradsurgery.lab.sweep.adaptive import next_lam

pytestmark = pytest.mark.usefixtures("no_figures")


def test_the_widest_gap_is_halved():
    assert next_lam({0.0: (1.0, 5.0), 0.01: (1.0, 5.0), 0.1: (1.1, 4.9), 1.0: (3.0, 1.0)}) == 0.316


def test_a_gap_is_the_area_that_a_point_could_add_not_a_distance():
    flat = {0.0: (1.0, 5.0), 0.01: (1.2, 4.0), 0.1: (1.5, 1.1), 1.0: (3.0, 1.0)}  # the longest stretch gains no aux
    assert next_lam(flat) == 0.0316
    dominated = {0.0: (1.0, 5.0), 0.1: (1.2, 4.5), 1.0: (3.0, 5.0)}
    assert next_lam(dominated) == 0.01


def test_a_gap_next_to_main_alone_is_filled_by_a_smaller_lam():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (2.9, 1.1), 1.0: (3.0, 1.0)}) == 0.01


def test_the_grid_grows_while_main_hardly_suffers():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.05, 3.0)}) == 10.0
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.2, 3.0)}) < 1


def test_the_grid_does_not_grow_beyond_a_lam_that_diverged():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.05, 3.0), 10.0: None}) < 1


def test_no_lam_is_trained_twice():
    failed = {0.0: (1.0, 5.0), 0.03: (1.2, 4.0), 0.3: None, 3.0: (3.0, 1.0)}  # the middle of the widest gap failed
    assert next_lam(failed) == 0.003


def test_a_jump_is_not_divided_for_ever():
    def train(lam):  # small weights by a sum of losses: at a large λ all of them become 0
        return (2.3, 1e-13) if lam > 0.8 else (0.03 + lam, 1 / (0.01 + lam))

    points = {lam: train(lam) for lam in (0.0, 0.03, 0.3, 3.0)}
    for _ in range(5):
        lam = next_lam(points)
        points[lam] = train(lam)
    assert sum(0.6 < lam < 3 for lam in points) == 2, "0.712 and 0.949"
    assert {0.0949, 0.534} < points.keys()


def test_small_gaps_end_the_search():
    front = {0.0: (0.0, 1.0)} | {10 ** (k / 10 - 3): (k / 60, 1 - k / 60) for k in range(1, 61)}
    assert next_lam(front) is None


@pytest.mark.parametrize("middle", [1e-5, 1e-2, 30.0])
def test_the_front_of_a_sigmoid_is_found_wherever_its_middle_is(middle):
    """Main rises and aux falls around one λ that the first grid may miss by decades."""

    def train(lam):
        share = lam**2 / (lam**2 + middle**2)
        return 1 + share**2, 5 - 4 * math.sqrt(share)

    points = {lam: train(lam) for lam in (0.0, 0.001, 0.0316, 1.0)}
    while len(points) <= 12 and (lam := next_lam(points)) is not None:
        assert lam not in points
        points[lam] = train(lam)
    region = Region(LossRange(1.0, 1.5, False), LossRange(1.0, 5.0, False))
    dense = region.hypervolume([train(10 ** (k / 50)) for k in range(-500, 200)])
    assert region.hypervolume(points.values()) > 0.9 * dense


@lab.problem(main="m", aux="a", lams="1e-3:1:2log", rhos=[0.1], seeds=[0, 1])
def sigmoid(run):
    share = run.lam**2 / (run.lam**2 + (0.01 if run.method.name == "bloop" else 0.1) ** 2)
    yield {"step": 0, "main_train": 1 + share**2 + 0.01 * run.seed, "aux_train": 5 - 4 * math.sqrt(share)}


def sweep_adaptively(folder, **options):
    records = lab.sweep(sigmoid, folder=folder, lams="auto:5", quiet=True, **options)
    return {(record.spec.method, record.spec.lam, record.spec.seed): record.final for record in records}


@pytest.mark.slow
def test_an_adaptive_sweep_trains_the_same_runs_with_any_number_of_workers(tmp_path):
    runs = sweep_adaptively(tmp_path / "none", workers=0)
    assert runs == sweep_adaptively(tmp_path / "two", workers=2)
    for method in ("mixed", "bloop"):
        lams = {lam for name, lam, _ in runs if name == method and lam > 0}
        assert {0.001, 1.0} < lams
        assert len(lams) == 5
        assert all((method, lam, seed) in runs for lam in lams for seed in (0, 1))


def test_an_adaptive_sweep_continues_from_stored_runs(tmp_path):
    whole = sweep_adaptively(tmp_path / "whole", workers=0)
    lab.sweep(sigmoid, folder=tmp_path / "parts", lams=[0.001, 0.0316], methods=["bloop"], workers=0, quiet=True)
    assert sweep_adaptively(tmp_path / "parts", workers=0) == whole


def test_the_command_line_takes_an_adaptive_grid(tmp_path, capsys):
    command = ["sweep", f"{__file__}:sigmoid", "--workers", "0", "--folder", str(tmp_path)]
    assert main([*command, "--lams", "auto:4", "--methods", "bloop", "--seeds", "0"]) == 0
    output = capsys.readouterr().out
    assert "[5/5] " in output  # main alone and four λ
    assert "If main may be 2 % worse than main alone" in output
    for wrong in ("auto", "auto:2", "auto:x"):
        assert main([*command, "--lams", wrong]) == 2
        assert "an adaptive grid is auto: and a number from 3, such as auto:9" in capsys.readouterr().err
