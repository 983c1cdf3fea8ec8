"""Two fronts compared in their common box: by hand, and with the rules that the ledger uses."""

import math

import pytest

from gradsurgery.lab.run import RunRecord
from gradsurgery.paper.claims.claim import Claim, Grid, judge
from gradsurgery.paper.claims.fronts import best_mixture, common_box, fronts_of, hypervolume_lead, main_at_equal_aux
from gradsurgery.paper.claims.interval import interval_of
from gradsurgery.paper.claims.ledger.criteria import ahead, alike
from gradsurgery.paper.claims.rule import Verdict
from tests.paper.claims.synthetic import ending, on_front


def verdicts(statistics, records):
    return [statistic.rule.verdict(interval_of(statistic.measure(records).values())) for statistic in statistics]


CASES = {
    "a clear win": (on_front("bloop", 0.5) + on_front("mixed", 1.0), Verdict.HOLDS),
    "a clear win with noise": (on_front("bloop", 0.5, noise=0.01) + on_front("mixed", 1.0), Verdict.HOLDS),
    "a clear loss": (on_front("bloop", 1.0) + on_front("mixed", 0.5), Verdict.FAILS),
    "no difference": (on_front("bloop", 1.0) + on_front("mixed", 1.0), Verdict.FAILS),
    "seeds that disagree": (on_front("bloop", 0.9, noise=0.3) + on_front("mixed", 1.0), Verdict.UNDECIDED),
    "one seed": (on_front("bloop", 0.5, seeds=1) + on_front("mixed", 1.0, seeds=1), Verdict.UNDECIDED),
    "one method": (on_front("bloop", 0.5), Verdict.UNDECIDED),
    "nothing": ([], Verdict.UNDECIDED),
    "fronts that do not overlap": (
        on_front("bloop", 1.0, auxes=(1.0, 2.0)) + on_front("mixed", 1.0, auxes=(3.0, 4.0)),
        Verdict.UNDECIDED,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bloop_is_ahead_only_where_the_runs_show_it(case):
    records, verdict = CASES[case]
    assert set(verdicts(ahead("bloop", "mixed", "train"), records)) == {verdict}


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, Verdict.HOLDS), (1.01, Verdict.HOLDS), (0.5, Verdict.FAILS), (2.0, Verdict.FAILS)]
)
def test_fronts_are_alike_within_a_twentieth(factor, verdict):
    records = on_front("pcgrad", factor) + on_front("mixed", 1.0)
    assert set(verdicts(alike("pcgrad", "mixed", "train"), records)) == {verdict}


def test_the_box_ends_where_either_front_does():
    """Main from 0.2 to 1 and aux from 1 to 5 for mixed; for bloop main from 0.25 to 0.5 and aux from 2 to 4."""
    records = on_front("mixed") + on_front("bloop", auxes=(2.0, 4.0))
    box = common_box(*(fronts_of(records, method, "train") for method in ("bloop", "mixed")))
    assert (box.main.best, box.main.worst, box.aux.best, box.aux.worst) == (0.25, 0.5, 2.0, 4.0)


def test_hypervolume_by_hand():
    """In the unit box with a margin of a tenth: a corner point dominates all of it, its rival's two ends 0.11 + 0.1."""
    records = []
    for seed in range(2):
        records += [ending("mixed", 1, 1.0, 2.0, seed), ending("mixed", 2, 2.0, 1.0, seed)]
        records += [ending("bloop", lam, main, aux, seed) for lam, main, aux in ((1, 1.0, 2.0), (2, 1.01, 1.01))]
        records.append(ending("bloop", 3, 2.0, 1.0, seed))
    value = hypervolume_lead("bloop", "mixed", "train")(records)[0]
    corner = (1.1 * 0.1 + 1.09 * (1 - 0.01) + 0.1 * 0.01) / 1.21
    assert value == pytest.approx(corner - (1.1 * 0.1 + 0.1 * 1.0) / 1.21)


def test_main_at_equal_aux_by_hand():
    records = on_front("bloop", 0.75) + on_front("mixed", 1.0)
    assert main_at_equal_aux("bloop", "mixed", "train")(records) == pytest.approx(dict.fromkeys(range(3), -0.25))


def test_only_common_aux_values_count():
    """Beyond the range of the other front each method may have any main."""
    records = on_front("bloop", 0.75, auxes=(2.0, 3.0, 4.0)) + on_front("mixed", 1.0)
    records += [ending("mixed", 9, 100.0, 0.5, seed) for seed in range(3)]
    assert main_at_equal_aux("bloop", "mixed", "train")(records)[0] == pytest.approx(-0.25)


def test_dominated_and_unfinished_runs_do_not_count():
    records = on_front("bloop", 0.75) + on_front("mixed", 1.0)
    extra = [ending("mixed", 7, 9.0, 3.0), ending("mixed", 8, 0.0, 0.0, status="failed")]
    extra.append(ending("mixed", 9, math.nan, 1.0))
    for measure in (hypervolume_lead, main_at_equal_aux):
        assert measure("bloop", "mixed", "train")(records + extra) == measure("bloop", "mixed", "train")(records)


def test_the_lowest_mixed_loss():
    """(1 - t) main + t aux is lowest at (0.2, 5) for t = 0, and at (1, 1) for t = 0.5."""
    records = on_front("bloop", 0.5) + on_front("mixed", 1.0)
    assert best_mixture("bloop", "mixed", "train", 0.0)(records)[0] == pytest.approx(-0.5)
    assert best_mixture("bloop", "mixed", "train", 0.5)(records)[0] == pytest.approx(0.75 / 1.0 - 1)


def test_only_seeds_whose_runs_are_all_done_are_judged():
    claim = Claim(
        id="T1",
        sentence="",
        section="",
        problem="lipschitz",
        grids={"demo": Grid("demo", (0, 1), ("mixed", "bloop"), lams=(0.1, 1.0))},
        statistics=ahead("bloop", "mixed", "train"),
        decides="",
    )
    row = {"step": 1.0, "main_train": 1.0, "aux_train": 1.0}
    stored = {run.key: RunRecord(run, "done", {}, (row,)) for run in claim.runs("demo")}
    last = claim.runs("demo")[-1]
    assert len(judge(claim, "demo", stored).records) == 8
    for incomplete in (
        {key: record for key, record in stored.items() if key != last.key},
        {**stored, last.key: RunRecord(last, "failed", {}, (row,))},
    ):
        result = judge(claim, "demo", incomplete)
        assert {record.spec.seed for record in result.records} == {0}
        assert (len(result.records), result.wanted, result.verdict) == (4, 8, Verdict.UNDECIDED)
    assert judge(claim, "demo", {}) is None
    assert judge(claim, "laptop", stored) is None
