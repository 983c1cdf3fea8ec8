"""Problems and methods of users: from Python, from files and modules; killed and resumed."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError

pytestmark = pytest.mark.usefixtures("no_figures")

WALK = """
    import json, os, signal
    from dataclasses import dataclass
    from pathlib import Path

    import gradsurgery as gs
    from gradsurgery import lab
    from neighbour import START

    @lab.problem(main="distance to 0", aux="distance to 1", settings={"steps": 6, "rate": 0.5}, lams="0.1:1:2log")
    def walk(run):
        '''A walk on the line.'''
        x, first = START + run.seed, 0
        saved = run.folder / "state.json"
        if saved.exists():
            x, first = json.loads(saved.read_text())
        for step in range(first, run.settings["steps"]):
            direction = gs.Reference(gs.mixed(lam=run.lam or 0.0))([x], [x - 1])[0]
            x -= run.settings["rate"] * float(direction)
            saved.write_text(json.dumps([x, step + 1]))
            yield {"step": step, "main_train": abs(x), "aux_train": abs(x - 1)}
            if Path("die").exists() and step == 2:
                os.kill(os.getpid(), signal.SIGKILL)

    @dataclass(frozen=True)
    class damped(gs.Method):
        '''Half of mixed.'''
        lam: float = 1.0

        def direction(self, step):
            return 0.5 * step.main + 0.5 * self.lam * step.aux[0]

    number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "walking.py").write_text(dedent(WALK))
    (tmp_path / "neighbour.py").write_text("START = 2.0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("walking", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def stored_metrics(folder="runs"):
    with lab.Store(folder) as store:
        records = store.select()
    return {(record.spec.method, record.spec.lam, record.spec.seed): record.metrics for record in records}


@pytest.mark.parametrize(
    "reference",
    [
        "walking.py:walk",
        pytest.param("./walking.py:walk", marks=pytest.mark.slow),
        pytest.param("walking:walk", marks=pytest.mark.slow),
    ],
)
def test_a_problem_in_a_file_or_module_is_swept_by_workers_and_reported(folder, reference, capsys):
    assert main(["sweep", reference, "--set", "steps=3", "--seeds", "0,1"]) == 0
    page = capsys.readouterr().out.splitlines()[-1].removeprefix("report: ")
    assert Path(page).is_file()
    rows = stored_metrics()
    assert len(rows) == 2 * 2 * 2 + 2  # two methods, two λ, two seeds; and main alone
    assert all([row["step"] for row in metrics] == [0, 1, 2] for metrics in rows.values())
    assert not any(folder.glob("runs/checkpoints/*"))


@pytest.mark.slow
def test_report_recommend_and_export_take_any_stored_problem(folder, capsys):
    assert main(["sweep", "walking.py:walk"]) == 0
    for command in (["report", "walk"], ["recommend", "walk", "--allow", "50%"], ["export", "walk", "runs.csv"]):
        capsys.readouterr()
        assert main(command) == 0, capsys.readouterr().err
    assert main(["recommend", "walk", "--allow", "1e3"]) == 0
    assert "If main may be 1000 worse than main alone (training losses):\n  " in capsys.readouterr().out
    assert main(["report", "wlk"]) == 2
    assert "there is no problem 'wlk': did you mean walk?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_run_continues_from_what_it_saved(folder, capsys):
    command = ["sweep", "walking.py:walk", "--methods", "mixed", "--lams", "1", "--workers", "1"]
    assert main([*command, "--folder", "undisturbed"]) == 0
    Path("die").touch()
    assert main(command) == 1
    assert "its process was killed by SIGKILL" in capsys.readouterr().err
    assert any(folder.glob("runs/checkpoints/*/state.json"))
    Path("die").unlink()
    assert main(command) == 0
    assert stored_metrics() == stored_metrics("undisturbed")


def test_a_user_method_joins_a_sweep(folder, capsys):
    assert main(["sweep", "walking.py:walk", "--methods", "mixed,walking.py:damped", "--lams", "1"]) == 0
    assert {method for method, *_ in stored_metrics()} == {"mixed", "damped"}
    assert "damped" in capsys.readouterr().out


@pytest.mark.parametrize(("reference", "message"), [
    ("missing.py:walk", "there is no file missing.py"),
    ("walking.py:wlk", "there is no object 'wlk' in walking.py: did you mean walk?"),
    ("walking.py:number", "walking.py:number must be a problem; got 3"),
    ("neighbour.py:walk", "neighbour.py:walk must be a problem, but neighbour.py has none"),
    ("walking.py", "a problem must be named as file.py:name or package.module:name; got 'walking.py'"),
    ("no.such.module:walk", "there is no module no.such.module"),
    ("broken.py:walk", "importing broken.py failed with ZeroDivisionError"),
])  # fmt: skip
def test_a_wrong_reference_is_one_sentence(folder, reference, message, capsys):
    Path("broken.py").write_text("1 / 0\n")
    assert main(["sweep", reference]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("runs").exists()


def test_closures_are_swept_from_python(tmp_path):
    offset = 3.0

    @lab.problem(main="m", aux="a", settings={"steps": 2, "rate": 0.5, "name": "x", "flag": False}, lams=[0.5, 1.0])
    def closed(run):
        assert (run.settings["flag"], run.settings["rate"], run.rho) == (True, 1.0, None)
        for step in range(run.settings["steps"]):
            yield {"step": step, "main_train": offset + run.lam, "aux_train": 1 / (1 + run.lam)}

    records = lab.sweep(
        closed, folder=tmp_path / "runs", methods=["mixed"], settings={"flag": True, "rate": 1}, workers=2, quiet=True
    )
    assert sorted(record.final["main_train"] for record in records) == [3.0, 3.5, 4.0]  # main alone among them
    page = lab.report(records, tmp_path / "report")
    assert page.name == "report.html"
    assert lab.recommend(records, allow=0.5)[0].lam == 1.0


@lab.problem(main="m", aux="a", lams=[0, 1])
def plain(run):
    yield {"step": 0, "main_train": 1.0 + run.lam, "aux_train": 1 / (1 + run.lam)}


def test_whole_numbers_and_floats_name_the_same_runs(tmp_path):
    def keys(**grid):
        records = lab.sweep(plain, folder=tmp_path, methods=["mixed", "bloop"], workers=0, quiet=True, **grid)
        return [record.spec.key for record in records]

    assert keys() == keys(lams=[0, 1]) == keys(lams=np.array([0.0, 1.0]), rhos=[0.01]) == keys(lams="0,1", seeds=[0.0])
    assert len(keys()) == 4  # main alone is λ = 0 of mixed, and is trained once
    assert keys(rhos=[1], seeds=np.arange(2)) == keys(rhos=[1.0], seeds=[0, 1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seeds": [0.5]}, "seeds must be whole numbers from 0 to 2147483647; got 0.5"),
        ({"seeds": [0, -1]}, "seeds must be whole numbers from 0 to 2147483647; got 0, -1"),
        ({"workers": -1}, "the number of workers must be a whole number from 0; got -1"),
        ({"cores_per_run": 0}, "the number of cores per run must be a whole number from 1; got 0"),
        ({"ray": True, "gpus_per_run": -1}, "the number of GPUs per run must be a whole number from 0; got -1"),
        ({"settings": {"epochs": 3}}, "there is no setting 'epochs' of plain: it has none"),
    ],
)
def test_a_mistake_in_a_sweep_is_one_sentence(tmp_path, arguments, sentence):
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        lab.sweep(plain, folder=tmp_path, quiet=True, **arguments)


@dataclass(frozen=True)
class Steps:
    count: int = 2
    size: float = 0.5


@pytest.mark.parametrize("workers", [0, 1])
def test_a_training_function_gets_its_dataclass_and_the_data_folder(tmp_path, workers):
    @lab.problem(main="m", aux="a", settings=Steps(), lams=[1.0])
    def typed(run):
        for step in range(run.settings.count):
            yield {"step": step, "main_train": run.settings.size, "aux_train": run.data_dir == tmp_path}

    records = lab.sweep(
        typed,
        folder=tmp_path / "runs",
        methods=["mixed"],
        settings={"count": 3},
        data_dir=tmp_path,
        workers=workers,
        quiet=True,
    )
    assert [record.final for record in records] == [{"step": 2, "main_train": 0.5, "aux_train": 1.0}] * 2
    assert records[0].spec.settings == {"count": 3, "size": 0.5}


def test_a_problem_without_jax_does_not_start_jax(tmp_path):
    """On an accelerator JAX would reserve most of the memory."""
    script = f"""
        from gradsurgery import lab

        @lab.problem(main="m", aux="a", lams=[1.0])
        def plain(run):
            yield {{"step": 0, "main_train": 1.0, "aux_train": 1.0}}

        (record, *_) = lab.sweep(plain, folder={str(tmp_path)!r}, workers=0, quiet=True)
        from jax._src.xla_bridge import backends_are_initialized
        assert not backends_are_initialized()
        assert "torch" in record.info and "device" not in record.info, record.info
    """
    subprocess.run([sys.executable, "-c", dedent(script)], check=True)


def test_a_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        dedent("""
        import json
        from gradsurgery import lab

        @lab.problem(main="m", aux="a", lams=[1.0])
        def scripted(run):
            yield {"step": 0, "main_train": 1.0 + run.lam, "aux_train": 1.0}

        records = lab.sweep(scripted, folder="runs", methods=["mixed"], quiet=True)
        print(json.dumps(sorted(record.final["main_train"] for record in records)))
        """)
    )
    result = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert json.loads(result.stdout) == [1.0, 2.0]


def test_mistakes_in_a_problem_are_refused_when_it_is_declared():
    with pytest.raises(TypeError, match=r"must be a generator, with a yield for each row; got "):
        lab.problem(main="m", aux="a")(lambda run: None)
    with pytest.raises(TypeError, match=r"the setting layers must be a number, text, True or False; got \[1, 2\]"):
        lab.problem(main="m", aux="a", settings={"layers": [1, 2]})
    with pytest.raises(UserError, match=r"problem must be made by @lab\.problem, or be a name; got <built-in"):
        lab.sweep(print)


def test_a_problem_with_the_name_of_an_installed_one_is_refused():
    @lab.problem(main="m", aux="a")
    def weights(run):
        yield {}

    with pytest.raises(UserError, match="weights is an installed problem: give yours another name"):
        lab.sweep(weights)


def test_a_function_that_yields_nothing_fails_with_the_reason(tmp_path):
    @lab.problem(main="m", aux="a", lams=[1.0])
    def silent(run):
        yield from ()

    with pytest.raises(UserError, match="training silent ended without a row: yield at least one"):
        lab.sweep(silent, folder=tmp_path, methods=["mixed"], workers=0, quiet=True)


def test_a_run_that_was_killed_after_its_last_row_is_done(tmp_path):
    killed = True

    @lab.problem(main="m", aux="a", settings={"steps": 3}, lams=[1.0])
    def resumable(run):
        saved = run.folder / "state"
        for step in range(int(saved.read_text()) if saved.exists() else 0, run.settings["steps"]):
            yield {"step": step, "main_train": 1.0 / (1 + step), "aux_train": 1.0}
            saved.write_text(str(step + 1))
        if killed:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.sweep(resumable, folder=tmp_path, methods=["mixed"], workers=0, quiet=True)
    killed = False
    records = lab.sweep(resumable, folder=tmp_path, methods=["mixed"], workers=0, quiet=True)
    assert [(record.status, len(record.metrics)) for record in records] == [("done", 3), ("done", 3)]


def test_rows_of_a_failed_attempt_do_not_outlive_it(tmp_path):
    steps, broken = range(9), True

    @lab.problem(main="m", aux="a", lams=[1.0])
    def repaired(run):
        for step in steps:
            yield {"step": step, "main_train": float(broken), "aux_train": 1.0} | ({"old": 1.0} if broken else {})
        if broken:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        lab.sweep(repaired, folder=tmp_path, methods=["mixed"], workers=0, quiet=True)
    steps, broken = range(0, 6, 2), False
    for record in lab.sweep(repaired, folder=tmp_path, methods=["mixed"], workers=0, quiet=True):
        assert [(row["step"], row["main_train"]) for row in record.metrics] == [(0, 0.0), (2, 0.0), (4, 0.0)]
        assert not any("old" in row for row in record.metrics)


def test_a_function_that_exits_has_failed(tmp_path):
    @lab.problem(main="m", aux="a", lams=[1.0])
    def leaves(run):
        yield {"step": 0, "main_train": 1.0, "aux_train": 1.0}
        sys.exit(0)

    records = lab.sweep(leaves, folder=tmp_path, methods=["mixed"], workers=1, quiet=True)
    assert [(record.status, record.info["reason"]) for record in records] == [("failed", "SystemExit: 0")] * 2
    with pytest.raises(RuntimeError, match=r"the training function called sys\.exit\(0\)"):
        lab.sweep(leaves, folder=tmp_path, methods=["mixed"], workers=0, quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_rows_may_hold_tensors(tmp_path, workers):
    torch = pytest.importorskip("torch")

    @lab.problem(main="m", aux="a", lams=[1.0])
    def tensors(run):
        loss = torch.tensor(1.5)
        yield {"step": torch.tensor(0), "main_train": loss, "aux_train": loss.numpy()}

    (*_, record) = lab.sweep(tensors, folder=tmp_path, methods=["mixed"], workers=workers, quiet=True)
    assert record.metrics == ({"step": 0, "main_train": 1.5, "aux_train": 1.5},)


@pytest.mark.parametrize(
    "row", [3.0, {"step": 0, "main_train": "low"}, {"step": 0, "main_train": None}, {"step": 0, "main_train": "1"}]
)
def test_a_row_that_holds_no_numbers_is_refused(tmp_path, row):
    @lab.problem(main="m", aux="a", lams=[1.0])
    def wrong(run):
        yield row

    with pytest.raises(TypeError, match="a row must be a dict of numbers by name; got"):
        lab.sweep(wrong, folder=tmp_path, methods=["mixed"], workers=0, quiet=True)


def test_misnamed_losses_are_reported_at_the_first_row(tmp_path):
    @lab.problem(main="m", aux="a", lams=[1.0])
    def misnamed(run):
        yield {"step": 0, "main_loss": 1.0, "aux_loss": 1.0}
        raise AssertionError

    sentence = "must have main_train and aux_train, or main_test and aux_test; got step, main_loss, aux_loss"
    for workers in (0, 1):
        with pytest.raises(UserError, match=f"^the first row of misnamed {sentence}$"):
            lab.sweep(misnamed, folder=tmp_path, workers=workers, quiet=True)


def test_a_device_and_an_error_that_are_no_plain_text_are_recorded(tmp_path):
    @lab.problem(main="m", aux="a", methods=["mixed"], lams=[1.0])
    def odd(run):
        run.device = Path("cpu")  # as a torch.device is, not text
        yield {"step": 0, "main_train": 1.0, "aux_train": 1.0}
        if run.lam:
            raise ValueError("caf\udce9")  # the name of a file that is not UTF-8

    with pytest.raises(ValueError, match="caf"):
        lab.sweep(odd, folder=tmp_path, workers=0, quiet=True)
    with lab.Store(tmp_path) as store:
        by_status = {record.status: record.info for record in store.select(status=None)}
    assert by_status["done"]["device"] == "cpu"
    assert by_status["failed"]["reason"] == "ValueError: caf\\udce9"


def test_a_training_function_without_a_name_must_get_one():
    def walk(run, size):
        yield {"step": 0, "main_train": size}

    with pytest.raises(TypeError, match="a training function without a name must get one, name="):
        lab.problem(main="m", aux="a")(partial(walk, size=1.0))
    assert lab.problem(main="m", aux="a", name="walk")(partial(walk, size=1.0)).name == "walk"
