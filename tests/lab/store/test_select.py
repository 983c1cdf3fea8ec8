"""Stored runs are divided into sweeps by scale and settings."""

import re
import sys
from pathlib import Path

import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.store.select import select_runs, select_sweeps

pytestmark = pytest.mark.usefixtures("no_figures")


def record(folder, problem="mine", scale="default", lam=0.1, **settings):
    with lab.Store(folder).run(problem=problem, scale=scale, method=gs.mixed(lam=lam), settings=settings) as run:
        run.log(step=0, main_train=1 + lam, aux_train=1 - lam)


def test_a_problem_known_by_its_runs_alone_with_one_set_of_settings_is_one_sweep(tmp_path):
    record(tmp_path, rate=0.1)
    record(tmp_path, lam=0.2, rate=0.1)
    (sweep,) = select_sweeps(tmp_path, "mine")
    assert (sweep.title, sweep.folder_name, len(sweep.records)) == ("mine, default", "mine-default", 2)


def test_sweeps_with_different_settings_have_different_titles_and_folders(tmp_path):
    record(tmp_path, rate=0.1)
    record(tmp_path, rate=0.2)
    sweeps = select_sweeps(tmp_path, "mine")
    assert [sweep.title for sweep in sweeps] == ["mine, default, rate = 0.1", "mine, default, rate = 0.2"]
    assert len({sweep.folder_name for sweep in sweeps}) == 2


def test_equal_settings_of_different_types_are_different_sweeps(tmp_path):
    for rate in (1, 1.0, True):
        record(tmp_path, rate=rate)
    sweeps = select_sweeps(tmp_path, "mine")
    assert {sweep.title for sweep in sweeps} == {f"mine, default, rate = {rate}" for rate in ("1", "1.0", "True")}
    assert len({sweep.folder_name for sweep in sweeps}) == 3


def test_a_sweep_reports_its_own_runs_after_a_default_changed_its_type(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for default in ("1", "1.0"):
        declaration = f"@lab.problem(main='m', aux='a', settings={{'rate': {default}}}, lams=[1.0])"
        body = "def typed(run):\n    yield {'step': 0, 'main_train': 1.0, 'aux_train': 1.0}"
        Path("typed.py").write_text(f"from gradsurgery import lab\n\n{declaration}\n{body}\n")
        monkeypatch.delitem(sys.modules, "typed", raising=False)
        assert main(["sweep", "typed.py:typed", "--workers", "0"]) == 0
        assert capsys.readouterr().out.endswith("report: runs/report/typed-default/report.html\n")


def test_a_problem_whose_runs_all_failed_has_no_finished_run(tmp_path):
    with pytest.raises(OSError, match="full"), lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=0.1)):
        raise OSError("full")
    with pytest.raises(UserError, match="no finished run of mine is stored"):
        select_runs(tmp_path, "mine", status="done")


def test_all_scales_of_a_problem_known_by_its_runs_alone_are_sweeps(tmp_path):
    for scale in ("small", "large"):
        record(tmp_path, scale=scale)
    assert {sweep.title for sweep in select_sweeps(tmp_path, "mine")} == {"mine, small", "mine, large"}
    assert [sweep.title for sweep in select_sweeps(tmp_path, "mine", ["large"])] == ["mine, large"]
    assert len(select_runs(tmp_path, "mine")) == 2


def test_a_declared_problem_is_selected_at_its_first_scale(tmp_path):
    record(tmp_path, problem="conditioning", scale="demo")
    for scale in ("demo", "laptop"):
        record(tmp_path, problem="lipschitz", scale=scale)
    assert {sweep.records[0].spec.scale for sweep in select_sweeps(tmp_path, "lipschitz")} == {"demo"}
    assert len(select_sweeps(tmp_path, "lipschitz", ["demo", "laptop"])) == 2
    with pytest.raises(UserError, match="no run of lipschitz at scale paper is stored"):
        select_sweeps(tmp_path, "lipschitz", ["demo", "paper"])


def test_several_problems_and_scales_are_reported_on_one_index(tmp_path, capsys):
    for scale in ("demo", "laptop"):
        record(tmp_path, problem="lipschitz", scale=scale)
        record(tmp_path, problem="weights", scale=scale)
    assert main(["report", "lipschitz", "weights", "--scale", "demo,laptop", "--folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("report: ") for line in lines) == 4
    assert lines[-1] == f"index: {tmp_path / 'report' / 'index.html'}"


NAMES = (
    *(
        "walk",
        "Walk",
        "WALK",
        "a/b",
        "a_b",
        "a b",
        "a:b",
        "mine.py:walk",
        "mine.py",
        "..",
        "../../outside",
        "",
        "-walk",
    ),
    *("fläche", "fla\u0308che", "λ", "漢字" * 100, "x" * 300, "x" * 301, "[bold]", "walk-default", "line\nbreak"),
)


def test_every_name_in_the_store_has_its_own_report(tmp_path, capsys):
    for name in NAMES:
        record(tmp_path, problem=name)
    assert main(["report", "--folder", str(tmp_path), "--", *NAMES]) == 0
    pages = sorted((tmp_path / "report").glob("*/report.html"))
    assert len({str(page).casefold() for page in pages}) == len(NAMES)
    titles = {re.search("<title>(.*?), default</title>", page.read_text("utf-8"), re.DOTALL)[1] for page in pages}
    assert titles == set(NAMES)


def test_a_name_and_a_scale_with_dashes_are_not_another_problem(tmp_path):
    record(tmp_path, problem="a-b", scale="c")
    record(tmp_path, problem="a", scale="b-c")
    names = {sweep.folder_name for problem in ("a-b", "a") for sweep in select_sweeps(tmp_path, problem)}
    assert len(names) == 2


def test_a_reference_whose_problem_is_not_stored_is_imported(tmp_path):
    record(tmp_path)
    with pytest.raises(UserError, match=r"there is no file .*other.py"):
        select_runs(tmp_path, f"{tmp_path / 'other.py'}:mine")
    with pytest.raises(UserError, match="did you mean mine"):
        select_runs(tmp_path, "mime")


def test_a_sweep_with_chosen_settings_is_not_the_default_one(tmp_path):
    record(tmp_path, rate=0.1)
    (default,) = select_sweeps(tmp_path, "mine")
    record(tmp_path, rate=0.3)
    (chosen,) = select_sweeps(tmp_path, "mine", settings={"rate": "0.3"})
    assert (default.title, chosen.title) == ("mine, default", "mine, default, rate = 0.3")
    assert default.folder_name != chosen.folder_name


def test_a_value_that_no_run_has_is_named(tmp_path):
    for rate in (0.1, 0.3):
        record(tmp_path, rate=rate)
    assert len(select_sweeps(tmp_path, "mine", settings={"rate": "0.1,0.3"})[0].records) == 2
    for values, missing in (("0.1,0.33", "0.33"), ("0.1,0.2,x", "0.1,0.2,x"), ([0.2, 0.1, 0.4], "0.2 and 0.4")):
        with pytest.raises(UserError, match=f"no run of mine with rate = {missing} is stored"):
            select_sweeps(tmp_path, "mine", settings={"rate": values})


def test_main_alone_without_a_setting_is_compared_with_the_runs_that_have_it(tmp_path):
    with lab.Store(tmp_path) as store:
        for method, settings in ((gs.mixed(lam=0.0), {}), (gs.gradvac(beta=0.5), {"beta": 0.5})):
            with store.run(problem="mine", method=method, settings=settings) as run:
                run.log(step=0, main_train=1.0, aux_train=1.0)
        with store.run(problem="mine", scale="small", method=gs.mixed(lam=0.0)) as run:
            run.log(step=0, main_train=1.0, aux_train=1.0)
    (sweep,) = select_sweeps(tmp_path, "mine", settings={"beta": "0.5"})
    assert sorted(record.spec.method for record in sweep.records) == ["gradvac", "mixed"]
    assert sweep.title == "mine, default, beta = 0.5"
    assert main(["recommend", "mine", "--set", "beta=0.5", "--folder", str(tmp_path)]) == 0
    with pytest.raises(UserError, match=r"no run of mine with beta = 0\.7 is stored"):
        select_sweeps(tmp_path, "mine", settings={"beta": "0.7"})
