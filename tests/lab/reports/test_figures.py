import pytest

from gradsurgery.lab.reports.figures import COLUMN, PAGE, fronts, mixed_loss
from gradsurgery.lab.reports.looks import look
from gradsurgery.lab.reports.series import series
from tests.lab.reports.synthetic_runs import LAMS, run, sweep


def drawn(panel, **wanted):
    """The lines of a panel that match, as lists of points."""
    lines = [
        line for line in panel.lines if all(getattr(line, f"get_{name}")() == value for name, value in wanted.items())
    ]
    return [list(zip(*line.get_data(), strict=True)) for line in lines]


def test_fronts_train_left_test_right():
    figure = fronts(series(sweep()))
    assert [panel.get_title() for panel in figure.axes] == ["train", "test"]
    assert figure.get_figwidth() == PAGE
    for panel in figure.axes:
        assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
        [front] = drawn(panel, color=look("bloop").colour, linewidth=1.2, marker="o")
        assert len(front) == len(LAMS)
        assert front == sorted(front)
        trajectories = drawn(panel, color=look("bloop").colour, alpha=0.18)
        assert [len(path) for path in trajectories] == [21] * 15
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "bloop",
        "mixed",
        "dynamic_barrier",
        "pcgrad",
    ]


def test_final_points_fill_the_panel():
    records = sweep()
    panel = fronts(series(records)).axes[0]
    for axis, name in ((panel.get_xlim(), "main_train"), (panel.get_ylim(), "aux_train")):
        values = [record.final[name] for record in records if record.final[name] == record.final[name]]
        assert axis[0] < min(values) < max(values) < axis[1] < 3 * max(values)


def test_negative_losses_have_a_linear_axis():
    panel = fronts(series(sweep(negative=True))).axes[0]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")


def test_one_run_is_drawn_with_its_whole_way():
    figure = fronts(series([run(test=False)]))
    assert figure.get_figwidth() == COLUMN
    assert figure.axes[0].get_xlim()[1] > 2.2
    assert mixed_loss(series([run()])) is None


def test_mixed_loss_by_hand():
    records = sweep(seeds=1, methods={"bloop": 0.01})
    panel = mixed_loss(series(records), mixtures=(0.25,)).axes[0]
    for style, split in ((":", "train"), ("-", "test")):
        [line] = drawn(panel, linestyle=style)
        wanted = [0.75 * record.final[f"main_{split}"] + 0.25 * record.final[f"aux_{split}"] for record in records]
        assert [value for _, value in line] == pytest.approx(wanted)
        assert [lam for lam, _ in line] == list(LAMS)


def test_a_method_without_lam_is_a_level_line():
    panel = mixed_loss(series([*sweep(), run("mgda", lam=None)])).axes[0]
    for line in drawn(panel, color=look("mgda").colour):
        assert line[0][1] == line[1][1]


def test_nothing_to_draw():
    assert fronts(series([run(diverged=True)])) is None
    assert mixed_loss(series([run(diverged=True), run(lam=1.0, diverged=True)])) is None
