"""Runs of edited code are not mixed with older ones unawares."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from textwrap import dedent

import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.find import find_problem, load
from gradsurgery.lab.sweep.fingerprint import fingerprint

pytestmark = pytest.mark.usefixtures("no_figures")

WALK = """
    from gradsurgery import lab
    import package.constants

    FACTOR = 1.0

    @lab.problem(main="m", aux="a", lams=[1.0])
    def walk(run):
        '''A walk.'''
        from neighbour import START  # read when it runs
        saved = run.folder / "state"
        resumed = saved.exists()
        saved.touch()
        yield {"step": 0, "main_train": FACTOR * START, "aux_train": run.lam, "resumed": float(resumed)}
        if FACTOR == 13:
            raise RuntimeError

    @lab.problem(main="m", aux="a")
    def other(run):
        yield {}

    if __name__ == "__main__":
        lab.sweep(walk, lams=[2.0])
"""
NEUTRAL = [
    ("walk.py", "FACTOR = 1.0", "FACTOR = 1.0  # a comment\n"),
    ("walk.py", "'''A walk.'''", "'''A walk on the line.'''"),
    ("walk.py", "lams=[1.0])", "lams=[1.0, 3.0])"),
    ("walk.py", "yield {}", "yield 3"),
    ("walk.py", "lams=[2.0]", "lams=[5.0]"),
    ("unrelated.py", "1", "2"),
]
EDITS = [
    ("walk.py", "FACTOR = 1.0", "FACTOR = 2.0"),
    ("walk.py", '"aux_train": run.lam', '"aux_train": -run.lam'),
    ("neighbour.py", "START = 2.0", "START = 3.0"),
    ("package/constants.py", "1", "2"),
    ("package/__init__.py", "1", "2"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    for name, text in {
        "walk.py": dedent(WALK),
        "neighbour.py": "START = 2.0\n",
        "unrelated.py": "VALUE = 1\n",
        "package/__init__.py": "VALUE = 1\n",
        "package/constants.py": "VALUE = 1\n",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within a second may leave the size as it is
    for name in ("made", "beside"):
        sys.modules.pop(name, None)
    return tmp_path


def edit(file, old, new):
    with open(file) as stream:
        text = stream.read()
    assert old in text
    with open(file, "w") as stream:
        stream.write(text.replace(old, new))


def sweep(*options, problem="walk.py:walk"):
    for name in ("walk", "other", "neighbour", "package", "package.constants"):
        sys.modules.pop(name, None)
    return main(["sweep", problem, "--methods", "mixed", "--lams", "1", "--workers", "0", *options])


def stored(name="main_train"):
    with lab.Store("runs") as store:
        return {record.final[name] for record in store.select("walk")}


@pytest.mark.parametrize(("file", "old", "new"), NEUTRAL)
def test_what_cannot_change_a_run_is_no_edit(folder, file, old, new):
    def current():
        sys.modules.pop("walk", None)
        return fingerprint(find_problem("walk.py:walk").train)

    before = current()
    edit(file, old, new)
    assert current() == before


@pytest.mark.parametrize(("file", "old", "new"), EDITS)
def test_edited_code_changes_the_fingerprint(folder, file, old, new):
    before = fingerprint(find_problem("walk.py:walk").train)
    edit(file, old, new)
    sys.modules.pop("walk", None)
    assert fingerprint(find_problem("walk.py:walk").train) != before


def test_edited_code_is_refused_trained_again_or_kept(folder, capsys):
    assert sweep() == 0
    edit("walk.py", "FACTOR = 1.0", "FACTOR = 2.0")
    assert sweep() == 2
    error = capsys.readouterr().err
    assert (
        "2 stored runs of walk were trained by other code (walk.py has changed since): --again drops older runs"
        in error
    )
    assert error.count("\n") == 1
    assert sweep("--lams", "3") == 2, "they would be in one report"
    assert stored() == {2.0}
    assert sweep("--keep") == 0
    assert stored() == {2.0}
    assert sweep("--again") == 0
    assert stored() == {4.0}
    assert sweep() == 0
    assert sweep("--again", "--keep") == 2


def test_another_file_with_the_same_name_of_a_problem_is_another_problem(folder, capsys):
    assert sweep(problem="./walk.py:walk") == 0
    assert sweep(problem=f"{folder}/walk.py:walk") == 0
    (folder / "other.py").write_text((folder / "walk.py").read_text().replace("FACTOR = 1.0", "FACTOR = 7.0"))
    capsys.readouterr()
    assert sweep(problem="other.py:walk") == 2
    assert "(they come from walk.py, and this is other.py)" in capsys.readouterr().err


def test_a_failed_run_starts_again_from_nothing_after_an_edit(folder):
    edit("walk.py", "FACTOR = 1.0", "FACTOR = 13")
    with pytest.raises(RuntimeError):
        sweep()
    edit("walk.py", "FACTOR = 13", "FACTOR = 1.0")
    assert sweep() == 0
    assert stored("resumed") == {0.0}


def test_runs_without_a_fingerprint_are_kept(folder):
    assert sweep() == 0
    with sqlite3.connect("runs/store.sqlite") as db:
        db.execute("UPDATE runs SET info = '{}'")
    db.close()
    edit("walk.py", "FACTOR = 1.0", "FACTOR = 2.0")
    assert sweep() == 0
    assert stored() == {2.0}


def test_the_commit_is_that_of_the_users_repository(folder):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "walk.py"], ["commit", "-qm", "walk"]):
        subprocess.run(["git", *identity, *command], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert sweep() == 0
    with lab.Store("runs") as store:
        assert {(record.info["commit"], record.info["file"]) for record in store.select()} == {(head, "walk.py")}


def test_installed_problems_have_no_fingerprint():
    assert fingerprint(find_problem("lipschitz").train) == ""


NOTEBOOK = """
    RATE = 0.1
    class Model:
        def forward(self):
            return 1.0
    def helper():
        return RATE in {"a", "b", RATE}
    def train(run):
        model = Model()
        yield {"step": 0, "main_train": model.forward() + helper(), "aux_train": 1.0}
"""


def notebook_function(source, cell):
    cells = {"__name__": "__main__"}
    exec(compile(dedent(source), f"/tmp/kernel-{cell}/cell.py", "exec"), cells)
    return cells["train"]


def test_a_notebook_is_known_by_what_the_function_uses():
    before = fingerprint(notebook_function(NOTEBOOK, 1))
    assert before == fingerprint(notebook_function("\n\n" + NOTEBOOK, 2))
    for old, new in (("0.1", "0.2"), ("return 1.0", "return 2.0"), ('"b"', '"c"'), ('"step": 0', '"step": 1')):
        assert fingerprint(notebook_function(NOTEBOOK.replace(old, new), 1)) != before


HEADER = """
    import functools
    from gradsurgery import lab
    problem = lab.problem(main="m", aux="a", name="walk")
    def sweep(value, *arguments):
        return value
    def scaled(factor):
        def decorate(function):
            def inner(run):
                yield factor
                yield from function(run)
            return inner
        return decorate
"""
FILE_EDITS = {
    "another problem": (
        """
        @lab.problem(main="m", aux="a")
        def base(run): yield 1
        @lab.problem(main="m", aux="a")
        def walk(run): yield from base(run)
        """,
        "yield 1",
        "yield 2",
    ),
    "decorator": (
        """
        @lab.problem(main="m", aux="a")
        @scaled(2)
        def walk(run): yield 1
        """,
        "scaled(2)",
        "scaled(3)",
    ),
    "below a decorator": (
        """
        @lab.problem(main="m", aux="a")
        @scaled(2)
        def walk(run): yield 1
        """,
        "yield 1",
        "yield 2",
    ),
    "method": (
        """
        class T:
            def __init__(self, rate): self.rate = rate
            def train(self, run): yield 1
        walk = problem(T(1).train)
        """,
        "yield 1",
        "yield 2",
    ),
    "object of a method": (
        """
        class T:
            def __init__(self, rate): self.rate = rate
            def train(self, run): yield self.rate
        walk = sweep(problem(T(1).train))
        """,
        "T(1)",
        "T(2)",
    ),
    "another sweep": (
        """
        grid = functools.partial(print).sweep() if False else 0
        RATE = 1
        @lab.problem(main="m", aux="a")
        def walk(run): yield RATE
        """,
        "RATE = 1",
        "RATE = 2",
    ),
    "partial": (
        """
        def train(width, run): yield width
        walk = sweep(problem(functools.partial(train, 2)))
        """,
        "train, 2",
        "train, 3",
    ),
    "closure": (
        """
        def make(width):
            def train(run): yield width
            return train
        walk = sweep(problem(make(2)))
        """,
        "make(2)",
        "make(4)",
    ),
    "default": (
        """
        def make(width):
            def train(run, width=width, *, depth=width): yield width
            return train
        walk = sweep(problem(make(2)))
        """,
        "make(2)",
        "make(4)",
    ),
    "class of a factory": (
        """
        def make(width):
            class damped:
                factor = width
                def direction(self, step): return self.factor
            return damped
        walk = sweep(make(2))
        """,
        "make(2)",
        "make(4)",
    ),
    "closure of a method": (
        """
        def make(width):
            class damped:
                def direction(self, step): return width
            return damped
        walk = sweep(make(2))
        """,
        "make(2)",
        "make(4)",
    ),
    "problem in a main block": (
        """
        if __name__ != "__main__":
            RATE = 1
            @lab.problem(main="m", aux="a")
            def walk(run): yield RATE
        """,
        "yield RATE",
        "yield -RATE",
    ),
    "constant in a main block": (
        """
        if __name__ != "__main__":
            RATE = 1
        @lab.problem(main="m", aux="a")
        def walk(run): yield RATE
        """,
        "RATE = 1",
        "RATE = 2",
    ),
    "problem in a loop that sweeps": (
        """
        for width in (2,):
            @lab.problem(main="m", aux="a")
            def walk(run): yield 1
            sweep(walk)
        """,
        "yield 1",
        "yield 2",
    ),
}


def file_fingerprint(folder, text, file="made.py"):
    (folder / file).write_text(dedent(HEADER) + dedent(text))
    sys.modules.pop(file.removesuffix(".py").replace(".", "_"), None)
    walk = load(f"{file}:walk", object, "an object")
    return fingerprint(getattr(walk, "train", walk))


@pytest.mark.parametrize(("text", "old", "new"), FILE_EDITS.values(), ids=FILE_EDITS)
def test_an_edit_of_a_file_changes_the_fingerprint(folder, text, old, new):
    assert old in text
    assert file_fingerprint(folder, text) != file_fingerprint(folder, text.replace(old, new))


def test_edits_beside_a_file_change_the_fingerprint(folder):
    base = """
        from gradsurgery import lab
        @lab.problem(main="m", aux="a")
        def base(run): yield 1
    """
    walk = """
        from beside import base
        @lab.problem(main="m", aux="a")
        def walk(run): yield from base(run)
    """
    (folder / "beside.py").write_text(dedent(base))
    before = [file_fingerprint(folder, walk, file) for file in ("made.py", "p_lr0.1.py")]
    (folder / "beside.py").write_text(dedent(base).replace("yield 1", "yield 2"))
    after = [file_fingerprint(folder, walk, file) for file in ("made.py", "p_lr0.1.py")]
    assert all(old != new for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("old", "new"),
    [("yield 0", "yield 3"), ("yield 1", "yield 1  # one"), ("A walk.", "A run."), ("rate = 5", "rate = 6")],
)
def test_what_a_file_does_not_use_is_no_edit(folder, old, new):
    text = """
        @lab.problem(main="m", aux="a")
        def other(run): yield 0
        @lab.problem(main="m", aux="a")
        def walk(run):
            "A walk."
            rate = other = run
            yield 1
        if __name__ == "__main__":
            rate = 5
            lab.sweep(walk)
    """
    assert old in text
    assert file_fingerprint(folder, text) == file_fingerprint(folder, text.replace(old, new))


RICH_NOTEBOOK = """
    import functools
    from dataclasses import dataclass
    from made import outside
    SIZES = {"width": [1, 2], "names": {"x", "y", ("z", 3)}}
    class Base:
        def forward(self): return "base"
    class Model(Base):
        rate = 0.1
        @staticmethod
        def one(): return "static"
        @classmethod
        def two(cls): return "class"
        @property
        def three(self): return "property"
    class Config:
        def __init__(self): self.depth = 7
    @dataclass(frozen=True, slots=True)
    class Frozen:
        depth: int
    CONFIG = Config(), Frozen(50)
    @functools.cache
    def cached(): return "cached"
    def scale(factor, x): return factor * x
    double = functools.partial(scale, 20)
    def default(x=30, *, y=40): return x + y
    def train(run):
        yield SIZES, Model, CONFIG, cached, double, default, outside
"""
RICH_EDITS = [
    "[1, 2]",
    '("z", 3)',
    '"base"',
    "0.1",
    '"static"',
    '"class"',
    '"property"',
    "7",
    '"cached"',
    "20",
    "30",
    "40",
    "50",
]


@pytest.mark.parametrize("old", RICH_EDITS)
def test_an_edit_of_a_notebook_changes_the_fingerprint(folder, old):
    (folder / "made.py").write_text("def outside(): pass\n")
    new = {"[1, 2]": "[1, 3]", '("z", 3)': '("z", 4)'}.get(old, '"new"')
    assert RICH_NOTEBOOK.count(old) == 1
    train = notebook_function(RICH_NOTEBOOK, 1)
    before = fingerprint(train)
    assert fingerprint(train) == fingerprint(notebook_function(RICH_NOTEBOOK, 2)) == before
    assert fingerprint(notebook_function(RICH_NOTEBOOK.replace(old, new), 1)) != before


def test_an_edit_of_a_file_that_a_notebook_imports_changes_the_fingerprint(folder):
    found = []
    for value in (1, 2):
        (folder / "made.py").write_text(f"def outside(): return {value}\n")
        found.append(fingerprint(notebook_function(RICH_NOTEBOOK, 1)))
    assert found[0] != found[1]


def test_a_fingerprint_is_the_same_in_every_process(folder):
    (folder / "made.py").write_text("def outside(): pass\n")
    script = (
        "from gradsurgery.lab.sweep.fingerprint import fingerprint\n"
        f"exec(compile({dedent(RICH_NOTEBOOK)!r}, '/tmp/kernel/cell.py', 'exec'))\n"
        "print(fingerprint(train))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_a_partial_function_is_known_by_its_function():
    train = notebook_function(NOTEBOOK, 1)
    assert fingerprint(partial(train)) == fingerprint(train)
    assert len({fingerprint(partial(train, rate)) for rate in (1, 2)}) == 2


def test_a_users_method_is_part_of_the_code(folder, capsys):
    (folder / "methods.py").write_text(
        dedent("""
        from dataclasses import dataclass
        import gradsurgery as gs

        @dataclass(frozen=True)
        class damped(gs.Method):
            lam: float = 1.0

            def direction(self, step):
                return 0.5 * step.main
        """)
    )
    assert sweep("--methods", "methods.py:damped") == 0
    edit("methods.py", "0.5", "0.4")
    sys.modules.pop("methods", None)
    assert sweep("--methods", "methods.py:damped") == 2
    assert "1 stored run of walk was trained by other code" in capsys.readouterr().err


def test_python_names_both_arguments():
    with pytest.raises(UserError, match="give --again or --keep"):
        lab.sweep("conditioning", again=True, keep=True)


def test_methods_that_a_sweep_leaves_out_are_dropped_or_refused_too(folder, capsys):
    """A report covers them: bloop by the older code would win over mixed by the new one."""

    def sweep(*options):
        return main(["sweep", "walk.py:walk", "--workers", "0", *options])

    assert sweep("--methods", "mixed,bloop") == 0
    (folder / "walk.py").write_text((folder / "walk.py").read_text().replace("FACTOR = 1.0", "FACTOR = 2.0"))
    sys.modules.pop("walk")
    assert sweep("--methods", "mixed") == 2
    assert sweep("--methods", "mixed", "--again") == 0
    with lab.Store("runs") as store:
        assert {record.spec.method for record in store.select("walk")} == {"mixed"}


def test_two_methods_of_one_name_are_refused(folder):
    def make(factor):
        @dataclass(frozen=True)
        class damped(gs.Method):
            lam: float = factor

        return damped

    with pytest.raises(UserError, match="must have different names; got two that are called damped"):
        lab.sweep(find_problem("walk.py:walk"), methods=[make(1.0), make(2.0)], workers=0)
