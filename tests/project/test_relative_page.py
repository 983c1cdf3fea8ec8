"""docs/relative.py, which counts the useful λ for the page on relative λ."""

import runpy

import gradsurgery as gs
from gradsurgery import lab
from tests.project.snippets import ROOT


def test_a_useful_lam_is_on_the_front_with_main_near_main_alone(tmp_path, capsys):
    runs = {gs.mixed(lam=0.0): (1.0, 9.0)}
    runs |= {gs.mixed(lam=lam): losses for lam, losses in {1.0: (1.05, 5.0), 2.0: (1.06, 6.0), 3.0: (2.0, 1.0)}.items()}
    runs |= {
        gs.mixed(lam=gs.relative(ratio)): losses
        for ratio, losses in {0.1: (1.02, 6.0), 0.3: (1.08, 4.0), 1.0: (1.5, 2.0)}.items()
    }
    for method, (main, aux) in runs.items():
        with lab.Store(tmp_path).run(problem="mine", method=method) as run:
            run.log(step=0, main_train=main, aux_train=aux, main_test=main, aux_test=aux)
    runpy.run_path(str(ROOT / "docs/relative.py"))["main"](str(tmp_path), "mine", "default")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(row[1], row[-6:]) for row in rows] == [
        ("train", ["1", "of", "3", "2", "of", "3"]),
        ("test", ["1", "of", "3", "2", "of", "3"]),
    ]
    assert all(float(row[2]) > 0 for row in rows), "the relative grid leads"
