from dataclasses import replace

import pytest

from gradsurgery.lab.analysis.series import group_runs
from gradsurgery.lab.objective import judge_by, read_objectives
from gradsurgery.lab.reports.figures import COLUMN, MIXTURES, PAGE, draw_fronts, draw_mixed_loss, save_figures
from gradsurgery.lab.reports.style import look
from gradsurgery.lab.reports.views import find_views
from tests.lab.analysis.synthetic_runs import LAMS, ending, run, sweep


def lines(panel, **properties):
    """The points of each line of a panel with these properties."""
    matching = [
        line
        for line in panel.lines
        if all(getattr(line, f"get_{name}")() == value for name, value in properties.items())
    ]
    return [list(zip(*line.get_data(), strict=True)) for line in matching]


def test_fronts_are_drawn_for_train_on_the_left_and_test_on_the_right():
    figure = draw_fronts(group_runs(sweep()))
    assert [panel.get_title() for panel in figure.axes] == ["train", "test"]
    assert figure.get_figwidth() == PAGE
    for panel in figure.axes:
        assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
        [front] = lines(panel, color=look("bloop").colour, linewidth=1.2, marker="o")
        assert len(front) == len(LAMS)
        assert front == sorted(front)
        assert len(panel.collections) == 2 * 4, "horizontal and vertical error bars for each method"
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["bloop", "mixed", "dynamic_barrier", "pcgrad"]


def test_main_alone_is_a_black_star_within_the_axes():
    alone = [ending("mixed", 0.0, main, 3.5, seed) for seed, main in enumerate((0.1, 0.3))]
    fronts = [ending(name, lam, 1 + lam, 2 - lam) for name in ("mixed", "bloop") for lam in (0.1, 0.5, 1.0)]
    figure = draw_fronts(group_runs(fronts + alone), alone)
    (panel,) = figure.axes
    assert lines(panel, color="#000000", marker="*") == [[(0.2, 3.5)]]
    assert panel.get_xlim()[0] < 0.2
    assert panel.get_ylim()[1] > 3.5
    assert figure.legends[0].get_texts()[-1].get_text() == "main alone"


def test_error_bars_span_one_standard_deviation():
    groups = group_runs(sweep(methods={"bloop": 0.01}))
    panel = draw_fronts(groups).axes[0]
    for axis, bars in enumerate(panel.collections):
        for segment, seeds in zip(bars.get_segments(), groups[0].by_lam("train"), strict=True):
            length = segment[1][axis] - segment[0][axis]
            assert length == pytest.approx(2 * seeds.deviation[axis], rel=1e-6)


def test_trajectories_are_means_over_seeds_and_end_at_their_markers():
    series = group_runs(sweep(methods={"bloop": 0.01}, seeds=2))[0]
    trajectories = lines(draw_fronts([series]).axes[1], linewidth=0.6)
    assert [trajectory[-1] for trajectory in trajectories] == [seeds.mean for seeds in series.by_lam("test")]
    rows = [record.metrics[3] for record in series.records if record.spec.lam == LAMS[0]]
    assert trajectories[0][3] == pytest.approx(
        [sum(row[name] for row in rows) / 2 for name in ("main_test", "aux_test")]
    )


def test_a_metric_of_the_user_has_a_panel_where_left_is_better(tmp_path):
    rows = [
        {"step": 1.0, "main_test": 1.0, "aux_test": 2.0 / (1 + lam), "accuracy_test": 0.9 - lam} for lam in LAMS[:3]
    ]
    runs = [replace(run(lam=lam), metrics=(row,)) for lam, row in zip(LAMS, rows, strict=False)]
    records, views = find_views(judge_by(read_objectives({"main": "accuracy_test"}, None), runs))
    losses, accuracy = draw_fronts(group_runs(records), (), views).axes
    assert (losses.get_title(), accuracy.get_title(), accuracy.get_xlabel()) == (
        "test",
        "accuracy_test",
        "accuracy_test",
    )
    [front] = lines(accuracy, marker="o", linewidth=1.2)
    texts = [accuracy.xaxis.get_major_formatter()(cost) for cost, _ in front]
    assert texts == [f"{row['accuracy_test']:.3g}" for row in rows]
    assert front == sorted(front)
    assert "fronts.png" in {path.name for path in save_figures(records, tmp_path, None)}


def test_a_single_seed_has_no_error_bars():
    assert not draw_fronts(group_runs(sweep(seeds=1))).axes[0].collections


def test_final_points_fill_the_panel():
    records = sweep()
    panel = draw_fronts(group_runs(records)).axes[0]
    for limits, name in ((panel.get_xlim(), "main_train"), (panel.get_ylim(), "aux_train")):
        values = [record.final[name] for record in records if record.final[name] == record.final[name]]
        assert limits[0] < min(values) < max(values) < limits[1] < 3 * max(values)


def test_negative_losses_have_a_linear_axis():
    panel = draw_fronts(group_runs(sweep(negative=True))).axes[0]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")


def test_one_run_on_one_split_fills_one_column():
    assert draw_fronts(group_runs([run(test=False)])).get_figwidth() == COLUMN
    assert draw_mixed_loss(group_runs([run()])) is None


def test_mixed_loss_by_hand():
    records = sweep(seeds=1, methods={"bloop": 0.01})
    panel = draw_mixed_loss(group_runs(records)).axes[MIXTURES.index(0.25)]
    for style, split in ((":", "train"), ("-", "test")):
        [line] = lines(panel, linestyle=style)
        expected = [0.75 * record.final[f"main_{split}"] + 0.25 * record.final[f"aux_{split}"] for record in records]
        assert [value for _, value in line] == pytest.approx(expected)
        assert [lam for lam, _ in line] == list(LAMS)


def test_a_method_without_lam_is_a_horizontal_line():
    panel = draw_mixed_loss(group_runs([*sweep(), run("mgda", lam=None)])).axes[0]
    horizontal = lines(panel, color=look("mgda").colour)
    assert len(horizontal) == 2, "one for each split"
    assert all(line[0][1] == line[1][1] for line in horizontal)


def test_diverged_runs_leave_nothing_to_draw():
    assert draw_fronts(group_runs([run(diverged=True)])) is None
    assert draw_mixed_loss(group_runs([run(diverged=True), run(lam=1.0, diverged=True)])) is None
