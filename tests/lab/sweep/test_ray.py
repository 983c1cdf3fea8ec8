"""Sweeps on Ray: on a cluster of two nodes on this machine, one of which is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import specs
from gradsurgery.lab.local_modules import collect_sources, install_sources
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweep.attempt import Leases
from gradsurgery.lab.sweep.events import Done
from gradsurgery.lab.sweep.messages import Ended, Row, Started
from gradsurgery.lab.sweep.ray.folder_copy import list_files, pack, unpack
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from gradsurgery.lab.sweep.worker import Trainer
from tests.lab.sweep.recorder import Recorder

ray = pytest.importorskip("ray")

from gradsurgery.lab.sweep.ray.driver import Driver  # noqa: E402  (needs ray)

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}

WALK = """
    import json, os, time
    from pathlib import Path

    import gradsurgery as gs
    from gradsurgery import lab
    import neighbour

    SETTINGS = {"steps": 6, "sleep": 0.0, "saves": True, "fails": 99.0, "gate": ""}

    @lab.problem(main="distance to 0", aux="distance to 1", settings=SETTINGS, methods=["mixed"], lams=[0.1, 1.0])
    def walk(run):
        x, first = neighbour.START + run.seed, 0
        saved = run.folder / "state.json"
        if saved.exists():
            x, first = json.loads(saved.read_text())
        for step in range(first, run.settings["steps"]):
            time.sleep(run.settings["sleep"])
            while run.settings["gate"] and step >= int(Path(run.settings["gate"]).read_text()):
                time.sleep(0.02)
            if run.lam >= run.settings["fails"]:
                raise ArithmeticError(f"cannot train λ = {run.lam}")
            direction = gs.Reference(run.method)([x], [x - 1])[0]
            x -= 0.1 * float(direction)
            if run.settings["saves"]:
                saved.write_text(json.dumps([x, step + 1]))
            yield {"step": step, "main_train": abs(x), "aux_train": abs(x - 1), "first": first, "pid": os.getpid(),
                   "threads": int(os.environ.get("OMP_NUM_THREADS", 0)), "nproc": int(os.environ.get("NPROC", 0)),
                   "shipped": "gradsurgery-" in neighbour.__file__}
"""
MEASURED = ("step", "main_train", "aux_train")


@pytest.fixture(scope="module")
def cluster():
    """A cluster whose head has one CPU."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "walking.py").write_text(dedent(WALK))
    (tmp_path / "neighbour.py").write_text("START = 2.0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("walking", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path
    for name in ("walking", "neighbour"):
        sys.modules.pop(name, None)


def stored_losses(folder="runs"):
    with lab.Store(folder) as store:
        records = store.select()
    return {
        (record.spec.method, record.spec.lam): [{name: row[name] for name in MEASURED} for row in record.metrics]
        for record in records
    }


def stored_rows(folder="runs"):
    with lab.Store(folder) as store:
        return [row for record in store.select(status=None) for row in record.metrics]


class NodeKiller(Recorder):
    """Loses a node after the first row that was trained on it."""

    def __init__(self, cluster, node):
        super().__init__()
        self.cluster, self.node, self.lost = cluster, node, False
        self.advances = []

    def run_advanced(self, run, fraction, metrics):
        self.advances.append((run.key, metrics["step"], metrics["pid"]))
        if metrics["step"] >= 2 and not self.lost and not on_head(metrics["pid"], self.cluster):
            self.lost = run.key
            self.cluster.remove_node(self.node, allow_graceful=False)


def on_head(pid, cluster):
    """Whether a worker process belongs to the raylet of the head."""
    raylet = cluster.head_node.all_processes["raylet"][0].process.pid
    return f"PPid:\t{raylet}\n" in Path(f"/proc/{int(pid)}/status").read_text()


@pytest.mark.slow
def test_a_lost_node_costs_no_run_and_changes_no_number(cluster, folder):
    """With a copy of each run's folder at every row: what was saved is not trained again."""
    from gradsurgery.lab.find import find_problem as problem

    walk = problem("walking.py:walk")
    assert main(["sweep", "walking.py:walk", "--folder", "undisturbed", "--set", "steps=12", "--workers", "1"]) == 0
    runs = specs(walk, "default", settings={"steps": "12", "sleep": "0.2"}, main_alone=True)
    node = cluster.add_node(**{**NODE, "include_dashboard": None})
    listener = NodeKiller(cluster, node)
    records = train_grid(
        walk,
        runs,
        folder=folder / "runs",
        listener=listener,
        resources=Resources(ray=cluster.address),
        checkpoint_every=0.0,
    )
    assert listener.lost, "no run was trained on the second node"
    assert sorted(listener.trained) == sorted(run.key for run in runs)
    assert stored_losses() == stored_losses("undisturbed")
    (moved,) = [record for record in records if record.spec.key == listener.lost]
    assert moved.final["first"], "it continues from what it saved"
    assert len({pid for key, _, pid in listener.advances if key == listener.lost}) == 2
    assert {record.info["cores"] for record in records} == {1}
    assert not any(folder.glob("runs/checkpoints/*"))


@pytest.mark.slow
def test_when_the_only_node_that_fits_is_lost_the_sweep_ends_with_one_sentence(cluster, folder):
    from gradsurgery.lab.find import find_problem as problem

    walk = problem("walking.py:walk")
    runs = specs(walk, "default", lams=[1.0], settings={"steps": "100", "sleep": "0.1"})
    node = cluster.add_node(**{**NODE, "include_dashboard": None, "num_cpus": 2})
    with pytest.raises(UserError, match=r"needs a node with 2 CPUs, .* \(the largest has 1 CPU\)"):
        train_grid(
            walk,
            runs,
            folder=folder / "runs",
            listener=NodeKiller(cluster, node),
            resources=Resources(cores_per_run=2, ray=cluster.address),
        )
    with Store("runs") as store:
        assert [record.status for record in store.select(status=None)] == ["running"]


@pytest.mark.slow
def test_a_sweep_on_a_cluster_is_reported_like_any_other_and_a_task_that_raises_fails_its_run_alone(
    cluster, folder, capsys
):
    command = ["sweep", "walking.py:walk", "--ray", cluster.address, "--set", "fails=1.0"]
    assert main(command) == 1
    captured = capsys.readouterr()
    assert "ArithmeticError: cannot train λ = 1.0" in captured.err
    assert "report: " in captured.out
    assert len(stored_losses()) == 2
    assert all((row["threads"], row["nproc"]) == (1, 1) for row in stored_rows())
    with lab.Store("runs") as store:
        assert [record.info["reason"] for record in store.select(status="failed")] == [
            "ArithmeticError: cannot train λ = 1.0"
        ]


@pytest.mark.slow
def test_the_users_module_and_method_travel_with_the_task(cluster, folder):
    (folder / "methods.py").write_text(
        dedent("""
        from dataclasses import dataclass
        import gradsurgery as gs

        @dataclass(frozen=True)
        class damped(gs.Method):
            lam: float = 1.0

            def direction(self, step):
                return 0.5 * step.main + 0.5 * self.lam * step.aux[0]
        """)
    )
    command = ["sweep", "walking:walk", "--methods", "methods.py:damped", "--lams", "1"]
    assert main([*command, "--folder", "undisturbed"]) == 0
    assert main([*command, "--ray", cluster.address]) == 0
    assert len(stored_losses()) == 2
    # on one machine, a task could also import them from where they are
    assert all(row["shipped"] for row in stored_rows())
    assert not any(row["shipped"] for row in stored_rows("undisturbed"))
    assert stored_losses() == stored_losses("undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--cpus-per-run", "64"], "a run needs a node with 64 CPUs, but no node of the Ray cluster has as many"),
        (
            ["--gpus-per-run", "2"],
            "a run needs a node with 1 CPU and 2 GPUs, but no node of the Ray cluster has as many",
        ),
    ],
)
def test_no_node_that_fits_is_one_sentence(cluster, folder, options, sentence, capsys):
    assert main(["sweep", "walking.py:walk", "--ray", cluster.address, *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not Path("runs").exists()
    ray.shutdown()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--ray", "--workers", "2"], "workers are processes on this machine: leave them out to train on Ray or Slurm"),
        (["--gpus-per-run", "1"], "GPUs per run are for sweeps on Ray"),
        (
            ["--ray", "--process", "0/2@host:1"],
            "--process does not go with --workers, --cores-per-run, --ray or --slurm",
        ),
        (["--ray", "ray://host:10001"], "which Ray Client cannot do; got ray://host:10001"),
    ],
)
def test_options_that_exclude_each_other_are_refused(folder, options, sentence, capsys, monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **options: None)
    assert main(["sweep", "walking.py:walk", *options]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_an_address_without_a_cluster_is_one_sentence(folder, address, capsys):
    assert main(["sweep", "walking.py:walk", "--ray", address]) == 2
    error = capsys.readouterr().err
    assert f"there is no Ray cluster at {address} (" in error
    assert error.count("\n") == 1
    assert not Path("runs").exists()


def test_without_ray_the_extra_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "gradsurgery.lab.sweep.ray.driver", raising=False)
    assert main(["sweep", "walking.py:walk", "--ray"]) == 2
    message = 'gradsurgery: training on Ray needs ray: pip install "gradsurgery[ray]"\n'
    assert capsys.readouterr().err == message


def test_gpus_per_run_needs_ray_in_python_too():
    with pytest.raises(UserError, match="GPUs per run are for sweeps on Ray"):
        lab.sweep("conditioning", gpus_per_run=1)


class Stream:
    """A task that sends its messages, and whose node is lost before the stream is closed."""

    def __init__(self, *messages):
        self._messages = iter(messages)

    def __next__(self):
        for message in self._messages:
            return message
        raise ray.exceptions.NodeDiedError("lost")


def test_a_node_lost_after_the_end_of_a_run_does_not_train_it_again(folder, store, monkeypatch):
    monkeypatch.setattr(ray, "get", lambda message: message)
    monkeypatch.setattr(ray, "put", lambda shipment: None)
    problem = lab.problem(main="m", aux="a", lams=[1.0], methods=["mixed"])(lambda run: (yield {}))
    (run,) = specs(problem, "default")
    leases = Leases(store, store.path.parent, {"mixed": {}})
    driver = Driver(Trainer(problem, cores=1), leases, gpus=0)
    stream = Stream(Started({}), Row(1.0, {"step": 0, "main_train": 1.0}), Ended({}))
    driver._training[stream] = leases.take(run)
    assert [list(driver._receive(stream)) for _ in range(4)][2:] == [[Done(run, store.get(run.key).final)], []]
    assert not driver._training


@pytest.mark.slow
def test_ctrl_c_and_a_kill_of_the_driver_continue_with_the_same_numbers(cluster, folder):
    command = [sys.executable, "-m", "gradsurgery.lab.cli", "sweep", "walking.py:walk", "--ray", cluster.address]
    gate = folder / "gate"  # the step at which runs wait: they cannot end before they are killed
    command += ["--set", f"gate={gate}", "--set", "steps=20", "--checkpoint-every", "0"]
    assert main(["sweep", "walking.py:walk", "--folder", "undisturbed", "--set", "steps=20", "--workers", "1"]) == 0
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell makes tests ignore Ctrl-C
    for kill, steps in ((signal.SIGINT, 6), (signal.SIGKILL, 12)):
        known = len(stored_rows())
        gate.write_text(str(steps))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None and len(stored_rows()) < known + 5:
                time.sleep(0.1)
            os.kill(process.pid, kill)
            _, errors = process.communicate(timeout=600)
        if kill == signal.SIGINT:
            assert process.returncode == 130, errors
            assert errors.endswith("gradsurgery: stopped; the same command continues\n")
    signal.signal(signal.SIGINT, before)
    assert any(Path("runs/checkpoints").glob("*/state.json"))
    gate.write_text("20")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert stored_losses() == stored_losses("undisturbed")
    assert any(row["first"] for row in stored_rows())


def test_a_folder_survives_packing(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    assert pack(source) == b""
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "state.json").write_text(json.dumps([1, 2]))
    before = list_files(source)
    unpack(pack(source), target)
    assert (target / "deep" / "state.json").read_text() == "[1, 2]"
    assert list_files(source) == before
    (source / "other").write_bytes(b"")
    assert list_files(source) != before
    unpack(pack(source), target)
    assert sorted(path.name for path in target.iterdir()) == ["deep", "other"]
    unpack(b"", target)
    assert list(target.iterdir()) == []


def test_modules_beside_the_problem_travel_and_installed_ones_do_not(folder):
    from gradsurgery.lab.find import find_problem as problem

    sources = collect_sources([problem("walking.py:walk").train.__module__])
    assert sorted(sources) == ["neighbour.py", "walking.py"]
    assert sources["neighbour.py"] == b"START = 2.0\n"
    assert collect_sources(["gradsurgery.paper.lipschitz.train", "numpy", "json", "unknown"]) == {}


def test_installed_sources_replace_modules_of_the_same_names(folder):
    sys.path.insert(0, str(folder))
    import neighbour

    assert neighbour.START == 2.0
    install_sources({"neighbour.py": b"START = 5.0\n"})
    import neighbour

    assert neighbour.START == 5.0


def test_installed_sources_are_removed_when_the_process_exits(tmp_path):
    code = (
        "from gradsurgery.lab.local_modules import install_sources\n"
        "install_sources({'neighbour.py': b'START = 5.0'})\n"
        "import neighbour\n"
        "print(neighbour.__file__)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    imported = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert imported.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())
