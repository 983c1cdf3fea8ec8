"""Two fronts compared with the rules that the ledger uses."""

import math

import pytest

from gradsurgery.lab.analysis import interval_of
from gradsurgery.lab.run import RunRecord
from gradsurgery.paper.claims.claim import Claim, Grid, judge
from gradsurgery.paper.claims.fronts import best_mixture, hypervolume_lead, main_at_equal_aux
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


def test_main_at_equal_aux_by_hand():
    records = on_front("bloop", 0.75) + on_front("mixed", 1.0)
    assert main_at_equal_aux("bloop", "mixed", "train")(records) == pytest.approx(dict.fromkeys(range(3), -0.25))


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
