"""Where the next λ goes: by hand, and on fronts known in closed form."""

import math
import random

import pytest

from gradsurgery import lab
from gradsurgery.lab.analysis.pareto import LossRange, Region
from gradsurgery.lab.cli import main
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.sweep.adaptive import next_lam, train_adaptively

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


def test_the_grid_grows_up_to_a_lam_that_diverged_and_not_beyond():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.05, 3.0), 10.0: None}) == 3.16
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.05, 3.0), 1.4: None}) < 1


def test_a_gap_whose_middle_failed_is_divided_beside_it():
    failed = {0.0: (1.0, 5.0), 0.03: (1.2, 4.0), 0.3: None, 3.0: (3.0, 1.0)}
    assert next_lam(failed) == 0.0949
    assert next_lam({**failed, 0.0949: None}) == 0.949  # the wider of what is left
    assert next_lam({0.0: (1.0, 5.0), 0.1: None, 1.0: None}) == 0.01  # only main alone is left
    assert next_lam({0.0: None, 0.1: None}) is None


def test_the_grid_stays_within_its_reach():
    assert next_lam({0.0: (1.0, 5.0), 0.1: (1.0, 4.0), 1.0: (1.05, 3.0)}, reach=(0.01, 5.0)) < 1
    assert next_lam({0.0: (1.0, 5.0), 0.1: (2.9, 1.1), 1.0: (3.0, 1.0)}, reach=(0.05, 5.0)) is None


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


def noisy(lam, chance):
    return 1 + 0.1 * lam / (1 + lam) + chance.gauss(0, 0.05), 1 / (1 + lam) + chance.gauss(0, 0.1)


def fails_in_the_middle(lam, chance):
    return None if 0.05 < lam < 0.5 else (1 + 0.1 * lam, 1 / (1 + lam))


def fails_at_the_top(lam, chance):
    return None if lam >= 1 else (1 + 0.1 * lam, 1 / (1 + lam))


def plateau(lam, chance):
    return 1.0, 1.0


def free(lam, chance):
    return 1.0, 1 / (1 + lam)


def jump(lam, chance):
    return (1.0, 1.0) if lam < 0.37 else (5.0, 0.01)


def untrained(lam, chance):
    """Main alone never trains the head that aux measures, so its aux is arbitrary."""
    return 1 + 0.05 * lam, 12 + 5 * chance.random() if lam == 0 else 0.2 / (1 + lam)


def improves(lam, chance):
    return 1 - 0.1 * min(lam, 1), 1 / (1 + lam)


def adaptive_lams(losses, max_lams=9, skip=()):
    """The λ of an adaptive sweep in the order of training, on a problem given by its final losses.

    Runs whose λ is in ``skip`` are left to another sweep.
    """
    trained = []

    def train(runs):
        before = len(trained)
        for run in runs:
            if run.lam in skip:
                continue
            point = losses(run.lam, random.Random(f"{run.lam} {run.seed}"))
            row = dict(zip(("step", "main_train", "aux_train"), (1, *point), strict=True)) if point else None
            trained.append(RunRecord(run, "done" if row else "failed", {}, (row,) if row else ()))
        return trained[before:]

    grid = [RunSpec("p", "s", "mixed", lam, None, seed) for lam in (0.0, 0.01, 0.1, 1.0) for seed in range(3)]
    assert train_adaptively(grid, train, max_lams) == trained
    return list(dict.fromkeys(record.spec.lam for record in trained if record.spec.lam))


def test_a_noisy_problem_gets_its_lams_where_aux_falls():
    lams = adaptive_lams(noisy)
    assert len(lams) == 9
    assert sum(0.01 <= lam <= 10 for lam in lams) >= 7
    assert max(lams) <= 1000


def test_runs_that_fail_in_the_middle_do_not_end_the_search():
    lams = adaptive_lams(fails_in_the_middle)
    assert len(lams) == 9
    assert {0.0316, 0.562} < set(lams), "a λ that works on either side"


def test_runs_that_fail_at_the_top_draw_the_search_towards_them():
    lams = adaptive_lams(fails_at_the_top)
    assert len(lams) == 9
    assert sum(0.1 < lam < 1 for lam in lams) >= 5
    assert max(lams) == 1


def test_a_plateau_gets_no_more_than_the_first_grid():
    assert adaptive_lams(plateau) == [0.01, 0.1, 1.0]


@pytest.mark.parametrize("losses", [free, improves])
def test_a_free_gain_is_followed_until_aux_hardly_falls(losses):
    assert adaptive_lams(losses) == [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]


def test_a_jump_is_found():
    lams = sorted(adaptive_lams(jump))
    assert 0.316 in lams
    assert lams[lams.index(0.316) + 1] < 0.5


def test_an_arbitrary_aux_of_main_alone_draws_no_lams():
    lams = adaptive_lams(untrained)
    assert len(lams) == 9
    assert min(lams) == 0.01
    assert max(lams) == 10


def test_a_lam_that_is_not_trained_is_not_asked_for_again():
    lams = adaptive_lams(fails_at_the_top, skip=(0.316,))
    assert len(lams) == 8
    assert 0.178 in lams


def test_noise_beside_main_alone_cannot_lead_the_search_down_for_ever():
    def losses(lam, chance):
        return (1.0, 5.0) if lam == 0 else (1.5, 1.0)

    assert min(adaptive_lams(losses)) == 1e-5


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
        assert "an adaptive grid must be auto: and a number from 3, such as auto:9" in capsys.readouterr().err
