"""The claims themselves: their ids, grids and rules, and the mathematics that needs no training."""

import subprocess
import sys
from pathlib import Path

import pytest

import gradsurgery as gs
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import make_method
from gradsurgery.lab.run import Run, RunRecord
from gradsurgery.paper.claims.claim import judge
from gradsurgery.paper.claims.ledger import CLAIMS, SCALES, select
from gradsurgery.paper.claims.rule import Verdict


def test_no_id_is_left_out():
    assert set(CLAIMS) == {f"C{number + 1}" for number in range(len(CLAIMS))}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_has_runs_of_several_seeds(claim):
    assert claim.grids
    assert claim.grids.keys() <= set(SCALES)
    for scale in claim.grids:
        runs = claim.runs(scale)
        assert len({run.seed for run in runs}) >= 3
        assert len({run.key for run in runs}) == len(runs)


@pytest.mark.parametrize("name", ["C12", "C13", "C16", "C17"])
def test_bloop_and_mixed_are_compared_over_five_seeds_where_runs_are_short(name):
    assert len({run.seed for run in CLAIMS[name].runs("laptop")}) == 5


def test_a_grid_is_trained_seed_by_seed():
    seeds = [run.seed for run in CLAIMS["C12"].runs("demo")]
    assert seeds == sorted(seeds)


def test_ids_are_taken_in_either_case_and_once():
    assert [claim.id for claim in select(["c2", "C1", "C2"])] == ["C2", "C1"]
    assert len(select([])) == len(CLAIMS)
    with pytest.raises(UserError, match="there is no claim 'X1'"):
        select(["X1"])


def train_small(claim, **settings):
    """Finished runs of a claim that needs no data, by key, smaller than those of the ledger."""
    stored = {}
    for run in claim.runs("demo"):
        smaller = {**run.settings, **settings}
        spec = run.__class__(**{**vars(run), "settings": smaller})
        typed = claim.declared.typed_settings(smaller)
        rows = claim.declared.train(Run(spec, make_method(run.method, run.lam, run.rho), typed, Path()))
        stored[run.key] = RunRecord(run, "done", {}, tuple(rows))
    return stored


@pytest.mark.parametrize(
    ("name", "settings"),
    [("C1", {"draws": 20}), ("C4", {"points": 20}), ("C5", {"points": 2}), ("C9", {}), ("C10", {"steps": 1})],
)
def test_statements_without_training_hold(name, settings):
    assert judge(CLAIMS[name], "demo", train_small(CLAIMS[name], **settings)).verdict == Verdict.HOLDS


def test_a_wrong_direction_is_detected(monkeypatch):
    monkeypatch.setattr(gs, "bloop", lambda lam, rho: gs.mixed(lam))
    assert judge(CLAIMS["C1"], "demo", train_small(CLAIMS["C1"], draws=20)).verdict == Verdict.FAILS


def test_the_ledger_is_light_to_import():
    code = "import sys, gradsurgery.paper.claims.ledger; sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
